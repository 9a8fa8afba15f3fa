"""Tables whose every text that a person sees is given: plain texts, or those of somebody who means harm."""

from __future__ import annotations

import json
import urllib.parse
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pyproj

from tests.formats.iceberg_tables import FileEntry, column, make_iceberg_table, xy
from tests.formats.parquet_sets import GEO, points

if TYPE_CHECKING:
    from collections.abc import Sequence
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
    definition = _named_crs(text)
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


def make_named_iceberg(folder: Path, texts: Sequence[str]) -> Path:
    """An Iceberg table with each text as a column, a comment, a property and a file with a box; the last is a CRS."""
    columns = [column(1, "id", "long"), column(2, "geom", "geometry(projjson:crs)", doc=texts[-1])]
    columns += [column(10 + number, f"column {text}", "string", doc=text) for number, text in enumerate(texts)]
    files = [
        FileEntry(f"file {number} {text}", lower={2: xy(number * 10 - 150, 0)}, upper={2: xy(number * 10 - 142, 40)})
        for number, text in enumerate(texts)
    ]
    properties = {"crs": json.dumps(_named_crs(texts[-1])), **{f"key {text}": text for text in texts}}
    make_iceberg_table(folder, columns, files, version=3, properties=properties)
    return folder


def make_named_parquet(folder: Path, texts: Sequence[str]) -> Path:
    """Parquet files, each with the name, a column and a CRS of one of the texts, which may be no path."""
    folder.mkdir()
    for number, text in enumerate(texts):
        geo = {**GEO, "columns": {"geom": {**GEO["columns"]["geom"], "crs": _named_crs(texts[0])}}}
        rows = points(number * 3, 3)
        for name in texts:
            rows = rows.append_column(f"column {name}", rows["id"])
        path = folder / f"file {number} {text.replace('/', '|')}.parquet"
        pq.write_table(rows.replace_schema_metadata({"geo": json.dumps(geo), f"key {text}": text}), path)
    return folder


def _named_crs(text: str) -> dict:
    return pyproj.CRS("OGC:CRS84").to_json_dict() | {"name": f"crs {text}"}


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
