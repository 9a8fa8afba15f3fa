"""The compiled walks over the headers of pages and over the values of a dictionary page."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["BROKEN", "CUT_OFF", "longest_value", "page_header"]

CUT_OFF, BROKEN = -1, -2
_MAX_DEPTH = 8
# The types of Thrift's compact protocol.
_BYTE, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 3, 6, 7, 8, 9, 10, 12
_ROOT, _DATA, _DATA_V2, _OTHER = range(4)


def longest_value(data: Any) -> int:
    """The length of the longest PLAIN value, each of which is preceded by its length in four bytes.

    >>> longest_value(bytes([1, 0, 0, 0, 65, 3, 0, 0, 0, 65, 66, 67])), longest_value(b"")
    (3, 0)
    """
    return int(_longest(np.frombuffer(data, np.uint8)))


def page_header(data: bytes) -> tuple[int, int, int, int, int, int]:
    """The page header at the start of the bytes: its length, the page type, the decompressed and compressed size, the
    number of values and their encoding; -1 for missing fields, and the length is `CUT_OFF` or `BROKEN` for no header.

    >>> page_header(bytes.fromhex("1500 1514 1512 2c 1506 1500 00 00")), page_header(b"")[0] == CUT_OFF
    ((13, 0, 10, 9, 3, 0), True)
    """
    header: tuple[int, int, int, int, int, int] = _header(np.frombuffer(data, np.uint8))
    return header


def _walk_header(data: Any) -> Any:
    kind: Any = -1
    size: Any = -1
    packed: Any = -1
    values: Any = -1
    encoding: Any = -1
    end = np.int64(len(data))
    position = np.int64(0)
    last = np.zeros(_MAX_DEPTH, np.int64)
    at = np.zeros(_MAX_DEPTH, np.int64)
    depth = 0
    while True:
        if position >= end:
            return CUT_OFF, kind, size, packed, values, encoding
        head = np.int64(data[position])
        position += 1
        if head == 0:
            if depth == 0:
                return position, kind, size, packed, values, encoding
            depth -= 1
            continue
        wire = head & 15
        # Up to two varints come next: the field, and the value or how many bytes or values it has.
        field = last[depth] + (head >> 4)
        items, item = np.int64(0), np.int64(0)
        number = np.int64(0)
        for turn in range(2):
            if turn == 0 and head >> 4:
                continue
            if turn == 1:
                if wire in (_LIST, _SET):
                    if position >= end:
                        return CUT_OFF, kind, size, packed, values, encoding
                    items, item = np.int64(data[position]) >> 4, np.int64(data[position]) & 15
                    position += 1
                    if items < 15:
                        break
                elif not (4 <= wire <= _I64 or wire == _BINARY):
                    break
            number = np.int64(0)
            shift = 0
            while True:
                if position >= end:
                    return CUT_OFF, kind, size, packed, values, encoding
                byte = np.int64(data[position])
                position += 1
                if shift > 56:
                    return BROKEN, kind, size, packed, values, encoding
                number |= (byte & 127) << shift
                if byte < 128:
                    break
                shift += 7
            if turn == 0:
                field = (number >> 1) ^ -(number & 1)
            elif items == 15:
                items = number
        last[depth] = field
        if (wire == _BINARY and number > end - position) or items > end - position:
            return CUT_OFF, kind, size, packed, values, encoding
        if 4 <= wire <= _I64:
            # As Thrift reads it: the lowest 32 bits.
            number = np.int64(np.int32((number >> 1) ^ -(number & 1)))
            # Parquet, PageHeader, DataPageHeader and DataPageHeaderV2.
            if at[depth] == _ROOT:
                if field == 1:
                    kind = number
                elif field == 2:
                    size = number
                elif field == 3:
                    packed = number
            elif field == 1 and at[depth] != _OTHER:
                values = number
            elif (field == 2 and at[depth] == _DATA) or (field == 4 and at[depth] == _DATA_V2):
                encoding = number
        elif wire == _BINARY:
            position += number
        elif wire == _STRUCT:
            if depth + 1 >= _MAX_DEPTH:
                return BROKEN, kind, size, packed, values, encoding
            inside = _OTHER
            if at[depth] == _ROOT and field == 5:
                inside = _DATA
            elif at[depth] == _ROOT and field == 8:
                inside = _DATA_V2
            depth += 1
            last[depth], at[depth] = 0, inside
        elif wire == _BYTE:
            position += 1
        elif wire == _DOUBLE:
            position += 8
        elif wire in (_LIST, _SET) and item in (1, 2, _BYTE):
            position += items
        elif wire > 2:  # no header has others, and the booleans of structs have no bytes
            return BROKEN, kind, size, packed, values, encoding


def _walk_values(data: Any) -> Any:
    longest = np.int64(0)
    position = np.int64(0)
    end = np.int64(len(data))
    while end - position >= 4:
        length = (
            np.int64(data[position])
            | np.int64(data[position + 1]) << 8
            | np.int64(data[position + 2]) << 16
            | np.int64(data[position + 3]) << 24
        )
        position += 4
        if length > end - position:
            return max(longest, end - position)  # Arrow refuses the page
        longest = max(longest, length)
        position += length
    return longest


# Bytes are read-only to numpy.
_BYTES = "Array(uint8, 1, 'C', readonly=True)"
_longest = njit(f"int64({_BYTES})", nogil=True, error_model="numpy", cache=True)(_walk_values)
_header = njit(f"UniTuple(int64, 6)({_BYTES})", nogil=True, error_model="numpy", cache=True)(_walk_header)
