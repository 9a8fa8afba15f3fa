/** Web Mercator on the unit square: x 0 at 180° west, y 0 at the northern limit. */

/** The latitude at which Mercator's square ends; what lies beyond is drawn on the edge. */
export const LIMIT = 85.0511287798066;

export function worldX(longitude: number): number {
  return (longitude + 180) / 360;
}

export function worldY(latitude: number): number {
  if (latitude >= LIMIT) return 0;
  if (latitude <= -LIMIT) return 1;
  const sine = Math.sin((latitude * Math.PI) / 180);
  return 0.5 - Math.log((1 + sine) / (1 - sine)) / (4 * Math.PI);
}

export function longitudeOf(x: number): number {
  return x * 360 - 180;
}

export function latitudeOf(y: number): number {
  return (Math.atan(Math.sinh(Math.PI * (1 - 2 * y))) * 180) / Math.PI;
}

/** What a canvas shows: its top left corner on the unit square, and pixels per world. */
export interface View {
  readonly x: number;
  readonly y: number;
  readonly scale: number;
  readonly width: number;
  readonly height: number;
}

/** The numbers k for which a shape from x0 to x1, moved by k worlds, touches the view: [first, last]. */
export function copies(view: View, x0: number, x1: number): [number, number] {
  const right = view.x + view.width / view.scale;
  return [Math.ceil(view.x - x1), Math.floor(right - x0)];
}
