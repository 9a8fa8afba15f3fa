/** The row of controls above the map. */
import { type IconName, el, iconButton } from "./dom";
import { READ } from "./legend";
import type { Column } from "./model";
import type { Tool } from "./pointing";

export interface ToolbarTarget {
  tool(tool: Tool): void;
  zoom(step: number): void;
  fit(): void;
  fitSelection(): void;
  colorBy(key: string): void;
  fullScreen(): void;
  savePicture(): void;
  toggleLayers(): boolean;
  toggleTable(): boolean;
  toggleRows(): boolean;
}

const TOOLS: readonly [Tool, IconName, string][] = [
  ["pan", "pan", "Move the map; click to select"],
  ["box", "box", "Select by a box (also: Shift and drag)"],
  ["lasso", "lasso", "Select by a lasso"],
  ["window", "window", "Query window"],
];

export class Toolbar {
  readonly element = el("div", { class: "glm-bar", attributes: { role: "toolbar", "aria-label": "Map" } });
  private readonly title = el("span", { class: "glm-title" });
  private readonly tools = new Map<Tool, HTMLButtonElement>();
  private readonly colours = el("select", { class: "glm-select", attributes: { "aria-label": "Colour by" } });
  private readonly toSelection: HTMLButtonElement;
  private readonly tableButton: HTMLButtonElement;
  private readonly rowsButton: HTMLButtonElement;

  constructor(target: ToolbarTarget) {
    for (const [tool, name, label] of TOOLS) this.tools.set(tool, iconButton(name, label, () => target.tool(tool)));
    // The tool that a map is opened for has its name on it.
    const queryTool = this.tools.get("window");
    queryTool?.classList.add("glm-worded");
    queryTool?.append(el("span", { text: "Query window" }));
    this.toSelection = iconButton("target", "Zoom to the selection", () => target.fitSelection());
    const layers = iconButton("layers", "Layers", () => layers.setAttribute("aria-expanded", String(target.toggleLayers())));
    layers.setAttribute("aria-expanded", "false");
    this.tableButton = iconButton("table", "Table", () => this.showTable(target.toggleTable()));
    this.rowsButton = iconButton("rows", "Rows in the window", () => this.showRows(true, target.toggleRows()));
    this.colours.addEventListener("change", () => target.colorBy(this.colours.value));
    this.element.append(
      this.title,
      group("Pointer", ...this.tools.values()),
      group(
        "Zoom",
        iconButton("plus", "Zoom in", () => target.zoom(1)),
        iconButton("minus", "Zoom out", () => target.zoom(-1)),
        iconButton("fit", "Zoom to everything", () => target.fit()),
        this.toSelection,
      ),
      el("label", { class: "glm-label" }, el("span", { text: "Colour" }), this.colours),
      group("Panels", layers, this.tableButton, this.rowsButton),
      group("Map", iconButton("full", "Full screen", () => target.fullScreen()), iconButton("picture", "Save as PNG", () => target.savePicture())),
    );
  }

  showTool(active: Tool): void {
    for (const [tool, button] of this.tools) button.setAttribute("aria-pressed", String(tool === active));
  }

  showTable(open: boolean): void {
    this.tableButton.setAttribute("aria-pressed", String(open));
  }

  showRows(offered: boolean, open: boolean): void {
    this.rowsButton.hidden = !offered;
    this.rowsButton.setAttribute("aria-pressed", String(open));
  }

  showSelection(any: boolean): void {
    this.toSelection.disabled = !any;
  }

  showTitle(text: string): void {
    this.title.textContent = text;
    this.title.title = text;
  }

  showColumns(columns: readonly Column[], active: string): void {
    // The names of `color=` in Python.
    const keys = [...columns.map(({ key }) => key), ...(columns.some(({ key }) => key === "overlap") ? [] : ["overlap"]), READ];
    this.colours.replaceChildren(option("", "none"), ...keys.map((key) => option(key, key)));
    this.colours.value = active;
    if (this.colours.selectedIndex < 0) this.colours.value = "";
  }
}

function option(value: string, text: string): HTMLOptionElement {
  return el("option", { text, attributes: { value } });
}

function group(label: string, ...buttons: HTMLElement[]): HTMLElement {
  return el("div", { class: "glm-group", attributes: { role: "group", "aria-label": label } }, ...buttons);
}
