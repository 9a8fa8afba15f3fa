import assert from "node:assert/strict";
import { test } from "node:test";
import { placeBoxes } from "../src/boxes";
import { type Region, countCells, covers, regionOf } from "../src/density";
import { mixedBoxes, randomFrom } from "./random";

/** Whether a span covers a part of the cell from `cell` to `cell + 1`; a point belongs to the cell that starts at or before it. */
function covered(from: number, to: number, cell: number): boolean {
  return to > from ? from < cell + 1 && to > cell : from >= cell && from < cell + 1;
}

function bruteCounts(world: Float64Array, { across, column, row, columns, rows }: Region, use: (i: number) => boolean): number[] {
  const counts: number[] = [];
  for (let r = row; r < row + rows; r++) {
    for (let c = column; c < column + columns; c++) {
      let count = 0;
      for (let i = 0; i < world.length / 4; i++) {
        const [x0, y0, x1, y1] = world.subarray(i * 4, i * 4 + 4).map((side) => side * across);
        // A box on the southern edge has no cell below it.
        const down = covered(y0, y1, r) || (y0 === y1 && y0 === across && r === across - 1);
        const turns = [-3, -2, -1, 0, 1, 2, 3];
        if (use(i) && down && turns.some((k) => covered(x0 + k * across, x1 + k * across, c))) count++;
      }
      counts.push(count);
    }
  }
  return counts;
}

const REGIONS: Region[] = [
  { across: 32, column: 0, row: 0, columns: 32, rows: 32 },
  { across: 64, column: -20, row: 10, columns: 50, rows: 30 },
  { across: 64, column: 50, row: 0, columns: 40, rows: 64 },
  { across: 16, column: -40, row: 0, columns: 48, rows: 16 },
];

test("counts per cell equal brute force, over the antimeridian and on several copies of the world", () => {
  const { world } = placeBoxes(mixedBoxes(250, randomFrom(2)));
  for (const region of REGIONS) {
    const grid = countCells(world, region);
    const expected = bruteCounts(world, region, () => true);
    assert.deepEqual([...grid.counts], expected);
    assert.equal(grid.maximum, Math.max(...expected));
  }
});

test("marks choose what counts, and weights give the mean of those that have one", () => {
  const random = randomFrom(3);
  const { world } = placeBoxes(mixedBoxes(120, random));
  const marks = Uint8Array.from({ length: 120 }, () => (random() < 0.4 ? 1 : 0));
  const weights = Float32Array.from({ length: 120 }, () => (random() < 0.1 ? NaN : random()));
  const region = REGIONS[1];
  const grid = countCells(world, region, { marks, only: 1, weights });
  assert.deepEqual([...grid.counts], bruteCounts(world, region, (i) => marks[i] === 1));
  const known = bruteCounts(world, region, (i) => marks[i] === 1 && !Number.isNaN(weights[i]));
  grid.means?.forEach((mean, cell) => assert.equal(Number.isNaN(mean), known[cell] === 0));
  const counted = countCells(world.slice(0, 4), region, { weights: Float32Array.of(0.25) });
  counted.means?.forEach((mean, cell) => assert.ok(counted.counts[cell] ? Math.abs(mean - 0.25) < 1e-6 : Number.isNaN(mean)));
});

test("a box all around the world counts once in each cell, however many turns its numbers claim", () => {
  const { world } = placeBoxes(Float64Array.of(-180, -10, 180, 10, -1e9, -10, 1e9, 10));
  const grid = countCells(world, REGIONS[3]);
  assert.equal(grid.maximum, 2);
  assert.ok([...grid.counts].every((count) => count === 0 || count === 2));
});

test("a region covers its own view, and a move beyond it or a zoom needs a new one", () => {
  const view = { x: 0.4, y: 0.3, scale: 256 * 2 ** 8, width: 1200, height: 400 };
  const region = regionOf(view);
  assert.ok(covers(region, view));
  assert.ok(covers(region, { ...view, x: view.x + 300 / view.scale }));
  assert.ok(!covers(region, { ...view, x: view.x + 900 / view.scale }));
  assert.ok(!covers(region, { ...view, scale: view.scale * 2 }));
  const whole = regionOf({ ...view, scale: 512 });
  assert.deepEqual([whole.columns, whole.rows], [256, 256]);
  assert.ok(covers(whole, { x: -7.3, y: 0, scale: 512, width: 4000, height: 400 }));
});

test("views at the poles are covered by their region", () => {
  for (const y of [-0.001, 0, 0.9999]) {
    const view = { x: 0, y, scale: 256 * 2 ** 9, width: 900, height: 400 };
    assert.ok(covers(regionOf(view), view), String(y));
  }
});
