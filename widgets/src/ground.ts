/** What lies under the data: nothing, the land of the bundle with or without borders, or tiles of a server. */
import { type Map as LeafletMap, TileLayer } from "leaflet";
import { el } from "./dom";
import type { Host } from "./model";

export type GroundMode = "none" | "land" | "borders" | "tiles";

/** A server that answers none of so many requests is given up. */
const PATIENCE = 4;

export class Ground {
  readonly credit = el("div", { class: "glm-credit" });
  readonly message = el("div", { class: "glm-ground-message glm-control", attributes: { role: "status" } });
  private tiles: TileLayer | null = null;
  private url = "";
  private failed = false;

  constructor(
    private readonly map: LeafletMap,
    private readonly host: Host,
    private readonly changed: () => void,
  ) {
    this.message.hidden = true;
  }

  get mode(): GroundMode {
    const chosen = this.host.get("basemap") || (this.host.get("tile_url") ? "tiles" : "borders");
    return chosen === "tiles" && (this.failed || !this.host.get("tile_url")) ? "borders" : chosen;
  }

  /** What can be chosen here. */
  get choices(): readonly [GroundMode, string][] {
    const own: [GroundMode, string][] = [["none", "none"], ["land", "land"], ["borders", "land and borders"]];
    return this.host.get("tile_url") ? [...own, ["tiles", "tiles"]] : own;
  }

  choose(mode: GroundMode): void {
    // Chosen again, a server gets another chance.
    this.failed = false;
    this.url = "";
    this.host.set("basemap", mode);
    this.apply();
    this.changed();
  }

  apply(): void {
    const address = this.host.get("tile_url");
    if (address !== this.url) this.failed = false;
    const shown = this.mode === "tiles";
    this.credit.textContent = shown ? this.host.get("attribution") : "";
    if (!this.failed) this.message.hidden = true;
    if (shown && this.tiles && address === this.url) return;
    this.url = address;
    this.tiles?.remove();
    this.tiles = shown ? this.tilesOf(address) : null;
  }

  private tilesOf(url: string): TileLayer {
    const layer = new TileLayer(url, { maxZoom: 20 });
    let [loaded, errors] = [0, 0];
    layer.on("tileload", () => loaded++);
    layer.on("tileerror", () => {
      if (++errors < PATIENCE || loaded || layer !== this.tiles) return;
      this.failed = true;
      this.message.textContent = "The tiles cannot be loaded: the built-in land is shown instead";
      this.message.hidden = false;
      // Not from inside of its own event.
      setTimeout(() => {
        this.apply();
        this.changed();
      });
    });
    return layer.addTo(this.map);
  }
}
