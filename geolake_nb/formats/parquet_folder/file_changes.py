"""The steps of a change, file by file: replaced footers and moved files, each repeatable and revertible.

A store may have done what it reports as failed, and the process that moved a file may be gone. So a revert does not
rely on the progress of a move: it checks which files exist.
"""

from __future__ import annotations

import hashlib
import os
import os.path
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.errors import ConflictError, CorruptTableError
from geolake_nb.model.box import Box
from geolake_nb.model.crs import Crs
from geolake_nb.model.types import EdgeAlgorithm, GeographyType, GeometryType
from geolake_nb.parquet.footer import parse_footer, read_footer
from geolake_nb.parquet.footer_boxes import BOX_MARK, box_digest
from geolake_nb.parquet.footer_edit import ChunkStats, LeafEdit, edit_footer, footer_with_tail

if TYPE_CHECKING:
    import builtins
    from collections.abc import Mapping, Sequence

    import pyarrow.parquet as pq

    from geolake_nb.model.types import GeoType
    from geolake_nb.storage.storage import Storage

    Action = Mapping[str, Any]
    Move = tuple[str, Action]

__all__ = [
    "FileState",
    "FooterChange",
    "drop_checksum",
    "footer_digest",
    "make_move",
    "moves_of",
    "put_footer",
    "revert_moves",
]

_NO_DIGEST = "?" * 32
"""As long as a digest."""
_SIDES = ("xmin", "ymin", "xmax", "ymax", "zmin", "zmax", "mmin", "mmax")


def footer_digest(footer: bytes) -> str:
    """A digest that identifies a footer.

    >>> footer_digest(b"")[:8]
    'e3b0c442'
    """
    return hashlib.sha256(footer).hexdigest()


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as it was when a change of it was planned."""

    path: str
    bytes: int
    footer: str
    """The digest of its footer."""
    modified: str | None = None
    """When it was last modified, if the store reports that."""

    @classmethod
    def now(cls, storage: Storage, path: str) -> FileState:
        """The file as it is."""
        return cls.of(storage, path, read_footer(storage, path))

    @classmethod
    def of(cls, storage: Storage, path: str, footer: builtins.bytes) -> FileState:
        """The file as it is; its footer was already read."""
        entry = storage.stat(path)
        modified = None if entry.modified is None else entry.modified.isoformat()
        return cls(path, entry.bytes, footer_digest(footer), modified)

    def require(self, storage: Storage) -> None:
        """Raise if the file is not as it was."""
        if FileState.now(storage, self.path) != self:
            raise ConflictError(
                "the file was changed since the plan was made, and is left unchanged",
                where=f"{storage.location}/{self.path}",
                remedy="plan again",
            )

    def to_dict(self) -> dict[str, Any]:
        """`path, bytes, footer, modified`."""
        return {"path": self.path, "bytes": self.bytes, "footer": self.footer, "modified": self.modified}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> FileState:
        """The inverse of `to_dict`."""
        return cls(value["path"], value["bytes"], value["footer"], value.get("modified"))


@dataclass(frozen=True, slots=True, eq=False)
class FooterChange:
    """A change of the footer of a file.

    >>> change = FooterChange(FileState("a.parquet", 9, "ab"), {("g",): LeafEdit(GeometryType())}, {"geo": "{}"})
    >>> FooterChange.from_dict(change.to_dict()).to_dict() == change.to_dict()
    True
    """

    file: FileState
    leaves: Mapping[tuple[str, ...], LeafEdit] = field(default_factory=dict)
    """By the names in the file, from the top down."""
    properties: Mapping[str, str | None] = field(default_factory=dict)
    marked: bool = False
    """Whether this package then wrote all boxes of the file."""

    def edited(self, footer: bytes) -> bytes:
        """The new footer, from the current one."""
        where = self.file.path
        mark = _NO_DIGEST if self.marked else None
        new = edit_footer(footer, self.leaves, properties={**self.properties, BOX_MARK: mark}, where=where)
        if mark is None:
            return new
        digest = box_digest(parse_footer(new, where=where))  # of boxes, which the mark is not among
        if new.count(mark.encode()) == 1:
            return new.replace(mark.encode(), digest.encode())
        return edit_footer(new, {}, properties={BOX_MARK: digest}, where=where)

    def to_dict(self) -> dict[str, Any]:
        """The file, its `columns` with type and row groups, `properties`, `marked`."""
        columns = [
            {
                "leaf": list(leaf),
                "type": _type_dict(edit.type),
                "groups": None if edit.groups is None else [_group_dict(group) for group in edit.groups],
            }
            for leaf, edit in self.leaves.items()
        ]
        members = {"columns": columns, "properties": dict(self.properties), "marked": self.marked}
        return {**self.file.to_dict(), **members}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> FooterChange:
        """The inverse of `to_dict`."""
        leaves = {
            tuple(column["leaf"]): LeafEdit(
                _type_of(column["type"]),
                None if column["groups"] is None else [_group_of(each) for each in column["groups"]],
            )
            for column in value["columns"]
        }
        return cls(FileState.from_dict(value), leaves, value["properties"], value["marked"])


def put_footer(storage: Storage, file: FileState, footer: bytes) -> None:
    """Replace the footer of a file: its pages are copied unchanged, and the new file is verified before it replaces it.

    A file that is not in the given state raises `ConflictError`, also if it changes while it is copied.
    """
    file.require(storage)
    old = read_footer(storage, file.path)
    end = file.bytes - 8 - len(old)
    with storage.atomic_replace(file.path) as temporary:
        with open(temporary, "wb") as out:
            for piece in storage.iter_chunks(file.path, end):
                out.write(piece)
            out.write(footer_with_tail(footer))
            out.flush()
            os.fsync(out.fileno())
        _verify_pages(storage, file, temporary, end)
        _verify_footer(f"{storage.location}/{file.path}", temporary, old, footer)
        file.require(storage)
        drop_checksum(storage, file.path)


def drop_checksum(storage: Storage, path: str) -> None:
    """Remove the checksum that Hadoop keeps next to a local file, before the file is replaced: it matches the old one.

    Without a checksum Hadoop reads the file unchecked; with a wrong one it fails.
    """
    if storage.is_local:
        folder, slash, name = path.rpartition("/")
        storage.remove(f"{folder}{slash}.{name}.crc")


def _verify_pages(storage: Storage, file: FileState, temporary: str, end: int) -> None:
    """Raise unless the file at `temporary` begins with the pages of the old one."""
    with open(temporary, "rb") as made:
        for piece in map(pa.py_buffer, storage.iter_chunks(file.path, end)):
            if not piece.equals(pa.py_buffer(made.read(piece.size))):
                raise CorruptTableError(
                    "the copy of the pages differs from the original and is discarded",
                    where=f"{storage.location}/{file.path}",
                )


def _verify_footer(where: str, temporary: str, old: bytes, new: bytes) -> None:
    """Raise unless the file at `temporary` ends with the new footer, which describes the same pages as the old one."""
    tail = footer_with_tail(new)
    with open(temporary, "rb") as made:
        made.seek(-len(tail), os.SEEK_END)
        if made.read() != tail:
            raise CorruptTableError(
                "the footer on the disk differs from what was written and is discarded", where=where
            )
    if _pages(parse_footer(old, where=where)) != _pages(parse_footer(new, where=where)):
        raise CorruptTableError("the new footer does not match the pages and is discarded", where=where)


def _pages(metadata: pq.FileMetaData) -> list[tuple[Any, ...]]:
    """The offsets and the properties of the columns, without their logical types."""
    schema = metadata.schema
    facts: list[tuple[Any, ...]] = [(metadata.num_rows, metadata.num_row_groups, metadata.created_by)]
    for index in range(len(schema)):
        column = schema.column(index)
        levels = column.max_definition_level, column.max_repetition_level
        facts.append((column.path, column.physical_type, column.length, *levels))
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        facts.append((group.num_rows, group.total_byte_size))
        for index in range(group.num_columns):
            chunk = group.column(index)
            offsets = chunk.data_page_offset, chunk.dictionary_page_offset, chunk.total_compressed_size
            facts.append((*offsets, chunk.num_values, chunk.compression, chunk.encodings))
    return facts


def _type_dict(type_: GeoType) -> dict[str, Any]:
    members = {"crs": type_.crs.text, "definition": type_.crs.resolved}
    if isinstance(type_, GeographyType):
        return {"kind": "geography", **members, "algorithm": type_.algorithm.value}
    return {"kind": "geometry", **members}


def _type_of(value: Mapping[str, Any]) -> GeoType:
    crs = Crs(value["crs"], value["definition"])
    if value["kind"] == "geography":
        return GeographyType(crs, EdgeAlgorithm(value["algorithm"]))
    return GeometryType(crs)


def _group_dict(stats: ChunkStats) -> dict[str, Any]:
    box = None if stats.box is None else {side: getattr(stats.box, side) for side in _SIDES}
    return {
        "box": None if box is None else {side: value for side, value in box.items() if value is not None},
        "types": None if stats.types is None else list(stats.types),
        "placed": stats.placed,
    }


def _group_of(value: Mapping[str, Any]) -> ChunkStats:
    box, types = value["box"], value["types"]
    return ChunkStats(
        None if box is None else Box(**box), None if types is None else tuple(types), placed=value["placed"]
    )


def moves_of(steps: Sequence[Mapping[str, Action]]) -> list[Move]:
    """The steps that move files, in an order in which no row is visible twice: out of a folder, then into it.

    >>> moves_of([{"put": {"path": "b"}}, {"take": {"path": "a"}}, {"footer": {"path": "c"}}])
    [('take', {'path': 'a'}), ('put', {'path': 'b'})]
    """
    return sorted(
        ((kind, action) for step in steps for kind, action in step.items() if kind in ("take", "put")),
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
