"""Moves files out of a dataset and into it, such that each move can be repeated and reverted.

A store may have done what it reports as failed, and the process that moved a file may be gone. So a revert does not
rely on the progress of a move: it checks which files exist.
"""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import ConflictError
from geolake_nb.formats.parquet_folder.footer_change import FileState, drop_checksum
from geolake_nb.parquet.footer import read_footer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.storage.storage import Storage

    Action = Mapping[str, Any]
    Move = tuple[str, Action]

__all__ = ["make_move", "moves_of", "revert_moves"]


def moves_of(steps: Sequence[Mapping[str, Action]]) -> list[Move]:
    """The steps that move files, in an order in which no row is visible twice: out of a folder, then into it.

    >>> moves_of([{"put": {"path": "b"}}, {"take": {"path": "a"}}, {"footer": {"path": "c"}}])
    [('take', {'path': 'a'}), ('put', {'path': 'b'})]
    """
    return sorted(
        ((kind, action) for step in steps for kind, action in step.items() if kind != "footer"),
        key=lambda move: (os.path.dirname(move[1]["path"]), move[0] == "put"),
    )


def make_move(storage: Storage, kind: str, action: Action) -> None:
    """Move a file unless it was moved already; raises if another writer conflicts."""
    (_take if kind == "take" else _put)(storage, action)


def revert_moves(storage: Storage, moves: Sequence[Move]) -> None:
    """Revert the moves, whichever of them were made; files of other writers stay."""
    kept = {action["path"]: action["to"] for kind, action in moves if kind == "take"}
    for kind, action in reversed(moves):
        if kind == "take":
            _untake(storage, action)
        elif action["over"]:
            _unput_over(storage, action, kept.get(action["path"]))
        else:
            _unput(storage, action)


def _take(storage: Storage, action: Action) -> None:
    """Move a file out of the dataset; one that is replaced by a file of the same name stays until then."""
    path, kept = action["path"], action["to"]
    if not storage.exists(kept):
        FileState.from_dict(action).require(storage)
        storage.link(path, kept)
    if not action["stays"] and storage.exists(path) and _same(storage, path, kept):
        storage.remove(path)


def _untake(storage: Storage, action: Action) -> None:
    path, kept = action["path"], action["to"]
    if not storage.exists(kept):
        return
    if not storage.exists(path):
        storage.link(kept, path)
    elif not _same(storage, path, kept):
        if action["stays"]:
            return  # another writer has replaced it, with the same result as without us
        raise ConflictError(
            f"another writer created a file of this name; the original one is kept as {kept!r}",
            where=f"{storage.location}/{path}",
            remedy="move one of the two away",
        )
    storage.remove(kept)


def _put(storage: Storage, action: Action) -> None:
    """Move a file into the dataset."""
    path, waiting = action["path"], action["from"]
    where = f"{storage.location}/{path}"
    if not storage.exists(waiting):
        if not storage.exists(path):
            raise ConflictError("the new file is missing", where=where, remedy="write it again")
        return
    if action["over"]:
        drop_checksum(storage, path)
        storage.rename(waiting, path)
        return
    if not storage.exists(path):
        storage.link(waiting, path)
    elif not _same(storage, path, waiting):
        raise ConflictError("another writer created a file of this name", where=where, remedy="plan again")
    storage.remove(waiting)


def _unput(storage: Storage, action: Action) -> None:
    if _is_ours(storage, action):
        storage.remove(action["path"])


def _unput_over(storage: Storage, action: Action, kept: str | None) -> None:
    """Restore the original file atomically: it may be the only file of the table."""
    path = action["path"]
    if kept is None or not storage.exists(kept) or not storage.exists(path) or _same(storage, path, kept):
        return
    if _is_ours(storage, action):
        storage.rename(kept, path)


def _is_ours(storage: Storage, action: Action) -> bool:
    """Whether the new file is at its path; a copy is then staged again, so that it can be put there another time."""
    path, waiting = action["path"], action["from"]
    if not storage.exists(path):
        return False
    if storage.exists(waiting):
        return _same(storage, path, waiting)
    if storage.size(path) != action["bytes"]:
        return False
    storage.link(path, waiting)
    return True


def _same(storage: Storage, first: str, other: str) -> bool:
    return storage.size(first) == storage.size(other) and read_footer(storage, first) == read_footer(storage, other)
