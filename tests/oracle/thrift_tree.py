"""Thrift's compact protocol by its specification, apart from the package: bytes to a tree and back.

A struct is a list of `(field, type, value)`, a list is `(type, values)`, a map `(key type, value type, pairs)`.
"""

from __future__ import annotations

import io
from typing import Any

STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(13)


def read_tree(data: bytes) -> list[Any]:
    """The struct that the bytes start with."""
    return _read_struct(io.BytesIO(data))


def write_tree(fields: list[Any]) -> bytes:
    """The bytes of a struct."""
    out = io.BytesIO()
    _write_struct(out, fields)
    return out.getvalue()


def _read_struct(data: io.BytesIO) -> list[Any]:
    fields, last = [], 0
    while (head := data.read(1)[0]) != STOP:
        last = last + (head >> 4) if head >> 4 else _zigzag(_read_varint(data))
        kind = head & 15
        value = kind == TRUE if kind in (TRUE, FALSE) else _read_value(data, kind)
        fields.append((last, TRUE if kind == FALSE else kind, value))
    return fields


def _read_value(data: io.BytesIO, kind: int) -> Any:
    if kind in (TRUE, FALSE, BYTE):
        return data.read(1)[0]
    if kind in (I16, I32, I64):
        return _zigzag(_read_varint(data))
    if kind == DOUBLE:
        return data.read(8)
    if kind == BINARY:
        return data.read(_read_varint(data))
    if kind in (LIST, SET):
        head = data.read(1)[0]
        count = _read_varint(data) if head >> 4 == 15 else head >> 4
        return head & 15, [_read_value(data, head & 15) for _ in range(count)]
    if kind == MAP:
        count = _read_varint(data)
        kinds = data.read(1)[0] if count else 0
        pairs = [(_read_value(data, kinds >> 4), _read_value(data, kinds & 15)) for _ in range(count)]
        return kinds >> 4, kinds & 15, pairs
    assert kind == STRUCT, kind
    return _read_struct(data)


def _write_struct(out: io.BytesIO, fields: list[Any]) -> None:
    last = 0
    for field, kind, value in fields:
        wire = (TRUE if value else FALSE) if kind == TRUE else kind
        if 0 < field - last < 16:
            out.write(bytes([(field - last) << 4 | wire]))
        else:
            out.write(bytes([wire]))
            _write_varint(out, field << 1 if field >= 0 else -field * 2 - 1)
        last = field
        if kind != TRUE:
            _write_value(out, kind, value)
    out.write(bytes([STOP]))


def _write_value(out: io.BytesIO, kind: int, value: Any) -> None:
    if kind in (TRUE, FALSE, BYTE):
        out.write(bytes([value]))
    elif kind in (I16, I32, I64):
        _write_varint(out, value << 1 if value >= 0 else -value * 2 - 1)
    elif kind == DOUBLE:
        out.write(value)
    elif kind == BINARY:
        _write_varint(out, len(value))
        out.write(value)
    elif kind in (LIST, SET):
        inside, values = value
        out.write(bytes([min(len(values), 15) << 4 | inside]))
        if len(values) >= 15:
            _write_varint(out, len(values))
        for item in values:
            _write_value(out, inside, item)
    elif kind == MAP:
        key, type_, pairs = value
        _write_varint(out, len(pairs))
        if pairs:
            out.write(bytes([key << 4 | type_]))
        for item, other in pairs:
            _write_value(out, key, item)
            _write_value(out, type_, other)
    else:
        _write_struct(out, value)


def _read_varint(data: io.BytesIO) -> int:
    number = shift = 0
    while (byte := data.read(1)[0]) & 128:
        number |= (byte & 127) << shift
        shift += 7
    return number | byte << shift


def _write_varint(out: io.BytesIO, number: int) -> None:
    while number >= 128:
        out.write(bytes([number & 127 | 128]))
        number >>= 7
    out.write(bytes([number]))


def _zigzag(number: int) -> int:
    return number >> 1 ^ -(number & 1)
