import assert from "node:assert/strict";
import { test } from "node:test";
import { holds, lassoed, pieceMeetsBox, polygonMeetsBox, polygonsMeet } from "../src/lasso";
import { randomFrom } from "./random";

function star(random: () => number, cx: number, cy: number, size: number): Float64Array {
  const points = 5 + Math.floor(random() * 12);
  return Float64Array.from({ length: points * 2 }, (_, i) => {
    const angle = (Math.floor(i / 2) / points) * 2 * Math.PI;
    const reach = size * (0.2 + 0.8 * random());
    return i % 2 ? cy + reach * Math.sin(angle) : cx + reach * Math.cos(angle);
  });
}

test("a box test agrees with the test of two polygons", () => {
  const random = randomFrom(5);
  let met = 0;
  for (let n = 0; n < 5000; n++) {
    const polygon = star(random, random(), random(), 0.3);
    const [x, y, w, h] = [random(), random(), random() * 0.2, random() * 0.2];
    const box = Float64Array.of(x, y, x + w, y, x + w, y + h, x, y + h);
    const meets = polygonMeetsBox(polygon, x, y, x + w, y + h);
    assert.equal(meets, polygonsMeet(polygon, box));
    met += Number(meets);
  }
  assert.ok(met > 500 && met < 4500);
});

test("a point in both shapes means that they meet", () => {
  const random = randomFrom(6);
  for (let n = 0; n < 300; n++) {
    const polygon = star(random, 0.5, 0.5, 0.4);
    const [x, y, w, h] = [random(), random(), random() * 0.3, random() * 0.3];
    let shared = false;
    for (let k = 0; k < 400; k++) shared ||= holds(polygon, x + random() * w, y + random() * h);
    if (shared) assert.ok(polygonMeetsBox(polygon, x, y, x + w, y + h));
  }
});

test("a piece that passes a corner misses the box, one that touches its side meets it", () => {
  assert.ok(!pieceMeetsBox(0, 1.1, 1.1, 2.2, 0.5, 0, 2, 1.5));
  assert.ok(pieceMeetsBox(0, 1, 2, 1, 0.5, 0, 1.5, 1));
  assert.ok(pieceMeetsBox(1, 1, 1, 1, 0, 0, 2, 2));
});

test("a lasso finds points, lines and boxes over the antimeridian on any copy of the world", () => {
  const world = Float64Array.of(0.5, 0.5, 0.5, 0.5, 0.1, 0.5, 0.4, 0.5, 0.98, 0.4, 1.02, 0.6, 0, 0.9, 0.1, 0.95, NaN, NaN, NaN, NaN);
  const square = (x: number): Float64Array => Float64Array.of(x - 0.01, 0.45, x + 0.01, 0.45, x + 0.01, 0.55, x - 0.01, 0.55);
  assert.deepEqual([...lassoed(square(0.5), world)], [0]);
  assert.deepEqual([...lassoed(square(2.3), world)], [1]);
  assert.deepEqual([...lassoed(square(0.01), world)], [2]);
  assert.deepEqual([...lassoed(square(-2.01), world)], [2]);
  assert.deepEqual([...lassoed(Float64Array.of(0, 0, 1, 1), world)], []);
});

test("an outline counts by its shape", () => {
  const world = Float64Array.of(0.2, 0.2, 0.8, 0.8);
  const triangle = Float64Array.of(0.2, 0.2, 0.8, 0.2, 0.2, 0.8);
  const rings = (): Float64Array[] => [triangle];
  assert.deepEqual([...lassoed(Float64Array.of(0.7, 0.7, 0.75, 0.7, 0.75, 0.75), world, rings)], []);
  assert.deepEqual([...lassoed(Float64Array.of(0.3, 0.3, 0.35, 0.3, 0.35, 0.35), world, rings)], [0]);
});
