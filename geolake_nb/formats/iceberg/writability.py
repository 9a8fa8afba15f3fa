"""Whether an Iceberg table can be changed, and what a commit by Iceberg's Java API would drop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from geolake_nb.errors import RefusedError
from geolake_nb.formats.iceberg.bounds import EDGES
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from geolake_nb.formats.iceberg.avro import AvroHeader
    from geolake_nb.formats.iceberg.snapshot import IcebergDetails
    from geolake_nb.model.snapshot import Snapshot

__all__ = ["foreign_fields", "foreign_keys", "forgetting_sentences", "require_writable"]

_FORMATS = {"AVRO", "ORC", "PARQUET"}


def require_writable(snapshot: Snapshot) -> None:
    """Raise unless this is the current snapshot of a table that Iceberg's own classes can commit to."""
    details: IcebergDetails = snapshot.details
    current = details.metadata.current_snapshot_id
    if snapshot.version != current:
        raise RefusedError(
            f"the table is open at the snapshot {snapshot.version}, and its newest is {current}",
            where=snapshot.location,
            remedy="open it without a version, a branch or a tag",
        )
    if details.quoted_types:
        raise RefusedError(
            "a geo type of the schema is in PyIceberg's quoted form, which Iceberg for Java cannot read",
            where=snapshot.location,
            remedy="write the types without quotes first",
        )
    if _is_encrypted(snapshot):
        raise RefusedError("the table is encrypted", where=snapshot.location)
    formats = {str(name) for name in pc.unique(snapshot.files.table["format"]).to_pylist()} - _FORMATS
    if formats:
        what = f"data files in {', '.join(sorted(formats))[:60]}, which is not supported"
        raise RefusedError(what, where=snapshot.location)


def _is_encrypted(snapshot: Snapshot) -> bool:
    """Whether new files would need keys, or existing files have them."""
    details: IcebergDetails = snapshot.details
    if details.raw.get("encryption-keys") or snapshot.properties.get("encryption.key-id"):
        return True
    tables = (snapshot.files.table, details.delete_files)
    return any(pc.any(table["encrypted"], min_count=0).as_py() for table in tables)


def _known(names: str, **below: Any) -> dict[str, Any]:
    """Keys of an object: those whose values are not checked, and those with objects or lists of objects."""
    return {**dict.fromkeys(names.split()), **below}


_ANY = "*"
"""A placeholder for keys that users choose."""
_FIELD: dict[str, Any] = _known("id name required doc initial-default write-default")
_TYPE = _known("type schema-id identifier-field-ids element-id element-required key-id value-id value-required")
_TYPE |= {"fields": _FIELD, "element": _TYPE, "key": _TYPE, "value": _TYPE}
_FIELD["type"] = _TYPE
_PARTITION = _known("source-id source-ids field-id name transform")
_SORT = _known("source-id source-ids transform direction null-order")
_BLOB = _known("type snapshot-id sequence-number fields properties")
# Iceberg, Table Metadata and Appendix C.
_METADATA = _known(
    "format-version table-uuid location last-sequence-number last-updated-ms last-column-id current-schema-id"
    " default-spec-id last-partition-id properties current-snapshot-id default-sort-order-id next-row-id"
)
_METADATA |= {
    "schema": _TYPE,
    "schemas": _TYPE,
    "partition-spec": _PARTITION,
    "partition-specs": _known("spec-id", fields=_PARTITION),
    "sort-orders": _known("order-id", fields=_SORT),
    "snapshots": _known(
        "snapshot-id parent-snapshot-id sequence-number timestamp-ms manifest-list manifests summary schema-id"
        " first-row-id added-rows key-id"
    ),
    "snapshot-log": _known("timestamp-ms snapshot-id"),
    "metadata-log": _known("timestamp-ms metadata-file"),
    "refs": {_ANY: _known("snapshot-id type min-snapshots-to-keep max-snapshot-age-ms max-ref-age-ms")},
    "statistics": {
        **_known("snapshot-id statistics-path file-size-in-bytes file-footer-size-in-bytes key-metadata"),
        "blob-metadata": _BLOB,
    },
    "partition-statistics": _known("snapshot-id statistics-path file-size-in-bytes"),
    "encryption-keys": _known("key-id encrypted-key-metadata encrypted-by-id properties"),
}


def foreign_keys(raw: Mapping[str, Any]) -> tuple[str, ...]:
    """The paths of keys in table metadata that Iceberg does not define; properties and summaries may have any key.

    >>> foreign_keys({"format-version": 2, "x": 1, "refs": {"main": {"y": 1}}, "properties": {"z": "1"}})
    ('x', 'refs.main.y')
    """
    return tuple(dict.fromkeys(_foreign(raw, _METADATA, "")))


def _foreign(value: Any, known: Mapping[str, Any], path: str) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _foreign(item, known, path)
    elif isinstance(value, dict):
        for key, below in value.items():
            if key not in known and _ANY not in known:
                yield f"{path}{key}"
            elif (inside := known.get(key, known.get(_ANY))) is not None:
                yield from _foreign(below, inside, f"{path}{key}.")


# Iceberg, Manifests and Manifest Lists; the names are for writers that omit the ids.
_ENTRY_IDS = {0: "status", 1: "snapshot_id", 2: "data_file", 3: "sequence_number", 4: "file_sequence_number"}
_FILE_IDS = {
    100: "file_path", 101: "file_format", 102: "partition", 103: "record_count", 104: "file_size_in_bytes",
    105: "block_size_in_bytes", 106: "file_ordinal", 107: "sort_columns", 108: "column_sizes", 109: "value_counts",
    110: "null_value_counts", 111: "distinct_counts", 125: "lower_bounds", 128: "upper_bounds", 131: "key_metadata",
    132: "split_offsets", 134: "content", 135: "equality_ids", 137: "nan_value_counts", 140: "sort_order_id",
    142: "first_row_id", 143: "referenced_data_file", 144: "content_offset", 145: "content_size_in_bytes",
}  # fmt: skip
_LIST_IDS = {
    500: "manifest_path", 501: "manifest_length", 502: "partition_spec_id", 503: "added_snapshot_id",
    504: "added_files_count", 505: "existing_files_count", 506: "deleted_files_count", 507: "partitions",
    512: "added_rows_count", 513: "existing_rows_count", 514: "deleted_rows_count", 515: "sequence_number",
    516: "min_sequence_number", 517: "content", 519: "key_metadata", 520: "first_row_id",
}  # fmt: skip
_PROPERTIES = {
    "schema", "schema-id", "partition-spec", "partition-spec-id", "format-version", "content", "iceberg.schema",
    "snapshot-id", "parent-snapshot-id", "sequence-number", "first-row-id", "added-rows", "key-metadata",
    EDGES,  # without this mark more files are read, but the same rows
}  # fmt: skip


def foreign_fields(header: AvroHeader) -> tuple[str, ...]:
    """The fields of a manifest or a manifest list that Iceberg does not define, and such properties in its header.

    >>> from geolake_nb.formats.iceberg.avro import AvroHeader
    >>> fields = [{"name": "status", "type": "int", "field-id": 0}, {"name": "own", "type": "int", "field-id": 9000}]
    >>> schema = {"type": "record", "name": "manifest_entry", "fields": fields}
    >>> foreign_fields(AvroHeader(schema, {"content": b"data", "by": b"me"}, "null", b"", 0))
    ('own', 'by')
    """
    fields = _fields(header.schema)
    names = {field.get("name") for field in fields}
    is_list = _LIST_IDS[500] in names or any(field.get("field-id") == 500 for field in fields)
    names_outside = list(_outside(fields, _LIST_IDS if is_list else _ENTRY_IDS))
    for field in () if is_list else fields:
        if field.get("field-id", 2 if field.get("name") == _ENTRY_IDS[2] else None) == 2:
            names_outside += _outside(_fields(field.get("type")), _FILE_IDS)
    names_outside += [key for key in header.metadata if key not in _PROPERTIES and not key.startswith("avro.")]
    return tuple(dict.fromkeys(names_outside))


def _fields(record: Any) -> list[Any]:
    listed = record.get("fields") if isinstance(record, dict) else None
    return [field for field in listed if isinstance(field, dict)] if isinstance(listed, list) else []


def _outside(fields: list[Any], known: Mapping[int, str]) -> Iterator[str]:
    names = set(known.values())
    for field in fields:
        id_ = field.get("field-id")
        if id_ not in known if isinstance(id_, int) else field.get("name") not in names:
            yield str(field.get("name"))


_SHOWN = 8


def forgetting_sentences(snapshot: Snapshot, *, new_list: bool = True, entries: bool = False) -> Iterator[str]:
    """One sentence if something is dropped; with `entries`, manifests of files that stay may be rewritten.

    Without `new_list` the commit goes back to an existing manifest list.
    """
    details: IcebergDetails = snapshot.details
    parts = [
        *_named(foreign_keys(details.raw), "in the table metadata"),
        *(_named(details.foreign_list_fields, "in the manifest list") if new_list else ()),
        *(_named(details.foreign_entry_fields, "in manifests that it rewrites") if entries else ()),
    ]
    if parts:
        yield f"Iceberg's Java API commits, and drops fields that Iceberg does not define: {'; '.join(parts)}."


def _named(names: Sequence[str], where: str) -> Iterator[str]:
    if names:
        shown = ", ".join(printable(name, 60) for name in names[:_SHOWN])
        more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        yield f"{shown}{more} {where}"
