/** The one layer of the map: a canvas for the data, and one on top for what follows the pointer. */
import { DomUtil, Layer, type LeafletEventHandlerFn, type Map as LeafletMap, type ZoomAnimEvent } from "leaflet";
import { BasemapPainter } from "./basemap";
import type { GroundMode } from "./ground";
import { type Box, countVisible } from "./boxes";
import { STEPS, cssOf } from "./colour";
import { DensityLayer } from "./density_layer";
import type { Items } from "./items";
import { type View, worldX, worldY } from "./mercator";
import type { Overlay } from "./model";
import { bucketsOf, drawItems, drawMarked, drawOverlay, eachCopy, fillItems } from "./outlines";
import type { Palette } from "./palette";
import { PixelSheet } from "./pixel_sheet";
import { drawRow, drawRows } from "./row_layer";
import type { Piece } from "./row_shapes";

/** Above this many boxes in view their outlines are a sheet, and counts per cell show more. */
export const DENSE = 20_000;
/** Up to this many boxes each is filled, which shows by depth of colour where they overlap. */
const FILLED = 4_000;
/** How strongly one inside is filled, and at most all that overlap: the land still shows through. */
const INSIDE = { single: 0.23, all: 0.6 };
/** Up to this many files that a query reads stand out by a thick outline. */
const FEW = 50;

/** A shape that is being drawn, in pixels of the map. */
export interface Rubber {
  readonly kind: "box" | "lasso";
  readonly points: readonly { x: number; y: number }[];
}

export interface Scene {
  readonly items: Items;
  readonly palette: Palette;
  readonly colorBy: string;
  readonly showBoxes: boolean;
  readonly ground: GroundMode;
  readonly overlays: readonly { overlay: Overlay; parts: readonly Float64Array[]; visible: boolean; colour: string }[];
  readonly window: Box | null;
  /** Loaded rows, and the one that is pointed at. */
  readonly rows: readonly Piece[];
  readonly row: readonly Piece[];
  readonly hovered: number | null;
  readonly rubber: Rubber | null;
  /** Whether a frame counts all it shows, for benchmarks. */
  readonly measure: boolean;
}

export interface Frame {
  readonly mode: "outlines" | "density" | "means";
  readonly boxes: number;
  /** The largest overlap count in view, 0 when no grid was drawn. */
  readonly maximum: number;
  readonly ms: number;
}

interface Inner {
  _getNewPixelOrigin(center: unknown, zoom: number): { x: number; y: number };
}

function isLand(ground: GroundMode): boolean {
  return ground === "land" || ground === "borders";
}

export class Painter extends Layer {
  private readonly data = el2d("glm-data");
  private readonly top = el2d("glm-top");
  private readonly insides = el2d("glm-insides");
  private readonly basemap = new BasemapPainter();
  private readonly sheet = new PixelSheet();
  private readonly counts = new DensityLayer();
  private readonly fadedCounts = new DensityLayer();
  private readonly chosenCounts = new DensityLayer();
  private frame = 0;
  private wanted = { data: false, top: false };
  private leaflet: LeafletMap | null = null;
  private drawnZoom = 0;
  private drawnCenter: { lat: number; lng: number } = { lat: 0, lng: 0 };

  constructor(
    private readonly scene: () => Scene,
    private readonly drawn: (frame: Frame) => void,
    private readonly failed: (error: unknown) => void,
  ) {
    super();
  }

  override onAdd(map: LeafletMap): this {
    this.leaflet = map;
    const pane = map.getPane("overlayPane");
    for (const { canvas } of [this.data, this.top]) {
      DomUtil.addClass(canvas, map.options.zoomAnimation ? "leaflet-zoom-animated" : "leaflet-zoom-hide");
      pane?.append(canvas);
    }
    this.schedule();
    return this;
  }

  override onRemove(): this {
    cancelAnimationFrame(this.frame);
    this.data.canvas.remove();
    this.top.canvas.remove();
    this.leaflet = null;
    return this;
  }

  override getEvents(): { [name: string]: LeafletEventHandlerFn } {
    const redraw = (): void => this.schedule();
    return { move: redraw, moveend: redraw, zoomend: redraw, resize: redraw, viewreset: redraw, zoomanim: (event) => this.animate(event as ZoomAnimEvent) };
  }

  /** Draws with the next frame: everything, or only what lies on top. */
  schedule(onlyTop = false): void {
    this.wanted.top = true;
    if (!onlyTop) this.wanted.data = true;
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      try {
        this.draw();
      } catch (error) {
        this.failed(error);
      }
    });
  }

  view(): View {
    const map = this.leaflet;
    if (!map) throw new Error("the map is gone");
    const size = map.getSize();
    const scale = 256 * 2 ** map.getZoom();
    const corner = map.getPixelBounds().min ?? { x: 0, y: 0 };
    return { x: corner.x / scale, y: corner.y / scale, scale, width: size.x, height: size.y };
  }

  private draw(): void {
    const map = this.leaflet;
    // During an animated zoom the last picture is stretched; it is redrawn when the zoom ends.
    if (!map || (map as unknown as { _animatingZoom?: boolean })._animatingZoom) return;
    const scene = this.scene();
    const view = this.view();
    if (!view.width || !view.height) return;
    const { wanted } = this;
    this.wanted = { data: false, top: false };
    this.drawnZoom = map.getZoom();
    this.drawnCenter = map.getCenter();
    const begin = performance.now();
    if (wanted.data) {
      const frame = this.drawData(scene, this.prepare(this.data, view, map), view);
      this.drawTop(scene, this.prepare(this.top, view, map), view);
      this.drawn({ ...frame, ms: performance.now() - begin });
    } else {
      this.drawTop(scene, this.prepare(this.top, view, map), view);
    }
  }

  private prepare(surface: Surface, view: View, map: LeafletMap): CanvasRenderingContext2D {
    const context = this.sized(surface, view);
    DomUtil.setPosition(surface.canvas, map.containerPointToLayerPoint([0, 0]));
    return context;
  }

  /** An empty surface of the size of the view. */
  private sized({ canvas, context }: Surface, view: View): CanvasRenderingContext2D {
    const ratio = pixelRatio();
    const [width, height] = [Math.round(view.width * ratio), Math.round(view.height * ratio)];
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
      canvas.style.width = `${view.width}px`;
      canvas.style.height = `${view.height}px`;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, view.width, view.height);
    return context;
  }

  private drawData(scene: Scene, context: CanvasRenderingContext2D, view: View): Omit<Frame, "ms"> {
    const { palette, items } = scene;
    if (isLand(scene.ground)) this.basemap.draw(context, view, palette, scene.ground === "borders");
    let frame: Omit<Frame, "ms"> = { mode: "outlines", boxes: 0, maximum: 0 };
    if (scene.showBoxes) {
      const visible = countVisible(items.boxes, view, scene.measure ? Infinity : DENSE);
      frame = visible > DENSE ? this.drawDense(scene, context, view, visible) : this.drawOutlines(scene, context, view, visible);
    }
    if (isLand(scene.ground) && frame.mode !== "outlines") this.basemap.drawCoasts(context, view, palette);
    for (const { overlay, parts, visible, colour } of scene.overlays) {
      if (visible) drawOverlay(context, view, overlay.kind, parts, colour);
    }
    if (scene.rows.length) drawRows(context, this.sized(this.insides, view), view, scene.rows, palette);
    return frame;
  }

  private drawDense({ items, palette, colorBy }: Scene, context: CanvasRenderingContext2D, view: View, boxes: number): Omit<Frame, "ms"> {
    const { world } = items.boxes;
    const { lit } = items;
    if (lit) this.fadedCounts.draw(context, view, world, { marks: lit, only: 0 }, { ramp: palette.fadedRamp, alpha: [26, 84] });
    const weights = items.scale(colorBy)?.positions ?? null;
    const maximum = this.counts.draw(context, view, world, { weights, marks: lit, only: 1 }, { ramp: palette.ramp, alpha: [165, 240] });
    return { mode: weights ? "means" : "density", boxes, maximum };
  }

  private drawOutlines({ items, palette, colorBy }: Scene, context: CanvasRenderingContext2D, view: View, boxes: number): Omit<Frame, "ms"> {
    const scale = items.scale(colorBy);
    const overlap = colorBy === "overlap" && !scale;
    const filled = boxes <= FILLED;
    let maximum = 0;
    const { lit, faded, flagged } = bucketsOf(items, view, scale?.steps ?? null);
    this.sheet.begin(view.width, view.height, pixelRatio());
    if (filled) fillItems(context, items, view, faded, palette.faded, 0.05);
    drawItems(context, this.sheet, items, view, faded, { colour: palette.faded, alpha: filled ? 0.5 : 0.35, fine: filled });
    if (overlap) {
      const colours = { ramp: palette.ramp, alpha: [120, 225] } as const;
      maximum = this.counts.draw(context, view, items.boxes.world, { marks: items.lit, only: 1 }, colours);
    }
    const styled = lit.flatMap((ids, step) => {
      const known = scale?.positions ? palette.ramp[step] : palette.categories[step];
      return ids.length ? [{ ids, colour: step === STEPS ? palette.unknown : overlap ? palette.neutral : scale ? known : palette.plain }] : [];
    });
    if (filled && !overlap) {
      const insides = this.sized(this.insides, view);
      for (const { ids, colour } of styled) fillItems(insides, items, view, ids, colour, INSIDE.single);
      context.globalAlpha = INSIDE.all;
      context.drawImage(this.insides.canvas, 0, 0, view.width, view.height);
      context.globalAlpha = 1;
    }
    const width = items.lit && styled.reduce((sum, { ids }) => sum + ids.length, 0) <= FEW ? 2 : 1;
    for (const { ids, colour } of styled) {
      drawItems(context, this.sheet, items, view, ids, { colour, alpha: overlap ? 0.5 : 0.95, width, fine: filled });
    }
    this.sheet.draw(context, view.width, view.height);
    drawMarked(context, items, view, flagged, { stroke: palette.flagged, width: 1, dashed: true });
    return { mode: "outlines", boxes, maximum };
  }

  private drawTop(scene: Scene, context: CanvasRenderingContext2D, view: View): void {
    const { items, palette } = scene;
    if (items.selected.length > DENSE) {
      const options = { marks: items.chosen, only: 1 };
      this.chosenCounts.draw(context, view, items.boxes.world, options, { ramp: palette.selectionRamp, alpha: [90, 200] });
    } else if (items.selected.length) {
      const fine = items.selected.length <= FILLED;
      if (fine) fillItems(context, items, view, items.selected, palette.selection, 0.16);
      this.sheet.begin(view.width, view.height, pixelRatio());
      drawItems(context, this.sheet, items, view, items.selected, { colour: palette.selection, width: 2, fine });
      this.sheet.draw(context, view.width, view.height);
    }
    if (scene.hovered !== null && scene.hovered < items.count) {
      drawMarked(context, items, view, [scene.hovered], { stroke: palette.hover, width: 1.5, halo: palette.halo });
    }
    if (scene.row.length) drawRow(context, view, scene.row, palette);
    if (scene.window) drawWindow(context, view, scene.window, palette);
    if (scene.rubber) drawRubber(context, scene.rubber, palette);
  }

  /** Stretches the last picture along with Leaflet's animated zoom. */
  private animate({ center, zoom }: ZoomAnimEvent): void {
    const map = this.leaflet;
    if (!map) return;
    const scale = map.getZoomScale(zoom, this.drawnZoom);
    const origin = (map as unknown as Inner)._getNewPixelOrigin(center, zoom);
    const half = map.getSize().multiplyBy(-0.5 * scale);
    const offset = map.project(this.drawnCenter, zoom).add(half);
    offset.x -= origin.x;
    offset.y -= origin.y;
    for (const { canvas } of [this.data, this.top]) DomUtil.setTransform(canvas, offset, scale);
  }
}

function pixelRatio(): number {
  return Math.min(2, window.devicePixelRatio || 1);
}

interface Surface {
  readonly canvas: HTMLCanvasElement;
  readonly context: CanvasRenderingContext2D;
}

function el2d(name: string): Surface {
  const canvas = document.createElement("canvas");
  canvas.className = `glm-canvas ${name}`;
  const context = canvas.getContext("2d");
  if (!context) throw new Error("the browser gives no 2-D canvas");
  return { canvas, context };
}

/** The window on Mercator's unit square; x1 > 1 past the antimeridian. */
export function windowSpan([xmin, ymin, xmax, ymax]: Box): { x0: number; y0: number; x1: number; y1: number } {
  return { x0: worldX(xmin), y0: worldY(ymax), x1: worldX(xmin > xmax ? xmax + 360 : xmax), y1: worldY(ymin) };
}

function drawWindow(context: CanvasRenderingContext2D, view: View, window: Box, palette: Palette): void {
  const { x0, y0, x1, y1 } = windowSpan(window);
  eachCopy(view, x0, x1, (moved) => {
    const left = Math.round((x0 + moved - view.x) * view.scale);
    const top = Math.round((y0 - view.y) * view.scale);
    const [width, height] = [Math.round((x1 - x0) * view.scale), Math.round((y1 - y0) * view.scale)];
    context.fillStyle = cssOf(palette.window, 0.08);
    context.fillRect(left, top, width, height);
    context.strokeStyle = palette.halo;
    context.lineWidth = 4;
    context.strokeRect(left, top, width, height);
    context.strokeStyle = cssOf(palette.window);
    context.lineWidth = 2;
    context.strokeRect(left, top, width, height);
    context.fillStyle = cssOf(palette.window);
    for (const x of [left, left + width]) for (const y of [top, top + height]) context.fillRect(x - 3, y - 3, 6, 6);
  });
}

function drawRubber(context: CanvasRenderingContext2D, { kind, points }: Rubber, palette: Palette): void {
  if (points.length < 2) return;
  const path = new Path2D();
  if (kind === "box") {
    const [a, b] = [points[0], points[points.length - 1]];
    path.rect(Math.min(a.x, b.x) + 0.5, Math.min(a.y, b.y) + 0.5, Math.abs(a.x - b.x), Math.abs(a.y - b.y));
  } else {
    points.forEach(({ x, y }, i) => (i ? path.lineTo(x, y) : path.moveTo(x, y)));
    path.closePath();
  }
  context.fillStyle = cssOf(palette.selection, 0.1);
  context.fill(path);
  context.strokeStyle = cssOf(palette.selection);
  context.lineWidth = 1.5;
  context.setLineDash([5, 3]);
  context.stroke(path);
  context.setLineDash([]);
}
