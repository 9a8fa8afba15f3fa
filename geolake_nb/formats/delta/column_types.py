"""Which types and names the columns of a Delta table can have."""

from __future__ import annotations

import re

from geolake_nb.changes.column_types import table_columns
from geolake_nb.errors import SchemaError
from geolake_nb.model.schema import Schema, children, join_path
from geolake_nb.model.types import (
    DataType,
    Field,
    PrimitiveType,
    StringType,
)

__all__ = ["delta_columns", "require_delta_names"]

_Path = tuple[str, ...]

# Types that Delta lacks, and its types that hold them without loss.
_WIDER: dict[str, DataType] = {
    "bson": PrimitiveType("binary"),
    "enum": StringType(),
    "float16": PrimitiveType("float32"),
    "json": StringType(),
    "timestamp_int96": PrimitiveType("timestamptz"),
    "timestamp_ms": PrimitiveType("timestamp"),
    "timestamp_ns": PrimitiveType("timestamp"),
    "timestamptz_ms": PrimitiveType("timestamptz"),
    "timestamptz_ns": PrimitiveType("timestamptz"),
    "uint16": PrimitiveType("int32"),
    "uint32": PrimitiveType("int64"),
    "uint8": PrimitiveType("int16"),
    "uuid": PrimitiveType("binary"),
}
_SAME = frozenset(
    ("binary", "boolean", "date", "float32", "float64", "int16", "int32", "int64", "int8", "timestamp", "timestamptz")
)
# Delta, Column mapping: without it the names of columns are those in Parquet, where Spark rejects these.
_FORBIDDEN = " ,;{}()\n\t="
_NOT_IN_NAMES = re.compile(f"[{_FORBIDDEN}]")


def delta_columns(schema: Schema, *, where: str | None = None) -> tuple[Schema, list[str]]:
    """The columns with types that Delta has, and a sentence for each that changes; unsupported types are refused.

    Every column is nullable, as in tables that Spark creates. Geo types are left alone.

    >>> from geolake_nb.model.types import StructType
    >>> schema = Schema(StructType((Field("n", PrimitiveType("uint8"), nullable=False, id=3),)))
    >>> delta_columns(schema)
    (Schema(root=StructType(fields=(Field(name='n', type=PrimitiveType(name='int16'), ...), ["'n' is uint8, ... int16"])
    >>> delta_columns(Schema(StructType((Field("n", PrimitiveType("uint64")),))), where="/t")
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: /t: the column 'n' is of type uint64, which Delta does not have; cast it or leave ...
    """
    return table_columns(schema, format_name="Delta", same=_SAME, wider=_WIDER, where=where)


def require_delta_names(schema: Schema, *, where: str | None = None) -> None:
    """Raise for a name that a table without column mapping cannot have, and for two that differ in case alone.

    >>> from geolake_nb.model.types import StructType
    >>> require_delta_names(Schema(StructType((Field("a b", StringType()),))))
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: the name of the column 'a b' has a character of ' ,;{}()\\n\\t='; rename it
    """
    level: list[tuple[_Path, tuple[Field, ...]]] = [((), schema.fields)]
    while level:
        above, fields = level.pop()
        seen: set[str] = set()
        for field in fields:
            path = (*above, field.name)
            if not field.name or _NOT_IN_NAMES.search(field.name):
                what = f"the name of the column {join_path(path)!r} has a character of {_FORBIDDEN!r}"
                raise SchemaError(what if field.name else "a column has no name", where=where, remedy="rename it")
            if field.name.casefold() in seen:
                raise SchemaError(f"two columns have the name {join_path(path)!r}", where=where, remedy="rename one")
            seen.add(field.name.casefold())
            level.append((path, children(field.type)))
