/** What part of the world is shown: zooming to items, and the view shared with Python and with linked maps. */
import { type Map as LeafletMap, latLngBounds } from "leaflet";
import { type Box, extentOf } from "./boxes";
import { throttled } from "./dom";
import type { Items } from "./items";
import { LIMIT } from "./mercator";
import type { Host } from "./model";

export class Framing {
  private following = false;
  private readonly send = throttled(80, () => {
    const { lat, lng } = this.map.getCenter();
    this.host.set("view", { lat, lng, zoom: this.map.getZoom() });
  });

  constructor(
    private readonly map: LeafletMap,
    private readonly host: Host,
    signal: AbortSignal,
  ) {
    map.on("move", () => {
      if (!this.following) this.send();
    });
    signal.addEventListener("abort", () => this.send.cancel());
  }

  /** Shows some items, all by default. */
  fit(items: Items, ids?: Uint32Array, animate = true): void {
    const extent = extentOf(items.boxes, ids);
    if (extent) this.fitBox(extent, animate);
    else if (!ids) this.map.setView([20, 0], this.map.getMinZoom(), { animate: false });
  }

  fitBox(box: Box, animate = true): void {
    const [xmin, ymin, xmax, ymax] = box;
    const [south, north] = [ymin, ymax].map((y) => Math.max(-LIMIT, Math.min(LIMIT, y)));
    const east = xmin > xmax ? xmax + 360 : xmax;
    this.map.fitBounds(latLngBounds([south, xmin], [north, east]), { padding: [28, 28], maxZoom: 14, animate: animate && undefined });
  }

  /** Takes over the view of the model; false when it has none. */
  follow(): boolean {
    const { lat, lng, zoom } = this.host.get("view");
    if (lat === undefined || lng === undefined || zoom === undefined) return false;
    const here = this.map.getCenter();
    if (here.lat === lat && here.lng === lng && this.map.getZoom() === zoom) return true;
    // Without the flag two linked maps would answer each other for ever.
    this.following = true;
    try {
      this.map.setView([lat, lng], zoom, { animate: false });
    } finally {
      this.following = false;
    }
    return true;
  }
}
