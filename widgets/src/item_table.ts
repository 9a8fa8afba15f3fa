/** The table next to the map: paged, sortable, all items or the selected ones. */
import { el, iconButton } from "./dom";
import type { Items } from "./items";
import type { Cell, Host, Page, PageRequest } from "./model";
import { boxText, bytesText, countText, numberText, valueText } from "./value_text";

const ROW = 25;
const NAME = "name";
const BOUNDS = "bounds";

interface Head {
  readonly key: string;
  readonly label: string;
  readonly number: boolean;
  readonly unit?: string;
}

export interface TableTarget {
  items(): Items;
  noun(): string;
  pick(item: number, add: boolean): void;
  hover(item: number | null): void;
  zoomTo(item: number): void;
}

export class ItemTable {
  readonly element = el("section", { class: "glm-side", attributes: { "aria-label": "Table" } });
  private readonly body = el("div", { class: "glm-rows" });
  private readonly foot = el("div", { class: "glm-pager" });
  private readonly which = el("select", { class: "glm-select", attributes: { "aria-label": "Which rows" } });
  private request: PageRequest = { page: 0, size: 10, sort: null, descending: false, selected_only: false };
  /** Rows in the order of the table, for a host without a kernel. */
  private order: Uint32Array | null = null;

  constructor(
    private readonly host: Host,
    private readonly target: TableTarget,
  ) {
    this.which.addEventListener("change", () => this.load({ selected_only: this.which.value === "selected", page: 0 }));
    this.element.append(this.body, this.foot);
  }

  /** Fits the page to a height in pixels. */
  resize(height: number): void {
    const size = Math.max(4, Math.floor((height - ROW - 38) / ROW));
    if (size !== this.request.size) this.load({ size, page: 0 });
  }

  /** The selection has changed: the table shows it, and all items once nothing is selected. */
  follow(selected: boolean): void {
    this.order = null;
    this.load({ selected_only: selected, page: 0 });
  }

  /** The items have changed. */
  reset(): void {
    this.order = null;
    this.load({ page: 0 });
  }

  private get fromPython(): boolean {
    return this.host.live && Array.isArray(this.host.get("page").columns);
  }

  private load(change: Partial<PageRequest>): void {
    this.request = { ...this.request, ...change };
    if ("sort" in change || "descending" in change || "selected_only" in change) this.order = null;
    if (this.element.hidden) return;
    if (this.host.live) this.host.set("page_request", this.request);
    this.render();
  }

  show(visible: boolean): void {
    this.element.hidden = !visible;
    if (visible) this.load({});
  }

  render(): void {
    if (this.element.hidden) return;
    const page = this.fromPython ? this.host.get("page") : this.localPage();
    const heads = (page.columns ?? []).map((column): Head => {
      const head = typeof column === "string" ? { key: column } : column;
      const rows = page.rows ?? [];
      const index = (page.columns ?? []).indexOf(column);
      return { label: head.key, ...head, number: rows.length > 0 && rows.every((row) => row[index] === null || typeof row[index] === "number") };
    });
    const table = el("table", { class: "glm-table" }, el("thead", {}, el("tr", {}, ...heads.map((head) => this.headCell(head)))));
    const body = el("tbody");
    (page.rows ?? []).forEach((row, i) => body.append(this.row(row, heads, page.ids?.[i])));
    table.append(body);
    this.body.replaceChildren(table);
    if (!page.rows?.length) this.body.append(el("div", { class: "glm-empty", text: this.request.selected_only ? "Nothing is selected." : "No rows." }));
    this.renderFoot(page);
  }

  private headCell(head: Head): HTMLElement {
    const sorted = this.request.sort === head.key;
    const arrow = sorted ? (this.request.descending ? " ↓" : " ↑") : "";
    const button = el("button", { text: head.label + arrow, attributes: { type: "button" }, title: `Sort by ${head.label}` });
    button.addEventListener("click", () => this.load({ sort: head.key, descending: sorted && !this.request.descending, page: 0 }));
    const cell = el("th", { class: head.number ? "glm-number" : "", attributes: { scope: "col" } }, button);
    if (sorted) cell.setAttribute("aria-sort", this.request.descending ? "descending" : "ascending");
    return cell;
  }

  private row(row: readonly Cell[], heads: readonly Head[], item: number | undefined): HTMLElement {
    const line = el("tr", { class: item === undefined ? "" : "glm-row" });
    row.forEach((value, i) => {
      const text = cellText(value, heads[i]?.unit);
      line.append(el("td", { class: heads[i]?.number ? "glm-number" : "", text, title: text }));
    });
    if (item === undefined) return line;
    line.tabIndex = 0;
    line.dataset.item = String(item);
    line.setAttribute("aria-selected", String(this.target.items().chosen[item] === 1));
    line.addEventListener("mouseenter", () => this.target.hover(item));
    line.addEventListener("mouseleave", () => this.target.hover(null));
    line.addEventListener("focus", () => this.target.hover(item));
    line.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey) this.target.pick(item, true);
      else this.target.zoomTo(item);
    });
    line.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.target.zoomTo(item);
      else if (event.key === " ") this.target.pick(item, true);
      else return;
      event.preventDefault();
    });
    return line;
  }

  private renderFoot(page: Page): void {
    const [at, pages] = [page.page ?? 0, Math.max(1, page.pages ?? 1)];
    const back = iconButton("previous", "Previous page", () => this.load({ page: at - 1 }));
    const forth = iconButton("next", "Next page", () => this.load({ page: at + 1 }));
    back.disabled = at <= 0;
    forth.disabled = at >= pages - 1;
    const chosen = this.target.items().selected.length;
    this.which.replaceChildren(
      el("option", { text: `All ${this.target.noun()}`, attributes: { value: "all" } }),
      el("option", { text: `Selected (${countText(chosen)})`, attributes: { value: "selected" } }),
    );
    this.which.value = this.request.selected_only ? "selected" : "all";
    const text = `${countText(at + 1)} / ${countText(pages)}`;
    this.foot.replaceChildren(this.which, el("span", { class: "glm-spring" }), back, el("span", { class: "glm-page", text }), forth);
  }

  /** The page from what the browser holds: names, the columns and the bounds. */
  private localPage(): Page {
    const items = this.target.items();
    const { size, selected_only } = this.request;
    this.order ??= this.sorted(selected_only ? items.selected : Uint32Array.from({ length: items.count }, (_, i) => i));
    const total = this.order.length;
    const pages = Math.max(1, Math.ceil(total / size));
    const page = Math.min(this.request.page, pages - 1);
    const ids = [...this.order.subarray(page * size, (page + 1) * size)];
    const columns = [
      { key: NAME, label: "Name" },
      ...items.columns.map(({ key, label, unit }) => ({ key, label, unit })),
      { key: BOUNDS, label: "Bounds" },
    ];
    const rows = ids.map((item): Cell[] => {
      const values = items.columns.map((column): Cell => {
        const value = items.values.get(column.key)?.[item] ?? NaN;
        if (Number.isNaN(value)) return null;
        return column.kind === "category" || column.kind === "time" ? valueText(value, column) : value;
      });
      return [items.nameOf(item), ...values, items.isBroken(item) ? "none" : boxText(items.sidesOf(item))];
    });
    return { columns, rows, ids, page, pages, total };
  }

  private sorted(ids: Uint32Array): Uint32Array {
    const { sort, descending } = this.request;
    const items = this.target.items();
    const sign = descending ? -1 : 1;
    const values = sort ? items.values.get(sort) : undefined;
    if (values) {
      // Unknown values come last in either direction.
      const rank = (item: number): number => (Number.isNaN(values[item]) ? Infinity : values[item] * sign);
      return ids.slice().sort((a, b) => (rank(a) === rank(b) ? a - b : rank(a) - rank(b)));
    }
    if (sort === NAME) {
      const text = new Intl.Collator("en", { numeric: true });
      return ids.slice().sort((a, b) => sign * (text.compare(items.nameOf(a), items.nameOf(b)) || a - b));
    }
    if (sort === BOUNDS) {
      const { degrees } = items.boxes;
      const rank = (item: number): number => (Number.isNaN(degrees[item * 4]) ? Infinity : degrees[item * 4] * sign);
      return ids.slice().sort((a, b) => (rank(a) === rank(b) ? a - b : rank(a) - rank(b)));
    }
    return ids;
  }
}

function cellText(value: Cell, unit?: string): string {
  if (value === null) return "–";
  if (typeof value !== "number") return String(value);
  if (unit === "bytes" || unit === "B") return bytesText(value);
  return numberText(value);
}
