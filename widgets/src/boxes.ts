/** Where the boxes lie: checked, placed on Mercator's square, and indexed for exact window queries. */
import Flatbush from "flatbush";
import { type View, worldX, worldY } from "./mercator";

/** xmin, ymin, xmax, ymax in degrees; xmin > xmax crosses the antimeridian. */
export type Box = readonly [number, number, number, number];

export const FINE = 0;
/** All four sides are NaN: the file has no bounds. */
export const NO_BOUNDS = 1;
/** Drawn where its numbers point to, and flagged: a side lies outside ±180 or ±90. */
export const OUT_OF_RANGE = 2;
/** Cannot be drawn: a side is NaN or infinite, or ymin > ymax. */
export const BROKEN = 3;

/** Degrees by which a bound that ends at a pole may be rounded outward. */
const ROUNDING = 1e-9;

export interface Boxes {
  readonly count: number;
  /** Four sides in degrees per item, as sent. */
  readonly degrees: Float64Array;
  /** Left, top, right, bottom on the unit square; right > 1 past the antimeridian; NaN when not drawn. */
  readonly world: Float64Array;
  readonly flags: Uint8Array;
  readonly withoutBounds: number;
  readonly flagged: number;
}

export function flagOf(xmin: number, ymin: number, xmax: number, ymax: number): number {
  if (Number.isNaN(xmin) && Number.isNaN(ymin) && Number.isNaN(xmax) && Number.isNaN(ymax)) return NO_BOUNDS;
  const finite = Number.isFinite(xmin) && Number.isFinite(ymin) && Number.isFinite(xmax) && Number.isFinite(ymax);
  if (!finite || ymin > ymax) return BROKEN;
  if (Math.max(Math.abs(xmin), Math.abs(xmax)) > 180 + ROUNDING) return xmin > xmax ? BROKEN : OUT_OF_RANGE;
  return Math.max(-ymin, ymax) > 90 + ROUNDING ? OUT_OF_RANGE : FINE;
}

export function placeBoxes(degrees: Float64Array): Boxes {
  const count = degrees.length / 4;
  const world = new Float64Array(count * 4);
  const flags = new Uint8Array(count);
  let withoutBounds = 0;
  let flagged = 0;
  for (let i = 0, at = 0; i < count; i++, at += 4) {
    const xmin = degrees[at];
    const xmax = degrees[at + 2];
    const flag = flagOf(xmin, degrees[at + 1], xmax, degrees[at + 3]);
    flags[i] = flag;
    if (flag === NO_BOUNDS) withoutBounds++;
    else if (flag !== FINE) flagged++;
    if (flag === NO_BOUNDS || flag === BROKEN) {
      world.fill(NaN, at, at + 4);
      continue;
    }
    world[at] = worldX(xmin);
    world[at + 1] = worldY(degrees[at + 3]);
    world[at + 2] = worldX(xmin > xmax ? xmax + 360 : xmax);
    world[at + 3] = worldY(degrees[at + 1]);
  }
  return { count, degrees, world, flags, withoutBounds, flagged };
}

/** Whether an item is on the view, on any copy of the world. */
export function touches(world: Float64Array, at: number, view: View): boolean {
  const bottom = view.y + view.height / view.scale;
  if (!(world[at + 1] <= bottom && world[at + 3] >= view.y)) return false;
  return Math.floor(view.x + view.width / view.scale - world[at]) >= Math.ceil(view.x - world[at + 2]);
}

/** How many items are on the view; counting ends above the limit. */
export function countVisible(boxes: Boxes, view: View, limit: number): number {
  let count = 0;
  for (let at = 0; at < boxes.world.length && count <= limit; at += 4) {
    if (touches(boxes.world, at, view)) count++;
  }
  return count;
}

export class BoxIndex {
  private readonly tree: Flatbush | null;
  private readonly items: Uint32Array;
  private readonly seen: Uint8Array;

  constructor(boxes: Boxes) {
    const { degrees, flags, count } = boxes;
    let entries = 0;
    for (let i = 0; i < count; i++) {
      if (flags[i] === FINE || flags[i] === OUT_OF_RANGE) entries += degrees[i * 4] > degrees[i * 4 + 2] ? 2 : 1;
    }
    this.items = new Uint32Array(entries);
    this.seen = new Uint8Array(count);
    this.tree = entries ? new Flatbush(entries) : null;
    if (!this.tree) return;
    for (let i = 0, next = 0; i < count; i++) {
      if (flags[i] === NO_BOUNDS || flags[i] === BROKEN) continue;
      const at = i * 4;
      const [xmin, ymin, xmax, ymax] = [degrees[at], degrees[at + 1], degrees[at + 2], degrees[at + 3]];
      // Two parts instead of xmax + 360: no sum, so that no comparison is ever rounded.
      if (xmin > xmax) {
        this.items[next++] = i;
        this.tree.add(xmin, ymin, 180, ymax);
        this.items[next++] = i;
        this.tree.add(-180, ymin, xmax, ymax);
      } else {
        this.items[next++] = i;
        this.tree.add(xmin, ymin, xmax, ymax);
      }
    }
    this.tree.finish();
  }

  /** The items whose box shares a point with the window, ascending; touching counts. */
  window([xmin, ymin, xmax, ymax]: Box): Uint32Array {
    const parts: Box[] = xmin > xmax ? [[xmin, ymin, Infinity, ymax], [-Infinity, ymin, xmax, ymax]] : [[xmin, ymin, xmax, ymax]];
    return this.collect(parts);
  }

  /** The items within a tolerance (in degrees) of a point, on whatever copy of the world it was pointed at. */
  near(longitude: number, latitude: number, dx: number, dy: number): Uint32Array {
    const x = longitude - 360 * Math.floor((longitude + 180) / 360);
    return this.collect([-360, 0, 360].map((turn) => [x + turn - dx, latitude - dy, x + turn + dx, latitude + dy]));
  }

  private collect(parts: Box[]): Uint32Array {
    const { tree, items, seen } = this;
    const matches: number[] = [];
    if (tree) {
      const take = (entry: number): boolean => {
        const item = items[entry];
        if (!seen[item]) {
          seen[item] = 1;
          matches.push(item);
        }
        return false;
      };
      for (const part of parts) tree.search(...part, take);
    }
    for (const item of matches) seen[item] = 0;
    return Uint32Array.from(matches).sort();
  }
}

/** The smallest span that holds the drawn boxes of some items (all of them by default), as a box that may wrap. */
export function extentOf(boxes: Boxes, items?: Uint32Array): Box | null {
  const { world, degrees } = boxes;
  const length = items ? items.length : boxes.count;
  let [west, south, east, north] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let i = 0; i < length; i++) {
    const at = (items ? items[i] : i) * 4;
    if (Number.isNaN(world[at])) continue;
    west = Math.min(west, degrees[at]);
    south = Math.min(south, degrees[at + 1]);
    east = Math.max(east, degrees[at] > degrees[at + 2] ? degrees[at + 2] + 360 : degrees[at + 2]);
    north = Math.max(north, degrees[at + 3]);
  }
  if (south > north) return null;
  const [start, width] = widestGap(world, items ?? null, length);
  // A map cut at the antimeridian is what the eye knows: another cut must leave out clearly more.
  if (west >= -180 && east <= 180 && 360 - (east - west) >= width * 360 - 2) return [west, south, east, north];
  if (width < 1 / 12) return [-180, south, 180, north];
  const cut = start + width / 2;
  let [first, last] = [1, 0];
  for (let i = 0; i < length; i++) {
    const at = (items ? items[i] : i) * 4;
    if (Number.isNaN(world[at])) continue;
    const from = world[at] - cut - Math.floor(world[at] - cut);
    first = Math.min(first, from);
    last = Math.max(last, from + world[at + 2] - world[at]);
  }
  const degree = (x: number): number => (x - Math.floor(x)) * 360 - 180;
  return [degree(cut + first), south, degree(cut + last), north];
}

/** The longest stretch of longitude without a box: where it starts on the unit circle, and its length. */
function widestGap(world: Float64Array, items: Uint32Array | null, length: number): [number, number] {
  const bins = 1440;
  const steps = new Int32Array(bins + 1);
  for (let i = 0; i < length; i++) {
    const at = (items ? items[i] : i) * 4;
    if (Number.isNaN(world[at])) continue;
    const first = Math.floor((world[at] - Math.floor(world[at])) * bins);
    const last = first + Math.min(bins - 1, Math.floor((world[at + 2] - world[at]) * bins) + 1);
    steps[first]++;
    if (last < bins) steps[last + 1]--;
    else {
      steps[0]++;
      steps[last - bins + 1]--;
    }
  }
  const filled = new Uint8Array(bins);
  for (let i = 0, depth = 0; i < bins; i++) {
    depth += steps[i];
    filled[i] = depth > 0 ? 1 : 0;
  }
  let best: [number, number] = [0, 0];
  for (let i = 0, run = 0; i < bins * 2 && run < bins; i++) {
    run = filled[i % bins] ? 0 : run + 1;
    if (run > best[1]) best = [(i - run + 1) % bins, run];
  }
  return [best[0] / bins, best[1] / bins];
}
