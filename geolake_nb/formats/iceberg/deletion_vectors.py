"""Deletion vectors in Puffin files: which rows of a data file are gone."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from geolake_nb.errors import CorruptTableError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["read_vector"]

_MAGIC = b"\xd1\xd3\x39\x64"
_WITH_RUNS = 12347
_WITHOUT_RUNS = 12346
_FEW_CONTAINERS = 4
"""Roaring, Offset header: a bitmap with runs and fewer containers has none."""
_MOST_IN_ARRAY = 4096
_BITMAP_BYTES = 8192
_MOST_ROWS = 1 << 26
"""Runs of a few bytes stand for 65,536 rows each: more of them than any data file has are not unpacked."""


def read_vector(blob: bytes, *, where: str) -> NDArray[np.int64]:
    """The places of the deleted rows, sorted, from the blob of a `deletion-vector-v1`.

    >>> read_vector(b"", where="a.puffin")
    Traceback (most recent call last):
    geolake_nb.errors.CorruptTableError: a.puffin: the deletion vector is cut short
    """
    # Puffin, deletion-vector-v1: length, magic, the bitmap, and a checksum of the last two; big-endian numbers.
    if len(blob) < 20:
        raise CorruptTableError("the deletion vector is cut short", where=where)
    length = int.from_bytes(blob[:4], "big")
    body, checksum = blob[4 : 4 + length], blob[4 + length : 8 + length]
    if len(body) != length or len(checksum) != 4 or body[:4] != _MAGIC:
        raise CorruptTableError("the deletion vector is not framed as such", where=where)
    if zlib.crc32(body) != int.from_bytes(checksum, "big"):
        raise CorruptTableError("the checksum of the deletion vector is wrong", where=where)
    return _Bytes(body[4:], where).positions()


class _Bytes:
    """A 64-bit Roaring bitmap in its portable form, of which no count is believed that the bytes do not hold."""

    def __init__(self, data: bytes, where: str) -> None:
        self._data = data
        self._where = where
        self._place = 0
        self._rows_left = _MOST_ROWS

    def positions(self) -> NDArray[np.int64]:
        count = int(self._numbers("<u8", 1)[0])
        found: list[NDArray[np.int64]] = []
        if count > len(self._data) // 8:
            raise self._broken()
        for _ in range(count):
            high = int(self._numbers("<u4", 1)[0])
            found += [low + (high << 32) for low in self._bitmap()]
        places = np.concatenate(found) if found else np.zeros(0, np.int64)
        if len(places) > 1 and not (np.diff(places) > 0).all():
            raise self._broken()
        return places

    def _bitmap(self) -> list[NDArray[np.int64]]:
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
            self._container(size + 1, is_run=is_run) + (key << 16)
            for key, size, is_run in zip(header[::2].tolist(), header[1::2].tolist(), runs.tolist(), strict=True)
        ]

    def _container(self, size: int, *, is_run: bool) -> NDArray[np.int64]:
        if is_run:
            count = int(self._numbers("<u2", 1)[0])
            pairs = self._numbers("<u2", 2 * count).astype(np.int64)
            starts, sizes = pairs[::2], pairs[1::2] + 1
            # Roaring, Container storage: the runs are sorted and do not overlap. Those that do unpack to any size.
            ends = starts + sizes
            if (starts[1:] < ends[:-1]).any() or (ends > 1 << 16).any():
                raise self._broken()
            self._expect_rows(int(sizes.sum()))
            before = np.cumsum(sizes) - sizes
            return np.repeat(starts - before, sizes) + np.arange(sizes.sum())
        self._expect_rows(size)
        if size <= _MOST_IN_ARRAY:
            return self._numbers("<u2", size).astype(np.int64)
        bits = np.frombuffer(self._take(_BITMAP_BYTES), np.uint8)
        return np.flatnonzero(np.unpackbits(bits, bitorder="little")).astype(np.int64)

    def _expect_rows(self, count: int) -> None:
        self._rows_left -= count
        if self._rows_left < 0:
            what = f"the deletion vector takes away more than {_MOST_ROWS:,} rows of one file"
            raise CorruptTableError(what, where=self._where)

    def _numbers(self, kind: str, count: int) -> NDArray[np.int64]:
        return np.frombuffer(self._take(np.dtype(kind).itemsize * count), kind)

    def _take(self, count: int) -> bytes:
        taken = self._data[self._place : self._place + count]
        if len(taken) != count:
            raise self._broken()
        self._place += count
        return taken

    def _broken(self) -> CorruptTableError:
        return CorruptTableError("the bitmap of the deletion vector cannot be read", where=self._where)
