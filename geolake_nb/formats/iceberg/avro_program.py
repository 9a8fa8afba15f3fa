"""The Avro schema of a manifest as steps for the compiled walk: which fields go where; all others are skipped."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.errors import CorruptTableError
from geolake_nb.formats.iceberg import avro_kernel as kernel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["PARTITION", "EntryField", "Pool", "Program", "Slot", "compile_entries", "smallest_size"]


class EntryField(enum.IntEnum):
    """Fields of a manifest entry and of its data file that have one value each, by their ids."""

    STATUS = 0
    SNAPSHOT_ID = 1
    SEQUENCE_NUMBER = 3
    FILE_SEQUENCE_NUMBER = 4
    FILE_PATH = 100
    FILE_FORMAT = 101
    RECORD_COUNT = 103
    FILE_SIZE_IN_BYTES = 104
    KEY_METADATA = 131
    CONTENT = 134
    SORT_ORDER_ID = 140
    FIRST_ROW_ID = 142
    REFERENCED_DATA_FILE = 143
    CONTENT_OFFSET = 144
    CONTENT_SIZE_IN_BYTES = 145


class Pool(enum.IntEnum):
    """Fields of a data file that have many values: maps by column id, and a list."""

    NULLS = 0
    NANS = 1
    LOWER = 2
    UPPER = 3
    GEOM_LOWER = 4
    GEOM_UPPER = 5
    EQUALITY_IDS = 6


PARTITION = 102
_DATA_FILE = 2
_MAPS = {110: Pool.NULLS, 137: Pool.NANS, 125: Pool.LOWER, 128: Pool.UPPER}
# Havasu, Manifests: the additional fields of `data_file`.
_MAPS |= {1250: Pool.GEOM_LOWER, 1280: Pool.GEOM_UPPER}
_EQUALITY_IDS = 135

# For writers that omit the ids.
_IDS_BY_NAME = {field.name.lower(): field.value for field in EntryField} | {
    "data_file": _DATA_FILE,
    "equality_ids": _EQUALITY_IDS,
    "geom_lower_bounds": 1250,
    "geom_upper_bounds": 1280,
    "lower_bounds": 125,
    "nan_value_counts": 137,
    "null_value_counts": 110,
    "partition": PARTITION,
    "upper_bounds": 128,
}

_LONGS = ("int", "long")
_SIZES = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}
_MAX_STEPS = 50_000
_MAX_NESTING = 64


@dataclass(frozen=True, slots=True)
class Slot:
    """Where the walk stores a field that has one value, and its Avro type."""

    index: int
    type: str


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """The steps that read one manifest entry."""

    steps: NDArray[np.int64]
    jumps: NDArray[np.int64]
    fields: Mapping[int, Slot]
    """By the ids of `EntryField`."""
    partition: Mapping[tuple[int | None, str], Slot]
    """By id and name of the partition field."""
    slots: int
    smallest: int
    """The minimum size of an entry in bytes."""


def compile_entries(schema: Any, *, where: str) -> Program:
    """The steps for a manifest that was written with this schema.

    >>> program = compile_entries({"type": "record", "name": "manifest_entry", "fields": [
    ...     {"name": "status", "type": "int", "field-id": 0}]}, where="m0.avro")
    >>> program.fields[EntryField.STATUS], program.smallest
    (Slot(index=0, type='int'), 1)
    """
    compiler = _Compiler(where)
    compiler.record(schema, _ENTRY, 0)
    compiler.step(kernel.OP_END)
    smallest = smallest_size(schema, where=where)
    if smallest < 1:
        raise CorruptTableError("the records of the Avro file are empty", where=where)
    return Program(
        np.array(compiler.steps, np.int64),
        np.array(compiler.jumps or [0], np.int64),
        compiler.fields,
        compiler.partition,
        compiler.slots,
        smallest,
    )


def smallest_size(schema: Any, *, where: str) -> int:
    """The minimum size of a value of this schema in bytes; arrays of zero-byte items are refused.

    >>> smallest_size({"type": "array", "items": "null"}, where="m0.avro")
    Traceback (most recent call last):
    geolake_nb.errors.CorruptTableError: m0.avro: the Avro schema has an array of zero-byte items
    """
    return _Sizes(where).of(schema, 0)


class _Names:
    """Named types that later parts of an Avro schema refer to."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.named: dict[str, Any] = {}
        self._resolved_count = 0

    def fail(self, what: str) -> CorruptTableError:
        return CorruptTableError(f"the Avro schema {what}", where=self.where)

    def resolve(self, schema: Any, depth: int) -> tuple[str, Any]:
        """The kind of a type and its definition."""
        if depth > _MAX_NESTING:
            raise self.fail("is nested too deeply")
        # Records that refer to each other twice would expand without end.
        self._resolved_count += 1
        if self._resolved_count > 10 * _MAX_STEPS:
            raise self.fail("is too large")
        if isinstance(schema, list):
            return "union", schema
        if isinstance(schema, str):
            if schema in _SIZES:
                return schema, schema
            if schema.rpartition(".")[2] not in self.named:
                raise self.fail(f"has the unknown type {schema[:80]!r}")
            return self.resolve(self.named[schema.rpartition(".")[2]], depth + 1)
        kind = schema.get("type") if isinstance(schema, dict) else None
        if isinstance(kind, (dict, list)):
            return self.resolve(kind, depth + 1)
        if kind in ("record", "fixed", "enum"):
            self.named[str(schema.get("name")).rpartition(".")[2]] = schema
            return kind, schema
        if kind in ("array", "map"):
            return kind, schema
        if isinstance(kind, str):
            return self.resolve(kind, depth + 1)
        raise self.fail("has an invalid type")

    def part(self, schema: Any, key: str, kind: type) -> Any:
        value = schema.get(key)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.fail(f"has a type without {key!r}")
        return value


class _Sizes(_Names):
    def of(self, schema: Any, depth: int) -> int:
        kind, resolved = self.resolve(schema, depth)
        if kind == "union":
            return 1 + min((self.of(branch, depth + 1) for branch in resolved), default=0)
        if kind == "record":
            fields = self.part(resolved, "fields", list)
            return sum(self.of(self.part(field, "type", object), depth + 1) for field in map(self._field, fields))
        if kind == "fixed":
            return int(self.part(resolved, "size", int))
        if kind == "array" and self.of(resolved.get("items"), depth + 1) < 1:
            raise self.fail("has an array of zero-byte items")
        if kind == "map":
            self.of(resolved.get("values"), depth + 1)
        return _SIZES.get(kind, 1)

    def _field(self, field: Any) -> Any:
        if not isinstance(field, dict):
            raise self.fail("has an invalid field")
        return field


class _Target(enum.Enum):
    """Where the next value goes."""

    SKIP = enum.auto()
    SLOT = enum.auto()
    VALUE = enum.auto()
    ITEM = enum.auto()


_Role = enum.Enum("_Role", ["ENTRY", "FILE", "PARTITION"])
_ENTRY, _FILE, _PARTITION = _Role


class _Compiler(_Names):
    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.steps: list[tuple[int, int, int]] = []
        self.jumps: list[int] = []
        self.fields: dict[int, Slot] = {}
        self.partition: dict[tuple[int | None, str], Slot] = {}
        self.slots = 0
        self._arrays = 0

    def step(self, op: int, slot: int = -1, argument: int = 0) -> int:
        if len(self.steps) >= _MAX_STEPS:
            raise self.fail("is too large")
        self.steps.append((op, slot, argument))
        return len(self.steps) - 1

    def record(self, schema: Any, role: _Role, depth: int) -> None:
        kind, resolved = self.resolve(schema, depth)
        if kind == "union":
            self._union(resolved, lambda branch: self.record(branch, role, depth + 1), depth)
            return
        if kind != "record":
            raise self.fail(f"has a {kind} where a record is expected")
        for field in self.part(resolved, "fields", list):
            if not isinstance(field, dict) or not isinstance(field.get("name"), str) or "type" not in field:
                raise self.fail("has an invalid field")
            self._field(field, role, depth + 1)

    def _field(self, field: dict[str, Any], role: _Role, depth: int) -> None:
        name, type_ = field["name"], field["type"]
        stated = field.get("field-id")
        if role is _PARTITION:
            slot = self._stored(type_, depth)
            if slot is not None:
                self.partition[stated if isinstance(stated, int) else None, name] = slot
            return
        id_ = stated if isinstance(stated, int) else _IDS_BY_NAME.get(name, -1)
        if role is _ENTRY and id_ == _DATA_FILE:
            self.record(type_, _FILE, depth)
        elif role is _FILE and id_ == PARTITION:
            self.record(type_, _PARTITION, depth)
        elif role is _FILE and id_ in _MAPS:
            self._map(type_, _MAPS[id_], depth)
        elif role is _FILE and id_ == _EQUALITY_IDS:
            self._list(type_, Pool.EQUALITY_IDS, depth)
        elif id_ in EntryField.__members__.values() and (role is _ENTRY) == (id_ < 100):
            slot = self._stored(type_, depth)
            if slot is not None:
                self.fields[id_] = slot
        else:
            self.value(type_, _Target.SKIP, -1, depth)

    def _stored(self, type_: Any, depth: int) -> Slot | None:
        """Read a value into a new slot; one that can only be null needs none."""
        slot = self._slot(type_, depth)
        self.value(type_, _Target.SKIP if slot is None else _Target.SLOT, -1 if slot is None else slot.index, depth)
        return slot

    def _slot(self, type_: Any, depth: int) -> Slot | None:
        kind, resolved = self.resolve(type_, depth)
        while kind == "union":
            kinds = [self.resolve(branch, depth + 1) for branch in resolved]
            kind, resolved = next((pair for pair in kinds if pair[0] != "null"), ("null", "null"))
        if kind == "null":
            return None
        self.slots += 1
        return Slot(self.slots - 1, kind)

    def value(self, schema: Any, target: _Target, slot: int, depth: int) -> None:
        kind, resolved = self.resolve(schema, depth)
        if kind == "null":
            return
        if kind == "union":
            self._union(resolved, lambda branch: self.value(branch, target, slot, depth + 1), depth)
        elif kind in _LONGS or kind == "enum":
            ops = {_Target.VALUE: kernel.OP_VALUE_LONG, _Target.ITEM: kernel.OP_ITEM}
            self.step(ops.get(target, kernel.OP_LONG), slot)
        elif kind in ("bytes", "string"):
            self._only(target, _Target.ITEM, "list of bytes")
            self.step(kernel.OP_VALUE_BYTES if target is _Target.VALUE else kernel.OP_BYTES, slot)
        elif kind in ("fixed", "float", "double"):
            self._only(target, _Target.ITEM, f"list of {kind}")
            self._only(target, _Target.VALUE, f"map to {kind}")
            size = self.part(resolved, "size", int) if kind == "fixed" else _SIZES[kind]
            self.step(kernel.OP_FIXED, slot, size)
        elif kind == "boolean":
            self._only(target, _Target.ITEM, "list of booleans")
            self._only(target, _Target.VALUE, "map to booleans")
            self.step(kernel.OP_BOOL, slot)
        elif target is not _Target.SKIP:
            raise self.fail(f"has a {kind} where a primitive value is expected")
        elif kind == "record":
            for field in self.part(resolved, "fields", list):
                self.value(self.part(field, "type", object), _Target.SKIP, -1, depth + 1)
        elif kind == "array":
            self._loop(lambda: self.value(resolved.get("items"), _Target.SKIP, -1, depth + 1))
        else:
            self._loop(lambda: self._skip_pair(resolved, depth))

    def _only(self, target: _Target, refused: _Target, what: str) -> None:
        if target is refused:
            raise self.fail(f"has a {what} where counts or bounds are expected")

    def _skip_pair(self, resolved: Any, depth: int) -> None:
        self.step(kernel.OP_BYTES)
        self.value(resolved.get("values"), _Target.SKIP, -1, depth + 1)

    def _union(self, branches: list[Any], emit: Any, depth: int) -> None:
        first = len(self.jumps)
        self.step(kernel.OP_UNION, first, len(branches))
        self.jumps += [0] * len(branches)
        leaving = []
        for index, branch in enumerate(branches):
            self.jumps[first + index] = len(self.steps)
            if self.resolve(branch, depth + 1)[0] != "null":
                emit(branch)
            leaving.append(self.step(kernel.OP_JUMP))
        for jump in leaving:
            self.steps[jump] = (kernel.OP_JUMP, -1, len(self.steps))

    def _loop(self, emit: Any) -> None:
        self._arrays += 1
        if self._arrays > kernel.MAX_NESTING:
            raise self.fail("is nested too deeply")
        start = self.step(kernel.OP_ARRAY)
        emit()
        end = self.step(kernel.OP_NEXT)
        for index, op in ((start, kernel.OP_ARRAY), (end, kernel.OP_NEXT)):
            self.steps[index] = (op, -1, len(self.steps))
        self._arrays -= 1

    def _map(self, schema: Any, pool: Pool, depth: int) -> None:
        """A map as Iceberg writes it in Avro: an array of records of a key and a value."""
        kind, resolved = self.resolve(schema, depth)
        if kind == "union":
            self._union(resolved, lambda branch: self._map(branch, pool, depth + 1), depth)
            return
        items = self.resolve(resolved.get("items"), depth + 1) if kind == "array" else ("none", None)
        fields = self.part(items[1], "fields", list) if items[0] == "record" else []
        if [field.get("name") if isinstance(field, dict) else None for field in fields] != ["key", "value"]:
            raise self.fail(f"stores {pool.name.lower()} not as an array of keys and values")
        key, value = (self.part(field, "type", object) for field in fields)
        if self.resolve(key, depth + 2)[0] not in _LONGS:
            raise self.fail(f"stores {pool.name.lower()} by keys that are not integers")

        def pair() -> None:
            self.step(kernel.OP_KEY)
            self.value(value, _Target.VALUE, pool.value, depth + 2)

        self._loop(pair)

    def _list(self, schema: Any, pool: Pool, depth: int) -> None:
        kind, resolved = self.resolve(schema, depth)
        if kind == "union":
            self._union(resolved, lambda branch: self._list(branch, pool, depth + 1), depth)
        elif kind == "array":
            self._loop(lambda: self.value(resolved.get("items"), _Target.ITEM, pool.value, depth + 1))
        else:
            raise self.fail(f"stores {pool.name.lower()} not as an array")
