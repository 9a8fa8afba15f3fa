/** Hovering and selecting. */
import type { ItemCard, RowCard } from "./hover_card";
import type { Items } from "./items";
import type { Host } from "./model";
import type { Painter } from "./painter";
import { type Point, worldPoint } from "./pointing";
import type { RowsPanel } from "./rows_panel";

export class Picking {
  hovered: number | null = null;
  private frame = 0;
  private last: { point: Point; item: number } | null = null;

  constructor(
    private readonly host: Host,
    private readonly items: () => Items,
    private readonly painter: Painter,
    private readonly card: ItemCard,
    private readonly rowCard: RowCard,
    private readonly rows: () => RowsPanel,
    private readonly surface: HTMLElement,
    private readonly run: (work: () => void) => void,
  ) {}

  /** Looks with the next frame what is under the pointer. */
  hoverSoon(point: Point): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.run(() => this.hover(point)));
  }

  hover(point: Point): void {
    const view = this.painter.view();
    const { x, y } = worldPoint(point, view);
    // A row is smaller than its file, and was asked for.
    const [row, ...others] = this.rows().shapes.at(x, y, view);
    if (row !== undefined) {
      this.card.hide();
      this.highlight(null);
      this.rows().point(row);
      this.rowCard.show(row, others.length, point.x, point.y, view.width, view.height);
      this.surface.dataset.over = "item";
      return;
    }
    this.rowCard.hide();
    this.rows().point(null);
    const matches = this.items().at(x, y, view);
    if (!matches.length) {
      this.unhover();
      return;
    }
    this.highlight(matches[0]);
    this.card.show(matches[0], matches.length - 1, point.x, point.y, view.width, view.height);
    this.surface.dataset.over = "item";
  }

  unhover(): void {
    cancelAnimationFrame(this.frame);
    this.card.hide();
    this.rowCard.hide();
    this.rows().point(null);
    this.highlight(null);
    this.surface.dataset.over = "";
  }

  highlight(item: number | null): void {
    if (item === this.hovered) return;
    this.hovered = item;
    this.painter.schedule(true);
  }

  /** Selects the smallest item under a point; another click there takes the next larger one. */
  click(point: Point, add: boolean): void {
    const view = this.painter.view();
    const { x, y } = worldPoint(point, view);
    const matches = this.items().at(x, y, view);
    if (!matches.length) {
      if (!add) this.select(new Uint32Array(), "set");
      return;
    }
    const again = this.last && Math.hypot(point.x - this.last.point.x, point.y - this.last.point.y) < 4;
    const next = again && !add ? (matches.indexOf(this.last?.item ?? -1) + 1) % matches.length : 0;
    this.last = { point, item: matches[next] };
    this.select(Uint32Array.of(matches[next]), add ? "toggle" : "set");
    this.card.show(matches[next], matches.length - 1, point.x, point.y, view.width, view.height);
    this.highlight(matches[next]);
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
