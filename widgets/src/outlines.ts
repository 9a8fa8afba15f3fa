/** Draws boxes, outlines and overlays on a canvas. */
import { touches } from "./boxes";
import { STEPS, type Rgb, UNKNOWN, cssOf } from "./colour";
import { type Items, SMALLEST } from "./items";
import { type View, copies } from "./mercator";
import { type PixelSheet, inkOf } from "./pixel_sheet";

export interface OutlineStyle {
  readonly colour: Rgb;
  readonly alpha?: number;
  readonly width?: number;
  /** Whether outlines that are not boxes are drawn finely, which is for a few of them. */
  readonly fine?: boolean;
}

/** Fills the insides of items that are large enough to have one. */
export function fillItems(context: CanvasRenderingContext2D, items: Items, view: View, ids: ArrayLike<number>, colour: Rgb, alpha: number): void {
  const shapes = new Path2D();
  context.fillStyle = cssOf(colour, alpha);
  eachShown(items, view, ids, (at, rings, moved) => {
    for (const ring of rings ?? []) if (!tiny(ring, view)) ringPath(shapes, ring, view, moved);
    if (rings) return;
    const [left, top, w, h] = pixelBox(items.boxes.world, at, view, moved);
    if (w > SMALLEST && h > SMALLEST) context.fillRect(left, top, w, h);
  });
  context.fill(shapes);
}

/** Draws the outlines of many items in one style into the sheet; those that have to be fine, onto the canvas. */
export function drawItems(context: CanvasRenderingContext2D, sheet: PixelSheet, items: Items, view: View, ids: ArrayLike<number>, style: OutlineStyle): void {
  const { colour, alpha = 1, width = 1, fine = false } = style;
  const ink = inkOf(colour, alpha);
  const shapes = new Path2D();
  eachShown(items, view, ids, (at, rings, moved) => {
    for (const ring of rings ?? []) {
      if (tiny(ring, view)) sheet.box(...dotOf(ring, view, moved), SMALLEST, ink);
      else if (fine) outlinePath(shapes, ring, view, moved, isCut(rings ?? []));
      else sheet.ring(ring, view, moved, width, ink);
    }
    if (rings) return;
    const [left, top, w, h] = pixelBox(items.boxes.world, at, view, moved);
    sheet.box(left, top, w, h, w <= SMALLEST || h <= SMALLEST ? SMALLEST : width, ink);
  });
  context.strokeStyle = cssOf(colour, alpha);
  context.lineWidth = width;
  context.stroke(shapes);
}

/** Calls for each item in view, on every copy of the world. */
function eachShown(items: Items, view: View, ids: ArrayLike<number>, draw: (at: number, rings: readonly Float64Array[] | undefined, moved: number) => void): void {
  const { world } = items.boxes;
  for (let n = 0; n < ids.length; n++) {
    const at = ids[n] * 4;
    if (!touches(world, at, view)) continue;
    const rings = items.rings.get(ids[n]);
    eachCopy(view, world[at], world[at + 2], (moved) => draw(at, rings, moved));
  }
}

/** Draws a few items so that they stand out: dashed, or with a halo. */
export function drawMarked(context: CanvasRenderingContext2D, items: Items, view: View, ids: ArrayLike<number>, style: { stroke: string; width: number; halo?: string; dashed?: boolean }): void {
  const { world } = items.boxes;
  const lines = new Path2D();
  const dots = new Path2D();
  for (let n = 0; n < ids.length; n++) {
    const at = ids[n] * 4;
    if (!touches(world, at, view)) continue;
    const rings = items.rings.get(ids[n]);
    eachCopy(view, world[at], world[at + 2], (moved) => {
      if (rings) {
        for (const ring of rings) {
          if (tiny(ring, view)) dots.rect(...dotOf(ring, view, moved));
          else outlinePath(lines, ring, view, moved, isCut(rings));
        }
        return;
      }
      const [left, top, w, h] = pixelBox(world, at, view, moved).map(Math.round);
      if (w <= SMALLEST || h <= SMALLEST) dots.rect(left, top, w, h);
      else lines.rect(left + 0.5, top + 0.5, w - 1, h - 1);
    });
  }
  if (style.halo) strokePaths(context, lines, dots, style.halo, style.width + 2.5, true);
  context.setLineDash(style.dashed ? [4, 3] : []);
  strokePaths(context, lines, dots, style.stroke, style.width);
  context.setLineDash([]);
}

function strokePaths(context: CanvasRenderingContext2D, lines: Path2D, dots: Path2D, colour: string, width: number, around = false): void {
  context.strokeStyle = colour;
  context.fillStyle = colour;
  context.lineWidth = width;
  context.stroke(lines);
  if (around) context.stroke(dots);
  else context.fill(dots);
}

/** Left, top, width and height in pixels. A point becomes a dot, a line keeps its length: both can be seen and pointed at. */
function pixelBox(world: Float64Array, at: number, view: View, moved: number): [number, number, number, number] {
  const left = clamp((world[at] + moved - view.x) * view.scale, view.width);
  const top = clamp((world[at + 1] - view.y) * view.scale, view.height);
  const w = clamp((world[at + 2] + moved - view.x) * view.scale, view.width) - left;
  const h = clamp((world[at + 3] - view.y) * view.scale, view.height) - top;
  if (w > SMALLEST && h > SMALLEST) return [left, top, w, h];
  const thick = w <= SMALLEST && h <= SMALLEST ? SMALLEST : SMALLEST / 2;
  const [wide, high] = [Math.max(w, thick), Math.max(h, thick)];
  // What lies beyond Mercator's limit is drawn just inside the edge of the map: past it nothing is seen.
  const [north, south] = [-view.y * view.scale, (1 - view.y) * view.scale - high];
  return [left + (w - wide) / 2, Math.min(south, Math.max(north, top + (h - high) / 2)), wide, high];
}

/** Calls with each shift, in worlds, that brings a shape into view; one that is wider than the world comes once. */
export function eachCopy(view: View, x0: number, x1: number, draw: (moved: number) => void): void {
  const [first, last] = copies(view, x0, x1);
  if (x1 - x0 > 1) {
    if (first <= last) draw(Math.round((first + last) / 2));
    return;
  }
  for (let k = first; k <= last; k++) draw(k);
}

// Far outside the canvas a line is not seen, and huge numbers make the rasteriser slow.
function clamp(pixel: number, size: number): number {
  return Math.min(size + 20, Math.max(-20, pixel));
}

function tiny(ring: Float64Array, view: View): boolean {
  const reach = SMALLEST / view.scale;
  for (let i = 2; i < ring.length; i += 2) {
    if (Math.abs(ring[i] - ring[0]) > reach || Math.abs(ring[i + 1] - ring[1]) > reach) return false;
  }
  return true;
}

/** Left, top, width and height of the dot that a tiny ring is drawn as. */
function dotOf(ring: Float64Array, view: View, moved: number): [number, number, number, number] {
  return [(ring[0] + moved - view.x) * view.scale - SMALLEST / 2, (ring[1] - view.y) * view.scale - SMALLEST / 2, SMALLEST, SMALLEST];
}

function ringPath(path: Path2D, ring: Float64Array, view: View, moved: number): void {
  for (let i = 0; i < ring.length; i += 2) {
    const [x, y] = [(ring[i] + moved - view.x) * view.scale, (ring[i + 1] - view.y) * view.scale];
    if (i) path.lineTo(x, y);
    else path.moveTo(x, y);
  }
  path.closePath();
}

const cuts = new WeakMap<readonly Float64Array[], boolean>();

/** Whether a shape that lies on both sides of the antimeridian, or all around the world, was cut there. */
function isCut(rings: readonly Float64Array[]): boolean {
  let cut = cuts.get(rings);
  if (cut === undefined) {
    const spans = rings.map((ring) => spanOf(ring));
    cut = spans.some(([, x1]) => Number.isInteger(x1)) && spans.some(([x0]) => Number.isInteger(x0));
    cuts.set(rings, cut);
  }
  return cut;
}

/** The least and the greatest x. */
function spanOf(ring: Float64Array): [number, number] {
  let [x0, x1] = [Infinity, -Infinity];
  for (let i = 0; i < ring.length; i += 2) {
    x0 = Math.min(x0, ring[i]);
    x1 = Math.max(x1, ring[i]);
  }
  return [x0, x1];
}

/** A ring to be stroked; a cut along the antimeridian is not an edge of the shape. */
function outlinePath(path: Path2D, ring: Float64Array, view: View, moved: number, cut: boolean): void {
  if (!cut) {
    ringPath(path, ring, view, moved);
    return;
  }
  const pixel = (i: number): [number, number] => [(ring[i] + moved - view.x) * view.scale, (ring[i + 1] - view.y) * view.scale];
  let drawing = false;
  for (let i = 0; i < ring.length; i += 2) {
    const next = (i + 2) % ring.length;
    const edge = !(ring[i] === ring[next] && Number.isInteger(ring[i]));
    if (edge && !drawing) path.moveTo(...pixel(i));
    if (edge) path.lineTo(...pixel(next));
    drawing = edge;
  }
}

/** The visible items, one list per step of the scale; list `STEPS` holds those without a value. */
export function bucketsOf(items: Items, view: View, steps: Uint8Array | null): { lit: number[][]; faded: number[]; flagged: number[] } {
  const lit = Array.from({ length: STEPS + 1 }, (): number[] => []);
  const faded: number[] = [];
  const flagged: number[] = [];
  const { world, flags, count } = items.boxes;
  for (let i = 0; i < count; i++) {
    if (!touches(world, i * 4, view)) continue;
    if (flags[i]) flagged.push(i);
    else if (items.lit && !items.lit[i]) faded.push(i);
    else lit[steps ? (steps[i] === UNKNOWN ? STEPS : steps[i]) : 0].push(i);
  }
  return { lit, faded, flagged };
}

/** A drawn part of an overlay: parts outside the view cost a comparison. */
export function drawOverlay(context: CanvasRenderingContext2D, view: View, kind: string, parts: readonly Float64Array[], colour: string): void {
  const path = new Path2D();
  for (const part of parts) {
    const [x0, x1] = spanOf(part);
    let [y0, y1] = [Infinity, -Infinity];
    for (let i = 0; i < part.length; i += 2) {
      y0 = Math.min(y0, part[i + 1]);
      y1 = Math.max(y1, part[i + 1]);
    }
    if (!(y0 <= view.y + view.height / view.scale && y1 >= view.y)) continue;
    eachCopy(view, x0, x1, (moved) => {
      if (kind === "points") {
        for (let i = 0; i < part.length; i += 2) {
          path.rect(Math.round((part[i] + moved - view.x) * view.scale) - 1.5, Math.round((part[i + 1] - view.y) * view.scale) - 1.5, 3, 3);
        }
        return;
      }
      if (kind === "rings") {
        outlinePath(path, part, view, moved, isCut(parts));
        return;
      }
      for (let i = 0; i < part.length; i += 2) {
        const [x, y] = [(part[i] + moved - view.x) * view.scale, (part[i + 1] - view.y) * view.scale];
        if (i) path.lineTo(x, y);
        else path.moveTo(x, y);
      }
    });
  }
  if (kind === "points") {
    context.fillStyle = colour;
    context.fill(path);
    return;
  }
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.setLineDash(kind === "rings" ? [5, 3] : []);
  context.stroke(path);
  context.setLineDash([]);
}
