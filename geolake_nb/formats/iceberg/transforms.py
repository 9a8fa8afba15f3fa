"""Iceberg's partition transforms: from the values of a column to partition values."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import SchemaError
from geolake_nb.formats.iceberg.metadata import PartitionField
from geolake_nb.formats.iceberg.partition_values import partition_list, result_type
from geolake_nb.formats.iceberg.single_values import to_single_value
from geolake_nb.model.types import PrimitiveType, StringType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from geolake_nb.model.types import DataType

__all__ = ["can_transform", "partition_keys", "partition_of_key", "transformed"]

_NAME = re.compile(r"(bucket|truncate)\[([1-9][0-9]{0,8})\]|(day|hour|month|year)")
_TIMES = ("timestamp", "timestamp_ns", "timestamptz", "timestamptz_ns")
_BUCKETS = ("binary", "date", "int32", "int64", "time", "uuid", *_TIMES)
_CUTS = ("binary", "int32", "int64")
_SECOND = {"": 1_000_000, "_ns": 1_000_000_000}
_HOUR, _DAY = 3600, 86_400
_MARK = "="
"""Prefix of the bytes of a value, to distinguish an empty string from null."""


def can_transform(transform: str, type_: DataType) -> bool:
    """Whether a transform is known and accepts this type.

    >>> can_transform("bucket[4]", PrimitiveType("int64")), can_transform("hour", PrimitiveType("date"))
    (True, False)
    """
    match = _NAME.fullmatch(transform)
    if match is None:
        return False
    if isinstance(type_, StringType):
        return match[1] is not None
    if not isinstance(type_, PrimitiveType):
        return False
    name = type_.name.partition("(")[0]
    if match[1] is not None:
        wide = name == "decimal" or (name == "fixed" and match[1] == "bucket")
        return wide or name in (_BUCKETS if match[1] == "bucket" else _CUTS)
    return name in _TIMES or (name == "date" and match[3] != "hour")


def partition_keys(transform: str, type_: DataType, values: pa.Array) -> pa.Array:
    """The partition value of each row as a string key; null for null.

    >>> keys = partition_keys("truncate[1]", StringType(), pa.array(["", "ab", None, "ac"]))
    >>> keys.to_pylist(), [partition_of_key(key) for key in keys.to_pylist()]
    (['=', '=YQ==', None, '=YQ=='], ['', 'YQ==', None, 'YQ=='])
    """
    result = result_type(PartitionField("", 0, transform, 0), type_)
    assert result is not None
    encoded = values.dictionary_encode()
    results = partition_list(transformed(transform, type_, encoded.dictionary))
    packed = [to_single_value(value, result) for value in results]
    texts = [None if data is None else _MARK + base64.b64encode(data).decode() for data in packed]
    return pa.array(texts, pa.string()).take(encoded.indices)


def partition_of_key(key: str | None) -> str | None:
    """The value of a key, in base64."""
    return None if key is None else key.removeprefix(_MARK)


def transformed(transform: str, type_: DataType, values: pa.Array) -> pa.Array:
    """The partition values of these values, which may be represented by integers.

    >>> import datetime as dt
    >>> transformed("month", PrimitiveType("date"), pa.array([dt.date(1970, 2, 1), dt.date(1969, 12, 31), None]))
    <pyarrow.lib.Int32Array object at ...>
    [
      1,
      -1,
      null
    ]
    """
    match = _NAME.fullmatch(transform)
    if match is None or not can_transform(transform, type_):
        raise SchemaError(f"the transform {transform} does not accept this type")
    if match[1] == "bucket":
        return _masked((_hashes(type_, values) & 0x7FFFFFFF) % int(match[2]), values)
    if match[1] == "truncate":
        return _cut(values, int(match[2]), type_)
    return _since_1970(match[3], type_, values)


def _masked(numbers: NDArray[np.int64], values: pa.Array) -> pa.Array:
    return pa.array(numbers.astype(np.int32), mask=values.is_null().to_numpy(zero_copy_only=False))


def _numbers(values: pa.Array) -> NDArray[np.int64]:
    """Integers, and the numbers of times and dates; 0 for null."""
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    numbers: NDArray[np.int64] = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return numbers


def _cut(values: pa.Array, width: int, type_: DataType) -> pa.Array:
    # Iceberg, Truncate Transform: v - (v mod W) with a remainder that is not negative; L characters or bytes.
    if isinstance(type_, StringType):
        return pc.utf8_slice_codeunits(values, 0, width)
    if pa.types.is_decimal(values.type):
        whole = [None if value is None else int(value.scaleb(values.type.scale)) for value in values.to_pylist()]
        kept = [None if number is None else number - number % width for number in whole]
        return pa.array(
            [None if number is None else _decimal(number, values.type.scale) for number in kept], values.type
        )
    if pa.types.is_integer(values.type):
        numbers = _numbers(values)
        kept = pa.array(numbers - numbers % width, mask=values.is_null().to_numpy(zero_copy_only=False))
        return kept.cast(values.type, safe=False)  # Iceberg for Java wraps around below the minimum
    return pa.array([None if value is None else value[:width] for value in values.to_pylist()], pa.binary())


def _decimal(unscaled: int, scale: int) -> object:
    from decimal import Context, Decimal

    return Decimal(unscaled).scaleb(-scale, Context(prec=60))


def _since_1970(unit: str, type_: DataType, values: pa.Array) -> pa.Array:
    """Years, months, days or hours, rounded down."""
    assert isinstance(type_, PrimitiveType)
    numbers = _numbers(values)
    if type_.name != "date":
        second = _SECOND["_ns" if type_.name.endswith("_ns") else ""]
        if unit == "hour":
            return _masked(numbers // (_HOUR * second), values)
        numbers = numbers // (_DAY * second)
    if unit == "day":
        return _masked(numbers, values).cast(pa.date32())
    months = numbers.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    return _masked(months if unit == "month" else months // 12, values)


def _hashes(type_: DataType, values: pa.Array) -> NDArray[np.int64]:
    # Iceberg, 32-bit Hash Requirements: numbers and times as 8 bytes, decimals as the fewest bytes, big end first.
    if pa.types.is_decimal(values.type):
        whole = [0 if value is None else int(value.scaleb(values.type.scale)) for value in values.to_pylist()]
        return _murmur3(
            [number.to_bytes((8 + (number + (number < 0)).bit_length()) // 8, "big", signed=True) for number in whole]
        )
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _murmur3([b"" if text is None else text.encode() for text in values.to_pylist()])
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _murmur3([b"" if data is None else data for data in values.to_pylist()])
    numbers = _numbers(values)
    if isinstance(type_, PrimitiveType) and type_.name.endswith("_ns"):
        numbers = numbers // 1000  # in microseconds, rounded down
    packed = numbers.astype("<i8").tobytes()
    return _murmur3([packed[start : start + 8] for start in range(0, len(packed), 8)])


def _murmur3(values: Sequence[bytes]) -> NDArray[np.int64]:
    """MurmurHash3, x86 and 32 bits, with the seed 0.

    >>> _murmur3([b"iceberg", b""]).tolist()
    [1210000089, 0]
    """
    data = np.frombuffer(b"".join(values), np.uint8).astype(np.uint32)
    lengths = np.array([len(value) for value in values], np.int64)
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1])) if len(values) else lengths
    hashes = np.zeros(len(values), np.uint32)
    blocks = lengths // 4
    for block in range(int(blocks.max(initial=0))):
        there = np.flatnonzero(blocks > block)
        at = starts[there] + 4 * block
        word = data[at]
        for index in range(1, 4):
            word = word | data[at + index] << np.uint32(8 * index)
        hashes[there] = _rotated(hashes[there] ^ _mixed(word), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    rest = np.zeros(len(values), np.uint32)
    for index in range(3):
        there = np.flatnonzero(lengths % 4 > index)
        rest[there] |= data[starts[there] + 4 * blocks[there] + index] << np.uint32(8 * index)
    hashes ^= _mixed(rest) ^ lengths.astype(np.uint32)
    hashes = (hashes ^ hashes >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    hashes = (hashes ^ hashes >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return (hashes ^ hashes >> np.uint32(16)).astype(np.int32).astype(np.int64)


def _mixed(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return _rotated(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)


def _rotated(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return words << np.uint32(bits) | words >> np.uint32(32 - bits)
