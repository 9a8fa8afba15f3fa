import assert from "node:assert/strict";
import { test } from "node:test";
import { type Box, BROKEN, BoxIndex, FINE, NO_BOUNDS, OUT_OF_RANGE, countVisible, extentOf, flagOf, placeBoxes } from "../src/boxes";
import { mixedBoxes, randomFrom } from "./random";

/** The rule of geolake_nb.model.box.Box.intersects, item by item. */
function bruteWindow(degrees: Float64Array, [xmin, ymin, xmax, ymax]: Box): number[] {
  const matches: number[] = [];
  for (let i = 0; i < degrees.length / 4; i++) {
    const [a, b, c, d] = degrees.subarray(i * 4, i * 4 + 4);
    if (!(b <= ymax && ymin <= d)) continue;
    const [wraps, queryWraps] = [a > c, xmin > xmax];
    const x = wraps && queryWraps ? true : wraps || queryWraps ? a <= xmax || xmin <= c : a <= xmax && xmin <= c;
    if (x) matches.push(i);
  }
  return matches;
}

test("a window finds what the rule of boxes finds, on both sides of 180 degrees", () => {
  const random = randomFrom(1);
  const boxes = placeBoxes(mixedBoxes(3000, random));
  const index = new BoxIndex(boxes);
  for (let n = 0; n < 1000; n++) {
    const round = n % 2 ? Math.round : (value: number): number => value;
    const x = round(n % 3 ? random() * 360 - 180 : 150 + random() * 30);
    const width = round(random() * 90);
    const y = round(random() * 180 - 90);
    const window: Box = [x, y, x + width > 180 ? x + width - 360 : x + width, Math.min(90, y + round(random() * 40))];
    assert.deepEqual([...index.window(window)], bruteWindow(boxes.degrees, window), String(window));
  }
});

test("no boxes, and boxes without bounds, give an index that finds nothing", () => {
  for (const degrees of [new Float64Array(), new Float64Array(8).fill(NaN)]) {
    const boxes = placeBoxes(degrees);
    assert.equal(new BoxIndex(boxes).window([-180, -90, 180, 90]).length, 0);
    assert.equal(extentOf(boxes), null);
  }
});

test("a box is flagged for what is wrong with it", () => {
  const cases: [Box, number][] = [
    [[0, 0, 1, 1], FINE],
    [[170, 0, -170, 1], FINE],
    [[-180, -90, 180, 90], FINE],
    [[NaN, NaN, NaN, NaN], NO_BOUNDS],
    [[NaN, 0, 1, 1], BROKEN],
    [[0, 0, Infinity, 1], BROKEN],
    [[0, 2, 1, 1], BROKEN],
    [[190, 0, -170, 1], BROKEN],
    [[190, 0, 200, 1], OUT_OF_RANGE],
    [[0, -91, 1, 1], OUT_OF_RANGE],
    [[-180.0000000002, -90.0000000001, 180.0000000002, 90.0000000001], FINE],
  ];
  for (const [box, flag] of cases) assert.equal(flagOf(...box), flag, String(box));
  const boxes = placeBoxes(Float64Array.from(cases.flatMap(([box]) => [...box])));
  assert.deepEqual([boxes.withoutBounds, boxes.flagged], [1, 6]);
  assert.ok(Number.isNaN(boxes.world[3 * 4]) && Number.isNaN(boxes.world[4 * 4]));
});

test("a wrapped box runs past the right edge of the world, and polar ones stay on the edge", () => {
  const { world } = placeBoxes(Float64Array.of(170, 86, -170, 90));
  assert.ok(world[0] < 1 && world[2] > 1 && world[2] - world[0] < 0.06);
  assert.deepEqual([world[1], world[3]], [0, 0]);
});

test("a point near the antimeridian finds the boxes on its other side, on every copy of the world", () => {
  const index = new BoxIndex(placeBoxes(Float64Array.of(170, 0, -170, 10, 178, 0, 180, 10, 190, 0, 195, 10)));
  assert.deepEqual([...index.near(-175, 5, 0.1, 0.1)], [0]);
  assert.deepEqual([...index.near(185 + 720, 5, 0.1, 0.1)], [0]);
  assert.deepEqual([...index.near(-179.95, 5, 0.1, 0.1)], [0, 1]);
  assert.deepEqual([...index.near(-168, 5, 0.1, 0.1)], [2]);
});

test("what is in view is counted on every copy of the world", () => {
  const random = randomFrom(4);
  const boxes = placeBoxes(mixedBoxes(400, random));
  for (let n = 0; n < 200; n++) {
    const view = { x: random() * 6 - 3, y: random() * 0.8, scale: 1000, width: 50 + random() * 1500, height: 200 };
    let expected = 0;
    for (let i = 0; i < boxes.count; i++) {
      const [x0, y0, x1, y1] = boxes.world.subarray(i * 4, i * 4 + 4);
      const across = Array.from({ length: 15 }, (_, k) => k - 7).some((k) => x0 + k <= view.x + view.width / 1000 && x1 + k >= view.x);
      if (across && y0 <= view.y + 0.2 && y1 >= view.y) expected++;
    }
    assert.equal(countVisible(boxes, view, Infinity), expected);
  }
});

test("the extent is the smallest span, cut at the antimeridian unless another cut leaves out clearly more", () => {
  const extent = (...sides: number[]): Box | null => extentOf(placeBoxes(Float64Array.from(sides)));
  const near = (actual: Box | null, other: Box): void => other.forEach((side, i) => assert.ok(Math.abs((actual?.[i] ?? NaN) - side) < 1e-9, `${actual}`));
  near(extent(0, 0, 1, 1, 20, 5, 21, 6), [0, 0, 21, 6]);
  near(extent(170, 0, 175, 1, -175, 5, -170, 6), [170, 0, -170, 6]);
  near(extent(179, -1, -179, 1), [179, -1, -179, 1]);
  near(extent(-180, 0, 180, 1), [-180, 0, 180, 1]);
  near(extent(-170, 0, -100, 1, -90, 0, 0, 1, 10, 0, 90, 1, 100, 0, 175, 1), [-170, 0, 175, 1]);
});
