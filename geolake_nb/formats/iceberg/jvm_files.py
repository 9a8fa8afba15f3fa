"""Data files and manifests of an Iceberg table as its Java classes have them."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import io
import json
import math
import struct
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import ConflictError, CorruptTableError, UnsupportedTableError
from geolake_nb.formats.havasu.avro import names_by_id
from geolake_nb.formats.havasu.manifest_writing import Numbers, rewritten_manifest
from geolake_nb.formats.iceberg.manifests import MANIFEST_SCHEMA, ManifestReader, Status
from geolake_nb.formats.iceberg.partitions import PREFIX, PartitionColumns
from geolake_nb.model.file_table import physical_rows
from geolake_nb.model.types import GeographyType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from geolake_nb.formats.havasu.manifest_writing import ListedManifest
    from geolake_nb.formats.iceberg.jvm_table import JvmTable
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.storage.storage import Storage

    _Updates = Mapping[str, Mapping[str, Any]]

__all__ = ["Manifests", "NewFiles", "content_file", "live_files", "update_manifests"]

_EPOCH = dt.datetime(1970, 1, 1)
_EASY_SECONDS = 86_400
_MAPS = ("column-sizes", "value-counts", "null-value-counts", "nan-value-counts", "lower-bounds", "upper-bounds")


class NewFiles:
    """Makes a `DataFile` of each action that adds one."""

    def __init__(self, opened: JvmTable, table: Any = None) -> None:
        """`table` is the one of a transaction that makes it."""
        self._core = opened.core
        self._jvm = opened.jvm
        self._table = opened.table if table is None else table
        self._root = str(self._table.location()).rstrip("/")
        self._partitions: dict[str, Any] = {}

    def made(self, actions: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
        """The files, in order."""
        mapper, parser, specs = self._core.util.JsonUtil.mapper(), self._core.ContentFileParser, self._table.specs()
        for action in actions:
            yield parser.fromJson(mapper.readTree(json.dumps(self._content(action))), specs)

    def _content(self, action: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON that Iceberg's own parser takes."""
        file: dict[str, Any] = {
            "spec-id": action["spec-id"],
            "content": "DATA",
            "file-path": f"{self._root}/{action['path']}",
            "file-format": "PARQUET",
            "partition": self._partition(action["spec-id"], action["partition"]),
            "file-size-in-bytes": action["file-size-in-bytes"],
            "record-count": action["record-count"],
        }
        for name in _MAPS:
            metrics = action.get(name) or {}
            values = [value.upper() if isinstance(value, str) else value for value in metrics.values()]
            file[name] = {"keys": [int(key) for key in metrics], "values": values}
        if action.get("split-offsets"):
            file["split-offsets"] = action["split-offsets"]
        return file

    def _partition(self, spec_id: int, values: Mapping[str, str | None]) -> list[Any]:
        """The values of a partition as JSON; there are few, and many files in each."""
        key = json.dumps([spec_id, values])
        if key not in self._partitions:
            fields = self._table.specs().get(spec_id).partitionType().fields()
            self._partitions[key] = [self._json(field, values.get(str(field.fieldId()))) for field in fields]
        return list(self._partitions[key])

    def _json(self, field: Any, packed: str | None) -> Any:
        if packed is None:
            return None
        value = _json_number(str(field.type()), base64.b64decode(packed))
        if value is not None:
            return value
        buffer = self._jvm.java.nio.ByteBuffer.wrap(bytearray(base64.b64decode(packed)))
        # The value stays in the JVM: what py4j would make of it is not what Iceberg accepts.
        read = self._core.types.Conversions
        literal = self._jvm.java.util.ArrayList()
        literal.add(read.fromByteBuffer(field.type(), buffer))
        return json.loads(self._core.SingleValueParser.toJson(field.type(), literal.get(0)))


def _json_number(type_: str, packed: bytes) -> Any:
    """The JSON of a value that py4j would give back as a number of another size; `None` for all others.

    >>> _json_number("long", struct.pack("<q", 5)), _json_number("float", struct.pack("<f", 0.5))
    (5, 0.5)
    >>> _json_number("timestamptz", struct.pack("<q", -1)), _json_number("timestamp_ns", struct.pack("<q", 1))
    ('1969-12-31T23:59:59.999999+00:00', '1970-01-01T00:00:00.000000001')
    >>> _json_number("time", struct.pack("<q", 1_000_000)), _json_number("string", b"5") is None
    ('00:00:01.000000', True)
    """
    if type_ in ("float", "double"):
        (value,) = struct.unpack("<f" if type_ == "float" else "<d", packed)
        return value if math.isfinite(value) else None
    if type_ == "long":
        return struct.unpack("<q", packed)[0]
    if not type_.startswith("time"):
        return None
    (count,) = struct.unpack("<q", packed)
    digits = 9 if type_.endswith("_ns") else 6
    seconds, rest = divmod(count, 10**digits)
    if abs(seconds) > _EASY_SECONDS:
        return None  # py4j takes it for a long number, which it is
    moment = f"{_EPOCH + dt.timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}.{rest:0{digits}}"
    return moment.partition("T")[2] if type_ == "time" else f"{moment}{'+00:00' if 'tz' in type_ else ''}"


def live_files(opened: JvmTable, snapshot: Any, paths: set[str], *, where: str) -> Iterator[Any]:
    """The `DataFile` of each path in a snapshot."""
    table, core = opened.table, opened.core
    left = set(paths)
    for manifest in snapshot.dataManifests(table.io()):
        if not left:
            return
        reader = core.ManifestFiles.read(manifest, table.io(), table.specs())
        try:
            entries = reader.iterator()
            while entries.hasNext():
                file = entries.next()
                if str(file.location()) in left:
                    left.discard(str(file.location()))
                    yield file.copy()
        finally:
            reader.close()
    if left:
        what = f"the file {min(left)!r} is not in the snapshot of the plan"
        raise ConflictError(what, where=where, remedy="plan again")


_KEPT = ("path", "bytes", "spec_id", "sequence_number", "added_snapshot", "first_row_id", "sort_order_id")
_MAGIC = b"\xc2\x01"
"""How `ManifestFiles.encode` begins: then the length of an Avro schema, the schema, and the record."""


@dataclass(slots=True)
class Manifests:
    """Manifests that are written and not yet part of the table."""

    io: Any
    paths: list[str] = dataclasses.field(default_factory=list)

    def clean_up(self) -> None:
        """Remove them: a failed commit does not need them."""
        for path in self.paths:
            self.io.deleteFile(path)


def update_manifests(
    opened: JvmTable, storage: Storage, snapshot: Snapshot, wanted: _Updates, update: Any
) -> Manifests:
    """Have `update`, a `RewriteManifests`, put manifests with the wanted bounds in place of those with the files.

    `wanted` has by path an `update_bounds` of a change: by field id two bounds as hex digits, or `None` to remove
    them. The entries are written here, with every field that they have: one by one through the JVM takes a hundred
    times as long.
    """
    return _ManifestUpdate(opened, storage, snapshot, wanted).replace(update)


class _ManifestUpdate:
    """Manifests that get other bounds."""

    def __init__(self, opened: JvmTable, storage: Storage, snapshot: Snapshot, wanted: _Updates) -> None:
        self._opened = opened
        self._storage = storage
        self._snapshot = snapshot
        self._wanted = wanted
        numbers = snapshot.files.table["manifest"].to_numpy()
        order = np.argsort(numbers, kind="stable")
        paths: list[str] = snapshot.details.manifests["path"].to_pylist()
        ends = np.searchsorted(numbers[order], np.arange(len(paths) + 1))
        self._rows = {path: order[ends[index] : ends[index + 1]] for index, path in enumerate(paths)}
        """The rows of the file table by their manifest."""

    def replace(self, update: Any) -> Manifests:
        table = self._opened.table
        made = Manifests(table.io())
        for manifest in table.currentSnapshot().dataManifests(made.io):
            path = str(manifest.path())
            before = self._snapshot.files.table.take(pa.array(self._rows[path]))
            if not any(listed in self._wanted for listed in before["path"].to_pylist()):
                continue
            if manifest.keyMetadata() is not None:
                raise UnsupportedTableError("the manifest is encrypted", where=path)
            new = self._rewritten(manifest, before)
            location = str(table.operations().metadataFileLocation(f"{uuid.uuid4()}-m0.avro"))
            made.paths.append(location)
            self._write(made.io.newOutputFile(location), new.data)
            self._require_same(before, manifest.partitionSpecId(), location, len(new.data))
            update.deleteManifest(manifest).addManifest(self._listed(manifest, new, location))
        return made

    def _rewritten(self, manifest: Any, before: pa.Table) -> ListedManifest:
        """The manifest with all its live files as existing ones with their own numbers."""
        path = str(manifest.path())
        return rewritten_manifest(
            self._storage.read(self._opened.paths.key(path)),
            inherits=Numbers(manifest.snapshotId(), manifest.sequenceNumber()),
            version=int(self._opened.metadata.formatVersion()),
            snapshot_id=-1,  # of entries that are deleted, and none is
            removed=(),
            updated=self._wanted,
            where=path,
            first_rows=dict(zip(before["path"].to_pylist(), before["first_row_id"].to_pylist(), strict=True)),
            edges=self._edges(before),
        )

    def _edges(self, before: pa.Table) -> list[int]:
        """The geographies whose bounds in all these files contain the edges, with the wanted updates."""
        paths: list[str] = before["path"].to_pylist()
        ids: list[int] = []
        for name, field in self._snapshot.schema.geo_columns():
            if not isinstance(field.type, GeographyType) or field.id is None:
                continue
            # Others may have put files here since the plan: their bounds are not verified.
            doubtful = pc.is_valid(before[f"{name}.problem"]).to_pylist()
            stated = (str(field.id) in self._wanted.get(path, {}).get("bounds", {}) for path in paths)
            if all(new or not doubt for new, doubt in zip(stated, doubtful, strict=True)):
                ids.append(field.id)
        return ids

    def _write(self, output: Any, data: bytes) -> None:
        stream = output.create()
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()

    def _listed(self, manifest: Any, new: ListedManifest, location: str) -> Any:
        """The new manifest as Iceberg lists it: as the original, but for its location, counts and numbers."""
        import fastavro

        codec = self._opened.core.ManifestFiles
        schema, data = _unpacked(bytes(codec.encode(manifest)))
        record: Any = fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(schema), None)
        names = names_by_id(schema)
        for field in schema["fields"]:
            if field["name"] == names[503] and isinstance(field["type"], str):
                field["type"] = ["null", field["type"]]  # the commit will know it
        counts = new.files.get(Status.EXISTING, 0), new.rows.get(Status.EXISTING, 0)
        values = {500: location, 501: len(new.data), 503: None, 515: -1, 516: new.values[516], 520: None}
        values |= {504: 0, 512: 0, 505: counts[0], 513: counts[1], 506: 0, 514: 0}
        record |= {names[id_]: value for id_, value in values.items()}
        return codec.decode(bytearray(_packed(schema, record)))

    def _require_same(self, before: pa.Table, spec_id: int, location: str, size: int) -> None:
        """Raise unless the new manifest, read back, has the files, numbers and partitions of the old one."""
        listed: dict[str, Any] = dict.fromkeys(MANIFEST_SCHEMA.names)
        listed |= {"path": location, "bytes": size, "spec_id": spec_id, "is_deletes": False, "first_row_id": 0}
        manifests = pa.Table.from_pylist([listed], MANIFEST_SCHEMA)
        partitions = PartitionColumns(self._snapshot.details.specs, self._snapshot.schema)
        reader = ManifestReader(self._storage, self._opened.paths, manifests, partitions)
        written = reader.files(deletes=False, wanted=(), bounds=())
        if physical_rows(before).to_pylist() != written["rows"].to_pylist():
            raise _differs("rows", location)
        for name in (*_KEPT, *(column for column in before.column_names if column.startswith(PREFIX))):
            # Rows have no ids yet in a table that was of version 2 until now.
            unnumbered = name == "first_row_id" and before[name].null_count == len(before)
            if not unnumbered and before[name].to_pylist() != written[name].to_pylist():
                raise _differs(name, location)


def _differs(name: str, location: str) -> CorruptTableError:
    return CorruptTableError(f"the rewritten manifest differs from the original in {name}", where=location)


def _unpacked(data: bytes) -> tuple[Any, bytes]:
    """The schema and the record of what `ManifestFiles.encode` made.

    >>> _unpacked(_packed({"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}, {"a": 1}))[1]
    b'\\x02'
    """
    (size,) = struct.unpack_from(">H", data, len(_MAGIC))
    start = len(_MAGIC) + 2
    if not data.startswith(_MAGIC):
        raise ValueError("unknown encoding of a manifest")
    return json.loads(data[start : start + size]), data[start + size :]


def _packed(schema: Any, record: Mapping[str, Any]) -> bytes:
    """What `ManifestFiles.decode` takes."""
    import fastavro

    text = json.dumps(schema, separators=(",", ":")).encode()
    out = io.BytesIO()
    out.write(_MAGIC + struct.pack(">H", len(text)) + text)
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return out.getvalue()


def content_file(opened: JvmTable, text: str) -> Any:
    """The `DataFile` of its JSON."""
    node = opened.core.util.JsonUtil.mapper().readTree(text)
    return opened.core.ContentFileParser.fromJson(node, opened.table.specs())
