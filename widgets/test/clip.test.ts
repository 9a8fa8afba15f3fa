/** Lines and rings cut to a rectangle, against what a dense walk along the line and the area of polygons say. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { clipLine, clipRing } from "../src/clip";
import { randomFrom } from "./random";

const RECT = { x0: 0.25, y0: 0.25, x1: 0.75, y1: 0.75 };

function shoelace(ring: Float64Array): number {
  let sum = 0;
  for (let i = 0, j = ring.length - 2; i < ring.length; j = i, i += 2) sum += ring[j] * ring[i + 1] - ring[i] * ring[j + 1];
  return Math.abs(sum) / 2;
}

function lengthOf(line: Float64Array): number {
  let sum = 0;
  for (let i = 2; i < line.length; i += 2) sum += Math.hypot(line[i] - line[i - 2], line[i + 1] - line[i - 1]);
  return sum;
}

test("a line that leaves and comes back is cut into its pieces", () => {
  const pieces = clipLine(Float64Array.of(0, 0.5, 0.5, 0.5, 0.5, 2, 0.6, 2, 0.6, 0.5), RECT);
  assert.deepEqual(
    pieces.map((piece) => [...piece]),
    [
      [0.25, 0.5, 0.5, 0.5, 0.5, 0.75],
      [0.6, 0.75, 0.6, 0.5],
    ],
  );
});

test("a line outside leaves nothing, and one inside stays whole", () => {
  assert.deepEqual(clipLine(Float64Array.of(0, 0, 1, 0), RECT), []);
  assert.deepEqual(clipLine(Float64Array.of(0, 0.2, 0.2, 0.8, 0.2, 0.9), RECT), []);
  const line = Float64Array.of(0.3, 0.3, 0.4, 0.7, 0.3, 0.3);
  assert.deepEqual(clipLine(line, RECT), [line]);
});

test("pieces are as long as the part of the line inside, for a thousand lines", () => {
  const next = randomFrom(7);
  for (let n = 0; n < 1000; n++) {
    const line = Float64Array.from({ length: 6 }, () => next());
    let inside = 0;
    const steps = 2000;
    for (let s = 0; s < 2; s++) {
      const [x, y, u, v] = line.subarray(s * 2, s * 2 + 4);
      for (let i = 0; i < steps; i++) {
        const part = (i + 0.5) / steps;
        const [px, py] = [x + part * (u - x), y + part * (v - y)];
        if (px >= RECT.x0 && px <= RECT.x1 && py >= RECT.y0 && py <= RECT.y1) inside += Math.hypot(u - x, v - y) / steps;
      }
    }
    const length = clipLine(line, RECT).reduce((sum, piece) => sum + lengthOf(piece), 0);
    assert.ok(Math.abs(length - inside) < 5e-3, `${line}: ${length} and ${inside}`);
  }
});

test("a ring around the rectangle becomes the rectangle", () => {
  const ring = clipRing(Float64Array.of(-5, -5, 5, -5, 5, 5, -5, 5), RECT);
  assert.equal(shoelace(ring), 0.25);
});

test("a ring keeps the area that lies inside, for a thousand triangles", () => {
  const next = randomFrom(11);
  for (let n = 0; n < 1000; n++) {
    const ring = Float64Array.from({ length: 6 }, () => 2 * next() - 0.5);
    const [ax, ay, bx, by, cx, cy] = ring;
    const turns = (px: number, py: number, qx: number, qy: number, x: number, y: number): number => (qx - px) * (y - py) - (qy - py) * (x - px);
    let count = 0;
    const steps = 80;
    for (let i = 0; i < steps * steps; i++) {
      const x = RECT.x0 + (((i % steps) + 0.5) / steps) * 0.5;
      const y = RECT.y0 + ((Math.floor(i / steps) + 0.5) / steps) * 0.5;
      const sides = [turns(ax, ay, bx, by, x, y), turns(bx, by, cx, cy, x, y), turns(cx, cy, ax, ay, x, y)];
      if (sides.every((side) => side >= 0) || sides.every((side) => side <= 0)) count++;
    }
    const area = shoelace(clipRing(ring, RECT));
    assert.ok(Math.abs(area - (0.25 * count) / (steps * steps)) < 4e-3, `${ring}`);
  }
});
