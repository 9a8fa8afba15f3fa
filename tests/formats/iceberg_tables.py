"""Writes small Iceberg tables for tests: metadata JSON and manifests in Avro, exactly as asked for, faults included.

Written from Iceberg's spec with fastavro, apart from the package under test.
"""

from __future__ import annotations

import gzip
import json
import struct
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import fastavro

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

FIRST_TIME = 1_700_000_000_000
EXISTING, ADDED, DELETED = range(3)
DATA, POSITION_DELETES, EQUALITY_DELETES = range(3)


@dataclass(frozen=True)
class FileEntry:
    """One entry of a manifest; maps are by column id."""

    path: str
    rows: int = 10
    bytes: int = 1000
    format: str = "PARQUET"
    content: int = DATA
    status: int = ADDED
    partition: Mapping[str, Any] = field(default_factory=dict)
    lower: Mapping[int, bytes] = field(default_factory=dict)
    upper: Mapping[int, bytes] = field(default_factory=dict)
    nulls: Mapping[int, int] = field(default_factory=dict)
    nans: Mapping[int, int] = field(default_factory=dict)
    geom_lower: Mapping[int, bytes] | None = None
    geom_upper: Mapping[int, bytes] | None = None
    referenced_data_file: str | None = None
    vector_bytes: int = 40
    """How long a deletion vector is, in a Puffin file after its first four bytes."""
    equality_ids: Sequence[int] | None = None
    snapshot_id: int | None = None
    sequence_number: int | None = None
    spec_id: int = 0
    """All entries of a manifest have that of its first one."""
    table: pa.Table | None = None
    """What is written as the Parquet file, if it is to be there."""


@dataclass(frozen=True)
class PartitionFieldSpec:
    name: str
    source_id: int
    transform: str
    avro_type: Any
    field_id: int = 1000

    def json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "source-id": self.source_id,
            "transform": self.transform,
            "field-id": self.field_id,
        }


def column(id_: int, name: str, type_: Any, *, required: bool = False, **more: Any) -> dict[str, Any]:
    """A field of a schema in JSON."""
    return {"id": id_, "name": name, "required": required, "type": type_, **more}


def xy(x: float, y: float, *more: float) -> bytes:
    """A geo bound: little-endian doubles."""
    return struct.pack(f"<{2 + len(more)}d", x, y, *more)


def make_iceberg_table(
    folder: Path,
    columns: Sequence[Mapping[str, Any]],
    *commits: Sequence[FileEntry],
    version: int = 2,
    location: str | None = None,
    partition: Sequence[PartitionFieldSpec] = (),
    properties: Mapping[str, str] | None = None,
    refs: Mapping[str, Mapping[str, Any]] | None = None,
    codec: str = "deflate",
    compress: bool = False,
    manifest_size: int | None = None,
    manifest_list: bool = True,
    extra_metadata: Mapping[str, Any] | None = None,
    extra_file_fields: Sequence[Mapping[str, Any]] = (),
    hint: bool = True,
) -> Path:
    """Write a table with one snapshot a commit, each adding manifests to those before; returns its metadata file.

    A file's path is relative to the table; `location` is what the metadata says, the folder itself by default.
    """
    where = location or str(folder)
    (folder / "metadata").mkdir(parents=True, exist_ok=True)
    schema = {"type": "struct", "schema-id": 0, "fields": list(columns)}
    manifests: list[dict[str, Any]] = []
    snapshots = []
    for number, commit in enumerate(commits, 1):
        snapshot_id = 1000 + number
        size = manifest_size or max(len(commit), 1)
        for kind in (False, True):
            entries = [entry for entry in commit if (entry.content != DATA) is kind]
            for start in range(0, len(entries), size):
                part = entries[start : start + size]
                name = f"metadata/{number}-{len(manifests)}-m0.avro"
                _write_manifest(
                    folder / name,
                    where=where,
                    entries=part,
                    schema=schema,
                    partition=partition,
                    version=version,
                    codec=codec,
                    snapshot_id=snapshot_id,
                    extra=extra_file_fields,
                )
                listed = _listed(
                    folder / name,
                    f"{where}/{name}",
                    part,
                    deletes=kind,
                    number=number,
                    snapshot_id=snapshot_id,
                    version=version,
                )
                manifests.append(listed)
        snapshot: dict[str, Any] = {
            "snapshot-id": snapshot_id,
            "timestamp-ms": FIRST_TIME + 1000 * number,
            "summary": {"operation": "append"},
            "schema-id": 0,
        }
        if number > 1:
            snapshot["parent-snapshot-id"] = snapshot_id - 1
        if version > 1:
            snapshot["sequence-number"] = number
        if version > 2:
            snapshot |= {"first-row-id": 0, "added-rows": sum(entry.rows for entry in commit)}
        if manifest_list:
            name = f"metadata/snap-{snapshot_id}.avro"
            _write_list(folder / name, manifests, version, codec)
            snapshot["manifest-list"] = f"{where}/{name}"
        else:
            snapshot["manifests"] = [manifest["manifest_path"] for manifest in manifests]
        snapshots.append(snapshot)
        for entry in commit:
            _write_data(folder / entry.path, entry)
    metadata = _metadata(
        where,
        schema=schema,
        partition=partition,
        version=version,
        snapshots=snapshots,
        properties=properties or {},
        refs=refs,
    )
    return write_metadata(folder, {**metadata, **(extra_metadata or {})}, compress=compress, hint=hint)


def write_metadata(
    folder: Path, metadata: Mapping[str, Any], *, number: int = 1, compress: bool = False, hint: bool = True
) -> Path:
    text = json.dumps(metadata).encode()
    path = folder / "metadata" / f"v{number}{'.gz' if compress else ''}.metadata.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text) if compress else text)
    if hint:
        (folder / "metadata" / "version-hint.text").write_text(str(number))
    return path


def _metadata(
    where: str,
    *,
    schema: Mapping[str, Any],
    partition: Sequence[PartitionFieldSpec],
    version: int,
    snapshots: list[dict[str, Any]],
    properties: Mapping[str, str],
    refs: Mapping[str, Mapping[str, Any]] | None,
) -> dict[str, Any]:
    current = snapshots[-1]["snapshot-id"] if snapshots else -1
    fields = [field.json() for field in partition]
    metadata: dict[str, Any] = {
        "format-version": version,
        "table-uuid": str(uuid.UUID(int=7)),
        "location": where,
        "last-updated-ms": FIRST_TIME,
        "last-column-id": max((field["id"] for field in schema["fields"]), default=0),
        "properties": dict(properties),
        "current-snapshot-id": current,
        "snapshots": snapshots,
        "snapshot-log": [
            {"timestamp-ms": entry["timestamp-ms"], "snapshot-id": entry["snapshot-id"]} for entry in snapshots
        ],
        "schemas": [schema],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": fields}],
        "default-spec-id": 0,
        "last-partition-id": 999 + len(fields),
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
    }
    if version == 1:
        metadata |= {"schema": schema, "partition-spec": fields}
    else:
        metadata["last-sequence-number"] = len(snapshots)
    if version > 2:
        metadata["next-row-id"] = 10_000
    if snapshots:
        metadata["refs"] = {"main": {"snapshot-id": current, "type": "branch"}, **(refs or {})}
    return metadata


def _map(id_: int, name: str, key_id: int, value_id: int, value: str) -> dict[str, Any]:
    """An optional map with integer keys, which Avro only has as an array of pairs."""
    pair = {
        "type": "record",
        "name": f"k{key_id}_v{value_id}",
        "fields": [
            {"name": "key", "type": "int", "field-id": key_id},
            {"name": "value", "type": value, "field-id": value_id},
        ],
    }
    array = {"type": "array", "items": pair, "logicalType": "map"}
    return {"name": name, "type": ["null", array], "default": None, "field-id": id_}


def _optional(id_: int, name: str, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", type_], "default": None, "field-id": id_}


HAVASU_FIELDS = (
    _map(1250, "geom_lower_bounds", 1260, 1270, "bytes"),
    _map(1280, "geom_upper_bounds", 1290, 1300, "bytes"),
)
"""Havasu, Manifests."""


def manifest_schema(
    version: int, partition: Sequence[PartitionFieldSpec] = (), extra: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """The Avro schema of a manifest entry."""
    partition_fields = [_optional(field.field_id, field.name, field.avro_type) for field in partition]
    partition_type = {"type": "record", "name": "r102", "fields": partition_fields}
    file_fields: list[Any] = [] if version == 1 else [{"name": "content", "type": "int", "field-id": 134}]
    file_fields += [
        {"name": "file_path", "type": "string", "field-id": 100},
        {"name": "file_format", "type": "string", "field-id": 101},
        {"name": "partition", "type": partition_type, "field-id": 102},
        {"name": "record_count", "type": "long", "field-id": 103},
        {"name": "file_size_in_bytes", "type": "long", "field-id": 104},
    ]
    if version == 1:
        file_fields.append({"name": "block_size_in_bytes", "type": "long", "field-id": 105})
    file_fields += [
        _map(108, "column_sizes", 117, 118, "long"),
        _map(109, "value_counts", 119, 120, "long"),
        _map(110, "null_value_counts", 121, 122, "long"),
        _map(137, "nan_value_counts", 138, 139, "long"),
        _map(125, "lower_bounds", 126, 127, "bytes"),
        _map(128, "upper_bounds", 129, 130, "bytes"),
        _optional(131, "key_metadata", "bytes"),
        _optional(132, "split_offsets", {"type": "array", "items": "long", "element-id": 133}),
    ]
    if version > 1:
        file_fields.append(_optional(135, "equality_ids", {"type": "array", "items": "int", "element-id": 136}))
    file_fields.append(_optional(140, "sort_order_id", "int"))
    if version > 2:
        file_fields.append(_optional(142, "first_row_id", "long"))
    if version > 1:
        file_fields.append(_optional(143, "referenced_data_file", "string"))
    if version > 2:
        file_fields += [_optional(144, "content_offset", "long"), _optional(145, "content_size_in_bytes", "long")]
    file_fields += list(extra)
    entry_fields: list[Any] = [{"name": "status", "type": "int", "field-id": 0}]
    if version == 1:
        entry_fields.append({"name": "snapshot_id", "type": "long", "field-id": 1})
    else:
        entry_fields += [
            _optional(1, "snapshot_id", "long"),
            _optional(3, "sequence_number", "long"),
            _optional(4, "file_sequence_number", "long"),
        ]
    data_file = {"type": "record", "name": "r2", "fields": file_fields}
    entry_fields.append({"name": "data_file", "type": data_file, "field-id": 2})
    return {"type": "record", "name": "manifest_entry", "fields": entry_fields}


def _pairs(values: Mapping[int, Any] | None) -> list[dict[str, Any]] | None:
    return None if values is None else [{"key": key, "value": value} for key, value in values.items()]


def manifest_record(entry: FileEntry, where: str, snapshot_id: int) -> dict[str, Any]:
    """An entry as fastavro writes it."""
    columns = sorted({*entry.nulls, *entry.lower, *entry.upper})
    data_file = {
        "content": entry.content,
        "file_path": entry.path if "://" in entry.path or entry.path.startswith("/") else f"{where}/{entry.path}",
        "file_format": entry.format,
        "partition": dict(entry.partition),
        "record_count": entry.rows,
        "file_size_in_bytes": entry.bytes,
        "block_size_in_bytes": 0,
        "column_sizes": _pairs(dict.fromkeys(columns, 64)),
        "value_counts": _pairs(dict.fromkeys(columns, entry.rows)),
        "null_value_counts": _pairs(entry.nulls),
        "nan_value_counts": _pairs(entry.nans),
        "lower_bounds": _pairs(entry.lower),
        "upper_bounds": _pairs(entry.upper),
        "split_offsets": [4],
        "equality_ids": entry.equality_ids,
        "referenced_data_file": entry.referenced_data_file,
        "content_offset": 4 if entry.format == "PUFFIN" else None,
        "content_size_in_bytes": entry.vector_bytes if entry.format == "PUFFIN" else None,
        "sort_order_id": 0,
        "geom_lower_bounds": _pairs(entry.geom_lower),
        "geom_upper_bounds": _pairs(entry.geom_upper),
    }
    added = entry.snapshot_id if entry.snapshot_id is not None or entry.status == ADDED else snapshot_id
    return {
        "status": entry.status,
        "snapshot_id": added,
        "sequence_number": entry.sequence_number,
        "file_sequence_number": entry.sequence_number,
        "data_file": data_file,
    }


def _write_manifest(
    path: Path,
    *,
    where: str,
    entries: Sequence[FileEntry],
    schema: Mapping[str, Any],
    partition: Sequence[PartitionFieldSpec],
    version: int,
    codec: str,
    snapshot_id: int,
    extra: Sequence[Mapping[str, Any]],
) -> None:
    records = [manifest_record(entry, where, snapshot_id) for entry in entries]
    if version == 1:
        records = [{**record, "snapshot_id": record["snapshot_id"] or snapshot_id} for record in records]
    header = {
        "schema": json.dumps(schema),
        "schema-id": "0",
        "partition-spec": json.dumps([field.json() for field in partition]),
        "partition-spec-id": str(entries[0].spec_id if entries else 0),
        "format-version": str(version),
        "content": "deletes" if entries and entries[0].content != DATA else "data",
    }
    avro = fastavro.parse_schema(manifest_schema(version, partition, extra))
    with path.open("wb") as file:
        fastavro.writer(file, avro, records, codec=codec, metadata=header)


def _listed(
    path: Path,
    stored: str,
    entries: Sequence[FileEntry],
    *,
    deletes: bool,
    number: int,
    snapshot_id: int,
    version: int,
) -> dict[str, Any]:
    counts = {
        status: [entry.rows for entry in entries if entry.status == status] for status in (EXISTING, ADDED, DELETED)
    }
    return {
        "manifest_path": stored,
        "manifest_length": path.stat().st_size,
        "partition_spec_id": entries[0].spec_id if entries else 0,
        "content": int(deletes),
        "sequence_number": number,
        "min_sequence_number": number,
        "added_snapshot_id": snapshot_id,
        "added_files_count": len(counts[ADDED]),
        "existing_files_count": len(counts[EXISTING]),
        "deleted_files_count": len(counts[DELETED]),
        "added_rows_count": sum(counts[ADDED]),
        "existing_rows_count": sum(counts[EXISTING]),
        "deleted_rows_count": sum(counts[DELETED]),
        "partitions": None,
        "key_metadata": None,
        "first_row_id": 0 if version > 2 and not deletes else None,
    }


_LIST_FIELDS: tuple[tuple[int, str, Any, int], ...] = (
    (500, "manifest_path", "string", 1),
    (501, "manifest_length", "long", 1),
    (502, "partition_spec_id", "int", 1),
    (517, "content", "int", 2),
    (515, "sequence_number", "long", 2),
    (516, "min_sequence_number", "long", 2),
    (503, "added_snapshot_id", "long", 1),
    (504, "added_files_count", "int", 1),
    (505, "existing_files_count", "int", 1),
    (506, "deleted_files_count", "int", 1),
    (512, "added_rows_count", "long", 1),
    (513, "existing_rows_count", "long", 1),
    (514, "deleted_rows_count", "long", 1),
)
_SUMMARY = {
    "type": "record",
    "name": "r508",
    "fields": [
        {"name": "contains_null", "type": "boolean", "field-id": 509},
        _optional(518, "contains_nan", "boolean"),
        _optional(510, "lower_bound", "bytes"),
        _optional(511, "upper_bound", "bytes"),
    ],
}


def _write_list(path: Path, manifests: Sequence[Mapping[str, Any]], version: int, codec: str) -> None:
    fields = [
        {"name": name, "type": type_, "field-id": id_} for id_, name, type_, since in _LIST_FIELDS if version >= since
    ]
    fields.append(_optional(507, "partitions", {"type": "array", "items": _SUMMARY, "element-id": 508}))
    fields.append(_optional(519, "key_metadata", "bytes"))
    if version > 2:
        fields.append(_optional(520, "first_row_id", "long"))
    schema = fastavro.parse_schema({"type": "record", "name": "manifest_file", "fields": fields})
    with path.open("wb") as file:
        fastavro.writer(file, schema, manifests, codec=codec, metadata={"format-version": str(version)})


def _write_data(path: Path, entry: FileEntry) -> None:
    if entry.table is None:
        return
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(entry.table, path)
