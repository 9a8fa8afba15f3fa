/** Land and borders of the world, carried inside the bundle. */
import { feature, mesh } from "topojson-client";
import type { MultiLineString, MultiPolygon, Polygon, Position } from "geojson";
import topology from "world-atlas/countries-110m.json";
import { type View, copies, worldX, worldY } from "./mercator";

/** A line whose longitudes run on past ±180 instead of jumping. */
export function unwrap(points: readonly Position[]): [number, number][] {
  let turn = 0;
  return points.map(([x, y], i) => {
    if (i) {
      const step = x - points[i - 1][0];
      if (step > 180) turn -= 360;
      else if (step < -180) turn += 360;
    }
    return [x + turn, y];
  });
}

/** A ring to be filled: one that winds around the pole is closed along the edge of the map. */
export function closedRing(points: readonly Position[]): [number, number][] {
  const ring = unwrap(points);
  const [first, last] = [ring[0], ring[ring.length - 1]];
  if (Math.abs(last[0] - first[0]) < 180) return ring;
  const pole = ring[0][1] < 0 ? -90 : 90;
  return [...ring, [last[0], pole], [first[0], pole]];
}

export interface Basemap {
  readonly land: [number, number][][];
  readonly borders: [number, number][][];
}

export function basemap(): Basemap {
  const land: [number, number][][] = [];
  const shapes = feature(topology, topology.objects.land);
  for (const shape of "features" in shapes ? shapes.features : [shapes]) {
    const geometry = shape.geometry as Polygon | MultiPolygon;
    const polygons = geometry.type === "Polygon" ? [geometry.coordinates] : geometry.coordinates;
    for (const polygon of polygons) land.push(...polygon.map(closedRing));
  }
  const inner = mesh(topology, topology.objects.countries, (a, b) => a !== b) as MultiLineString;
  return { land, borders: inner.coordinates.map(unwrap) };
}

export interface GroundColours {
  readonly land: string;
  readonly coast: string;
  readonly border: string;
  readonly coastAbove: string;
}

export class BasemapPainter {
  private paths: { land: Path2D; borders: Path2D } | null = null;

  draw(context: CanvasRenderingContext2D, view: View, colours: GroundColours, withBorders = true): void {
    this.each(context, view, ({ land, borders }) => {
      context.fillStyle = colours.land;
      context.fill(land);
      context.strokeStyle = colours.border;
      if (withBorders) context.stroke(borders);
      context.strokeStyle = colours.coast;
      context.stroke(land);
    });
  }

  /** The coasts alone, over a sheet of data that hides the land. */
  drawCoasts(context: CanvasRenderingContext2D, view: View, colours: GroundColours): void {
    context.strokeStyle = colours.coastAbove;
    this.each(context, view, ({ land }) => context.stroke(land));
  }

  private each(context: CanvasRenderingContext2D, view: View, draw: (paths: { land: Path2D; borders: Path2D }) => void): void {
    const map = this.paths ? null : basemap();
    if (map) this.paths = { land: pathOf(map.land, true), borders: pathOf(map.borders, false) };
    if (!this.paths) return;
    // Shapes of the basemap run at most half a world past either side of their own.
    const [first, last] = copies(view, -0.5, 1.5);
    for (let k = first; k <= last; k++) {
      context.save();
      context.translate((k - view.x) * view.scale, -view.y * view.scale);
      context.scale(view.scale, view.scale);
      context.lineWidth = 1 / view.scale;
      draw(this.paths);
      context.restore();
    }
  }
}

function pathOf(lines: [number, number][][], closed: boolean): Path2D {
  const path = new Path2D();
  for (const line of lines) {
    line.forEach(([x, y], i) => (i ? path.lineTo(worldX(x), worldY(y)) : path.moveTo(worldX(x), worldY(y))));
    if (closed) path.closePath();
  }
  return path;
}
