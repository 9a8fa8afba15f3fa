// Builds the bundles of the map and of the catalog; with --test it runs the unit tests instead.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build, transform } from "esbuild";
import { feature } from "topojson-client";

const here = dirname(fileURLToPath(import.meta.url));
const folder = join(here, "..", "geolake_nb", "jupyter", "static");
const bundled = ["flatbush", "flatqueue", "leaflet", "topojson-client", "world-atlas"];

/** Every file that decides what the bundle holds, in one order on every machine. */
function sources() {
  const inside = readdirSync(join(here, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(here.length + 1).replaceAll("\\", "/"));
  return [...inside, "build.mjs", "package-lock.json"].sort();
}

/** SHA-256 over name, NUL, bytes, NUL of each source: tests/jupyter/test_bundle.py computes the same. */
function hashOfSources() {
  const hash = createHash("sha256");
  for (const name of sources()) {
    hash.update(name).update("\0").update(readFileSync(join(here, name))).update("\0");
  }
  return hash.digest("hex");
}

/** The licences of what is inside: they ask to travel with every copy. */
function licences() {
  return bundled
    .map((name) => {
      const folder = join(here, "node_modules", name);
      const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
      return `${name} ${version}\n${readFileSync(join(folder, "LICENSE"), "utf8").trim().replaceAll("*/", "")}`;
    })
    .join("\n\n");
}

/** The same shapes on a grid of larger steps: two kilometres, well below what the 1:110m data knows. */
function coarser(topology, times) {
  const arcs = topology.arcs.map((arc) => {
    let [x, y, fromX, fromY] = [0, 0, 0, 0];
    return arc.map(([dx, dy]) => {
      x += dx;
      y += dy;
      const [toX, toY] = [Math.round(x / times), Math.round(y / times)];
      const step = [toX - fromX, toY - fromY];
      [fromX, fromY] = [toX, toY];
      return step;
    });
  });
  const { scale, translate } = topology.transform;
  return { ...topology, arcs, transform: { scale: scale.map((size) => size * times), translate } };
}

function withoutPictures(css) {
  return css.replace(/[^{}]*\{[^{}]*url\([^{}]*\}/g, "");
}

/** A ring that runs on past 180 degrees instead of jumping, closed along the pole if it winds around it. */
function unrolled(points) {
  let turn = 0;
  const ring = points.map(([x, y], i) => {
    const step = i ? x - points[i - 1][0] : 0;
    turn += step > 180 ? -360 : step < -180 ? 360 : 0;
    return [Number((x + turn).toFixed(2)), Number(y.toFixed(2))];
  });
  const [first, last] = [ring[0], ring[ring.length - 1]];
  if (Math.abs(last[0] - first[0]) < 180) return ring;
  const pole = first[1] < 0 ? -90 : 90;
  return [...ring, [last[0], pole], [first[0], pole], first];
}

/** What a page of another map library needs to be whole without a network: Leaflet alone, and the land. */
function pageParts() {
  const leaflet = join(here, "node_modules", "leaflet", "dist");
  const script = readFileSync(join(leaflet, "leaflet.js"), "utf8").replace(/\n\/\/# sourceMappingURL=.*\s*$/, "\n");
  const licence = readFileSync(join(here, "node_modules", "leaflet", "LICENSE"), "utf8").trim();
  writeFileSync(join(folder, "leaflet.js"), `/*!\n${licence}\n*/\n${script}`);
  writeFileSync(join(folder, "leaflet.css"), withoutPictures(readFileSync(join(leaflet, "leaflet.css"), "utf8")));
  const topology = JSON.parse(readFileSync(join(here, "node_modules", "world-atlas", "land-110m.json"), "utf8"));
  const shapes = feature(topology, topology.objects.land);
  const polygons = (shapes.features ?? [shapes]).flatMap(({ geometry }) =>
    geometry.type === "Polygon" ? [geometry.coordinates] : geometry.coordinates,
  );
  const land = { type: "MultiPolygon", coordinates: polygons.map((rings) => rings.map(unrolled)) };
  writeFileSync(join(folder, "land.json"), JSON.stringify(land));
}

const parts = {
  name: "parts",
  setup(to) {
    to.onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const text = readFileSync(path, "utf8");
      // Leaflet's pictures belong to controls that the map does not use.
      const kept = path.includes("leaflet") ? withoutPictures(text) : text;
      const { code } = await transform(kept, { loader: "css", minify: true, legalComments: "none" });
      return { contents: code, loader: "text" };
    });
    // Names and ids of countries are not drawn: the borders alone are half the size.
    to.onLoad({ filter: /countries-110m\.json$/ }, ({ path }) => {
      const topology = JSON.parse(readFileSync(path, "utf8"));
      for (const item of topology.objects.countries.geometries) {
        delete item.id;
        delete item.properties;
      }
      return { contents: JSON.stringify(coarser(topology, 5)), loader: "json" };
    });
  },
};

/** One file of the package from one source, and what it depends on. */
async function bundledFile(source, output, banner) {
  await build({
    entryPoints: [join(here, "src", source)],
    outfile: output,
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    charset: "utf8",
    legalComments: "none",
    plugins: [parts],
    banner: { js: banner },
  });
  const bytes = readFileSync(output);
  console.log(`${output}: ${bytes.length} bytes, ${gzipSync(bytes).length} gzipped`);
}

async function bundle() {
  const sources = `Sources: sha256 ${hashOfSources()}`;
  await bundledFile("map_widget.ts", join(folder, "map.js"), `/*! geolake_nb map. ${sources}\n\n${licences()}\n*/`);
  await bundledFile("catalog_tree.ts", join(folder, "catalog.js"), `/*! geolake_nb catalog. ${sources} */`);
  pageParts();
}

async function test() {
  const built = mkdtempSync(join(tmpdir(), "geolake-widgets-"));
  try {
    const names = readdirSync(join(here, "test")).filter((name) => name.endsWith(".test.ts"));
    await build({
      entryPoints: names.map((name) => join(here, "test", name)),
      outdir: built,
      outExtension: { ".js": ".mjs" },
      bundle: true,
      platform: "node",
      format: "esm",
      target: "node20",
      plugins: [parts],
    });
    const files = names.map((name) => join(built, name.replace(/\.ts$/, ".mjs")));
    return spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" }).status ?? 1;
  } finally {
    rmSync(built, { recursive: true });
  }
}

if (process.argv.includes("--test")) {
  process.exit(await test());
}
await bundle();
