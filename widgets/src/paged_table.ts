/** A table of one page: heads that sort, rows that can be reached with the keyboard, and a pager. */
import { el, iconButton } from "./dom";
import type { Cell, Page, PageRequest } from "./model";
import { bytesText, countText, numberText } from "./value_text";

interface Head {
  readonly key: string;
  readonly label: string;
  readonly number: boolean;
  readonly unit?: string;
}

export abstract class PagedTable {
  protected readonly body: HTMLElement;
  protected readonly foot = el("div", { class: "glm-pager" });
  private readonly back = iconButton("previous", "Previous page", () => this.turn(-1));
  private readonly forth = iconButton("next", "Next page", () => this.turn(1));
  private readonly pageText = el("span", { class: "glm-page" });
  private at = 0;
  protected request: PageRequest = { page: 0, size: 10, sort: null, descending: false, selected_only: false };

  constructor(name: string) {
    this.body = el("div", { class: name });
  }

  protected abstract page(): Page;
  protected abstract load(change: Partial<PageRequest>): void;
  /** What a table without rows says. */
  protected abstract empty(): string;
  /** What comes before the pager. */
  protected abstract leading(): HTMLElement;
  protected abstract hover(item: number | null): void;
  protected abstract zoomTo(item: number): void;
  protected abstract pick(item: number): void;
  protected abstract isChosen(item: number): boolean;
  protected abstract text(value: Cell, unit?: string): string;

  render(): void {
    const page = this.page();
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
    // The head that sorts keeps the focus of the keyboard.
    const focused = this.body.contains(document.activeElement) ? (document.activeElement as HTMLElement).dataset.key : undefined;
    this.body.replaceChildren(table);
    if (focused !== undefined) this.headButton(focused)?.focus();
    if (!page.rows?.length) this.body.append(el("div", { class: "glm-empty", text: this.empty() }));
    this.renderFoot(page);
  }

  private headButton(key: string): HTMLElement | undefined {
    return [...this.body.querySelectorAll<HTMLElement>("th button")].find((button) => button.dataset.key === key);
  }

  private headCell(head: Head): HTMLElement {
    const sorted = this.request.sort === head.key;
    const arrow = sorted ? (this.request.descending ? " ↓" : " ↑") : "";
    const button = el("button", { text: head.label + arrow, attributes: { type: "button" }, title: `Sort by ${head.label}` });
    button.dataset.key = head.key;
    button.addEventListener("click", () => this.load({ sort: head.key, descending: sorted && !this.request.descending, page: 0 }));
    const cell = el("th", { class: head.number ? "glm-number" : "", attributes: { scope: "col" } }, button);
    if (sorted) cell.setAttribute("aria-sort", this.request.descending ? "descending" : "ascending");
    return cell;
  }

  private row(row: readonly Cell[], heads: readonly Head[], item: number | undefined): HTMLElement {
    const line = el("tr", { class: item === undefined ? "" : "glm-row" });
    row.forEach((value, i) => {
      const text = this.text(value, heads[i]?.unit);
      line.append(el("td", { class: heads[i]?.number ? "glm-number" : "", text, title: text }));
    });
    if (item === undefined) return line;
    line.tabIndex = 0;
    line.dataset.item = String(item);
    line.setAttribute("aria-selected", String(this.isChosen(item)));
    line.addEventListener("mouseenter", () => this.hover(item));
    line.addEventListener("mouseleave", () => this.hover(null));
    line.addEventListener("focus", () => this.hover(item));
    line.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey) this.pick(item);
      else this.zoomTo(item);
    });
    line.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.zoomTo(item);
      else if (event.key === " ") this.pick(item);
      else return;
      event.preventDefault();
    });
    return line;
  }

  private turn(by: number): void {
    this.load({ page: this.at + by });
  }

  private renderFoot(page: Page): void {
    const pages = Math.max(1, page.pages ?? 1);
    this.at = page.page ?? 0;
    this.back.disabled = this.at <= 0;
    this.forth.disabled = this.at >= pages - 1;
    this.pageText.textContent = `${countText(this.at + 1)} / ${countText(pages)}`;
    const leading = this.leading();
    if (leading.parentElement === this.foot) return;
    this.foot.replaceChildren(leading, el("span", { class: "glm-spring" }), this.back, this.pageText, this.forth);
  }
}

export function cellText(value: Cell, unit?: string): string {
  if (value === null) return "–";
  if (typeof value !== "number") return String(value);
  if (unit === "bytes" || unit === "B") return bytesText(value);
  return numberText(value);
}
