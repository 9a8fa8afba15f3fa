/** The geometries of loaded rows: on Mercator's unit square, and found under the pointer. */
import Flatbush from "flatbush";
import { meets } from "./clip";
import { type Span, holds, spanOf } from "./lasso";
import { type View, worldX, worldY } from "./mercator";
import { type RowShapesTrait, bytesOf, float64s, uint32s } from "./model";

export const POINT = 0;
export const LINE = 1;
export const POLYGON = 2;
const HOLE = 3;
/** Pixels around the pointer in which a point or a line is found. */
export const REACH = 5;

/** A point, a line, or a polygon with its holes; `box` may run past the edges of the unit square. */
export interface Piece {
  readonly kind: number;
  readonly row: number;
  readonly lines: Float64Array[];
  readonly box: Span;
}

export class RowShapes {
  readonly pieces: readonly Piece[];
  /** How many rows are drawn, and how many the view has. */
  readonly drawn: number;
  readonly inView: number;
  private readonly tree: Flatbush | null;
  private readonly extent: Span;

  constructor(trait: RowShapesTrait) {
    this.drawn = trait.rows ?? 0;
    this.inView = trait.in_view ?? 0;
    this.pieces = piecesOf(trait);
    this.tree = this.pieces.length ? new Flatbush(this.pieces.length) : null;
    for (const { box } of this.pieces) this.tree?.add(box.x0, box.y0, box.x1, box.y1);
    this.tree?.finish();
    const { minX = 0, minY = 0, maxX = 0, maxY = 0 } = this.tree ?? {};
    this.extent = { x0: minX, y0: minY, x1: maxX, y1: maxY };
  }

  of(row: number): Piece[] {
    return this.pieces.filter((piece) => piece.row === row);
  }

  /** The rows under a point of the unit square: the nearest point first, then lines and areas, the smallest first. */
  at(x: number, y: number, view: View): number[] {
    const { tree, extent } = this;
    if (!tree) return [];
    const reach = REACH / view.scale;
    const hits = new Map<number, number>();
    for (let turn = Math.ceil(x - extent.x1 - reach); turn <= Math.floor(x - extent.x0 + reach); turn++) {
      const here = x - turn;
      for (const index of tree.search(here - reach, y - reach, here + reach, y + reach)) {
        const piece = this.pieces[index];
        if (!hit(piece, here, y, reach)) continue;
        const { x0, y0, x1, y1 } = piece.box;
        const size = piece.kind === POINT ? Math.hypot(x0 - here, y0 - y) : piece.kind + (x1 - x0) * (y1 - y0);
        hits.set(piece.row, Math.min(hits.get(piece.row) ?? Infinity, size));
      }
    }
    // Points lie on lines, and lines on areas: what is smaller is meant.
    return [...hits].sort(([a, size], [b, other]) => size - other || a - b).map(([row]) => row);
  }
}

export function piecesOf(trait: RowShapesTrait): Piece[] {
  const kinds = bytesOf(trait.kinds);
  const rows = uint32s(trait.items, "row items");
  const ends = uint32s(trait.offsets, "row offsets");
  const xy = float64s(trait.points, "row points", 2);
  if (!kinds.length) return [];
  if (rows.length !== kinds.length || ends.length !== kinds.length + 1 || ends[kinds.length] * 2 !== xy.length) {
    throw new Error(`${kinds.length} parts of rows do not fit their ${xy.length / 2} points`);
  }
  const world = xy.map((value, i) => (i % 2 ? worldY(value) : worldX(value)));
  const pieces: Piece[] = [];
  kinds.forEach((kind, i) => {
    const line = world.subarray(ends[i] * 2, ends[i + 1] * 2);
    if (kind === HOLE) pieces[pieces.length - 1]?.lines.push(line);
    else pieces.push({ kind, row: rows[i], lines: [line], box: spanOf(line) });
  });
  return pieces;
}

export function hit({ kind, lines, box }: Piece, x: number, y: number, reach: number): boolean {
  if (!meets(box, { x0: x - reach, y0: y - reach, x1: x + reach, y1: y + reach })) return false;
  if (kind === POINT) return Math.hypot(lines[0][0] - x, lines[0][1] - y) <= reach;
  if (kind === POLYGON && lines.filter((ring) => holds(ring, x, y)).length % 2) return true;
  return lines.some((line) => near(line, x, y, reach));
}

/** Whether a line passes a point within some distance. */
function near(line: Float64Array, x: number, y: number, reach: number): boolean {
  if (line.length === 2) return Math.hypot(line[0] - x, line[1] - y) <= reach;
  for (let i = 2; i < line.length; i += 2) {
    const [dx, dy] = [line[i] - line[i - 2], line[i + 1] - line[i - 1]];
    const length = dx * dx + dy * dy;
    const part = length ? Math.max(0, Math.min(1, ((x - line[i - 2]) * dx + (y - line[i - 1]) * dy) / length)) : 0;
    if (Math.hypot(line[i - 2] + part * dx - x, line[i - 1] + part * dy - y) <= reach) return true;
  }
  return false;
}
