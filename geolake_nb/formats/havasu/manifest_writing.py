"""New manifests, manifests rewritten without some entries or with other bounds, and manifest lists."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.errors import UnsupportedTableError
from geolake_nb.formats.havasu.avro import (
    avro_name,
    data_file_of,
    decimal_size,
    entry_schema,
    list_schema,
    names_by_id,
    partition_avro,
    read_records,
    with_entry_fields,
    with_list_fields,
    without_geo_bounds,
    write_container,
)
from geolake_nb.formats.iceberg.avro import read_header
from geolake_nb.formats.iceberg.bounds import EDGES, decode_single_values, edge_mark
from geolake_nb.formats.iceberg.manifests import Status
from geolake_nb.formats.iceberg.partitions import result_type
from geolake_nb.model.types import DataType, PrimitiveType, StringType

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping, Sequence

    from geolake_nb.formats.iceberg.metadata import PartitionField, TableMetadata
    from geolake_nb.model.schema import Schema

__all__ = [
    "ListedManifest",
    "ManifestList",
    "Numbers",
    "avro_value",
    "new_manifest",
    "partition_summary",
    "rewritten_manifest",
    "transform_result",
]

_COUNTED = ("date", "int32", "int64", "time", "timestamp", "timestamptz")


def transform_result(field: PartitionField, schema: Schema, *, where: str) -> DataType:
    """The type of the values of a partition field.

    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.formats.iceberg.metadata import PartitionField
    >>> transform_result(PartitionField("a", 1, "bucket[4]", 1000), Schema(), where="t")
    PrimitiveType(name='int32')
    >>> transform_result(PartitionField("a", 1, "identity", 1000), Schema(), where="t")
    Traceback (most recent call last):
    geolake_nb.errors.UnsupportedTableError: t: unknown type of the partition field 'a'
    """
    source = next((column.type for _, column in schema.walk() if column.id == field.source_id), None)
    result = result_type(field, source)
    if result is None and field.transform == "void":
        return PrimitiveType("int32")  # it is null in every row
    if not isinstance(result, (PrimitiveType, StringType)):
        raise UnsupportedTableError(f"unknown type of the partition field {field.name!r}", where=where)
    return result


def avro_value(packed: bytes | None, type_: DataType) -> Any:
    """A partition value as Avro stores it.

    >>> avro_value(b"\\x0c\\x4d\\0\\0", PrimitiveType("date")), avro_value(None, StringType())
    (19724, None)
    >>> avro_value(b"", StringType()), avro_value(b"\\x80", PrimitiveType("decimal(9, 2)")).hex()
    ('', 'ffffff80')
    """
    if packed is None:
        return None
    if isinstance(type_, PrimitiveType) and type_.name.startswith("decimal"):
        size = decimal_size(int(type_.name.partition("(")[2].partition(",")[0]))
        return (b"\xff" if packed[0] >= 0x80 else b"\x00") * (size - len(packed)) + packed
    return _value(packed, type_)


def partition_summary(values: Sequence[bytes | None], type_: DataType) -> dict[str, Any]:
    """The summary of one partition field of a manifest, for the manifest list.

    >>> partition_summary([b"b", None, b"a"], StringType())
    {'contains_null': True, 'contains_nan': None, 'lower_bound': b'a', 'upper_bound': b'b'}
    >>> early, late = ((-800_000).to_bytes(4, "little", signed=True), bytes(4))
    >>> partition_summary([late, early], PrimitiveType("date"))["lower_bound"] == early
    True
    """
    by_value = {_value(packed, type_): packed for packed in values if packed is not None}
    floating = isinstance(type_, PrimitiveType) and type_.name in ("float32", "float64")
    ordered = sorted(value for value in by_value if not (floating and math.isnan(value)))
    return {
        "contains_null": None in values,
        "contains_nan": len(ordered) < len(by_value) if floating else None,
        "lower_bound": by_value[ordered[0]] if ordered else None,
        "upper_bound": by_value[ordered[-1]] if ordered else None,
    }


def _value(packed: bytes, type_: DataType) -> Any:
    # Dates and times are numbers in Avro, in the same order: Iceberg's range exceeds that of Python.
    if isinstance(type_, PrimitiveType) and type_.name in _COUNTED:
        return int.from_bytes(packed, "little", signed=True)
    decoded = decode_single_values(pa.array([packed], pa.binary()), type_)
    return None if decoded is None else decoded[0].as_py()


_ENTRY = {0: "status", 1: "snapshot_id", 3: "sequence_number", 4: "file_sequence_number", 2: "data_file"}
_MAPS = {
    "value_counts": 109,
    "null_value_counts": 110,
    "nan_value_counts": 137,
    "lower_bounds": 125,
    "upper_bounds": 128,
    "geom_lower_bounds": 1250,
    "geom_upper_bounds": 1280,
}
_BYTES = ("lower_bounds", "upper_bounds", "geom_lower_bounds", "geom_upper_bounds")
_PATH, _ROWS, _SIZE = 100, 103, 104
_LIST_ADDED, _LIST_EXISTING, _LIST_DELETED = (504, 512), (505, 513), (506, 514)


@dataclass(frozen=True, slots=True)
class Numbers:
    """What entries inherit from the snapshot that added their manifest."""

    snapshot_id: int | None
    sequence_number: int


@dataclass(frozen=True, slots=True, eq=False)
class ListedManifest:
    """A written manifest with its entry in the manifest list; values by the field ids of the list."""

    data: bytes
    values: Mapping[int, Any]
    files: Mapping[Status, int]
    rows: Mapping[Status, int]
    bytes: Mapping[Status, int]


def new_manifest(
    files: Sequence[Mapping[str, Any]], table: TableMetadata, spec_id: int, schema: Schema, *, snapshot_id: int
) -> ListedManifest:
    """A manifest of files that are added; each is an `add` of a change, with paths as stored in the table."""
    version, spec = table.format_version, table.specs[spec_id]
    types = [transform_result(field, schema, where=table.where) for field in spec.fields]
    avro = [(field, partition_avro(type_, where=table.where)) for field, type_ in zip(spec.fields, types, strict=True)]
    records = []
    tuples: list[list[bytes | None]] = []
    for file in files:
        tuples.append([_unpacked(file["partition"].get(str(field.field_id))) for field in spec.fields])
        values = [avro_value(packed, type_) for packed, type_ in zip(tuples[-1], types, strict=True)]
        data_file = {
            "content": 0,
            "file_path": file["path"],
            "file_format": "PARQUET",
            "partition": {avro_name(field.name): value for field, value in zip(spec.fields, values, strict=True)},
            "record_count": file["record_count"],
            "file_size_in_bytes": file["file_size_in_bytes"],
            "block_size_in_bytes": 64 * 1024 * 1024,
            # Not used for planning, but some readers require them.
            "column_sizes": _pairs(file.get("column_sizes", {}), "column_sizes"),
            "split_offsets": file.get("split_offsets"),
            "sort_order_id": 0,
            **{name: _pairs(file.get(name), name) for name in _MAPS},
        }
        records.append({"status": Status.ADDED.value, "snapshot_id": snapshot_id, "data_file": data_file})
    metadata = {
        "schema": _dumped(table.schemas[table.current_schema_id]),
        "schema-id": str(table.current_schema_id).encode(),
        "partition-spec": _dumped(
            [
                {"name": part.name, "source-id": part.source_id, "transform": part.transform, "field-id": part.field_id}
                for part in spec.fields
            ]
        ),
        "partition-spec-id": str(spec_id).encode(),
        "format-version": str(version).encode(),
        "content": b"data",
    }
    data = write_container(entry_schema(version, avro), metadata, records)
    rows = sum(file["record_count"] for file in files)
    size = sum(file["file_size_in_bytes"] for file in files)
    values_by_id = {
        502: spec_id,
        517: 0,
        507: [partition_summary([tuple_[index] for tuple_ in tuples], type_) for index, type_ in enumerate(types)],
    }
    counts = {Status.ADDED: len(files)}
    return ListedManifest(data, values_by_id, counts, {Status.ADDED: rows}, {Status.ADDED: size})


def rewritten_manifest(
    data: bytes,
    *,
    inherits: Numbers,
    version: int,
    snapshot_id: int,
    removed: Container[str],
    updated: Mapping[str, Mapping[str, Any]],
    where: str,
    first_rows: Mapping[str, int | None] | None = None,
    edges: Collection[int] = (),
    header: Mapping[str, bytes] | None = None,
) -> ListedManifest:
    """The manifest with the live entries as existing, some of them deleted and some with other bounds.

    Sequence numbers stay; inherited ones are written explicitly, as are the ids of `first_rows` that version 3
    has; unknown fields stay, but for Havasu's bounds in version 3. `edges` are the ids of geographies whose bounds in
    all entries cover the edges. `header` has properties that replace those of the manifest.
    """
    bounds = (125, 128) if version > 2 else (1250, 1280)
    stored, records = read_records(data, where=where)
    plain = without_geo_bounds(stored.schema) if version > 2 else stored.schema
    schema = with_entry_fields(plain, version, where=where)
    top = names_by_id(schema)
    fields = names_by_id(data_file_of(schema))
    kept: list[dict[str, Any]] = []
    tallies: dict[Status, list[int]] = {}
    least: int | None = None
    for record in records:
        status = Status(record[top[0]])
        if status is Status.DELETED:
            continue  # already reported by the snapshot that deleted it
        file = record[top[2]]
        path = file[fields[_PATH]]
        number = record.get(top.get(3, ""))
        number = inherits.sequence_number if number is None else number
        now = Status.DELETED if path in removed else Status.EXISTING
        record[top[0]] = now.value
        added_by = record.get(top[1])
        record[top[1]] = (
            snapshot_id if now is Status.DELETED else added_by if added_by is not None else inherits.snapshot_id
        )
        if version > 1:
            record[top[3]] = number
            if record.get(top[4]) is None:
                record[top[4]] = inherits.sequence_number
            if file.get(fields[134]) is None:
                file[fields[134]] = 0
        if first_rows is not None:
            file[fields[142]] = first_rows[path]
        for id_ in bounds:
            file.setdefault(fields[id_], None)
        if now is Status.EXISTING:
            least = number if least is None else min(least, number)
            if path in updated:
                _update_bounds(file, [fields[id_] for id_ in bounds], updated[path])
        tally = tallies.setdefault(now, [0, 0, 0])
        for index, amount in enumerate((1, file[fields[_ROWS]], file[fields[_SIZE]])):
            tally[index] += amount
        kept.append(record)
    metadata = {**stored.metadata, **(header or {}), "format-version": str(version).encode()}
    metadata.pop(EDGES, None)
    if edges:
        metadata[EDGES] = edge_mark(edges).encode()
    values = {} if least is None else {516: least}
    files, rows, sizes = ({status: tally[index] for status, tally in tallies.items()} for index in range(3))
    return ListedManifest(write_container(schema, metadata, kept), values, files, rows, sizes)


def _update_bounds(file: dict[str, Any], names: Sequence[str], wanted: Mapping[str, Any]) -> None:
    """Set or remove the bounds of columns; other bounds and statistics stay."""
    for index, name in enumerate(names):
        bounds = {pair["key"]: pair["value"] for pair in file.get(name) or ()}
        for column, bound in wanted["bounds"].items():
            if bound is None:
                bounds.pop(int(column), None)
            else:
                bounds[int(column)] = bytes.fromhex(bound[index])
        file[name] = [{"key": key, "value": value} for key, value in bounds.items()]


class ManifestList:
    """The manifests of a snapshot with all fields of the manifest list."""

    def __init__(self, schema: Any, records: list[dict[str, Any]], metadata: Mapping[str, bytes], version: int) -> None:
        self._schema = with_list_fields(schema, version)
        self._names = names_by_id(self._schema)
        self._metadata = metadata
        self._version = version
        self.records = records
        for record in records:
            for id_ in (517, 515, 516) if version > 1 else ():
                if record.get(self._names[id_]) is None:
                    record[self._names[id_]] = 0

    @classmethod
    def read(cls, data: bytes, version: int, *, where: str) -> ManifestList:
        """The list in the bytes of its file."""
        header, records = read_records(data, where=where)
        return cls(header.schema, records, header.metadata, version)

    @classmethod
    def of(cls, manifests: Iterable[tuple[str, bytes]], version: int, *, snapshot_id: int) -> ManifestList:
        """A list of manifests that a version 1 snapshot lists inline, possibly none: paths and bytes."""
        made = cls(list_schema(version), [], {}, version)
        for path, data in manifests:
            spec = read_header(data, where=path).metadata.get("partition-spec-id", b"0")
            values = {500: path, 501: len(data), 502: int(spec) if spec.isdigit() else 0, 503: snapshot_id}
            made.records.append({made._names[id_]: value for id_, value in values.items()})
        return made

    def value(self, record: Mapping[str, Any], id_: int) -> Any:
        """A value of a record by the id of its field."""
        return record.get(self._names.get(id_, ""))

    def has_files(self, record: Mapping[str, Any]) -> bool:
        """Whether the manifest may have live entries."""
        counts = [self.value(record, id_) for id_ in (_LIST_ADDED[0], _LIST_EXISTING[0])]
        return any(count is None or count > 0 for count in counts)

    def numbers(self, record: Mapping[str, Any]) -> Numbers:
        """What the entries of a manifest inherit."""
        if self.value(record, 519) is not None:
            raise UnsupportedTableError("the manifest is encrypted", where=self.value(record, 500))
        return Numbers(self.value(record, 503), self.value(record, 515) or 0)

    def listed(
        self, manifest: ListedManifest, path: str, *, numbers: Numbers, before: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The record of a manifest that a snapshot adds; `before` is that of the one it replaces."""
        values = {
            **manifest.values,
            500: path,
            501: len(manifest.data),
            503: numbers.snapshot_id,
            515: numbers.sequence_number,
            516: manifest.values.get(516, numbers.sequence_number),
        }
        kinds = (Status.ADDED, Status.EXISTING, Status.DELETED)
        for status, (files, rows) in zip(kinds, (_LIST_ADDED, _LIST_EXISTING, _LIST_DELETED), strict=True):
            values |= {files: manifest.files.get(status, 0), rows: manifest.rows.get(status, 0)}
        record = dict(before or {})
        return record | {self._names[id_]: value for id_, value in values.items() if id_ in self._names}

    def packed(
        self,
        records: Sequence[Mapping[str, Any]],
        *,
        numbers: Numbers,
        parent_id: int | None,
        first_row_id: int | None = None,
    ) -> bytes:
        """The bytes of a manifest list of these records; version 3 has the first row id of the snapshot."""
        metadata = {
            **self._metadata,
            "snapshot-id": str(numbers.snapshot_id).encode(),
            "parent-snapshot-id": b"null" if parent_id is None else str(parent_id).encode(),
            "format-version": str(self._version).encode(),
        }
        if self._version > 1:
            metadata["sequence-number"] = str(numbers.sequence_number).encode()
        if first_row_id is not None:
            metadata["first-row-id"] = str(first_row_id).encode()
        return write_container(_with_gaps(self._schema, records), metadata, records)


def _with_gaps(schema: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The schema with null allowed for additional fields that new records have no value for.

    >>> own = {"name": "own", "type": "long", "field-id": 9000}
    >>> _with_gaps({"type": "record", "name": "r", "fields": [own]}, [{"own": 1}, {}])["fields"][0]["type"]
    ['null', 'long']
    """
    fields = []
    for field in schema["fields"]:
        type_, name = field["type"], field["name"]
        branches = type_ if isinstance(type_, list) else [type_]
        if "default" not in field and "null" not in branches and any(name not in record for record in records):
            fields.append({**field, "type": ["null", *branches], "default": None})
        else:
            fields.append(field)
    return {**schema, "fields": fields}


def _pairs(values: Mapping[str, Any] | None, name: str) -> list[dict[str, Any]] | None:
    if values is None:
        return None
    return [
        {"key": int(key), "value": base64.b64decode(value) if name in _BYTES else value}
        for key, value in values.items()
    ]


def _unpacked(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _dumped(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
