"""The log that makes a folder of Parquet files a table: created after its files are ready, dropped before they change.

The entry is kept in the hidden folder, so that an interrupted change can be completed and an undone one repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geolake_nb.errors import AlreadyThereError, ConflictError
from geolake_nb.formats.parquet_folder.journal import FIRST_ENTRY, kept_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.storage.storage import Storage

__all__ = ["create_log", "drop_log", "require_droppable", "stage_log"]

_FOLDER, _, _NAME = FIRST_ENTRY.rpartition("/")
_LATER = "undo the later versions with the tools of the table, or keep it"


def stage_log(storage: Storage, transaction: str, entry: bytes) -> dict[str, Any]:
    """Keep the entry for the change, and return the action that creates the log."""
    path = f"{kept_folder(transaction)}/log.json"
    storage.remove(path)  # of an earlier attempt that did not reach the journal
    storage.put_if_absent(path, entry)
    return {"path": FIRST_ENTRY, "from": path, "bytes": len(entry)}


def create_log(storage: Storage, action: Mapping[str, Any]) -> None:
    """Create the log, unless this change did already; raises where another writer made a table of the files."""
    entry = storage.read(action["from"])
    try:
        storage.put_if_absent(action["path"], entry)
    except AlreadyThereError:
        if storage.read(action["path"]) != entry:
            raise ConflictError(
                "another writer made a table of these files meanwhile",
                where=storage.location,
                remedy="open it; the change of the footers is in the history of the files",
            ) from None


def require_droppable(storage: Storage, action: Mapping[str, Any]) -> None:
    """Raise unless the log has only the entry that this package created."""
    if not storage.exists(action["path"]) or storage.read(action["path"]) != storage.read(action["from"]):
        raise ConflictError("the log is not the one that was created", where=storage.location, remedy="plan again")
    later = _later_entries(storage)
    if later:
        raise ConflictError(f"the table has later versions: {later[0]}", where=storage.location, remedy=_LATER)


def drop_log(storage: Storage, action: Mapping[str, Any]) -> None:
    """Remove the entry, unless that is done already; it comes back where another writer committed meanwhile."""
    if storage.exists(action["path"]):
        require_droppable(storage, action)
        storage.remove(action["path"])
    later = _later_entries(storage)
    if later:
        create_log(storage, action)
        raise ConflictError(f"the table got a version meanwhile: {later[0]}", where=storage.location, remedy=_LATER)
    for entry in storage.list(_FOLDER):  # checksums of the entry
        storage.remove(entry.path)
    storage.remove_folder(_FOLDER)  # empty now


def _later_entries(storage: Storage) -> list[str]:
    """The names of the files that belong to later versions, or to a checkpoint."""
    names = [entry.path.rpartition("/")[2] for entry in storage.list(_FOLDER)]
    own = (_NAME, f".{_NAME}.crc", _NAME.replace(".json", ".crc"))
    # A hidden name is a write that was not finished.
    return sorted(name for name in names if name not in own and not name.startswith("."))
