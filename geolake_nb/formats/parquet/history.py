"""What this package changed in a set of Parquet files, by its journal, and what is kept to take it back."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from geolake_nb.errors import StorageError
from geolake_nb.formats.parquet.journal import kept_folder, read_journal
from geolake_nb.formats.snapshot import VersionInfo

if TYPE_CHECKING:
    from geolake_nb.formats.parquet.journal import JournalEntry
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage

__all__ = ["Kept", "changes_of", "kept_files", "parquet_history"]


@dataclass(frozen=True, slots=True)
class Kept:
    """What one change has put aside for whoever takes it back."""

    version: int
    files: int
    bytes: int


def parquet_history(snapshot: Snapshot, *, newest: int | None = None) -> list[VersionInfo]:
    """The changes of a set, or so many of them, newest first; none where nothing can be listed, as on the web."""
    try:
        entries = changes_of(snapshot)
    except StorageError:
        return []
    found = [_info(entry, entries[place - 1].version if place else None) for place, entry in enumerate(entries)]
    return found[::-1][:newest]


def changes_of(snapshot: Snapshot) -> list[JournalEntry]:
    """The changes of this table, and not of a file or a pattern beside it in the same folder, oldest first."""
    if snapshot.details is None:  # made of a list of files alone
        return []
    storage: Storage = snapshot.details.storage
    entries = read_journal(storage)
    if snapshot.location == storage.location:
        return entries
    paths = set(snapshot.files.table["path"].to_pylist())
    return [one for one in entries if any(held["path"] in paths for step in one.steps for held in step.values())]


def kept_files(storage: Storage, entry: JournalEntry) -> Kept | None:
    """What a change that has ended keeps; `None` for nothing."""
    if entry.outcome is None:
        return None
    held = storage.list(kept_folder(entry.transaction), recursive=True)
    return Kept(entry.version, len(held), sum(one.bytes for one in held)) if held else None


def _info(entry: JournalEntry, parent: int | None) -> VersionInfo:
    ended = entry.outcome
    state = " (cut short)" if ended is None else " (given up)" if ended.abandoned else ""
    kinds = [kind for step in entry.steps for kind in step]
    files = {"footers": kinds.count("footer"), "taken": kinds.count("take"), "put": kinds.count("put")}
    return VersionInfo(
        entry.version,
        dt.datetime.fromtimestamp(entry.timestamp / 1000, dt.UTC),
        f"{entry.verb}{state}",
        parent=parent,
        details={
            "transaction": entry.transaction,
            "parameters": dict(entry.parameters),
            "metrics": dict(entry.metrics),
            "files": files,
        },
    )
