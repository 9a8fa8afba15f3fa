/** How many boxes cover each cell of a grid: exact, at the cost of boxes plus cells, whatever the size of the boxes. */
import type { View } from "./mercator";

/** Cells that divide the world evenly: they stay where they are while the map moves. */
export interface Region {
  /** Cells around the world, and from pole to pole. */
  readonly across: number;
  /** The first column and row; columns may run past the antimeridian. */
  readonly column: number;
  readonly row: number;
  readonly columns: number;
  readonly rows: number;
}

export interface Grid extends Region {
  /** Boxes that cover a part of the cell, row by row from the top left. */
  readonly counts: Int32Array;
  /** The mean weight of these boxes, NaN where none has one. */
  readonly means: Float32Array | null;
  readonly maximum: number;
}

export interface GridOptions {
  /** One mark per item; only items with the mark `only` count. */
  readonly marks?: Uint8Array | null;
  readonly only?: number;
  /** One weight per item; NaN is left out of the mean. */
  readonly weights?: Float32Array | null;
}

const CELL = 2;
/** Up to this many cells around the world the whole world is counted, so that moving costs nothing. */
const WHOLE = 1024;

/** The region of a view: the whole world when it is small, else the view and half of it on either side. */
export function regionOf(view: View): Region {
  const across = Math.max(1, Math.round(view.scale / CELL));
  if (across <= WHOLE) return { across, column: 0, row: 0, columns: across, rows: across };
  const size = view.scale / across;
  const [columns, rows] = [Math.ceil(view.width / size), Math.ceil(view.height / size)];
  const column = Math.floor(view.x * across) - (columns >> 1);
  const row = Math.max(0, Math.floor(view.y * across) - (rows >> 1));
  return { across, column, row, columns: columns * 2 + 1, rows: Math.min(across - row, rows * 2 + 1) };
}

/** Whether a region made for another view of the map still covers the view. */
export function covers(region: Region, view: View): boolean {
  const { across, column, row, columns, rows } = region;
  if (across !== Math.max(1, Math.round(view.scale / CELL))) return false;
  if (columns === across) return true;
  const bottom = Math.min(across, (view.y + view.height / view.scale) * across);
  const right = (view.x + view.width / view.scale) * across;
  return column <= view.x * across && right <= column + columns && row <= Math.max(0, view.y * across) && bottom <= row + rows;
}

/** Adds 1 at the corner where a box starts and subtracts it past where it ends; two running sums give the counts. */
export function countCells(world: Float64Array, region: Region, options: GridOptions = {}): Grid {
  const { marks, only, weights } = options;
  const { across, column, row, columns, rows } = region;
  const stride = columns + 1;
  const counts = new Int32Array(stride * (rows + 1));
  const sums = weights ? new Float64Array(stride * (rows + 1)) : null;
  const known = weights ? new Int32Array(stride * (rows + 1)) : null;
  for (let i = 0, at = 0; at < world.length; i++, at += 4) {
    if (marks && marks[i] !== only) continue;
    const x0 = world[at];
    const x1 = world[at + 2];
    // An edge on a border of cells belongs to the side where the box is; a point or a line has its one cell.
    const top = Math.min(across - 1, Math.floor(world[at + 1] * across));
    const r0 = Math.max(0, top - row);
    const r1 = Math.min(rows - 1, Math.max(top, Math.ceil(world[at + 3] * across) - 1) - row);
    if (!(r0 <= r1)) continue;
    const weight = weights ? weights[i] : NaN;
    const left = Math.floor(x0 * across);
    const right = x1 - x0 >= 1 ? left + across - 1 : Math.min(left + across - 1, Math.max(left, Math.ceil(x1 * across) - 1));
    // The copy of the world on which the box first reaches the region; then every copy up to its far side.
    const turns = Math.ceil((column - right) / across);
    for (let shift = turns * across - column; left + shift < columns; shift += across) {
      const c0 = Math.max(0, left + shift);
      const c1 = Math.min(columns - 1, right + shift);
      const a = r0 * stride + c0;
      const b = r0 * stride + c1 + 1;
      const c = (r1 + 1) * stride + c0;
      const d = (r1 + 1) * stride + c1 + 1;
      counts[a]++;
      counts[b]--;
      counts[c]--;
      counts[d]++;
      if (sums && known && weight === weight) {
        sums[a] += weight;
        sums[b] -= weight;
        sums[c] -= weight;
        sums[d] += weight;
        known[a]++;
        known[b]--;
        known[c]--;
        known[d]++;
      }
    }
  }
  const cells = columns * rows;
  const means = sums && known ? meansOf(runningSums(sums, columns, rows), runningSums(known, columns, rows), cells) : null;
  const total = runningSums(counts, columns, rows);
  let maximum = 0;
  for (let i = 0; i < cells; i++) if (total[i] > maximum) maximum = total[i];
  return { ...region, counts: total.subarray(0, cells), means, maximum };
}

/** Sums along rows, then down columns, and closes the spare column so that rows follow each other. */
function runningSums<T extends Int32Array | Float64Array>(cells: T, columns: number, rows: number): T {
  const stride = columns + 1;
  for (let r = 0; r < rows; r++) {
    let sum = 0;
    for (let c = 0; c < columns; c++) {
      sum += cells[r * stride + c];
      // Rows above are closed already: their width is `columns`, and this never overtakes what is still to be read.
      cells[r * columns + c] = sum + (r ? cells[(r - 1) * columns + c] : 0);
    }
  }
  return cells;
}

function meansOf(sums: Float64Array, known: Int32Array, cells: number): Float32Array {
  const means = new Float32Array(cells);
  for (let i = 0; i < cells; i++) means[i] = known[i] ? sums[i] / known[i] : NaN;
  return means;
}
