"""Minima, maxima and null counts of a primitive column over many Parquet files, from their row groups."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.model.scalar_column import ScalarColumn
from geolake_nb.model.types import PrimitiveType, StringType
from geolake_nb.parquet.legacy_calendar import LegacyCalendar
from geolake_nb.parquet.schema import PATH_KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.parquet as pq

    from geolake_nb.model.types import DataType
    from geolake_nb.parquet.footer_view import FileView

__all__ = ["arrow_type_of", "footer_scalars"]

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
