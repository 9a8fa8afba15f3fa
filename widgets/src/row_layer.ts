/** Draws the geometries of loaded rows, cut to the view. */
import { clipLine, clipRing, inside } from "./clip";
import { type Rgb, cssOf } from "./colour";
import type { Span } from "./lasso";
import type { View } from "./mercator";
import { eachCopy } from "./outlines";
import type { Palette } from "./palette";
import { LINE, POINT, POLYGON, type Piece } from "./row_shapes";

const RADIUS = 3;
/** Pixels under which a line or a polygon is drawn as a dot. */
const TINY = 3;
/** Pixels around the view that are drawn too: no stroke along the cut is seen. */
const MARGIN = 16;
/** Parts in one path: one path of all would take much longer. */
const BATCH = 50;
/** How strongly all insides together cover the map. */
const INSIDE = 0.6;

/** Up to this many parts a line is set off from what lies below it. */
const FEW = 400;

/** The insides go to a surface of their own, so that many of them over each other still let the map through. */
export function drawRows(context: CanvasRenderingContext2D, insides: CanvasRenderingContext2D, view: View, pieces: readonly Piece[], palette: Palette): void {
  const colour = palette.rows;
  paint(context, insides, view, pieces, pieces.length > FEW ? { colour, width: 1, fill: 0.3, halo: null, radius: 2.5 } : { colour, width: 1.5, fill: 0.3, halo: palette.halo });
}

/** One row that stands out. */
export function drawRow(context: CanvasRenderingContext2D, view: View, pieces: readonly Piece[], palette: Palette): void {
  paint(context, context, view, pieces, { colour: palette.rows, width: 2.5, fill: 0.35, halo: palette.hover, radius: RADIUS + 2 });
}

interface Style {
  readonly colour: Rgb;
  readonly width: number;
  readonly fill: number;
  readonly halo: string | null;
  readonly radius?: number;
}

function paint(context: CanvasRenderingContext2D, insides: CanvasRenderingContext2D, view: View, pieces: readonly Piece[], style: Style): void {
  const { colour, width, halo, radius = RADIUS } = style;
  let [edges, dots] = [new Path2D(), new Path2D()];
  const batches: { edges: Path2D; dots: Path2D }[] = [];
  const dot = (x: number, y: number, size: number): void => {
    dots.moveTo(x + size, y);
    dots.arc(x, y, size, 0, 2 * Math.PI);
  };
  insides.fillStyle = cssOf(colour, style.fill);
  const reach = MARGIN / view.scale;
  pieces.forEach(({ kind, lines, box }, index) => {
    if (index % BATCH === 0) batches.push(({ edges, dots } = { edges: new Path2D(), dots: new Path2D() }));
    const [top, bottom] = [view.y - reach, view.y + view.height / view.scale + reach];
    if (box.y0 > bottom || box.y1 < top) return;
    eachCopy({ ...view, x: view.x - reach, width: view.width + 2 * MARGIN }, box.x0, box.x1, (moved) => {
      const [x, y] = [(box.x0 + moved - view.x) * view.scale, (box.y0 - view.y) * view.scale];
      if (kind === POINT) dot(x, y, radius);
      else if (Math.max(box.x1 - box.x0, box.y1 - box.y0) * view.scale < TINY) dot(x, y, radius * 0.75);
      else {
        const left = view.x - moved - reach;
        const rect = { x0: left, y0: top, x1: left + view.width / view.scale + 2 * reach, y1: bottom };
        const area = new Path2D();
        for (const line of cut(kind, lines, box, rect)) {
          trace(edges, line, view, moved, kind === POLYGON);
          if (kind === POLYGON) trace(area, line, view, moved, true);
        }
        // One by one: two polygons that overlap must not cancel each other out.
        if (kind === POLYGON) insides.fill(area, "evenodd");
      }
    });
  });
  const stroke = (): void => batches.forEach((batch) => context.stroke(batch.edges));
  if (insides !== context) {
    context.globalAlpha = INSIDE;
    context.drawImage(insides.canvas, 0, 0, view.width, view.height);
    context.globalAlpha = 1;
  }
  context.lineJoin = "round";
  if (halo) {
    context.strokeStyle = halo;
    context.lineWidth = width + 2;
    stroke();
    context.lineWidth = 2;
    for (const batch of batches) context.stroke(batch.dots);
  }
  context.strokeStyle = cssOf(colour);
  context.lineWidth = width;
  stroke();
  context.fillStyle = cssOf(colour);
  for (const batch of batches) context.fill(batch.dots);
}

function cut(kind: number, lines: readonly Float64Array[], box: Span, rect: Span): readonly Float64Array[] {
  if (inside(box, rect)) return lines;
  return kind === LINE ? lines.flatMap((line) => clipLine(line, rect)) : lines.map((ring) => clipRing(ring, rect)).filter((ring) => ring.length > 4);
}

/** Adds a line to a path; points that fall on the same pixel are left out. */
function trace(path: Path2D, line: Float64Array, view: View, moved: number, closed: boolean): void {
  let [lastX, lastY] = [NaN, NaN];
  for (let i = 0; i < line.length; i += 2) {
    const [x, y] = [(line[i] + moved - view.x) * view.scale, (line[i + 1] - view.y) * view.scale];
    if (!i) path.moveTo(x, y);
    else if (Math.abs(x - lastX) < 0.5 && Math.abs(y - lastY) < 0.5 && i + 2 < line.length) continue;
    else path.lineTo(x, y);
    [lastX, lastY] = [x, y];
  }
  if (closed) path.closePath();
}
