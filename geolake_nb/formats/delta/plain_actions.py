"""The actions of a table whose geometries are binary columns, so that any engine can read the rows of its files.

Spark 4.2 opens tables with two CRSs and one edge algorithm only, and parses geometries when it reads them. With these
actions it reads the same files with all other features of Delta: deletion vectors, column mapping, widened types.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from geolake_nb.errors import CorruptTableError
from geolake_nb.formats.delta.log_actions import vector_file
from geolake_nb.text.json_text import edited, load_json, member

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.model.snapshot import Snapshot

__all__ = ["plain_add", "plain_metadata", "plain_protocol", "plain_schema"]

# The properties that change how rows are read; no others matter here. A feature that is not used does no harm.
_FEATURES = ["columnMapping", "deletionVectors", "timestampNtz", "typeWidening"]
_PROPERTIES = ("delta.columnMapping.mode", "delta.columnMapping.maxColumnId")
_FIELD_KEYS = ("delta.columnMapping.", "delta.typeChanges")
_NULLABLE = ("nullable", "containsNull", "valueContainsNull")
_GEO = ("geometry", "geography")


def plain_protocol() -> str:
    """The object inside the `protocol` action."""
    return json.dumps(
        {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": _FEATURES, "writerFeatures": _FEATURES}
    )


def plain_metadata(snapshot: Snapshot) -> str:
    """The object inside the `metaData` action: the columns, and the properties that affect how to read them."""
    metadata = snapshot.details.metadata
    properties: Mapping[str, str] = metadata.configuration
    return json.dumps(
        {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": plain_schema(metadata.schema_string, where=snapshot.location),
            "partitionColumns": list(metadata.partition_columns),
            "configuration": {name: properties[name] for name in _PROPERTIES if name in properties},
            "createdTime": 0,
        },
        ensure_ascii=False,
    )


def plain_schema(text: str, *, where: str | None = None) -> str:
    """The schema with binary columns for geometries, and only the field metadata that affects how to read them.

    All fields are nullable: Spark reads a null as 0 where the schema declares the field not null.

    >>> field = '{"name":"g","type":"geometry(OGC:CRS84)","nullable":false,"metadata":{"comment":"x"}}'
    >>> plain_schema('{"type":"struct","fields":[' + field + "]}")
    '{"type": "struct", "fields": [{"name": "g", "type": "binary", "nullable": true, "metadata": {}}]}'
    """
    return json.dumps(_plain(load_json(text, what="the schema", where=where, error=CorruptTableError)))


def _plain(node: Any) -> Any:
    if isinstance(node, str):
        return "binary" if node.startswith(_GEO) else node
    if not isinstance(node, dict):
        return node
    plain: dict[str, Any] = {key: True if key in _NULLABLE else value for key, value in node.items()}
    for key in ("type", "elementType", "keyType", "valueType"):
        if key in plain:
            plain[key] = _plain(plain[key])
    if isinstance(plain.get("fields"), list):
        plain["fields"] = [_plain(field) for field in plain["fields"]]
    if isinstance(plain.get("metadata"), dict):
        plain["metadata"] = {key: value for key, value in plain["metadata"].items() if key.startswith(_FIELD_KEYS)}
    return plain


def plain_add(add: str, *, root: str, where: str) -> str:
    """The object inside an `add` with absolute paths and without statistics; `root` is the table's URL."""
    root = root.rstrip("/")
    path = json.loads(member(add, ("path",)) or '""')
    changes: dict[tuple[str, ...], str | None] = {
        ("path",): json.dumps(path if _is_absolute(path) else f"{root}/{path}", ensure_ascii=False),
        ("dataChange",): "false",
        ("stats",): None,
        ("tags",): None,
        ("clusteringProvider",): None,
    }
    vector = json.loads(member(add, ("deletionVector",)) or "null")
    if isinstance(vector, dict) and vector.get("storageType") == "u":
        location = vector_file(vector)
        if location is None:
            raise CorruptTableError(f"the deletion vector of {path[:200]!r} has no id", where=where)
        changes["deletionVector", "storageType"] = '"p"'
        changes["deletionVector", "pathOrInlineDv"] = json.dumps(f"{root}/{quote(location)}", ensure_ascii=False)
    return edited(add, changes)


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or ":" in path.split("/", 1)[0]
