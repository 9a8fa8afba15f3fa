/** Numbers as people read them. */

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const digits = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 5 });
const few = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });

export function countText(value: number): string {
  return whole.format(value);
}

/** For the ticks of a legend. */
export function shortText(value: number): string {
  return Math.abs(value) >= 10_000 ? short.format(value) : Number.isInteger(value) ? countText(value) : few.format(value);
}

/** A number with the digits that matter. */
export function numberText(value: number): string {
  return Number.isInteger(value) || Math.abs(value) >= 10_000 ? countText(value) : digits.format(value);
}

export function bytesText(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let step = 0;
  while (Math.abs(value) >= 999.5 && step < units.length - 1) {
    value /= 1000;
    step++;
  }
  return `${step && Math.abs(value) < 99.5 ? value.toFixed(1) : Math.round(value)} ${units[step]}`;
}

/** Seconds since 1970 as a date, with the time of day where it matters. */
export function timeText(seconds: number, span = 0): string {
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return "unknown";
  const text = date.toISOString();
  return span > 60 * 86_400 ? text.slice(0, 10) : `${text.slice(0, 10)} ${text.slice(11, 16)}`;
}

export interface ValueStyle {
  readonly kind: "linear" | "log" | "category" | "time";
  readonly unit?: string;
  readonly labels?: readonly string[];
  readonly origin?: number;
}

/** A value of a column, whole where it is a count. */
export function valueText(value: number, style: ValueStyle, brief = false): string {
  if (Number.isNaN(value)) return "unknown";
  if (style.kind === "category") return style.labels?.[value] ?? String(value);
  if (style.kind === "time") return timeText((style.origin ?? 0) + value, brief ? 1e9 : 0);
  if (style.unit === "bytes" || style.unit === "B") return bytesText(value);
  if (brief) return shortText(value);
  return style.unit ? `${numberText(value)} ${style.unit}` : numberText(value);
}

/** A box with as many decimals as its size needs. */
export function boxText([xmin, ymin, xmax, ymax]: readonly [number, number, number, number]): string {
  const size = Math.max(xmin > xmax ? xmax + 360 - xmin : xmax - xmin, ymax - ymin, 1e-6);
  const decimals = Math.min(7, Math.max(0, Math.ceil(2 - Math.log10(size))));
  return [xmin, ymin, xmax, ymax].map((side) => String(Number(side.toFixed(decimals)))).join(", ");
}
