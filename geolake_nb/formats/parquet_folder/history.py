"""What this package changed in a Parquet dataset, from its journal, and the files that are kept for undo."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from geolake_nb.errors import StorageError
from geolake_nb.formats.parquet_folder.journal import kept_folder, read_journal
from geolake_nb.model.snapshot import VersionInfo

if TYPE_CHECKING:
    from geolake_nb.formats.parquet_folder.journal import JournalEntry
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.storage.storage import Storage

__all__ = ["Kept", "changes_of", "kept_files", "parquet_history"]


@dataclass(frozen=True, slots=True)
class Kept:
    """The files that one change keeps for undo."""

    version: int
    files: int
    bytes: int


def parquet_history(snapshot: Snapshot, *, newest: int | None = None) -> list[VersionInfo]:
    """The changes of a dataset, or the `newest` of them, newest first; none without listings, as on the web."""
    try:
        entries = changes_of(snapshot)
    except StorageError:
        return []
    history = [_info(entry, entries[index - 1].version if index else None) for index, entry in enumerate(entries)]
    return history[::-1][:newest]


def changes_of(snapshot: Snapshot) -> list[JournalEntry]:
    """The changes of this table, not of other files in the same folder, oldest first."""
    if snapshot.details is None:  # built from a list of files
        return []
    storage: Storage = snapshot.details.storage
    entries = read_journal(storage)
    if snapshot.location == storage.location:
        return entries
    paths = set(snapshot.files.table["path"].to_pylist())
    return [
        entry for entry in entries if any(action["path"] in paths for step in entry.steps for action in step.values())
    ]


def kept_files(storage: Storage, entry: JournalEntry) -> Kept | None:
    """The files that a finished change keeps; `None` if there are none."""
    if entry.outcome is None:
        return None
    files = storage.list(kept_folder(entry.transaction), recursive=True)
    return Kept(entry.version, len(files), sum(file.bytes for file in files)) if files else None


def _info(entry: JournalEntry, parent: int | None) -> VersionInfo:
    ended = entry.outcome
    state = " (incomplete)" if ended is None else " (aborted)" if ended.abandoned else ""
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
