"""The compiled walk over the records of a manifest: every wanted field of every file in one pass, as columns.

fastavro builds a dictionary for each record, which takes some 0.1 ms for a file of eight columns; this walk takes
less than a microsecond. The steps come from `avro_program`. The machine code is cached on disk next to this file; the
first import on a machine compiles it.

Every read is checked against the end of the data, and nothing is allocated by a number from it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = [
    "FAULT_BRANCH",
    "FAULT_FULL",
    "FAULT_LENGTH",
    "FAULT_NONE",
    "FAULT_NUMBER",
    "FAULT_TRUNCATED",
    "MAX_NESTING",
    "NULL",
    "OP_ARRAY",
    "OP_BOOL",
    "OP_BYTES",
    "OP_END",
    "OP_FIXED",
    "OP_ITEM",
    "OP_JUMP",
    "OP_KEY",
    "OP_LONG",
    "OP_NEXT",
    "OP_UNION",
    "OP_VALUE_BYTES",
    "OP_VALUE_LONG",
    "gather",
    "walk",
]

MAX_NESTING = 32
"""How deeply arrays may be nested."""

NULL = -1
"""The length of a missing value."""

# The steps: an operation, a slot or pool (-1: read and forget), and an argument.
OP_END = 0
OP_LONG = 1
OP_BYTES = 2
OP_FIXED = 3  # argument: bytes
OP_BOOL = 4
OP_UNION = 5  # slot: first index in the jump table, argument: branches
OP_JUMP = 6  # argument: step
OP_ARRAY = 7  # argument: the step after the array
OP_NEXT = 8
OP_KEY = 9
OP_VALUE_LONG = 10
OP_VALUE_BYTES = 11
OP_ITEM = 12

FAULT_NONE = 0
FAULT_TRUNCATED = 1
FAULT_NUMBER = 2
FAULT_LENGTH = 3
FAULT_BRANCH = 4
FAULT_FULL = 5  # no room for another entry: allocate more and walk again


def _long(data: Any, position: Any, end: Any) -> Any:
    """The number at the position and the position after it, which is negative for a fault."""
    value = 0
    shift = 0
    while True:
        if position >= end:
            return 0, -FAULT_TRUNCATED
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            return 0, -FAULT_NUMBER
    # The sign is in the lowest bit; the shift must not be arithmetic.
    return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1), position


_long = njit("UniTuple(int64, 2)(uint8[::1], int64, int64)", nogil=True, error_model="numpy", cache=True)(_long)


def _walk(  # noqa: PLR0917
    data: Any,
    records: Any,
    steps: Any,
    jumps: Any,
    wanted: Any,
    values: Any,
    lengths: Any,
    pool: Any,
    row: Any,
    key: Any,
    value: Any,
    length: Any,
) -> Any:
    """Read the records; returns the fault, the record it is in or the records read, entries written, and bytes read.

    `values[slot, record]` gets numbers, or the start of bytes, whose count is in `lengths`. Items of arrays go
    to the entries `pool`, `row`, `key`, `value`, `length`, those of maps for the `wanted` keys only.
    """
    end = len(data)
    position = 0
    entries = 0
    room = len(pool)
    counts = np.zeros(MAX_NESTING, np.int64)
    starts = np.zeros(MAX_NESTING, np.int64)
    for record in range(records):
        step = 0
        depth = 0
        current = 0
        taken = False
        while True:
            op = steps[step, 0]
            slot = steps[step, 1]
            argument = steps[step, 2]
            if op == OP_END:
                break
            step += 1
            if op == OP_LONG:
                number, position = _long(data, position, end)
                if position < 0:
                    return -position, record, entries, 0
                if slot >= 0:
                    values[slot, record] = number
                    lengths[slot, record] = 0
            elif op in (OP_BYTES, OP_FIXED):
                size = argument
                if op == OP_BYTES:
                    size, position = _long(data, position, end)
                    if position < 0:
                        return -position, record, entries, 0
                if size < 0 or size > end - position:
                    return FAULT_LENGTH, record, entries, 0
                if slot >= 0:
                    values[slot, record] = position
                    lengths[slot, record] = size
                position += size
            elif op == OP_BOOL:
                if position >= end:
                    return FAULT_TRUNCATED, record, entries, 0
                if slot >= 0:
                    values[slot, record] = data[position]
                    lengths[slot, record] = 0
                position += 1
            elif op == OP_UNION:
                branch, position = _long(data, position, end)
                if position < 0:
                    return -position, record, entries, 0
                if branch < 0 or branch >= argument:
                    return FAULT_BRANCH, record, entries, 0
                step = jumps[slot + branch]
            elif op == OP_JUMP:
                step = argument
            elif op in (OP_ARRAY, OP_NEXT):
                if op == OP_ARRAY:
                    starts[depth] = step
                    counts[depth] = 0
                    depth += 1
                else:
                    counts[depth - 1] -= 1
                if counts[depth - 1] > 0:
                    step = starts[depth - 1]
                    continue
                count, position = _long(data, position, end)
                if position < 0:
                    return -position, record, entries, 0
                if count < 0:
                    count = -count
                    _, position = _long(data, position, end)
                    if position < 0:
                        return -position, record, entries, 0
                # Every item has at least one byte: `avro_program` refuses others.
                if count < 0 or count > end - position:
                    return FAULT_LENGTH, record, entries, 0
                if count == 0:
                    depth -= 1
                    step = argument
                else:
                    counts[depth - 1] = count
                    step = starts[depth - 1]
            elif op == OP_KEY:
                current, position = _long(data, position, end)
                if position < 0:
                    return -position, record, entries, 0
                taken = False
                for id_ in wanted:
                    if id_ == current:
                        taken = True
                        break
            elif op in (OP_VALUE_LONG, OP_ITEM):
                number, position = _long(data, position, end)
                if position < 0:
                    return -position, record, entries, 0
                if taken or op == OP_ITEM:
                    if entries >= room:
                        return FAULT_FULL, record, entries, 0
                    pool[entries] = slot
                    row[entries] = record
                    key[entries] = current
                    value[entries] = number
                    length[entries] = 0
                    entries += 1
            else:  # OP_VALUE_BYTES
                size, position = _long(data, position, end)
                if position < 0:
                    return -position, record, entries, 0
                if size < 0 or size > end - position:
                    return FAULT_LENGTH, record, entries, 0
                if taken:
                    if entries >= room:
                        return FAULT_FULL, record, entries, 0
                    pool[entries] = slot
                    row[entries] = record
                    key[entries] = current
                    value[entries] = position
                    length[entries] = size
                    entries += 1
                position += size
    return FAULT_NONE, records, entries, position


walk = njit(
    "UniTuple(int64, 4)(uint8[::1], int64, int64[:, ::1], int64[::1], int64[::1], int64[:, ::1], int32[:, ::1],"
    " int8[::1], int32[::1], int64[::1], int64[::1], int32[::1])",
    nogil=True,
    error_model="numpy",
    cache=True,
)(_walk)


def _gather(data: Any, starts: Any, lengths: Any, offsets: Any, out: Any) -> None:
    """Concatenate slices of bytes; `offsets` has their positions in `out`."""
    for index in range(len(starts)):
        start, target = starts[index], offsets[index]
        for byte in range(lengths[index]):
            out[target + byte] = data[start + byte]


gather = njit(
    "void(uint8[::1], int64[::1], int32[::1], int64[::1], uint8[::1])", nogil=True, error_model="numpy", cache=True
)(_gather)
