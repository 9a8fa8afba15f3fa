"""Deletion vectors of Delta and Iceberg: which rows of a data file are deleted, by position."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.errors import CorruptTableError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DeletionVector", "read_bitmap", "read_vector"]

_MAGIC = b"\xd1\xd3\x39\x64"


class DeletionVector:
    """The positions of deleted rows, compressed as stored: a few bytes may represent any number of them."""

    def __init__(self, positions: Any) -> None:
        """The positions are a `pyroaring.BitMap64`."""
        self._positions = positions

    def between(self, start: int, end: int) -> NDArray[np.int64]:
        """The positions from `start` to before `end`, sorted.

        >>> import pyroaring
        >>> DeletionVector(pyroaring.BitMap64([3, 70_000])).between(0, 100)
        array([3])
        """
        first = self._positions.rank(start - 1) if start else 0
        # A slice of no elements would be a new bitmap all the same.
        last = self._positions.rank(end - 1) if end else 0
        return np.array(self._positions[first:last].to_array() if first < last else (), np.int64)


def read_vector(blob: bytes, *, rows: int, where: str) -> DeletionVector:
    """The rows that the blob of a `deletion-vector-v1` deletes from a data file of that many rows.

    >>> read_vector(b"", rows=4, where="a.puffin")
    Traceback (most recent call last):
    geolake_nb.errors.CorruptTableError: a.puffin: the deletion vector is truncated
    """
    # Puffin, deletion-vector-v1: length, magic, the bitmap, and a checksum of the last two; big-endian numbers.
    if len(blob) < 20:
        raise CorruptTableError("the deletion vector is truncated", where=where)
    length = int.from_bytes(blob[:4], "big")
    body, checksum = blob[4 : 4 + length], blob[4 + length : 8 + length]
    if len(body) != length or len(checksum) != 4 or body[:4] != _MAGIC:
        raise CorruptTableError("the deletion vector has a wrong length or magic number", where=where)
    if zlib.crc32(body) != int.from_bytes(checksum, "big"):
        raise CorruptTableError("the checksum of the deletion vector is wrong", where=where)
    return read_bitmap(body, rows=rows, where=where)


def read_bitmap(body: bytes, *, rows: int, where: str) -> DeletionVector:
    """The same for the magic number and the bitmap alone, as in the log of a Delta table.

    >>> read_bitmap(b"abc", rows=4, where="a.parquet")
    Traceback (most recent call last):
    geolake_nb.errors.CorruptTableError: a.parquet: the deletion vector has a wrong length or magic number
    """
    import pyroaring

    if body[:4] != _MAGIC:
        raise CorruptTableError("the deletion vector has a wrong length or magic number", where=where)
    try:
        # Refuses what is cut off, not sorted, or overlaps.
        positions = pyroaring.BitMap64.deserialize(body[4:])
    except ValueError:
        raise CorruptTableError("the bitmap of the deletion vector cannot be read", where=where) from None
    if positions and positions.max() >= rows:
        what = f"the deletion vector deletes rows beyond the {rows:,} of its data file"
        raise CorruptTableError(what, where=where)
    return DeletionVector(positions)
