/** Under the map: how many items there are, what could not be drawn, and the slider over versions. */
import { el, throttled } from "./dom";
import type { Items } from "./items";
import type { Notes } from "./model";
import { countText } from "./value_text";
import { nounOf } from "./verdict_bar";

export interface FootTarget {
  /** Selects the items that a note refers to, so that the table lists them. */
  list(kind: "no_bounds" | "flagged"): void;
  version(version: number): void;
}

export class FootLine {
  readonly element = el("div", { class: "glm-foot" });
  private readonly counts = el("span", { class: "glm-counts", attributes: { "aria-live": "polite" } });
  private readonly notes = el("span", { class: "glm-notes" });
  private readonly versions = el("label", { class: "glm-versions" });
  private readonly slider = el("input", { attributes: { type: "range", min: "0", step: "1", "aria-label": "Version" } });
  private readonly versionText = el("output");
  private known: readonly number[] = [];

  constructor(private readonly target: FootTarget) {
    const send = throttled(200, (version: number) => target.version(version));
    this.slider.addEventListener("input", () => {
      const version = this.known[Number(this.slider.value)];
      this.versionText.textContent = `v${version}`;
      send(version);
    });
    this.versions.append(el("span", { text: "Version" }), this.slider, this.versionText);
    this.element.append(this.counts, this.notes, el("span", { class: "glm-spring" }), this.versions);
  }

  showCounts(items: Items, noun: string): void {
    const chosen = items.selected.length ? ` · ${countText(items.selected.length)} selected` : "";
    this.counts.textContent = `${countText(items.count)} ${nounOf(items.count, noun)}${chosen}`;
  }

  /** What Python counted wins over what the browser sees. */
  showNotes(items: Items, notes: Notes): void {
    const { boxes } = items;
    const without = notes.no_bounds ?? boxes.withoutBounds;
    const flagged = notes.flagged ?? boxes.flagged;
    const parts: Node[] = [];
    if (without) parts.push(this.note("no_bounds", `${countText(without)} without bounds`, boxes.withoutBounds > 0));
    if (flagged) parts.push(this.note("flagged", `${countText(flagged)} flagged`, boxes.flagged > 0));
    for (const [text, count] of notes.problems ?? []) {
      parts.push(el("span", { class: "glm-note", text: `${text}: ${countText(Number(count))}` }));
    }
    this.notes.replaceChildren(...parts);
  }

  showVersions(versions: readonly number[], version: number): void {
    this.known = versions;
    this.versions.hidden = versions.length < 2;
    this.slider.max = String(Math.max(0, versions.length - 1));
    const at = versions.indexOf(version);
    this.slider.value = String(at < 0 ? versions.length - 1 : at);
    this.versionText.textContent = `v${at < 0 ? (versions[versions.length - 1] ?? "") : version}`;
    this.slider.setAttribute("aria-valuetext", this.versionText.textContent);
  }

  private note(kind: "no_bounds" | "flagged", text: string, listed: boolean): HTMLElement {
    if (!listed) return el("span", { class: "glm-note", text });
    const button = el("button", { class: `glm-note glm-${kind}`, text, title: "List them in the table", attributes: { type: "button" } });
    button.addEventListener("click", () => this.target.list(kind));
    return button;
  }
}
