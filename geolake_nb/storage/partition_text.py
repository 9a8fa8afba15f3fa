"""Partition values as texts, in the logs of Delta and in the folders of Hive."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from geolake_nb.errors import SchemaError

__all__ = ["partition_text"]


def partition_text(value: pa.Scalar) -> str | None:
    """A partition value as the log stores it, `None` for null and for an empty string.

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
    plain = value.as_py()
    if plain in ("", b""):
        return None
    if pa.types.is_boolean(kind):
        return "true" if plain else "false"
    if pa.types.is_floating(kind):
        return _JAVA_NUMBERS.get(repr(plain), repr(plain))
    if pa.types.is_decimal(kind):
        return format(plain, "f")
    if isinstance(plain, bytes):
        return plain.decode("ascii") if plain.isascii() else _refuse_bytes()
    return str(plain)


def _date_text(day: np.datetime64) -> str:
    """A date as Java writes it: at least four digits of a year, with a sign where there are more or it is below 0."""
    year = int(day.astype("datetime64[Y]").astype(np.int64)) + 1970
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}{str(day)[-6:]}"


_JAVA_NUMBERS = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


def _refuse_bytes() -> str:
    # Delta, Partition value serialization: engines disagree on how other bytes become strings.
    raise SchemaError("a partition value of bytes beyond ASCII cannot be written", remedy="partition by a string")
