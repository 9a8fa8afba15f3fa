"""Partition values, which the log keeps as texts, as columns of the types that the schema gives them."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.core.scalar_column import ScalarColumn
from geolake_nb.core.types import DataType, PrimitiveType
from geolake_nb.errors import CorruptTableError, SchemaError
from geolake_nb.formats.delta.scalar_stats import arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["partition_scalars", "partition_text", "typed_partition"]

# Delta, Partition values: a timestamp without a zone is meant in that of its writer, which may be that of a past time.
_EARLIEST = _LATEST = dt.timedelta(hours=16)
_DATE = re.compile(r"\+?(-?[0-9]{4,7}-[0-9]{2}-[0-9]{2})")
_TIME = re.compile(_DATE.pattern + r"[T ]([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)(Z|[+-][0-9]{2}:?[0-9]{2})?")
_BOOLEANS = {"true": True, "false": False}


def typed_partition(texts: pa.Array, type_: DataType, *, where: str) -> pa.Array:
    """The values of a partition column; an empty text stands for null.

    >>> typed_partition(pa.array(["2", "", None]), PrimitiveType("int32"), where="t").to_pylist()
    [2, None, None]
    >>> typed_partition(pa.array(["two"]), PrimitiveType("int32"), where="t, partition column 'n'")
    Traceback (most recent call last):
    geolake_nb.errors.CorruptTableError: t, partition column 'n': the value 'two' is no int32
    """
    kind = arrow_type(type_)
    if kind is None or pa.types.is_string(kind):
        return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    encoded = texts.dictionary_encode()
    read = _reader(kind)
    values: list[Any] = []
    for text in encoded.dictionary.to_pylist():
        try:
            values.append(read(text) if text else None)
        except (ArithmeticError, ValueError):
            name = type_.name if isinstance(type_, PrimitiveType) else str(kind)
            raise CorruptTableError(f"the value {text[:80]!r} is no {name}", where=where) from None
    stored = {pa.date32(): pa.int32()}.get(kind, pa.int64() if pa.types.is_timestamp(kind) else kind)
    try:
        return pa.array(values, stored).cast(kind).take(encoded.indices)
    except (pa.ArrowException, OverflowError):
        raise CorruptTableError(f"a value is beyond the range of {kind}", where=where) from None


def partition_scalars(texts: pa.Array, values: pa.Array, rows: pa.Array) -> ScalarColumn:
    """The partition values as minima and maxima: each file has one value in all of its rows.

    >>> column = partition_scalars(pa.array(["1", None]), pa.array([1, None]), pa.array([5, 5]))
    >>> column.only_nulls.tolist(), column.no_nulls.tolist()
    ([False, True], [True, False])
    """
    counts = pc.fill_null(rows, 1)
    nulls = pc.if_else(pc.is_null(values), counts, pa.scalar(0, pa.int64()))
    low = high = values
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        zoned = pc.match_substring_regex(texts, r"(Z|[+-][0-9]{2}:?[0-9]{2})$")
        low = pc.if_else(zoned, values, pc.subtract(values, pa.scalar(_EARLIEST, pa.duration("us"))))
        high = pc.if_else(zoned, values, pc.add(values, pa.scalar(_LATEST, pa.duration("us"))))
    return ScalarColumn(low, high, nulls, counts, nan_count=_nan_count(values))


def _nan_count(values: pa.Array) -> pa.Array | None:
    if not pa.types.is_floating(values.type):
        return None
    return pc.fill_null(pc.is_nan(values), False).cast(pa.int64())


def _reader(kind: pa.DataType) -> Callable[[str], Any]:
    if pa.types.is_integer(kind):
        return int
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_decimal(kind):
        return Decimal
    if pa.types.is_date(kind):
        return _days
    if pa.types.is_timestamp(kind):
        return _micros
    if pa.types.is_boolean(kind):
        return _boolean
    return lambda text: text.encode()


def _boolean(text: str) -> bool:
    if text.lower() not in _BOOLEANS:
        raise ValueError(text)
    return _BOOLEANS[text.lower()]


def _days(text: str) -> int:
    """Days since 1970; Spark has years from -290308 to 294247, and puts a sign before those beyond four digits."""
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return int(np.datetime64(match[1], "D").astype(np.int64))


def _micros(text: str) -> int:
    """Microseconds since 1970, in UTC where a zone is named."""
    match = _TIME.fullmatch(text)
    if match is None:
        return _days(text) * 86_400_000_000
    moment = np.datetime64(f"{match[1]}T{match[2]}", "us").astype(np.int64)
    zone = match[3]
    if zone in (None, "Z"):
        return int(moment)
    offset = (int(zone[1:3]) * 60 + int(zone[-2:])) * 60_000_000
    return int(moment) - (offset if zone[0] == "+" else -offset)


def partition_text(value: pa.Scalar) -> str | None:
    """A partition value as the log holds it, the other way round from `typed_partition`; null for an empty text.

    >>> import datetime as dt
    >>> partition_text(pa.scalar(dt.datetime(2024, 1, 2, tzinfo=dt.UTC), pa.timestamp("us", "UTC")))
    '2024-01-02T00:00:00.000000Z'
    >>> partition_text(pa.scalar(True)), partition_text(pa.scalar("")), partition_text(pa.scalar(None, pa.int32()))
    ('true', None, None)
    """
    kind = value.type
    if not value.is_valid:
        return None
    # Delta, Partition value serialization.
    if pa.types.is_date32(kind):
        return _date_text(np.datetime64(value.cast(pa.int32()).as_py(), "D"))
    if pa.types.is_timestamp(kind):
        # Spark's form, with all six digits: in UTC for an instant, else without a zone.
        moment = np.datetime64(value.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).as_py(), "us")
        clock = str(moment).partition("T")[2]
        day = _date_text(moment.astype("datetime64[D]"))
        return f"{day} {clock}" if kind.tz is None else f"{day}T{clock}Z"
    held = value.as_py()
    if held in ("", b""):
        return None
    if pa.types.is_boolean(kind):
        return "true" if held else "false"
    if pa.types.is_floating(kind):
        return _JAVA_NUMBERS.get(repr(held), repr(held))
    if pa.types.is_decimal(kind):
        return format(held, "f")
    if isinstance(held, bytes):
        return held.decode("ascii") if held.isascii() else _refuse_bytes()
    return str(held)


def _date_text(day: np.datetime64) -> str:
    """A date as Java writes it: at least four digits of a year, with a sign where there are more or it is below 0."""
    year = int(day.astype("datetime64[Y]").astype(np.int64)) + 1970
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}{str(day)[-6:]}"


_JAVA_NUMBERS = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


def _refuse_bytes() -> str:
    # Delta, Partition value serialization: engines do not agree on how other bytes become text.
    raise SchemaError("a partition value of bytes beyond ASCII cannot be written", remedy="partition by a string")
