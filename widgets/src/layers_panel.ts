/** Which layers are drawn: the items, the ground, and each overlay by its name. */
import { el } from "./dom";
import type { Ground, GroundMode } from "./ground";
import { typedPlace } from "./map_actions";
import { type Host, type Overlay, overlayParts } from "./model";
import type { Palette } from "./palette";

export interface DrawnOverlay {
  readonly overlay: Overlay;
  readonly parts: readonly Float64Array[];
  visible: boolean;
  colour: string;
}

export class LayersPanel {
  readonly element = el("div", { class: "glm-layers glm-control", attributes: { role: "group", "aria-label": "Layers" } });
  showBoxes = true;
  overlays: DrawnOverlay[] = [];
  private readonly basemaps = el("select", { class: "glm-select", attributes: { "aria-label": "Basemap" } });
  private readonly place = el("input", { class: "glm-input", attributes: { type: "text", "aria-label": "Go to longitude, latitude", placeholder: "longitude, latitude", spellcheck: "false" } });
  private readonly problem = el("div", { class: "glm-place-problem", attributes: { role: "alert" } });
  /** What the user has switched by hand, by the name of the overlay: it outlives new data. */
  private readonly switched = new Map<string, boolean>();

  constructor(
    private readonly host: Host,
    private readonly changed: () => void,
    private readonly ground: Ground,
    private readonly goTo: (longitude: number, latitude: number) => void,
  ) {
    this.element.hidden = true;
    this.place.addEventListener("change", () => {
      const place = typedPlace(this.place.value);
      const problem = typeof place === "string" ? place : "";
      this.problem.textContent = problem;
      this.problem.hidden = !problem;
      this.place.setAttribute("aria-invalid", String(Boolean(problem)));
      if (typeof place !== "string") this.goTo(place.longitude, place.latitude);
    });
    this.basemaps.addEventListener("change", () => this.ground.choose(this.basemaps.value as GroundMode));
    this.problem.hidden = true;
  }

  load(palette: Palette): void {
    const data = this.host.get("overlay_data");
    this.overlays = this.host.get("overlays").map((overlay, i) => ({
      overlay,
      parts: overlayParts(data[i], overlay.name),
      visible: this.switched.get(overlay.name) ?? overlay.visible !== false,
      colour: colourOf(overlay.color, palette.overlays[i % palette.overlays.length]),
    }));
    this.render();
  }

  recolour(palette: Palette): void {
    this.overlays.forEach((drawn, i) => {
      drawn.colour = colourOf(drawn.overlay.color, palette.overlays[i % palette.overlays.length]);
    });
    this.render();
  }

  render(): void {
    const noun = this.host.get("noun");
    this.element.replaceChildren(
      line(noun.charAt(0).toUpperCase() + noun.slice(1), null, this.showBoxes, (on) => this.set(() => (this.showBoxes = on))),
      ...this.overlays.map((drawn) =>
        line(drawn.overlay.name, drawn.colour, drawn.visible, (on) =>
          this.set(() => {
            drawn.visible = on;
            this.switched.set(drawn.overlay.name, on);
          }),
        ),
      ),
      el("label", { class: "glm-layer" }, el("span", { text: "Basemap" }), this.basemaps),
      el("label", { class: "glm-layer" }, el("span", { text: "Go to" }), this.place),
      this.problem,
    );
    this.basemaps.replaceChildren(...this.ground.choices.map(([value, text]) => el("option", { text, attributes: { value } })));
    this.basemaps.value = this.ground.mode;
  }

  private set(change: () => void): void {
    change();
    this.changed();
  }
}

function colourOf(requested: string | undefined, own: string): string {
  return requested && CSS.supports("color", requested) ? requested : own;
}

function line(text: string, colour: string | null, on: boolean, changed: (on: boolean) => void): HTMLElement {
  const box = el("input", { attributes: { type: "checkbox" } });
  box.checked = on;
  box.addEventListener("change", () => changed(box.checked));
  const swatch = el("span", { class: "glm-swatch" });
  if (colour) swatch.style.background = colour;
  else swatch.hidden = true;
  return el("label", { class: "glm-layer" }, box, swatch, el("span", { text }));
}
