import assert from "node:assert/strict";
import { test } from "node:test";
import { STEPS, UNKNOWN, countSteps, rampOf, scaleOf, ticksOf } from "../src/colour";
import { boxText, bytesText, timeText, valueText } from "../src/value_text";

test("a scale keeps the order of its values, and NaN is unknown", () => {
  for (const kind of ["linear", "log"] as const) {
    const { steps, positions, unknown, ticks } = scaleOf(Float32Array.of(1, 10, NaN, 1000, 0), { kind });
    assert.equal(unknown, 1);
    assert.equal(steps[2], UNKNOWN);
    assert.ok(positions && positions[0] <= positions[1] && positions[1] < positions[3] && positions[4] <= positions[0]);
    assert.equal(steps[3], STEPS - 1);
    assert.ok(ticks.length >= 2 && ticks[0].at === 0 && ticks[ticks.length - 1].at === 1);
  }
});

test("two ends that read the same have one label", () => {
  assert.deepEqual(ticksOf(17901, 17903, { kind: "log", unit: "bytes" }).map(({ at }) => at), [0.5]);
});

test("no values, one value and equal values have a scale", () => {
  for (const values of [[], [NaN], [7], [7, 7]]) {
    for (const kind of ["linear", "log", "time", "category"] as const) {
      const { steps } = scaleOf(Float32Array.from(values), { kind });
      assert.ok([...steps].every((step) => step === UNKNOWN || step < STEPS));
    }
  }
});

test("the most frequent categories get colours, the rest share one", () => {
  const values = Float32Array.from({ length: 400 }, (_, i) => (i < 200 ? 3 : i % 30));
  const { steps, swatches } = scaleOf(values, { kind: "category", labels: ["a", "b", "c", "d"] });
  assert.equal(steps[0], 0);
  assert.equal(swatches[0].text, "d");
  assert.equal(swatches[swatches.length - 1].text, "22 others");
  assert.equal(swatches.reduce((sum, { count }) => sum + count, 0), 400);
});

test("ticks rise and their labels do not run into each other", () => {
  for (const [low, high] of [[1, 2], [1, 291], [36.604, 1.2e7], [3, 3], [-5, 1e6]]) {
    for (const kind of low > 0 ? (["linear", "log"] as const) : (["linear"] as const)) {
      const ticks = ticksOf(low, high, { kind });
      ticks.slice(1).forEach((tick, i) => {
        const before = ticks[i];
        const end = before.at + ((1 - before.at) * before.text.length) / 26;
        assert.ok(tick.at - (tick.at * tick.text.length) / 26 >= end, JSON.stringify(ticks));
      });
    }
  }
});

test("overlap counts go from the first to the last step", () => {
  const steps = countSteps(1000);
  assert.deepEqual([steps[1], steps[1000]], [0, STEPS - 1]);
  assert.ok(steps.every((step, n) => n < 2 || step >= steps[n - 1]));
  assert.equal(countSteps(1)[1], 0);
});

test("both ramps move steadily between dark and light", () => {
  const light = ([r, g, b]: readonly [number, number, number]): number => 0.2126 * r + 0.7152 * g + 0.0722 * b;
  const [down, up] = [rampOf("light").map(light), rampOf("dark").map(light)];
  assert.ok(down.every((value, i) => !i || value <= down[i - 1] + 1e-9));
  assert.ok(up.every((value, i) => !i || value >= up[i - 1] - 1e-9));
});

test("values read as people write them", () => {
  assert.equal(bytesText(0), "0 B");
  assert.equal(bytesText(999_600), "1.0 MB");
  assert.equal(timeText(0), "1970-01-01 00:00");
  assert.equal(timeText(1e300), "unknown");
  assert.equal(valueText(1234567, { kind: "linear", unit: "rows" }), "1,234,567 rows");
  assert.equal(valueText(NaN, { kind: "linear" }), "unknown");
  assert.equal(valueText(1, { kind: "category", labels: ["a", "b"] }), "b");
  assert.equal(boxText([170, -20, -170, -10]), "170, -20, -170, -10");
  assert.equal(boxText([1.23456789, 2, 1.2345679, 2.0000001]), "1.2345679, 2, 1.2345679, 2.0000001");
});
