/** Outlines of many boxes, written straight into picture elements: without a GPU that is several times faster than paths. */
import type { Rgb } from "./colour";

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

  draw(context: CanvasRenderingContext2D, width: number, height: number): void {
    if (!this.used || !this.image) return;
    this.canvas.getContext("2d")?.putImageData(this.image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.canvas, 0, 0, width, height);
  }
}
