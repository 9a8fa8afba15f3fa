/** What the pointer draws: a box or a lasso that selects, or the query window. Plain moving is left to Leaflet. */
import type { Box } from "./boxes";
import { type View, latitudeOf, longitudeOf } from "./mercator";
import { windowBetween } from "./model";
import { type Rubber, windowSpan } from "./painter";

export type Tool = "pan" | "box" | "lasso" | "window";

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface PointingTarget {
  view(): View;
  window(): Box | null;
  rubber(shape: Rubber | null): void;
  box(window: Box, add: boolean): void;
  lasso(polygon: Float64Array, add: boolean): void;
  setWindow(window: Box | null, done: boolean): void;
  click(at: Point, add: boolean): void;
}

/** Pixels that a press may wander and still be a click. */
const SLACK = 4;
const HANDLE = 9;

interface Grip {
  readonly start: Point;
  /** The corner that stays, on the unit square, when a corner is pulled; null when the whole window moves. */
  readonly fixed: Point | null;
  readonly origin: { x0: number; y0: number; x1: number; y1: number };
}

export function worldPoint({ x, y }: Point, view: View): Point {
  return { x: view.x + x / view.scale, y: view.y + y / view.scale };
}

/** The latitude of a point; on and past Mercator's edge it is the pole, so that files there can be queried. */
function latitude(y: number): number {
  return y <= 0 ? 90 : y >= 1 ? -90 : latitudeOf(y);
}

export function boxBetween(from: Point, to: Point): Box {
  return windowBetween(longitudeOf(from.x), latitude(from.y), longitudeOf(to.x), latitude(to.y));
}

export class Pointing {
  tool: Tool = "pan";
  private points: Point[] = [];
  private active: Exclude<Tool, "pan"> | null = null;
  private grip: Grip | null = null;

  constructor(
    private readonly surface: HTMLElement,
    private readonly target: PointingTarget,
    signal: AbortSignal,
  ) {
    const listen = (name: "pointerdown" | "pointermove" | "pointerup" | "pointercancel", callback: (event: PointerEvent) => void): void =>
      surface.addEventListener(name, callback, { signal, capture: true });
    listen("pointerdown", (event) => this.press(event));
    listen("pointermove", (event) => this.move(event));
    listen("pointerup", (event) => this.release(event));
    listen("pointercancel", () => this.cancel());
  }

  get busy(): boolean {
    return this.active !== null;
  }

  cancel(): void {
    this.active = null;
    this.grip = null;
    this.points = [];
    this.target.rubber(null);
  }

  private pointOf(event: PointerEvent): Point {
    const frame = this.surface.getBoundingClientRect();
    return { x: event.clientX - frame.left - this.surface.clientLeft, y: event.clientY - frame.top - this.surface.clientTop };
  }

  private press(event: PointerEvent): void {
    const tool = this.tool === "pan" && event.shiftKey ? "box" : this.tool;
    const onControl = event.target instanceof Element && event.target.closest(".glm-control");
    if (event.button !== 0 || tool === "pan" || onControl) return;
    this.active = tool;
    this.points = [this.pointOf(event)];
    this.grip = tool === "window" ? this.gripAt(this.points[0]) : null;
    this.surface.setPointerCapture(event.pointerId);
  }

  private move(event: PointerEvent): void {
    const here = this.pointOf(event);
    if (!this.active) {
      if (this.tool === "window") this.surface.dataset.grip = this.gripAt(here) ? "yes" : "no";
      return;
    }
    const last = this.points[this.points.length - 1];
    if (this.active === "lasso" && Math.hypot(here.x - last.x, here.y - last.y) < 3) return;
    this.points = this.active === "lasso" ? [...this.points, here] : [this.points[0], here];
    if (this.active === "window") {
      const shape = this.wandered() ? this.windowTo(here) : null;
      if (shape) this.target.setWindow(shape, false);
    } else {
      this.target.rubber({ kind: this.active, points: this.points });
    }
  }

  private release(event: PointerEvent): void {
    const { active } = this;
    if (!active) return;
    const here = this.pointOf(event);
    const add = event.ctrlKey || event.metaKey;
    const view = this.target.view();
    if (!this.wandered()) {
      if (!this.grip) this.target.click(here, add);
    } else if (active === "window") {
      this.target.setWindow(this.windowTo(here), true);
    } else if (active === "box") {
      this.target.box(boxBetween(worldPoint(this.points[0], view), worldPoint(here, view)), add);
    } else {
      const polygon = new Float64Array(this.points.length * 2);
      this.points.forEach((point, i) => {
        const { x, y } = worldPoint(point, view);
        polygon.set([x, y], i * 2);
      });
      this.target.lasso(polygon, add);
    }
    this.cancel();
  }

  private wandered(): boolean {
    const [first] = this.points;
    return this.points.some((point) => Math.hypot(point.x - first.x, point.y - first.y) >= SLACK);
  }

  private windowTo(here: Point): Box {
    const view = this.target.view();
    const end = worldPoint(here, view);
    const { grip } = this;
    if (!grip) return boxBetween(worldPoint(this.points[0], view), end);
    if (grip.fixed) return boxBetween(grip.fixed, end);
    const start = worldPoint(grip.start, view);
    const { x0, y0, x1, y1 } = grip.origin;
    // The window stops at the edges of the map with its size kept.
    const down = Math.min(1 - y1, Math.max(-y0, end.y - start.y));
    return boxBetween({ x: x0 + end.x - start.x, y: y0 + down }, { x: x1 + end.x - start.x, y: y1 + down });
  }

  /** What a press on the drawn window takes hold of: a corner, or the whole. */
  private gripAt(here: Point): Grip | null {
    const window = this.target.window();
    if (!window) return null;
    const view = this.target.view();
    const span = windowSpan(window);
    const at = worldPoint(here, view);
    const reach = HANDLE / view.scale;
    for (let k = Math.ceil(at.x - reach - span.x1); k <= Math.floor(at.x + reach - span.x0); k++) {
      const origin = { x0: span.x0 + k, y0: span.y0, x1: span.x1 + k, y1: span.y1 };
      const side = Math.abs(at.x - origin.x0) <= reach ? origin.x1 : Math.abs(at.x - origin.x1) <= reach ? origin.x0 : null;
      const end = Math.abs(at.y - origin.y0) <= reach ? origin.y1 : Math.abs(at.y - origin.y1) <= reach ? origin.y0 : null;
      if (side !== null && end !== null) return { start: here, fixed: { x: side, y: end }, origin };
      if (at.x >= origin.x0 && at.x <= origin.x1 && at.y >= origin.y0 && at.y <= origin.y1) return { start: here, fixed: null, origin };
    }
    return null;
  }
}
