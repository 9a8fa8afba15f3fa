"""Undo a version of a Delta table: a commit that restores the state before it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from geolake_nb.errors import ConflictError, CorruptTableError, RefusedError, SchemaError, VersionError
from geolake_nb.formats.delta.add_action import remove_action
from geolake_nb.formats.delta.concurrency import Touched, conflict
from geolake_nb.formats.delta.constraints import stricter_rule, with_marks_of, without_marks
from geolake_nb.formats.delta.history import read_commit_info
from geolake_nb.formats.delta.log_actions import decoded_path, vector_file
from geolake_nb.formats.delta.log_replay import SmallActions, small_actions
from geolake_nb.formats.delta.log_segment import list_log
from geolake_nb.formats.delta.protocol import Doing, read_protocol, require_writable
from geolake_nb.formats.delta.publish import PUBLISHED, undo_published
from geolake_nb.formats.delta.raw_actions import plain, pre_images, raw_small_actions, same_file, same_key, vector_of
from geolake_nb.model.change import Change, Verb
from geolake_nb.scan.engines import engine_facts
from geolake_nb.text.json_text import edited, load_json, member

if TYPE_CHECKING:
    from geolake_nb.formats.delta.log_segment import LogListing
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.storage.storage import Storage

__all__ = ["newest_undoable", "plan_undo"]

_ENGINE = "geolake_nb/"
_UNDO = "GEOLAKE UNDO"
_WORKERS = 32
_KNOWN = frozenset({"add", "cdc", "commitInfo", "domainMetadata", "metaData", "protocol", "remove", "txn"})

# Delta, Row tracking: row ids are assigned once; a lower high-water mark would assign them again.
_NEVER_RESTORED = frozenset({"delta.rowTracking"})


def plan_undo(storage: Storage, snapshot: Snapshot, version: int | None = None) -> Change:
    """Undo the change of a version, or the newest change of this package that is not undone.

    Every file that the version touched must be unchanged since, and so must the metadata if it changed that. Files
    that others added since then stay.
    """
    listing = list_log(storage)
    assert snapshot.version is not None
    infos = _infos(storage, listing, snapshot.version)
    chosen = newest_undoable(infos) if version is None else version
    if chosen is None:
        raise RefusedError(
            "the log has no version by geolake_nb that is not undone",
            where=snapshot.location,
            remedy="name the version to undo",
        )
    if chosen == 0 and infos.get(0, {}).get("operation") == PUBLISHED:
        return undo_published(storage, snapshot, infos[0])
    return _Undo(storage, snapshot, listing, infos, chosen).change()


def newest_undoable(infos: Mapping[int, Mapping[str, Any]]) -> int | None:
    """The newest commit of this package that is not an undo and not undone; `infos` are `commitInfo`s by version.

    >>> ours = {"engineInfo": "geolake_nb/0.1", "operation": "GEOLAKE REPAIR"}
    >>> undo = ours | {"operation": "GEOLAKE UNDO", "operationParameters": {"version": "2"}}
    >>> newest_undoable({1: ours, 2: ours, 3: {}}), newest_undoable({1: ours, 2: ours, 3: undo}), newest_undoable({})
    (2, 1, None)
    """
    undone: set[int] = set()
    for version in sorted(infos, reverse=True):
        info = infos[version]
        if version in undone or not str(info.get("engineInfo", "")).startswith(_ENGINE):
            continue
        target = _undone_by(info)
        if target is None:
            return version
        undone.add(target)
    return None


@dataclass(frozen=True, slots=True)
class _FileChange:
    """One file before and after the version; `None` where it is not in the table."""

    path: str
    before: str | None
    after: str | None
    changes_data: bool


class _Undo:
    """A version of a table that is undone."""

    def __init__(
        self,
        storage: Storage,
        snapshot: Snapshot,
        listing: LogListing,
        infos: Mapping[int, Mapping[str, Any]],
        version: int,
    ) -> None:
        self._storage = storage
        self._snapshot = snapshot
        self._listing = listing
        self._version = version
        self._infos = infos
        self._small: list[dict[str, Any]] = []
        self._after: dict[str, str | None] = {}
        self._changes_data: dict[str, bool] = {}
        self._read_commit()
        self._was = small_actions(storage, listing.segment(version - 1))
        self._raw = raw_small_actions(storage, listing.segment(version - 1))
        self._now = small_actions(storage, listing.segment(snapshot.version))

    def change(self) -> Change:
        """The commit that restores the state before the version."""
        self._refuse_undone()
        files = self._files()
        metadata, restored = self._metadata()
        domains = self._domains()
        actions = [*metadata, *domains, *self._file_actions(files)]
        self._require_unchanged(files, actions, restored=restored)
        self._require_features(files, restored=restored or bool(domains))
        self._require_rules(files, restored=restored)
        self._require_row_ids(files)
        removes = [file for file in files if file.after is not None and not same_key(file.before, file.after)]
        self._require_permission(
            schema=restored,
            removes_rows=any(file.changes_data for file in removes),
            moves_files=bool(removes) or _rows_back(files),
        )
        self._require_files(files)
        operation = str(self._infos.get(self._version, {}).get("operation") or "a commit")
        metrics = {
            "files_restored": sum(file.after is None for file in files),
            "files_removed": sum(file.before is None for file in files),
            "files_updated": sum(file.before is not None and file.after is not None for file in files),
        }
        return Change(
            verb=Verb.UNDO,
            format=self._snapshot.format,
            location=self._snapshot.location,
            base_version=self._snapshot.version,
            actions=actions,
            notes=tuple(self._notes(operation, metrics, files, restored=restored)),
            undo="geolake undo with --undo-version and the number of its version reverts it",
            engines=engine_facts(self._snapshot),
            parameters={"version": str(self._version), "operation": json.dumps(operation)},
            metrics=metrics,
            tolerates_appends=not (restored and self._binds_rows() is not None),
        )

    def _read_commit(self) -> None:
        """Read the actions of the version."""
        where, version = self._snapshot.location, self._version
        newest = self._snapshot.version or 0
        if not 0 <= version <= newest:
            raise VersionError(
                f"there is no version {version} to undo", where=where, remedy=f"the versions are 0 to {newest}"
            )
        if version == 0:
            raise RefusedError(
                "version 0 created the table: there is nothing to go back to",
                where=where,
                remedy="delete its folder to undo it",
            )
        if version not in self._listing.commits:
            raise RefusedError(f"the commit of version {version} was cleaned up: its changes are unknown", where=where)
        path = self._listing.commits[version].path
        for line in self._storage.read(path).decode().split("\n"):
            if line.strip():
                self._note(_action(line, f"{self._storage.location}/{path}"), line)

    def _note(self, action: dict[str, Any], line: str) -> None:
        strange = sorted(action.keys() - _KNOWN)
        if strange:
            raise RefusedError(
                f"version {self._version} has an unknown action, which cannot be undone: {strange[0][:60]}",
                where=self._snapshot.location,
                remedy="use an engine that knows it",
            )
        if not action.keys() & {"add", "remove", "cdc"}:
            self._small.append(action)
        for kind in ("remove", "add"):
            body = action.get(kind)
            if not isinstance(body, dict):
                continue
            path = str(body.get("path"))
            changes = body.get("dataChange") is not False
            self._changes_data[path] = self._changes_data.get(path, False) or changes
            if kind == "add":
                self._after[path] = member(line, ("add",))
            else:
                self._after.setdefault(path, None)

    def _refuse_undone(self) -> None:
        undone: set[int] = set()
        for version in sorted(self._infos, reverse=True):
            target = None if version in undone else _undone_by(self._infos[version])
            if target is not None:
                undone.add(target)
            if target == self._version:
                raise RefusedError(
                    f"version {self._version} was already undone by version {version}",
                    where=self._snapshot.location,
                    remedy=f"undo version {version} to restore it",
                )

    def _files(self) -> list[_FileChange]:
        before = pre_images(self._storage, self._listing.segment(self._version - 1), list(self._after))
        files = [
            _FileChange(path, before.get(path), text, self._changes_data[path]) for path, text in self._after.items()
        ]
        # A tombstone of a missing file, or an unchanged `add`, leaves nothing to restore.
        return [file for file in files if not same_file(file.before, file.after)]

    def _file_actions(self, files: list[_FileChange]) -> list[str]:
        removes: list[str] = []
        adds: list[str] = []
        moment = time.time_ns() // 1_000_000
        for file in files:
            if file.after is not None and not same_key(file.before, file.after):
                removes.append(remove_action(file.after, data_change=file.changes_data, deletion_timestamp=moment))
            if file.before is not None:
                text = edited(file.before, {("dataChange",): "true" if file.changes_data else "false"})
                adds.append(f'{{"add":{text}}}')
        return [*removes, *adds]

    def _metadata(self) -> tuple[list[str], bool]:
        """The action that restores the metadata, where the version changed it."""
        written = [action["metaData"] for action in self._small if isinstance(action.get("metaData"), dict)]
        if not written or plain(written[-1]) == plain(self._was.metadata):
            return [], False
        old, now = self._was.metadata or {}, self._now.metadata or {}
        text = with_marks_of(self._raw.metadata or "{}", old, now, where=self._snapshot.location)
        if plain(orjson.loads(text)) == plain(now):
            return [], False
        return [f'{{"metaData":{text}}}'], True

    def _domains(self) -> list[str]:
        actions: list[str] = []
        for domain in self._written_domains():
            old = self._was.domains.get(domain)
            if old == self._now.domains.get(domain):
                continue
            gone = {"domain": domain, "configuration": "", "removed": True}
            restored = orjson.dumps(gone).decode() if old is None else self._raw.domains[domain]
            actions.append(f'{{"domainMetadata":{restored}}}')
        return actions

    def _written_domains(self) -> dict[str, str]:
        return {
            domain: configuration
            for domain, configuration in (
                (action["domainMetadata"].get("domain"), action["domainMetadata"].get("configuration"))
                for action in self._small
                if isinstance(action.get("domainMetadata"), dict)
            )
            if isinstance(domain, str) and domain not in _NEVER_RESTORED
        }

    def _require_unchanged(self, files: list[_FileChange], actions: list[str], *, restored: bool) -> None:
        """Refuse where something that would be restored has changed since the version."""
        if self._snapshot.version == self._version:
            return
        left = SmallActions.reconciled(self._small)
        problem = None
        now = pre_images(self._storage, self._listing.segment(self._snapshot.version), [file.path for file in files])
        changed = [file.path for file in files if not same_file(now.get(file.path), file.after)]
        if changed:
            more = f" and {len(changed) - 1:,} more" if len(changed) > 1 else ""
            problem = f"the file {changed[0]!r}{more} was changed since then"
        elif restored and left.metadata is not None and not self._is_now(left.metadata):
            problem = "the schema or the properties were changed since then"
        else:
            for domain in self._written_domains():
                if left.domains.get(domain) != self._now.domains.get(domain):
                    problem = f"the metadata domain {domain!r} was changed since then"
        bound = self._binds_rows() if restored else None
        later = self._later(actions, adds=bound is not None)
        if problem is None and later is not None and later[2]:
            problem = f"files were added since then, {bound}"
        if problem is not None:
            raise ConflictError(
                f"version {self._version} cannot be undone: {problem}",
                where=self._snapshot.location,
                remedy=None if later is None else f"undo version {later[0]} ({later[1]}) first",
            )

    def _is_now(self, metadata: Mapping[str, Any]) -> bool:
        """Whether the table still has that metadata; added rows may have moved the high-water marks in it."""
        where, now = self._snapshot.location, self._now.metadata or {}
        return bool(plain(without_marks(metadata, where=where)) == plain(without_marks(now, where=where)))

    def _later(self, actions: list[str], *, adds: bool) -> tuple[int, str, bool] | None:
        """The newest later version that conflicts, its operation, and whether the conflict is about added files."""
        data = "\n".join(actions).encode()
        ours = Touched.by(self._storage, "the undo", data)
        for version in range(self._snapshot.version or 0, self._version, -1):
            if version not in self._listing.commits:
                if adds:
                    return version, "cleaned up, so its added files are unknown", True
                continue
            path = self._listing.commits[version].path
            theirs = Touched.by(self._storage, path, self._storage.read(path))
            added = adds and theirs.adds
            if added or conflict(ours, theirs, tolerates_appends=True) is not None:
                return version, str(theirs.info.get("operation") or "a commit")[:60], added
        return None

    def _binds_rows(self) -> str | None:
        """Why the old metadata may not fit rows that were added since; `None` where all of them fit it."""
        old, now = self._was.metadata or {}, self._now.metadata or {}
        if _shape(old.get("schemaString")) != _shape(now.get("schemaString")):
            return "with the types that would be reverted"
        rule = stricter_rule(now, old, where=self._snapshot.location)
        return None if rule is None else f"and they were not checked against the rule that would be restored: {rule}"

    def _require_features(self, files: list[_FileChange], *, restored: bool) -> None:
        """Refuse to restore what may need a feature that the table has dropped since."""
        if not restored and not _rows_back(files):
            return
        where = self._snapshot.location
        then = read_protocol(self._was.protocol or {}, where=where)
        lost = sorted(
            {feature.name for feature in then.features} - {feature.name for feature in self._snapshot.protocol.features}
        )
        if lost:
            raise RefusedError(
                f"version {self._version} cannot be undone: the table then had the feature {lost[0]!r}, which was"
                " dropped since, and the restored data may need it",
                where=where,
                remedy=f"set the property delta.feature.{lost[0]} to supported first",
            )

    def _require_rules(self, files: list[_FileChange], *, restored: bool) -> None:
        """Refuse to restore rows that were not checked against current rules; restored rules are theirs."""
        if restored or not _rows_back(files):
            return
        where = self._snapshot.location
        rule = stricter_rule(self._was.metadata or {}, self._now.metadata or {}, where=where)
        if rule is not None:
            raise RefusedError(
                f"version {self._version} cannot be undone: it would restore rows that were written before the table"
                f" got the rule: {rule}",
                where=where,
                remedy="drop that rule first, or add the rows with Spark",
            )

    def _require_row_ids(self, files: list[_FileChange]) -> None:
        """Refuse to add files without row ids to a table with row tracking."""
        if all(feature.name != "rowTracking" for feature in self._snapshot.protocol.features):
            return
        for file in files:
            # Delta, Row tracking: with the feature, every add has a baseRowId and a defaultRowCommitVersion.
            if file.before is None or _has_row_ids(file.before):
                continue
            # One that still lacks them is restored unchanged.
            if file.after is None or _has_row_ids(file.after):
                raise RefusedError(
                    f"version {self._version} cannot be undone: the table tracks rows, and the file"
                    f" {file.path[:200]!r} had no row ids before",
                    where=self._snapshot.location,
                    remedy="leave the ids as they are, or drop the feature rowTracking with Spark",
                )

    def _require_permission(self, *, schema: bool, removes_rows: bool, moves_files: bool) -> None:
        for doing in (Doing.UPDATE_STATS, *([Doing.SCHEMA] if schema else [])):
            require_writable(
                self._snapshot.protocol,
                self._snapshot.details.metadata,
                doing=doing,
                removes_rows=removes_rows,
                moves_files=moves_files,
                where=self._snapshot.location,
            )

    def _require_files(self, files: list[_FileChange]) -> None:
        """Refuse to restore files that VACUUM has deleted."""
        keys: list[str] = []
        for file in files:
            if file.before is None:
                continue
            if file.after is None:
                keys.append(decoded_path(file.path))
            vector = None if same_key(file.before, file.after) else vector_file(vector_of(file.before))
            if vector is not None:
                keys.append(vector)
        with ThreadPoolExecutor(_WORKERS) as pool:
            there = list(pool.map(self._storage.exists, keys))
        gone = [key for key, here in zip(keys, there, strict=True) if not here]
        if gone:
            more = f" and {len(gone) - 1:,} more" if len(gone) > 1 else ""
            raise RefusedError(
                f"the file {gone[0]!r}{more} of version {self._version - 1} is missing, most likely deleted by VACUUM",
                where=self._snapshot.location,
                remedy="restore it from a backup; without it the version cannot be undone",
            )

    def _notes(
        self, operation: str, metrics: Mapping[str, int], files: list[_FileChange], *, restored: bool
    ) -> list[str]:
        notes = [f"Version {self._version} ({operation}) will be reverted."]
        counts = [f"{count:,} {name.replace('_', ' ')}" for name, count in metrics.items() if count]
        if counts:
            notes.append(f"{', '.join(counts)}.".capitalize())
        if any(file.changes_data for file in files):
            notes.append("This changes the rows of the table.")
        if restored:
            notes.append("The previous schema and properties are restored.")
        if any("protocol" in action for action in self._small):
            notes.append("The protocol stays as it is: enabled features cannot be undone.")
        if any("txn" in action for action in self._small):
            notes.append("The versions of streaming applications (txn) stay as they are.")
        return notes


def _rows_back(files: list[_FileChange]) -> bool:
    """Whether rows are restored, not only statistics of existing files."""
    return any(file.before is not None and not same_key(file.before, file.after) for file in files)


def _has_row_ids(add: str) -> bool:
    return orjson.loads(add).get("baseRowId") is not None


def _infos(storage: Storage, listing: LogListing, newest: int) -> dict[int, Mapping[str, Any]]:
    versions = [version for version in sorted(listing.commits) if version <= newest]
    with ThreadPoolExecutor(_WORKERS) as pool:
        infos = pool.map(lambda version: read_commit_info(storage, listing.commits[version]), versions)
        return dict(zip(versions, infos, strict=True))


def _action(line: str, where: str) -> dict[str, Any]:
    action = load_json(line, what="an action", where=where, error=CorruptTableError)
    if not isinstance(action, dict):
        raise CorruptTableError("expected a JSON object for an action", where=where)
    return action


def _undone_by(info: Mapping[str, Any]) -> int | None:
    """The version that a commit undid, `None` if it is not an undo."""
    parameters = info.get("operationParameters")
    if info.get("operation") != _UNDO or not isinstance(parameters, Mapping):
        return None
    text = str(parameters.get("version", "")).strip('"')
    return int(text) if text.isascii() and text.isdigit() else None


def _shape(schema: Any) -> Any:
    """Names and types of a schema, without nullability and metadata."""
    try:
        return _types(load_json(schema, what="the schema")) if isinstance(schema, str) else None
    except SchemaError:
        return schema


def _types(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _types(value) for key, value in node.items() if key not in ("metadata", "nullable")}
    return [_types(item) for item in node] if isinstance(node, list) else node
