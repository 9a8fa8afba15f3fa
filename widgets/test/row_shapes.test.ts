/** Loaded rows: what their bytes mean, which row is under the pointer, and what the panel says of them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { worldX, worldY } from "../src/mercator";
import type { RowShapesTrait } from "../src/model";
import { POLYGON, RowShapes, piecesOf } from "../src/row_shapes";
import { drawnText, estimateText, rowsText } from "../src/rows_panel";

type Part = [kind: number, row: number, points: number[]];

function trait(...parts: Part[]): RowShapesTrait {
  const offsets = [0];
  for (const [, , points] of parts) offsets.push(offsets[offsets.length - 1] + points.length / 2);
  return {
    kinds: Uint8Array.from(parts.map(([kind]) => kind)),
    items: Uint8Array.from(new Uint8Array(Uint32Array.from(parts.map(([, row]) => row)).buffer)),
    offsets: new DataView(Uint32Array.from(offsets).buffer),
    points: new DataView(Float64Array.from(parts.flatMap(([, , points]) => points)).buffer),
    rows: new Set(parts.map(([, row]) => row)).size,
    in_view: 9,
  };
}

const SQUARE: Part[] = [
  [2, 7, [0, 0, 20, 0, 20, 20, 0, 20, 0, 0]],
  [3, 7, [5, 5, 15, 5, 15, 15, 5, 15, 5, 5]],
];
const POINT: Part = [0, 8, [2, 2]];
const LINE: Part = [1, 9, [-40, 10, -30, 10, -30, 20]];
/** From 175 degrees east to 175 west, as Python sends it. */
const WRAPPED: Part = [1, 10, [175, -40, 185, -40]];
const ZOOM = { x: 0, y: 0, scale: 256 * 2 ** 4, width: 4096, height: 4096 };

function under(shapes: RowShapes, longitude: number, latitude: number): number[] {
  return shapes.at(worldX(longitude), worldY(latitude), ZOOM);
}

test("a polygon is one piece with its holes, and a row may have many", () => {
  const pieces = piecesOf(trait(...SQUARE, [2, 7, [30, 0, 31, 0, 31, 1, 30, 0]]));
  assert.deepEqual(
    pieces.map(({ kind, row, lines }) => [kind, row, lines.length]),
    [
      [POLYGON, 7, 2],
      [POLYGON, 7, 1],
    ],
  );
});

test("the pointer finds what it is on, the smallest first", () => {
  const shapes = new RowShapes(trait(...SQUARE, POINT, LINE, WRAPPED));
  assert.deepEqual(under(shapes, 2, 2), [8, 7]);
  assert.deepEqual(under(shapes, 18, 18), [7]);
  assert.deepEqual(under(shapes, 10, 10), [], "in the hole");
  assert.deepEqual(under(shapes, -35, 10), [9]);
  assert.deepEqual(under(shapes, -35, 15), [], "in the box of the line, and not on it");
  assert.deepEqual(under(shapes, -30, 16.1), [9]);
});

test("of two points the nearer one comes first", () => {
  const shapes = new RowShapes(trait([0, 1, [10, 10]], [0, 2, [10.3, 10]]));
  assert.deepEqual(under(shapes, 10.1, 10), [1, 2]);
  assert.deepEqual(under(shapes, 10.2, 10), [2, 1]);
});

test("five pixels from a line it is still meant, and seven pixels from it no more", () => {
  const shapes = new RowShapes(trait(LINE));
  const [x, y] = [worldX(-35), worldY(10)];
  assert.deepEqual(shapes.at(x, y + 4.9 / ZOOM.scale, ZOOM), [9]);
  assert.deepEqual(shapes.at(x, y + 7 / ZOOM.scale, ZOOM), []);
});

test("a row over the antimeridian is found on both sides and on other copies of the world", () => {
  const shapes = new RowShapes(trait(WRAPPED));
  for (const longitude of [176, -176, 184, 176 - 360, 184 + 360]) assert.deepEqual(under(shapes, longitude, -40), [10], `${longitude}`);
  assert.deepEqual(under(shapes, 170, -40), []);
});

test("no rows are an empty picture, and bytes that do not fit are an error", () => {
  assert.deepEqual(under(new RowShapes({}), 0, 0), []);
  assert.throws(() => new RowShapes({ ...trait(POINT), kinds: Uint8Array.of(0, 0) }), /do not fit/);
  assert.throws(() => new RowShapes({ ...trait(POINT), points: new Uint8Array(8) }), /not a multiple/);
});

test("a sample is named with all rows, or with those in view", () => {
  assert.equal(drawnText(81_234, { drawn: 2000, inView: 81_234 }), "2,000 of 81,234 rows drawn");
  assert.equal(drawnText(81_234, { drawn: 2000, inView: 2500 }), "81,234 rows · 2,000 of 2,500 in view drawn");
  assert.equal(drawnText(81_234, { drawn: 62, inView: 62 }), "81,234 rows · all 62 in view drawn");
  assert.equal(drawnText(1, { drawn: 1, inView: 1 }), "1 row");
});

test("what loading takes is said before anything is read", () => {
  const guess = { files: 2, bytes: 36_000, rows: 430, most: 1204, seconds: 0.2 };
  assert.equal(estimateText(guess), "Up to 1,204 rows, about 430 by area, in 2 files · up to 36.0 kB to read · under 1 s");
  assert.equal(estimateText({ ...guess, files: 1, rows: null, seconds: 130 }), "Up to 1,204 rows in 1 file · up to 36.0 kB to read · about 2 min");
  assert.equal(estimateText({ ...guess, rows: null, most: null, seconds: 4.4 }), "Rows in 2 files · up to 36.0 kB to read · about 4 s");
  assert.equal(estimateText({ ...guess, files: 0 }), "No file has rows in this window.");
});

test("every state has one line", () => {
  const none = { drawn: 0, inView: 0 };
  const estimate = { files: 1, bytes: 10, rows: 3, most: 4, seconds: 0.1 };
  assert.equal(rowsText({ state: "none" }, none), "Draw a window on the map to load the rows in it.");
  assert.match(rowsText({ state: "ready", estimate }, none), /^Up to 4 rows, about 3 by area, in 1 file/);
  assert.match(rowsText({ state: "cancelled", estimate }, none), /^Cancelled\. Up to 4 rows/);
  assert.equal(rowsText({ state: "loading", done: 0, total: 0 }, none), "Loading …");
  assert.equal(rowsText({ state: "loading", done: 3, total: 12 }, none), "Loading: 3 of 12 row groups");
  assert.equal(rowsText({ state: "loaded", rows: 0, bytes: 215, seconds: 0.01 }, none), "No row lies in the window · 215 B read in 10 ms");
  assert.equal(
    rowsText({ state: "loaded", rows: 4, bytes: 2e6, seconds: 12.3, text: "1 row cannot be placed on the map" }, { drawn: 3, inView: 3 }),
    "4 rows · all 3 in view drawn · 2.0 MB read in 12 s · 1 row cannot be placed on the map",
  );
  assert.equal(rowsText({ state: "failed", text: "no" }, none), "");
});
