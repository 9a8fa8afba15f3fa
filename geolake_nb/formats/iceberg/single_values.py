"""Iceberg's single-value serialization, for bounds of primitive columns, the inverse of `bounds`."""

from __future__ import annotations

import datetime as dt
import re
import struct
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geolake_nb.model.types import PrimitiveType, StringType

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from geolake_nb.model.types import DataType

__all__ = ["MetricsMode", "bound_bytes", "to_single_value"]

_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_TRUNCATE = re.compile(r"truncate\(([0-9]{1,9})\)")
_DEFAULT_LENGTH = 16
_MODE, _MODE_OF_COLUMN = "write.metadata.metrics.default", "write.metadata.metrics.column."


@dataclass(frozen=True, slots=True)
class MetricsMode:
    """Which metrics of a column are kept in manifests.

    >>> MetricsMode.of({}, "a")
    MetricsMode(counts=True, bounds=True, length=16)
    >>> MetricsMode.of({"write.metadata.metrics.column.a": "none"}, "a").counts
    False
    """

    counts: bool = True
    bounds: bool = True
    length: int | None = _DEFAULT_LENGTH
    """How many characters of strings or bytes of binary values; `None` for all of them."""

    @classmethod
    def of(cls, properties: Mapping[str, str], column: str) -> MetricsMode:
        """The mode of a column by the properties of its table; an unknown mode counts as the default."""
        text = properties.get(_MODE_OF_COLUMN + column, properties.get(_MODE, "")).strip().lower()
        if text == "none":
            return cls(counts=False, bounds=False)
        if text == "counts":
            return cls(bounds=False)
        if text == "full":
            return cls(length=None)
        match = _TRUNCATE.fullmatch(text)
        return cls(length=int(match[1])) if match and int(match[1]) else cls()


def bound_bytes(
    low: Any, high: Any, type_: DataType, *, length: int | None = _DEFAULT_LENGTH
) -> tuple[bytes | None, bytes | None]:
    """The bounds of two values; strings and bytes are truncated, the upper one rounded up.

    >>> bound_bytes("aaa", "abz", StringType(), length=2)
    (b'aa', b'ac')
    >>> bound_bytes(None, b"\\xff\\xff", PrimitiveType("binary"), length=1)
    (None, None)
    >>> bound_bytes(0.0, 0.0, PrimitiveType("float32"))
    (b'\\x00\\x00\\x00\\x80', b'\\x00\\x00\\x00\\x00')
    """
    if isinstance(type_, PrimitiveType) and type_.name in ("float32", "float64"):
        # Iceberg, Manifests: -0.0 comes before +0.0, which are equal in Python.
        low, high = -0.0 if low == 0 else low, 0.0 if high == 0 else high
    elif length is not None and isinstance(low if low is not None else high, (bytes, str)):
        low = None if low is None else low[:length]
        high = None if high is None else _rounded_up(high, length)
    return to_single_value(low, type_), to_single_value(high, type_)


def _rounded_up(value: bytes | str, length: int) -> bytes | str | None:
    """The shortest prefix of a value with its last character incremented; `None` if there is none."""
    if len(value) <= length:
        return value
    cut = value[:length]
    if isinstance(cut, bytes):
        kept = cut.rstrip(b"\xff")
        return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
    while cut:
        following = ord(cut[-1]) + 1
        if 0xD800 <= following <= 0xDFFF:
            following = 0xE000  # the code points between are surrogates
        if following <= 0x10FFFF:
            return cut[:-1] + chr(following)
        cut = cut[:-1]
    return None


def to_single_value(value: Any, type_: DataType) -> bytes | None:
    """A Python value as Iceberg serializes it; `None` for null and for a type that has no bounds.

    Dates and times may be numbers of days or microseconds, whose range exceeds that of Python.

    >>> from decimal import Decimal
    >>> to_single_value(1, PrimitiveType("int64")).hex()
    '0100000000000000'
    >>> to_single_value(Decimal("-1.28"), PrimitiveType("decimal(9, 2)"))
    b'\\x80'
    >>> to_single_value(-800_000, PrimitiveType("date")) == to_single_value(-800_000, PrimitiveType("int32"))
    True
    >>> to_single_value(None, StringType()) is None
    True
    """
    if value is None:
        return None
    if isinstance(type_, StringType):
        return str(value).encode()
    if not isinstance(type_, PrimitiveType):
        return None
    name = type_.name
    if name in _FORMATS:
        return struct.pack(_FORMATS[name], value)
    if isinstance(value, int) and name in _COUNTED:
        return struct.pack(_COUNTED[name], value)
    if name == "date":
        return struct.pack("<i", (value - _EPOCH.date()).days)
    if name == "time":
        clock = dt.datetime.combine(_EPOCH.date(), value) - _EPOCH
        return struct.pack("<q", clock // _MICROSECOND)
    if name in ("timestamp", "timestamptz"):
        moment = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
        return struct.pack("<q", (moment - _EPOCH) // _MICROSECOND)
    if name == "uuid":
        return value.bytes if isinstance(value, uuid.UUID) else bytes(value)
    if name == "binary" or name.startswith("fixed"):
        return bytes(value)
    if name.startswith("decimal"):
        scale = int(name.rstrip(")").rpartition(",")[2])
        return _unscaled(value, scale)
    return None


_COUNTED = {"date": "<i", "time": "<q", "timestamp": "<q", "timestamptz": "<q"}
_FORMATS = {"boolean": "<?", "int32": "<i", "int64": "<q", "float32": "<f", "float64": "<d"}


def _unscaled(value: Decimal, scale: int) -> bytes:
    # Iceberg, Binary single-value serialization: unscaled, two's complement, big-endian, in the fewest bytes.
    sign, digits, exponent = value.as_tuple()
    whole: int = int("".join(map(str, digits))) * 10 ** (scale + int(exponent))
    number: int = -whole if sign else whole
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)
