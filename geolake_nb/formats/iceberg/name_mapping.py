"""Field ids for data files that have none: by the table's name mapping, or by the names of its only schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.errors import CorruptTableError, SchemaError
from geolake_nb.model.schema import children
from geolake_nb.text.untrusted_json import load_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import Field

__all__ = ["FIELD_ID", "NameMapping", "name_mapping", "with_field_ids"]

FIELD_ID = b"PARQUET:field_id"
_PROPERTY = "schema.name-mapping.default"
_DEEPEST = 100

NameMapping = Mapping[str, tuple[int | None, Any]]
"""The id of each field and the mapping of its children, by name."""


def name_mapping(snapshot: Snapshot) -> NameMapping | None:
    """How columns are identified in files without ids; `None` if their names may have been those of other columns."""
    text = snapshot.properties.get(_PROPERTY)
    if text is not None:
        where = f"{snapshot.location}, property {_PROPERTY}"
        try:
            return _read(load_json(text, what="the name mapping"), 0)
        except (SchemaError, ValueError, KeyError, TypeError, AttributeError):
            raise CorruptTableError("the name mapping cannot be read", where=where) from None
    if len(snapshot.details.metadata.schemas) > 1:
        return None
    return _of_fields(snapshot.schema.fields)


def with_field_ids(schema: pa.Schema, mapping: NameMapping) -> pa.Schema:
    """The schema of a file with the ids that the mapping has for its columns.

    >>> with_field_ids(pa.schema([("a", pa.int32()), ("b", pa.int32())]), {"a": (7, {})}).field("a").metadata
    {b'PARQUET:field_id': b'7'}
    """
    return pa.schema([_field(field, mapping) for field in schema])


def _read(listed: Any, depth: int) -> dict[str, tuple[int | None, Any]]:
    if depth > _DEEPEST:
        raise ValueError("too deep")
    mapping: dict[str, tuple[int | None, Any]] = {}
    for entry in listed:
        id_ = entry.get("field-id")
        inside = _read(entry.get("fields") or [], depth + 1)
        mapping |= {str(name): (None if id_ is None else int(id_), inside) for name in entry["names"]}
    return mapping


def _of_fields(fields: Iterable[Field]) -> dict[str, tuple[int | None, Any]]:
    return {field.name: (field.id, _of_fields(children(field.type))) for field in fields}


def _field(field: pa.Field, mapping: NameMapping, name: str | None = None) -> pa.Field:
    id_, inside = mapping.get(field.name if name is None else name, (None, {}))
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_field(kind.field(index), inside) for index in range(kind.num_fields)])
    elif pa.types.is_list(kind):
        kind = pa.list_(_field(kind.value_field, inside, "element"))
    elif pa.types.is_map(kind):
        kind = pa.map_(_field(kind.key_field, inside, "key"), _field(kind.item_field, inside, "value"))
    metadata = None if id_ is None else {FIELD_ID: str(id_).encode()}
    return pa.field(field.name, kind, field.nullable, metadata)
