"""A change of a set of Parquet files that is taken back: old footers and old files come back, new files go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geolake_nb.errors import ConflictError, GeolakeError, RefusedError, VersionError
from geolake_nb.formats.parquet.footer_change import FileState
from geolake_nb.formats.parquet.history import changes_of
from geolake_nb.formats.parquet.journal import read_journal
from geolake_nb.formats.parquet.replace import action, footers_kept
from geolake_nb.planning.change import Change, Reads, Verb
from geolake_nb.planning.engines import engine_facts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.formats.parquet.journal import JournalEntry
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage

__all__ = ["plan_undo"]

_UNDO = Verb.UNDO.value
_OTHERS = (_UNDO, Verb.FORGET.value)


def plan_undo(storage: Storage, snapshot: Snapshot, version: int | None = None) -> Change:
    """What takes back the change of that number, or the newest one that is not taken back.

    A change that was cut short is ended first, when the plan is applied.
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
            says=(f"Change {entry.version} ({entry.verb}) was cut short: it is ended first. Undo it afterwards.",),
            parameters={"finish": str(entry.version)},
        )
    undo = _Undo(storage, entry)
    actions = [text for step in entry.steps for kind, held in step.items() for text in undo.inverse(kind, held)]
    metrics = {
        "footers_restored": sum(text.startswith('{"restore"') for text in actions),
        "files_taken_away": sum(text.startswith('{"take"') for text in actions),
        "files_put_back": sum(text.startswith('{"put"') for text in actions),
    }
    told = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in metrics.items() if count)
    return Change(
        Verb.UNDO,
        snapshot.format,
        snapshot.location,
        None,
        actions=actions,
        says=(f"Change {entry.version} ({entry.verb}) is taken back.", f"{told}.".capitalize()),
        reads=Reads(metrics["footers_restored"], sum(step["footer"]["new_bytes"] for step in entry.steps
                                                     if "footer" in step)),
        undo="geolake undo with --undo-version and the number of this change takes it back",
        engines=engine_facts(snapshot),
        parameters={"version": str(entry.version)},
        metrics=metrics,
    )  # fmt: skip


def _chosen(entries: Sequence[JournalEntry], version: int | None, where: str) -> JournalEntry:
    undone = {int(one.parameters["version"]): one for one in entries if one.verb == _UNDO and _counts(one)}
    # An undo that was itself taken back no longer counts.
    taken = {number for number, one in undone.items() if one.version not in undone}
    if version is None:
        for entry in reversed(entries):
            if entry.verb not in _OTHERS and entry.version not in taken and _counts(entry):
                return entry
        raise RefusedError("no change of this toolkit is there to take back", where=where)
    entry_of = {entry.version: entry for entry in entries}
    if version not in entry_of:
        known = ", ".join(map(str, sorted(entry_of))) or "none"
        raise VersionError(f"there is no change {version} to take back", where=where, remedy=f"there are: {known}")
    if entry_of[version].verb == Verb.FORGET.value:
        raise RefusedError(
            f"change {version} removed what was kept for undo, and has nothing to take back", where=where
        )
    if not _counts(entry_of[version]):
        raise RefusedError(f"change {version} was given up and is not in the files", where=where)
    if version in taken:
        raise RefusedError(
            f"change {version} was taken back by change {undone[version].version} already",
            where=where,
            remedy=f"undo change {undone[version].version} to have it again",
        )
    return entry_of[version]


def _counts(entry: JournalEntry) -> bool:
    return entry.outcome is None or not entry.outcome.abandoned


class _Undo:
    """The steps of a change, the other way round."""

    def __init__(self, storage: Storage, entry: JournalEntry) -> None:
        self._storage = storage
        self._entry = entry
        self._footers = footers_kept(storage, entry.transaction)

    def inverse(self, kind: str, held: Mapping[str, Any]) -> list[str]:
        """The action that takes a step back; raises if the file is not as the step left it."""
        path = held["path"]
        if kind == "footer":
            assert self._entry.outcome is not None
            if path in self._entry.outcome.skipped:
                return []
            if not self._footers:
                raise self._not_kept("the footer that the change replaced", path)
            state = self._state(path)
            if (state.bytes, state.footer) != (held["new_bytes"], held["new_footer"]):
                raise self._changed(path)
            return [action("restore", {**state.to_dict(), "transaction": self._entry.transaction})]
        if kind == "take":
            if not self._storage.exists(held["to"]):
                raise self._not_kept("the file that the change took away", held["to"])
            return [action("put", {"path": path, "from": held["to"], "bytes": held["bytes"]})]
        state = self._state(path)
        if state.bytes != held["bytes"]:
            raise self._changed(path)
        return [action("take", state.to_dict())]

    def _not_kept(self, what: str, path: str) -> RefusedError:
        remedy = "without it the change cannot be taken back"
        return RefusedError(f"{what} is no longer kept", where=f"{self._storage.location}/{path}", remedy=remedy)

    def _state(self, path: str) -> FileState:
        try:
            return FileState.now(self._storage, path)
        except GeolakeError:
            raise self._changed(path) from None

    def _changed(self, path: str) -> ConflictError:
        return ConflictError(
            f"change {self._entry.version} cannot be taken back: the file {path!r} was changed since then",
            where=self._storage.location,
            remedy="take back later changes first",
        )
