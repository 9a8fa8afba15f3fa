"""Manifests of an Iceberg table with other bounds of some files, everything else as it was."""

from __future__ import annotations

import io
import json
import struct
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.core.types import GeographyType
from geolake_nb.errors import CorruptTableError, UnsupportedTableError
from geolake_nb.formats.havasu.avro_schemas import names_by_id
from geolake_nb.formats.havasu.manifest_writing import Numbers, rewritten_manifest
from geolake_nb.formats.iceberg.manifests import MANIFEST_SCHEMA, ManifestReader, Status
from geolake_nb.formats.iceberg.partition_values import PREFIX, PartitionColumns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.formats.havasu.manifest_writing import ListedManifest
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage
    from geolake_nb.spark.iceberg_jvm import JvmTable

    _Restated = Mapping[str, Mapping[str, Any]]

__all__ = ["Manifests", "content_file", "restate_manifests"]

_KEPT = ("path", "bytes", "spec_id", "sequence_number", "added_snapshot", "first_row_id", "sort_order_id")
_MAGIC = b"\xc2\x01"
"""How `ManifestFiles.encode` begins: then the length of an Avro schema, the schema, and the record."""


@dataclass(slots=True)
class Manifests:
    """Manifests that are written and not yet part of the table."""

    io: Any
    paths: list[str] = field(default_factory=list)

    def clean_up(self) -> None:
        """Remove them: a commit that is known to have failed needs them no more."""
        for path in self.paths:
            self.io.deleteFile(path)


def restate_manifests(
    found: JvmTable, storage: Storage, snapshot: Snapshot, wanted: _Restated, update: Any
) -> Manifests:
    """Have `update`, a `RewriteManifests`, put manifests with the wanted bounds in place of those with the files.

    `wanted` has by path a `restate` of a change: by field id two bounds in hexadecimal digits, or `None` to take them
    away. The entries are written here, with every field that they have: one by one through the JVM takes a hundred
    times as long.
    """
    return _Restating(found, storage, snapshot, wanted).replace(update)


class _Restating:
    """Manifests that get other bounds."""

    def __init__(self, found: JvmTable, storage: Storage, snapshot: Snapshot, wanted: _Restated) -> None:
        self._found = found
        self._storage = storage
        self._snapshot = snapshot
        self._wanted = wanted
        numbers = snapshot.files.table["manifest"].to_numpy()
        order = np.argsort(numbers, kind="stable")
        paths: list[str] = snapshot.details.manifests["path"].to_pylist()
        ends = np.searchsorted(numbers[order], np.arange(len(paths) + 1))
        self._rows = {path: order[ends[place] : ends[place + 1]] for place, path in enumerate(paths)}
        """The rows of the file table by their manifest."""

    def replace(self, update: Any) -> Manifests:
        table = self._found.table
        made = Manifests(table.io())
        for manifest in table.currentSnapshot().dataManifests(made.io):
            path = str(manifest.path())
            before = self._snapshot.files.table.take(pa.array(self._rows[path]))
            if not any(one in self._wanted for one in before["path"].to_pylist()):
                continue
            if manifest.keyMetadata() is not None:
                raise UnsupportedTableError("the manifest is encrypted", where=path)
            new = self._rewritten(manifest, before)
            place = str(table.operations().metadataFileLocation(f"{uuid.uuid4()}-m0.avro"))
            made.paths.append(place)
            self._write(made.io.newOutputFile(place), new.data)
            self._require_same(before, manifest.partitionSpecId(), place, len(new.data))
            update.deleteManifest(manifest).addManifest(self._listed(manifest, new, place))
        return made

    def _rewritten(self, manifest: Any, before: pa.Table) -> ListedManifest:
        """The manifest with all its live files as existing ones with their own numbers."""
        path = str(manifest.path())
        return rewritten_manifest(
            self._storage.read(self._found.paths.key(path)),
            inherits=Numbers(manifest.snapshotId(), manifest.sequenceNumber()),
            version=int(self._found.metadata.formatVersion()),
            snapshot_id=-1,  # of entries that are deleted, and none is
            removed=(),
            restated=self._wanted,
            where=path,
            first_rows=dict(zip(before["path"].to_pylist(), before["first_row_id"].to_pylist(), strict=True)),
            edges=self._edges(before),
        )

    def _edges(self, before: pa.Table) -> list[int]:
        """The geographies whose bounds in all these files hold the edges, now that the wanted ones are stated."""
        paths: list[str] = before["path"].to_pylist()
        found: list[int] = []
        for name, one in self._snapshot.schema.geo_columns():
            if not isinstance(one.type, GeographyType) or one.id is None:
                continue
            # Others may have put files here since the plan: what nobody vouches for has a problem.
            doubtful = pc.is_valid(before[f"{name}.problem"]).to_pylist()
            stated = (str(one.id) in self._wanted.get(path, {}).get("bounds", {}) for path in paths)
            if all(new or not doubt for new, doubt in zip(stated, doubtful, strict=True)):
                found.append(one.id)
        return found

    def _write(self, output: Any, data: bytes) -> None:
        stream = output.create()
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()

    def _listed(self, manifest: Any, new: ListedManifest, place: str) -> Any:
        """The new manifest as Iceberg lists it: as the one before, but for its place, counts and numbers."""
        import fastavro

        codec = self._found.core.ManifestFiles
        schema, data = _unpacked(bytes(codec.encode(manifest)))
        record: Any = fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(schema), None)
        names = names_by_id(schema)
        for one in schema["fields"]:
            if one["name"] == names[503] and isinstance(one["type"], str):
                one["type"] = ["null", one["type"]]  # the commit will know it
        counts = new.files.get(Status.EXISTING, 0), new.rows.get(Status.EXISTING, 0)
        values = {500: place, 501: len(new.data), 503: None, 515: -1, 516: new.values[516], 520: None}
        values |= {504: 0, 512: 0, 505: counts[0], 513: counts[1], 506: 0, 514: 0}
        record |= {names[id_]: value for id_, value in values.items()}
        return codec.decode(bytearray(_packed(schema, record)))

    def _require_same(self, before: pa.Table, spec_id: int, place: str, size: int) -> None:
        """Raise unless the new manifest, read back, has the files, numbers and partitions of the old one."""
        listed: dict[str, Any] = dict.fromkeys(MANIFEST_SCHEMA.names)
        listed |= {"path": place, "bytes": size, "spec_id": spec_id, "is_deletes": False, "first_row_id": 0}
        manifests = pa.Table.from_pylist([listed], MANIFEST_SCHEMA)
        partitions = PartitionColumns(self._snapshot.details.specs, self._snapshot.schema)
        reader = ManifestReader(self._storage, self._found.paths, manifests, partitions)
        written = reader.files(deletes=False, wanted=(), bounds=())
        if pc.add(before["rows"], before["deleted_rows"]).to_pylist() != written["rows"].to_pylist():
            raise _differs("rows", place)
        for name in (*_KEPT, *(one for one in before.column_names if one.startswith(PREFIX))):
            # Rows have no ids yet in a table that was of version 2 until now.
            unnumbered = name == "first_row_id" and before[name].null_count == len(before)
            if not unnumbered and before[name].to_pylist() != written[name].to_pylist():
                raise _differs(name, place)


def _differs(name: str, place: str) -> CorruptTableError:
    return CorruptTableError(f"the manifest that was written differs from the one before in {name}", where=place)


def _unpacked(data: bytes) -> tuple[Any, bytes]:
    """The schema and the record of what `ManifestFiles.encode` made.

    >>> _unpacked(_packed({"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}, {"a": 1}))[1]
    b'\\x02'
    """
    (size,) = struct.unpack_from(">H", data, len(_MAGIC))
    start = len(_MAGIC) + 2
    if not data.startswith(_MAGIC):
        raise ValueError("Iceberg encodes a manifest in a way that is not known")
    return json.loads(data[start : start + size]), data[start + size :]


def _packed(schema: Any, record: Mapping[str, Any]) -> bytes:
    """What `ManifestFiles.decode` takes."""
    import fastavro

    text = json.dumps(schema, separators=(",", ":")).encode()
    out = io.BytesIO()
    out.write(_MAGIC + struct.pack(">H", len(text)) + text)
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return out.getvalue()


def content_file(found: JvmTable, text: str) -> Any:
    """The `DataFile` of its JSON."""
    node = found.core.util.JsonUtil.mapper().readTree(text)
    return found.core.ContentFileParser.fromJson(node, found.table.specs())
