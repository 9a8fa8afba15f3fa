"""Minima and maxima of primitive columns, from JSON or from structs, as bounds that are valid for every row."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.model.types import DataType, PrimitiveType, StringType

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["arrow_type", "from_json", "from_struct", "json_type", "widened_maximum"]

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
