"""Deletion vectors in Puffin files: which rows of a data file are deleted."""

from __future__ import annotations

import zlib
from bisect import bisect_left
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.errors import CorruptTableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["DeletionVector", "read_bitmap", "read_vector"]

_MAGIC = b"\xd1\xd3\x39\x64"
_WITH_RUNS = 12347
_WITHOUT_RUNS = 12346
_FEW_CONTAINERS = 4
"""Roaring, Offset header: a bitmap with runs and fewer containers has none."""
_MAX_IN_ARRAY = 4096
_BITMAP_BYTES = 8192


class DeletionVector:
    """The positions of deleted rows, compressed as stored: a few bytes may represent any number of them."""

    def __init__(self, containers: Sequence[_Container]) -> None:
        """The containers are in the order of their keys."""
        self._containers = containers
        self._keys = [container.key for container in containers]
        self._unpacked: tuple[int, NDArray[np.int64]] | None = None

    def between(self, start: int, end: int) -> NDArray[np.int64]:
        """The positions from `start` to before `end`, sorted.

        >>> DeletionVector([]).between(0, 100)
        array([], dtype=int64)
        """
        first, last = bisect_left(self._keys, start >> 16), bisect_left(self._keys, -(-end >> 16))
        parts = [self._positions(number) for number in range(first, last)]
        parts = [part[np.searchsorted(part, start) : np.searchsorted(part, end)] for part in parts]
        return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.int64), *parts])

    def _positions(self, number: int) -> NDArray[np.int64]:
        # Batches come in order, and many of them fall into one container.
        if self._unpacked is None or self._unpacked[0] != number:
            self._unpacked = number, self._containers[number].positions()
        return self._unpacked[1]


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
    if body[:4] != _MAGIC:
        raise CorruptTableError("the deletion vector has a wrong length or magic number", where=where)
    return DeletionVector(_Bytes(body[4:], rows, where).containers())


class _Kind(Enum):
    ARRAY = "the lowest 16 bits of each position"
    BITS = "a bit for each of 65,536 positions"
    RUNS = "starts, and how many positions follow each"


@dataclass(frozen=True, slots=True, eq=False)
class _Container:
    """The positions that share all but their lowest 16 bits."""

    key: int
    kind: _Kind
    data: NDArray[Any]

    @property
    def last(self) -> int:
        """Its last position, or the first possible one if it is empty."""
        if not len(self.data):
            return self.key << 16
        if self.kind is _Kind.BITS:
            byte = int(np.flatnonzero(self.data)[-1])
            return (self.key << 16) + 8 * byte + int(self.data[byte]).bit_length() - 1
        return (self.key << 16) + int(self.data[-1]) + (int(self.data[-2]) if self.kind is _Kind.RUNS else 0)

    def positions(self) -> NDArray[np.int64]:
        if self.kind is _Kind.ARRAY:
            low = self.data.astype(np.int64)
        elif self.kind is _Kind.BITS:
            low = np.flatnonzero(np.unpackbits(self.data, bitorder="little")).astype(np.int64)
        else:
            starts, sizes = self.data[::2].astype(np.int64), self.data[1::2].astype(np.int64) + 1
            before = np.cumsum(sizes) - sizes
            low = np.repeat(starts - before, sizes) + np.arange(sizes.sum())
        return low + (self.key << 16)


class _Bytes:
    """A 64-bit Roaring bitmap in its portable form; no count is trusted beyond the bytes that are there."""

    def __init__(self, data: bytes, rows: int, where: str) -> None:
        self._data = data
        self._rows = self._rows_left = rows
        self._where = where
        self._position = 0

    def containers(self) -> list[_Container]:
        count = int(self._numbers("<u8", 1)[0])
        result: list[_Container] = []
        if count > len(self._data) // 8:
            raise self._broken()
        for _ in range(count):
            high = int(self._numbers("<u4", 1)[0])
            for container in self._bitmap(high << 16):
                if result and container.key <= result[-1].key:
                    raise self._broken()
                if container.last >= self._rows:
                    raise self._too_many()
                result.append(container)
        return result

    def _bitmap(self, high: int) -> list[_Container]:
        cookie = int(self._numbers("<u4", 1)[0])
        if cookie & 0xFFFF == _WITH_RUNS:
            count = (cookie >> 16) + 1
            bits = np.frombuffer(self._take((count + 7) // 8), np.uint8)
            runs = np.unpackbits(bits, bitorder="little")[:count].astype(np.bool_)
            has_offsets = count >= _FEW_CONTAINERS
        elif cookie == _WITHOUT_RUNS:
            count = int(self._numbers("<u4", 1)[0])
            if count > 1 << 16:
                raise self._broken()
            runs, has_offsets = np.zeros(count, np.bool_), True
        else:
            raise self._broken()
        header = self._numbers("<u2", 2 * count).astype(np.int64)
        if has_offsets:
            self._take(4 * count)
        return [
            self._container(high + key, size + 1, is_run=is_run)
            for key, size, is_run in zip(header[::2].tolist(), header[1::2].tolist(), runs.tolist(), strict=True)
        ]

    def _container(self, key: int, size: int, *, is_run: bool) -> _Container:
        if is_run:
            count = int(self._numbers("<u2", 1)[0])
            pairs = self._numbers("<u2", 2 * count)
            # Roaring, Container storage: the runs are sorted and do not overlap. Overlapping ones expand to any size.
            ends = pairs[::2].astype(np.int64) + pairs[1::2] + 1
            if (pairs[2::2] < ends[:-1]).any() or (ends > 1 << 16).any():
                raise self._broken()
            self._expect_rows(count + int(pairs[1::2].sum(dtype=np.int64)))
            return _Container(key, _Kind.RUNS, pairs)
        self._expect_rows(size)
        if size <= _MAX_IN_ARRAY:
            array = self._numbers("<u2", size)
            if (array[1:] <= array[:-1]).any():
                raise self._broken()
            return _Container(key, _Kind.ARRAY, array)
        bits = np.frombuffer(self._take(_BITMAP_BYTES), np.uint8)
        if int(np.bitwise_count(bits).sum(dtype=np.int64)) != size:
            raise self._broken()
        return _Container(key, _Kind.BITS, bits)

    def _expect_rows(self, count: int) -> None:
        self._rows_left -= count
        if self._rows_left < 0:
            raise self._too_many()

    def _numbers(self, kind: str, count: int) -> NDArray[Any]:
        return np.frombuffer(self._take(np.dtype(kind).itemsize * count), kind)

    def _take(self, count: int) -> bytes:
        taken = self._data[self._position : self._position + count]
        if len(taken) != count:
            raise self._broken()
        self._position += count
        return taken

    def _too_many(self) -> CorruptTableError:
        return CorruptTableError(
            f"the deletion vector deletes rows beyond the {self._rows:,} of its data file",
            where=self._where,
        )

    def _broken(self) -> CorruptTableError:
        return CorruptTableError("the bitmap of the deletion vector cannot be read", where=self._where)
