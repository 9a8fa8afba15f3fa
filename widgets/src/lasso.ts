/** Which boxes and outlines a closed line drawn by hand touches. Everything is on Mercator's unit square: what is seen is what counts. */

/** x y x y ...; closed without repeating the first point. */
export type Polygon = Float64Array;

export interface Span {
  readonly x0: number;
  readonly y0: number;
  readonly x1: number;
  readonly y1: number;
}

export function spanOf(points: Polygon): Span {
  let [x0, y0, x1, y1] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let i = 0; i < points.length; i += 2) {
    x0 = Math.min(x0, points[i]);
    x1 = Math.max(x1, points[i]);
    y0 = Math.min(y0, points[i + 1]);
    y1 = Math.max(y1, points[i + 1]);
  }
  return { x0, y0, x1, y1 };
}

/** Even-odd rule. */
export function holds(polygon: Polygon, x: number, y: number): boolean {
  let inside = false;
  for (let i = 0, j = polygon.length - 2; i < polygon.length; j = i, i += 2) {
    const [xi, yi, xj, yj] = [polygon[i], polygon[i + 1], polygon[j], polygon[j + 1]];
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) inside = !inside;
  }
  return inside;
}

/** Whether the piece from (ax, ay) to (bx, by) has a point in the closed box (Liang and Barsky's clipping). */
export function pieceMeetsBox(ax: number, ay: number, bx: number, by: number, x0: number, y0: number, x1: number, y1: number): boolean {
  let enter = 0;
  let leave = 1;
  for (let axis = 0; axis < 2; axis++) {
    const from = axis ? ay : ax;
    const step = axis ? by - ay : bx - ax;
    const low = (axis ? y0 : x0) - from;
    const high = (axis ? y1 : x1) - from;
    if (step === 0) {
      if (low > 0 || high < 0) return false;
      continue;
    }
    enter = Math.max(enter, Math.min(low / step, high / step));
    leave = Math.min(leave, Math.max(low / step, high / step));
    if (enter > leave) return false;
  }
  return true;
}

export function polygonMeetsBox(polygon: Polygon, x0: number, y0: number, x1: number, y1: number): boolean {
  if (holds(polygon, x0, y0)) return true;
  for (let i = 0, j = polygon.length - 2; i < polygon.length; j = i, i += 2) {
    if (pieceMeetsBox(polygon[j], polygon[j + 1], polygon[i], polygon[i + 1], x0, y0, x1, y1)) return true;
  }
  return false;
}

function turn(ax: number, ay: number, bx: number, by: number, cx: number, cy: number): number {
  return Math.sign((bx - ax) * (cy - ay) - (by - ay) * (cx - ax));
}

function piecesCross(a: Polygon, i: number, j: number, b: Polygon, k: number, l: number): boolean {
  const [ax, ay, bx, by] = [a[i], a[i + 1], a[j], a[j + 1]];
  const [cx, cy, dx, dy] = [b[k], b[k + 1], b[l], b[l + 1]];
  return turn(ax, ay, bx, by, cx, cy) !== turn(ax, ay, bx, by, dx, dy) && turn(cx, cy, dx, dy, ax, ay) !== turn(cx, cy, dx, dy, bx, by);
}

export function polygonsMeet(polygon: Polygon, other: Polygon): boolean {
  if (holds(polygon, other[0], other[1]) || holds(other, polygon[0], polygon[1])) return true;
  for (let i = 0, j = polygon.length - 2; i < polygon.length; j = i, i += 2) {
    for (let k = 0, l = other.length - 2; k < other.length; l = k, k += 2) {
      if (piecesCross(polygon, j, i, other, l, k)) return true;
    }
  }
  return false;
}

/** The drawn items that the polygon touches on any copy of the world, ascending. */
export function lassoed(polygon: Polygon, world: Float64Array, ringsOf?: (item: number) => Polygon[] | null): Uint32Array {
  const matches: number[] = [];
  if (polygon.length < 6) return new Uint32Array();
  const span = spanOf(polygon);
  for (let i = 0, at = 0; at < world.length; i++, at += 4) {
    const [x0, y0, x1, y1] = [world[at], world[at + 1], world[at + 2], world[at + 3]];
    if (!(y0 <= span.y1 && y1 >= span.y0)) continue;
    if (x1 - x0 >= 1) {
      if (polygonMeetsBox(polygon, span.x0, y0, span.x1, y1)) matches.push(i);
      continue;
    }
    for (let k = Math.ceil(span.x0 - x1); k <= Math.floor(span.x1 - x0); k++) {
      if (!polygonMeetsBox(polygon, x0 + k, y0, x1 + k, y1)) continue;
      const rings = ringsOf?.(i);
      if (rings && !rings.some((ring) => polygonsMeet(polygon, moved(ring, k)))) continue;
      matches.push(i);
      break;
    }
  }
  return Uint32Array.from(matches);
}

function moved(ring: Polygon, worlds: number): Polygon {
  return worlds ? ring.map((value, i) => (i % 2 ? value : value + worlds)) : ring;
}
