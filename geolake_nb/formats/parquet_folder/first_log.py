"""The log or metadata that makes a folder of Parquet files a table: created after its files are ready, dropped before.

Its files are kept in the hidden folder, so that an interrupted change can be completed and an undone one repeated. The
first entry of the log, or the first metadata file, makes the table: the files that it names are created before it and
dropped after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geolake_nb.errors import AlreadyThereError, ConflictError
from geolake_nb.formats.parquet_folder.journal import FIRST_ENTRIES, FIRST_ENTRY, kept_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from geolake_nb.storage.storage import Storage

__all__ = ["create_log", "discard_unlisted", "drop_log", "in_order", "require_droppable", "stage_log"]

_LATER = "undo the later versions with the tools of the table, or keep it"
_METADATA = ".metadata.json"
_AVRO = ".avro"


def stage_log(storage: Storage, transaction: str, files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """Keep the files for the change, and return the actions that create them, by their paths."""
    actions: list[dict[str, Any]] = []
    for path, data in files.items():
        name = path.rpartition("/")[2]
        # No table of its own: not in a folder named metadata.
        kept = f"{kept_folder(transaction)}/{'log.json' if path in FIRST_ENTRIES else name}"
        storage.remove(kept)  # of an earlier attempt that did not reach the journal
        storage.put_if_absent(kept, data)
        actions.append({"path": path, "from": kept, "bytes": len(data)})
    return actions


def in_order(actions: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """In the order in which they are created: a reader finds no metadata before what it names.

    >>> names = ["version-hint.text", "v1.metadata.json", "a.avro"]
    >>> [action["path"] for action in in_order([{"path": f"metadata/{name}"} for name in names])]
    ['metadata/a.avro', 'metadata/v1.metadata.json', 'metadata/version-hint.text']
    """

    def rank(action: Mapping[str, Any]) -> int:
        path: str = action["path"]
        return 0 if path.endswith(_AVRO) else 1 if path in FIRST_ENTRIES else 2

    return sorted(actions, key=rank)


def create_log(storage: Storage, action: Mapping[str, Any]) -> None:
    """Create the file, unless this change did already; raises where another writer made a table of the files."""
    data = storage.read(action["from"])
    try:
        storage.put_if_absent(action["path"], data)
    except AlreadyThereError:
        # A later version of the table has its own hint.
        if action["path"] in FIRST_ENTRIES and storage.read(action["path"]) != data:
            raise ConflictError(
                "another writer made a table of these files meanwhile",
                where=storage.location,
                remedy="open it; the change of the footers is in the history of the files",
            ) from None


def discard_unlisted(storage: Storage, actions: Iterable[Mapping[str, Any]]) -> None:
    """Remove the files that were created for a table which another writer has made."""
    for action in actions:
        if action["path"].endswith(_AVRO):
            storage.remove(action["path"])


def require_droppable(storage: Storage, action: Mapping[str, Any]) -> None:
    """Raise unless the log has only what this package created."""
    if action["path"] not in FIRST_ENTRIES:
        return
    if not storage.exists(action["path"]) or storage.read(action["path"]) != storage.read(action["from"]):
        raise ConflictError("the log is not the one that was created", where=storage.location, remedy="plan again")
    later = _later_entries(storage, action["path"])
    if later:
        raise ConflictError(f"the table has later versions: {later[0]}", where=storage.location, remedy=_LATER)


def drop_log(storage: Storage, action: Mapping[str, Any]) -> None:
    """Remove the file, unless that is done already; it comes back where another writer committed meanwhile."""
    path: str = action["path"]
    if path not in FIRST_ENTRIES:
        storage.remove(path)
        storage.remove(_checksum(path))
        _remove_empty(storage, path)
        return
    if storage.exists(path):
        require_droppable(storage, action)
        storage.remove(path)
    later = _later_entries(storage, path)
    if later:
        create_log(storage, action)
        raise ConflictError(f"the table got a version meanwhile: {later[0]}", where=storage.location, remedy=_LATER)
    for name in _checksums(path):
        storage.remove(f"{_folder(path)}/{name}")
    _remove_empty(storage, path)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _checksum(path: str) -> str:
    """Where Hadoop keeps the checksum of a file on a local disk."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.crc"


def _checksums(path: str) -> Sequence[str]:
    name = path.rpartition("/")[2]
    return f".{name}.crc", name.replace(".json", ".crc")


def _remove_empty(storage: Storage, path: str) -> None:
    folder = _folder(path)
    # A hidden name is a write that was not finished.
    left = [entry for entry in storage.list(folder, recursive=True) if not entry.path.startswith(f"{folder}/.")]
    if not left:
        storage.remove_folder(folder)


def _later_entries(storage: Storage, path: str) -> list[str]:
    """The names of the files that belong to later versions, or to a checkpoint."""
    names = [entry.path.rpartition("/")[2] for entry in storage.list(_folder(path))]
    own = (path.rpartition("/")[2], *_checksums(path))
    # A hidden name is a write that was not finished.
    others = sorted(name for name in names if name not in own and not name.startswith("."))
    return others if path == FIRST_ENTRY else [name for name in others if _METADATA in name]
