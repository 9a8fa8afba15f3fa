"""Files move out of a set and into it, such that each move can be made again and taken back.

A store may have done what it calls failed, and who made a move may be gone. So the way back does not go by how far a
move came: it looks at what is there.
"""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import ConflictError
from geolake_nb.formats.parquet.footer_change import FileState, drop_checksum

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.formats.storage import Storage

    Held = Mapping[str, Any]
    Move = tuple[str, Held]

__all__ = ["make_move", "moves_of", "take_back"]


def moves_of(steps: Sequence[Mapping[str, Held]]) -> list[Move]:
    """The steps that move files, in the order in which no row is seen twice: out of a folder, then into it.

    >>> moves_of([{"put": {"path": "b"}}, {"take": {"path": "a"}}, {"footer": {"path": "c"}}])
    [('take', {'path': 'a'}), ('put', {'path': 'b'})]
    """
    return sorted(
        ((kind, held) for step in steps for kind, held in step.items() if kind != "footer"),
        key=lambda one: (os.path.dirname(one[1]["path"]), one[0] == "put"),
    )


def make_move(storage: Storage, kind: str, held: Held) -> None:
    """Move a file as far as it is not moved; raises where another writer is in the way."""
    (_take if kind == "take" else _put)(storage, held)


def take_back(storage: Storage, moves: Sequence[Move]) -> None:
    """Leave the set as it was before the moves, whichever of them were made; files of other writers stay."""
    kept = {held["path"]: held["to"] for kind, held in moves if kind == "take"}
    for kind, held in reversed(moves):
        if kind == "take":
            _untake(storage, held)
        elif held["over"]:
            _unput_over(storage, held, kept.get(held["path"]))
        else:
            _unput(storage, held)


def _take(storage: Storage, held: Held) -> None:
    """Move a file out of the set; one that is replaced by its own name stays until then."""
    path, kept = held["path"], held["to"]
    if not storage.exists(kept):
        FileState.from_dict(held).require(storage)
        storage.link(path, kept)
    if not held["stays"] and storage.exists(path) and _same(storage, path, kept):
        storage.remove(path)


def _untake(storage: Storage, held: Held) -> None:
    path, kept = held["path"], held["to"]
    if not storage.exists(kept):
        return
    if not storage.exists(path):
        storage.link(kept, path)
    elif not _same(storage, path, kept):
        if held["stays"]:
            return  # another writer has replaced it, which would have had the same end without us
        raise ConflictError(
            f"another writer has made a file of this name, and the one that it had is kept as {kept!r}",
            where=f"{storage.location}/{path}",
            remedy="move one of the two away",
        )
    storage.remove(kept)


def _put(storage: Storage, held: Held) -> None:
    """Move a file into the set."""
    path, waiting = held["path"], held["from"]
    where = f"{storage.location}/{path}"
    if not storage.exists(waiting):
        if not storage.exists(path):
            raise ConflictError("the new file is gone", where=where, remedy="write it again")
        return
    if held["over"]:
        drop_checksum(storage, path)
        storage.rename(waiting, path)
        return
    if not storage.exists(path):
        storage.link(waiting, path)
    elif not _same(storage, path, waiting):
        raise ConflictError("another writer has made a file of this name", where=where, remedy="plan again")
    storage.remove(waiting)


def _unput(storage: Storage, held: Held) -> None:
    if _is_ours(storage, held):
        storage.remove(held["path"])


def _unput_over(storage: Storage, held: Held, kept: str | None) -> None:
    """Give a name back to the file that had it, at once: the table may be this file alone."""
    path = held["path"]
    if kept is None or not storage.exists(kept) or not storage.exists(path) or _same(storage, path, kept):
        return
    if _is_ours(storage, held):
        storage.rename(kept, path)


def _is_ours(storage: Storage, held: Held) -> bool:
    """Whether the new file is in its place; it then waits again, too, to be put in another time."""
    path, waiting = held["path"], held["from"]
    if not storage.exists(path):
        return False
    if storage.exists(waiting):
        return _same(storage, path, waiting)
    if storage.size(path) != held["bytes"]:
        return False
    storage.link(path, waiting)
    return True


def _same(storage: Storage, one: str, other: str) -> bool:
    return storage.size(one) == storage.size(other) and storage.parquet_footer(one) == storage.parquet_footer(other)
