"""Which types the columns of a new Iceberg table have, and their ids."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from geolake_nb.changes.column_types import table_columns
from geolake_nb.model.types import ListType, MapType, PrimitiveType, StringType, StructType

if TYPE_CHECKING:
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.types import DataType, Field

__all__ = ["iceberg_columns", "with_fresh_ids"]

_BINARY = PrimitiveType("binary")
_INT, _LONG = PrimitiveType("int32"), PrimitiveType("int64")
# Types of all Iceberg versions that Spark has too, and those that hold other types without loss.
_SAME = frozenset(("binary", "boolean", "date", "float32", "float64", "int32", "int64", "timestamp", "timestamptz"))
_WIDER: dict[str, DataType] = {
    "bson": _BINARY,
    "enum": StringType(),
    "float16": PrimitiveType("float32"),
    "int16": _INT,
    "int8": _INT,
    "json": StringType(),
    "timestamp_int96": PrimitiveType("timestamptz"),
    "timestamp_ms": PrimitiveType("timestamp"),
    "timestamp_ns": PrimitiveType("timestamp"),
    "timestamptz_ms": PrimitiveType("timestamptz"),
    "timestamptz_ns": PrimitiveType("timestamptz"),
    "uint16": _INT,
    "uint32": _LONG,
    "uint8": _INT,
    "uuid": _BINARY,
}


def iceberg_columns(
    schema: Schema, *, format_name: str = "Iceberg", where: str | None = None
) -> tuple[Schema, list[str]]:
    """The columns with types that Iceberg has, and a sentence for each that changes."""
    return table_columns(schema, format_name=format_name, same=_SAME, wider=_WIDER, where=where)


def with_fresh_ids(schema: Schema) -> Schema:
    """The schema with fresh ids as Iceberg assigns them: those of columns first, then those inside them."""
    number = 0

    def following() -> int:
        nonlocal number
        number += 1
        return number

    def fields(some: tuple[Field, ...]) -> tuple[Field, ...]:
        marked = [replace(field, id=following()) for field in some]
        return tuple([replace(field, type=inside(field.type)) for field in marked])

    def inside(type_: DataType) -> DataType:
        if isinstance(type_, StructType):
            return StructType(fields(type_.fields))
        if isinstance(type_, ListType):
            return ListType(fields((type_.element,))[0])
        if isinstance(type_, MapType):
            key, value = fields((type_.key, type_.value))
            return MapType(key, value)
        return type_

    return replace(schema, root=StructType(fields(schema.fields)), schema_id=0)
