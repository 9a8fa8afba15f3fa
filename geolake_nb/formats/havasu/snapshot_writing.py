"""Writes the manifests, the manifest list and the summary of a new snapshot."""

from __future__ import annotations

import random
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import ConflictError, GeolakeError, RefusedError
from geolake_nb.formats.havasu.manifest_writing import (
    ListedManifest,
    ManifestList,
    Numbers,
    new_manifest,
    rewritten_manifest,
)
from geolake_nb.formats.iceberg.location import PathMap
from geolake_nb.formats.iceberg.manifests import ManifestReader, Status, listed_manifests, read_manifest_list
from geolake_nb.formats.iceberg.partitions import PartitionColumns
from geolake_nb.text.json_text import load_json

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from geolake_nb.formats.iceberg.metadata import StoredSnapshot, TableMetadata
    from geolake_nb.storage.storage import Storage

__all__ = ["Actions", "SnapshotWriter", "manifest_list_of", "snapshot_summary"]

_KEPT = ("total-delete-files", "total-position-deletes", "total-equality-deletes")


def snapshot_summary(
    manifests: Sequence[ListedManifest],
    before: Mapping[str, str],
    *,
    first: bool,
    obsolete: Sequence[ListedManifest] = (),
) -> dict[str, str]:
    """The counts of a snapshot that writes these manifests; totals continue those of the previous snapshot.

    `obsolete` are manifests of delete files that are deleted themselves.

    >>> snapshot_summary([], {}, first=True)["total-records"], snapshot_summary([], {}, first=False)
    ('0', {})
    """
    counts: dict[str, int] = {}
    for status, (files, rows, size) in {
        Status.ADDED: ("added-data-files", "added-records", "added-files-size"),
        Status.DELETED: ("deleted-data-files", "deleted-records", "removed-files-size"),
    }.items():
        counts[files] = sum(manifest.files.get(status, 0) for manifest in manifests)
        counts[rows] = sum(manifest.rows.get(status, 0) for manifest in manifests)
        counts[size] = sum(manifest.bytes.get(status, 0) for manifest in manifests)
    summary = {name: str(count) for name, count in counts.items() if count}
    for total, plus, minus in (
        ("total-data-files", "added-data-files", "deleted-data-files"),
        ("total-records", "added-records", "deleted-records"),
        ("total-files-size", "added-files-size", "removed-files-size"),
    ):
        previous = 0 if first else _number(before.get(total))
        if previous is not None:
            summary[total] = str(previous + counts[plus] - counts[minus])
    removed = sum(manifest.files.get(Status.DELETED, 0) for manifest in obsolete)
    if removed:
        summary["removed-delete-files"] = str(removed)
    left = _number(before.get(_KEPT[0])) if not first else 0
    if left is not None and left - removed <= 0:
        return summary | dict.fromkeys(_KEPT, "0")
    if not removed:
        return summary | {total: before[total] for total in _KEPT if total in before}
    return summary if left is None else summary | {_KEPT[0]: str(left - removed)}


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def manifest_list_of(
    storage: Storage, key: Callable[[str], str], snapshot: StoredSnapshot | None, *, version: int, snapshot_id: int
) -> ManifestList:
    """The manifests of a snapshot, or none for a new one of that id; `key` turns stored paths into keys."""
    if snapshot is None:
        return ManifestList.of((), version, snapshot_id=snapshot_id)
    if snapshot.manifest_list is None:
        manifests = [(path, storage.read(key(path))) for path in snapshot.manifests]
        return ManifestList.of(manifests, version, snapshot_id=snapshot.snapshot_id)
    return ManifestList.read(storage.read(key(snapshot.manifest_list)), version, where=snapshot.manifest_list)


_FILES_A_MANIFEST = 10_000


class Actions:
    """The actions of a change by kind."""

    def __init__(self, texts: Sequence[str], *, where: str) -> None:
        self.create: dict[str, Any] | None = None
        self.base: dict[str, Any] = {}
        self.rollback: dict[str, Any] | None = None
        self.adds: list[dict[str, Any]] = []
        self.removed: set[str] = set()
        self.updated: dict[str, dict[str, Any]] = {}
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
            elif kind == "update_bounds":
                self.updated[value["path"]] = value
            else:
                raise RefusedError(f"the action {kind[:60]!r} is not supported here", where=where)


class _Every:
    """Contains every path."""

    def __contains__(self, path: object) -> bool:
        return True


_EVERY = _Every()


class SnapshotWriter:
    """Writes the files of one snapshot, for each attempt until a metadata file refers to them."""

    def __init__(self, storage: Storage, actions: Actions, *, transaction: str) -> None:
        self.snapshot_id = random.SystemRandom().randrange(1, 2**63)
        self._storage = storage
        self._actions = actions
        self._transaction = transaction
        self._written: list[str] = []
        self._list: str | None = None
        # Files of a failed attempt are reused by the next one: entries do not depend on the version.
        self._added: list[tuple[str, ListedManifest]] | None = None
        self._reusable: dict[str, tuple[str, ListedManifest]] = {}

    def write(self, table: TableMetadata, moment: int, *, operation: str, summary: Mapping[str, str]) -> dict[str, Any]:
        """The snapshot as the metadata lists it; its manifests are written."""
        if self._list is not None:  # of a failed attempt
            self._storage.remove(self._list)
        version = table.format_version
        parent = table.pick()
        number = int(table.raw.get("last-sequence-number", 0)) + 1 if version > 1 else 0
        numbers = Numbers(self.snapshot_id, number)
        manifest_list = self._manifest_list(table, parent)
        records: list[Mapping[str, Any]] = []
        done: list[ListedManifest] = []
        changed = self._changed(table, manifest_list)
        for record in manifest_list.records:
            path = manifest_list.value(record, 500)
            if path not in changed:
                records.append(record)
                continue
            stored, manifest = changed[path]
            done.append(manifest)
            records.append(manifest_list.listed(manifest, stored, numbers=numbers, before=record))
        for stored, manifest in self._new(table):
            done.append(manifest)
            records.append(manifest_list.listed(manifest, stored, numbers=numbers))
        obsolete = self._obsolete(table, manifest_list, records) if self._actions.removed and version > 1 else {}
        records = [
            manifest_list.listed(obsolete[path][1], obsolete[path][0], numbers=numbers, before=record)
            if (path := manifest_list.value(record, 500)) in obsolete
            else record
            for record in records
        ]
        parent_id = None if parent is None else parent.snapshot_id
        data = manifest_list.packed(records, numbers=numbers, parent_id=parent_id)
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
                    obsolete=[manifest for _, manifest in obsolete.values()],
                ),
                **summary,
            },
            "manifest-list": listed,
            "schema-id": table.current_schema_id,
        }

    def _manifest_list(self, table: TableMetadata, parent: StoredSnapshot | None) -> ManifestList:
        key = PathMap(table.location, self._storage.location).key
        return manifest_list_of(self._storage, key, parent, version=table.format_version, snapshot_id=self.snapshot_id)

    def _changed(self, table: TableMetadata, manifest_list: ManifestList) -> dict[str, tuple[str, ListedManifest]]:
        """The rewritten manifests, by the paths of those they replace."""
        touched = self._actions.removed | set(self._actions.updated)
        if not touched:
            return {}
        manifests_of = self._manifests_of(table)
        missing = sorted(touched - manifests_of.keys())
        if missing:
            more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
            raise ConflictError(
                f"the file {missing[0]!r}{more} was removed or replaced meanwhile",
                where=self._storage.location,
                remedy="plan the change again",
            )
        sources = {path for file in touched for path in manifests_of[file]}
        rewritten: dict[str, tuple[str, ListedManifest]] = {}
        for record in manifest_list.records:
            source = manifest_list.value(record, 500)
            if source not in sources:
                continue
            rewritten[source] = self._rewritten(table, manifest_list, record, self._actions.removed)
        return rewritten

    def _obsolete(
        self, table: TableMetadata, manifest_list: ManifestList, records: Sequence[Mapping[str, Any]]
    ) -> dict[str, tuple[str, ListedManifest]]:
        """The manifests of delete files that are older than all remaining data files, with all entries deleted."""
        data = [record for record in records if not manifest_list.value(record, 517)]
        living = [record for record in data if manifest_list.has_files(record)]
        oldest = min((manifest_list.value(record, 516) for record in living), default=None)
        # Iceberg, Scan Planning: deletes apply to data files of their sequence number or an earlier one.
        return {
            manifest_list.value(record, 500): self._rewritten(table, manifest_list, record, _EVERY)
            for record in records
            if manifest_list.value(record, 517) and (oldest is None or manifest_list.value(record, 515) < oldest)
        }

    def _rewritten(
        self, table: TableMetadata, manifest_list: ManifestList, record: Mapping[str, Any], removed: Container[str]
    ) -> tuple[str, ListedManifest]:
        source = manifest_list.value(record, 500)
        if source not in self._reusable:
            paths = PathMap(table.location, self._storage.location)
            manifest = rewritten_manifest(
                self._storage.read(paths.key(source)),
                inherits=manifest_list.numbers(record),
                version=table.format_version,
                snapshot_id=self.snapshot_id,
                removed=removed,
                updated=self._actions.updated,
                where=source,
            )
            self._reusable[source] = self._put_new(table, f"m{len(self._written)}", manifest.data), manifest
        return self._reusable[source]

    def _manifests_of(self, table: TableMetadata) -> dict[str, list[str]]:
        """The manifests that list each live file."""
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
        by_file: dict[str, list[str]] = {}
        for path, index in zip(files["path"].to_pylist(), files["manifest"].to_pylist(), strict=True):
            by_file.setdefault(path, []).append(names[index])
        return by_file

    def _new(self, table: TableMetadata) -> list[tuple[str, ListedManifest]]:
        """The manifests of the files that are added."""
        if self._added is not None:
            return self._added
        root, schema = table.location.rstrip("/"), table.schema()
        by_spec: dict[int, list[dict[str, Any]]] = {}
        for add in self._actions.adds:
            by_spec.setdefault(add.get("spec_id", table.default_spec_id), []).append(
                {**add, "path": f"{root}/{add['path']}"}
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
        """Write a file of this change; returns its path as stored in the table."""
        path = f"metadata/{name}-{self._transaction}-{uuid.uuid4().hex[:8]}.avro"
        with self._storage.new_file(path) as local, open(local, "wb") as file:
            file.write(data)
        self._written.append(path)
        return f"{table.location.rstrip('/')}/{path}"

    def clean(self) -> None:
        """Remove the files of a change that was not committed."""
        for path in self._written:
            with suppress(GeolakeError):
                self._storage.remove(path)
