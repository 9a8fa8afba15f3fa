"""Minima, maxima and null counts of primitive columns: while they are written, and of many footers.

Spark did so before version 3.0, and still does in its rebase mode LEGACY. It marks such files by its version or by a
property, and reads a stored day as the same year, month and day in that calendar.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import UnsupportedTableError
from geolake_nb.model.statistics import ScalarColumn
from geolake_nb.model.types import PrimitiveType, StringType
from geolake_nb.parquet.schema import PATH_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow.parquet as pq
    from numpy.typing import NDArray

    from geolake_nb.model.types import DataType
    from geolake_nb.parquet.footer import FileView

__all__ = [
    "FIRST_GREGORIAN_DAY",
    "FLOATS",
    "ColumnRange",
    "LegacyCalendar",
    "arrow_type_of",
    "column_range",
    "first_same_time",
    "footer_scalars",
    "has_nan",
    "merge_ranges",
]

FLOATS = tuple(map(PrimitiveType, ("float16", "float32", "float64")))
"""The types with NaN values."""


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """Statistics of a primitive column, as Python values; `None` for an unknown bound."""

    low: Any
    high: Any
    """`None` also where a value is NaN, which is greater than any number for Spark and for Iceberg."""
    null_count: int
    rows: int = 0
    nan_count: int | None = None
    """`None` where values cannot be NaN."""
    least: Any = None
    """The bounds of the other values, where some are NaN."""
    greatest: Any = None

    @property
    def only_nulls(self) -> bool:
        """Whether all values are null."""
        return self.null_count == self.rows

    @property
    def numbers(self) -> tuple[Any, Any]:
        """The bounds without NaN, which Iceberg counts separately.

        >>> column_range(pa.chunked_array([[1.5, float("nan"), 0.5]])).numbers
        (0.5, 1.5)
        """
        return (self.least, self.greatest) if self.nan_count else (self.low, self.high)


def column_range(values: pa.ChunkedArray) -> ColumnRange:
    """The range of some values; types without order, such as lists, have only a null count.

    >>> column_range(pa.chunked_array([[3, None, 1]]))
    ColumnRange(low=1, high=3, null_count=1, rows=3, nan_count=None, least=None, greatest=None)
    >>> column_range(pa.chunked_array([[1.5, float("nan")]])).high is None
    True
    >>> column_range(pa.chunked_array([], pa.int8())).rows
    0
    """
    kind, rows, nulls = values.type, len(values), values.null_count
    nans = 0 if pa.types.is_floating(kind) else None
    if nulls == rows or pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return ColumnRange(None, None, nulls, rows, nans)
    try:
        ends = pc.min_max(values)
    except pa.ArrowNotImplementedError:  # half-precision numbers
        return ColumnRange(None, None, nulls, rows)
    low, high = _python(ends["min"]), _python(ends["max"])
    if pa.types.is_floating(kind):
        nans = pc.sum(pc.is_nan(values)).as_py() or 0
        if nans:
            only = nans == rows - nulls
            least, greatest = (None, None) if only else (low, high)
            return ColumnRange(least, None, nulls, rows, nans, least, greatest)
    return ColumnRange(low, high, nulls, rows, nans)


def merge_ranges(parts: Iterable[ColumnRange]) -> ColumnRange:
    """The range of a column made of these parts; a bound that is unknown in one is unknown for the whole.

    >>> merge_ranges([ColumnRange(1, 5, 0, 2), ColumnRange(None, None, 3, 3), ColumnRange(0, None, 0, 1)])
    ColumnRange(low=0, high=None, null_count=3, rows=6, nan_count=None, least=None, greatest=None)
    >>> merge_ranges([]).low is None
    True
    """
    whole = list(parts)
    filled = [part for part in whole if not part.only_nulls]
    lows, highs = [part.low for part in filled], [part.high for part in filled]
    counts = [part.nan_count for part in whole if part.nan_count is not None]
    # A part of only NaN has no other values; any other part has both bounds or none.
    numbers = [part.numbers for part in filled if part.nan_count != part.rows - part.null_count]
    known = bool(sum(counts)) and all(None not in ends for ends in numbers)
    return ColumnRange(
        min(lows) if lows and None not in lows else None,
        max(highs) if highs and None not in highs else None,
        sum(part.null_count for part in whole),
        sum(part.rows for part in whole),
        sum(counts) if counts else None,
        min((ends[0] for ends in numbers), default=None) if known else None,
        max((ends[1] for ends in numbers), default=None) if known else None,
    )


def has_nan(values: pa.ChunkedArray) -> bool:
    """Whether a value is NaN.

    >>> has_nan(pa.chunked_array([[1.0, None]])), has_nan(pa.chunked_array([[1.0, float("nan")]]))
    (False, True)
    """
    # Arrow has no is_nan for half-precision numbers.
    numbers = values.cast(pa.float32()) if pa.types.is_float16(values.type) else values
    return bool(pc.any(pc.is_nan(numbers)).as_py())


def _python(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return None  # a year beyond Python's range, or invalid UTF-8


FIRST_GREGORIAN_DAY = -141_427
"""15 October 1582: from here on a day has the same date in both calendars."""
_VERSION = b"org.apache.spark.version"
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def first_same_time(unit: str) -> int:
    """1 January 1900 in a unit of Arrow: from there on a time is the same in both calendars, in every time zone.

    >>> first_same_time("s")
    -2208988800
    """
    return -2_208_988_800 * _PER_SECOND[unit]


@dataclass(frozen=True, slots=True)
class LegacyCalendar:
    """Which values of a file are in the hybrid calendar."""

    dates: bool
    """Dates, and times that are not INT96."""
    int96: bool
    sure: bool = True
    """Whether the file declares it. Otherwise its writer is unknown and may have been Spark 2."""

    @classmethod
    def of(cls, metadata: pq.FileMetaData) -> LegacyCalendar | None:
        """The calendar by the properties of a file, `None` for a file without values in that calendar."""
        properties = metadata.metadata or {}
        version = properties.get(_VERSION)
        if version is None:
            return cls(True, True, sure=False) if (metadata.created_by or "").startswith("parquet-mr") else None
        # Spark, DataSourceUtils: by its version, or by a property in the mode LEGACY.
        dates = _is_before(version, (3, 0)) or b"org.apache.spark.legacyDateTime" in properties
        int96 = _is_before(version, (3, 1)) or b"org.apache.spark.legacyINT96" in properties
        return cls(dates, int96) if dates or int96 else None

    def bounds_hold(self, low: int, kind: pa.DataType) -> bool:
        """Whether a minimum, as stored in the file, excludes all values that differ in the Gregorian calendar.

        >>> LegacyCalendar(True, True).bounds_hold(-171_650, pa.date32())
        False
        """
        if not self.dates:
            return True
        if pa.types.is_date(kind):
            return low >= FIRST_GREGORIAN_DAY
        return not pa.types.is_timestamp(kind) or low >= first_same_time(kind.unit)

    def rebased(self, batch: pa.RecordBatch, schema: pq.ParquetSchema) -> pa.RecordBatch:
        """The batch in the Gregorian calendar; times and nested dates that differ are refused by name.

        The result for a time depends on the time zone of its writer and on the history of that zone. A file whose
        writer is unknown is read as it is, as in Spark 4.
        """
        if not self.sure:
            return batch
        arrays = [
            self._column(array, name, is_int96=_has_int96(schema, name))
            for name, array in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, batch.schema.names)

    def _column(self, array: pa.Array, name: str, *, is_int96: bool) -> pa.Array:
        if self.dates and pa.types.is_date32(array.type):
            days = pc.fill_null(array.cast(pa.int32()), 0).to_numpy()
            return pa.array(gregorian_days(days), pa.int32(), mask=~array.is_valid().to_numpy(False)).cast(pa.date32())
        for leaf in _leaves(array):
            is_time = pa.types.is_timestamp(leaf.type)
            if not (pa.types.is_date32(leaf.type) or is_time) or not (
                self.int96 if is_int96 and is_time else self.dates
            ):
                continue
            first = pc.min(leaf.cast(pa.int64() if is_time else pa.int32())).as_py()
            cut = first_same_time(leaf.type.unit) if is_time else FIRST_GREGORIAN_DAY
            if first is not None and first < cut:
                values = "times before 1900" if is_time else "dates before 15 October 1582"
                raise UnsupportedTableError(
                    f"{values} are in the legacy calendar of Spark, whose conversion is not supported",
                    where=name,
                    remedy="read the files with spark.read.parquet and rewrite them",
                )
        return array


def gregorian_days(days: NDArray[np.int32]) -> NDArray[np.int32]:
    """Days since 1970 with the Gregorian dates that equal the dates of the given days in the hybrid calendar.

    A date that the Gregorian calendar lacks, such as 29 February 1500, becomes the day after, as in Spark.

    >>> gregorian_days(np.array([-171_650, 0])).tolist()  # 1500-01-01
    [-171659, 0]
    """
    ancient = np.flatnonzero(days < FIRST_GREGORIAN_DAY)
    if not len(ancient):
        return days
    # The Julian date of a Julian day number, in years that begin in March.
    count = days[ancient].astype(np.int64) + 2_440_588 + 32_082
    years = (4 * count + 3) // 1461
    of_year = count - 1461 * years // 4
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5
    year = years - 4800
    # The days before that March in the proleptic Gregorian calendar, and from there on.
    rebased = days.copy()
    first_of_month = 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 - 719_468
    rebased[ancient] = (first_of_month + day).astype(np.int32)
    return rebased


def _is_before(version: bytes, since: tuple[int, int]) -> bool:
    numbers = version.split(b".")[:2]
    known = len(numbers) == 2 and all(number.isdigit() for number in numbers)
    return not known or (int(numbers[0]), int(numbers[1])) < since


def _has_int96(schema: pq.ParquetSchema, name: str) -> bool:
    leaves = (schema.column(index) for index in range(len(schema)))
    return any(leaf.physical_type == "INT96" and leaf.path.split(".")[0] == name for leaf in leaves)


def _leaves(array: pa.Array) -> Iterator[pa.Array]:
    kind = array.type
    if pa.types.is_struct(kind):
        for child in array.flatten():
            yield from _leaves(child)
    elif pa.types.is_map(kind):
        yield from _leaves(array.keys)
        yield from _leaves(array.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _leaves(array.flatten())
    else:
        yield array


_UNITS = {"": "us", "_ms": "ms", "_ns": "ns"}
_ARROW = {
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "int8": pa.int8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "uint8": pa.uint8(),
}


def arrow_type_of(type: DataType) -> pa.DataType | None:
    """The Arrow type in which statistics of a column are compared, `None` where they have no order.

    >>> arrow_type_of(PrimitiveType("timestamptz_ns")), arrow_type_of(PrimitiveType("interval"))
    (TimestampType(timestamp[ns, tz=UTC]), None)
    """
    if isinstance(type, StringType):
        # A collation would order them differently; Parquet orders by bytes.
        return pa.string() if type.collation is None else None
    if not isinstance(type, PrimitiveType):
        return None
    name = type.name
    if name in _ARROW:
        return _ARROW[name]
    if name.startswith("decimal("):
        precision, scale = name[8:-1].split(", ")
        return pa.decimal128(int(precision), int(scale)) if int(precision) <= 38 else None
    for prefix, zone in (("timestamptz", "UTC"), ("timestamp", None)):
        rest = name.removeprefix(prefix)
        if rest != name and rest in _UNITS:
            return pa.timestamp(_UNITS[rest], zone)
    rest = name.removeprefix("time")
    if rest != name and rest in _UNITS:
        return pa.time32("ms") if rest == "_ms" else pa.time64(_UNITS[rest])
    return None


def footer_scalars(views: Sequence[FileView], parts: tuple[str, ...], type: DataType) -> ScalarColumn | None:
    """The statistics of a column in every file, `None` where its values have no order or it repeats in a row.

    A file whose column type differs from the table's has none. A file without the column has only nulls.
    """
    kind = arrow_type_of(type)
    if kind is None:
        return None
    rows = [_one_file(view, parts, type, kind) for view in views]
    if any(row is None for row in rows):
        return None
    known = [row for row in rows if row is not None]
    return ScalarColumn(
        _array([row.low for row in known], kind),
        _array([row.high for row in known], kind),
        pa.array([row.nulls for row in known], pa.int64()),
        pa.array([view.metadata.num_rows for view in views], pa.int64()),
    )


@dataclass(frozen=True, slots=True)
class _Range:
    low: Any = None
    high: Any = None
    nulls: int | None = None


def _one_file(view: FileView, parts: tuple[str, ...], type: DataType, kind: pa.DataType) -> _Range | None:
    field = view.find(parts)
    if field is None:
        return _Range(nulls=view.metadata.num_rows if view.lacks(parts) else None)
    leaf = view.leaves.get(field.metadata.get(PATH_KEY, ""))
    if leaf is None or field.type != type:
        return _Range()
    if view.metadata.schema.column(leaf).max_repetition_level:
        return None
    low = high = None
    nulls: int | None = 0
    bounded = True
    for index in range(view.metadata.num_row_groups):
        group = view.metadata.row_group(index)
        if not group.num_rows:
            continue
        plain = group.column(leaf).statistics
        count = plain.null_count if plain is not None and plain.has_null_count else None
        nulls = None if nulls is None or count is None else nulls + count
        if count == group.num_rows:
            continue
        ends = None if plain is None or not plain.has_min_max else _ends(plain, type)
        if ends is None:
            bounded = False
        elif bounded:
            low = ends[0] if low is None else min(low, ends[0])
            high = ends[1] if high is None else max(high, ends[1])
    calendar = LegacyCalendar.of(view.metadata)
    if calendar is not None and low is not None and not calendar.bounds_hold(low, kind):
        bounded = False
    return _Range(low, high, nulls) if bounded else _Range(nulls=nulls)


def _ends(plain: pq.Statistics, type: DataType) -> tuple[Any, Any] | None:
    """The least and the greatest value: integers in the unit of the column, floats, text, bytes or decimals."""
    if isinstance(type, PrimitiveType) and type.name.startswith("decimal("):
        ends = plain.min, plain.max
        return ends if all(isinstance(end, Decimal) for end in ends) else None
    ends = plain.min_raw, plain.max_raw
    if isinstance(type, StringType):
        try:
            return ends[0].decode(), ends[1].decode()
        except UnicodeDecodeError:
            return None
    if isinstance(type, PrimitiveType) and type.name.startswith("uint"):
        bits = 64 if type.name == "uint64" else 32
        return ends[0] % (1 << bits), ends[1] % (1 << bits)
    if any(isinstance(end, float) and math.isnan(end) for end in ends):
        return None
    return ends


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_date(kind) or pa.types.is_time32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)
