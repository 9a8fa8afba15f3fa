"""How long a frame of the map takes while it moves at world zoom, in a headless browser without a GPU.

python -m tests.heavy.bench_map --boxes 100000 500000 1000000
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from geolake_nb.jupyter.map_widget import pack_columns, pack_float64
from tests.jupyter.browser import headless_browser, open_map

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


def boxes(count: int) -> np.ndarray:
    rng = np.random.default_rng(count)
    west, south = rng.uniform(-180, 175, count), rng.uniform(-80, 80, count)
    return np.stack(
        [west, south, west + rng.exponential(1, count).clip(0, 5), south + rng.exponential(1, count).clip(0, 5)], 1
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--boxes", type=int, nargs="+", default=[100_000, 500_000])
    parser.add_argument("--moves", type=int, default=20)
    parser.add_argument("--limit", type=float, default=150, help="milliseconds that the median frame may take")
    options = parser.parse_args()
    slow = []
    with headless_browser() as browser, tempfile.TemporaryDirectory() as folder:
        for count in options.boxes:
            for color_by in ("", "rows"):
                columns = [{"key": "rows", "label": "Rows", "kind": "log"}]
                data = pack_columns([np.random.default_rng(1).lognormal(9, 2, count)])
                traits = {"boxes": pack_float64(boxes(count)), "columns": columns, "column_data": data}
                shown = open_map(browser, Path(folder), {**traits, "color_by": color_by, "measure": True})
                wall, drawing = np.array(shown.ask(PAN, options.moves)).T
                frame = float(np.median(wall))
                times = f"frame {frame:.0f} ms (most {wall.max():.0f}), drawing {np.median(drawing):.1f} ms"
                print(f"{count:>9,} boxes, colour {color_by or 'none':5}: {times}")
                if frame > options.limit:
                    slow.append(count)
                shown.page.context.close()
    if slow:
        raise SystemExit(f"slower than {options.limit:.0f} ms: {slow}")


if __name__ == "__main__":
    main()
