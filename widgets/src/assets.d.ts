declare module "*.css" {
  const text: string;
  export default text;
}

declare module "world-atlas/countries-110m.json" {
  import type { GeometryCollection, Topology } from "topojson-specification";
  const topology: Topology<{ countries: GeometryCollection; land: GeometryCollection }>;
  export default topology;
}
