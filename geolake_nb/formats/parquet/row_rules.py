"""What a schema demands of the values of new rows, also where files could hold others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.core.schema import children, join_path
from geolake_nb.core.types import ListType, MapType, StructType
from geolake_nb.errors import SchemaError
from geolake_nb.formats.delta.writability import CHAR_VARCHAR, VARCHAR
from geolake_nb.formats.parquet.file_columns import descend

if TYPE_CHECKING:
    from geolake_nb.core.schema import Schema
    from geolake_nb.core.types import Field

__all__ = ["bound_columns", "require_rules"]


def bound_columns(schema: Schema) -> tuple[Field, ...]:
    """The top-level columns that do not take every value of their type.

    >>> from geolake_nb.core.schema import Schema
    >>> from geolake_nb.core.types import Field, PrimitiveType
    >>> free, bound = (Field(name, PrimitiveType("int64"), nullable=name == "a") for name in "ab")
    >>> [one.name for one in bound_columns(Schema(StructType((free, bound))))]
    ['b']
    """
    return tuple(one for one in schema.fields if _is_bound(one))


def require_rules(array: pa.Array, field: Field, parts: tuple[str, ...] = (), *, null_structs: bool = True) -> None:
    """Raise SchemaError for a null where the schema allows none, and for a text longer than its VARCHAR.

    `null_structs` says whether a struct may be null that has fields which may not: Spark refuses it in Delta tables.

    >>> from geolake_nb.core.types import Field, PrimitiveType
    >>> tags = Field("tags", ListType(Field("element", PrimitiveType("int64"), nullable=False)))
    >>> require_rules(pa.array([[1], None, []]), tags)
    >>> require_rules(pa.array([[1, None]]), tags)
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: tags.element: the column may not be null and 1 values are
    """
    here = (*parts, field.name)
    if not field.nullable and array.null_count:
        raise SchemaError(f"the column may not be null and {array.null_count} values are", where=join_path(here))
    limit = VARCHAR.fullmatch(str(field.metadata.get(CHAR_VARCHAR, "")))
    if limit is not None and not pa.types.is_null(array.type):
        longest = pc.max(pc.utf8_length(array)).as_py()
        if longest is not None and longest > int(limit[1]):
            raise SchemaError(
                f"a text of {longest} characters is too long for {limit[0]}", where=join_path(here), remedy="shorten it"
            )
    type_ = field.type
    if pa.types.is_null(array.type):
        return
    if isinstance(type_, StructType):
        held = array.filter(array.is_valid()) if null_structs and array.null_count else array
        columns = held.flatten()
        names = [array.type.field(index).name for index in range(array.type.num_fields)]
        for one in type_.fields:
            if _is_bound(one) and one.name in names:
                require_rules(columns[names.index(one.name)], one, here, null_structs=null_structs)
    elif isinstance(type_, (ListType, MapType)):
        for one in children(type_):
            if _is_bound(one):
                require_rules(descend(array, type_, (one.name,)), one, here)


def _is_bound(field: Field) -> bool:
    declared = CHAR_VARCHAR in field.metadata
    return declared or not field.nullable or any(_is_bound(one) for one in children(field.type))
