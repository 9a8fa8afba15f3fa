"""A snapshot on its way into a table: its manifests and their list, of which only the metadata file makes use."""

from __future__ import annotations

import random
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from geolake_nb.core.untrusted_json import load_json
from geolake_nb.errors import ConflictError, GeolakeError, RefusedError
from geolake_nb.formats.havasu.manifest_writing import (
    ListedManifest,
    ManifestList,
    Numbers,
    new_manifest,
    rewritten_manifest,
)
from geolake_nb.formats.havasu.summaries import snapshot_summary
from geolake_nb.formats.iceberg.location import PathMap
from geolake_nb.formats.iceberg.manifests import ManifestReader, listed_manifests, read_manifest_list
from geolake_nb.formats.iceberg.partition_values import PartitionColumns

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from geolake_nb.formats.iceberg.metadata import StoredSnapshot, TableMetadata
    from geolake_nb.formats.storage import Storage

__all__ = ["Actions", "SnapshotWriter"]

_FILES_A_MANIFEST = 10_000


class Actions:
    """The actions of a change by what they do."""

    def __init__(self, texts: Sequence[str], *, where: str) -> None:
        self.create: dict[str, Any] | None = None
        self.base: dict[str, Any] = {}
        self.rollback: dict[str, Any] | None = None
        self.adds: list[dict[str, Any]] = []
        self.removed: set[str] = set()
        self.restated: dict[str, dict[str, Any]] = {}
        for text in texts:
            ((kind, value),) = load_json(text, what="an action", where=where).items()
            if kind == "create":
                self.create = value
            elif kind == "base":
                self.base = value
            elif kind == "rollback":
                self.rollback = value
            elif kind == "add":
                self.adds.append(value)
            elif kind == "remove":
                self.removed.add(value["path"])
            elif kind == "restate":
                self.restated[value["path"]] = value
            else:
                raise RefusedError(f"the action {kind[:60]!r} is not written here", where=where)


class _Every:
    """Holds every path."""

    def __contains__(self, path: object) -> bool:
        return True


_EVERY = _Every()


class SnapshotWriter:
    """Writes the files of one snapshot, again and again until a metadata file names them."""

    def __init__(self, storage: Storage, actions: Actions, *, transaction: str) -> None:
        self.snapshot_id = random.SystemRandom().randrange(1, 2**63)
        self._storage = storage
        self._actions = actions
        self._transaction = transaction
        self._written: list[str] = []
        self._list: str | None = None
        # What was written for an attempt that lost serves the next one: entries hold nothing of the version.
        self._added: list[tuple[str, ListedManifest]] | None = None
        self._again: dict[str, tuple[str, ListedManifest]] = {}

    def write(self, table: TableMetadata, moment: int, *, operation: str, summary: Mapping[str, str]) -> dict[str, Any]:
        """The snapshot as the metadata lists it; its manifests are written."""
        if self._list is not None:  # of an attempt that lost
            self._storage.remove(self._list)
        version = table.format_version
        parent = table.pick()
        number = int(table.raw.get("last-sequence-number", 0)) + 1 if version > 1 else 0
        numbers = Numbers(self.snapshot_id, number)
        held = self._manifest_list(table, parent)
        records: list[Mapping[str, Any]] = []
        done: list[ListedManifest] = []
        changed = self._changed(table, held)
        for record in held.records:
            path = held.value(record, 500)
            if path not in changed:
                records.append(record)
                continue
            stored, manifest = changed[path]
            done.append(manifest)
            records.append(held.listed(manifest, stored, numbers=numbers, before=record))
        for stored, manifest in self._new(table):
            done.append(manifest)
            records.append(held.listed(manifest, stored, numbers=numbers))
        outlived = self._outlived(table, held, records) if self._actions.removed and version > 1 else {}
        records = [
            held.listed(outlived[path][1], outlived[path][0], numbers=numbers, before=record)
            if (path := held.value(record, 500)) in outlived
            else record
            for record in records
        ]
        parent_id = None if parent is None else parent.snapshot_id
        data = held.packed(records, numbers=numbers, parent_id=parent_id)
        listed = self._put_new(table, f"snap-{self.snapshot_id}-1", data)
        self._list = self._written[-1]
        snapshot: dict[str, Any] = {"sequence-number": number} if version > 1 else {}
        snapshot["snapshot-id"] = self.snapshot_id
        if parent_id is not None:
            snapshot["parent-snapshot-id"] = parent_id
        return snapshot | {
            "timestamp-ms": moment,
            "summary": {
                "operation": operation,
                **snapshot_summary(
                    done,
                    {} if parent is None else parent.summary,
                    first=parent is None,
                    outlived=[manifest for _, manifest in outlived.values()],
                ),
                **summary,
            },
            "manifest-list": listed,
            "schema-id": table.current_schema_id,
        }

    def _manifest_list(self, table: TableMetadata, parent: StoredSnapshot | None) -> ManifestList:
        version = table.format_version
        if parent is None:
            return ManifestList.of((), version, snapshot_id=self.snapshot_id)
        paths = PathMap(table.location, self._storage.location)
        if parent.manifest_list is None:
            manifests = [(path, self._storage.read(paths.key(path))) for path in parent.manifests]
            return ManifestList.of(manifests, version, snapshot_id=parent.snapshot_id)
        return ManifestList.read(
            self._storage.read(paths.key(parent.manifest_list)), version, where=parent.manifest_list
        )

    def _changed(self, table: TableMetadata, held: ManifestList) -> dict[str, tuple[str, ListedManifest]]:
        """The manifests that are written again, by the paths of those whose place they take."""
        touched = self._actions.removed | set(self._actions.restated)
        if not touched:
            return {}
        places = self._places(table)
        missing = sorted(touched - places.keys())
        if missing:
            more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
            raise ConflictError(
                f"the file {missing[0]!r}{more} was removed or replaced meanwhile",
                where=self._storage.location,
                remedy="plan the change again",
            )
        sources = {path for one in touched for path in places[one]}
        found: dict[str, tuple[str, ListedManifest]] = {}
        for record in held.records:
            source = held.value(record, 500)
            if source not in sources:
                continue
            found[source] = self._rewritten(table, held, record, self._actions.removed)
        return found

    def _outlived(
        self, table: TableMetadata, held: ManifestList, records: Sequence[Mapping[str, Any]]
    ) -> dict[str, tuple[str, ListedManifest]]:
        """The manifests of delete files that are older than every data file that is left, all entries deleted."""
        data = [record for record in records if not held.value(record, 517)]
        living = [record for record in data if held.has_files(record)]
        oldest = min((held.value(record, 516) for record in living), default=None)
        # Iceberg, Scan Planning: deletes count for data files of their sequence number or an earlier one.
        return {
            held.value(record, 500): self._rewritten(table, held, record, _EVERY)
            for record in records
            if held.value(record, 517) and (oldest is None or held.value(record, 515) < oldest)
        }

    def _rewritten(
        self, table: TableMetadata, held: ManifestList, record: Mapping[str, Any], removed: Container[str]
    ) -> tuple[str, ListedManifest]:
        source = held.value(record, 500)
        if source not in self._again:
            paths = PathMap(table.location, self._storage.location)
            manifest = rewritten_manifest(
                self._storage.read(paths.key(source)),
                inherits=held.numbers(record),
                version=table.format_version,
                snapshot_id=self.snapshot_id,
                removed=removed,
                restated=self._actions.restated,
                where=source,
            )
            self._again[source] = self._put_new(table, f"m{len(self._written)}", manifest.data), manifest
        return self._again[source]

    def _places(self, table: TableMetadata) -> dict[str, list[str]]:
        """The manifests in which each live file is."""
        paths = PathMap(table.location, self._storage.location)
        snapshot = table.pick()
        if snapshot is None:
            return {}
        if snapshot.manifest_list is None:
            manifests = listed_manifests(snapshot)
        else:
            data = self._storage.read(paths.key(snapshot.manifest_list))
            manifests = read_manifest_list(data, where=snapshot.manifest_list)
        partitions = PartitionColumns(table.specs, table.schema())
        files = ManifestReader(self._storage, paths, manifests, partitions).files(deletes=False, wanted=[], bounds=[])
        names = manifests["path"].to_pylist()
        found: dict[str, list[str]] = {}
        for path, place in zip(files["path"].to_pylist(), files["manifest"].to_pylist(), strict=True):
            found.setdefault(path, []).append(names[place])
        return found

    def _new(self, table: TableMetadata) -> list[tuple[str, ListedManifest]]:
        """The manifests of the files that are added."""
        if self._added is not None:
            return self._added
        root, schema = table.location.rstrip("/"), table.schema()
        by_spec: dict[int, list[dict[str, Any]]] = {}
        for one in self._actions.adds:
            by_spec.setdefault(one.get("spec_id", table.default_spec_id), []).append(
                {**one, "path": f"{root}/{one['path']}"}
            )
        added: list[tuple[str, ListedManifest]] = []
        for spec_id, files in by_spec.items():
            for start in range(0, len(files), _FILES_A_MANIFEST):
                some = files[start : start + _FILES_A_MANIFEST]
                manifest = new_manifest(some, table, spec_id, schema, snapshot_id=self.snapshot_id)
                added.append((self._put_new(table, f"m{len(self._written)}", manifest.data), manifest))
        self._added = added
        return added

    def _put_new(self, table: TableMetadata, name: str, data: bytes) -> str:
        """Write a file that only this change knows; its path as the table stores it."""
        path = f"metadata/{name}-{self._transaction}-{uuid.uuid4().hex[:8]}.avro"
        with self._storage.new_file(path) as place, open(place, "wb") as file:
            file.write(data)
        self._written.append(path)
        return f"{table.location.rstrip('/')}/{path}"

    def clean(self) -> None:
        """Remove what was written for a change that is not in the table."""
        for path in self._written:
            with suppress(GeolakeError):
                self._storage.remove(path)
