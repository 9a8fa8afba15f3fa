/** A grid of counts on the canvas, kept while the map moves within what was counted. */
import { STEPS, type Rgb, countSteps } from "./colour";
import { type Grid, type GridOptions, countCells, covers, regionOf } from "./density";
import type { View } from "./mercator";

export interface GridColours {
  readonly ramp: readonly Rgb[];
  /** 0 to 255 at the low and at the high end. */
  readonly alpha: readonly [number, number];
}

export class DensityLayer {
  private readonly canvas = document.createElement("canvas");
  private grid: Grid | null = null;
  private made: readonly unknown[] = [];

  /** Draws the counts of some items and returns the largest. */
  draw(context: CanvasRenderingContext2D, view: View, world: Float64Array, options: GridOptions, colours: GridColours): number {
    const state = [world, options.marks, options.only, options.weights, colours.ramp];
    if (!this.grid || !covers(this.grid, view) || state.some((part, i) => part !== this.made[i])) {
      this.grid = countCells(world, regionOf(view), options);
      this.made = state;
      this.paint(this.grid, colours);
    }
    const { across, column, row, columns, rows, maximum } = this.grid;
    if (!maximum) return 0;
    const size = view.scale / across;
    const right = view.x + view.width / view.scale;
    // One world is repeated for each copy in view; a part of it is not repeated.
    const [first, last] = columns === across ? [Math.floor(view.x), Math.floor(right)] : [0, 0];
    context.imageSmoothingEnabled = false;
    for (let k = first; k <= last; k++) {
      const x = (k + column / across - view.x) * view.scale;
      context.drawImage(this.canvas, x, (row / across - view.y) * view.scale, columns * size, rows * size);
    }
    return maximum;
  }

  /** One picture element per cell, later enlarged without smoothing: a cell is a count, not a blur. */
  private paint({ columns, rows, counts, means, maximum }: Grid, colours: GridColours): void {
    this.canvas.width = columns;
    this.canvas.height = rows;
    const context = this.canvas.getContext("2d");
    if (!context) throw new Error("the browser gives no 2-D canvas");
    const image = context.createImageData(columns, rows);
    const pixels = new Uint32Array(image.data.buffer);
    const [low, high] = colours.alpha;
    const inks = colours.ramp.map(([r, g, b], i) => {
      const alpha = Math.round(low + ((high - low) * i) / Math.max(1, colours.ramp.length - 1));
      return ((alpha << 24) | (b << 16) | (g << 8) | r) >>> 0;
    });
    const steps = countSteps(maximum);
    const most = steps.length - 1;
    for (let i = 0; i < pixels.length; i++) {
      const count = counts[i];
      if (!count) continue;
      const mean = means ? means[i] : NaN;
      if (means) pixels[i] = inks[mean === mean ? Math.round(mean * (STEPS - 1)) : 0];
      else pixels[i] = inks[steps[count < most ? count : most]];
    }
    context.putImageData(image, 0, 0);
  }
}
