"""Which geo column a map is about, how much of a table has usable bounds, and how much files overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.errors import GeolakeError, NoGeoColumnError
from geolake_nb.expressions.binding import bind, leaves
from geolake_nb.model.box import Box
from geolake_nb.model.schema import join_path
from geolake_nb.model.types import GeographyType, GeometryType, RasterType
from geolake_nb.scan.explanation import Amount, file_sizes
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.model.file_table import FileTable
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.statistics import BoxColumn

__all__ = [
    "FEWEST_FILES",
    "Coverage",
    "OverlapDepth",
    "coverage",
    "filtered_column",
    "geo_type_of",
    "mapped_column",
    "overlap_depth",
    "union_box",
]


def mapped_column(snapshot: Snapshot, column: str | None = None) -> str:
    """The column that is named, or the only one there is.

    >>> import pyarrow as pa
    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.types import Field, StructType
    >>> from geolake_nb.model.file_table import FileTable, GeoStatsColumns, sides_of
    >>> from geolake_nb.formats.registry import DELTA
    >>> from geolake_nb.model.snapshot import Protocol, Snapshot
    >>> files = FileTable.of(path=pa.array(["a"]), bytes=pa.array([1]), rows=pa.array([1]),
    ...     geo={name: GeoStatsColumns(sides_of([None])) for name in ("a", "b")})
    >>> schema = Schema(StructType(tuple(Field(name, GeometryType()) for name in ("a", "b"))))
    >>> mapped_column(Snapshot(DELTA, "/t", 0, None, schema, Protocol(""), files))
    Traceback (most recent call last):
    geolake_nb.errors.GeolakeError: /t: the table has several geo columns; give column=, one of: a, b
    """
    known = snapshot.files.geo_columns
    options = ", ".join(sorted(printable(path, 100) for path in known))
    if not known:
        raise NoGeoColumnError("the table has no geo column to draw", where=snapshot.location)
    if column is None:
        if len(known) > 1:
            what = "the table has several geo columns"
            raise GeolakeError(what, where=snapshot.location, remedy=f"give column=, one of: {options}")
        return known[0]
    if column not in known:
        what = f"no geo column {printable(column, 100)!r}"
        raise NoGeoColumnError(what, where=snapshot.location, remedy=f"use one of: {options}")
    return column


def filtered_column(snapshot: Snapshot, where: Predicate) -> str:
    """The geo column to draw a filter on: the first that it names, else the first of the table by name."""
    known = snapshot.files.geo_columns
    queried = [join_path(leaf.column) for leaf in leaves(bind(where, snapshot.schema))]
    candidates = [path for path in queried if path in known] or sorted(known)
    return mapped_column(snapshot, candidates[0] if candidates else None)


def geo_type_of(snapshot: Snapshot, column: str) -> GeometryType | GeographyType | RasterType:
    """The type of a geo column."""
    type_ = snapshot.schema.find(column).type
    if not isinstance(type_, GeometryType | GeographyType | RasterType):
        raise GeolakeError(f"expected a geo column, got {printable(column, 100)!r}", where=snapshot.location)
    return type_


FEWEST_FILES = 8
"""Below this number of boxes the overlap does not describe the layout of a table."""

_EXACT = 4096
_SAMPLE = 512
_BLOCK = 1 << 22


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a table has bounds of one geo column that can be used.

    A file that has nothing but nulls in the column needs none, and counts as covered.
    """

    column: str
    covered: Amount
    total: Amount
    box: Box | None
    """The union of the boxes, `None` where no file has one."""

    @property
    def share(self) -> float | None:
        """The share of the bytes, or of the files where no file has bytes; `None` for a table without files."""
        if self.total.bytes:
            return self.covered.bytes / self.total.bytes
        return self.covered.files / self.total.files if self.total.files else None

    @property
    def complete(self) -> bool:
        """Whether every file has bounds."""
        return self.covered.files == self.total.files

    def to_dict(self) -> dict[str, Any]:
        """`column, covered, total` (each `files, rows, bytes`), `share`, and `box` (four numbers, or null)."""
        return {
            "column": self.column,
            "covered": self.covered.to_dict(),
            "total": self.total.to_dict(),
            "share": self.share,
            "box": None if self.box is None else [self.box.xmin, self.box.ymin, self.box.xmax, self.box.ymax],
        }


@dataclass(frozen=True, slots=True)
class OverlapDepth:
    """How many files overlap at the centre of a file; one is best.

    The points are the centres of the boxes, so that empty space does not count.
    """

    mean: float
    deepest: int
    files: int
    sampled: int
    """The number of sampled centres; all of them in a small table."""


def coverage(snapshot: Snapshot) -> tuple[Coverage, ...]:
    """The coverage of each geo column, in the order of the schema.

    >>> import pyarrow as pa
    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.types import Field, StructType
    >>> from geolake_nb.model.file_table import FileTable, GeoStatsColumns, sides_of
    >>> from geolake_nb.formats.registry import DELTA
    >>> from geolake_nb.model.snapshot import Protocol, Snapshot
    >>> files = FileTable.of(path=pa.array(["a", "b"]), bytes=pa.array([30, 10]), rows=pa.array([3, 1]),
    ...     geo={"geom": GeoStatsColumns(sides_of([Box(0, 0, 1, 1), None]))})
    >>> schema = Schema(StructType((Field("geom", GeometryType()),)))
    >>> [bounds] = coverage(Snapshot(DELTA, "/t", 0, None, schema, Protocol(""), files))
    >>> bounds.share, bounds.covered.files, bounds.box.xmax
    (0.75, 1, 1.0)
    """
    planar = {path: isinstance(field.type, GeometryType) for path, field in snapshot.schema.geo_columns()}
    return tuple(
        _coverage(snapshot.files, name, circular=not planar.get(name, True)) for name in snapshot.files.geo_columns
    )


def _coverage(files: FileTable, name: str, *, circular: bool) -> Coverage:
    boxes = files.boxes(name)
    bytes_, rows = file_sizes(files.table)
    covered = Amount.of(boxes.known | boxes.only_null_or_empty, bytes_, rows)
    total = Amount.of(np.ones(len(boxes), np.bool_), bytes_, rows)
    return Coverage(name, covered, total, union_box(boxes, circular=circular))


def union_box(boxes: BoxColumn, *, circular: bool = False) -> Box | None:
    """The smallest box around those that are known; with `circular`, x is a longitude and may wrap to stay small.

    >>> from geolake_nb.model.statistics import BoxColumn
    >>> union_box(BoxColumn.from_boxes([Box(170, 0, 175, 1), Box(-175, 0, -170, 1)]), circular=True).xmin
    170.0
    >>> union_box(BoxColumn.from_boxes([None])) is None
    True
    """
    known = boxes.known
    if not known.any():
        return None
    west, east = boxes.xmin[known], boxes.xmax[known]
    south, north = float(boxes.ymin[known].min()), float(boxes.ymax[known].max())
    wraps = west > east
    if circular or wraps.any():
        xmin, xmax = _cover(west, east, wraps)
    else:
        xmin, xmax = float(west.min()), float(east.max())
    return Box(xmin, south, xmax, north)


def _cover(west: NDArray[np.float64], east: NDArray[np.float64], wraps: NDArray[np.bool_]) -> tuple[float, float]:
    """The shortest interval of longitudes around all, as `geolake_nb.model.box.cover`, on arrays."""
    starts = np.concatenate([west, np.full(int(wraps.sum()), -180.0)])
    ends = np.concatenate([np.where(wraps, 180.0, east), east[wraps]])
    order = np.argsort(starts, kind="stable")
    starts, reached = starts[order], np.maximum.accumulate(ends[order])
    over = (starts[0] + 180.0) + (180.0 - reached[-1])
    gaps = starts[1:] - reached[:-1]
    if not len(gaps) or gaps.max() <= over:
        return float(starts[0]), float(reached[-1])
    widest = int(np.argmax(gaps))
    return float(starts[widest + 1]), float(reached[widest])


def overlap_depth(boxes: BoxColumn) -> OverlapDepth | None:
    """How many files overlap at the centre of a file, itself included; `None` (not checked) under 8 boxes.

    Up to 4,096 boxes every centre is sampled, beyond that 512 of them, evenly spaced in the list.

    >>> from geolake_nb.model.statistics import BoxColumn
    >>> apart = [Box(x, 0, x + 1, 1) for x in range(0, 20, 2)]
    >>> overlap_depth(BoxColumn.from_boxes(apart)).mean
    1.0
    >>> overlap_depth(BoxColumn.from_boxes(apart[:7])) is None
    True
    """
    known = boxes.known
    count = int(np.count_nonzero(known))
    if count < FEWEST_FILES:
        return None
    west, south, east, north = (side[known] for side in (boxes.xmin, boxes.ymin, boxes.xmax, boxes.ymax))
    wraps = west > east
    chosen = np.arange(count) if count <= _EXACT else np.linspace(0, count - 1, _SAMPLE).astype(np.int64)
    x, y = _centre(west[chosen], east[chosen], wraps[chosen]), _middle(south[chosen], north[chosen])
    depths = np.empty(len(chosen), np.int64)
    step = max(1, _BLOCK // count)
    for start in range(0, len(chosen), step):
        px, py = x[start : start + step, None], y[start : start + step, None]
        after, before = west <= px, px <= east
        in_x = after & before
        if wraps.any():
            in_x |= wraps & (after | before)
        depths[start : start + step] = np.count_nonzero(in_x & (south <= py) & (py <= north), axis=1)
    return OverlapDepth(float(depths.mean()), int(depths.max()), count, len(chosen))


def _middle(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    # Halves first: the sum of two large numbers may be infinite. Of a half-open range any point will do.
    with np.errstate(invalid="ignore"):
        middle = low / 2 + high / 2
    middle = np.where(np.isfinite(middle), middle, np.clip(0.0, low, high))
    return np.clip(middle, low, high)


def _centre(west: NDArray[np.float64], east: NDArray[np.float64], wraps: NDArray[np.bool_]) -> NDArray[np.float64]:
    over = _middle(west, np.where(wraps, east + 360.0, east))
    return np.where(wraps & (over > 180.0), over - 360.0, over)
