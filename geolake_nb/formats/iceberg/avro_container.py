"""The Avro container of manifests: its header, and its blocks, decompressed within limits.

Codecs come from zlib, bz2, lzma and Arrow. Sizes in a file are not trusted: a block
may not decompress to more than `MAX_BLOCK` bytes, nor a whole file to more than `MAX_FILE`.
"""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.errors import CorruptTableError, UnsupportedTableError
from geolake_nb.text.untrusted_json import load_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["AVRO_ERRORS", "MAX_BLOCK", "MAX_FILE", "AvroBlock", "AvroHeader", "read_blocks", "read_header"]

AVRO_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
"""What an Avro reader raises on invalid bytes."""
MAX_BLOCK = 256 * 1024 * 1024
"""Bytes; writers close a block after some 16 to 64 thousand."""

MAX_FILE = 4 * 1024 * 1024 * 1024
"""Bytes; Iceberg aims at manifests of 8 million bytes, packed."""

_MAGIC = b"Obj\x01"
_SYNC_LENGTH = 16
_STEP = 1024 * 1024


@dataclass(frozen=True, slots=True)
class AvroHeader:
    """The header of a container, before its first block."""

    schema: Any
    """The schema that it was written with, as JSON."""
    metadata: Mapping[str, bytes]
    codec: str
    sync: bytes
    end: int
    """Where the first block starts."""


@dataclass(frozen=True, slots=True)
class AvroBlock:
    """Some records, decompressed."""

    records: int
    data: bytes


def read_header(data: bytes, *, where: str) -> AvroHeader:
    """The header of an Avro file.

    >>> read_header(b"PAR1", where="m0.avro")
    Traceback (most recent call last):
    geolake_nb.errors.CorruptTableError: m0.avro: not an Avro file: it does not start with 'Obj'
    """
    if data[:4] != _MAGIC:
        raise CorruptTableError("not an Avro file: it does not start with 'Obj'", where=where)
    cursor = _Cursor(data, 4, where)
    metadata: dict[str, bytes] = {}
    while count := cursor.long():
        if count < 0:
            cursor.long()  # the size of this part of the map
        for _ in range(abs(count)):
            key = cursor.text()
            metadata[key.decode("utf-8", "replace")] = cursor.text()
    if "avro.schema" not in metadata:
        raise CorruptTableError("the Avro header has no schema", where=where)
    schema = load_json(metadata["avro.schema"], what="the Avro schema", where=where, error=CorruptTableError)
    codec = metadata.get("avro.codec", b"null").decode("utf-8", "replace")
    if codec not in _CODECS:
        known = ", ".join(sorted(_CODECS))
        raise UnsupportedTableError(f"unsupported Avro codec {codec[:40]!r}", where=where, remedy=f"supported: {known}")
    return AvroHeader(schema, metadata, codec, cursor.take(_SYNC_LENGTH), cursor.position)


def read_blocks(data: bytes, header: AvroHeader, *, where: str) -> Iterator[AvroBlock]:
    """The blocks after the header, decompressed one at a time."""
    cursor = _Cursor(data, header.end, where)
    unpack = _CODECS[header.codec]
    left = MAX_FILE
    while cursor.position < len(data):
        records, size = cursor.long(), cursor.long()
        if records < 0 or size < 0:
            raise CorruptTableError("an Avro block has a negative size", where=where)
        packed = cursor.take(size)
        if cursor.take(_SYNC_LENGTH) != header.sync:
            raise CorruptTableError("an Avro block does not end with the file's sync marker", where=where)
        try:
            block = unpack(packed, min(left, MAX_BLOCK))
        except _Oversized:
            what = f"an Avro block of {size} bytes decompresses to more than {min(left, MAX_BLOCK)}"
            raise CorruptTableError(what, where=where) from None
        except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError, pa.ArrowException) as problem:
            what = f"an Avro block cannot be decompressed: {problem}"
            raise CorruptTableError(what, where=where) from None
        left -= len(block)
        yield AvroBlock(records, block)


class _Oversized(Exception):  # noqa: N818
    """A block decompresses to more than the limit."""


class _Cursor:
    """A position in the bytes of a file that advances as values are read."""

    def __init__(self, data: bytes, position: int, where: str) -> None:
        self._data = data
        self._where = where
        self.position = position

    def long(self) -> int:
        value = shift = 0
        while shift < 70:
            if self.position >= len(self._data):
                raise CorruptTableError("the Avro file is truncated", where=self._where)
            byte = self._data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise CorruptTableError("a number in the Avro file is longer than ten bytes", where=self._where)

    def text(self) -> bytes:
        return self.take(self.long())

    def take(self, length: int) -> bytes:
        if not 0 <= length <= len(self._data) - self.position:
            raise CorruptTableError("the Avro file is truncated", where=self._where)
        taken = self._data[self.position : self.position + length]
        self.position += length
        return taken


def _plain(packed: bytes, limit: int) -> bytes:
    if len(packed) > limit:
        raise _Oversized
    return packed


def _bounded(decompress: Callable[[bytes, int], bytes], packed: bytes, limit: int) -> bytes:
    # One byte more than allowed distinguishes a block that fits exactly from one that is too large.
    block = decompress(packed, limit + 1)
    if len(block) > limit:
        raise _Oversized
    return block


def _deflate(packed: bytes, limit: int) -> bytes:
    engine = zlib.decompressobj(-zlib.MAX_WBITS)
    block = _bounded(engine.decompress, packed, limit)
    if not engine.eof:
        raise ValueError("the compressed data is truncated")
    return block


def _bzip2(packed: bytes, limit: int) -> bytes:
    return _bounded(bz2.BZ2Decompressor().decompress, packed, limit)


def _xz(packed: bytes, limit: int) -> bytes:
    return _bounded(lzma.LZMADecompressor().decompress, packed, limit)


def _zstandard(packed: bytes, limit: int) -> bytes:
    # Arrow allocates the requested size at once: small reads keep a small block cheap.
    parts, size = [], 0
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        while part := stream.read(_STEP):
            parts.append(part)
            size += len(part)
            if size > limit:
                raise _Oversized
    return b"".join(parts)


def _snappy(packed: bytes, limit: int) -> bytes:
    # Avro, Required and optional codecs: four bytes of CRC-32 of the unpacked data follow the snappy block.
    body, checksum = packed[:-4], packed[-4:]
    size = _snappy_size(body)
    if size > limit:
        raise _Oversized
    block = pa.decompress(body, decompressed_size=size, codec="snappy", asbytes=True)
    if zlib.crc32(block) != int.from_bytes(checksum, "big"):
        raise ValueError("the checksum does not match")
    return bytes(block)


def _snappy_size(body: bytes) -> int:
    """The size at the start of a snappy block, a varint."""
    size = 0
    for index, byte in enumerate(body[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return size
    raise ValueError("a snappy block has no size")


_CODECS: dict[str, Callable[[bytes, int], bytes]] = {
    "bzip2": _bzip2,
    "deflate": _deflate,
    "null": _plain,
    "snappy": _snappy,
    "xz": _xz,
    "zstandard": _zstandard,
}
