"""Whether Arrow can read a Parquet footer safely: it crashes the process on some invalid ones.

Arrow reads the Thrift of a footer as is and builds the object of a column chunk on access. If the chunk
is encrypted, or does not match the schema, that fails where Python cannot catch it, and kills the notebook. One walk
over the bytes finds all known causes, and lists that claim more values than there are bytes.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.errors import CorruptTableError, UnsupportedTableError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["require_readable"]

# The result of a walk; any but the first is a footer that Arrow must not read.
_FINE, _ENDS, _NUMBER, _LENGTH, _TYPE, _DEPTH, _LACKS, _ORDER, _TREE, _COUNT, _ENCRYPTED, _CODEC, _BOUND, _SIZES = (
    range(14)
)
_SENTENCES = {
    _ENDS: "is truncated",
    _NUMBER: "has an integer or a field that is too large",
    _LENGTH: "claims more values than it has bytes",
    _TYPE: "has a value of an unknown type",
    _DEPTH: "is nested too deeply",
    _LACKS: "has a column chunk or a column without a required field",
    _ORDER: "has row groups before its schema",
    _TREE: "has a schema whose number of columns is wrong",
    _COUNT: "has a row group whose columns do not match the schema",
    _BOUND: "has a minimum or maximum that is shorter than its type",
    _SIZES: "has size statistics that do not fit the schema",
}
_UNKNOWN = {
    _ENCRYPTED: "a column of the file is encrypted",
    _CODEC: "a column of the file is compressed with an unknown codec",
}
_MAX_DEPTH = 64
_MAX_TREE = 1000
_MAX_FIELD = 32767
# Interpreted, the walk takes some milliseconds per file; compiled almost none, after half a second to load. A few files
# are not worth that.
_budget = {"left": 64 * 1024}

# The types of the compact protocol.
_FALSE, _BYTE, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13
# Where in the footer a value is. Parquet, FileMetaData: the structs on the path to the checked values.
_ROOT, _ELEMENT, _GROUP, _CHUNK, _META, _STATS, _SIZE, _OTHER = range(8)
# Parquet, Type: how many bytes a plain value has; -1 is any number, and the length of the last is in the schema.
_IN_SCHEMA = -2
_WIDTHS = (1, 4, 8, 12, 4, 8, -1, _IN_SCHEMA)
_BYTE_ARRAY, _KNOWN_CODECS = 6, 8
_NO_SCHEMA, _NO_COLUMNS = -1, -2


def require_readable(footer: bytes, *, where: str) -> None:
    """Raise unless Arrow can read the bytes of a footer, or raises an error for them.

    >>> require_readable(b"", where="a.parquet")
    Traceback (most recent call last):
    geolake_nb.errors.CorruptTableError: a.parquet: truncated Parquet footer
    """
    if _budget["left"] > 0:
        _budget["left"] -= len(footer)
        fault = walk(footer)
    else:
        # As signed integers: numba promotes mixed integers to floats.
        fault = _compiled()(np.frombuffer(footer, np.uint8).astype(np.int16))
    if fault in _UNKNOWN:
        raise UnsupportedTableError(_UNKNOWN[fault], where=where)
    if fault != _FINE:
        raise CorruptTableError(
            "truncated Parquet footer" if fault == _ENDS else f"the Parquet footer {_SENTENCES[fault]}", where=where
        )


@functools.cache
def _compiled() -> Callable[[Any], int]:
    from numba import njit

    made: Callable[[Any], int] = njit("int64(int16[::1])", nogil=True, error_model="numpy", cache=True)(walk)
    return made


def walk(data: Any) -> int:
    """What is wrong with the footer, 0 for nothing; interpreted for bytes, compiled for an array."""
    end = len(data)
    position = 0
    # The struct, list or map being read: its type, its location in the footer, the last field, how many values
    # are left, and their type; of a map both types. Its parents are in `frames`.
    frames = np.zeros((_MAX_DEPTH, 5), np.int64)
    depth = 0
    wire, at, last, left, inside = _STRUCT, _ROOT, 0, 0, 0
    # The tree of the schema: for each open node how many columns are missing, and its levels.
    nodes = np.zeros((_MAX_TREE, 3), np.int64)
    tree = 0
    # For each leaf its type, its length and its levels.
    leaves = np.zeros((0, 4), np.int64)
    leaf_count = _NO_SCHEMA
    # The fields of the current struct so far.
    element = np.zeros(6, np.int64)
    chunk = np.zeros(12, np.int64)
    chunks = 0
    while True:
        field = 0
        needs_field = False
        if wire == _STRUCT:
            if position >= end:
                return _ENDS
            header = data[position]
            position += 1
            kind = header & 15
            if header >> 4:
                last += header >> 4
                field = last
                if field > _MAX_FIELD:
                    return _NUMBER
            elif header:
                needs_field = True
            else:
                if at == _ELEMENT:
                    if not element[4]:
                        return _LACKS
                    rep, level = 0, 0
                    if tree > 0:
                        nodes[tree - 1, 0] -= 1
                        rep, level = nodes[tree - 1, 1], nodes[tree - 1, 2]
                        # Parquet, FieldRepetitionType: 1 is optional, 2 repeated; the root is neither.
                        if element[3] == 2:
                            rep += 1
                        if element[3] in (1, 2):
                            level += 1
                    elif leaf_count != 0:
                        return _TREE
                    if element[5] > 0:
                        if tree >= _MAX_TREE:
                            return _DEPTH
                        nodes[tree, 0], nodes[tree, 1], nodes[tree, 2] = element[5], rep, level
                        tree += 1
                    elif tree > 0:
                        leaves[leaf_count, 0], leaves[leaf_count, 1] = element[1], element[2]
                        leaves[leaf_count, 2], leaves[leaf_count, 3] = rep, level
                        leaf_count += 1
                    else:
                        leaf_count = _NO_COLUMNS
                    while tree > 0 and nodes[tree - 1, 0] == 0:
                        tree -= 1
                elif at == _CHUNK:
                    if chunk[0]:
                        return _ENCRYPTED
                    if not chunk[1] or not chunk[2]:
                        return _LACKS
                    if chunks >= leaf_count or chunk[3] != leaves[chunks, 0] or not 0 <= chunk[3] < len(_WIDTHS):
                        return _COUNT
                    if not 0 <= chunk[4] < _KNOWN_CODECS:
                        return _CODEC
                    width = _WIDTHS[chunk[3]]
                    if width == _IN_SCHEMA:
                        width = leaves[chunks, 1]
                    for bound in range(5, 9):
                        if 0 < chunk[bound] <= width:  # it is one more than the length
                            return _BOUND
                    if chunk[9] and chunk[3] != _BYTE_ARRAY:
                        return _SIZES
                    for histogram in range(2):
                        if chunk[10 + histogram] > 0 and chunk[10 + histogram] != leaves[chunks, 2 + histogram] + 1:
                            return _SIZES
                    chunks += 1
                elif at == _GROUP and chunks != max(leaf_count, 0):
                    return _COUNT
                if depth == 0:
                    return _FINE
                depth -= 1
                wire, at, last = frames[depth, 0], frames[depth, 1], frames[depth, 2]
                left, inside = frames[depth, 3], frames[depth, 4]
                continue
        else:
            if left == 0:
                if at == _ELEMENT and tree > 0:
                    return _TREE
                depth -= 1
                wire, at, last = frames[depth, 0], frames[depth, 1], frames[depth, 2]
                left, inside = frames[depth, 3], frames[depth, 4]
                continue
            left -= 1
            kind = inside & 15
            if wire == _MAP:
                inside = (kind << 4) | (inside >> 4)
        # The variable-length number before a value: the field, the value itself or its length, a count.
        number = 0
        count = -1
        item = 0
        for turn in range(3):
            if turn == 0 and not needs_field:
                continue
            if turn == 1 and not (4 <= kind <= 6 or kind == _BINARY):
                continue
            if turn == 2:
                if kind not in (_LIST, _SET, _MAP):
                    continue
                if position >= end:
                    return _ENDS
                if kind != _MAP:
                    header = data[position]
                    count, item = header >> 4, header & 15
                    position += 1
                    if count < 15:
                        continue
            number = 0
            shift = 0
            while True:
                if position >= end:
                    return _ENDS
                byte = data[position]
                position += 1
                if shift == 63 and byte > 1:
                    return _NUMBER
                number |= (byte & 127) << shift
                if byte < 128:
                    break
                shift += 7
            if turn == 0:
                field = (number >> 1) ^ -(number & 1)
                last = field
                if not -_MAX_FIELD <= field <= _MAX_FIELD:
                    return _NUMBER
            elif turn == 2:
                count = number
        # Compiled, the highest bit makes a number negative.
        if kind in (_LIST, _SET, _MAP) and (count < 0 or count > end - position):
            return _LENGTH
        if kind == _MAP and count > 0:
            if position >= end:
                return _ENDS
            header = data[position]
            item = (header >> 4) | ((header & 15) << 4)
            position += 1
            count *= 2
        if kind > _UUID or kind == 0:
            return _TYPE
        if 4 <= kind <= 6:
            number = (number >> 1) ^ -(number & 1)
        elif kind == _DOUBLE:
            position += 8
        elif kind == _UUID:
            position += 16
        elif kind == _BINARY:
            if number < 0 or number > end - position:
                return _LENGTH
            position += number
        elif kind == _BYTE or (kind <= _FALSE and wire != _STRUCT):
            position += 1  # the booleans of structs have no bytes
        if position > end:
            return _ENDS
        child = _OTHER
        if wire != _STRUCT:
            if kind == _STRUCT:
                child = at
                if at == _ELEMENT:
                    element[:] = 0
                    element[1] = -1
                elif at == _CHUNK:
                    chunk[:] = 0
                elif at == _GROUP:
                    chunks = 0
        elif at == _ROOT:
            if field == 2 and kind == _LIST:
                child = _ELEMENT
                if leaf_count != _NO_SCHEMA:
                    return _TREE
                leaves = np.zeros((count, 4), np.int64)
                leaf_count = 0
            elif field == 4 and kind == _LIST:
                child = _GROUP
                if leaf_count == _NO_SCHEMA:
                    return _ORDER
        elif at == _ELEMENT:
            # Parquet, SchemaElement: type, type_length, repetition_type, name, num_children.
            if field in (1, 2, 3, 5) and kind == _I32:
                element[field] = number
            elif field == 4 and kind == _BINARY:
                element[4] = 1
        elif at == _GROUP:
            if field == 1 and kind == _LIST:
                child = _CHUNK
                if chunks:
                    return _COUNT
        elif at == _CHUNK:
            # Parquet, ColumnChunk: file_offset, meta_data, crypto_metadata, encrypted_column_metadata.
            if field == 2 and kind == _I64:
                chunk[1] = 1
            elif field == 3 and kind == _STRUCT:
                child = _META
                chunk[2] = 1
            elif field in (8, 9):
                chunk[0] = 1
        elif at == _META:
            # Parquet, ColumnMetaData: type, codec, statistics, size_statistics.
            if field == 1 and kind == _I32:
                chunk[3] = number
            elif field == 4 and kind == _I32:
                chunk[4] = number
            elif field == 12 and kind == _STRUCT:
                child = _STATS
            elif field == 16 and kind == _STRUCT:
                child = _SIZE
        elif at == _STATS:
            # Parquet, Statistics: max, min, and since they are ordered max_value and min_value.
            if kind == _BINARY and field in (1, 2):
                chunk[4 + field] = number + 1
            elif kind == _BINARY and field in (5, 6):
                chunk[2 + field] = number + 1
        elif at == _SIZE:
            # Parquet, SizeStatistics: bytes of byte arrays, histograms of repetition and definition levels.
            if field == 1:
                chunk[9] = 1
            elif field in (2, 3) and kind == _LIST:
                chunk[8 + field] = count
        if kind == _STRUCT or count >= 0:
            if depth >= _MAX_DEPTH:
                return _DEPTH
            frames[depth, 0], frames[depth, 1], frames[depth, 2] = wire, at, last
            frames[depth, 3], frames[depth, 4] = left, inside
            depth += 1
            wire, at, last, left, inside = kind, child, 0, max(count, 0), item
