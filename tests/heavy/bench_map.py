"""How fast the map is, in a headless browser without a GPU: its first picture against other maps, and its frames.

python -m tests.heavy.bench_map --boxes 20000 100000 500000 1000000
Needs the extra `bench`: pip install -e ".[bench]"
"""

from __future__ import annotations

import argparse
import base64
import gzip
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from geolake_nb.jupyter.map_widget import BUNDLE, pack_columns, pack_float64, pack_uint32
from tests.heavy.ratio import Ratio, add_ratio_option, print_ratios
from tests.jupyter.browser import headless_browser, open_map
from tests.jupyter.lab.notebook_page import open_notebook
from tests.jupyter.lab.server import App, serve

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from folium import Map
    from playwright.sync_api import Browser, Page

    from tests.jupyter.lab.server import Server

# Moves by a few pixels, waits until the frame is on the screen, and notes how long both took.
PAN = """new Promise(async done => {
  const frame = () => new Promise(next => requestAnimationFrame(next));
  const times = [];
  for (let i = 0; i < argument; i++) {
    const begin = performance.now();
    map.panBy(i % 2 ? 30 : -37, 0);
    await frame();
    await frame();
    times.push([performance.now() - begin, map.get("drawn").ms]);
  }
  done(times);
})"""
# The first moment at which a page shows what it should, as the clock of this machine says.
WATCH = """() => {
  const painted = ([canvas]) => {
    if (!canvas?.width) return false;
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return data.some((value, i) => i % 4 === 3 && value);
  };
  const shows = () => document.querySelector('.glm-legend')?.textContent
    || painted(document.querySelectorAll('.leaflet-overlay-pane > canvas.leaflet-zoom-animated:not(.glm-canvas)'));
  const look = () => {
    if (shows()) requestAnimationFrame(() => (window.seen = Date.now() / 1000));
    else setTimeout(look, 10);
  };
  look();
}"""
LOAD = """import time
import geopandas
import ipyleaflet
import lonboard
import numpy as np
import shapely
from tests.heavy.bench_map import collection
from tests.jupyter.mapped_tables import mapped_table
boxes = np.load({path!r})
table = mapped_table(boxes)
frame = geopandas.GeoDataFrame(geometry=shapely.box(*boxes.T), crs=4326)
# Whatever is imported by the first map of a session; nothing is shown yet.
_ = mapped_table(boxes[:10]).map(), ipyleaflet.Map(), lonboard.PolygonLayer.from_geopandas(frame[:10])"""
OURS = "begin = time.time()\ntable.map()"
# One layer for all boxes, on a canvas: a widget for each box takes minutes.
IPYLEAFLET = """begin = time.time()
layer = ipyleaflet.GeoJSON(data=collection(boxes))
ipyleaflet.Map(layers=[layer], center=(20, 0), zoom=1, prefer_canvas=True)"""

LONBOARD = """begin = time.time()
lonboard.Map(lonboard.PolygonLayer.from_geopandas(frame, opacity=0.5), basemap=None)"""
# lonboard draws by WebGL, which no script can look into: the first call that draws a corner of every box counts.
WATCH_WEBGL = """count => {
  const sizes = { drawArrays: [2], drawElements: [1], drawArraysInstanced: [2, 3], drawElementsInstanced: [1, 4] };
  let drawn = false;
  for (const [name, indices] of Object.entries(sizes)) {
    const draw = WebGL2RenderingContext.prototype[name];
    WebGL2RenderingContext.prototype[name] = function (...words) {
      if (!drawn && indices.reduce((size, index) => size * words[index], 1) >= count) {
        drawn = true;
        requestAnimationFrame(() => (window.seen = Date.now() / 1000));
      }
      return draw.apply(this, words);
    };
  }
}"""
# Without its dependencies: it asks for an older anywidget, and works with ours.
LONBOARD_PACKAGES = ["lonboard==0.16.0", "arro3-compute==0.9.1", "arro3-io==0.9.1", "geoarrow-rust-core==0.6.3"]
LONBOARD_PEER = "lonboard, no GPU"
"""What it is called here: with a GPU, which it is made for, it would be faster."""
PARQUET_WASM = "parquet-wasm@0.7.1"
"""What lonboard 0.16 reads Parquet with; it would fetch it from another host."""


def random_boxes(count: int) -> np.ndarray:
    rng = np.random.default_rng(count)
    west, south = rng.uniform(-180, 175, count), rng.uniform(-80, 80, count)
    return np.stack(
        [west, south, west + rng.exponential(1, count).clip(0, 5), south + rng.exponential(1, count).clip(0, 5)], 1
    )


def outlines(boxes: np.ndarray, points: int = 16) -> dict[str, bytes]:
    """A ring inside each box, in place of its rectangle."""
    turn = np.linspace(0, 2 * np.pi, points, endpoint=False)
    middle, reach = (boxes[:, :2] + boxes[:, 2:]) / 2, (boxes[:, 2:] - boxes[:, :2]) / 2
    rings = middle[:, None] + reach[:, None] * np.stack([np.cos(turn), np.sin(turn)], 1)
    offsets = np.arange(len(boxes) + 1) * points
    ids = np.arange(len(boxes))
    return {"rings": pack_float64(rings), "ring_offsets": pack_uint32(offsets), "ring_items": pack_uint32(ids)}


def collection(boxes: np.ndarray) -> dict[str, Any]:
    """The boxes as other maps take them, made in the fastest way that Python has."""
    features = [
        {
            "type": "Feature",
            "properties": {},
            "geometry": {
                "type": "Polygon",
                "coordinates": [[[west, south], [east, south], [east, north], [west, north], [west, south]]],
            },
        }
        for west, south, east, north in boxes.tolist()
    ]
    return {"type": "FeatureCollection", "features": features}


def bench_bundle() -> list[str]:
    data = BUNDLE.read_bytes()
    packed = len(gzip.compress(data, 9))
    print(f"bundle {len(data):,} bytes, {packed:,} gzipped")
    return [] if len(data) < 350_000 and packed < 120_000 else ["the bundle is too large"]


def first_in_lab(
    browser: Browser, server: Server, name: str, cells: list[str], watch: Callable[[Page], object] | None = None
) -> float:
    """Seconds from the constructor in the kernel to the first picture in the page."""
    # A new notebook each time: an old one would come back with its kernel and all its widgets.
    number = len(list(server.folder.glob("*.ipynb")))
    with open_notebook(browser, server.put_notebook(f"{name}-{number}.ipynb", cells)) as book:
        if watch is None:
            book.page.evaluate(WATCH)
        else:
            watch(book.page)
        book.run_all(600)
        book.page.wait_for_function("window.seen", timeout=300_000)
        assert book.problems == []
        seen: float = book.page.evaluate("window.seen") - book.python("begin")
        return seen


def fetch_lonboard(folder: Path) -> tuple[Path, Path]:
    """The packages of lonboard and the reader of Parquet that it asks for, from the registries of packages."""
    packages = folder / "packages"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages)]
    subprocess.run([*pip, *LONBOARD_PACKAGES], check=True)
    npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), PARQUET_WASM]
    subprocess.run(npm, check=True)
    return packages, folder / "node_modules" / "parquet-wasm" / "esm" / "parquet_wasm_bg.wasm"


def watch_lonboard(page: Page, wasm: Path, count: int) -> None:
    """Have its reader of Parquet served from here, and note when it draws so many boxes."""
    page.route(f"**/{wasm.name}", lambda route: route.fulfill(path=wasm, content_type="application/wasm"))
    page.evaluate(WATCH_WEBGL, count)


def with_folium(boxes: np.ndarray) -> Map:
    """One layer for all boxes; a style of its own would be asked for each of them and make it slower."""
    import folium

    page = folium.Map(tiles=None, prefer_canvas=True, location=(20, 0), zoom_start=1)
    folium.GeoJson(collection(boxes)).add_to(page)
    return page


def with_explore(boxes: np.ndarray) -> Map:
    """As a user of geopandas does it."""
    import geopandas
    import shapely

    frame = geopandas.GeoDataFrame(geometry=shapely.box(*boxes.T), crs=4326)
    return frame.explore(tiles=None, prefer_canvas=True)


def first_of_page(browser: Browser, folder: Path, boxes: np.ndarray, make: Callable[[np.ndarray], Map]) -> float:
    """Seconds to build a page of folium's, and to open it."""
    make(boxes[:10])
    begin = time.time()
    page = make(boxes)
    # Its own list names hosts that cannot be asked here.
    parts = {
        kind: base64.b64encode((BUNDLE.parent / f"leaflet.{kind}").read_bytes()).decode() for kind in ("js", "css")
    }
    page.default_js = [("leaflet", f"data:text/javascript;base64,{parts['js']}")]
    page.default_css = [("leaflet_css", f"data:text/css;base64,{parts['css']}")]
    path = folder / "folium.html"
    page.save(path)
    shown = browser.new_page()
    try:
        shown.goto(path.as_uri(), wait_until="commit")
        shown.evaluate(WATCH)
        shown.wait_for_function("window.seen", timeout=300_000)
        seen: float = shown.evaluate("window.seen") - begin
        return seen
    finally:
        shown.close()


def bench_first(browser: Browser, folder: Path, count: int, rounds: int) -> dict[str, float]:
    """How many times as long as ours the first picture of others takes."""
    boxes = random_boxes(count)
    path = folder / "boxes.npy"
    np.save(path, boxes)
    load = LOAD.format(path=str(path))
    # The kernel finds the tables of the tests where this command was started.
    packages, wasm = fetch_lonboard(folder)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), str(packages)])
    with serve(App.LAB, folder / "lab") as server:
        contenders: dict[str, Callable[[], float]] = {
            "ours": lambda: first_in_lab(browser, server, "ours", [load, OURS]),
            "ipyleaflet": lambda: first_in_lab(browser, server, "ipyleaflet", [load, IPYLEAFLET]),
            LONBOARD_PEER: lambda: first_in_lab(
                browser, server, "lonboard", [load, LONBOARD], lambda page: watch_lonboard(page, wasm, count)
            ),
            "folium": lambda: first_of_page(browser, folder, boxes, with_folium),
            "geopandas.explore": lambda: first_of_page(browser, folder, boxes, with_explore),
        }
        # In turns, so that whatever else the machine does falls on all of them.
        runs = [{name: run() for name, run in contenders.items()} for _ in range(rounds)]
    times = {name: float(np.median([sample[name] for sample in runs])) for name in contenders}
    for name, seconds in times.items():
        print(
            f"{count:>9,} boxes, first picture, {name:17}: {seconds:6.2f} s, {seconds / times['ours']:5.1f} times ours"
        )
    return {name: seconds / times["ours"] for name, seconds in times.items() if name != "ours"}


def bench_pan(browser: Browser, folder: Path, count: int, moves: int, limit: float) -> list[str]:
    boxes = random_boxes(count)
    columns = [{"key": "rows", "label": "Rows", "kind": "log"}]
    data = pack_columns([np.random.default_rng(1).lognormal(9, 2, count)])
    traits: dict[str, Any] = {"boxes": pack_float64(boxes), "columns": columns, "column_data": data, "measure": True}
    shapes = {"boxes": {}, "outlines": outlines(boxes)} if count <= 100_000 else {"boxes": {}}
    slow = []
    for name, rings in shapes.items():
        for color_by in ("", "rows"):
            shown = open_map(browser, folder, {**traits, **rings, "color_by": color_by})
            wall, drawing = np.array(shown.ask(PAN, moves)).T
            mode = shown.ask("map.get('drawn').mode")
            shown.page.context.close()
            frame = float(np.median(wall))
            about = f"{count:>9,} {name:8}, colour {color_by or 'none':4}, drawn as {mode:8}"
            print(f"{about}: frame {frame:.0f} ms (most {wall.max():.0f}), drawing {np.median(drawing):.1f} ms")
            if frame > limit:
                slow.append(f"a frame of {count:,} {name} takes {frame:.0f} ms")
    return slow


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boxes", type=int, nargs="+", default=[20_000, 100_000, 500_000], help="to move over")
    parser.add_argument("--first", type=int, default=100_000, help="boxes of the first picture, 0 for none")
    parser.add_argument("--moves", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=150, help="milliseconds that the median frame may take")
    parser.add_argument("--times", type=float, default=10, help="faster than others, at the least")
    add_ratio_option(parser)
    options = parser.parse_args()
    if options.first and importlib.util.find_spec("ipyleaflet") is None:
        raise SystemExit('ipyleaflet is not installed: run pip install -e ".[bench]", or use --first 0')
    missed = bench_bundle()
    with headless_browser() as browser, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for count in options.boxes:
            missed += bench_pan(browser, folder, count, options.moves, options.limit)
        first = bench_first(browser, folder, options.first, options.rounds) if options.first else {}
    what = f"first picture of {options.first:,} boxes"
    wanted = {name: 0 if name == LONBOARD_PEER else options.times for name in first}
    slow = print_ratios([Ratio(what, name, times, wanted[name]) for name, times in first.items()], options.ratios)
    for miss in missed:
        print(miss)
    raise SystemExit(1 if missed or slow else 0)


if __name__ == "__main__":
    main()
