"""Partition values, which a plan stores as Iceberg single values, in the form of Avro and manifest lists."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.errors import UnsupportedTableError
from geolake_nb.formats.havasu.avro_schemas import decimal_size
from geolake_nb.formats.iceberg.bounds import decode_single_values
from geolake_nb.formats.iceberg.partition_values import result_type
from geolake_nb.model.types import DataType, PrimitiveType, StringType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geolake_nb.formats.iceberg.metadata import PartitionField
    from geolake_nb.model.schema import Schema

__all__ = ["avro_value", "partition_summary", "transform_result"]

_COUNTED = ("date", "int32", "int64", "time", "timestamp", "timestamptz")


def transform_result(field: PartitionField, schema: Schema, *, where: str) -> DataType:
    """The type of the values of a partition field.

    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.formats.iceberg.metadata import PartitionField
    >>> transform_result(PartitionField("a", 1, "bucket[4]", 1000), Schema(), where="t")
    PrimitiveType(name='int32')
    >>> transform_result(PartitionField("a", 1, "identity", 1000), Schema(), where="t")
    Traceback (most recent call last):
    geolake_nb.errors.UnsupportedTableError: t: unknown type of the partition field 'a'
    """
    source = next((column.type for _, column in schema.walk() if column.id == field.source_id), None)
    result = result_type(field, source)
    if result is None and field.transform == "void":
        return PrimitiveType("int32")  # it is null in every row
    if not isinstance(result, (PrimitiveType, StringType)):
        raise UnsupportedTableError(f"unknown type of the partition field {field.name!r}", where=where)
    return result


def avro_value(packed: bytes | None, type_: DataType) -> Any:
    """A partition value as Avro stores it.

    >>> avro_value(b"\\x0c\\x4d\\0\\0", PrimitiveType("date")), avro_value(None, StringType())
    (19724, None)
    >>> avro_value(b"", StringType()), avro_value(b"\\x80", PrimitiveType("decimal(9, 2)")).hex()
    ('', 'ffffff80')
    """
    if packed is None:
        return None
    if isinstance(type_, PrimitiveType) and type_.name.startswith("decimal"):
        size = decimal_size(int(type_.name.partition("(")[2].partition(",")[0]))
        return (b"\xff" if packed[0] >= 0x80 else b"\x00") * (size - len(packed)) + packed
    return _value(packed, type_)


def partition_summary(values: Sequence[bytes | None], type_: DataType) -> dict[str, Any]:
    """The summary of one partition field of a manifest, for the manifest list.

    >>> partition_summary([b"b", None, b"a"], StringType())
    {'contains_null': True, 'contains_nan': None, 'lower_bound': b'a', 'upper_bound': b'b'}
    >>> early, late = ((-800_000).to_bytes(4, "little", signed=True), bytes(4))
    >>> partition_summary([late, early], PrimitiveType("date"))["lower_bound"] == early
    True
    """
    by_value = {_value(packed, type_): packed for packed in values if packed is not None}
    floating = isinstance(type_, PrimitiveType) and type_.name in ("float32", "float64")
    ordered = sorted(value for value in by_value if not (floating and math.isnan(value)))
    return {
        "contains_null": None in values,
        "contains_nan": len(ordered) < len(by_value) if floating else None,
        "lower_bound": by_value[ordered[0]] if ordered else None,
        "upper_bound": by_value[ordered[-1]] if ordered else None,
    }


def _value(packed: bytes, type_: DataType) -> Any:
    # Dates and times are numbers in Avro, in the same order: Iceberg's range exceeds that of Python.
    if isinstance(type_, PrimitiveType) and type_.name in _COUNTED:
        return int.from_bytes(packed, "little", signed=True)
    decoded = decode_single_values(pa.array([packed], pa.binary()), type_)
    return None if decoded is None else decoded[0].as_py()
