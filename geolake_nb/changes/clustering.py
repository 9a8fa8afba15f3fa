"""In which order rows are written so that those near each other share a file, and which task writes them.

A geo column counts with the centre of each row's box in two dimensions, a plain column with its rank among the
values of a sample in one. Null and empty geometries come last.
"""

from __future__ import annotations

import math
import zlib
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import RefusedError, SchemaError
from geolake_nb.geo.bounds import column_stats, row_boxes
from geolake_nb.geo.curves import KEY_BITS, Curve, bits_per_axis, curve_keys
from geolake_nb.model.schema import Schema, join_path, split_path, type_name
from geolake_nb.model.types import GeographyType, GeometryType, PrimitiveType, StringType, StructType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from geolake_nb.changes.sampling import Partition, Sample
    from geolake_nb.model.types import DataType

__all__ = [
    "NOWHERE",
    "UNREADABLE",
    "GeoAxis",
    "Keying",
    "Ordering",
    "Placement",
    "RankAxis",
    "Slot",
    "centres",
    "keying",
    "place_rows",
    "split_points",
]

NOWHERE = 1 << KEY_BITS
"""The key of rows of which every value to cluster by is null or empty."""
UNREADABLE = NOWHERE + 1
"""The key of rows with a geometry that leaves its file without bounds."""

_RANKS = 4096
_CIRCLE = 360.0


@dataclass(frozen=True, slots=True)
class Ordering:
    """The columns to cluster by, and the curve through the space that they span.

    >>> Ordering(("geom",)).to_dict()
    {'columns': ['geom'], 'curve': 'hilbert'}
    """

    columns: tuple[str, ...]
    """Paths of columns with one value per row."""
    curve: Curve = Curve.HILBERT

    @classmethod
    def of(
        cls, columns: Sequence[str], curve: str, schema: Schema, *, partition_by: Sequence[str] = ()
    ) -> Ordering | None:
        """The ordering by columns of a schema, `None` for no columns; raises for those that have no order.

        >>> from geolake_nb.model.types import Field
        >>> schema = Schema(StructType((Field("g", GeometryType()), Field("day", PrimitiveType("date")))))
        >>> Ordering.of(["G", "day"], "zorder", schema).columns
        ('g', 'day')
        >>> Ordering.of(["day"], "zorder", schema, partition_by=["day"])
        Traceback (most recent call last):
        geolake_nb.errors.RefusedError: 'day' is a partition column: its files hold one value only; leave it out
        """
        kind = Curve.parse(curve)
        if not columns:
            return None
        paths = tuple(_path(schema, column) for column in columns)
        for path in paths:
            if path in partition_by:
                what = f"{path!r} is a partition column: its files hold one value only"
                raise RefusedError(what, remedy="leave it out")
            _require_order(schema.find(path).type, path)
        if len(set(paths)) < len(paths):
            raise RefusedError("a column to cluster by is listed twice", remedy="name it once")
        bits_per_axis(sum(2 if _is_geo(schema.find(path).type) else 1 for path in paths))
        return cls(paths, kind)

    def types(self, schema: Schema) -> list[DataType]:
        """The types of the columns."""
        return [schema.find(path).type for path in self.columns]

    def to_dict(self) -> dict[str, Any]:
        """`columns, curve`."""
        return {"columns": list(self.columns), "curve": self.curve.value}


@dataclass(frozen=True, slots=True)
class GeoAxis:
    """Two dimensions: where the centre of a geometry lies in the extent of the sample."""

    type: GeometryType | GeographyType
    west: float
    width: float
    south: float
    height: float

    def coordinates(self, column: pa.Array) -> tuple[list[NDArray[np.float64]], NDArray[np.bool_], NDArray[np.bool_]]:
        """Coordinates from 0 to 1, NaN for null or empty geometries; which rows those are; which rows have no bound."""
        x, y = centres(column, self.type)
        unbounded = np.isnan(x) & np.asarray(column.is_valid())
        if unbounded.any():
            unbounded[unbounded] = _without_bound(column.filter(pa.array(unbounded)), self.type)
        if isinstance(self.type, GeographyType):
            x = np.mod(x - self.west, _CIRCLE) + self.west
        with np.errstate(over="ignore", invalid="ignore"):
            shares = [(x - self.west) / self.width, (y - self.south) / self.height]
        return shares, np.isnan(x) & ~unbounded, unbounded


@dataclass(frozen=True, slots=True, eq=False)
class RankAxis:
    """One dimension: the rank of a value among those of the sample."""

    values: NDArray[Any] | list[bytes]
    """Sorted; numbers, or the bytes of strings."""

    def coordinates(self, column: pa.Array) -> tuple[list[NDArray[np.float64]], NDArray[np.bool_], NDArray[np.bool_]]:
        """Coordinates from 0 to 1 with NaN for null, which rows are null, and none without a bound."""
        null = np.asarray(column.is_null())
        ranks = self._ranks(column) / max(1, len(self.values))
        return [np.where(null, np.nan, ranks)], null, np.zeros(len(null), np.bool_)

    def _ranks(self, column: pa.Array) -> NDArray[np.float64]:
        if not isinstance(self.values, list):
            return np.searchsorted(self.values, _numbers(column)).astype(np.float64)
        encoded = _bytes(column).dictionary_encode()
        ranks = np.array([bisect_left(self.values, value) for value in encoded.dictionary.to_pylist()], np.float64)
        indices = np.asarray(pc.fill_null(encoded.indices, 0))
        return ranks[indices] if len(ranks) else np.zeros(len(column))


@dataclass(frozen=True, slots=True, eq=False)
class Keying:
    """How the key of a row is computed from its values; it is sent to other processes."""

    ordering: Ordering
    axes: tuple[GeoAxis | RankAxis, ...]
    """One for each column of the ordering."""

    def keys(self, columns: Sequence[pa.Array]) -> NDArray[np.int64]:
        """The key of each row, from the columns of the ordering; see `NOWHERE` and `UNREADABLE`."""
        coordinates: list[NDArray[np.float64]] = []
        nowhere: NDArray[np.bool_] | None = None
        unreadable: NDArray[np.bool_] | None = None
        for axis, column in zip(self.axes, columns, strict=True):
            shares, missing, unbounded = axis.coordinates(column)
            coordinates += shares
            nowhere = missing if nowhere is None else nowhere & missing
            unreadable = unbounded if unreadable is None else unreadable | unbounded
        keys = curve_keys(coordinates, self.ordering.curve)
        keys[nowhere] = NOWHERE
        keys[unreadable] = UNREADABLE
        return keys


def keying(ordering: Ordering, types: Sequence[DataType], sample: Sequence[pa.Array]) -> Keying:
    """The keys that suit a sample: its extent fills the curve.

    >>> import shapely
    >>> column = pa.array([shapely.Point(0, 0).wkb, shapely.Point(4, 4).wkb, None])
    >>> key_of = keying(Ordering(("g",)), [GeometryType()], [column])
    >>> keys = key_of.keys([column])
    >>> int(keys[0]), int(keys[2]) == NOWHERE
    (0, True)
    """
    return Keying(ordering, tuple(_axis(type_, column) for type_, column in zip(types, sample, strict=True)))


def split_points(keys: NDArray[np.int64], files: int) -> NDArray[np.int64]:
    """The keys at which the next file starts, so that files get equal numbers of the rows with a location.

    >>> split_points(np.arange(8), 4).tolist(), split_points(np.arange(0), 4).tolist()
    ([2, 4, 6], [])
    """
    placed = np.sort(keys[keys < NOWHERE])
    if files < 2 or not len(placed):
        return np.array([], np.int64)
    return np.unique(placed[np.arange(1, files) * len(placed) // files])


def centres(column: pa.Array, type: GeometryType | GeographyType) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """X and y of the centre of each row's box, NaN where a row has none; a box may cross the antimeridian.

    >>> import shapely
    >>> [side.tolist() for side in centres(pa.array([shapely.Point(1, 2).wkb, None]), GeometryType())]
    [[1.0, nan], [2.0, nan]]
    """
    boxes = row_boxes(column, type=type).storage
    west, south, east, north = (pc.fill_null(side, np.nan).to_numpy(zero_copy_only=False) for side in boxes.flatten())
    with np.errstate(invalid="ignore", over="ignore"):
        wraps = west > east
        # Halves first: the sum of two large numbers may be infinite.
        x = west / 2 + np.where(wraps, east + _CIRCLE, east) / 2
        x = np.where(wraps & (x > 180.0), x - _CIRCLE, x)
        return x, south / 2 + north / 2


def _without_bound(column: pa.Array, type: GeometryType | GeographyType) -> NDArray[np.bool_]:
    """Which of the geometries without a box are not empty; few are, so halves without any end early."""
    stats = column_stats(column, type=type)
    if not stats.bad and not stats.unbounded:
        return np.zeros(len(column), np.bool_)
    if len(column) == 1 or stats.bad + stats.unbounded == len(column):
        return np.ones(len(column), np.bool_)
    half = len(column) // 2
    return np.concatenate([_without_bound(column.slice(0, half), type), _without_bound(column.slice(half), type)])


def _axis(type_: DataType, column: pa.Array) -> GeoAxis | RankAxis:
    if isinstance(type_, GeometryType | GeographyType):
        x, y = centres(column, type_)
        inside = np.isfinite(x) & np.isfinite(y)
        west, width = _span(x[inside], circular=isinstance(type_, GeographyType))
        south, height = _span(y[inside])
        return GeoAxis(type_, west, width, south, height)
    known = column.drop_null()
    if isinstance(type_, StringType) or _is_bytes(known.type):
        return RankAxis(_thinned(sorted(_bytes(known).to_pylist())))
    return RankAxis(_thinned(np.sort(_numbers(known))))


def _span(values: NDArray[np.float64], *, circular: bool = False) -> tuple[float, float]:
    """The start and the width of the values, never 0; longitudes start after the widest gap between them."""
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    if circular:
        ordered = np.unique(values)
        gaps = np.diff(ordered, append=ordered[0] + _CIRCLE)
        widest = int(np.argmax(gaps))
        low = float(ordered[(widest + 1) % len(ordered)])
        high = low + _CIRCLE - float(gaps[widest])
    with np.errstate(over="ignore"):
        width = high - low
    # Centres of geometries that were not sampled may lie beyond: they are clamped to the edge.
    return low, width if 0.0 < width < np.inf else 1.0


def _thinned(values: Any) -> Any:
    """Some of the values, evenly spaced, so that the list stays small."""
    if len(values) <= _RANKS:
        return values
    indices = np.linspace(0, len(values) - 1, _RANKS).astype(np.int64)
    return values[indices] if isinstance(values, np.ndarray) else [values[index] for index in indices.tolist()]


def _numbers(column: pa.Array) -> NDArray[Any]:
    """Numbers in the order of the values, any for null."""
    kind = column.type
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_temporal(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_decimal(kind) or pa.types.is_floating(kind):
        column = column.cast(pa.float64())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    numbers: NDArray[Any] = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    return numbers


def _bytes(column: pa.Array) -> pa.Array:
    return column.cast(pa.large_binary())


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_geo(type_: DataType) -> bool:
    return isinstance(type_, GeometryType | GeographyType)


def _path(schema: Schema, column: str) -> str:
    """The path as the schema spells it."""
    schema.find(column)
    fields, spelled = schema.fields, []
    parts = split_path(column)
    for depth, name in enumerate(parts, 1):
        field = Schema(StructType(fields)).find(join_path([name]))
        spelled.append(field.name)
        if depth < len(parts) and not isinstance(field.type, StructType):
            raise RefusedError(
                f"{column!r} is inside a list or a map: a row has several values",
                remedy="cluster by a column with one value per row",
            )
        fields = field.type.fields if isinstance(field.type, StructType) else ()
    return join_path(spelled)


def _require_order(type_: DataType, path: str) -> None:
    unordered = ("variant", "interval", "unknown")
    plain = isinstance(type_, StringType) or (isinstance(type_, PrimitiveType) and not type_.name.startswith(unordered))
    if not plain and not _is_geo(type_):
        raise SchemaError(f"a {type_name(type_)} has no order to cluster by", where=path)
    if isinstance(type_, PrimitiveType) and type_.name.startswith(("binary", "fixed")):
        # WKB begins with its byte order and its type: bytes sort by these, not by location.
        raise RefusedError(
            f"{path!r} is {type_name(type_)}: the order of bytes does not cluster rows",
            remedy="leave it out, or give it a geo type first if it holds WKB: geolake check has the command",
        )


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """The tasks of one partition: one for each file, or one that small partitions share."""

    first: int
    files: int
    placed: int
    """How many of the files are for rows with a location; 0 where rows have no keys."""
    splits: NDArray[np.int64]
    """The keys at which the next of those files starts."""

    def tasks_of(self, keys: NDArray[np.int64], turn: int) -> NDArray[np.int64]:
        """The task of each row by its key; null and empty geometries go to the other files, or to the last one."""
        files = np.searchsorted(self.splits, keys, side="right")
        others = self.files - self.placed
        files[keys >= NOWHERE] = self.placed + turn % others if others else self.placed - 1
        return self.first + files


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """The task of each row; it is sent to other processes."""

    keying: Keying | None
    slots: Mapping[Partition, Slot]
    tasks: int

    def tasks_of(
        self, partitions: Sequence[Partition], codes: NDArray[np.int64], keys: NDArray[np.int64] | None, *, turn: int
    ) -> NDArray[np.int32]:
        """The task of each row, by its partition and its key.

        Null and empty geometries are spread over tasks by `turn`, the number of their part of the source, so that a
        part that has to be read again goes to the same tasks.
        """
        tasks = np.zeros(len(codes), np.int32)
        for code in np.unique(codes).tolist():
            mine = codes == code
            slot = self.slots.get(partitions[code])
            if slot is None:
                # An unexpected partition: another text for the same value.
                tasks[mine] = zlib.crc32(repr(partitions[code]).encode()) % max(1, self.tasks)
            elif keys is None:
                tasks[mine] = slot.first + turn % slot.files
            else:
                tasks[mine] = slot.tasks_of(keys[mine], turn)
        return tasks


def place_rows(
    sizes: Mapping[Partition, int], target: int, *, keying: Keying | None = None, sample: Sample | None = None
) -> Placement:
    """The tasks for partitions of these sizes in bytes.

    >>> placed = place_rows({("a",): 250, ("b",): 30, ("c",): 40, ("d",): 50}, 100)
    >>> [(slot.first, slot.files) for slot in placed.slots.values()], placed.tasks
    ([(0, 3), (3, 1), (3, 1), (4, 1)], 5)
    >>> place_rows({}, 100).tasks
    0
    """
    known = None
    if keying is not None and sample is not None:
        keys = keying.keys([sample.columns[path] for path in keying.ordering.columns])
        known = {partition: keys[sample.codes == code] for code, partition in enumerate(sample.partitions)}
    slots: dict[Partition, Slot] = {}
    tasks, room = 0, 0
    for partition, size in sizes.items():
        files = max(1, math.ceil(size / target))
        shared = files == 1 and room >= size
        first = tasks - 1 if shared else tasks
        slots[partition] = _slot(first, files, None if known is None else known.get(partition, _NONE))
        if shared:
            room -= size
            continue
        tasks += files
        room = target - size if files == 1 else 0
    return Placement(keying, slots, tasks)


_NONE: NDArray[np.int64] = np.array([], np.int64)


def _slot(first: int, files: int, keys: NDArray[np.int64] | None) -> Slot:
    """The tasks of a partition, of which some sampled rows have these keys."""
    if keys is None:
        return Slot(first, files, 0, _NONE)
    # Null and empty geometries get files of their own where they would fill some.
    share = float((keys < NOWHERE).mean()) if len(keys) else 1.0
    placed = min(files, max(1 if files == 1 or share else 0, round(files * share)))
    splits = split_points(keys, placed)
    return Slot(first, files, placed, splits)
