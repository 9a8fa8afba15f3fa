/** The entry points of the bundle: `default.render` for anywidget, `renderStatic` for a page that carries its own data. */
import leafletCss from "leaflet/dist/leaflet.css";
import { Guard, el } from "./dom";
import { type PageTraits, type WidgetModel, pageHost, widgetHost } from "./hosts";
import css from "./map_widget.css";
import { MapView } from "./map_view";
import { latitudeOf, longitudeOf, worldX, worldY } from "./mercator";
import type { Host, Traits } from "./model";

function mount(parent: HTMLElement, host: Host): MapView | null {
  const cell = el("div", { class: "glm-cell" }, el("style", { text: leafletCss + css }));
  parent.append(cell);
  return new Guard(cell).run(() => new MapView(cell, host)) ?? null;
}

/** What a page, a test or a benchmark may call on a map. */
export interface MapHandle {
  get<K extends keyof Traits>(key: K): Traits[K];
  set<K extends keyof Traits>(key: K, value: Traits[K]): void;
  /** The items that a window touches, by the index of the browser. */
  query(window: [number, number, number, number]): number[];
  selected(): number[];
  /** Pixels of the map for a position, and the other way around. */
  pixelOf(longitude: number, latitude: number): { x: number; y: number };
  positionOf(x: number, y: number): { longitude: number; latitude: number };
  panBy(x: number, y: number): void;
  destroy(): void;
}

export async function renderStatic(parent: HTMLElement, traits: PageTraits): Promise<MapHandle | null> {
  const host = await pageHost(traits);
  const view = mount(parent, host);
  if (!view) return null;
  return {
    get: (key) => host.get(key),
    set: (key, value) => host.set(key, value),
    query: (window) => [...view.items.index.window(window)],
    selected: () => [...view.items.selected],
    pixelOf(longitude, latitude) {
      const { x, y, scale } = view.painter.view();
      return { x: (worldX(longitude) - x) * scale, y: (worldY(latitude) - y) * scale };
    },
    positionOf(px, py) {
      const { x, y, scale } = view.painter.view();
      return { longitude: longitudeOf(x + px / scale), latitude: latitudeOf(y + py / scale) };
    },
    panBy: (x, y) => void view.map.panBy([x, y], { animate: false }),
    destroy: () => view.destroy(),
  };
}

function render({ model, el: parent }: { model: WidgetModel; el: HTMLElement }): () => void {
  const view = mount(parent, widgetHost(model));
  return () => view?.destroy();
}

export default { render };
