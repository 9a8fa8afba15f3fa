"""A Delta table whose every text that a person sees is given: plain texts, or those of somebody who means harm."""

from __future__ import annotations

import json
import urllib.parse
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyproj

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Names:
    """The texts of the table; all but `crs` and `folder` may be anything."""

    text: str
    """Of columns, comments, properties, files, partitions, operations and collations."""
    folder: str = "table"


def make_named(parent: Path, names: Names) -> Path:
    """The table: a string with a collation, a nested column, a geometry and a partition, in two versions."""
    text = names.text
    folder = parent / names.folder
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    definition = pyproj.CRS("OGC:CRS84").to_json_dict() | {"name": f"crs {text}"}
    inner = {"type": "struct", "fields": [_field(f"inner_{text}", "long", {"comment": text})]}
    fields = [
        _field(
            f"string_{text}", "string", {"comment": text, "__COLLATIONS": {f"string_{text}": f"icu.{_undotted(text)}"}}
        ),
        _field(f"part_{text}", "string", {}),
        _field(f"struct_{text}", inner, {}),
        _field(f"geom_{text}", "geometry(projjson:crs)", {"comment": text}),
    ]
    features = {"readerFeatures": ["geospatial"], "writerFeatures": ["geospatial", "collations"]}
    metadata = {
        "id": "t",
        "name": text,
        "description": text,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [f"part_{text}"],
        "configuration": {"crs": json.dumps(definition), f"key {text}": text},
    }
    adds = [_add(f"file {number} {text}.parquet", f"part_{text}", text, number) for number in range(2)]
    info = {"operation": f"WRITE {text}", "operationParameters": {text: text}}
    versions = [
        [{"commitInfo": info}, {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}],
        [{"commitInfo": info}, adds[1]],
    ]
    versions[0] += [{"metaData": metadata}, adds[0]]
    for version, actions in enumerate(versions):
        (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return folder


def _field(name: str, kind: object, metadata: dict) -> dict:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def _undotted(text: str) -> str:
    return text.replace(".", "_") or "none"


def _add(path: str, part: str, value: str, number: int) -> dict:
    stats = {"numRecords": 3, "nullCount": {}}
    quoted = urllib.parse.quote(path.replace("/", "|"))
    add = {
        "path": quoted,
        "partitionValues": {part: value},
        "size": 100 + number,
        "modificationTime": 1_700_000_000_000,
    }
    return {"add": {**add, "dataChange": True, "stats": json.dumps(stats)}}
