"""One Parquet file gets another footer and keeps its pages: what is to change, and the change itself."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.core.box import Box
from geolake_nb.core.crs import Crs
from geolake_nb.core.types import EdgeAlgorithm, GeographyType, GeometryType
from geolake_nb.errors import ConflictError, CorruptTableError
from geolake_nb.formats.parquet.box_mark import BOX_MARK, box_digest
from geolake_nb.formats.parquet.footer import parse_footer
from geolake_nb.formats.parquet.footer_edit import ChunkStats, LeafEdit, edit_footer, footer_with_tail

if TYPE_CHECKING:
    import builtins
    from collections.abc import Mapping

    import pyarrow.parquet as pq

    from geolake_nb.formats.storage import Storage

    GeoType = GeometryType | GeographyType

__all__ = ["FileState", "FooterChange", "drop_checksum", "footer_digest", "put_footer"]

_SIDES = ("xmin", "ymin", "xmax", "ymax", "zmin", "zmax", "mmin", "mmax")


def footer_digest(footer: bytes) -> str:
    """By which a footer is known again.

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
    """When it was changed last, where the store tells."""

    @classmethod
    def now(cls, storage: Storage, path: str) -> FileState:
        """The file as it is."""
        return cls.of(storage, path, storage.parquet_footer(path))

    @classmethod
    def of(cls, storage: Storage, path: str, footer: builtins.bytes) -> FileState:
        """The file as it is; its footer is known already."""
        entry = storage.stat(path)
        modified = None if entry.modified is None else entry.modified.isoformat()
        return cls(path, entry.bytes, footer_digest(footer), modified)

    def require(self, storage: Storage) -> None:
        """Raise if the file is not as it was."""
        if FileState.now(storage, self.path) != self:
            raise ConflictError(
                "the file was changed since the plan was made, and is left alone",
                where=f"{storage.location}/{self.path}",
                remedy="plan again",
            )

    def to_dict(self) -> dict[str, Any]:
        """`path, bytes, footer, modified`."""
        return {"path": self.path, "bytes": self.bytes, "footer": self.footer, "modified": self.modified}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> FileState:
        """The other way round."""
        return cls(value["path"], value["bytes"], value["footer"], value.get("modified"))


@dataclass(frozen=True, slots=True, eq=False)
class FooterChange:
    """What the footer of a file shall say.

    >>> change = FooterChange(FileState("a.parquet", 9, "ab"), {("g",): LeafEdit(GeometryType())}, {"geo": "{}"})
    >>> FooterChange.from_dict(change.to_dict()).to_dict() == change.to_dict()
    True
    """

    file: FileState
    leaves: Mapping[tuple[str, ...], LeafEdit] = field(default_factory=dict)
    """By the names in the file, from the top down."""
    properties: Mapping[str, str | None] = field(default_factory=dict)
    marked: bool = False
    """Whether all boxes of the file are then of this package."""

    def edited(self, footer: bytes) -> bytes:
        """The footer that the file gets; its own is given."""
        where = self.file.path
        new = edit_footer(footer, self.leaves, properties={**self.properties, BOX_MARK: None}, where=where)
        if not self.marked:
            return new
        return edit_footer(new, {}, properties={BOX_MARK: box_digest(parse_footer(new, where=where))}, where=where)

    def to_dict(self) -> dict[str, Any]:
        """The file, its `columns` with type and row groups, `properties`, `marked`."""
        columns = [
            {
                "leaf": list(leaf),
                "type": _type_dict(edit.type),
                "groups": None if edit.groups is None else [_group_dict(one) for one in edit.groups],
            }
            for leaf, edit in self.leaves.items()
        ]
        held = {"columns": columns, "properties": dict(self.properties), "marked": self.marked}
        return {**self.file.to_dict(), **held}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> FooterChange:
        """The other way round."""
        leaves = {
            tuple(one["leaf"]): LeafEdit(
                _type_of(one["type"]), None if one["groups"] is None else [_group_of(each) for each in one["groups"]]
            )
            for one in value["columns"]
        }
        return cls(FileState.from_dict(value), leaves, value["properties"], value["marked"])


def put_footer(storage: Storage, file: FileState, footer: bytes) -> None:
    """Replace the footer of a file: its pages are copied as they are, and the new file is looked at before it counts.

    A file that is not as stated is a `ConflictError`, also if it changes while it is copied.
    """
    file.require(storage)
    old = storage.parquet_footer(file.path)
    end = file.bytes - 8 - len(old)
    with storage.replaced_file(file.path) as place:
        with open(place, "wb") as out:
            for piece in storage.pieces(file.path, end):
                out.write(piece)
            out.write(footer_with_tail(footer))
            out.flush()
            os.fsync(out.fileno())
        _verify_pages(storage, file, place, end)
        _verify_footer(f"{storage.location}/{file.path}", place, old, footer)
        file.require(storage)
        drop_checksum(storage, file.path)


def drop_checksum(storage: Storage, path: str) -> None:
    """Remove the checksum that Hadoop keeps beside a local file, before the file is replaced: it fits the old one only.

    Without one Hadoop reads the file unchecked; with a wrong one it refuses to.
    """
    if storage.is_local:
        folder, slash, name = path.rpartition("/")
        storage.remove(f"{folder}{slash}.{name}.crc")


def _verify_pages(storage: Storage, file: FileState, place: str, end: int) -> None:
    """Raise unless the file at `place` begins with the pages of the old one."""
    with open(place, "rb") as made:
        for piece in map(pa.py_buffer, storage.pieces(file.path, end)):
            if not piece.equals(pa.py_buffer(made.read(piece.size))):
                raise CorruptTableError(
                    "the copy of the pages is not what was copied, and is given up",
                    where=f"{storage.location}/{file.path}",
                )


def _verify_footer(where: str, place: str, old: bytes, new: bytes) -> None:
    """Raise unless the file at `place` ends with the new footer, and that fits the pages as the old one does."""
    tail = footer_with_tail(new)
    with open(place, "rb") as made:
        made.seek(-len(tail), os.SEEK_END)
        if made.read() != tail:
            raise CorruptTableError("the footer on the disk is not what was written, and is given up", where=where)
    if _pages(parse_footer(old, where=where)) != _pages(parse_footer(new, where=where)):
        raise CorruptTableError("the new footer does not fit the pages, and is given up", where=where)


def _pages(metadata: pq.FileMetaData) -> list[tuple[Any, ...]]:
    """Where the columns lie, and what they are but for their logical types."""
    schema = metadata.schema
    told: list[tuple[Any, ...]] = [(metadata.num_rows, metadata.num_row_groups, metadata.created_by)]
    for index in range(len(schema)):
        column = schema.column(index)
        levels = column.max_definition_level, column.max_repetition_level
        told.append((column.path, column.physical_type, column.length, *levels))
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        told.append((group.num_rows, group.total_byte_size))
        for index in range(group.num_columns):
            chunk = group.column(index)
            offsets = chunk.data_page_offset, chunk.dictionary_page_offset, chunk.total_compressed_size
            told.append((*offsets, chunk.num_values, chunk.compression, chunk.encodings))
    return told


def _type_dict(type_: GeoType) -> dict[str, Any]:
    told = {"crs": type_.crs.text, "definition": type_.crs.resolved}
    if isinstance(type_, GeographyType):
        return {"kind": "geography", **told, "algorithm": type_.algorithm.value}
    return {"kind": "geometry", **told}


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
