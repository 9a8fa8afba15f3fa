/** Under the map: what loading the rows in the window takes, the button that loads them, and the table of them. */
import type { Box } from "./boxes";
import { el, throttled } from "./dom";
import type { Cell, Host, Page, PageRequest, RowEstimate, RowStatus } from "./model";
import { PagedTable } from "./paged_table";
import { RowShapes } from "./row_shapes";
import { bytesText, countText } from "./value_text";

export interface RowsTarget {
  /** Other rows are drawn, or another one is pointed at. */
  changed(pointed: boolean): void;
  zoomTo(box: Box): void;
  /** What the map shows, in degrees. */
  view(): Box;
  resized(): void;
}

export class RowsPanel {
  readonly element = el("section", { class: "glm-loaded", attributes: { "aria-label": "Rows in the window" } });
  shapes = new RowShapes({});
  /** The row that is pointed at. */
  row: number | null = null;
  private opened = false;
  private asked = "";
  private readonly text = el("div", { class: "glm-rows-text", attributes: { role: "status", "aria-live": "polite" } });
  private readonly problem = el("div", { class: "glm-rows-problem", attributes: { role: "alert" } });
  private readonly meter = el("progress", { class: "glm-progress", attributes: { "aria-label": "Row groups read" } });
  private readonly loadButton: HTMLButtonElement;
  private readonly cancelButton: HTMLButtonElement;
  private readonly clearButton: HTMLButtonElement;
  private readonly table: RowTable;
  private readonly ask = throttled(250, () => this.askForView());

  constructor(
    private readonly host: Host,
    private readonly target: RowsTarget,
    signal: AbortSignal,
  ) {
    const button = (text: string, type: string): HTMLButtonElement =>
      el("button", { class: "glm-action", text, attributes: { type: "button" }, on: { click: () => host.send({ type }) } });
    this.loadButton = button("Load rows", "load_rows");
    this.cancelButton = button("Cancel", "cancel_rows");
    this.clearButton = button("Clear rows", "clear_rows");
    this.cancelButton.classList.add("glm-plain");
    this.clearButton.classList.add("glm-plain");
    this.table = new RowTable(host, { hover: (row) => this.point(row), zoomTo: (box) => target.zoomTo(box) });
    const line = el("div", { class: "glm-rows-line" }, this.text, this.problem, this.meter, this.loadButton, this.cancelButton, this.clearButton);
    this.element.append(line, this.table.element);
    this.sync();
    signal.addEventListener("abort", () => this.ask.cancel());
  }

  /** Whether rows can be loaded on this map. */
  get offered(): boolean {
    return this.host.live && this.host.get("row_status").state !== undefined;
  }

  toggle(): boolean {
    this.opened = this.element.hidden;
    this.sync(true);
    return !this.element.hidden;
  }

  point(row: number | null): void {
    if (row === this.row) return;
    this.row = row;
    this.target.changed(true);
  }

  /** The status has changed. */
  sync(toggled = false): void {
    const status = this.host.get("row_status");
    const { state } = status;
    const before = this.element.hidden;
    if (!toggled && state !== undefined && state !== "none") this.opened = true;
    this.element.hidden = !this.offered || !this.opened;
    const failed = state === "failed";
    this.problem.hidden = !failed;
    this.problem.textContent = failed ? (status.text ?? "") : "";
    this.text.hidden = failed;
    const text = failed ? "" : rowsText(status, this.shapes);
    if (this.text.textContent !== text) this.text.textContent = text;
    this.showButton(state === "loading" ? this.cancelButton : state === "loaded" ? this.clearButton : this.loadButton);
    this.loadButton.disabled = state === "none" || (state === "ready" && status.estimate?.files === 0);
    this.meter.hidden = state !== "loading";
    if (status.total) [this.meter.max, this.meter.value] = [status.total, status.done ?? 0];
    else this.meter.removeAttribute("value");
    this.table.show(state === "loaded" && (status.rows ?? 0) > 0);
    if (state === "loading") this.asked = "";
    if (this.element.hidden !== before) this.target.resized();
    this.ask();
  }

  /** One button takes the place of another, and its focus too. */
  private showButton(shown: HTMLButtonElement): void {
    const buttons = [this.loadButton, this.cancelButton, this.clearButton];
    const focused = buttons.some((button) => button !== shown && button === document.activeElement);
    for (const button of buttons) button.hidden = button !== shown;
    if (focused) shown.focus();
  }

  /** Other rows are drawn. */
  load(): void {
    this.shapes = new RowShapes(this.host.get("row_shapes"));
    this.row = null;
    this.sync();
    this.target.changed(false);
  }

  renderPage(): void {
    this.table.render();
  }

  /** The map shows another part of the world. */
  moved(): void {
    this.ask();
  }

  /** A sample becomes denser where the map zooms in: Python chooses it for what is shown. */
  private askForView(): void {
    const { state, rows = 0 } = this.host.get("row_status");
    if (state !== "loaded" || !this.host.live) return;
    const view = this.target.view();
    const all = this.shapes.drawn === rows;
    if (all || String(view) === this.asked) return;
    this.asked = String(view);
    this.host.send({ type: "row_view", view });
  }
}

class RowTable extends PagedTable {
  readonly element: HTMLElement;
  private readonly hint = el("span", { class: "glm-hint" });

  constructor(
    private readonly host: Host,
    private readonly target: { hover(row: number | null): void; zoomTo(box: Box): void },
  ) {
    super("glm-loaded-rows");
    this.element = el("div", { class: "glm-loaded-table" }, this.body, this.foot);
    this.request = { ...this.request, size: 8 };
    this.element.hidden = true;
  }

  show(visible: boolean): void {
    if (visible && this.element.hidden) this.render();
    this.element.hidden = !visible;
  }

  protected page(): Page {
    return this.host.get("row_page");
  }

  protected load(change: Partial<PageRequest>): void {
    this.request = { ...this.request, ...change };
    this.host.set("row_page_request", this.request);
  }

  protected empty(): string {
    return "No rows.";
  }

  protected leading(): HTMLElement {
    this.hint.textContent = "A click on a row zooms to it.";
    return this.hint;
  }

  protected hover(row: number | null): void {
    this.target.hover(row);
  }

  protected zoomTo(row: number): void {
    const { ids = [], boxes = [] } = this.page();
    const box = boxes[ids.indexOf(row)];
    if (box) this.target.zoomTo(box as unknown as Box);
  }

  protected pick(row: number): void {
    this.zoomTo(row);
  }

  protected isChosen(): boolean {
    return false;
  }

  /** As they are stored: the number of a year or of a road has no separators. */
  protected text(value: Cell): string {
    return value === null ? "–" : String(value);
  }
}

export function rowsText(status: RowStatus, shapes: { readonly drawn: number; readonly inView: number }): string {
  const { state, rows = 0, done = 0, total = 0, text } = status;
  const estimate = estimateText(status.estimate ?? {});
  if (state === "none") return "Draw a window on the map to load the rows in it.";
  if (state === "ready") return estimate;
  if (state === "cancelled") return `Cancelled. ${estimate}`;
  if (state === "loading") return total ? `Loading: ${countText(done)} of ${countText(total)} row groups` : "Loading …";
  if (state !== "loaded") return "";
  const read = `${bytesText(status.bytes ?? 0)} read in ${secondsText(status.seconds ?? 0)}`;
  const parts = rows ? [drawnText(rows, shapes), read] : ["No row lies in the window", read];
  return [...parts, ...(text ? [text] : [])].join(" · ");
}

/** How many of the rows are drawn: "5,000 of 81,234 rows drawn". */
export function drawnText(rows: number, { drawn, inView }: { readonly drawn: number; readonly inView: number }): string {
  if (drawn >= rows) return rows === 1 ? "1 row" : `${countText(rows)} rows`;
  if (inView >= rows) return `${countText(drawn)} of ${countText(rows)} rows drawn`;
  return `${countText(rows)} rows · ${drawn === inView ? "all" : `${countText(drawn)} of`} ${countText(inView)} in view drawn`;
}

export function estimateText({ files, bytes = 0, rows, most, seconds = 0 }: RowEstimate): string {
  if (!files) return "No file has rows in this window.";
  const guess = typeof rows === "number" && rows !== most ? `, about ${countText(rows)} by area,` : "";
  const count = typeof most === "number" ? `Up to ${countText(most)} rows${guess}` : "Rows";
  const where = `${count} in ${countText(files)} ${files === 1 ? "file" : "files"}`;
  return [where, `up to ${bytesText(bytes)} to read`, guessText(seconds)].join(" · ");
}

function guessText(seconds: number): string {
  if (seconds < 1) return "under 1 s";
  return seconds < 90 ? `about ${Math.round(seconds)} s` : `about ${Math.round(seconds / 60)} min`;
}

function secondsText(seconds: number): string {
  if (seconds < 1) return `${Math.max(1, Math.round(1000 * seconds))} ms`;
  return seconds < 10 ? `${seconds.toFixed(1)} s` : `${seconds.toFixed(0)} s`;
}
