/** The query window in numbers, what a query over it reads, and the window as text to paste elsewhere. */
import type { Box } from "./boxes";
import { el, iconButton } from "./dom";
import { type Verdict, typedWindow, windowWkt } from "./model";
import { boxText, bytesText, countText } from "./value_text";

export interface VerdictTarget {
  changed(window: Box | null): void;
  undo(): void;
}

export class VerdictBar {
  readonly element = el("div", { class: "glm-verdict glm-control", attributes: { role: "group", "aria-label": "Query window" } });
  private readonly field = el("input", {
    class: "glm-input",
    attributes: { type: "text", "aria-label": "Query window: xmin, ymin, xmax, ymax in degrees", placeholder: "xmin, ymin, xmax, ymax", spellcheck: "false" },
  });
  private readonly line = el("div", { class: "glm-verdict-line" });
  private readonly problem = el("div", { class: "glm-verdict-problem", attributes: { role: "alert" } });
  private readonly text = el("div", { class: "glm-verdict-text", attributes: { "aria-live": "polite", role: "status" } });
  private readonly meter = el("div", { class: "glm-meter" }, el("div"));
  private readonly undoButton: HTMLButtonElement;
  private readonly clearButton: HTMLButtonElement;
  private readonly copies = el("select", { class: "glm-select", attributes: { "aria-label": "Copy the query window" } });
  private readonly folder = el("button", { class: "glm-fold", attributes: { type: "button", "aria-label": "Verdict panel", "data-label": "Verdict" } });
  private folded = false;
  private active = false;
  private window: Box | null = null;
  private verdict: Verdict = {};

  constructor(target: VerdictTarget) {
    this.clearButton = iconButton("close", "Clear the window", () => target.changed(null));
    this.undoButton = iconButton("undo", "Back to the last window", () => target.undo());
    this.field.addEventListener("change", () => {
      const window = typedWindow(this.field.value);
      this.showProblem(typeof window === "string" ? window : "");
      if (typeof window !== "string") target.changed(window);
    });
    this.field.addEventListener("input", () => this.showProblem(""));
    this.copies.addEventListener("change", () => void this.copy(this.copies.value));
    this.folder.addEventListener("click", () => {
      this.folded = !this.folded;
      this.fold();
    });
    this.line.append(this.field, this.undoButton, this.clearButton, this.copies);
    this.element.append(this.folder, this.line, this.problem, this.text, this.meter);
    this.showProblem("");
    this.fold();
    this.element.hidden = true;
  }

  /** The tool draws windows now: coordinates can be typed before there is a window. */
  setActive(active: boolean, canUndo: boolean): void {
    this.active = active;
    this.undoButton.disabled = !canUndo;
    this.show();
  }

  update(window: Box | null, verdict: Verdict, pending: boolean, noun: string): void {
    const text = verdictText(verdict, noun);
    [this.window, this.verdict] = [window, verdict];
    if (document.activeElement !== this.field || window === null) {
      this.field.value = window ? boxText(window) : "";
      this.showProblem("");
    }
    this.element.dataset.pending = String(pending);
    if (this.text.textContent !== text) this.text.textContent = text;
    const { files = 0, files_read: read = 0 } = verdict;
    this.meter.hidden = !files;
    (this.meter.firstChild as HTMLElement).style.width = `${files ? Math.max(read ? 1 : 0, (100 * read) / files) : 0}%`;
    this.show();
  }

  private show(): void {
    this.line.hidden = !this.window && !this.active;
    this.element.hidden = this.line.hidden && !this.text.textContent;
    this.clearButton.disabled = this.copies.disabled = !this.window;
    const ways = [["", "Copy"], ["bbox", "as bbox"], ["wkt", "as WKT"], ...(this.verdict.sql ? [["sql", "as SQL"]] : [])];
    if (this.copies.options.length !== ways.length) {
      this.copies.replaceChildren(...ways.map(([value, text]) => el("option", { text, attributes: { value } })));
    }
  }

  /** What was typed cannot be read: the verdict, which is that of the last window, gives way to the reason. */
  private showProblem(problem: string): void {
    this.problem.textContent = problem;
    this.problem.hidden = !problem;
    this.text.hidden = Boolean(problem);
    this.meter.style.display = problem ? "none" : "";
    this.field.setAttribute("aria-invalid", String(Boolean(problem)));
  }

  private fold(): void {
    this.element.classList.toggle("glm-folded", this.folded);
    this.folder.setAttribute("aria-expanded", String(!this.folded));
    this.folder.title = this.folded ? "Show the verdict" : "Fold the verdict";
  }

  private async copy(way: string): Promise<void> {
    this.copies.value = "";
    if (!this.window || !way) return;
    const text = way === "sql" ? (this.verdict.sql ?? "") : way === "wkt" ? windowWkt(this.window) : this.window.join(",");
    const first = this.copies.options[0];
    try {
      await navigator.clipboard.writeText(text);
      first.text = "Copied";
    } catch {
      // Without a permission, the text is there to be copied by hand.
      this.field.value = text;
      this.field.select();
      first.text = "Selected";
    }
    setTimeout(() => (first.text = "Copy"), 1500);
  }
}

export function verdictText(verdict: Verdict, noun: string): string {
  const { files, files_read: read, bytes, bytes_read: size, text } = verdict;
  const parts: string[] = [];
  if (files !== undefined && read !== undefined) parts.push(`${countText(read)} of ${countText(files)} ${nounOf(files, noun)} read`);
  if (bytes !== undefined && size !== undefined) parts.push(`${bytesText(size)} of ${bytesText(bytes)}`);
  if (text) parts.push(text);
  return parts.join(" · ");
}

/** The noun in the number that goes with a count: it is a plural with an s. */
export function nounOf(count: number, noun: string): string {
  return count === 1 ? noun.replace(/s$/, "") : noun;
}
