/** The same numbers on every machine (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** Boxes of every kind: wrapped, points, lines, all around, on whole degrees so that many touch, and none. */
export function mixedBoxes(count: number, random: () => number): Float64Array {
  const degrees = new Float64Array(count * 4);
  for (let i = 0; i < count; i++) {
    const round = random() < 0.5 ? Math.round : (value: number): number => value;
    const [x, y] = [round(random() * 360 - 180), round(random() * 180 - 90)];
    const [w, h] = [random() < 0.1 ? 0 : round(random() * 40), random() < 0.1 ? 0 : round(random() * 30)];
    const east = x + w > 180 ? x + w - 360 : x + w;
    const box = random() < 0.02 ? [NaN, NaN, NaN, NaN] : random() < 0.02 ? [-180, y, 180, y] : [x, y, east, Math.min(90, y + h)];
    degrees.set(box, i * 4);
  }
  return degrees;
}
