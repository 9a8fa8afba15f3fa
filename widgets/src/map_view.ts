/** One map in one cell: puts the parts together and connects them to the traits. */
import { type LeafletMouseEvent, Map as LeafletMap, control, latLngBounds } from "leaflet";
import type { Box } from "./boxes";
import { Guard, el } from "./dom";
import { FootLine } from "./foot_line";
import { Framing } from "./framing";
import { Ground } from "./ground";
import { ItemCard, RowCard } from "./hover_card";
import { ItemTable } from "./item_table";
import { Items } from "./items";
import { lassoed } from "./lasso";
import { LayersPanel } from "./layers_panel";
import { Legend } from "./legend";
import { savePicture, toggleFullScreen } from "./map_actions";
import type { Host, Traits } from "./model";
import { type Frame, Painter, type Rubber, type Scene } from "./painter";
import { PALETTES, type Palette } from "./palette";
import { Picking } from "./picking";
import { Pointing, type Tool, boxBetween } from "./pointing";
import { QueryWindow } from "./query_window";
import { RowsPanel } from "./rows_panel";
import { StepPanel } from "./step_panel";
import { movesLittle, themeNow, watchTheme } from "./theme";
import { Toolbar } from "./toolbar";

/** Narrower than this, in pixels, the table is below the map. */
const NARROW = 860;
const BOXES: (keyof Traits)[] = ["boxes", "rings", "ring_offsets", "ring_items", "names"];
const COLUMNS: (keyof Traits)[] = ["columns", "column_data"];
const MARKS: (keyof Traits)[] = ["marks", "mark_reasons"];

export class MapView {
  readonly root = el("div", { class: "glm", attributes: { role: "region" } });
  readonly map: LeafletMap;
  readonly items: Items;
  readonly painter: Painter;
  private palette: Palette = PALETTES.light;
  private rubber: Rubber | null = null;
  private placed = false;
  private readonly stop = new AbortController();
  private readonly guard = new Guard(this.root);
  private readonly frame = el("div", { class: "glm-map", attributes: { tabindex: "0", role: "application" } });
  private readonly ground: Ground;
  private readonly legend = new Legend();
  private readonly framing: Framing;
  private readonly picking: Picking;
  private readonly pointing: Pointing;
  private readonly query: QueryWindow;
  private readonly toolbar: Toolbar;
  private readonly card: ItemCard;
  private readonly rowCard: RowCard;
  private readonly rows: RowsPanel;
  private readonly table: ItemTable;
  private readonly layers: LayersPanel;
  private readonly foot: FootLine;
  private readonly step: StepPanel;

  constructor(
    parent: HTMLElement,
    private readonly host: Host,
  ) {
    parent.append(this.root);
    const { signal } = this.stop;
    const items = (): Items => this.items;
    const noun = (): string => host.get("noun");
    this.items = new Items(host);
    this.map = leafletIn(this.frame);
    this.painter = new Painter(() => this.scene(), (frame) => this.drawn(frame), (error) => this.guard.show(error));
    this.framing = new Framing(this.map, host, signal);
    this.card = new ItemCard(host, items);
    this.rowCard = new RowCard(host);
    this.rows = this.makeRows(signal);
    const run = (work: () => void): void => void this.guard.run(work);
    this.picking = new Picking(host, items, this.painter, this.card, this.rowCard, () => this.rows, this.frame, run);
    this.query = new QueryWindow(host, items, (marks) => this.painter.schedule(!marks), signal);
    this.step = new StepPanel(host);
    this.ground = new Ground(this.map, host, () => [this.layers.render(), this.painter.schedule()]);
    this.layers = new LayersPanel(host, () => this.painter.schedule(), this.ground, (x, y) => this.map.setView([y, x], Math.max(8, this.map.getZoom())));
    this.toolbar = this.makeToolbar();
    this.table = new ItemTable(host, {
      items,
      noun,
      pick: (item, add) => this.picking.select(Uint32Array.of(item), add ? "toggle" : "set"),
      hover: (item) => this.picking.highlight(item),
      zoomTo: (item) => this.framing.fit(this.items, Uint32Array.of(item)),
    });
    this.foot = new FootLine({
      list: (kind) => {
        this.showTable(true);
        this.picking.select(this.items.flaggedItems(kind), "set");
      },
      version: (version) => host.set("version", version),
    });
    this.pointing = this.makePointing(signal);
    this.root.append(this.toolbar.element, el("div", { class: "glm-body" }, this.frame, this.table.element), this.rows.element, this.foot.element);
    this.frame.append(this.query.bar.element, this.layers.element, this.legend.element, this.ground.credit, this.ground.message, this.card.element, this.rowCard.element, this.step.element);
    this.layers.load(this.palette);
    this.map.addLayer(this.painter);
    this.hearTraits();
    this.hearPerson(signal);
    this.useTool("pan");
    this.applyAll();
    this.showTable(false);
    this.rows.load();
    this.toolbar.showRows(this.rows.offered, !this.rows.element.hidden);
    this.query.sync();
    const observer = new ResizeObserver(() => this.guard.run(() => this.resized()));
    observer.observe(this.root);
    signal.addEventListener("abort", () => observer.disconnect());
  }

  destroy(): void {
    this.stop.abort();
    this.map.remove();
    this.root.remove();
  }

  private makeToolbar(): Toolbar {
    return new Toolbar({
      tool: (tool) => this.useTool(tool),
      zoom: (step) => this.map.setZoom(this.map.getZoom() + step),
      fit: () => this.framing.fit(this.items),
      fitSelection: () => this.framing.fit(this.items, this.items.selected),
      colorBy: (key) => this.host.set("color_by", key),
      fullScreen: () => toggleFullScreen(this.root),
      savePicture: () => savePicture(this.frame, this.host.get("title")),
      toggleLayers: () => !(this.layers.element.hidden = !this.layers.element.hidden),
      toggleTable: () => this.showTable(this.table.element.hidden),
      toggleRows: () => this.rows.toggle(),
    });
  }

  private makeRows(signal: AbortSignal): RowsPanel {
    const target = {
      changed: (pointed: boolean) => this.painter.schedule(pointed),
      zoomTo: (box: Box) => this.framing.fitBox(box),
      view: () => {
        const { x, y, scale, width, height } = this.painter.view();
        return boxBetween({ x, y }, { x: x + width / scale, y: y + height / scale });
      },
      resized: () => this.toolbar?.showRows(this.rows.offered, !this.rows.element.hidden),
    };
    return new RowsPanel(this.host, target, signal);
  }

  private makePointing(signal: AbortSignal): Pointing {
    const { guard, picking } = this;
    const target = {
      view: () => this.painter.view(),
      window: () => this.query.window,
      rubber: (shape: Rubber | null) => {
        this.rubber = shape;
        this.painter.schedule(true);
      },
      box: guard.wrap((window: Box, add: boolean) => picking.select(this.items.inBox(window), add ? "add" : "set")),
      lasso: guard.wrap((polygon: Float64Array, add: boolean) => {
        const matches = lassoed(polygon, this.items.boxes.world, (item) => this.items.rings.get(item) ?? null);
        picking.select(matches, add ? "add" : "set");
      }),
      setWindow: guard.wrap((window: Box | null, done: boolean) => this.query.set(window, done)),
      click: guard.wrap((at: { x: number; y: number }, add: boolean) => picking.click(at, add)),
    };
    return new Pointing(this.frame, target, signal);
  }

  private hearTraits(): void {
    const { host, stop, guard } = this;
    const onChange = (keys: readonly (keyof Traits)[], work: (changed: Set<keyof Traits>) => void): void => {
      let changed = new Set<keyof Traits>();
      // Traits that come in one message are applied together: one by one they would be inconsistent.
      const take = (): void => {
        const all = changed;
        changed = new Set();
        if (!stop.signal.aborted) guard.run(() => work(all));
      };
      for (const key of keys) {
        const end = host.on(key, () => {
          if (!changed.size) queueMicrotask(take);
          changed.add(key);
        });
        stop.signal.addEventListener("abort", end);
      }
    };
    onChange([...BOXES, ...COLUMNS, ...MARKS], (changed) => this.reload(changed));
    onChange(["selected_items"], () => this.syncSelection());
    onChange(["color_by"], () => this.applyColour());
    onChange(["window"], () => this.query.sync());
    onChange(["verdict"], () => this.query.syncVerdict());
    onChange(["overlays", "overlay_data"], () => {
      this.layers.load(this.palette);
      this.painter.schedule();
    });
    onChange(["step"], () => this.step.sync());
    onChange(["page"], () => this.table.render());
    onChange(["row_page"], () => this.rows.renderPage());
    onChange(["row_status", "row_shapes"], (changed) => {
      if (changed.has("row_shapes")) {
        this.picking.unhover();
        this.rowCard.reset();
        this.rows.load();
      } else {
        this.rows.sync();
      }
    });
    onChange(["view"], () => this.framing.follow());
    onChange(["theme", "title", "noun", "height", "notes", "versions", "version", "basemap", "tile_url", "attribution"], () => this.applyAll());
    stop.signal.addEventListener("abort", host.onMessage((message) => guard.run(() => [this.card, this.rowCard].forEach((card) => card.receive(message)))));
  }

  private hearPerson(signal: AbortSignal): void {
    const { map, frame, guard, picking } = this;
    watchTheme(() => guard.run(() => this.applyTheme()), signal);
    map.on("mousemove", (event: LeafletMouseEvent) => {
      if (!this.pointing.busy && !onControl(event.originalEvent)) picking.hoverSoon(event.containerPoint);
      else picking.unhover();
    });
    map.on("mouseout movestart zoomstart", () => picking.unhover());
    map.on("moveend resize", () => this.rows.moved());
    map.on("click", (event: LeafletMouseEvent) => {
      const { ctrlKey, metaKey, shiftKey } = event.originalEvent;
      if (this.pointing.tool !== "pan" || shiftKey || onControl(event.originalEvent)) return;
      guard.run(() => picking.click(event.containerPoint, ctrlKey || metaKey));
    });
    // The wheel scrolls the notebook until the map has been clicked or focused.
    frame.addEventListener("focusin", () => map.scrollWheelZoom.enable(), { signal });
    frame.addEventListener("focusout", () => map.scrollWheelZoom.disable(), { signal });
    frame.addEventListener("keydown", (event) => guard.run(() => this.key(event)), { signal });
    for (const part of frame.querySelectorAll(".glm-control")) {
      for (const name of ["dblclick", "mousedown", "wheel", "keydown"]) {
        part.addEventListener(name, (event) => event.stopPropagation(), { signal, passive: true });
      }
    }
  }

  private key(event: KeyboardEvent): void {
    if (event.key === "Escape") {
      if (this.pointing.busy) this.pointing.cancel();
      else if (this.query.window) this.query.set(null, true);
      else this.picking.select(new Uint32Array(), "set");
      this.picking.unhover();
    } else if (event.key === "Enter") {
      const { x, y } = this.map.getSize();
      this.picking.click({ x: x / 2, y: y / 2 }, event.ctrlKey || event.metaKey);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  private useTool(tool: Tool): void {
    this.pointing.tool = tool;
    this.toolbar.showTool(tool);
    this.frame.dataset.tool = tool;
    this.query.setTool(tool === "window");
    if (tool === "pan") this.map.dragging.enable();
    else this.map.dragging.disable();
  }

  private showTable(open: boolean): boolean {
    this.root.classList.toggle("glm-with-table", open);
    this.table.show(open);
    this.toolbar.showTable(open);
    this.resized();
    return open;
  }

  private applyAll(): void {
    const { host, frame, root } = this;
    const [noun, title, height] = [host.get("noun"), host.get("title"), `${Math.max(160, host.get("height"))}px`];
    root.style.setProperty("--glm-height", height);
    root.setAttribute("aria-label", title || `Map of ${noun}`);
    frame.setAttribute("aria-label", `Map of ${title || noun}. Arrow keys move, plus and minus zoom, Enter selects at the centre, Escape clears.`);
    this.toolbar.showTitle(title);
    this.foot.showVersions(host.get("versions"), host.get("version"));
    this.ground.apply();
    this.layers.render();
    this.applyTheme();
    this.applyItems();
  }

  private applyTheme(): void {
    const requested = this.host.get("theme");
    const theme = themeNow(requested);
    this.root.dataset.theme = theme;
    this.root.dataset.requested = requested;
    this.palette = PALETTES[theme];
    this.layers.recolour(this.palette);
    this.painter.schedule();
  }

  private applyItems(): void {
    this.applyColour();
    this.foot.showCounts(this.items, this.host.get("noun"));
    this.foot.showNotes(this.items, this.host.get("notes"));
    this.toolbar.showSelection(this.items.selected.length > 0);
  }

  private applyColour(): void {
    this.toolbar.showColumns(this.items.columns, this.host.get("color_by"));
    this.painter.schedule();
  }

  private reload(changed: Set<keyof Traits>): void {
    const { items } = this;
    const empty = !items.count;
    if (BOXES.some((key) => changed.has(key))) {
      items.loadBoxes();
      this.picking.unhover();
      this.card.reset();
      this.table.reset();
      this.query.refresh();
      if (empty && items.count && this.placed) this.framing.fit(items, undefined, false);
    } else {
      if (COLUMNS.some((key) => changed.has(key))) items.loadColumns();
      if (MARKS.some((key) => changed.has(key))) items.loadMarks();
      this.table.render();
    }
    this.guard.clear();
    this.applyItems();
  }

  private syncSelection(): void {
    this.items.loadSelected();
    this.table.follow(this.items.selected.length > 0);
    this.foot.showCounts(this.items, this.host.get("noun"));
    this.toolbar.showSelection(this.items.selected.length > 0);
    this.painter.schedule(true);
  }

  private resized(): void {
    const { width } = this.root.getBoundingClientRect();
    if (!width) return;
    this.root.classList.toggle("glm-narrow", width < NARROW);
    this.map.invalidateSize({ animate: false });
    const { y } = this.map.getSize();
    // Never smaller than the map is high: above and below the world there is nothing to see.
    // Leaflet's own setter would animate, and end on top of the view that is set next.
    const least = Math.max(0, Math.ceil(Math.log2(y / 256) * 2) / 2);
    this.map.options.minZoom = least;
    if (this.map.getZoom() < least) this.map.setZoom(least, { animate: false });
    this.table.resize(this.root.classList.contains("glm-narrow") ? 250 : y);
    if (!this.placed) {
      this.placed = true;
      if (!this.framing.follow()) this.framing.fit(this.items, undefined, false);
      // The index is built while idle.
      setTimeout(() => this.guard.run(() => !this.stop.signal.aborted && this.items.index), 60);
    }
    this.painter.schedule();
  }

  private scene(): Scene {
    const { host, items, palette, layers, rubber } = this;
    const { showBoxes, overlays } = layers;
    const [colorBy, measure] = [host.get("color_by"), host.get("measure")];
    const { shapes, row } = this.rows;
    const drawn = { rows: shapes.pieces, row: row === null ? [] : shapes.of(row), window: this.query.window };
    return { items, palette, colorBy, showBoxes, ground: this.ground.mode, overlays, ...drawn, hovered: this.picking.hovered, rubber, measure };
  }

  private drawn(frame: Frame): void {
    this.legend.update(this.items, this.palette, this.host.get("color_by"), frame, this.host.get("noun"), this.layers.overlays);
    if (this.host.get("measure")) this.host.set("drawn", { boxes: frame.boxes, ms: frame.ms, mode: frame.mode });
  }
}

function onControl({ target }: Event): boolean {
  return target instanceof Element && target.closest(".glm-control") !== null;
}

function leafletIn(frame: HTMLElement): LeafletMap {
  const still = movesLittle();
  const map = new LeafletMap(frame, {
    center: [20, 0],
    zoom: 1,
    maxZoom: 20,
    zoomSnap: 0.5,
    wheelPxPerZoomLevel: 90,
    attributionControl: false,
    zoomControl: false,
    boxZoom: false,
    scrollWheelZoom: false,
    // East and west there are worlds enough; north and south the map ends.
    maxBounds: latLngBounds([-90, -36_000], [90, 36_000]),
    maxBoundsViscosity: 1,
    inertia: !still,
    zoomAnimation: !still,
    fadeAnimation: !still,
  });
  control.scale({ imperial: false, position: "bottomright", maxWidth: 120 }).addTo(map);
  // Back from beyond the edge without a glide: one that is under way when a view is set ends on top of that view.
  map.panInsideBounds = (bounds, options) => LeafletMap.prototype.panInsideBounds.call(map, bounds, { ...options, animate: false });
  return map;
}
