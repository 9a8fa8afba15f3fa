/** Outlines of many boxes, written straight into picture elements: without a GPU that is several times faster than paths. */
import type { Rgb } from "./colour";
import type { View } from "./mercator";

/** A colour as one number, as a little-endian picture holds it. */
export function inkOf([r, g, b]: Rgb, alpha: number): number {
  return ((Math.round(alpha * 255) << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

/** A picture that outlines are written into, row by row. */
export interface Sheet {
  readonly pixels: Uint32Array;
  readonly columns: number;
  readonly rows: number;
}

/** Writes the frame of a box, clipped to the sheet. The right and the bottom side lie outside the box. */
export function frameBox(sheet: Sheet, left: number, top: number, right: number, bottom: number, thick: number, ink: number): void {
  const { pixels, columns } = sheet;
  const from = left > 0 ? left : 0;
  const to = right < columns ? right : columns;
  const low = bottom < sheet.rows ? bottom : sheet.rows;
  const inner = left + thick < to ? left + thick : to;
  const outer = Math.max(from, inner, right - thick);
  for (let y = top > 0 ? top : 0; y < low; y++) {
    const line = y * columns;
    const whole = y < top + thick || y >= bottom - thick;
    // Plain loops: a call to fill costs more than the few picture elements of a usual side.
    for (let x = line + from, end = line + (whole ? to : inner); x < end; x++) pixels[x] = ink;
    if (!whole) for (let x = line + outer, end = line + to; x < end; x++) pixels[x] = ink;
  }
}

/** Writes a line between the middles of two picture elements, clipped to the sheet, with a square brush. */
export function strokeLine(sheet: Sheet, x0: number, y0: number, x1: number, y1: number, thick: number, ink: number): void {
  const { pixels, columns, rows } = sheet;
  const [across, down] = [x1 - x0, y1 - y0];
  // The parts of the line, from 0 to 1, where each side of the sheet lets it in and out.
  let [from, to] = [0, 1];
  for (const [step, low, high] of [
    [across, -thick - x0, columns - x0],
    [down, -thick - y0, rows - y0],
  ]) {
    if (step === 0) {
      if (low > 0 || high < 0) return;
      continue;
    }
    from = Math.max(from, (step > 0 ? low : high) / step);
    to = Math.min(to, (step > 0 ? high : low) / step);
  }
  if (from > to) return;
  const steps = Math.max(1, Math.ceil(Math.max(Math.abs(across), Math.abs(down)) * (to - from)));
  const [stepX, stepY] = [(across * (to - from)) / steps, (down * (to - from)) / steps];
  let [x, y] = [x0 + across * from, y0 + down * from];
  for (let i = 0; i <= steps; i++, x += stepX, y += stepY) {
    const [left, top] = [Math.round(x), Math.round(y)];
    for (let v = Math.max(0, top); v < top + thick && v < rows; v++) {
      for (let u = Math.max(0, left); u < left + thick && u < columns; u++) pixels[v * columns + u] = ink;
    }
  }
}

export class PixelSheet {
  private readonly canvas = document.createElement("canvas");
  private image: ImageData | null = null;
  private sheet: Sheet = { pixels: new Uint32Array(), columns: 0, rows: 0 };
  private ratio = 1;
  private used = false;

  /** An empty sheet of the size of a view. */
  begin(width: number, height: number, ratio: number): void {
    const [columns, rows] = [Math.round(width * ratio), Math.round(height * ratio)];
    this.ratio = ratio;
    this.used = false;
    if (this.image?.width === columns && this.image.height === rows) {
      this.sheet.pixels.fill(0);
      return;
    }
    this.canvas.width = columns;
    this.canvas.height = rows;
    this.image = new ImageData(columns, rows);
    this.sheet = { pixels: new Uint32Array(this.image.data.buffer), columns, rows };
  }

  /** The outline of a box given in pixels of the view, or a filled one when it is too small to have an inside. */
  box(left: number, top: number, width: number, height: number, thick: number, ink: number): void {
    const { ratio } = this;
    const [right, bottom] = [Math.round((left + width) * ratio), Math.round((top + height) * ratio)];
    this.used = true;
    frameBox(this.sheet, Math.round(left * ratio), Math.round(top * ratio), right, bottom, Math.max(1, Math.round(thick * ratio)), ink);
  }

  /** The outline of a ring on the unit square, moved by some worlds; points that fall together cost nothing. */
  ring(ring: Float64Array, view: View, moved: number, width: number, ink: number): void {
    const { sheet, ratio } = this;
    const thick = Math.max(1, Math.round(width * ratio));
    const scale = view.scale * ratio;
    const end = ring.length - 2;
    this.used = true;
    let x = Math.round((ring[end] + moved - view.x) * scale);
    let y = Math.round((ring[end + 1] - view.y) * scale);
    for (let i = 0; i < ring.length; i += 2) {
      const [nextX, nextY] = [Math.round((ring[i] + moved - view.x) * scale), Math.round((ring[i + 1] - view.y) * scale)];
      if (nextX === x && nextY === y) continue;
      strokeLine(sheet, x, y, nextX, nextY, thick, ink);
      [x, y] = [nextX, nextY];
    }
  }

  draw(context: CanvasRenderingContext2D, width: number, height: number): void {
    if (!this.used || !this.image) return;
    this.canvas.getContext("2d")?.putImageData(this.image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.canvas, 0, 0, width, height);
  }
}
