"""A log with some files of a table in which shapes are plain bytes, so that any engine can read their rows.

Spark 4.2 opens tables with two CRSs and one edge algorithm only, and takes shapes apart when it reads them. Through
such a log it reads the same files with everything else that Delta has: deletion vectors, column mapping, widened types.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from geolake_nb.core.json_splice import edited, member
from geolake_nb.core.untrusted_json import load_json
from geolake_nb.errors import CorruptTableError
from geolake_nb.formats.delta.deletion_vectors import vector_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from geolake_nb.formats.snapshot import Snapshot

__all__ = ["plain_log", "plain_schema"]

# What changes how rows are read; nothing else of a table matters here. A feature that is not used does no harm.
_FEATURES = ["columnMapping", "deletionVectors", "timestampNtz", "typeWidening"]
_PROPERTIES = ("delta.columnMapping.mode", "delta.columnMapping.maxColumnId")
_FIELD_KEYS = ("delta.columnMapping.", "delta.typeChanges")
_GEO = ("geometry", "geography")


def plain_log(snapshot: Snapshot, adds: Iterable[str], *, root: str) -> Iterator[str]:
    """The lines of a log with these files; `adds` are the objects inside their actions, `root` is the table's URL."""
    details = snapshot.details
    yield _line(
        "protocol",
        {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": _FEATURES, "writerFeatures": _FEATURES},
    )
    held: Mapping[str, str] = details.metadata.configuration
    yield _line(
        "metaData",
        {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": plain_schema(details.metadata.schema_string, where=snapshot.location),
            "partitionColumns": list(details.metadata.partition_columns),
            "configuration": {name: held[name] for name in _PROPERTIES if name in held},
            "createdTime": 0,
        },
    )
    for add in adds:
        yield f'{{"add":{_absolute(add, root.rstrip("/"), snapshot.location)}}}'


def plain_schema(text: str, *, where: str | None = None) -> str:
    """The schema with bytes for shapes, and of the fields' metadata only what tells how to read them.

    >>> field = '{"name":"g","type":"geometry(OGC:CRS84)","nullable":true,"metadata":{"comment":"x"}}'
    >>> plain_schema('{"type":"struct","fields":[' + field + "]}")
    '{"type": "struct", "fields": [{"name": "g", "type": "binary", "nullable": true, "metadata": {}}]}'
    """
    return json.dumps(_plain(load_json(text, what="the schema", where=where, error=CorruptTableError)))


def _plain(node: Any) -> Any:
    if isinstance(node, str):
        return "binary" if node.startswith(_GEO) else node
    if not isinstance(node, dict):
        return node
    plain = dict(node)
    for key in ("type", "elementType", "keyType", "valueType"):
        if key in plain:
            plain[key] = _plain(plain[key])
    if isinstance(plain.get("fields"), list):
        plain["fields"] = [_plain(field) for field in plain["fields"]]
    if isinstance(plain.get("metadata"), dict):
        plain["metadata"] = {key: value for key, value in plain["metadata"].items() if key.startswith(_FIELD_KEYS)}
    return plain


def _absolute(add: str, root: str, where: str) -> str:
    """The object with paths that hold anywhere, and without statistics."""
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
        place = vector_file(vector)
        if place is None:
            raise CorruptTableError(f"the deletion vector of {path[:200]!r} has no id", where=where)
        changes["deletionVector", "storageType"] = '"p"'
        changes["deletionVector", "pathOrInlineDv"] = json.dumps(f"{root}/{quote(place)}", ensure_ascii=False)
    return edited(add, changes)


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or ":" in path.split("/", 1)[0]


def _line(kind: str, value: Mapping[str, Any]) -> str:
    return json.dumps({kind: value}, ensure_ascii=False, separators=(",", ":"))
