/** From a value to a colour: scales, palettes and the ticks of their legend. */
import { type ValueStyle, valueText } from "./value_text";

export type Rgb = readonly [number, number, number];
export type Theme = "light" | "dark";

export const STEPS = 64;
/** The step of an item whose value is unknown. */
export const UNKNOWN = 255;

// Low values stay near the ground of the map, high ones stand out: dark on light, bright on dark.
const RAMPS: Record<Theme, string[]> = {
  light: ["#8fc9a6", "#5fb3a1", "#3d99a0", "#2b7d9c", "#2a5f92", "#2e4180", "#2b2463"],
  dark: ["#4f74b8", "#3b88ad", "#2f9ea4", "#3ab598", "#6acb7f", "#b1e067", "#fdf06a"],
};
const CATEGORIES: Record<Theme, string[]> = {
  light: ["#2f6fb5", "#d9730d", "#2a8a5c", "#b5408f", "#7a5cc2", "#8f6b1e", "#0d8ca3", "#c0392b", "#5b6b2c"],
  dark: ["#6aa9ec", "#f2a154", "#5fc595", "#e783c6", "#ac95f0", "#d0b265", "#4fc3d6", "#ef7b70", "#a9ba62"],
};
export const OTHER: Record<Theme, Rgb> = { light: [116, 124, 135], dark: [140, 149, 160] };

export function rgbOf(hex: string): Rgb {
  const value = Number.parseInt(hex.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

export function cssOf([r, g, b]: Rgb, alpha = 1): string {
  return `rgba(${r},${g},${b},${alpha})`;
}

/** The ramp of a theme in `STEPS` colours. */
export function rampOf(theme: Theme): Rgb[] {
  const stops = RAMPS[theme].map(rgbOf);
  return Array.from({ length: STEPS }, (_, i) => {
    const position = (i / (STEPS - 1)) * (stops.length - 1);
    const low = Math.min(stops.length - 2, Math.floor(position));
    const part = position - low;
    return stops[low].map((from, c) => Math.round(from + (stops[low + 1][c] - from) * part)) as unknown as Rgb;
  });
}

export interface Tick {
  /** 0 to 1 along the ramp. */
  readonly at: number;
  readonly text: string;
}

export interface Swatch {
  readonly text: string;
  readonly count: number;
  /** Which colour of the categories; null is "other". */
  readonly colour: number | null;
}

export interface Scale {
  /** The step of each item, `UNKNOWN` for NaN; for categories the number of the colour, `UNKNOWN` for other. */
  readonly steps: Uint8Array;
  /** 0 to 1 per item, NaN when unknown; null for categories, of which there is no mean. */
  readonly positions: Float32Array | null;
  readonly ticks: Tick[];
  readonly swatches: Swatch[];
  readonly unknown: number;
}

export function scaleOf(values: Float32Array, style: ValueStyle): Scale {
  return style.kind === "category" ? categoryScale(values, style) : rampScale(values, style);
}

export function categoryColours(theme: Theme): Rgb[] {
  return CATEGORIES[theme].map(rgbOf);
}

function rampScale(values: Float32Array, style: ValueStyle): Scale {
  const log = style.kind === "log";
  let low = Infinity;
  let high = -Infinity;
  let unknown = 0;
  for (const value of values) {
    if (!Number.isFinite(value)) unknown++;
    else if (!log || value > 0) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  if (low > high) [low, high] = log ? [1, 1] : [0, 0];
  const from = log ? Math.log(low) : low;
  const span = (log ? Math.log(high) : high) - from;
  const positions = new Float32Array(values.length);
  const steps = new Uint8Array(values.length);
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (!Number.isFinite(value)) {
      positions[i] = NaN;
      steps[i] = UNKNOWN;
      continue;
    }
    // Zero has no logarithm and lies below every other count: the low end of the ramp.
    const position = span > 0 ? ((log ? Math.log(Math.max(value, low)) : value) - from) / span : 0.5;
    positions[i] = Math.min(1, Math.max(0, position));
    steps[i] = Math.round(positions[i] * (STEPS - 1));
  }
  const ticks = ticksOf(low, high, style);
  if (ticks.length === 1) flatten(steps, positions);
  return { steps, positions, ticks, swatches: [], unknown };
}

/** Values that read the same have the same colour. */
function flatten(steps: Uint8Array, positions: Float32Array): void {
  for (let i = 0; i < steps.length; i++) {
    if (steps[i] === UNKNOWN) continue;
    steps[i] = STEPS >> 1;
    positions[i] = 0.5;
  }
}

/** Round values along the ramp, its two ends always among them. */
export function ticksOf(low: number, high: number, style: ValueStyle): Tick[] {
  const log = style.kind === "log";
  const position = (value: number): number => {
    if (high === low) return 0.5;
    return log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  };
  const text = (value: number): string => valueText(value, style, true);
  // One label where two would read the same.
  if (!(high > low) || text(low) === text(high)) return [{ at: 0.5, text: text(low) }];
  const inner = log ? powers(low, high) : style.kind === "time" ? [] : rounds(low, high);
  const ends = [{ at: 0, text: text(low) }, { at: 1, text: text(high) }];
  const ticks = [ends[0]];
  for (const value of inner) {
    const tick = { at: position(value), text: text(value) };
    if (startOf(tick) > endOf(ticks[ticks.length - 1]) && endOf(tick) < startOf(ends[1])) ticks.push(tick);
  }
  return [...ticks, ends[1]];
}

// A label slides along itself from its left end at 0 to its right end at 1; a letter takes about a twenty-sixth of the bar.
function startOf({ at, text }: Tick): number {
  return at - (at * (text.length + 1)) / 26;
}

function endOf({ at, text }: Tick): number {
  return at + ((1 - at) * (text.length + 1)) / 26;
}

function powers(low: number, high: number): number[] {
  const from = Math.ceil(Math.log10(low) - 1e-9);
  const to = Math.floor(Math.log10(high) + 1e-9);
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => 10 ** (from + i));
}

function rounds(low: number, high: number): number[] {
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((size) => size >= rough) ?? rough;
  const first = Math.ceil(low / step);
  const count = Math.min(12, Math.floor(high / step) - first + 1);
  return Array.from({ length: Math.max(0, count) }, (_, i) => (first + i) * step);
}

/** The most frequent values get a colour of their own, the rest share grey. */
function categoryScale(values: Float32Array, style: ValueStyle): Scale {
  const counts = new Map<number, number>();
  let unknown = 0;
  for (const value of values) {
    if (Number.isNaN(value)) unknown++;
    else counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  const order = [...counts].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  const own = order.length > CATEGORIES.light.length ? order.slice(0, CATEGORIES.light.length - 1) : order;
  const colour = new Map(own.map(([value], i) => [value, i]));
  const steps = new Uint8Array(values.length);
  for (let i = 0; i < values.length; i++) steps[i] = colour.get(values[i]) ?? UNKNOWN;
  const swatches: Swatch[] = own.map(([value, count], i) => ({ text: valueText(value, style), count, colour: i }));
  const rest = order.slice(own.length);
  if (rest.length) {
    swatches.push({ text: `${rest.length} others`, count: rest.reduce((sum, [, n]) => sum + n, 0), colour: null });
  }
  return { steps, positions: null, ticks: [], swatches, unknown };
}

/** The step of an overlap count on a log scale from 1 to the maximum. */
export function countSteps(maximum: number): Uint8Array {
  const steps = new Uint8Array(Math.min(maximum, 65_535) + 1);
  const top = Math.log(Math.max(2, maximum));
  for (let n = 1; n < steps.length; n++) steps[n] = Math.round((Math.log(n) / top) * (STEPS - 1));
  return steps;
}
