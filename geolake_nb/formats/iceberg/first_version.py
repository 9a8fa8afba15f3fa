"""The first version of an Iceberg table of format version 3, as files: metadata, manifest list, manifests and hint.

No JVM writes them: a journal has to be able to create them again, and the entries of another table keep their numbers.
"""

from __future__ import annotations

import base64
import json
import uuid
from typing import TYPE_CHECKING, Any

from geolake_nb.formats.havasu.manifest_writing import ManifestList, Numbers, new_manifest
from geolake_nb.formats.havasu.metadata import FIRST_METADATA, with_snapshot
from geolake_nb.formats.havasu.snapshot_writing import snapshot_summary
from geolake_nb.formats.iceberg.bounds import EDGES, edge_mark
from geolake_nb.formats.iceberg.manifests import Status
from geolake_nb.formats.iceberg.metadata import FIRST_PARTITION_ID, TRANSACTION, read_metadata
from geolake_nb.model.schema import children
from geolake_nb.model.types import GeographyType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from geolake_nb.formats.havasu.manifest_writing import ListedManifest
    from geolake_nb.formats.iceberg.metadata import TableMetadata
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.types import Field

__all__ = [
    "HINT",
    "VERB",
    "FirstVersion",
    "added_manifests",
    "name_mapping_text",
    "new_metadata",
]

VERB = "geolake.verb"
"""The key in the summary of a snapshot that has the kind of a change."""
HINT = "metadata/version-hint.text"
_FILES_A_MANIFEST = 10_000
_MAPS = ("column-sizes", "value-counts", "null-value-counts", "nan-value-counts")
_BOUNDS = ("lower-bounds", "upper-bounds")


def new_metadata(
    schema: Mapping[str, Any], *, version: int, last_column_id: int, fields: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The metadata of a table without snapshots; its id, location and time come with the commit.

    `fields` are those of its partition spec.

    Version 1 has its schema and its partition fields alone too.

    >>> made = new_metadata({"type": "struct", "fields": []}, version=3, last_column_id=0, fields=[])
    >>> made["format-version"], made["last-partition-id"]
    (3, 999)
    """
    numbers: dict[str, Any] = {"last-sequence-number": 0} if version > 1 else {}
    if version == 1:
        numbers = {"schema": dict(schema), "partition-spec": list(fields)}
    if version > 2:
        numbers["next-row-id"] = 0
    return {
        "format-version": version,
        **numbers,
        "last-column-id": last_column_id,
        "schemas": [dict(schema)],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": list(fields)}],
        "default-spec-id": 0,
        "last-partition-id": FIRST_PARTITION_ID + len(fields) - 1,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {},
        "current-snapshot-id": -1,
        "refs": {},
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
    }


def name_mapping_text(schema: Schema) -> str:
    """The property `schema.name-mapping.default`: which column of files without ids has which id.

    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.types import Field, PrimitiveType, StructType
    >>> name_mapping_text(Schema(StructType((Field("a", PrimitiveType("int32"), id=7),))))
    '[{"field-id":7,"names":["a"]}]'
    """
    return json.dumps(_mapped(schema.fields), separators=(",", ":"), ensure_ascii=False)


def _mapped(fields: Iterable[Field]) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for field in fields:
        entry: dict[str, Any] = {"field-id": field.id, "names": [field.name]}
        inside = _mapped(children(field.type))
        entries.append(entry | {"fields": inside} if inside else entry)
    return entries


def added_manifests(
    adds: Sequence[Mapping[str, Any]], table: TableMetadata, *, snapshot_id: int
) -> list[ListedManifest]:
    """The manifests of files that are added; each is an `add` of a change of an Iceberg table."""
    root, schema = table.location.rstrip("/"), table.schema()
    files = [_file(add, root) for add in adds]
    return [
        new_manifest(
            files[start : start + _FILES_A_MANIFEST], table, table.default_spec_id, schema, snapshot_id=snapshot_id
        )
        for start in range(0, len(files), _FILES_A_MANIFEST)
    ]


def _file(add: Mapping[str, Any], root: str) -> dict[str, Any]:
    """The file as `new_manifest` takes it."""
    file: dict[str, Any] = {
        "path": f"{root}/{add['path']}",
        "partition": add["partition"],
        "record_count": add["record-count"],
        "file_size_in_bytes": add["file-size-in-bytes"],
        "split_offsets": add.get("split-offsets") or None,
    }
    for name in _MAPS:
        file[name.replace("-", "_")] = add.get(name, {})
    for name in _BOUNDS:
        packed = {id_: base64.b64encode(bytes.fromhex(text)).decode() for id_, text in add.get(name, {}).items()}
        file[name.replace("-", "_")] = packed
    return file


class FirstVersion:
    """The first version of a table; the same transaction makes the same one."""

    def __init__(self, metadata: Mapping[str, Any], *, location: str, transaction: str, moment: int) -> None:
        """`moment` is the time in milliseconds since 1970."""
        self.snapshot_id = self.id_of(transaction)
        self._transaction = transaction
        self._moment = moment
        self._raw = {
            **metadata,
            "table-uuid": str(uuid.uuid5(uuid.NAMESPACE_OID, transaction)),
            "location": location,
            "last-updated-ms": moment,
        }
        self.table = read_metadata(self._text().encode(), where=location)
        """The table without a snapshot."""

    @staticmethod
    def id_of(transaction: str) -> int:
        """The id of the snapshot.

        >>> FirstVersion.id_of("a") == FirstVersion.id_of("a") < 2**63
        True
        """
        return (uuid.uuid5(uuid.NAMESPACE_OID, f"{transaction}/snapshot").int >> 65) | 1

    def _text(self) -> str:
        return json.dumps(self._raw, separators=(",", ":"), ensure_ascii=False)

    def files(
        self,
        manifests: Sequence[ListedManifest],
        *,
        verb: str,
        deletes: Mapping[str, int] | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> dict[str, bytes]:
        """The bytes of each file by its path: those that the metadata file names, itself, and the hint.

        `manifests` of delete files come after those of data files. `deletes` are the counts of the former.
        """
        root = self.table.location.rstrip("/")
        number = int(self._raw["last-sequence-number"]) + 1
        numbers = Numbers(self.snapshot_id, number)
        listing = ManifestList.of((), self.table.format_version, snapshot_id=self.snapshot_id)
        files: dict[str, bytes] = {}
        records = []
        first = following = int(self._raw["next-row-id"])
        for index, manifest in enumerate(manifests):
            path = f"metadata/{self._transaction}-m{index}.avro"
            files[path] = manifest.data
            record = listing.listed(manifest, f"{root}/{path}", numbers=numbers)
            if not manifest.values[517]:
                # Iceberg, First Row ID Assignment: existing rows of an upgraded table count too.
                record["first_row_id"] = following
                following += manifest.rows.get(Status.ADDED, 0) + manifest.rows.get(Status.EXISTING, 0)
            records.append(record)
        path = f"metadata/snap-{self.snapshot_id}-1-{self._transaction}.avro"
        files[path] = listing.packed(records, numbers=numbers, parent_id=None, first_row_id=first)
        data = [manifest for manifest in manifests if not manifest.values[517]]
        snapshot = {
            "sequence-number": number,
            "snapshot-id": self.snapshot_id,
            "timestamp-ms": self._moment,
            "summary": {
                "operation": "append",
                **snapshot_summary(data, {}, first=True),
                **_totals(data, deletes or {}),
                **(summary or {}),
                **self._edges(),
                TRANSACTION: self._transaction,
                VERB: verb,
            },
            "manifest-list": f"{root}/{path}",
            "schema-id": self.table.current_schema_id,
            "first-row-id": first,
            "added-rows": following - first,
        }
        self._raw["next-row-id"] = following
        files[FIRST_METADATA] = with_snapshot(self._text(), snapshot, before=None).encode()
        files[HINT] = b"1"
        return files

    def _edges(self) -> dict[str, str]:
        """The mark that the bounds of geographies contain the edges."""
        ids = [
            field.id
            for _, field in self.table.schema().geo_columns()
            if isinstance(field.type, GeographyType) and field.id is not None
        ]
        return {EDGES: edge_mark(ids)} if ids else {}


def _totals(manifests: Sequence[ListedManifest], deletes: Mapping[str, int]) -> dict[str, str]:
    """The totals with existing files, which are those of another table."""

    def total(counts: Iterable[Mapping[Status, int]]) -> str:
        return str(sum(some.get(Status.ADDED, 0) + some.get(Status.EXISTING, 0) for some in counts))

    return {
        "total-data-files": total(manifest.files for manifest in manifests),
        "total-records": total(manifest.rows for manifest in manifests),
        "total-files-size": total(manifest.bytes for manifest in manifests),
        **{name: str(count) for name, count in deletes.items()},
    }
