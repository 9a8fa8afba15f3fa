"""The entries of a manifest as Arrow columns, by the compiled walk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import CorruptTableError
from geolake_nb.formats.iceberg import avro_kernel as kernel
from geolake_nb.formats.iceberg.avro_container import read_blocks, read_header
from geolake_nb.formats.iceberg.avro_program import EntryField, Pool, Program, Slot, compile_entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from geolake_nb.formats.iceberg.avro_container import AvroBlock, AvroHeader

__all__ = ["EntryColumns", "read_entries"]

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
