"""Thrift's compact protocol as a tree of values: the encoding of a Parquet footer, including unknown fields.

The round trip is exact: the order of fields, unknown ones and the bits of doubles are kept.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import TypeAlias

from geolake_nb.errors import CorruptTableError

__all__ = ["Entry", "ListValue", "MapValue", "Struct", "Value", "Wire", "double", "read_struct", "write_struct"]

_MAX_DEPTH = 64
# Each value in the tree takes about 100 bytes; a footer of a thousand columns and a hundred row groups has 3 million.
_MAX_VALUES = 1 << 24


class Wire(enum.IntEnum):
    """The type of a value on the wire."""

    TRUE = 1
    """A boolean: as a field its value is in the type, true here; in a list this means booleans."""
    FALSE = 2
    """A boolean field that is false."""
    I8 = 3
    """One byte, signed."""
    I16 = 4
    """A zigzag variable-length integer, as the next two."""
    I32 = 5
    """32 bits."""
    I64 = 6
    """64 bits."""
    DOUBLE = 7
    """Eight bytes, little-endian."""
    BINARY = 8
    """Bytes or text with their length."""
    LIST = 9
    """Values of one type."""
    SET = 10
    """The same, in no order."""
    MAP = 11
    """Keys and values."""
    STRUCT = 12
    """Fields with numbers."""
    UUID = 13
    """Sixteen bytes."""


@dataclass(frozen=True, slots=True)
class ListValue:
    """A list or a set; booleans in it stay bytes."""

    wire: Wire
    items: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class MapValue:
    """A map; an empty one has no types."""

    key: Wire | None = None
    value: Wire | None = None
    pairs: tuple[tuple[Value, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A field of a struct: its type and its value; a double is its eight bytes."""

    wire: Wire
    value: Value


@dataclass(frozen=True, slots=True)
class Struct:
    """Fields by their numbers, in the order in which they are written.

    >>> Struct({1: Entry(Wire.I32, 2)}).with_field(3, Wire.BINARY, b"a").without(1)
    Struct(fields={3: Entry(wire=<Wire.BINARY: 8>, value=b'a')})
    >>> Struct().get(1) is None
    True
    """

    fields: dict[int, Entry]

    def __init__(self, fields: dict[int, Entry] | None = None) -> None:
        object.__setattr__(self, "fields", fields or {})

    def get(self, number: int) -> Value | None:
        """The value of a field, `None` where there is none."""
        field = self.fields.get(number)
        return None if field is None else field.value

    def with_field(self, number: int, wire: Wire, value: Value) -> Struct:
        """The struct with that field; a new one goes before the first with a higher number."""
        if number in self.fields or number > max(self.fields, default=0):
            return Struct({**self.fields, number: Entry(wire, value)})
        fields: dict[int, Entry] = {}
        for known, entry in self.fields.items():
            if known > number and number not in fields:
                fields[number] = Entry(wire, value)
            fields[known] = entry
        return Struct(fields)

    def without(self, *numbers: int) -> Struct:
        """The struct without those fields."""
        if not any(number in self.fields for number in numbers):
            return self
        return Struct({number: entry for number, entry in self.fields.items() if number not in numbers})


Value: TypeAlias = int | bytes | ListValue | MapValue | Struct
"""Booleans and integers are int, doubles and UUIDs their bytes."""

_EMPTY = Struct()
_INTEGERS = (Wire.I16, Wire.I32, Wire.I64)
_FIXED = {Wire.DOUBLE: 8, Wire.UUID: 16}
_KINDS: list[Wire | None] = [None, *Wire, None, None]
_COLLECTIONS = (Wire.LIST, Wire.SET)


def double(value: float) -> bytes:
    """A double as a value of the tree."""
    return struct.pack("<d", value)


def read_struct(data: bytes, *, where: str | None = None) -> Struct:
    """Parse all bytes as a struct; invalid ones raise `CorruptTableError`.

    >>> read_struct(bytes.fromhex("1504"  "00")).get(1)
    2
    >>> read_struct(b"")
    Traceback (most recent call last):
    geolake_nb.errors.CorruptTableError: the Thrift structure is truncated
    >>> read_struct(bytes.fromhex("19fcffffffff0f"))
    Traceback (most recent call last):
    geolake_nb.errors.CorruptTableError: the Thrift structure has a list of 4294967295 values in 0 bytes
    """
    reader = _Reader(data, where)
    try:
        result = reader.struct(0)
    except IndexError:
        raise CorruptTableError("the Thrift structure is truncated", where=where) from None
    if reader.position != len(data):
        raise CorruptTableError(f"{len(data) - reader.position} bytes follow the Thrift structure", where=where)
    return result


def write_struct(value: Struct) -> bytes:
    """The bytes of a struct.

    >>> write_struct(Struct({1: Entry(Wire.I32, 2)})).hex(), write_struct(Struct()).hex()
    ('150400', '00')
    """
    out = bytearray()
    _write_struct(value, out)
    return bytes(out)


class _Reader:
    """Reads forward through untrusted bytes."""

    def __init__(self, data: bytes, where: str | None) -> None:
        self.data = data
        self.position = 0
        self.where = where
        self.left = _MAX_VALUES

    def fail(self, what: str) -> CorruptTableError:
        return CorruptTableError(f"the Thrift structure {what}", where=self.where)

    def struct(self, depth: int) -> Struct:
        data = self.data
        if data[self.position] == 0:
            self.position += 1
            return _EMPTY
        if depth == _MAX_DEPTH:
            raise self.fail("is nested too deeply")
        fields: dict[int, Entry] = {}
        number = 0
        while True:
            header = data[self.position]
            self.position += 1
            if header == 0:
                return Struct(fields)
            step = header >> 4
            number = number + step if step else _unzigzag(self.varint())
            wire = self.wire(header & 15)
            if number in fields:
                raise self.fail(f"has the field {number} twice")
            if wire <= Wire.FALSE:
                fields[number] = Entry(wire, int(wire is Wire.TRUE))
            else:
                fields[number] = Entry(wire, self.value(wire, depth + 1))

    def value(self, wire: Wire, depth: int) -> Value:
        self.left -= 1
        if self.left < 0:
            raise self.fail(f"has more than {_MAX_VALUES} values")
        if wire in _INTEGERS:
            return _unzigzag(self.varint())
        if wire is Wire.BINARY:
            return self.take(self.varint())
        if wire is Wire.STRUCT:
            return self.struct(depth)
        if wire in _FIXED:
            return self.take(_FIXED[wire])
        if wire in _COLLECTIONS:
            return self.list(depth)
        if wire is Wire.MAP:
            return self.map(depth)
        self.position += 1  # a byte, or a boolean in a list
        return self.data[self.position - 1]

    def list(self, depth: int) -> ListValue:
        header = self.data[self.position]
        self.position += 1
        count = header >> 4
        wire = self.wire(header & 15)
        if count == 15:
            count = self.varint()
        self.expect_room(count, _FIXED.get(wire, 1))
        if depth == _MAX_DEPTH:
            raise self.fail("is nested too deeply")
        return ListValue(wire, tuple([self.value(wire, depth + 1) for _ in range(count)]))

    def map(self, depth: int) -> MapValue:
        count = self.varint()
        if not count:
            return MapValue()
        kinds = self.data[self.position]
        self.position += 1
        key, value = self.wire(kinds >> 4), self.wire(kinds & 15)
        self.expect_room(count, _FIXED.get(key, 1) + _FIXED.get(value, 1))
        if depth == _MAX_DEPTH:
            raise self.fail("is nested too deeply")
        pairs = [(self.value(key, depth + 1), self.value(value, depth + 1)) for _ in range(count)]
        return MapValue(key, value, tuple(pairs))

    def expect_room(self, count: int, least: int) -> None:
        # Every value has a minimum size, so a count is trusted only as far as there are bytes for it.
        room = len(self.data) - self.position
        if count * least > room:
            raise self.fail(f"has a list of {count} values in {room} bytes")

    def wire(self, code: int) -> Wire:
        kind = _KINDS[code]
        if kind is None:
            raise self.fail(f"has a value of the unknown type {code}")
        return kind

    def take(self, length: int) -> bytes:
        start = self.position
        self.position += length
        if self.position > len(self.data):
            raise IndexError
        return self.data[start : self.position]

    def varint(self) -> int:
        data, position = self.data, self.position
        byte = data[position]
        position += 1
        number = byte & 127
        shift = 7
        while byte > 127:
            if shift > 63:
                raise self.fail("has an integer of more than 64 bits")
            byte = data[position]
            position += 1
            number |= (byte & 127) << shift
            shift += 7
        self.position = position
        return number


def _write_struct(value: Struct, out: bytearray) -> None:
    last = 0
    for number, entry in value.fields.items():
        wire = entry.wire
        if wire <= Wire.FALSE:
            wire = Wire.TRUE if entry.value else Wire.FALSE
        step = number - last
        if 0 < step <= 15:
            out.append(step << 4 | wire)
        else:
            out.append(wire)
            _write_varint(_zigzag(number), out)
        last = number
        if wire > Wire.FALSE:
            _write_value(wire, entry.value, out)
    out.append(0)


def _write_value(wire: Wire, value: Value, out: bytearray) -> None:
    if isinstance(value, int):
        if wire in _INTEGERS:
            _write_varint(_zigzag(value), out)
        else:
            out.append(value)
    elif isinstance(value, bytes):
        if wire is Wire.BINARY:
            _write_varint(len(value), out)
        out += value
    elif isinstance(value, Struct):
        _write_struct(value, out)
    elif isinstance(value, ListValue):
        count = len(value.items)
        out.append(min(count, 15) << 4 | value.wire)
        if count >= 15:
            _write_varint(count, out)
        for item in value.items:
            _write_value(value.wire, item, out)
    else:
        _write_varint(len(value.pairs), out)
        if value.key is not None and value.value is not None:
            out.append(value.key << 4 | value.value)
            for key, mapped in value.pairs:
                _write_value(value.key, key, out)
                _write_value(value.value, mapped, out)


def _write_varint(number: int, out: bytearray) -> None:
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


def _unzigzag(number: int) -> int:
    return (number >> 1) ^ -(number & 1)
