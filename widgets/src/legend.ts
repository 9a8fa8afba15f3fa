/** The key to the colours. */
import { type Rgb, type Tick, cssOf, ticksOf } from "./colour";
import { el } from "./dom";
import type { Items } from "./items";
import type { DrawnOverlay } from "./layers_panel";
import type { Frame } from "./painter";
import type { Palette } from "./palette";
import { countText } from "./value_text";

/** Colours files by whether the query reads them. */
export const READ = "read";

export class Legend {
  readonly element = el("div", { class: "glm-legend glm-control", attributes: { role: "group", "aria-label": "Legend" } });
  private readonly body = el("div");
  private readonly folder = el("button", { class: "glm-fold", title: "Fold the legend", attributes: { type: "button", "aria-label": "Legend panel", "data-label": "Legend", "aria-expanded": "true" } });
  private shown = "";

  constructor() {
    this.element.append(this.folder, this.body);
    this.folder.addEventListener("click", () => {
      const folded = this.element.classList.toggle("glm-folded");
      this.folder.setAttribute("aria-expanded", String(!folded));
      this.folder.title = folded ? "Show the legend" : "Fold the legend";
    });
  }

  /** Redraws the key when something in it has changed: a frame passes here on every move. */
  update(items: Items, palette: Palette, colorBy: string, frame: Frame, noun: string, overlays: readonly DrawnOverlay[]): void {
    const over = overlays.filter(({ visible }) => visible).map(({ overlay, colour }) => [overlay.name, colour]);
    const keys = items.columns.map((column) => column.key);
    const state = JSON.stringify([colorBy, palette.theme, frame.mode, frame.maximum, items.count, countMarks(items), keys, over]);
    if (state === this.shown) return;
    this.shown = state;
    const parts: Node[] = [];
    const column = items.column(colorBy);
    const scale = items.scale(colorBy);
    if (frame.mode !== "outlines" && (!scale || !scale.positions)) {
      parts.push(heading(`Overlap, ${noun} per cell`), ...ramp(palette.ramp, countTicks(frame.maximum)));
      if (column) parts.push(hint(`zoom in to colour by ${column.label.toLowerCase()}`));
    } else if (column && scale) {
      const labelOnly = !column.unit || column.unit === "bytes" || column.unit === column.label.toLowerCase();
      parts.push(heading(labelOnly ? column.label : `${column.label} (${column.unit})`));
      if (scale.positions && scale.ticks.length > 1) parts.push(...ramp(palette.ramp, scale.ticks));
      // Of one value there is one colour.
      else if (scale.positions && scale.unknown < items.count) {
        parts.push(line(cssOf(palette.ramp[palette.ramp.length >> 1]), scale.ticks[0]?.text ?? "", items.count - scale.unknown));
      }
      for (const { text, count, colour } of scale.swatches) {
        parts.push(line(cssOf(colour === null ? palette.unknown : palette.categories[colour]), text, count));
      }
      if (scale.unknown) parts.push(line(cssOf(palette.unknown), "unknown", scale.unknown));
      if (frame.mode === "means") parts.push(hint("mean per cell"));
    } else if (colorBy === "overlap") {
      parts.push(heading(`Overlap, ${noun} per cell`), ...ramp(palette.ramp, countTicks(frame.maximum)));
    }
    parts.push(...markLines(items, palette, colorBy === READ ? "" : colorBy, noun));
    if (colorBy === READ && !items.marks) parts.push(heading("Read or skipped"), hint("draw a query window to see what it reads"));
    if (over.length) parts.push(heading("Layers"), ...over.slice(0, 6).map(([name, colour]) => line(colour, name, null)));
    this.body.replaceChildren(...parts);
    this.element.hidden = parts.length === 0;
  }
}

function countTicks(maximum: number): Tick[] {
  return ticksOf(1, Math.max(2, maximum), { kind: "log" });
}

function countMarks(items: Items): number[] {
  const counts = new Array<number>(items.reasons.length + 2).fill(0);
  if (items.marks) for (const mark of items.marks) counts[Math.min(mark, counts.length - 1)]++;
  return counts;
}

function markLines(items: Items, palette: Palette, colorBy: string, noun: string): Node[] {
  if (!items.marks) return [];
  const [plain, kept, ...skipped] = countMarks(items);
  const lines = [heading(`This query, ${noun}`), line(colorBy ? null : cssOf(palette.plain), "read", plain + kept)];
  const reasons = skipped.map((count, i) => ({ count, text: items.reasons[i] ?? "other" })).filter(({ count }) => count);
  for (const { count, text } of reasons.sort((a, b) => b.count - a.count).slice(0, 4)) {
    lines.push(line(cssOf(palette.faded), `skipped: ${text}`, count));
  }
  return lines;
}

function heading(text: string): HTMLElement {
  return el("div", { class: "glm-legend-title", text });
}

function hint(text: string): HTMLElement {
  return el("div", { class: "glm-hint", text });
}

/** One colour; null is the colour scale above. A layer has no count, and its text may contain a file name: it is truncated. */
function line(colour: string | null, text: string, count: number | null): HTMLElement {
  const swatch = el("span", { class: "glm-swatch" });
  if (colour) swatch.style.background = colour;
  else swatch.classList.add("glm-hollow");
  const label = el("span", { class: "glm-legend-text", text, title: text });
  if (count === null) label.classList.add("glm-legend-layer");
  const counted = count === null ? [] : [el("span", { class: "glm-legend-count", text: countText(count) })];
  return el("div", { class: "glm-legend-line" }, swatch, label, ...counted);
}

function ramp(colours: readonly Rgb[], ticks: readonly Tick[]): HTMLElement[] {
  const bar = el("div", { class: "glm-ramp" });
  bar.style.background = `linear-gradient(to right, ${colours.filter((_, i) => i % 7 === 0).map((colour) => cssOf(colour)).join(", ")})`;
  const marks = ticks.map(({ at, text }) => {
    const tick = el("span", { class: "glm-tick", text });
    tick.style.left = `${at * 100}%`;
    // The labels at the ends stay inside the bar, or the frame would cut them.
    tick.style.transform = `translateX(${-at * 100}%)`;
    return tick;
  });
  return [bar, el("div", { class: "glm-ticks" }, ...marks)];
}
