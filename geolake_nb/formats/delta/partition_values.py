"""Partition values, which the log keeps as texts, as columns of the types that the schema gives them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

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
    try:
        return pa.array(values, kind).take(encoded.indices)
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
        return dt.date.fromisoformat
    if pa.types.is_timestamp(kind):
        return _instant if kind.tz else _local_time
    if pa.types.is_boolean(kind):
        return _boolean
    return lambda text: text.encode()


def _boolean(text: str) -> bool:
    if text.lower() not in _BOOLEANS:
        raise ValueError(text)
    return _BOOLEANS[text.lower()]


def _instant(text: str) -> dt.datetime:
    moment = dt.datetime.fromisoformat(text)
    return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)


def _local_time(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=None)


def partition_text(value: pa.Scalar) -> str | None:
    """A partition value as the log holds it, the other way round from `typed_partition`; null for an empty text.

    >>> import datetime as dt
    >>> partition_text(pa.scalar(dt.datetime(2024, 1, 2, tzinfo=dt.UTC), pa.timestamp("us", "UTC")))
    '2024-01-02T00:00:00.000000Z'
    >>> partition_text(pa.scalar(True)), partition_text(pa.scalar("")), partition_text(pa.scalar(None, pa.int32()))
    ('true', None, None)
    """
    kind, held = value.type, value.as_py()
    if held is None or held in ("", b""):
        return None
    # Delta, Partition value serialization.
    if pa.types.is_boolean(kind):
        return "true" if held else "false"
    if pa.types.is_floating(kind):
        return _JAVA_NUMBERS.get(repr(held), repr(held))
    if pa.types.is_decimal(kind):
        return format(held, "f")
    if pa.types.is_timestamp(kind):
        # Spark's form, with all six digits: in UTC for an instant, else without a zone.
        moment = value.cast(pa.timestamp("us", kind.tz)).as_py()
        if kind.tz is None:
            return str(moment.isoformat(sep=" ", timespec="microseconds"))
        return f"{moment.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
    if isinstance(held, bytes):
        return held.decode("ascii") if held.isascii() else _refuse_bytes()
    return str(held)


_JAVA_NUMBERS = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


def _refuse_bytes() -> str:
    # Delta, Partition value serialization: engines do not agree on how other bytes become text.
    raise SchemaError("a partition value of bytes beyond ASCII cannot be written", remedy="partition by a string")
