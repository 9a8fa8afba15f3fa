"""Rasters that are turned, skewed, across the antimeridian and over the poles, and where their pixels lie.

The places are dense points of outline and inside by `pyproj`, and must be those of GDAL; a pole is inside when its
place in the raster's own CRS is. Nothing of the package says where a raster is.
"""

from __future__ import annotations

import functools
import math
import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import rasterio.warp
from pyproj import CRS, Transformer

import geolake_nb as gl
from geolake_nb.raster_data.arrow import rasters_to_arrow
from geolake_nb.raster_data.raster import GeoReference, Raster
from tests.formats.havasu_tables import make_havasu_table, raster_entry
from tests.raster_data.test_footprint import points

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.formats.iceberg_tables import FileEntry
    from tests.promises.bound_verdict import Verdict
    from tests.promises.written_bounds import Bound

__all__ = ["RasterRows", "check_rasters", "raster_tables"]

# A CRS, and the middle and size of rasters in it: polar, both sides of the antimeridian, large, and in degrees.
_PLACES = (
    ("EPSG:3413", (0.0, 0.0), 2e6),
    ("EPSG:3413", (3e6, 0.0), 5e5),
    ("EPSG:3031", (0.0, 0.0), 3e6),
    ("EPSG:3031", (1e6, -1e6), 2e5),
    ("EPSG:6932", (2e5, 2e5), 1e6),
    ("EPSG:32660", (833_000.0, 3e6), 1e5),
    ("EPSG:32601", (167_000.0, -2e6), 3e5),
    ("EPSG:3035", (4.3e6, 3.2e6), 1e6),
    ("EPSG:3857", (2e7, 1e6), 1e6),
    ("EPSG:3571", (0.0, 0.0), 3e6),
    ("EPSG:4326", (179.5, 10.0), 3.0),
    ("EPSG:4326", (20.0, -60.0), 10.0),
)


@dataclass
class RasterRows:
    """Rasters by row, and the longitudes and latitudes of their pixels."""

    rasters: list[Raster | None] = field(default_factory=list)
    places: list[tuple[np.ndarray, np.ndarray] | None] = field(default_factory=list)
    poles: list[tuple[bool, bool]] = field(default_factory=list)
    """Whether the south and the north pole are inside."""
    differ: list[str] = field(default_factory=list)

    @classmethod
    def make(cls, seed: int, count: int) -> RasterRows:
        """Rasters near their neighbours, some of them null."""
        rng = random.Random(seed)
        made = cls()
        for row in range(count):
            code, (x, y), size = _PLACES[row * len(_PLACES) // count]
            if rng.random() < 0.05:
                made._add_null()
                continue
            width, height = rng.randint(1, 40), rng.randint(1, 40)
            turn, skew, pixel = rng.uniform(-math.pi, math.pi), rng.uniform(-0.5, 0.5), size * rng.uniform(0.3, 1) / 40
            east = (pixel * math.cos(turn), pixel * math.sin(turn))
            north = (pixel * math.sin(turn + skew), -pixel * math.cos(turn + skew))
            middle = x + size * rng.uniform(-0.4, 0.4), y + size * rng.uniform(-0.4, 0.4)
            corner = [middle[axis] - (width * east[axis] + height * north[axis]) / 2 for axis in (0, 1)]
            made._add(code, (east[0], north[0], corner[0], east[1], north[1], corner[1]), width, height)
        return made

    def _add_null(self) -> None:
        self.rasters.append(None)
        self.places.append(None)
        self.poles.append((False, False))

    def _add(self, code: str, affine: tuple[float, ...], width: int, height: int) -> None:
        raster = Raster(width, height, (), _wkt(code), GeoReference.from_affine(affine))
        lon, lat = points(raster, affine, per_edge=100, inside=10)
        self.differ += _gdal_differs(code, affine, width, height)
        self.rasters.append(raster)
        self.places.append((lon, lat))
        self.poles.append(tuple(_has_pole(code, affine, width, height, pole) for pole in (-90.0, 90.0)))


@functools.cache
def _wkt(code: str) -> str:
    return CRS(code).to_wkt()


@functools.cache
def _from_to(source: str, other: str) -> Transformer:
    return Transformer.from_crs(source, other, always_xy=True)


def _gdal_differs(code: str, affine: tuple[float, ...], width: int, height: int) -> list[str]:
    """The corners by GDAL and by `pyproj`, which may differ by the digits that iterations leave: a millimetre."""
    a, b, c, d, e, f = affine
    corners = [(0, 0), (width, 0), (width, height), (0, height)]
    xs, ys = [a * u + b * v + c for u, v in corners], [d * u + e * v + f for u, v in corners]
    forth = _from_to(code, "OGC:CRS84").transform(xs, ys)
    other = rasterio.warp.transform(code, "EPSG:4326", xs, ys)
    turns = (np.array(forth[0]) - other[0] + 180) % 360 - 180
    room = 1e-8 / np.maximum(np.cos(np.radians(forth[1])), 1e-3)
    if (np.abs(turns) > room).any() or (np.abs(np.array(forth[1]) - other[1]) > 1e-8).any():
        return [f"{code}, {affine}: {forth} by pyproj and {other} by GDAL"]
    return []


def _has_pole(code: str, affine: tuple[float, ...], width: int, height: int, latitude: float) -> bool:
    if code == "EPSG:4326":  # none of them is over one
        return False
    x, y = _from_to("OGC:CRS84", code).transform(0.0, latitude, errcheck=False)
    if not (math.isfinite(x) and math.isfinite(y)):
        return False
    a, b, c, d, e, f = affine
    column, row = np.linalg.solve([[a, b], [d, e]], [x - c, y - f])
    # Within the last digits of an edge it is not compared.
    return 1e-6 < column < width - 1e-6 and 1e-6 < row < height - 1e-6


def raster_tables(rows: RasterRows, folder: Path, spark: SparkSession) -> Iterator[tuple[str, Path]]:
    """A table that is written and rewritten, and one whose manifests say nothing and are repaired."""
    ids = pa.array(range(len(rows.rasters)), pa.int64())
    parts = pa.array([f"p{row * 6 // len(ids)}" for row in range(len(ids))])
    table = pa.table({"id": ids, "p": parts, "rast": rasters_to_arrow(rows.rasters)})
    written = folder / "written"
    gl.write(table, written, format="havasu", partition_by="p", spark=spark)
    yield "write rasters", written
    gl.open(str(written)).plan_rewrite(target_file_size="10MB").apply(spark=spark)
    yield "rewrite rasters", written
    size = -(-len(rows.rasters) // 8)
    entries = [
        _renumbered(raster_entry(f"f{start}", rows.rasters[start : start + size], None), start)
        for start in range(0, len(rows.rasters), size)
    ]
    make_havasu_table(folder / "repaired", entries, encoding=None, rasters=True)
    gl.open(str(folder / "repaired")).plan_repair().apply(spark=spark)
    yield "repair rasters", folder / "repaired"


def _renumbered(entry: FileEntry, start: int) -> FileEntry:
    source_table = entry.table
    ids = pa.array(range(start, start + len(source_table)), pa.int64())
    return replace(entry, table=source_table.set_column(0, source_table.schema.field(0), ids))


def check_rasters(writer: str, bounds: list[Bound], rows: RasterRows, verdict: Verdict) -> None:
    """Every pixel of every raster is inside of the box of its file, which is there where a raster is."""
    all_ids = np.sort(np.concatenate([bound.ids for bound in bounds]))
    if not np.array_equal(all_ids, np.arange(len(rows.rasters))):
        verdict.problems.append(f"{writer}: the rows are not those that were written")
    for bound in bounds:
        with_raster = [row for row in bound.ids if rows.rasters[row] is not None]
        xmin, ymin, xmax, ymax = bound.sides[:4]
        there = not np.isnan(bound.sides[:4]).any()
        verdict.required[writer] += bool(with_raster)
        verdict.written[writer] += bool(with_raster) and there
        for row in with_raster if there else ():
            lon, lat = rows.places[row]
            in_x = (lon >= xmin) & (lon <= xmax) if xmin <= xmax else (lon >= xmin) | (lon <= xmax)
            outside = ~(in_x & (lat >= ymin) & (lat <= ymax))
            south, north = rows.poles[row]
            lost = (south and ymin > -90) or (north and ymax < 90) or ((south or north) and (xmin > -180 or xmax < 180))
            verdict.compared[writer] += 1
            if outside.any() or lost:
                what = "a pole" if lost else f"{lon[outside][0]!r} {lat[outside][0]!r}"
                verdict.problems.append(
                    f"{writer}: row {row}: {bound.sides[:4]} leaves out {what} of {rows.rasters[row]}"
                )
