import assert from "node:assert/strict";
import { test } from "node:test";
import { pageHost } from "../src/hosts";
import { bytesOf, columnValues, float64s, marksOf, overlayParts, ringsOf, typedWindow, windowBetween, windowOf, windowWkt } from "../src/model";
import { typedPlace } from "../src/map_actions";
import { worldX } from "../src/mercator";

test("numbers are read from a view at an odd offset of a larger message", () => {
  const message = new Uint8Array(3 + 16);
  message.set(new Uint8Array(Float64Array.of(1.5, -2).buffer), 3);
  assert.deepEqual([...float64s(new DataView(message.buffer, 3, 16), "boxes")], [1.5, -2]);
  assert.equal(bytesOf(null).length, 0);
  assert.equal(bytesOf("").length, 0);
});

test("data that does not fit is refused with its name", () => {
  assert.throws(() => float64s(new Uint8Array(40), "boxes", 4), /boxes has 40 bytes/);
  assert.throws(() => columnValues([{ key: "a", label: "A", kind: "linear" }], new Uint8Array(8), 3), /column_data has 2 values/);
  assert.throws(() => marksOf(new Uint8Array(2), 3), /marks has 2 values/);
  assert.throws(() => bytesOf({}), /expected bytes/);
  const box = Float64Array.of(0, 0, 1, 1);
  assert.throws(() => ringsOf(new Uint8Array(16), Uint32Array.of(0, 9), Uint32Array.of(0), box), /outside its data/);
  assert.throws(() => ringsOf(new Uint8Array(16), Uint32Array.of(0, 1), Uint32Array.of(5), box), /outside its data/);
});

test("columns are runs of one buffer, and empty marks are null", () => {
  const columns = [{ key: "a", label: "A", kind: "linear" as const }, { key: "b", label: "B", kind: "log" as const }];
  const values = columnValues(columns, Float32Array.of(1, 2, 3, 4), 2);
  assert.deepEqual([...(values.get("b") ?? [])], [3, 4]);
  assert.equal(marksOf(new Uint8Array(3), 3), null);
  assert.equal(marksOf(null, 3), null);
});

test("an outline over the antimeridian is put on one side by the box of its item", () => {
  const points = Float64Array.of(179, 0, -179, 0, -179, 1, 179, 1);
  const rings = ringsOf(points, Uint32Array.of(0, 4), Uint32Array.of(0), Float64Array.of(179, 0, -179, 1));
  const ring = rings.get(0)?.[0] ?? new Float64Array();
  assert.deepEqual([ring[0], ring[2], ring[4], ring[6]], [worldX(179), worldX(181), worldX(181), worldX(179)]);
  const wide = Float64Array.of(-170, 0, 170, 0, 170, 1, -170, 1);
  const flat = ringsOf(wide, Uint32Array.of(0, 4), Uint32Array.of(0), Float64Array.of(-170, 0, 170, 1)).get(0)?.[0];
  assert.deepEqual([flat?.[0], flat?.[2]], [worldX(-170), worldX(170)]);
});

test("an overlay is cut at its NaN pairs", () => {
  assert.deepEqual(overlayParts(Float64Array.of(1, 1, 2, 2, NaN, NaN, 3, 3, NaN, NaN), "x").map((part) => part.length), [4, 2]);
  assert.deepEqual(overlayParts(null, "x"), []);
});

test("a window is four finite numbers in order", () => {
  assert.deepEqual(windowOf([170, -10, -170, 10]), [170, -10, -170, 10]);
  for (const wrong of [null, [], [1, 2, 3], [0, 1, 0, 0], [0, NaN, 1, 1], ["0", 0, 1, 1], {}]) assert.equal(windowOf(wrong), null);
});

test("what is typed is a window, or a sentence says what is wrong", () => {
  assert.deepEqual(typedWindow("170, -10; -170  10.5"), [170, -10, -170, 10.5]);
  assert.equal(typedWindow("hello"), "hello is not a number: write xmin, ymin, xmax, ymax");
  assert.equal(typedWindow("1, 2, 3"), "Expected four numbers, got 3: write xmin, ymin, xmax, ymax");
  assert.equal(typedWindow(""), "Expected four numbers, got 0: write xmin, ymin, xmax, ymax");
  assert.equal(typedWindow("0, 10, 1, 5"), "ymin is above ymax: write the south before the north");
});

test("a window is copied as WKT, in two parts over the antimeridian", () => {
  assert.equal(windowWkt([1, 2, 3, 4]), "POLYGON ((1 2, 3 2, 3 4, 1 4, 1 2))");
  assert.equal(windowWkt([170, 0, -170, 1]), "MULTIPOLYGON (((170 0, 180 0, 180 1, 170 1, 170 0)), ((-180 0, -170 0, -170 1, -180 1, -180 0)))");
});

test("a place is two numbers, longitude first", () => {
  assert.deepEqual(typedPlace("13.4, 52.5"), { longitude: 13.4, latitude: 52.5 });
  for (const wrong of ["", "13.4", "a, b", "1, 2, 3"]) assert.equal(typedPlace(wrong), "Write longitude, latitude: such as 13.4, 52.5");
  assert.equal(typedPlace("13, 520"), "The latitude is beyond 90 degrees: write longitude, latitude");
});

test("two corners make a window within 180 degrees, on whatever copy of the world they were drawn", () => {
  assert.deepEqual(windowBetween(10, 5, -10, -5), [-10, -5, 10, 5]);
  assert.deepEqual(windowBetween(170, 0, 190, 10), [170, 0, -170, 10]);
  assert.deepEqual(windowBetween(-190, 0, -170, 10), [170, 0, -170, 10]);
  assert.deepEqual(windowBetween(530, 0, 540, 1), [170, 0, 180, 1]);
  assert.deepEqual(windowBetween(-100, 0, 300, 1), [-180, 0, 180, 1]);
});

test("a page without a kernel unpacks its data and hears its own changes", async () => {
  const base64 = Buffer.from(Float64Array.of(0, 0, 1, 1).buffer).toString("base64");
  const packed = Buffer.from(await new Response(new Blob([new Uint8Array([1, 2])]).stream().pipeThrough(new CompressionStream("deflate"))).arrayBuffer());
  const host = await pageHost({ boxes: { base64 }, overlay_data: [{ base64 }], marks: { base64: packed.toString("base64"), deflate: true } });
  assert.equal(float64s(host.get("boxes"), "boxes", 4).length, 4);
  assert.equal(bytesOf(host.get("overlay_data")[0]).length, 32);
  assert.deepEqual([...bytesOf(host.get("marks"))], [1, 2]);
  let calls = 0;
  const end = host.on("window", () => calls++);
  host.set("window", [0, 0, 1, 1]);
  end();
  host.set("window", null);
  assert.deepEqual([calls, host.get("window"), host.get("noun"), host.live], [1, null, "files", false]);
});
