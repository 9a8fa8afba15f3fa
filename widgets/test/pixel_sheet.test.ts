import assert from "node:assert/strict";
import { test } from "node:test";
import { type Sheet, strokeLine } from "../src/pixel_sheet";
import { randomFrom } from "./random";

const [COLUMNS, ROWS] = [60, 40];

function empty(): Sheet {
  return { pixels: new Uint32Array(COLUMNS * ROWS), columns: COLUMNS, rows: ROWS };
}

function written({ pixels }: Sheet): [number, number][] {
  return [...pixels.keys()].filter((i) => pixels[i]).map((i) => [i % COLUMNS, Math.floor(i / COLUMNS)]);
}

/** How far a point lies from the segment. */
function distance(x: number, y: number, [x0, y0, x1, y1]: number[]): number {
  const [dx, dy] = [x1 - x0, y1 - y0];
  const share = Math.min(1, Math.max(0, ((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(x - x0 - share * dx, y - y0 - share * dy);
}

test("a line has every picture element that it passes through the middle of, and none that is not beside it", () => {
  const random = randomFrom(3);
  for (let round = 0; round < 400; round++) {
    // Half of the lines begin or end far outside.
    const reach = round % 2 ? 1 : 50;
    const ends = [COLUMNS, ROWS, COLUMNS, ROWS].map((size) => Math.round((random() - 0.5) * size * reach + size / 2));
    const sheet = empty();
    strokeLine(sheet, ends[0], ends[1], ends[2], ends[3], 1, 7);
    for (const [x, y] of written(sheet)) assert.ok(distance(x, y, ends) <= 0.75, `${ends}: ${x} ${y}`);
    for (let y = 1; y < ROWS - 1; y++) {
      for (let x = 1; x < COLUMNS - 1; x++) if (distance(x, y, ends) < 1e-9) assert.equal(sheet.pixels[y * COLUMNS + x], 7, `${ends}: ${x} ${y}`);
    }
  }
});

test("a point, a thick line and lines that miss the sheet", () => {
  const sheet = empty();
  strokeLine(sheet, 5, 5, 5, 5, 1, 1);
  assert.deepEqual(written(sheet), [[5, 5]]);
  strokeLine(sheet, -9, -9, 70, -9, 2, 1);
  strokeLine(sheet, -50, 20, 20, -50, 2, 1);
  strokeLine(sheet, 1e9, 1e9, 2e9, 1e9, 1, 1);
  assert.deepEqual(written(sheet), [[5, 5]]);
  const thick = empty();
  strokeLine(thick, 10, 10, 12, 10, 2, 1);
  assert.deepEqual(written(thick), [10, 11].flatMap((y) => [10, 11, 12, 13].map((x) => [x, y])));
});
