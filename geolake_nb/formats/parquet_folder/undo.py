"""Undo a change of Parquet files, and forget the old files that are kept for that."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import ConflictError, GeolakeError, RefusedError, VersionError
from geolake_nb.formats.parquet_folder.commit import action, has_kept_footers, pending_change
from geolake_nb.formats.parquet_folder.file_changes import FileState
from geolake_nb.formats.parquet_folder.journal import FIRST_ENTRIES, changes_of, kept_files, read_journal
from geolake_nb.model.change import Change, IrreversibleStep, Reads, Verb
from geolake_nb.scan.engines import engine_facts
from geolake_nb.scan.explanation import bytes_text
from geolake_nb.text.messages import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.formats.parquet_folder.journal import JournalEntry
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.storage.storage import Storage

__all__ = ["plan_forget", "plan_undo", "undo_of"]

_UNDO = Verb.UNDO.value
_OTHERS = (_UNDO, Verb.FORGET.value)


def plan_undo(storage: Storage, snapshot: Snapshot, version: int | None = None) -> Change:
    """Undo the change of that number, or the newest one that is not undone.

    An interrupted change is finished first, when the plan is applied.
    """
    entries = changes_of(snapshot) if version is None else read_journal(storage)
    entry = _chosen(entries, version, snapshot.location)
    if entry.outcome is None:
        return Change(
            Verb.UNDO,
            snapshot.format,
            snapshot.location,
            None,
            actions=[action("finish", {"version": entry.version, "transaction": entry.transaction})],
            notes=(
                f"Change {entry.version} ({entry.verb}) was interrupted: it is finished first. Undo it afterwards.",
            ),
            parameters={"finish": str(entry.version)},
        )
    return undo_of(storage, snapshot, entry)


def undo_of(storage: Storage, snapshot: Snapshot, entry: JournalEntry) -> Change:
    """Undo a complete change."""
    undo = _Undo(storage, entry)
    actions = [
        text for step in entry.steps for kind, step_action in step.items() for text in undo.inverse(kind, step_action)
    ]
    metrics = {
        "footers_restored": sum(text.startswith('{"restore"') for text in actions),
        "files_removed": sum(text.startswith('{"take"') for text in actions),
        "files_restored": sum(text.startswith('{"put"') for text in actions),
        "tables_removed": sum(
            json.loads(text)["drop"]["path"] in FIRST_ENTRIES for text in actions if text.startswith('{"drop"')
        ),
    }
    counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in metrics.items() if count)
    return Change(
        Verb.UNDO,
        snapshot.format,
        snapshot.location,
        None,
        actions=actions,
        notes=(f"Change {entry.version} ({entry.verb}) will be reverted.", f"{counts or 'no file'}.".capitalize()),
        reads=Reads(metrics["footers_restored"], sum(step["footer"]["new_bytes"] for step in entry.steps
                                                     if "footer" in step)),
        undo="geolake undo with --undo-version and the number of this change reverts it",
        engines=engine_facts(snapshot),
        parameters={"version": str(entry.version)},
        metrics=metrics,
    )  # fmt: skip


def _chosen(entries: Sequence[JournalEntry], version: int | None, where: str) -> JournalEntry:
    undone = {int(entry.parameters["version"]): entry for entry in entries if entry.verb == _UNDO and _counts(entry)}
    # An undo that was itself undone no longer counts.
    taken = {number for number, undo in undone.items() if undo.version not in undone}
    if version is None:
        for entry in reversed(entries):
            if entry.verb not in _OTHERS and entry.version not in taken and _counts(entry):
                return entry
        raise RefusedError("there is no change by geolake_nb to undo", where=where)
    entry_of = {entry.version: entry for entry in entries}
    if version not in entry_of:
        known = ", ".join(map(str, sorted(entry_of))) or "none"
        raise VersionError(f"there is no change {version} to undo", where=where, remedy=f"there are: {known}")
    if entry_of[version].verb == Verb.FORGET.value:
        raise RefusedError(f"change {version} removed the undo data, and cannot be undone", where=where)
    if not _counts(entry_of[version]):
        raise RefusedError(f"change {version} was abandoned and is not in the files", where=where)
    if version in taken:
        raise RefusedError(
            f"change {version} was already undone by change {undone[version].version}",
            where=where,
            remedy=f"undo change {undone[version].version} to restore it",
        )
    return entry_of[version]


def _counts(entry: JournalEntry) -> bool:
    return entry.outcome is None or not entry.outcome.abandoned


class _Undo:
    """The inverse steps of a change."""

    def __init__(self, storage: Storage, entry: JournalEntry) -> None:
        self._storage = storage
        self._entry = entry
        self._footers = has_kept_footers(storage, entry.transaction)

    def inverse(self, kind: str, step: Mapping[str, Any]) -> list[str]:
        """The action that undoes a step; raises if the file has changed since."""
        path = step["path"]
        if kind == "footer":
            assert self._entry.outcome is not None
            if path in self._entry.outcome.skipped:
                return []
            if not self._footers:
                raise self._not_kept("the footer that the change replaced", path)
            state = self._state(path)
            if (state.bytes, state.footer) != (step["new_bytes"], step["new_footer"]):
                raise self._changed(path)
            return [action("restore", {**state.to_dict(), "transaction": self._entry.transaction})]
        if kind in ("create", "drop"):
            if self._entry.outcome is not None and path in self._entry.outcome.skipped:
                return []
            if not self._storage.exists(step["from"]):
                raise self._not_kept("the log of the table", step["from"])
            return [action("drop" if kind == "create" else "create", step)]
        if kind == "take":
            if not self._storage.exists(step["to"]):
                raise self._not_kept("the file that the change removed", step["to"])
            return [action("put", {"path": path, "from": step["to"], "bytes": step["bytes"]})]
        state = self._state(path)
        if state.bytes != step["bytes"]:
            raise self._changed(path)
        return [action("take", state.to_dict())]

    def _not_kept(self, what: str, path: str) -> RefusedError:
        remedy = "without it the change cannot be undone"
        return RefusedError(f"{what} is no longer kept", where=f"{self._storage.location}/{path}", remedy=remedy)

    def _state(self, path: str) -> FileState:
        try:
            return FileState.now(self._storage, path)
        except GeolakeError:
            raise self._changed(path) from None

    def _changed(self, path: str) -> ConflictError:
        return ConflictError(
            f"change {self._entry.version} cannot be undone: the file {path!r} was changed since then",
            where=self._storage.location,
            remedy="undo later changes first",
        )


def plan_forget(storage: Storage, snapshot: Snapshot, version: int | None = None) -> Change:
    """Remove the undo data of all changes, or of those up to a number; no file of the set is touched.

    The journal stays, so that the history is complete. An interrupted change keeps its undo data.
    """
    pending = pending_change(storage, snapshot, Verb.FORGET)
    if pending is not None:
        return pending
    entries = changes_of(snapshot)
    if version is not None and version not in {entry.version for entry in entries}:
        known = ", ".join(str(entry.version) for entry in entries) or "none"
        what = f"there is no change {version} to forget"
        raise VersionError(what, where=snapshot.location, remedy=f"there are: {known}")
    chosen = [entry for entry in entries if version is None or entry.version <= version]
    kept = {entry.transaction: copies for entry in chosen if (copies := kept_files(storage, entry)) is not None}
    parameters = {} if version is None else {"version": str(version)}
    nothing = Change(Verb.FORGET, snapshot.format, snapshot.location, None, parameters=parameters)
    if not kept:
        return replace(nothing, notes=("Nothing is kept for undo.",))
    numbers = [copies.version for copies in kept.values()]
    files, size = sum(copies.files for copies in kept.values()), sum(copies.bytes for copies in kept.values())
    changes = f"change {numbers[0]}" if len(numbers) == 1 else f"{len(numbers):,} changes up to {numbers[-1]}"
    return Change(
        Verb.FORGET,
        snapshot.format,
        snapshot.location,
        None,
        actions=[action("forget", {"transaction": name, "version": copies.version}) for name, copies in kept.items()],
        notes=(
            f"The undo data of {changes} is removed: {plural(files, 'file')} ({bytes_text(size)}) in _geolake.",
            "No file of the set is touched.",
        ),
        irreversible_steps=(IrreversibleStep("forget", f"{changes} can no longer be undone."),),
        undo="cannot be undone",
        parameters=parameters,
        metrics={"files_forgotten": files, "bytes_forgotten": size},
    )
