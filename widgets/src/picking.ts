/** Hovering and selecting. */
import type { HoverCard } from "./hover_card";
import type { Items } from "./items";
import type { Host } from "./model";
import type { Painter } from "./painter";
import { type Place, worldPlace } from "./pointing";

export class Picking {
  hovered: number | null = null;
  private frame = 0;
  private last: { place: Place; item: number } | null = null;

  constructor(
    private readonly host: Host,
    private readonly items: () => Items,
    private readonly painter: Painter,
    private readonly card: HoverCard,
    private readonly surface: HTMLElement,
    private readonly run: (work: () => void) => void,
  ) {}

  /** Looks with the next frame what is under the pointer. */
  hoverSoon(place: Place): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.run(() => this.hover(place)));
  }

  hover(place: Place): void {
    const view = this.painter.view();
    const { x, y } = worldPlace(place, view);
    const found = this.items().at(x, y, view);
    if (!found.length) {
      this.unhover();
      return;
    }
    this.highlight(found[0]);
    this.card.show(found[0], found.length - 1, place.x, place.y, view.width, view.height);
    this.surface.dataset.over = "item";
  }

  unhover(): void {
    cancelAnimationFrame(this.frame);
    this.card.hide();
    this.highlight(null);
    this.surface.dataset.over = "";
  }

  highlight(item: number | null): void {
    if (item === this.hovered) return;
    this.hovered = item;
    this.painter.schedule(true);
  }

  /** Selects the smallest item under a place; another click there takes the next larger one. */
  click(place: Place, add: boolean): void {
    const view = this.painter.view();
    const { x, y } = worldPlace(place, view);
    const found = this.items().at(x, y, view);
    if (!found.length) {
      if (!add) this.select(new Uint32Array(), "set");
      return;
    }
    const again = this.last && Math.hypot(place.x - this.last.place.x, place.y - this.last.place.y) < 4;
    const next = again && !add ? (found.indexOf(this.last?.item ?? -1) + 1) % found.length : 0;
    this.last = { place, item: found[next] };
    this.select(Uint32Array.of(found[next]), add ? "toggle" : "set");
    this.card.show(found[next], found.length - 1, place.x, place.y, view.width, view.height);
    this.highlight(found[next]);
  }

  select(ids: Uint32Array, how: "set" | "add" | "toggle"): void {
    const now = this.items().selected;
    let chosen = ids;
    if (how !== "set") {
      const set = new Set(now);
      for (const id of ids) if (!(how === "toggle" && set.delete(id))) set.add(id);
      chosen = Uint32Array.from(set);
    }
    if (!chosen.length && !now.length) return;
    const sorted = chosen.slice().sort();
    this.host.set("selected_items", new DataView(sorted.buffer));
  }
}
