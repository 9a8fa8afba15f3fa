/** The table next to the map: paged, sortable, all items or the selected ones. */
import { el } from "./dom";
import type { Items } from "./items";
import type { Cell, Host, Page, PageRequest } from "./model";
import { PagedTable, cellText } from "./paged_table";
import { boxText, countText, valueText } from "./value_text";

const ROW = 25;
const NAME = "name";
const BOUNDS = "bounds";

export interface TableTarget {
  items(): Items;
  noun(): string;
  pick(item: number, add: boolean): void;
  hover(item: number | null): void;
  zoomTo(item: number): void;
}

export class ItemTable extends PagedTable {
  readonly element = el("section", { class: "glm-side", attributes: { "aria-label": "Table" } });
  private readonly which = el("select", { class: "glm-select", attributes: { "aria-label": "Which rows" } });
  /** Rows in the order of the table, for a host without a kernel. */
  private order: Uint32Array | null = null;

  constructor(
    private readonly host: Host,
    private readonly target: TableTarget,
  ) {
    super("glm-rows");
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

  protected load(change: Partial<PageRequest>): void {
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

  override render(): void {
    if (!this.element.hidden) super.render();
  }

  protected page(): Page {
    return this.fromPython ? this.host.get("page") : this.localPage();
  }

  protected empty(): string {
    return this.request.selected_only ? "Nothing is selected." : "No rows.";
  }

  protected leading(): HTMLElement {
    const chosen = this.target.items().selected.length;
    this.which.replaceChildren(
      el("option", { text: `All ${this.target.noun()}`, attributes: { value: "all" } }),
      el("option", { text: `Selected (${countText(chosen)})`, attributes: { value: "selected" } }),
    );
    this.which.value = this.request.selected_only ? "selected" : "all";
    return this.which;
  }

  protected hover(item: number | null): void {
    this.target.hover(item);
  }

  protected zoomTo(item: number): void {
    this.target.zoomTo(item);
  }

  protected pick(item: number): void {
    this.target.pick(item, true);
  }

  protected isChosen(item: number): boolean {
    return this.target.items().chosen[item] === 1;
  }

  protected text(value: Cell, unit?: string): string {
    return cellText(value, unit);
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
