"""Fields, keys and properties that no specification has, put into manifests, their lists and table metadata."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
from hypothesis import strategies as st

from tests.formats.havasu_rows import metadata_of
from tests.strategies import json_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
AVRO: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("boolean", st.booleans()),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("double", st.floats(allow_nan=False)),
    ("string", TEXTS),
    ("bytes", st.binary(max_size=9)),
    ({"type": "fixed", "name": "f", "size": 3}, st.binary(min_size=3, max_size=3)),
    ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, st.sampled_from("AB")),
    ({"type": "array", "items": "int", "element-id": 8001}, st.lists(st.integers(-9, 9), max_size=3)),
    ({"type": "map", "values": "string"}, st.dictionaries(TEXTS, TEXTS, max_size=2)),
    ({"type": "record", "name": "r", "fields": [{"name": "x", "type": ["null", "long"], "field-id": 8002}]},
     st.fixed_dictionaries({"x": st.none() | st.integers(0, 9)})),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
     st.decimals(-9999, 9999, places=2, allow_nan=False, allow_infinity=False)),
    ({"type": "long", "logicalType": "timestamp-micros"}, st.datetimes(timezones=st.just(dt.UTC))),
]  # fmt: skip
PLAIN = AVRO[:5]
"""Those that Iceberg for Java reads past; others, such as `fixed`, keep it from reading the table at all."""


@st.composite
def fields_of_others(
    draw: st.DrawFn, first: int, *, types: list[Any] = AVRO
) -> list[tuple[int, dict[str, Any], st.SearchStrategy[Any]]]:
    """Fields that Iceberg has not, with where they go among the others and what they hold."""
    fields = []
    for number, index in enumerate(draw(st.lists(st.integers(0, 30), max_size=3))):
        type_, values = draw(st.sampled_from(types))
        name = f"own_{first + number}"
        if isinstance(type_, dict) and "name" in type_:
            type_ = {**type_, "name": f"{type_['name']}{first + number}"}
        if draw(st.booleans()):
            type_, values = ["null", type_], st.none() | values
        fields.append((index, {"name": name, "type": type_, "field-id": first + number, "doc": "theirs"}, values))
    return fields


def with_fields(schema: dict[str, Any], records: list[dict[str, Any]], own: list[Any], draw: Any) -> None:
    """Put the fields into a record's schema, and a value of each into the records."""
    for index, definition, values in own:
        schema["fields"].insert(index, definition)
        for record in records:
            record[definition["name"]] = draw(values)


def kept(record: dict[str, Any], owned: set[str]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in owned}


def read_avro(path: Path) -> tuple[dict[str, Any], dict[str, str], list[dict[str, Any]]]:
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        header = {key: value for key, value in reader.metadata.items() if not key.startswith("avro.")}
        return json.loads(reader.metadata["avro.schema"]), header, list(reader)


def header_of(path: Path) -> dict[str, str]:
    return read_avro(path)[1]


def write_avro(path: Path, schema: dict[str, Any], records: list[dict[str, Any]], header: dict[str, str]) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), records, metadata=header)


@dataclass(frozen=True)
class Manifest:
    """A manifest of the current snapshot, as fastavro reads it."""

    listed: dict[str, Any]
    schema: dict[str, Any]
    header: dict[str, str]
    entries: list[dict[str, Any]]

    def file_fields(self) -> list[dict[str, Any]]:
        return _of_file(self.schema)["fields"]


def manifests_of(folder: Path) -> list[Manifest]:
    metadata = metadata_of(folder)
    current = next(entry for entry in metadata["snapshots"] if entry["snapshot-id"] == metadata["current-snapshot-id"])
    return manifests_in(current["manifest-list"])


def manifests_in(path: str) -> list[Manifest]:
    """Those of a manifest list."""
    return [Manifest(listed, *read_avro(local(listed["manifest_path"]))) for listed in read_avro(local(path))[2]]


def iceberg_entries(folder: Path) -> list[dict[str, Any]]:
    """The entries of the current snapshot."""
    return [entry for manifest in manifests_of(folder) for entry in manifest.entries]


def entries_in(path: str) -> list[dict[str, Any]]:
    """The entries below a manifest list."""
    return [entry for manifest in manifests_in(path) for entry in manifest.entries]


def live_files(folder: Path) -> dict[str, dict[str, Any]]:
    """What the entry of each live file, the file in it and the header of its manifest hold of others, by path."""
    own_fields = {}
    for manifest in manifests_of(folder):
        for entry in manifest.entries:
            if entry["status"] != 2:
                own = {"by": manifest.header.get("by")} | _own(entry) | _own(entry["data_file"])
                own_fields[entry["data_file"]["file_path"]] = own
    return own_fields


def _own(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key.startswith("own_")}


def _of_file(schema: dict[str, Any]) -> Any:
    return next(field["type"] for field in schema["fields"] if field["name"] == "data_file")


def local(path: str) -> Path:
    return Path(path.removeprefix("file:"))


# Free for all by Iceberg's own rules; whatever else is not in the specification belongs to somebody else.
_FREE = ("properties", "summary")
_KEYS = st.sampled_from(["own", "Format-Version", "schema-ids", "ü", "a b", "doc.", "\U0001f600"])


def put_foreign_fields(folder: Path, draw: Callable[[Any], Any], *, types: list[Any] = AVRO) -> dict[str, list[Any]]:
    """Put fields of others into all manifests and lists of a table; the definitions by where they are."""
    own = {
        level: draw(fields_of_others(first, types=types))
        for level, first in (("entry", 9000), ("file", 9100), ("list", 9200))
    }
    for manifest in sorted((folder / "metadata").glob("*-m0.avro")):
        schema, header, entries = read_avro(manifest)
        with_fields(schema, entries, own["entry"], draw)
        with_fields(_of_file(schema), [entry["data_file"] for entry in entries], own["file"], draw)
        write_avro(manifest, schema, entries, header | {"by": draw(TEXTS)})
    for listed in sorted((folder / "metadata").glob("snap-*.avro")):
        schema, header, records = read_avro(listed)
        with_fields(schema, records, own["list"], draw)
        for record in records:
            record["manifest_length"] = local(record["manifest_path"]).stat().st_size
        write_avro(listed, schema, records, header | {"by": draw(TEXTS)})
    return own


def put_foreign_keys(folder: Path, draw: Callable[[Any], Any], **odd: Any) -> set[str]:
    """Put keys of others into objects of every kind of the metadata; their paths, but for those that all may choose."""
    (path,) = (folder / "metadata").glob("v*.metadata.json")
    metadata = json.loads(path.read_text())
    places = {
        "": metadata,
        "schemas.": metadata["schemas"][0],
        "schemas.fields.": metadata["schemas"][0]["fields"][0],
        "partition-specs.": metadata["partition-specs"][0],
        "sort-orders.": metadata["sort-orders"][0],
        "snapshots.": metadata["snapshots"][0],
        "refs.main.": metadata["refs"]["main"],
        "snapshot-log.": metadata["snapshot-log"][0],
    }
    put = set()
    spelled = []
    for level in draw(st.lists(st.sampled_from(sorted(places)), max_size=4, unique=True)):
        key = draw(_KEYS)
        places[level][key] = f"spelled {len(spelled)}"
        spelled.append(draw(json_values(2, **odd)))
        put.add(level + key)
    for free in (metadata["properties"], metadata["snapshots"][0]["summary"]):
        free.update(draw(st.dictionaries(_KEYS, TEXTS, max_size=2)))
    text = json.dumps(metadata)
    for number, value in enumerate(spelled):  # as they are written: numbers have more than one spelling
        text = text.replace(f'"spelled {number}"', value)
    path.write_text(text)
    return put


def key_paths(value: Any, path: str = "") -> Iterator[str]:
    """The path of every key, whatever element of a list it is in."""
    if isinstance(value, list):
        for item in value:
            yield from key_paths(item, path)
    elif isinstance(value, dict):
        for key, below in value.items():
            yield path + key
            if key not in _FREE:
                yield from key_paths(below, f"{path}{key}.")
