"""Constraints of a schema on the values of new rows, which the file format does not enforce."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import SchemaError
from geolake_nb.formats.delta.writability import CHAR_VARCHAR, VARCHAR
from geolake_nb.model.schema import children, join_path
from geolake_nb.model.types import ListType, MapType, StructType
from geolake_nb.parquet.file_columns import descend

if TYPE_CHECKING:
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.types import Field

__all__ = ["bound_columns", "require_rules"]


def bound_columns(schema: Schema) -> tuple[Field, ...]:
    """The top-level columns that do not allow every value of their type.

    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.types import Field, PrimitiveType
    >>> free, bound = (Field(name, PrimitiveType("int64"), nullable=name == "a") for name in "ab")
    >>> [field.name for field in bound_columns(Schema(StructType((free, bound))))]
    ['b']
    """
    return tuple(field for field in schema.fields if _is_bound(field))


def require_rules(array: pa.Array, field: Field, parts: tuple[str, ...] = (), *, null_structs: bool = True) -> None:
    """Raise SchemaError for a null where the schema allows none, and for a string longer than its VARCHAR.

    `null_structs` is whether a struct with non-nullable fields may be null: Spark refuses it in Delta tables.

    >>> from geolake_nb.model.types import Field, PrimitiveType
    >>> tags = Field("tags", ListType(Field("element", PrimitiveType("int64"), nullable=False)))
    >>> require_rules(pa.array([[1], None, []]), tags)
    >>> require_rules(pa.array([[1, None]]), tags)
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: tags.element: the column is not nullable and has 1 nulls
    """
    here = (*parts, field.name)
    if not field.nullable and array.null_count:
        raise SchemaError(f"the column is not nullable and has {array.null_count} nulls", where=join_path(here))
    limit = VARCHAR.fullmatch(str(field.metadata.get(CHAR_VARCHAR, "")))
    if limit is not None and not pa.types.is_null(array.type):
        longest = pc.max(pc.utf8_length(array)).as_py()
        if longest is not None and longest > int(limit[1]):
            raise SchemaError(
                f"a string of {longest} characters is too long for {limit[0]}",
                where=join_path(here),
                remedy="shorten it",
            )
    type_ = field.type
    if pa.types.is_null(array.type):
        return
    if isinstance(type_, StructType):
        structs = array.filter(array.is_valid()) if null_structs and array.null_count else array
        columns = structs.flatten()
        names = [array.type.field(index).name for index in range(array.type.num_fields)]
        for child in type_.fields:
            if _is_bound(child) and child.name in names:
                require_rules(columns[names.index(child.name)], child, here, null_structs=null_structs)
    elif isinstance(type_, (ListType, MapType)):
        for child in children(type_):
            if _is_bound(child):
                require_rules(descend(array, type_, (child.name,)), child, here)


def _is_bound(field: Field) -> bool:
    declared = CHAR_VARCHAR in field.metadata
    return declared or not field.nullable or any(_is_bound(child) for child in children(field.type))
