"""The Avro container of manifests, and its entries as Arrow columns by the compiled walk.

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

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import CorruptTableError, UnsupportedTableError
from geolake_nb.formats.iceberg import avro_kernel as kernel
from geolake_nb.formats.iceberg.avro_program import EntryField, Pool, Program, Slot, compile_entries
from geolake_nb.text.json_text import load_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = [
    "AVRO_ERRORS",
    "MAX_BLOCK",
    "MAX_FILE",
    "AvroBlock",
    "AvroHeader",
    "EntryColumns",
    "read_blocks",
    "read_entries",
    "read_header",
]

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


# Blocks are small: several are walked together.
_BATCH = 8 * 1024 * 1024

# A batch of valid entries has less than a million of either; each takes some tens of bytes.
_MAX_CELLS = 1 << 25
"""Values of fields with one value per entry."""
_MAX_POOLED = 1 << 23
"""Values of maps and lists."""

_FAULTS = {
    kernel.FAULT_BRANCH: "has an invalid union branch",
    kernel.FAULT_FULL: "has more counts, bounds or ids than are read at a time",
    kernel.FAULT_LENGTH: "has a length beyond its block",
    kernel.FAULT_NUMBER: "has a number longer than ten bytes",
    kernel.FAULT_TRUNCATED: "is truncated",
}


@dataclass(frozen=True, slots=True, eq=False)
class EntryColumns:
    """Some entries of a manifest; a column that was not written is all null."""

    header: AvroHeader
    where: str
    _data: NDArray[np.uint8]
    _program: Program
    _values: NDArray[np.int64]
    _lengths: NDArray[np.int32]
    _pools: Mapping[Pool, tuple[NDArray[Any], ...]]

    def __len__(self) -> int:
        return int(self._values.shape[1])

    def longs(self, field: EntryField) -> pa.Array:
        """A field of numbers."""
        slot = self._program.fields.get(field)
        if slot is None:
            return pa.nulls(len(self), pa.int64())
        if slot.type not in ("int", "long", "enum", "boolean"):
            raise CorruptTableError(f"{field.name.lower()} is a {slot.type}, expected a number", where=self.where)
        return self._longs(slot)

    def texts(self, field: EntryField) -> pa.Array:
        """A field of text."""
        slot = self._program.fields.get(field)
        if slot is None:
            return pa.nulls(len(self), pa.string())
        if slot.type not in ("string", "bytes"):
            raise CorruptTableError(f"{field.name.lower()} is a {slot.type}, expected a string", where=self.where)
        try:
            return self._bytes(slot).cast(pa.string())
        except pa.ArrowInvalid:
            raise CorruptTableError(f"{field.name.lower()} is not valid UTF-8", where=self.where) from None

    def has(self, field: EntryField) -> NDArray[np.bool_]:
        """Which entries have the field."""
        slot = self._program.fields.get(field)
        if slot is None:
            return np.zeros(len(self), np.bool_)
        return np.asarray(self._lengths[slot.index] != kernel.NULL)

    def partition(self, field_id: int | None, name: str) -> tuple[str, pa.Array]:
        """A partition field as its Avro type and its values: numbers, or bytes for all others."""
        stored = self._program.partition
        slot = next((slot for (id_, _), slot in stored.items() if id_ is not None and id_ == field_id), None)
        slot = slot or next((slot for (_, other), slot in stored.items() if other == name), None)
        if slot is None:
            return "null", pa.nulls(len(self), pa.int64())
        if slot.type in ("int", "long", "enum", "boolean"):
            return slot.type, self._longs(slot)
        return slot.type, self._bytes(slot)

    def count_of(self, pool: Pool, key: int) -> pa.Array:
        """The numbers that a map holds for a column."""
        rows, values, _, known = self._of_key(pool, key)
        out = np.zeros(len(self), np.int64)
        out[rows] = values
        return pa.array(out, mask=~known)

    def bytes_of(self, pool: Pool, key: int) -> pa.Array:
        """The bytes that a map holds for a column."""
        rows, starts, lengths, known = self._of_key(pool, key)
        all_starts, all_lengths = np.zeros(len(self), np.int64), np.zeros(len(self), np.int32)
        all_starts[rows], all_lengths[rows] = starts, lengths
        return self._gathered(all_starts, all_lengths, known)

    def list_of(self, pool: Pool) -> pa.Array:
        """The numbers of a list, an empty list where there is none."""
        _, row, _, value, _ = self._pools[pool]
        offsets = np.searchsorted(row, np.arange(len(self) + 1)).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(value.astype(np.int32)))

    def _of_key(self, pool: Pool, key: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
        _, row, keys, value, length = self._pools[pool]
        mine = keys == key
        rows = row[mine]
        # A column that is twice in one map has two values, and neither can be trusted.
        known = np.bincount(rows, minlength=len(self)) == 1
        return rows, value[mine], length[mine], known

    def _longs(self, slot: Slot) -> pa.Array:
        return pa.array(self._values[slot.index], mask=self._lengths[slot.index] == kernel.NULL)

    def _bytes(self, slot: Slot) -> pa.Array:
        lengths = self._lengths[slot.index]
        return self._gathered(self._values[slot.index], lengths, lengths != kernel.NULL)

    def _gathered(self, starts: NDArray[np.int64], lengths: NDArray[np.int32], known: NDArray[np.bool_]) -> pa.Array:
        sizes = np.where(known, lengths, 0).astype(np.int32)
        offsets = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        out = np.empty(offsets[-1], np.uint8)
        kernel.gather(self._data, np.ascontiguousarray(starts), sizes, offsets, out)
        mask = None if known.all() else pa.array(~known)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(out)]
        array = pa.Array.from_buffers(pa.large_binary(), len(sizes), buffers).cast(pa.binary())
        if mask is None:
            return array
        return pc.if_else(mask, pa.scalar(None, pa.binary()), array)


def read_entries(data: bytes, *, wanted: Sequence[int], where: str) -> Iterator[EntryColumns]:
    """The entries of a manifest, some at a time, with the counts and bounds of the wanted column ids."""
    header = read_header(data, where=where)
    program = compile_entries(header.schema, where=where)
    keys = np.array(sorted(wanted), np.int64)
    for batch in _batches(read_blocks(data, header, where=where)):
        for block in batch:
            if block.records > len(block.data) // program.smallest:
                what = f"an Avro block of {len(block.data)} bytes claims {block.records} records"
                raise CorruptTableError(what, where=where)
        records = sum(block.records for block in batch)
        if records * program.slots > _MAX_CELLS:
            what = f"an Avro block has {records} records of {program.slots} values, more than are read at a time"
            raise CorruptTableError(what, where=where)
        # The kernel is compiled for arrays that may be written to.
        joined = bytearray().join(block.data for block in batch)
        filled = _walk(np.frombuffer(joined, np.uint8), records, program, keys, where)
        yield EntryColumns(header, where, *filled)


def _batches(blocks: Iterator[AvroBlock]) -> Iterator[list[AvroBlock]]:
    batch: list[AvroBlock] = []
    size = 0
    for block in blocks:
        batch.append(block)
        size += len(block.data)
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _walk(
    data: NDArray[np.uint8], records: int, program: Program, wanted: NDArray[np.int64], where: str
) -> tuple[Any, ...]:
    """The last fields of `EntryColumns`."""
    values = np.zeros((max(program.slots, 1), records), np.int64)
    lengths = np.empty((max(program.slots, 1), records), np.int32)
    most = min(len(data), _MAX_POOLED) + 1
    room = min(most, records * (len(wanted) * len(Pool) + 4) + 1)
    while True:
        lengths.fill(kernel.NULL)
        kinds = (np.int8, np.int32, np.int64, np.int64, np.int32)
        entries = [np.empty(room, kind) for kind in kinds]
        fault, record, count, end = kernel.walk(
            data, records, program.steps, program.jumps, wanted, values, lengths, *entries
        )
        if fault != kernel.FAULT_FULL or room == most:
            break
        room = min(2 * room, most)
    if fault:
        raise CorruptTableError(f"entry {record} {_FAULTS[fault]}", where=where)
    if end != len(data):
        raise CorruptTableError(f"{len(data) - end} bytes are left after the last entry", where=where)
    filled = [array[:count] for array in entries]
    pools = {pool: tuple(array[filled[0] == pool] for array in filled) for pool in Pool}
    return data, program, values, lengths, pools
