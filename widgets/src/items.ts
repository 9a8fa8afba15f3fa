/** The items of the map as the browser holds them: boxes, outlines, values, marks and the selection. */
import { type Box, BoxIndex, type Boxes, BROKEN, FINE, NO_BOUNDS, placeBoxes } from "./boxes";
import { type Scale, scaleOf } from "./colour";
import { holds, lassoed } from "./lasso";
import { type View, latitudeOf, longitudeOf, worldX, worldY } from "./mercator";
import { type Column, type Host, type Verdict, columnValues, float64s, marksOf, ringsOf, uint32s } from "./model";

/** Below this many pixels a box is drawn as a dot or a line, and can be pointed at. */
export const SMALLEST = 4;

export class Items {
  boxes: Boxes = placeBoxes(new Float64Array());
  rings = new Map<number, Float64Array[]>();
  columns: readonly Column[] = [];
  values = new Map<string, Float32Array>();
  marks: Uint8Array | null = null;
  /** 1 for what a query reads, 0 for what it skips; null without a query. */
  lit: Uint8Array | null = null;
  reasons: readonly string[] = [];
  names: readonly string[] = [];
  selected = new Uint32Array();
  /** 1 for each selected item. */
  chosen = new Uint8Array();
  private tree: BoxIndex | null = null;
  private scales = new Map<string, Scale>();

  constructor(private readonly host: Host) {
    this.loadBoxes();
  }

  get count(): number {
    return this.boxes.count;
  }

  /** Everything that hangs on the number of items. */
  loadBoxes(): void {
    const { host } = this;
    const degrees = float64s(host.get("boxes"), "boxes", 4);
    this.boxes = placeBoxes(degrees);
    this.tree = null;
    this.rings = ringsOf(host.get("rings"), host.get("ring_offsets"), host.get("ring_items"), degrees);
    this.names = host.get("names");
    this.loadColumns();
    this.loadMarks();
    this.loadSelected();
  }

  loadColumns(): void {
    this.columns = this.host.get("columns");
    this.values = columnValues(this.columns, this.host.get("column_data"), this.count);
    this.scales.clear();
  }

  loadMarks(): void {
    this.reasons = this.host.get("mark_reasons");
    this.setMarks(marksOf(this.host.get("marks"), this.count));
  }

  setMarks(marks: Uint8Array | null, reasons = this.reasons): void {
    this.marks = marks;
    this.reasons = reasons;
    this.lit = marks ? marks.map((mark) => (mark < 2 ? 1 : 0)) : null;
  }

  loadSelected(): void {
    this.selected = uint32s(this.host.get("selected_items"), "selected_items").filter((item) => item < this.count).sort();
    this.chosen = new Uint8Array(this.count);
    for (const item of this.selected) this.chosen[item] = 1;
  }

  get index(): BoxIndex {
    this.tree ??= new BoxIndex(this.boxes);
    return this.tree;
  }

  column(key: string): Column | null {
    return this.columns.find((column) => column.key === key) ?? null;
  }

  scale(key: string): Scale | null {
    const column = this.column(key);
    const values = this.values.get(key);
    if (!column || !values) return null;
    const scale = this.scales.get(key) ?? scaleOf(values, column);
    this.scales.set(key, scale);
    return scale;
  }

  nameOf(item: number): string {
    return this.names[item] ?? `#${item}`;
  }

  sidesOf(item: number): Box {
    const { degrees } = this.boxes;
    return [degrees[item * 4], degrees[item * 4 + 1], degrees[item * 4 + 2], degrees[item * 4 + 3]];
  }

  /** Why a query skips the item, null when it reads it. */
  reasonOf(item: number): string | null {
    const mark = this.marks?.[item] ?? 0;
    return mark < 2 ? null : (this.reasons[mark - 2] ?? "the query skips it");
  }

  /** The items under a point of the unit square, the smallest first, so that what lies inside another can be reached. */
  at(x: number, y: number, view: View): Uint32Array {
    const reach = SMALLEST / view.scale;
    const dy = Math.abs(latitudeOf(y + reach) - latitudeOf(y - reach)) / 2;
    // What lies beyond Mercator's limit is drawn on the edge of the map, and is pointed at there.
    const edge = y <= reach || y >= 1 - reach;
    const matches = this.index.near(longitudeOf(x), y <= reach ? 90 : y >= 1 - reach ? -90 : latitudeOf(y), reach * 360, edge ? 5 : dy);
    const { world } = this.boxes;
    const area = (item: number): number => (world[item * 4 + 2] - world[item * 4]) * (world[item * 4 + 3] - world[item * 4 + 1]);
    const hit = this.rings.size ? matches.filter((item) => this.ringHit(item, x, y, reach)) : matches;
    return hit.length > 50_000 ? hit : hit.sort((a, b) => area(a) - area(b) || a - b);
  }

  /** The items that a selecting box touches; an outline counts by its shape, not by its box. */
  inBox(window: Box): Uint32Array {
    const matches = this.index.window(window);
    if (!this.rings.size) return matches;
    const [x0, x1] = [worldX(window[0]), worldX(window[0] > window[2] ? window[2] + 360 : window[2])];
    const [y0, y1] = [worldY(window[3]), worldY(window[1])];
    const touched = lassoed(Float64Array.of(x0, y0, x1, y0, x1, y1, x0, y1), this.boxes.world, (item) => this.rings.get(item) ?? null);
    const shapes = new Set(touched);
    return matches.filter((item) => !this.rings.has(item) || shapes.has(item));
  }

  private ringHit(item: number, x: number, y: number, reach: number): boolean {
    const rings = this.rings.get(item);
    if (!rings) return true;
    return rings.some((ring) => {
      const turn = Math.round(ring[0] - x);
      return [turn - 1, turn, turn + 1].some(
        (k) => holds(ring, x + k, y) || [0, 1, 2, 3].some((side) => holds(ring, x + k + (side % 2 ? reach : -reach), y + (side > 1 ? reach : -reach))),
      );
    });
  }

  /** Items that are not drawn, or drawn with a warning. */
  flaggedItems(kind: "no_bounds" | "flagged"): Uint32Array {
    const { flags } = this.boxes;
    const matches: number[] = [];
    for (let i = 0; i < flags.length; i++) {
      if (kind === "no_bounds" ? flags[i] === NO_BOUNDS : flags[i] > NO_BOUNDS) matches.push(i);
    }
    return Uint32Array.from(matches);
  }

  /** What a window reads by the boxes alone, for a page without a kernel. A file whose bounds are missing or wrong is read. */
  query(window: Box): { marks: Uint8Array; reasons: string[]; verdict: Verdict } {
    const { flags } = this.boxes;
    const marks = new Uint8Array(this.count).fill(2);
    for (const item of this.index.window(window)) marks[item] = 1;
    const bytes = this.values.get("bytes");
    let [read, all, size] = [0, 0, 0];
    for (let i = 0; i < this.count; i++) {
      if (flags[i] !== FINE) marks[i] = 1;
      if (marks[i] === 1) read++;
      const weight = bytes?.[i] ?? 0;
      all += weight || 0;
      if (marks[i] === 1) size += weight || 0;
    }
    const verdict: Verdict = { files: this.count, files_read: read, ...(bytes ? { bytes: all, bytes_read: size } : {}) };
    return { marks, reasons: ["bounds do not overlap the query"], verdict };
  }

  isBroken(item: number): boolean {
    return this.boxes.flags[item] === BROKEN || this.boxes.flags[item] === NO_BOUNDS;
  }
}
