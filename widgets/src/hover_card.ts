/** What is under the pointer. */
import { FINE, NO_BOUNDS, OUT_OF_RANGE } from "./boxes";
import { el } from "./dom";
import type { Items } from "./items";
import type { Column, Host } from "./model";
import { boxText, countText, valueText } from "./value_text";

export type Field = readonly [label: string, value: string];

/** How many descriptions from Python are kept. */
const KEPT = 500;
/** Columns of a row on its card. */
const SHOWN = 12;

/** A card whose fields the browser knows, or asks Python for. */
export abstract class HoverCard {
  readonly element: HTMLElement;
  private readonly described = new Map<number, Field[]>();
  private asking: ReturnType<typeof setTimeout> | undefined;
  private item: number | null = null;
  private others = 0;
  private at: readonly [x: number, y: number, width: number, height: number] = [0, 0, 0, 0];

  constructor(
    protected readonly host: Host,
    private readonly question: string,
    private readonly answer: string,
    name: string,
  ) {
    this.element = el("div", { class: name, attributes: { role: "tooltip" } });
    this.element.hidden = true;
  }

  /** Whether the browser can fill the card alone. */
  protected abstract knows(item: number): boolean;
  protected abstract content(item: number, fields: readonly Field[] | undefined, others: number): (HTMLElement | null)[];

  show(item: number, others: number, x: number, y: number, width: number, height: number): void {
    this.item = item;
    this.others = others;
    this.at = [x, y, width, height];
    this.element.hidden = false;
    this.fill();
    this.request(item);
  }

  /** Beside the pointer, and within the map. */
  private place(): void {
    const [x, y, width, height] = this.at;
    const [w, h] = [this.element.offsetWidth, this.element.offsetHeight];
    const left = x + 14 + w > width ? x - 14 - w : x + 14;
    const top = y + 14 + h > height ? y - 14 - h : y + 14;
    this.element.style.left = `${Math.max(4, Math.min(left, width - w - 4))}px`;
    this.element.style.top = `${Math.max(4, Math.min(top, height - h - 4))}px`;
  }

  hide(): void {
    this.item = null;
    this.element.hidden = true;
    clearTimeout(this.asking);
  }

  /** Forgets the descriptions of items that no longer exist. */
  reset(): void {
    this.described.clear();
    this.hide();
  }

  receive(message: unknown): void {
    const { type, id, fields } = (message ?? {}) as { type?: string; id?: number; fields?: unknown };
    if (type !== this.answer || typeof id !== "number" || !Array.isArray(fields)) return;
    if (this.described.size >= KEPT) this.described.clear();
    this.described.set(id, fields.filter(Array.isArray).map(([label, value]) => [String(label), String(value)] as const));
    if (this.item === id) this.fill();
  }

  /** Python gets a request only where the pointer rests: the server limits how many messages it takes. */
  private request(item: number): void {
    clearTimeout(this.asking);
    if (!this.host.live || this.described.has(item) || this.knows(item)) return;
    this.asking = setTimeout(() => this.host.send({ type: this.question, id: item }), 150);
  }

  private fill(): void {
    if (this.item === null) return;
    const parts = this.content(this.item, this.described.get(this.item), this.others);
    this.element.replaceChildren(...parts.filter((part) => part !== null));
    this.place();
  }
}

/** The card of a file, or of another item that is a box. */
export class ItemCard extends HoverCard {
  constructor(
    host: Host,
    private readonly items: () => Items,
  ) {
    super(host, "describe", "description", "glm-card");
  }

  protected knows(item: number): boolean {
    return this.items().names[item] !== undefined;
  }

  protected content(item: number, fields: readonly Field[] | undefined, others: number): (HTMLElement | null)[] {
    const items = this.items();
    const reason = items.reasonOf(item);
    const verdict = items.marks?.[item] === 1 ? "read by this query" : reason ? `skipped: ${reason}` : null;
    return [
      el("div", { class: "glm-card-name", text: items.nameOf(item) }),
      ...fieldLines(fields ?? fieldsOf(items, item)),
      verdict ? el("div", { class: reason ? "glm-skipped" : "glm-read", text: verdict }) : null,
      others ? el("div", { class: "glm-hint", text: `${countText(others)} more here; click again for the next` }) : null,
    ];
  }
}

/** The card of a loaded row: its columns. */
export class RowCard extends HoverCard {
  constructor(host: Host) {
    super(host, "describe_row", "row_description", "glm-row-card");
  }

  protected knows(): boolean {
    return false;
  }

  protected content(row: number, fields: readonly Field[] | undefined, others: number): (HTMLElement | null)[] {
    const left = (fields?.length ?? 0) - SHOWN;
    return [
      el("div", { class: "glm-card-name", text: `Row ${countText(row + 1)}` }),
      ...fieldLines(fields?.slice(0, SHOWN) ?? []),
      left > 0 ? el("div", { class: "glm-hint", text: `${countText(left)} more columns in the table` }) : null,
      others ? el("div", { class: "glm-hint", text: `${countText(others)} more rows here` }) : null,
    ];
  }
}

function fieldLines(fields: readonly Field[]): HTMLElement[] {
  return fields.map(([label, value]) => el("div", { class: "glm-field" }, el("span", { text: label }), el("span", { text: value })));
}

export function fieldsOf(items: Items, item: number): Field[] {
  const fields: Field[] = items.columns.map((column) => [column.label, valueText(items.values.get(column.key)?.[item] ?? NaN, bare(column))]);
  const flag = items.boxes.flags[item];
  const sides = items.sidesOf(item);
  if (flag === NO_BOUNDS) return [...fields, ["Bounds", "none"]];
  const wraps = sides[0] > sides[2] ? " (crosses 180°)" : "";
  fields.push(["Bounds", flag === FINE || flag === OUT_OF_RANGE ? `${boxText(sides)}${wraps}` : sides.join(", ")]);
  if (flag !== FINE) fields.push(["Flag", flag === OUT_OF_RANGE ? "out of range" : "not a box"]);
  return fields;
}

/** The column without a unit that its label already has: "Rows 12", not "Rows 12 rows". */
function bare(column: Column): Column {
  return column.unit === column.label.toLowerCase() ? { ...column, unit: undefined } : column;
}
