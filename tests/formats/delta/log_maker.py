"""Writes Delta logs by hand, one rule at a time."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from geolake_nb.formats.delta import open_delta
from geolake_nb.storage.storage import Storage

if TYPE_CHECKING:
    from pathlib import Path

MAP = pa.map_(pa.string(), pa.string())
VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
ADD = [
    ("path", pa.string()),
    ("partitionValues", MAP),
    ("size", pa.int64()),
    ("modificationTime", pa.int64()),
    ("dataChange", pa.bool_()),
    ("stats", pa.string()),
    ("deletionVector", VECTOR),
]
METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", MAP)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", MAP),
        ("createdTime", pa.int64()),
    ]
)
PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(pa.string())),
        ("writerFeatures", pa.list_(pa.string())),
    ]
)
SIDECAR = pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())])
TXN = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])


def field(name: str, type_: Any, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata}


def schema_string(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "struct", "fields": list(fields)})


def metadata(*fields: dict[str, Any], partitions: tuple[str, ...] = (), **configuration: str) -> dict[str, Any]:
    return {
        "metaData": {
            "id": "made-by-hand",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema_string(*(fields or (field("id", "long"),))),
            "partitionColumns": list(partitions),
            "configuration": configuration,
            "createdTime": 0,
        }
    }


def protocol(*features: str, reader: tuple[str, ...] | None = None) -> dict[str, Any]:
    if not features and reader is None:
        return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    return {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": list(features if reader is None else reader),
            "writerFeatures": list(features),
        }
    }


def add(path: str, stats: Any = None, *, partition: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    action: dict[str, Any] = {
        "path": path,
        "partitionValues": partition or {},
        "size": 10,
        "modificationTime": 1000,
        "dataChange": True,
    }
    if stats is not None:
        action["stats"] = stats if isinstance(stats, str) else json.dumps(stats)
    return {"add": action | more}


def remove(path: str, **more: Any) -> dict[str, Any]:
    return {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True} | more}


def vector(cardinality: int, *, name: str = "ab^-aqEH.-t@S}K{vb[*k^", offset: int | None = 1) -> dict[str, Any]:
    descriptor = {"storageType": "u", "pathOrInlineDv": name, "sizeInBytes": 36, "cardinality": cardinality}
    return descriptor if offset is None else descriptor | {"offset": offset}


class LogMaker:
    """A table in a folder, whose log is written file by file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "_delta_log"
        self.log.mkdir(parents=True, exist_ok=True)

    def commit(self, version: int, *actions: dict[str, Any], seconds: float | None = None) -> LogMaker:
        return self.write(f"{version:020}.json", actions, seconds)

    def compacted(self, first: int, last: int, *actions: dict[str, Any]) -> LogMaker:
        return self.write(f"{first:020}.{last:020}.compacted.json", actions)

    def write(self, name: str, actions: Any, seconds: float | None = None) -> LogMaker:
        path = self.log / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(action) + "\n" for action in actions))
        if seconds is not None:
            os.utime(path, (seconds, seconds))
        return self

    def checkpoint(self, version: int, *actions: dict[str, Any], name: str | None = None) -> LogMaker:
        write_checkpoint(self.log / (name or f"{version:020}.checkpoint.parquet"), actions)
        return self

    def hint(self, text: str) -> LogMaker:
        (self.log / "_last_checkpoint").write_text(text)
        return self

    @property
    def storage(self) -> Storage:
        return Storage.at(str(self.folder))

    def open(self, **options: Any) -> Any:
        return open_delta(self.storage, **options)

    def paths(self, **options: Any) -> list[str]:
        return sorted(self.open(**options).files.table["path"].to_pylist())


def write_checkpoint(
    path: Path, actions: Any, parsed: pa.DataType | None = None, *, stats: bool = True, own: Any = ()
) -> None:
    """A Parquet file of these actions, one a row, with `stats_parsed` of that type and with or without `stats`.

    `own` are more columns of `add`.
    """
    add_type = [*(field for field in ADD if stats or field[0] != "stats"), *own]
    if parsed is not None:
        add_type.append(("stats_parsed", parsed))
    types = {
        "add": pa.struct(add_type),
        "metaData": METADATA,
        "protocol": PROTOCOL,
        "sidecar": SIDECAR,
        "txn": TXN,
        "domainMetadata": pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
        "checkpointMetadata": pa.struct([("version", pa.int64())]),
    }
    path.parent.mkdir(exist_ok=True)
    columns = {
        name: pa.array([_with_pairs(action.get(name)) for action in actions], type_) for name, type_ in types.items()
    }
    pq.write_table(pa.table(columns), path)


def _with_pairs(action: Any) -> Any:
    """Maps as Arrow wants them."""
    if not isinstance(action, dict):
        return action
    maps = {"partitionValues", "configuration", "options"}
    return {
        key: list(value.items()) if key in maps and isinstance(value, dict) else _with_pairs(value)
        for key, value in action.items()
    }
