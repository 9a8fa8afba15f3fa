/** The colours of the canvas in the two themes; those of the controls are in map_widget.css. */
import { OTHER, type Rgb, STEPS, type Theme, categoryColours, rampOf } from "./colour";

export interface Palette {
  readonly theme: Theme;
  readonly land: string;
  readonly coast: string;
  readonly border: string;
  readonly coastAbove: string;
  readonly ramp: Rgb[];
  readonly categories: Rgb[];
  readonly plain: Rgb;
  readonly neutral: Rgb;
  readonly unknown: Rgb;
  readonly faded: Rgb;
  readonly fadedRamp: Rgb[];
  readonly flagged: string;
  readonly selection: Rgb;
  readonly selectionRamp: Rgb[];
  readonly hover: string;
  readonly halo: string;
  readonly window: Rgb;
  readonly overlays: string[];
  /** Loaded rows. */
  readonly rows: Rgb;
}

/** One colour all along: only its opacity shows the count. */
function even(colour: Rgb): Rgb[] {
  return new Array<Rgb>(STEPS).fill(colour);
}

export const PALETTES: Record<Theme, Palette> = {
  light: {
    theme: "light",
    land: "#fbfbfa",
    coast: "#b9c1cb",
    border: "#dde1e6",
    coastAbove: "rgba(255,255,255,0.55)",
    ramp: rampOf("light"),
    categories: categoryColours("light"),
    plain: [47, 111, 181],
    neutral: [38, 50, 66],
    unknown: OTHER.light,
    faded: [132, 140, 150],
    fadedRamp: even([132, 140, 150]),
    flagged: "#c0392b",
    selection: [214, 88, 0],
    selectionRamp: even([214, 88, 0]),
    hover: "#10161f",
    halo: "rgba(255,255,255,0.9)",
    window: [150, 38, 120],
    overlays: ["#0d8ca3", "#7a5cc2", "#2a8a5c", "#b5408f", "#8f6b1e"],
    rows: [110, 44, 186],
  },
  dark: {
    theme: "dark",
    land: "#242a32",
    coast: "#4b5663",
    border: "#343c46",
    coastAbove: "rgba(10,14,20,0.6)",
    ramp: rampOf("dark"),
    categories: categoryColours("dark"),
    plain: [106, 169, 236],
    neutral: [214, 222, 232],
    unknown: OTHER.dark,
    faded: [120, 130, 142],
    fadedRamp: even([120, 130, 142]),
    flagged: "#ff7b6e",
    selection: [255, 159, 67],
    selectionRamp: even([255, 159, 67]),
    hover: "#ffffff",
    halo: "rgba(10,14,20,0.9)",
    window: [240, 130, 210],
    overlays: ["#4fc3d6", "#ac95f0", "#5fc595", "#e783c6", "#d0b265"],
    rows: [196, 160, 255],
  },
};
