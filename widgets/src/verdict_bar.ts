/** The query window in numbers, and what a query over it reads. */
import type { Box } from "./boxes";
import { el, iconButton } from "./dom";
import { type Verdict, windowOf } from "./model";
import { boxText, bytesText, countText } from "./value_text";

export class VerdictBar {
  readonly element = el("div", { class: "glm-verdict glm-control" });
  private readonly field = el("input", { class: "glm-input", attributes: { type: "text", "aria-label": "Window: xmin, ymin, xmax, ymax in degrees", spellcheck: "false" } });
  private readonly line = el("div", { class: "glm-verdict-line" });
  private readonly text = el("div", { class: "glm-verdict-text", attributes: { "aria-live": "polite", role: "status" } });
  private readonly meter = el("div", { class: "glm-meter" }, el("div"));

  constructor(changed: (window: Box | null) => void) {
    const clear = iconButton("close", "Clear the window", () => changed(null));
    this.field.addEventListener("change", () => {
      const window = windowOf(this.field.value.split(/[\s,;]+/).filter(Boolean).map(Number));
      this.field.setAttribute("aria-invalid", String(!window));
      if (window) changed(window);
    });
    this.line.append(this.field, clear);
    this.element.append(this.line, this.text, this.meter);
    this.element.hidden = true;
  }

  update(window: Box | null, verdict: Verdict, pending: boolean, noun: string): void {
    const text = verdictText(verdict, noun);
    this.element.hidden = !window && !text;
    this.line.hidden = !window;
    if (this.element.hidden) return;
    if (window && document.activeElement !== this.field) this.field.value = boxText(window);
    this.field.setAttribute("aria-invalid", "false");
    this.element.dataset.pending = String(pending);
    if (this.text.textContent !== text) this.text.textContent = text;
    const { files = 0, files_read: read = 0 } = verdict;
    this.meter.hidden = !files;
    (this.meter.firstChild as HTMLElement).style.width = `${files ? Math.max(read ? 1 : 0, (100 * read) / files) : 0}%`;
  }
}

export function verdictText(verdict: Verdict, noun: string): string {
  const { files, files_read: read, bytes, bytes_read: size, text } = verdict;
  const parts: string[] = [];
  if (files !== undefined && read !== undefined) parts.push(`${countText(read)} of ${countText(files)} ${noun} read`);
  if (bytes !== undefined && size !== undefined) parts.push(`${bytesText(size)} of ${bytesText(bytes)}`);
  if (text) parts.push(text);
  return parts.join(" · ");
}
