/** The tree of a catalog: namespaces that load as they are opened, a search field, and what is known of each table. */
import css from "./catalog_tree.css";
import { el } from "./dom";
import type { WidgetModel } from "./hosts";
import { themeNow, watchTheme } from "./theme";

export interface Node {
  id: number;
  /** -1 at the top. */
  parent: number;
  label: string;
  name: string;
  kind: "namespace" | "table" | "folder";
}

export interface Details {
  /** The texts of the columns, in their order. */
  cells?: string[];
  problem?: string;
}

export interface Row {
  node: Node;
  depth: number;
}

/** The rows to show: below open namespaces, or every table whose name holds the words that are searched for. */
export function visibleRows(nodes: readonly Node[], expanded: ReadonlySet<number>, search: string): Row[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length) {
    const matches = nodes.filter(({ kind, name }) => kind !== "namespace" && words.every((word) => name.toLowerCase().includes(word)));
    return matches.map((node) => ({ node, depth: 0 }));
  }
  const below = new Map<number, Node[]>();
  for (const node of nodes) below.set(node.parent, [...(below.get(node.parent) ?? []), node]);
  const rows: Row[] = [];
  const add = (parent: number, depth: number): void => {
    for (const node of below.get(parent) ?? []) {
      rows.push({ node, depth });
      if (expanded.has(node.id)) add(node.id, depth + 1);
    }
  };
  add(-1, 0);
  return rows;
}

/** The row that a key leads to, from the row with the focus. */
export function rowAfter(key: string, index: number, count: number): number | null {
  const to = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: count - 1, PageDown: index + 10, PageUp: index - 10 }[key];
  return to === undefined || !count ? null : Math.min(Math.max(to, 0), count - 1);
}

class CatalogTree {
  private readonly abort = new AbortController();
  private readonly element = el("div", { class: "glc-tree" });
  private readonly search = el("input", { attributes: { type: "search", placeholder: "Search tables", "aria-label": "Search tables by name", spellcheck: "false" } });
  private readonly load = el("button", { text: "Load details", attributes: { type: "button" }, on: { click: () => this.model.send({ type: "details" }) } });
  private readonly cancel = el("button", { text: "Cancel", attributes: { type: "button" }, on: { click: () => this.model.send({ type: "cancel" }) } });
  private readonly map = el("button", { text: "Show on map", attributes: { type: "button" }, on: { click: () => this.model.send({ type: "map" }) } });
  private readonly status = el("span", { class: "glc-status", attributes: { role: "status", "aria-live": "polite" } });
  private readonly body = el("tbody");
  private readonly head = el("tr", { attributes: { role: "row" } });
  private readonly empty = el("div", { class: "glc-empty", text: "No tables match." });
  private rows: Row[] = [];
  private readonly expanded = new Set<number>();
  private focused = 0;

  constructor(parent: HTMLElement, private readonly model: WidgetModel) {
    const title = String(model.get("title"));
    const grid = el("table", { attributes: { role: "treegrid", "aria-label": title } }, el("thead", {}, this.head), this.body);
    const bar = el("div", { class: "glc-bar" }, this.search, this.load, this.cancel, this.map, this.status);
    this.element.append(el("style", { text: css }), bar, el("div", { class: "glc-scroll" }, grid, this.empty));
    parent.append(this.element);
    this.search.addEventListener("input", () => this.draw());
    this.body.addEventListener("focusin", (event) => {
      const index = [...this.body.children].findIndex((line) => line.contains(event.target as globalThis.Node));
      if (index >= 0) this.focused = index;
    });
    this.body.addEventListener("keydown", (event) => this.key(event));
    for (const name of ["nodes", "details", "columns", "selected"]) this.on(name, () => this.draw());
    this.on("progress", () => this.say());
    const paint = (): void => void (this.element.dataset.theme = themeNow("auto"));
    watchTheme(paint, this.abort.signal);
    paint();
    this.say();
    this.draw();
  }

  destroy(): void {
    this.abort.abort();
    this.element.remove();
  }

  private on(name: string, callback: () => void): void {
    this.model.on(`change:${name}`, callback);
    this.abort.signal.addEventListener("abort", () => this.model.off(`change:${name}`, callback));
  }

  private say(): void {
    const { text = "", running = false } = this.model.get("progress") as { text?: string; running?: boolean };
    this.status.textContent = text;
    this.cancel.hidden = !running;
    this.load.disabled = running;
  }

  private draw(): void {
    const columns = this.model.get("columns") as string[];
    this.head.replaceChildren(...["table", ...columns].map((name, i) => el("th", { text: name, class: i > 4 ? "glc-wide" : "", attributes: { scope: "col" } })));
    this.rows = visibleRows(this.model.get("nodes") as Node[], this.expanded, this.search.value);
    this.focused = Math.min(this.focused, Math.max(this.rows.length - 1, 0));
    const details = this.model.get("details") as Record<string, Details>;
    const hadFocus = this.body.contains(document.activeElement);
    this.body.replaceChildren(...this.rows.map((row, index) => this.line(row, index, details[String(row.node.id)] ?? {}, columns.length)));
    this.empty.hidden = this.rows.length > 0;
    if (hadFocus) this.focus(this.focused);
  }

  private line({ node, depth }: Row, index: number, known: Details, columns: number): HTMLElement {
    const opens = node.kind !== "table" && !this.search.value;
    const open = this.expanded.has(node.id);
    const sign = el("span", { class: "glc-sign", text: opens ? (open ? "▾" : "▸") : "", attributes: { "aria-hidden": "true" } });
    const label = el("td", { attributes: { role: "gridcell" } }, sign, document.createTextNode(this.search.value ? node.name : node.label));
    label.style.paddingLeft = `${8 + 18 * depth}px`;
    const cells = known.problem
      ? [el("td", { class: "glc-problem", text: known.problem, attributes: { role: "gridcell", colspan: String(columns) } })]
      : Array.from({ length: columns }, (_, i) => el("td", { text: known.cells?.[i] ?? "", class: i > 3 ? "glc-wide" : "", attributes: { role: "gridcell" } }));
    const attributes: Record<string, string> = {
      role: "row",
      tabindex: index === this.focused ? "0" : "-1",
      "aria-level": String(depth + 1),
      "aria-selected": String(node.id === this.model.get("selected")),
    };
    if (opens) attributes["aria-expanded"] = String(open);
    return el("tr", { attributes, on: { click: () => this.act(index) } }, label, ...cells);
  }

  private act(index: number): void {
    const row = this.rows[index];
    if (!row) return;
    this.focused = index;
    const { id, kind } = row.node;
    if (kind === "table" || this.search.value) this.model.send({ type: "open", id });
    else this.toggle(id, !this.expanded.has(id));
    this.focus(index);
  }

  private toggle(id: number, open: boolean): void {
    if (open) {
      this.expanded.add(id);
      this.model.send({ type: "expand", id });
    } else this.expanded.delete(id);
    this.draw();
  }

  private focus(index: number): void {
    const lines = this.body.children;
    (lines[this.focused] as HTMLElement | undefined)?.setAttribute("tabindex", "-1");
    this.focused = index;
    const line = lines[index] as HTMLElement | undefined;
    line?.setAttribute("tabindex", "0");
    line?.focus();
  }

  private key(event: KeyboardEvent): void {
    const row = this.rows[this.focused];
    if (!row) return;
    const to = rowAfter(event.key, this.focused, this.rows.length);
    const opens = row.node.kind !== "table" && !this.search.value;
    if (to !== null) this.focus(to);
    else if (event.key === "Enter" || event.key === " ") this.act(this.focused);
    else if (event.key === "ArrowRight" && opens && !this.expanded.has(row.node.id)) this.toggle(row.node.id, true);
    else if (event.key === "ArrowLeft" && opens && this.expanded.has(row.node.id)) this.toggle(row.node.id, false);
    else return;
    // The notebook would move between its cells.
    event.preventDefault();
    event.stopPropagation();
  }
}

function render({ model, el: parent }: { model: WidgetModel; el: HTMLElement }): () => void {
  const tree = new CatalogTree(parent, model);
  return () => tree.destroy();
}

export default { render };
