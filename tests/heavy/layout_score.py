"""The score of a layout next to what 200 real windows read, on 20 layouts of three data sets.

`python -m tests.heavy.layout_score` writes Delta tables of points: uniform, clustered in towns, and boxes of many sizes
along roads; each in several orders and file sizes, with and without appended files. `t.layout(sample=True)` predicts
which share of the bytes a query reads. Then 200 windows of the same three sizes are drawn around real rows, with a seed
of their own, and explained. It fails unless the prediction is within `NEAR` of what they read.
`--rows 20000` is a short run. The files are written without Spark.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely

import geolake_nb as gl
from geolake_nb.geo.bound_codec import to_delta_wkt
from geolake_nb.geo.curves import Curve, curve_keys
from geolake_nb.model.box import Box
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    Boxes = NDArray[np.float64]
    """A row for each: xmin, ymin, xmax, ymax."""

NEAR = 0.1
SIDES = (0.01, 0.03, 0.1)
"""The sides of windows as shares of the extent, as the score has them."""
_WINDOWS = 200
_SEED = 20_261_119


def uniform(count: int) -> Boxes:
    """Points all over a rectangle."""
    points = np.random.default_rng(1).random((count, 2)) * (120, 60)
    return np.hstack([points, points])


def towns(count: int) -> Boxes:
    """Points around 300 places, many around a few of them."""
    draw = np.random.default_rng(2)
    middles = draw.random((300, 2)) * (120, 60)
    weight = 1 / np.arange(1, 301)
    chosen = draw.choice(300, count, p=weight / weight.sum())
    points = middles[chosen] + draw.normal(0, 0.8, (count, 2))
    return np.hstack([points, points])


def roads(count: int) -> Boxes:
    """Boxes of many sizes along 60 lines."""
    draw = np.random.default_rng(3)
    ends = draw.random((60, 2, 2)) * (120, 60)
    line = draw.integers(0, 60, count)
    along = draw.random((count, 1))
    middles = ends[line, 0] * (1 - along) + ends[line, 1] * along + draw.normal(0, 0.3, (count, 2))
    half = draw.exponential(0.05, (count, 2))
    return np.hstack([middles - half, middles + half])


DATA: dict[str, Callable[[int], Boxes]] = {"uniform": uniform, "towns": towns, "roads": roads}


@dataclass(frozen=True, slots=True)
class Made:
    """One layout of a data set."""

    name: str
    files: int
    order: str
    """`hilbert`, `zorder`, `x`, `blocks` of rows on the curve that were shuffled, or `none`."""
    appended: float = 0.0
    """The share of the rows that came later, in no order."""

    def parts(self, boxes: Boxes) -> Iterator[Boxes]:
        """The rows of each file."""
        draw = np.random.default_rng(len(self.name) + self.files)
        boxes = boxes[draw.permutation(len(boxes))]
        late = int(len(boxes) * self.appended)
        early = boxes[late:]
        if self.order != "none":
            early = early[self._order(early)]
        yield from np.array_split(early, self.files)
        if late:
            yield from np.array_split(boxes[:late], max(2, int(self.files * self.appended)))

    def _order(self, boxes: Boxes) -> NDArray[np.int64]:
        x, y = (boxes[:, :2] + boxes[:, 2:]).T / 2
        if self.order == "x":
            return np.argsort(x, kind="stable")
        scaled = [(side - side.min()) / (side.max() - side.min()) for side in (x, y)]
        keys = curve_keys(scaled, Curve.ZORDER if self.order == "zorder" else Curve.HILBERT)
        order = np.argsort(keys, kind="stable")
        if self.order == "blocks":
            blocks = np.array_split(order, self.files * 3)
            shuffled = np.random.default_rng(4).permutation(len(blocks))
            order = np.concatenate([blocks[block] for block in shuffled])
        return order


LAYOUTS = (
    Made("hilbert, few files", 16, "hilbert"),
    Made("hilbert, many files", 128, "hilbert"),
    Made("zorder", 64, "zorder"),
    Made("by x", 48, "x"),
    Made("shuffled blocks", 64, "blocks"),
    Made("a fifth appended", 64, "hilbert", 0.2),
    Made("half appended", 32, "hilbert", 0.5),
)
"""Seven of each data set, without the last one of the third: 20."""


def write(folder: Path, parts: Iterator[Boxes]) -> gl.Table:
    """A Delta table with these files, and the bounds of each."""
    log = LogMaker(folder)
    actions = [protocol("geospatial"), metadata(field("id", "long"), field("geom", "geometry(OGC:CRS84)"))]
    for number, boxes in enumerate(parts):
        points = bool((boxes[:, :2] == boxes[:, 2:]).all())
        shapes = shapely.points(boxes[:, :2]) if points else shapely.box(*boxes.T)
        rows = pa.table({"id": np.arange(len(boxes)), "geom": pa.array(shapely.to_wkb(shapes), pa.binary())})
        path = folder / f"{number}.parquet"
        pq.write_table(rows, path)
        low, high = to_delta_wkt(Box(*boxes[:, :2].min(axis=0).tolist(), *boxes[:, 2:].max(axis=0).tolist()))
        stats = {"numRecords": len(boxes), "minValues": {"geom": low}, "maxValues": {"geom": high}}
        actions.append(add(path.name, stats, size=path.stat().st_size))
    log.commit(0, *actions)
    return gl.open(str(folder))


def windows(boxes: Boxes) -> list[tuple[float, float, float, float]]:
    """Windows around real rows: as many of each size."""
    draw = np.random.default_rng(_SEED)
    middles = (boxes[:, :2] + boxes[:, 2:]) / 2
    span = np.subtract(*np.quantile(middles, (0.99, 0.01), axis=0))
    asked = []
    for number, row in enumerate(draw.choice(len(boxes), _WINDOWS).tolist()):
        (x, y), (half_x, half_y) = middles[row].tolist(), (span * SIDES[number % len(SIDES)] / 2).tolist()
        asked.append((x - half_x, y - half_y, x + half_x, y + half_y))
    return asked


def measure(folder: Path, rows: int) -> Iterator[tuple[str, float, float]]:
    """The name of each layout, its score, and what the windows read."""
    for data, make in DATA.items():
        boxes = make(rows)
        asked = windows(boxes)
        for number, layout in enumerate(LAYOUTS[: 6 if data == "roads" else None]):
            table = write(folder / f"{data}{number}", layout.parts(boxes))
            answers = [table.explain(window) for window in asked]
            real = float(np.mean([answer.read.bytes / answer.total.bytes for answer in answers]))
            share = table.layout(sample=True).share
            assert share is not None
            yield f"{data}, {layout.name}", share, real


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all; 1 where one is too far off."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=500_000)
    options = parser.parse_args(arguments)
    worst, far, count = 0.0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for name, share, real in measure(Path(folder), options.rows):
            off = share / real - 1
            worst, far, count = max(worst, abs(off)), far + (abs(off) > NEAR), count + 1
            print(f"{name:<32}predicted {share:7.2%}  200 windows {real:7.2%}  off by {off:+6.1%}", flush=True)
    print(f"{count} layouts: off by at most {worst:.1%}; {far} by more than {NEAR:.0%}")
    return int(far > 0)


if __name__ == "__main__":
    sys.exit(main())
