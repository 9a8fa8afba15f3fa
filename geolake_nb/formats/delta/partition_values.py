"""Partition values, which the log stores as strings, as columns of their types in the schema."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.formats.delta.scalar_stats import arrow_type
from geolake_nb.model.scalar_column import ScalarColumn

if TYPE_CHECKING:
    from collections.abc import Callable

    from geolake_nb.model.types import DataType

__all__ = ["has_unread_values", "partition_scalars", "typed_partition"]

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
