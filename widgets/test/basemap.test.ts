import assert from "node:assert/strict";
import { test } from "node:test";
import { basemap, closedRing, unwrap } from "../src/basemap";
import { frameBox } from "../src/pixel_sheet";
import { latitudeOf, worldY } from "../src/mercator";
import { randomFrom } from "./random";

test("no line of the basemap jumps across the world", () => {
  const { land, borders } = basemap();
  assert.ok(land.length > 100 && borders.length > 100);
  for (const line of [...land, ...borders]) {
    line.slice(1).forEach(([x, y], i) => {
      const along = y === -90 || line[i][1] === -90;
      assert.ok(along || Math.abs(x - line[i][0]) <= 180);
      assert.ok(x >= -360 && x <= 540);
    });
  }
});

test("only Antarctica winds around a pole, and is closed along the edge of the map", () => {
  const closed = basemap().land.filter((ring) => ring.some(([, y]) => y === -90));
  assert.equal(closed.length, 1);
  assert.deepEqual(unwrap([[179, 0], [-179, 1]]), [[179, 0], [181, 1]]);
  assert.equal(closedRing([[0, 0], [1, 0], [1, 1], [0, 0]]).length, 4);
});

test("Mercator's latitude comes back, and ends at its limit", () => {
  for (const latitude of [-85, -45.5, 0, 12.25, 84.9]) assert.ok(Math.abs(latitudeOf(worldY(latitude)) - latitude) < 1e-9);
  assert.deepEqual([worldY(90), worldY(-90)], [0, 1]);
});

test("the frame of a box covers its sides and nothing else, clipped to the sheet", () => {
  const random = randomFrom(8);
  const [columns, rows] = [23, 17];
  for (let n = 0; n < 2000; n++) {
    const pick = (size: number): number => Math.floor(random() * (size + 16)) - 8;
    const [left, top] = [pick(columns), pick(rows)];
    const [right, bottom, thick] = [left + Math.floor(random() * 20), top + Math.floor(random() * 20), 1 + Math.floor(random() * 4)];
    const pixels = new Uint32Array(columns * rows);
    frameBox({ pixels, columns, rows }, left, top, right, bottom, thick, 7);
    for (let y = 0; y < rows; y++) {
      for (let x = 0; x < columns; x++) {
        const inside = x >= left && x < right && y >= top && y < bottom;
        const side = x < left + thick || x >= right - thick || y < top + thick || y >= bottom - thick;
        assert.equal(pixels[y * columns + x], inside && side ? 7 : 0, `${[left, top, right, bottom, thick]} at ${x} ${y}`);
      }
    }
  }
});
