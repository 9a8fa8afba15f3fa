"""Manifests of an Iceberg table with other bounds of some files, everything else as it was."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import CorruptTableError, RefusedError
from geolake_nb.formats.iceberg.avro_container import read_header
from geolake_nb.formats.iceberg.manifests import MANIFEST_SCHEMA, ManifestReader
from geolake_nb.formats.iceberg.partition_values import PREFIX, PartitionColumns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage
    from geolake_nb.spark.iceberg_jvm import JvmTable

    _Bounds = Mapping[str, Sequence[str] | None]

__all__ = ["Manifests", "content_file", "restate_manifests"]

# Iceberg, Manifests: the fields of an entry and of a data file, those that are deprecated or reserved included.
_DATA_FILE = 2
_KNOWN = frozenset({*range(5), *range(100, 112), 125, 128, 131, 132, 134, 135, 137, *range(140, 146)})
_KEPT = ("path", "bytes", "spec_id", "sequence_number", "added_snapshot", "first_row_id", "sort_order_id")


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
    found: JvmTable, storage: Storage, snapshot: Snapshot, wanted: Mapping[str, _Bounds], update: Any
) -> Manifests:
    """Have `update`, a `RewriteManifests`, put manifests with the wanted bounds in place of those with the files.

    `wanted` has by path and field id the two bounds in hexadecimal digits, or `None` to take them away.
    """
    return _Restating(found, storage, snapshot, wanted).replace(update)


class _Restating:
    """Manifests that get other bounds."""

    def __init__(self, found: JvmTable, storage: Storage, snapshot: Snapshot, wanted: Mapping[str, _Bounds]) -> None:
        self._found = found
        self._storage = storage
        self._snapshot = snapshot
        self._wanted = wanted
        table = snapshot.files.table
        self._rows = {path: place for place, path in enumerate(table["path"].to_pylist())}
        self._added = table["added_snapshot"].to_pylist()
        self._numbers: list[int] = table["manifest"].to_pylist()
        self._paths: list[str] = snapshot.details.manifests["path"].to_pylist()

    def replace(self, update: Any) -> Manifests:
        io = self._found.table.io()
        made = Manifests(io)
        touched = {self._paths[self._numbers[self._rows[path]]] for path in self._wanted}
        for path in sorted(touched):
            self._refuse_unknown(path)
        for manifest in self._found.table.currentSnapshot().dataManifests(io):
            if manifest.path() in touched:
                place = str(self._found.table.operations().metadataFileLocation(f"{uuid.uuid4()}-m0.avro"))
                made.paths.append(place)
                new = self._rewritten(manifest, place)
                self._require_same(self._paths.index(str(manifest.path())), new)
                update.deleteManifest(manifest).addManifest(new)
        return made

    def _rewritten(self, manifest: Any, place: str) -> Any:
        """The manifest written again, all its live files as existing ones with their own numbers."""
        core, table = self._found.core, self._found.table
        specs = table.specs()
        spec = specs.get(manifest.partitionSpecId())
        output = table.io().newOutputFile(place)
        reader = core.ManifestFiles.read(manifest, table.io(), specs)
        writer = core.ManifestFiles.write(self._found.metadata.formatVersion(), spec, output, None)
        try:
            entries = reader.iterator()
            while entries.hasNext():
                file = entries.next()
                path = str(file.location())
                numbers = file.dataSequenceNumber(), file.fileSequenceNumber()
                if path in self._wanted:
                    text = core.ContentFileParser.toJson(file, spec)
                    file = content_file(self._found, _with_bounds(text, self._wanted[path]))
                writer.existing(file, self._added[self._rows[path]], *numbers)
        finally:
            writer.close()
            reader.close()
        return writer.toManifestFile()

    def _refuse_unknown(self, path: str) -> None:
        """Raise for a manifest with a field that Iceberg for Java does not know, and would not write again."""
        header = read_header(self._storage.read(self._found.paths.key(path)), where=path)
        fields = header.schema["fields"]
        files: list[Any] = next((one["type"]["fields"] for one in fields if one.get("field-id") == _DATA_FILE), [])
        for one in (*fields, *files):
            if one.get("field-id") not in _KNOWN:
                what = f"the manifest has the field {str(one.get('name'))[:60]!r}, which Iceberg for Java would drop"
                raise RefusedError(what, where=path, remedy="use an engine that knows the field")

    def _require_same(self, number: int, new: Any) -> None:
        """Raise unless the new manifest, read back, has the files, numbers and partitions of the old one."""
        listed: dict[str, Any] = dict.fromkeys(MANIFEST_SCHEMA.names)
        listed |= {"path": str(new.path()), "bytes": new.length(), "spec_id": new.partitionSpecId()}
        listed |= {"is_deletes": False, "first_row_id": 0}
        manifests = pa.Table.from_pylist([listed], MANIFEST_SCHEMA)
        partitions = PartitionColumns(self._snapshot.details.specs, self._snapshot.schema)
        reader = ManifestReader(self._storage, self._found.paths, manifests, partitions)
        written = reader.files(deletes=False, wanted=(), bounds=())
        here = pa.array([place for place, one in enumerate(self._numbers) if one == number], pa.int64())
        before = self._snapshot.files.table.take(here)
        if pc.add(before["rows"], before["deleted_rows"]).to_pylist() != written["rows"].to_pylist():
            raise _differs("rows", new)
        for name in (*_KEPT, *(one for one in before.column_names if one.startswith(PREFIX))):
            # Rows have no ids yet in a table that was of version 2 until now.
            unnumbered = name == "first_row_id" and before[name].null_count == len(before)
            if not unnumbered and before[name].to_pylist() != written[name].to_pylist():
                raise _differs(name, new)


def _differs(name: str, new: Any) -> CorruptTableError:
    return CorruptTableError(f"the manifest that was written differs from the one before in {name}", where=new.path())


def content_file(found: JvmTable, text: str) -> Any:
    """The `DataFile` of its JSON."""
    node = found.core.util.JsonUtil.mapper().readTree(text)
    return found.core.ContentFileParser.fromJson(node, found.table.specs())


def _with_bounds(text: str, bounds: _Bounds) -> str:
    """The JSON of a file with other bounds of some columns.

    >>> _with_bounds('{"lower-bounds":{"keys":[1,7],"values":["0A","00"]}}', {"7": ["01", "02"], "8": None})
    '{"lower-bounds": {"keys": [1, 7], "values": ["0A", "01"]}, "upper-bounds": {"keys": [7], "values": ["02"]}}'
    """
    file = json.loads(text)
    for end, name in enumerate(("lower-bounds", "upper-bounds")):
        held = file.get(name) or {"keys": [], "values": []}
        values = dict(zip(held["keys"], held["values"], strict=True))
        for id_, ends in bounds.items():
            if ends is None:
                values.pop(int(id_), None)
            else:
                values[int(id_)] = ends[end].upper()
        file[name] = {"keys": list(values), "values": list(values.values())}
    return json.dumps(file)
