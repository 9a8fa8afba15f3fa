/** Lines and rings cut to a rectangle, so that what is far outside the view costs nothing to draw. */

import type { Span } from "./lasso";

export function inside(inner: Span, outer: Span): boolean {
  return inner.x0 >= outer.x0 && inner.x1 <= outer.x1 && inner.y0 >= outer.y0 && inner.y1 <= outer.y1;
}

export function meets(one: Span, other: Span): boolean {
  return one.x0 <= other.x1 && one.x1 >= other.x0 && one.y0 <= other.y1 && one.y1 >= other.y0;
}

/** The pieces of a line inside a rectangle (Liang and Barsky, segment by segment). */
export function clipLine(points: Float64Array, rect: Span): Float64Array[] {
  const pieces: Float64Array[] = [];
  let piece: number[] = [];
  const end = (): void => {
    if (piece.length > 2) pieces.push(Float64Array.from(piece));
    piece = [];
  };
  for (let i = 2; i < points.length; i += 2) {
    const [x, y, dx, dy] = [points[i - 2], points[i - 1], points[i] - points[i - 2], points[i + 1] - points[i - 1]];
    let [from, to] = [0, 1];
    for (const [step, low, high] of [
      [dx, rect.x0 - x, rect.x1 - x],
      [dy, rect.y0 - y, rect.y1 - y],
    ]) {
      if (step === 0) {
        if (low > 0 || high < 0) to = -1;
        continue;
      }
      from = Math.max(from, (step > 0 ? low : high) / step);
      to = Math.min(to, (step > 0 ? high : low) / step);
    }
    if (from > to) {
      end();
      continue;
    }
    if (!piece.length || from > 0) {
      end();
      piece.push(x + from * dx, y + from * dy);
    }
    piece.push(x + to * dx, y + to * dy);
    if (to < 1) end();
  }
  end();
  return pieces;
}

/** The part of a ring inside a rectangle (Sutherland and Hodgman); what it adds runs along the rectangle. */
export function clipRing(points: Float64Array, rect: Span): Float64Array {
  let ring: ArrayLike<number> = points;
  const sides: [axis: 0 | 1, limit: number, sign: 1 | -1][] = [
    [0, rect.x0, 1],
    [0, rect.x1, -1],
    [1, rect.y0, 1],
    [1, rect.y1, -1],
  ];
  for (const [axis, limit, sign] of sides) {
    const kept: number[] = [];
    const count = ring.length;
    for (let i = 0; i < count; i += 2) {
      const before = (i || count) - 2;
      const [here, last] = [sign * (ring[i + axis] - limit), sign * (ring[before + axis] - limit)];
      if (here >= 0 !== last >= 0) {
        const part = last / (last - here);
        kept.push(ring[before] + part * (ring[i] - ring[before]), ring[before + 1] + part * (ring[i + 1] - ring[before + 1]));
      }
      if (here >= 0) kept.push(ring[i], ring[i + 1]);
    }
    ring = kept;
  }
  return Float64Array.from(ring);
}
