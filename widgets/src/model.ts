/** What Python and the browser share: the traits of geolake_nb.jupyter.map_widget.MapWidget, and how their bytes are read. */
import type { Box } from "./boxes";
import { worldX, worldY } from "./mercator";
import type { ValueStyle } from "./value_text";

export interface Column extends ValueStyle {
  readonly key: string;
  readonly label: string;
}

export interface Overlay {
  readonly name: string;
  readonly kind: "rings" | "points" | "lines";
  readonly color?: string;
  readonly visible?: boolean;
}

export interface Verdict {
  readonly files?: number;
  readonly files_read?: number;
  readonly bytes?: number;
  readonly bytes_read?: number;
  readonly text?: string;
  /** The filter and the window as SQL, where it is not long. */
  readonly sql?: string;
  /** The window of the verdict. */
  readonly window?: readonly number[];
}

export type Cell = string | number | boolean | null;

export interface Page {
  readonly columns?: readonly (string | { key: string; label?: string; kind?: string; unit?: string })[];
  readonly rows?: readonly (readonly Cell[])[];
  /** The item of each row, so that a row and its box find each other. */
  readonly ids?: readonly number[];
  readonly page?: number;
  readonly pages?: number;
  readonly total?: number;
  /** The box of each row in degrees, of loaded rows. */
  readonly boxes?: readonly (readonly number[] | null)[];
}

export interface PageRequest {
  readonly page: number;
  readonly size: number;
  readonly sort: string | null;
  readonly descending: boolean;
  readonly selected_only: boolean;
}

/** What loading the rows in the window reads, guessed by Python. */
export interface RowEstimate {
  readonly files?: number;
  readonly bytes?: number;
  readonly rows?: number | null;
  readonly most?: number | null;
  readonly seconds?: number;
}

export interface RowStatus {
  /** Missing where rows cannot be loaded. */
  readonly state?: "none" | "ready" | "loading" | "loaded" | "cancelled" | "failed";
  readonly estimate?: RowEstimate;
  /** Row groups. */
  readonly done?: number;
  readonly total?: number;
  readonly rows?: number;
  readonly bytes?: number;
  readonly seconds?: number;
  readonly text?: string;
}

/** Buffers: a byte a part, Uint32 and Float64. */
export interface RowShapesTrait {
  readonly kinds?: unknown;
  readonly items?: unknown;
  readonly offsets?: unknown;
  readonly points?: unknown;
  readonly rows?: number;
  readonly in_view?: number;
  readonly view?: readonly number[] | null;
}

export interface Notes {
  readonly no_bounds?: number;
  readonly flagged?: number;
  readonly problems?: readonly (readonly [string, number])[];
}

/** What Python suggests: empty without a suggestion. */
export interface Step {
  readonly text?: string;
  readonly lines?: readonly string[];
  /** Pairs of what is sent back and the label of a button. */
  readonly actions?: readonly (readonly [string, string])[];
  readonly command?: string;
  readonly is_central?: boolean;
  readonly is_problem?: boolean;
  readonly is_busy?: boolean;
}

export interface MapView {
  readonly lat?: number;
  readonly lng?: number;
  readonly zoom?: number;
}

/** One entry per trait. `unknown` is a buffer: see `bytesOf`. */
export interface Traits {
  boxes: unknown;
  rings: unknown;
  ring_offsets: unknown;
  ring_items: unknown;
  columns: Column[];
  column_data: unknown;
  color_by: string;
  marks: unknown;
  mark_reasons: string[];
  window: Box | null;
  verdict: Verdict;
  selected_items: unknown;
  overlays: Overlay[];
  overlay_data: unknown[];
  names: string[];
  page: Page;
  page_request: PageRequest | Record<string, never>;
  row_status: RowStatus;
  row_shapes: RowShapesTrait;
  row_page: Page;
  row_page_request: PageRequest | Record<string, never>;
  step: Step;
  versions: number[];
  version: number;
  view: MapView;
  notes: Notes;
  basemap: "" | "none" | "land" | "borders" | "tiles";
  tile_url: string;
  attribution: string;
  theme: "auto" | "light" | "dark";
  title: string;
  noun: string;
  height: number;
  measure: boolean;
  drawn: { boxes: number; ms: number; mode: string } | Record<string, never>;
}

export const DEFAULTS: Traits = {
  boxes: null,
  rings: null,
  ring_offsets: null,
  ring_items: null,
  columns: [],
  column_data: null,
  color_by: "",
  marks: null,
  mark_reasons: [],
  window: null,
  verdict: {},
  selected_items: null,
  overlays: [],
  overlay_data: [],
  names: [],
  page: {},
  page_request: {},
  row_status: {},
  row_shapes: {},
  row_page: {},
  row_page_request: {},
  step: {},
  versions: [],
  version: 0,
  view: {},
  notes: {},
  basemap: "",
  tile_url: "",
  attribution: "",
  theme: "auto",
  title: "",
  noun: "files",
  height: 420,
  measure: false,
  drawn: {},
};

/** A kernel behind the map, or the data of a page without one. */
export interface Host {
  /** Whether Python listens. */
  readonly live: boolean;
  get<K extends keyof Traits>(key: K): Traits[K];
  set<K extends keyof Traits>(key: K, value: Traits[K]): void;
  /** Calls back when the other side (or another view) has set the trait; the result ends that. */
  on(key: keyof Traits, callback: () => void): () => void;
  send(message: unknown): void;
  onMessage(callback: (message: unknown) => void): () => void;
}

/** The bytes of a buffer in any of the shapes that hosts hand over; null and "" are empty. */
export function bytesOf(value: unknown): Uint8Array<ArrayBuffer> {
  if (value === null || value === undefined || value === "") return new Uint8Array();
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (ArrayBuffer.isView(value)) {
    // A copy: the view may start at an odd byte of a larger message, and numbers need theirs aligned.
    return new Uint8Array(value.buffer as ArrayBuffer, value.byteOffset, value.byteLength).slice();
  }
  throw new Error(`the map expected bytes and got ${typeof value}`);
}

function whole(value: unknown, size: number, name: string): ArrayBuffer {
  const bytes = bytesOf(value);
  if (bytes.byteLength % size) throw new Error(`${name} has ${bytes.byteLength} bytes, which is not a multiple of ${size}`);
  return bytes.buffer;
}

export function float64s(value: unknown, name: string, perItem = 1): Float64Array {
  return new Float64Array(whole(value, 8 * perItem, name));
}

export function uint32s(value: unknown, name: string): Uint32Array {
  return new Uint32Array(whole(value, 4, name));
}

/** The values of each column, by key. */
export function columnValues(columns: readonly Column[], data: unknown, count: number): Map<string, Float32Array> {
  const all = new Float32Array(whole(data, 4, "column_data"));
  if (all.length !== columns.length * count) {
    throw new Error(`column_data has ${all.length} values; ${columns.length} columns of ${count} items need ${columns.length * count}`);
  }
  return new Map(columns.map((column, i) => [column.key, all.subarray(i * count, (i + 1) * count)]));
}

/** The mark of each item, null when none is set. */
export function marksOf(value: unknown, count: number): Uint8Array | null {
  const marks = bytesOf(value);
  if (!marks.length) return null;
  if (marks.length !== count) throw new Error(`marks has ${marks.length} values for ${count} items`);
  return marks.some((mark) => mark > 0) ? marks : null;
}

/** The outlines that replace the rectangle of an item, on Mercator's unit square. */
export function ringsOf(points: unknown, offsets: unknown, items: unknown, degrees: Float64Array): Map<number, Float64Array[]> {
  const xy = float64s(points, "rings", 2);
  const ends = uint32s(offsets, "ring_offsets");
  const owners = uint32s(items, "ring_items");
  const rings = new Map<number, Float64Array[]>();
  if (!owners.length) return rings;
  if (ends.length !== owners.length + 1) throw new Error(`ring_offsets has ${ends.length} values for ${owners.length} rings`);
  owners.forEach((item, i) => {
    if (ends[i] > ends[i + 1] || ends[i + 1] * 2 > xy.length || item * 4 >= degrees.length) {
      throw new Error(`ring ${i} lies outside its data`);
    }
    const [xmin, xmax] = [degrees[item * 4], degrees[item * 4 + 2]];
    // The box decides on which side of the antimeridian the points of a wrapped outline belong.
    const turn = xmin > xmax ? (xmin + xmax) / 2 : -Infinity;
    const ring = new Float64Array((ends[i + 1] - ends[i]) * 2);
    for (let p = 0, at = ends[i] * 2; p < ring.length; p += 2, at += 2) {
      ring[p] = worldX(xy[at] < turn ? xy[at] + 360 : xy[at]);
      ring[p + 1] = worldY(xy[at + 1]);
    }
    rings.set(item, [...(rings.get(item) ?? []), ring]);
  });
  return rings;
}

/** The parts of an overlay on Mercator's unit square: x y pairs, a NaN pair ends a part. Longitudes may run past 180. */
export function overlayParts(data: unknown, name: string): Float64Array[] {
  const xy = float64s(data, name, 2);
  const parts: Float64Array[] = [];
  for (let from = 0, at = 0; at <= xy.length; at += 2) {
    if (at < xy.length && !Number.isNaN(xy[at])) continue;
    if (at > from) parts.push(xy.slice(from, at).map((value, i) => (i % 2 ? worldY(value) : worldX(value))));
    from = at + 2;
  }
  return parts;
}

/** The window as sent, null unless it is four finite numbers in order. */
export function windowOf(value: unknown): Box | null {
  if (!Array.isArray(value) || value.length !== 4 || !value.every((side) => Number.isFinite(side))) return null;
  const [xmin, ymin, xmax, ymax] = value as number[];
  return ymin <= ymax ? [xmin, ymin, xmax, ymax] : null;
}

/** The window that somebody has typed, or why it is none. */
export function typedWindow(text: string): Box | string {
  const words = text.split(/[\s,;]+/).filter(Boolean);
  const strange = words.find((word) => !Number.isFinite(Number(word)));
  if (strange !== undefined) return `${strange.slice(0, 20)} is not a number: write xmin, ymin, xmax, ymax`;
  if (words.length !== 4) return `Expected four numbers, got ${words.length}: write xmin, ymin, xmax, ymax`;
  return windowOf(words.map(Number)) ?? "ymin is above ymax: write the south before the north";
}

/** The window as WKT; one that crosses the antimeridian has a part on either side. */
export function windowWkt([xmin, ymin, xmax, ymax]: Box): string {
  const ring = (west: number, east: number): string => `((${west} ${ymin}, ${east} ${ymin}, ${east} ${ymax}, ${west} ${ymax}, ${west} ${ymin}))`;
  return xmin <= xmax ? `POLYGON ${ring(xmin, xmax)}` : `MULTIPOLYGON (${ring(xmin, 180)}, ${ring(-180, xmax)})`;
}

/** The window between two corners, brought to ±180; all around the world becomes -180 to 180. */
export function windowBetween(x0: number, y0: number, x1: number, y1: number): Box {
  const [west, east] = [Math.min(x0, x1), Math.max(x0, x1)];
  const [south, north] = [Math.min(y0, y1), Math.max(y0, y1)];
  if (east - west >= 360) return [-180, south, 180, north];
  const home = (x: number): number => x - 360 * Math.floor((x + 180) / 360);
  const right = home(east);
  return [home(west), south, right === -180 && east > west ? 180 : right, north];
}
