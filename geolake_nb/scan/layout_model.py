"""How much of a table queries read, from the boxes of its files, and how much they would if files were clustered anew.

Rows are spread at random, with a fixed seed, inside the box of their file. Clustered anew, those of each partition are
cut along a Hilbert curve into files of the target size; a box is that of the rows in it, grown by what these miss.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from geolake_nb.errors import GeolakeError
from geolake_nb.expressions.binding import bind
from geolake_nb.expressions.filter_input import read_filter
from geolake_nb.expressions.predicate import Predicate, Spatial, SpatialOp
from geolake_nb.expressions.projection import Statistics
from geolake_nb.geo.curves import curve_keys
from geolake_nb.model.box import Box
from geolake_nb.model.file_table import physical_rows
from geolake_nb.model.schema import Schema, split_path
from geolake_nb.model.statistics import BoxColumn
from geolake_nb.model.types import GeographyType, GeometryType, StructType
from geolake_nb.scan.file_statistics import known_files
from geolake_nb.scan.prune import PruneInput, prune

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from geolake_nb.expressions.filter_input import FilterInput
    from geolake_nb.model.snapshot import Snapshot

__all__ = [
    "LayoutModel",
    "LayoutQueries",
    "NewFiles",
    "RowPlaces",
    "has_one_value",
    "layout_column",
    "partition_numbers",
    "read_queries",
]

_SEED = 7
_POINTS = 100_000
_FEWEST, _MOST = 2, 256
"""Points in a file."""
_WINDOWS, _PLACED_WINDOWS = 32, 96
"""Of each size; more where they are drawn around rows that were read."""
_SIDES = (0.01, 0.03, 0.1)
_NUMBER = r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*"
_FOUR_NUMBERS = re.compile(rf"{_NUMBER}(?:,{_NUMBER}){{3}}")


def has_one_value(schema: Schema, path: str) -> bool:
    """Whether a row has one value in the column: it is not inside a list or a map.

    >>> from geolake_nb.model.types import Field, ListType
    >>> schema = Schema(StructType((Field("g", GeometryType()), Field("l", ListType(GeometryType())))))
    >>> has_one_value(schema, "g"), has_one_value(schema, "l.element")
    (True, False)
    """
    fields = schema.fields
    for name in split_path(path)[:-1]:
        type_ = next((field.type for field in fields if field.name == name), None)
        if not isinstance(type_, StructType):
            return False
        fields = type_.fields
    return True


def layout_column(snapshot: Snapshot) -> str | None:
    """The first geometry or geography with one value per row that files have boxes of; `None` without one."""
    known = set(snapshot.files.geo_columns)
    for path, field in snapshot.schema.geo_columns():
        shape = isinstance(field.type, GeometryType | GeographyType)
        if path in known and shape and has_one_value(snapshot.schema, path):
            return path
    return None


def partition_numbers(table: pa.Table) -> NDArray[np.intp]:
    """A number for each file that files of the same partition share."""
    number = np.zeros(table.num_rows, np.intp)
    for name in table.column_names:
        if name.startswith("partition."):
            codes = table[name].combine_chunks().cast(pa.string()).dictionary_encode(null_encoding="encode")
            whole = codes if isinstance(codes, pa.DictionaryArray) else codes.combine_chunks()
            indices = np.asarray(whole.indices.to_numpy(zero_copy_only=False), np.intp)
            _, number = np.unique(number * (len(whole.dictionary) + 1) + indices, return_inverse=True)
    return number


def read_queries(path: str | os.PathLike[str]) -> list[FilterInput]:
    """The filters of a file, one per line: SQL, WKT, or the four numbers of a window; `#` begins a comment.

    Raises:
        GeolakeError: the file cannot be read, or has no filter.
    """
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except (OSError, UnicodeDecodeError) as problem:
        remedy = "give a text file with one filter per line"
        raise GeolakeError("the file of queries cannot be read", where=str(path), remedy=remedy) from problem
    wanted = [line for line in lines if line and not line.startswith("#")]
    if not wanted:
        raise GeolakeError("the file has no queries", where=str(path), remedy="write one filter per line")
    return [tuple(map(float, line.split(","))) if _FOUR_NUMBERS.fullmatch(line) else line for line in wanted]


@dataclass(frozen=True, slots=True, eq=False)
class LayoutQueries:
    """The queries that a layout is measured by."""

    names: tuple[str, ...]
    """The groups that are reported."""
    groups: NDArray[np.int64]
    """The group of each query."""
    predicates: tuple[Predicate, ...]
    """Bound to the schema."""

    @classmethod
    def given(cls, snapshot: Snapshot, column: str | None, queries: Sequence[FilterInput]) -> LayoutQueries:
        """The queries of a user.

        Raises:
            PredicateError: a filter that cannot be read.
            GeolakeError: no query.
        """
        if not len(queries):
            remedy = "give at least one, or none to draw windows"
            raise GeolakeError("the list of queries is empty", where=snapshot.location, remedy=remedy)
        schema = snapshot.schema
        # A filter names its column itself; an area needs one.
        areas = [_read(query, schema, column, snapshot.location) for query in queries]
        bound = tuple(bind(predicate, schema) for predicate in areas)
        return cls(("queries",), np.zeros(len(bound), np.int64), bound)


def _read(query: FilterInput, schema: Schema, column: str | None, location: str) -> Predicate:
    from geolake_nb.expressions.filter_input import is_area

    return read_filter(query, schema, column=column if is_area(query) else None, location=location)


@dataclass(frozen=True, slots=True, eq=False)
class NewFiles:
    """What files clustered anew would be."""

    boxes: BoxColumn
    size: NDArray[np.float64]
    of_points: NDArray[np.int64]
    """The new file of each point."""
    points: NDArray[np.int64]
    """The old file of each point."""


@dataclass(frozen=True, slots=True, eq=False)
class RowPlaces:
    """Points where rows are."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    rows: NDArray[np.float64]
    """How many rows each stands for."""


class LayoutModel:
    """The files of a table, with points where their rows are, and the queries that read them."""

    def __init__(
        self,
        snapshot: Snapshot,
        column: str,
        *,
        target_bytes: int,
        queries: Sequence[FilterInput] | None = None,
        extent: tuple[float, float] = (0.0, 0.0),
        places: RowPlaces | None = None,
    ) -> None:
        """Place the points; `extent` is how wide and high a geometry is, `places` are where windows are drawn."""
        self.snapshot = snapshot
        self.column = column
        self.target_bytes = target_bytes
        self.size = snapshot.files.table["bytes"].to_numpy().astype(np.float64)
        self.boxes = snapshot.files.boxes(column)
        self._extent = extent
        self._place()
        self._drawn = RowPlaces(self._x, self._y, self._rows) if places is None else places
        self._windows_each = _WINDOWS if places is None else _PLACED_WINDOWS
        self.queries = self._windows() if queries is None else LayoutQueries.given(snapshot, column, queries)

    @property
    def can_measure(self) -> bool:
        """Whether there are queries and files to read."""
        return bool(self.queries.predicates) and self.size.sum() > 0

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """The share of the bytes that each query reads."""
        return self._read[0]

    @cached_property
    def read_by(self) -> NDArray[np.float64]:
        """The share of the queries that read each file."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        kept = [prune(query, known_files(self.snapshot, query)).kept for query in self.queries.predicates]
        return _shares(kept, self.size)

    @cached_property
    def ideal(self) -> NewFiles:
        """All files clustered anew."""
        return self.clustered(np.ones(len(self.size), np.bool_))

    @cached_property
    def best(self) -> NDArray[np.float64]:
        """The share of the bytes that each query would read of all files clustered anew, at most what it reads now."""
        shares = self.read_of(self.ideal)[0]
        return shares if shares.mean() < self.shares.mean() else self.shares

    @cached_property
    def ideally_read_by(self) -> NDArray[np.float64]:
        """The share of the queries that would read the rows of each file, if all were clustered anew."""
        ideal = self.ideal
        total = np.bincount(ideal.points, weights=self.read_of(ideal)[1][ideal.of_points], minlength=len(self.size))
        count = np.bincount(ideal.points, minlength=len(self.size))
        return np.where(count > 0, total / np.maximum(count, 1), self.read_by)

    @property
    def is_spread(self) -> NDArray[np.bool_]:
        """The files that twice as many queries read as would read a file of the best layout."""
        return np.asarray((self.read_by > 0) & (self.read_by >= 2 * self.ideally_read_by), np.bool_)

    def read_of(self, files: NewFiles) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The share of their bytes that each query reads, and the share of the queries that read each of them."""
        known = PruneInput(Statistics(len(files.size), boxes={split_path(self.column): files.boxes}))
        return _shares([prune(query, known).kept for query in self.queries.predicates], files.size)

    def share_after(self, chosen: NDArray[np.bool_]) -> float:
        """The mean share of the bytes that a query reads once these files are clustered together."""
        new = self.clustered(chosen)
        read = float((self.size * self.read_by)[~chosen].sum()) + float((new.size * self.read_of(new)[1]).sum())
        return read / float(self.size.sum())

    def clustered(self, chosen: NDArray[np.bool_]) -> NewFiles:
        """The files that the rows of these files would be in."""
        inside = chosen[self._file]
        file, partition = self._file[inside], self._partition[inside]
        x, y, weight = self._x[inside], self._y[inside], self._weight[inside]
        if not len(file):
            nothing = np.array([])
            return NewFiles(BoxColumn.from_sides(nothing, nothing, nothing, nothing), nothing, file, file)
        total = np.bincount(partition, weights=weight)
        files = np.maximum(1, np.ceil(total / self.target_bytes)).astype(np.int64)
        # The bytes before the middle of each point, in its partition.
        before = np.cumsum(weight) - weight / 2 - (np.cumsum(total) - total)[partition]
        number = (before / np.maximum(total[partition], 1e-9) * files[partition]).astype(np.int64)
        number = np.clip(number, 0, files[partition] - 1) + (np.cumsum(files) - files)[partition]
        starts = np.flatnonzero(np.diff(number, prepend=-1))
        code = np.cumsum(np.diff(number, prepend=-1) != 0) - 1
        count = np.diff(starts, append=len(file))
        sides = []
        for values, half in ((x, self._extent[0] / 2), (y, self._extent[1] / 2)):
            low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
            # So many points of a uniform spread leave out about this much at each end.
            missed = np.where(count > 1, (high - low) / np.maximum(count - 1, 1), 0.0) + half
            sides.append((low - missed, high + missed))
        (west, east), (south, north) = sides
        if self._is_geography:
            west, east, south, north = (
                np.clip(side, -rim, rim) for side, rim in ((west, 180), (east, 180), (south, 90), (north, 90))
            )
        size = np.add.reduceat(weight, starts)
        return NewFiles(BoxColumn.from_sides(west, south, east, north), size, code.astype(np.int64), file)

    @property
    def _is_geography(self) -> bool:
        return isinstance(self.snapshot.schema.find(self.column).type, GeographyType)

    def _place(self) -> None:
        boxes, table = self.boxes, self.snapshot.files.table
        sides = [np.array(side) for side in (boxes.xmin, boxes.ymin, boxes.xmax, boxes.ymax)]
        located = boxes.known & np.logical_and.reduce([np.isfinite(side) for side in sides])
        # Rows without a known box may be anywhere among the others.
        unknown = ~located & ~boxes.only_null_or_empty
        flat = sides[0] <= sides[2]
        for side, ends in zip(sides, (np.min, np.min, np.max, np.max), strict=True):
            side[unknown] = ends(side[located & flat]) if (located & flat).any() else np.nan
        index: NDArray[np.int64] = np.flatnonzero((located | unknown) & np.isfinite(sides[0]))
        each = int(np.clip(_POINTS // max(1, len(index)), _FEWEST, _MOST))
        file: NDArray[np.int64] = np.repeat(index, each)
        draw = np.random.default_rng(_SEED)
        low_x, low_y, high_x, high_y = (side[file] for side in sides)
        width = np.where(high_x < low_x, high_x - low_x + 360.0, high_x - low_x)
        x = _inside(low_x, width, self._extent[0], draw)
        x = np.where(high_x < low_x, (x + 180.0) % 360.0 - 180.0, x)
        y = _inside(low_y, high_y - low_y, self._extent[1], draw)
        partition = partition_numbers(table)[file]
        keys = curve_keys([_unit(x), _unit(y)])
        order = np.lexsort((keys, partition))
        self._file, self._x, self._y, self._partition = file[order], x[order], y[order], partition[order]
        self._weight = self.size[self._file] / each
        rows = physical_rows(table).to_numpy().astype(np.float64)
        self._rows = np.where(np.isfinite(rows), rows, self.size)[self._file]

    def _windows(self) -> LayoutQueries:
        """Windows of several sizes around points: squares in the shape of the extent, which outliers do not stretch."""
        path = split_path(self.column)
        drawn = self._drawn
        total = float(drawn.rows.sum())
        if not len(drawn.x) or not len(self._x) or total <= 0:
            return LayoutQueries((), np.zeros(0, np.int64), ())
        rim = (180.0, 90.0) if self._is_geography else (np.inf, np.inf)
        spans = [float(np.subtract(*np.quantile(values, (0.99, 0.01)))) for values in (drawn.x, drawn.y)]
        draw = np.random.default_rng(_SEED)
        names, groups, predicates = [], [], []
        for group, side in enumerate(_SIDES):
            names.append(f"windows of {side:.0%}")
            half_x, half_y = (side * span / 2 for span in spans)
            for point in draw.choice(len(drawn.x), self._windows_each, p=drawn.rows / total).tolist():
                x, y = float(drawn.x[point]), float(drawn.y[point])
                window = Box(
                    max(x - half_x, -rim[0]), max(y - half_y, -rim[1]),
                    min(x + half_x, rim[0]), min(y + half_y, rim[1]),
                )  # fmt: skip
                groups.append(group)
                predicates.append(bind(Spatial.of(SpatialOp.INTERSECTS, path, window), self.snapshot.schema))
        return LayoutQueries(tuple(names), np.array(groups, np.int64), tuple(predicates))


def _inside(
    low: NDArray[np.float64], width: NDArray[np.float64], extent: float, draw: np.random.Generator
) -> NDArray[np.float64]:
    """A point in each interval, as the centre of something so wide inside of it."""
    margin = np.minimum(extent, width) / 2
    placed: NDArray[np.float64] = low + margin + draw.random(len(low)) * (width - 2 * margin)
    return placed


def _unit(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values from 0 to 1."""
    if not len(values):
        return values
    low, high = float(values.min()), float(values.max())
    scaled: NDArray[np.float64] = (values - low) / max(high - low, 1e-300)
    return scaled


def _shares(kept: Sequence[Any], size: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The share of the bytes that each query reads, and the share of the queries that read each file."""
    total = max(1e-9, float(size.sum()))
    shares = np.array([float(size[mask].sum()) / total for mask in kept])
    read_by = np.zeros(len(size))
    for mask in kept:
        read_by += mask
    return shares, read_by / max(1, len(kept))
