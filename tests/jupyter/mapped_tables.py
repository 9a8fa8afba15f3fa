"""Tables for the map that exist in memory alone: boxes are given, and nothing is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from geolake_nb.api.table import Table
from geolake_nb.formats.registry import PARQUET
from geolake_nb.model.file_table import BoundSource, FileTable, GeoStatsColumns
from geolake_nb.model.schema import Schema
from geolake_nb.model.snapshot import Protocol, Snapshot
from geolake_nb.model.types import Field, GeometryType, StructType

if TYPE_CHECKING:
    from geolake_nb.model.types import DataType


class NoSource:
    """A place without a history."""

    storage = None

    def history(self, *, newest: int | None = None) -> list:
        return []


def geo_stats(boxes: np.ndarray) -> GeoStatsColumns:
    """The statistics of boxes; NaN stands for one that is not there."""
    sides = ("xmin", "ymin", "xmax", "ymax")
    arrays = {side: pa.array(boxes[:, index], from_pandas=True) for index, side in enumerate(sides)}
    return GeoStatsColumns(arrays, source=BoundSource.LOG, null_count=pa.array(np.zeros(len(boxes), np.int64)))


def mapped_snapshot(
    boxes: Any, type_: DataType | None = None, *, columns: tuple[str, ...] = ("geom",), name: str = "part {}.parquet"
) -> Snapshot:
    boxes = np.asarray(boxes, np.float64).reshape(-1, 4)
    count = len(boxes)
    draw = np.random.default_rng(5)
    days = [f"2026-01-{index % 28 + 1:02}" for index in range(count)]
    files = FileTable.of(
        path=pa.array([name.format(index) for index in range(count)], pa.string()),
        bytes=pa.array(draw.integers(10**6, 2 * 10**8, count)),
        rows=pa.array(draw.integers(10**3, 10**6, count)),
        partitions={"day": pa.array(days, pa.string())},
        extra={"modified": pa.array(draw.integers(17 * 10**11, 176 * 10**10, count)).cast(pa.timestamp("ms", "UTC"))},
        geo={column: geo_stats(boxes) for column in columns},
    )
    schema = Schema(StructType(tuple(Field(column, type_ or GeometryType()) for column in columns)))
    return Snapshot(PARQUET, "/tables/roads", None, None, schema, Protocol("Parquet"), files)


def mapped_table(boxes: Any, type_: DataType | None = None, **options: Any) -> Table:
    return Table(mapped_snapshot(boxes, type_, **options), NoSource())


def random_boxes(count: int, seed: int = 1) -> np.ndarray:
    """Boxes over all the world, some of which cross the antimeridian."""
    draw = np.random.default_rng(seed)
    west, south = draw.uniform(-180, 180, count), draw.uniform(-90, 85, count)
    east, north = west + draw.exponential(8, count), np.minimum(90, south + draw.exponential(4, count))
    return np.column_stack([west, south, np.where(east > 180, east - 360, east), north])


def touching(boxes: np.ndarray, window: Any) -> np.ndarray:
    """Which boxes share a point with the window: by cutting both at 180 degrees, unlike what is tested."""
    hits = np.zeros(len(boxes), bool)
    for west, south, east, north in _cut(np.asarray(window, float)[None, :]):
        for w, s, e, n in _cut(boxes):
            hits |= (w <= east) & (e >= west) & (s <= north) & (n >= south)
    return hits


def _cut(boxes: np.ndarray) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    west, south, east, north = boxes.T
    wraps = west > east
    return [
        (west, south, np.where(wraps, 180.0, east), north),
        (np.where(wraps, -180.0, west), south, east, north),
    ]
