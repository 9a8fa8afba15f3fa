"""The statistics and partition values of every live file, as columns."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.formats.delta.add_action import marked_bounds
from geolake_nb.formats.delta.raw_actions import stats_object, stats_objects
from geolake_nb.formats.delta.stats_json import Leaf, StructLeaves, load_stats, point_boxes, read_leaves
from geolake_nb.model.collation_stats import collations_in_stats, range_for_filter
from geolake_nb.model.file_table import BoundSource, GeoStatsColumns
from geolake_nb.model.statistics import ScalarColumn
from geolake_nb.model.types import DataType, PrimitiveType, StringType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from geolake_nb.model.collation import Collation
    from geolake_nb.model.types import GeographyType

__all__ = [
    "FileStats",
    "arrow_type",
    "from_json",
    "from_struct",
    "has_unread_values",
    "json_type",
    "partition_scalars",
    "read_stats",
    "typed_partition",
    "widened_maximum",
]

_PLAIN = {
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "int8": pa.int8(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
_DECIMAL = re.compile(r"decimal\(([0-9]+), ([0-9]+)\)")
# Delta, Per-file statistics: timestamps are truncated down to milliseconds, so a maximum may be 999 µs too low.
_CUT = pa.scalar(999, pa.duration("us"))
_LAST = 2**63 - 1 - 999


def arrow_type(type_: DataType) -> pa.DataType | None:
    """The Arrow type of a primitive column's values, `None` for one that is not compared.

    >>> arrow_type(PrimitiveType("decimal(5, 2)")), arrow_type(PrimitiveType("variant"))
    (Decimal128Type(decimal128(5, 2)), None)
    """
    if isinstance(type_, StringType):
        return pa.string()
    if not isinstance(type_, PrimitiveType):
        return None
    if match := _DECIMAL.fullmatch(type_.name):
        precision, scale = int(match[1]), int(match[2])
        return pa.decimal128(precision, scale) if 0 < precision <= 38 and scale <= precision else None
    return _PLAIN.get(type_.name)


def json_type(kind: pa.DataType) -> pa.DataType | None:
    """The type of a minimum or maximum in JSON; binary columns have none.

    >>> json_type(pa.date32()), json_type(pa.int8()), json_type(pa.binary())
    (DataType(string), DataType(int64), None)
    """
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return pa.string()
    return None if pa.types.is_binary(kind) else kind


def from_json(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values from JSON as values of the column; null for one that cannot be parsed.

    >>> from_json(pa.array(["2000-01-01T00:00:00.000-08:00", "soon"]), pa.timestamp("us", "UTC"))[0].as_py().hour
    8
    """
    if values.type == kind:
        return values
    if not pa.types.is_string(values.type):
        return _cast(values, kind)
    try:
        return values.cast(kind)
    except pa.ArrowException:
        read = _text_reader(kind)
        encoded = values.dictionary_encode()
        parsed = [_read_text(text, read) for text in encoded.dictionary.to_pylist()]
        return pa.array(parsed, kind).take(encoded.indices)


def from_struct(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values of a checkpoint's `stats_parsed`, as values of the column; null where the types do not fit.

    >>> from_struct(pa.array([1, None], pa.int32()), pa.int64()).to_pylist()
    [1, None]
    """
    if values.type == kind:
        return values
    if pa.types.is_timestamp(values.type) and pa.types.is_timestamp(kind):
        # Some writers keep no zone in Parquet; the column's type determines what the instants are.
        return _cast(_cast(_whole_micros(values), pa.timestamp(kind.unit, values.type.tz)).cast(pa.int64()), kind)
    return _cast(values, kind)


def _whole_micros(values: pa.Array) -> pa.Array:
    """Nanoseconds rounded down to microseconds: a cast truncates towards 1970, which raises a minimum before it."""
    return pc.floor_temporal(values, unit="microsecond") if values.type.unit == "ns" else values


def widened_maximum(maximum: pa.Array) -> pa.Array:
    """Maxima that no value exceeds, whatever its writer truncated.

    >>> widened_maximum(pa.array([dt.datetime(2000, 1, 1)])).to_pylist()
    [datetime.datetime(2000, 1, 1, 0, 0, 0, 999)]
    """
    if not pa.types.is_timestamp(maximum.type):
        return maximum
    # There is no time beyond the last one: a value near it is not a bound.
    known = pc.if_else(pc.less_equal(maximum.cast(pa.int64()), _LAST), maximum, pa.scalar(None, maximum.type))
    return pc.add(known, _CUT)


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return values.cast(kind, safe=not pa.types.is_floating(kind))
    except pa.ArrowException:
        return pa.nulls(len(values), kind)


def _text_reader(kind: pa.DataType) -> Callable[[str], Any]:
    if pa.types.is_date(kind):
        return dt.date.fromisoformat
    if pa.types.is_timestamp(kind) and kind.tz:
        return _instant
    return lambda text: dt.datetime.fromisoformat(text) if dt.datetime.fromisoformat(text).tzinfo is None else None


def _instant(text: str) -> dt.datetime | None:
    moment = dt.datetime.fromisoformat(text)
    # Its zone is unknown, and a guess could exclude rows.
    return None if moment.tzinfo is None else moment.astimezone(dt.UTC)


def _read_text(text: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(text)
    except (OverflowError, ValueError):
        return None


# Delta, Partition values: a timestamp without a zone is in that of its writer, possibly a historical offset.
_EARLIEST = _LATEST = dt.timedelta(hours=16)
_DATE = re.compile(r"\+?(-?[0-9]{4,7}-[0-9]{2}-[0-9]{2})")
_TIME = re.compile(_DATE.pattern + r"[T ]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)(Z|[+-][0-9]{2}:?[0-9]{2})?")
_DAY = 86_400_000_000
_YEAR_1, _YEAR_10000 = -719_162 * _DAY, 2_932_897 * _DAY
_BOOLEANS = {"true": True, "false": False}


def typed_partition(texts: pa.Array, type_: DataType) -> pa.Array:
    """The values of a partition column; null for an empty string, and for one that does not parse as the type.

    >>> from geolake_nb.model.types import PrimitiveType
    >>> typed_partition(pa.array(["2", "", None, "two"]), PrimitiveType("int32")).to_pylist()
    [2, None, None, None]
    """
    kind = arrow_type(type_)
    if kind is None or pa.types.is_string(kind):
        return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    encoded = texts.dictionary_encode()
    read = _reader(kind)
    stored = {pa.date32(): pa.int32()}.get(kind, pa.int64() if pa.types.is_timestamp(kind) else kind)
    values: list[pa.Scalar] = []
    for text in encoded.dictionary.to_pylist():
        try:
            values.append(pa.scalar(read(text) if text else None, stored))
        except (ArithmeticError, ValueError, pa.ArrowException):
            values.append(pa.scalar(None, stored))
    return pa.array(values, stored).cast(kind).take(encoded.indices)


def has_unread_values(texts: pa.Array, values: pa.Array) -> bool:
    """Whether a value of a partition column does not parse as the column's type.

    >>> has_unread_values(pa.array(["2", ""]), pa.array([2, None])), has_unread_values(pa.array(["x"]), pa.nulls(1))
    (False, True)
    """
    return bool(pc.any(_unread(texts, values)).as_py())


def partition_scalars(texts: pa.Array, values: pa.Array, rows: pa.Array) -> ScalarColumn:
    """The partition values as minima and maxima: each file has one value in all of its rows.

    A value that could not be parsed is unknown: engines disagree on it. The bounds of times outside of the
    years 1 to 9999 are unknown too.

    >>> column = partition_scalars(pa.array(["1", None, "x"]), pa.array([1, None, None]), pa.array([5, 5, 5]))
    >>> column.only_nulls.tolist(), column.no_nulls.tolist()
    ([False, True, False], [True, False, False])
    """
    counts = pc.fill_null(rows, 1)
    nulls = pc.if_else(pc.is_null(values), counts, pa.scalar(0, pa.int64()))
    nulls = pc.if_else(_unread(texts, values), pa.scalar(None, pa.int64()), nulls)
    low = high = values
    if pa.types.is_timestamp(values.type):
        # Zones and calendars of engines differ there, and an offset of hours could overflow 64 bits.
        micros = values.cast(pa.int64())
        usual = pc.and_(pc.greater_equal(micros, _YEAR_1), pc.less(micros, _YEAR_10000))
        low = high = pc.if_else(usual, values, pa.scalar(None, values.type))
        if values.type.tz is not None:
            zoned = pc.match_substring_regex(texts, r"(Z|[+-][0-9]{2}:?[0-9]{2})$")
            low = pc.if_else(zoned, low, pc.subtract(low, pa.scalar(_EARLIEST, pa.duration("us"))))
            high = pc.if_else(zoned, high, pc.add(high, pa.scalar(_LATEST, pa.duration("us"))))
    return ScalarColumn(low, high, nulls, counts, nan_count=_nan_count(values))


def _unread(texts: pa.Array, values: pa.Array) -> pa.Array:
    return pc.and_(pc.is_null(values), pc.fill_null(pc.not_equal(texts, ""), False))


def _nan_count(values: pa.Array) -> pa.Array | None:
    if not pa.types.is_floating(values.type):
        return None
    return pc.fill_null(pc.is_nan(values), False).cast(pa.int64())


def _reader(kind: pa.DataType) -> Callable[[str], Any]:
    if pa.types.is_integer(kind):
        return lambda text: int(_plain_number(text))
    if pa.types.is_floating(kind):
        return lambda text: float(_plain_number(text))
    if pa.types.is_decimal(kind):
        return lambda text: Decimal(_plain_number(text))
    if pa.types.is_date(kind):
        return _days
    if pa.types.is_timestamp(kind):
        return _micros
    if pa.types.is_boolean(kind):
        return _boolean
    return lambda text: text.encode()


def _plain_number(text: str) -> str:
    # Python parses 1_000 and the digits of other scripts, for which Spark returns null.
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return text


def _boolean(text: str) -> bool:
    if text.lower() not in _BOOLEANS:
        raise ValueError(text)
    return _BOOLEANS[text.lower()]


def _days(text: str) -> int:
    """Days since 1970; Spark supports years from -290308 to 294247, with a sign beyond four digits."""
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return int(np.datetime64(match[1], "D").astype(np.int64))


def _micros(text: str) -> int:
    """Microseconds since 1970, in UTC where a zone is named."""
    match = _TIME.fullmatch(text)
    if match is None:
        return _days(text) * _DAY
    # As a Python int: NumPy silently overflows beyond the years of 64 bits.
    moment = _days(match[1]) * _DAY + int(np.datetime64(f"1970-01-01T{match[2]}", "us").astype(np.int64))
    zone = match[3]
    if zone in (None, "Z"):
        return moment
    offset = (int(zone[1:3]) * 60 + int(zone[-2:])) * 60_000_000
    return moment - (offset if zone[0] == "+" else -offset)


_MIN, _MAX, _NULLS, _COLLATED = "minValues", "maxValues", "nullCount", "statsWithCollation"
_Path = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FileStats:
    """The statistics of all files, in their order; columns are named as in the statistics (physical names)."""

    raw: pa.ChunkedArray
    """The `stats` of each file byte for byte as in the log; null where it has none."""
    parsed: pa.ChunkedArray | None
    """The statistics that a checkpoint has as structs; used where `raw` is null."""
    records: pa.Array
    """Rows in the data file, deleted ones included."""
    deleted: pa.Array
    """Rows that a deletion vector deletes."""
    wide: pa.Array
    """Where the statistics may still count deleted rows."""
    geo: Mapping[_Path, GeoStatsColumns]
    """The statistics of each requested geo column."""
    marked: Mapping[_Path, NDArray[np.bool_]] = field(default_factory=dict)
    """For each requested geography, the files whose bounds are known to cover its edges."""

    def __len__(self) -> int:
        return len(self.raw)

    @property
    def rows(self) -> pa.Array:
        """Live rows; null where they are not known."""
        live = pc.subtract(self.records, self.deleted)
        return pc.if_else(pc.greater_equal(live, 0), live, pa.scalar(None, pa.int64()))

    def scalar(self, path: _Path, type_: DataType) -> ScalarColumn:
        """Bounds and null counts of one column of that type."""
        kind = arrow_type(type_)
        stored = None if kind is None else json_type(kind)
        wanted: list[Leaf] = [((_NULLS, *path), pa.int64())]
        if stored is not None:
            wanted += [((_MIN, *path), stored), ((_MAX, *path), stored)]
        leaves = self._leaves(wanted)
        nulls = self._null_counts(leaves[0][0], leaves[0][1])
        if kind is None or stored is None:
            nothing = pa.nulls(len(self), pa.binary())
            return ScalarColumn(nothing, nothing, nulls, self._counted_rows)
        low, high = (_merged(from_json(json, kind), struct, kind) for json, struct in leaves[1:])
        # A string may be truncated without a marker, and then the file can contain a longer one with the same prefix.
        text = bool(pa.types.is_string(kind))
        return ScalarColumn(low, widened_maximum(high), nulls, self._counted_rows, truncated=text)

    def object(self, row: int) -> Mapping[str, Any] | None:
        """The statistics of one file as a JSON object; `None` if it has none or they cannot be parsed."""
        text = self.raw[row].as_py()
        if text is None and self.parsed is not None:
            return stats_object(self.parsed[row])
        return load_stats(text)

    def collations(self) -> tuple[Collation, ...]:
        """The collations, with their versions, for which any file has statistics."""
        unique: dict[Collation, None] = {}
        for _, stats in self.collated_objects():
            unique |= dict.fromkeys(collations_in_stats(stats))
        return tuple(unique)

    def collated(self, path: _Path, collation: Collation, *, prefix_length: int | None = None) -> ScalarColumn:
        """Bounds of a string column under one collation and version, null where a file has no usable ones.

        `prefix_length` is the length at which the writers truncate strings, as in `range_for_filter`.
        """
        low: list[str | None] = [None] * len(self)
        high: list[str | None] = [None] * len(self)
        for row, stats in self.collated_objects():
            result = range_for_filter(stats, path, collation, collators=(collation,), prefix_length=prefix_length)
            usable = result.range
            if usable is not None:
                low[row], high[row] = usable.low, usable.high
        (nulls, parsed), *_ = self._leaves([((_NULLS, *path), pa.int64())])
        counts = self._null_counts(nulls, parsed)
        return ScalarColumn(pa.array(low, pa.string()), pa.array(high, pa.string()), counts, self._counted_rows)

    @property
    def _counted_rows(self) -> pa.Array:
        """The row counts that null counts refer to."""
        return pc.if_else(self.wide, self.records, self.rows)

    def collated_objects(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """The files that have collated statistics, each with an object that contains these and maybe others."""
        marked = pc.fill_null(pc.match_substring(self.raw, _COLLATED), False)
        for row in np.flatnonzero(marked.to_numpy()).tolist():
            yield row, load_stats(self.raw[row].as_py()) or {}
        column = None if self.parsed is None else StructLeaves(self.parsed).find((_COLLATED,))
        if column is None:
            return
        # Flattened as a column, not struct by struct.
        structs = pc.and_(pc.is_null(self.raw), pc.is_valid(column))
        for row, stats in zip(
            np.flatnonzero(structs.to_numpy()).tolist(), stats_objects(column.filter(structs)), strict=True
        ):
            if stats is not None:
                yield row, {_COLLATED: stats}

    def _leaves(self, wanted: Sequence[Leaf]) -> list[tuple[pa.Array, pa.Array | None]]:
        """Each leaf from JSON and, where there are structs, from those."""
        parsed = None if self.parsed is None else StructLeaves(self.parsed)
        return [
            (column, _struct_leaf(parsed, path))
            for column, (path, _) in zip(read_leaves(self.raw, wanted), wanted, strict=True)
        ]

    def _null_counts(self, json: pa.Array, struct: pa.Array | None) -> pa.Array:
        return _sound_null_counts(_merged(json, struct, pa.int64()), self.records, self.wide)


def read_stats(
    raw: pa.ChunkedArray,
    parsed: pa.ChunkedArray | None,
    deleted: pa.Array,
    geo: Sequence[_Path],
    *,
    geographies: Mapping[_Path, GeographyType] | None = None,
    tags: pa.Array | None = None,
) -> FileStats:
    """Read row counts, and the boxes and null counts of these geo columns, in one pass.

    `geographies` are those of them whose bounds count only where `tags`, the values of `BOUNDS_TAG`, repeat them.

    >>> text = '{"numRecords":2,"minValues":{"g":"POINT(0 1)"},"maxValues":{"g":"POINT(2 3)"},"nullCount":{"g":1}}'
    >>> stats = read_stats(pa.chunked_array([[text, None]]), None, pa.array([0, 0]), [("g",)])
    >>> stats.rows.to_pylist(), stats.geo["g",].sides["ymax"].to_pylist(), stats.geo["g",].null_count.to_pylist()
    ([2, None], [3.0, None], [1, None])
    """
    leaves: list[Leaf] = [(("numRecords",), pa.int64()), (("tightBounds",), pa.bool_())]
    for path in geo:
        leaves += [((_MIN, *path), pa.string()), ((_MAX, *path), pa.string()), ((_NULLS, *path), pa.int64())]
    json = read_leaves(raw, leaves)
    structs = None if parsed is None else StructLeaves(parsed)
    columns = [
        _merged(column, _struct_leaf(structs, path), type_) for column, (path, type_) in zip(json, leaves, strict=True)
    ]
    records, tight = columns[0], columns[1]
    records = pc.if_else(pc.greater_equal(records, 0), records, pa.scalar(None, pa.int64()))
    # Delta assumes tight bounds by default. With a deletion vector they must be declared tight.
    is_tight = pc.fill_null(tight, False)
    wide = pc.if_else(pc.not_equal(deleted, 0), pc.invert(is_tight), pc.invert(pc.fill_null(tight, True)))
    wide = pc.fill_null(wide, True)
    unread = _unreadable(raw, records)
    boxes: dict[_Path, GeoStatsColumns] = {}
    marked: dict[_Path, NDArray[np.bool_]] = {}
    for index, path in enumerate(geo):
        low, high, nulls = columns[2 + 3 * index : 5 + 3 * index]
        points = point_boxes(low, high)
        if geographies and path in geographies:
            nothing = np.zeros(len(low), np.bool_)
            marked[path] = nothing if tags is None else marked_bounds(tags, path, geographies[path], low, high)
        boxes[path] = GeoStatsColumns(
            points.sides,
            null_count=_sound_null_counts(nulls, records, wide),
            source=BoundSource.LOG,
            problem=points.problem if unread is None else pc.coalesce(points.problem, unread),
        )
    return FileStats(raw, parsed, records, deleted, wide, boxes, marked)


def _sound_null_counts(nulls: pa.Array, records: pa.Array, wide: pa.Array) -> pa.Array:
    # Delta, Per-file statistics: without tight bounds only a count of 0 or of all rows is meaningful.
    telling = pc.or_kleene(pc.equal(nulls, 0), pc.equal(nulls, records))
    usable = pc.and_kleene(pc.greater_equal(nulls, 0), pc.or_kleene(pc.invert(wide), telling))
    return pc.if_else(pc.fill_null(usable, False), nulls, pa.scalar(None, pa.int64()))


def _merged(json: pa.Array, struct: pa.Array | None, kind: pa.DataType) -> pa.Array:
    return json if struct is None else pc.coalesce(json, from_struct(struct, kind))


def _struct_leaf(parsed: StructLeaves | None, path: Sequence[str]) -> pa.Array | None:
    column = None if parsed is None else parsed.find(path)
    if column is None:
        return None
    return pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)


def _unreadable(raw: pa.ChunkedArray, records: pa.Array) -> pa.Array | None:
    """The problem of each file whose statistics cannot be parsed; `None` if there is no such file."""
    suspect = pc.and_(pc.is_valid(raw), pc.is_null(records)).to_numpy()
    rows = [row for row in np.flatnonzero(suspect).tolist() if load_stats(raw[row].as_py()) is None]
    if not rows:
        return None
    marks = np.zeros(len(raw), np.bool_)
    marks[rows] = True
    return pc.if_else(pa.array(marks), "the statistics are not a JSON object", pa.scalar(None, pa.string()))
