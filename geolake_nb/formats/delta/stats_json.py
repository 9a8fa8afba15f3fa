"""Leaves of the statistics in JSON as Arrow columns: vectorized, and one by one where some values are unusual."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.formats.delta.struct_leaves import StructLeaves
from geolake_nb.text.untrusted_json import has_too_many_values

__all__ = ["Leaf", "load_stats", "read_leaves"]

Leaf = tuple[tuple[str, ...], pa.DataType]
"""The names from the top of the JSON object down to a value, and the type to read it as."""

# One unusual value makes its whole chunk take the slow path; threads process a chunk each.
_CHUNK = 16_384
_OPEN, _CLOSE = ord("{"), ord("}")


def read_leaves(stats: pa.Array | pa.ChunkedArray, leaves: Sequence[Leaf]) -> list[pa.Array]:
    """One array for each leaf, null where the JSON has no such value or one of another type.

    >>> texts = pa.array(['{"numRecords": 3}', None, "no JSON", '{"numRecords": "many"}'])
    >>> read_leaves(texts, [(("numRecords",), pa.int64())])[0].to_pylist()
    [3, None, None, None]
    """
    if not leaves:
        return []

    def read(some: pa.Array) -> list[pa.Array]:
        table = _in_columns(some, leaves)
        return _one_by_one(some, leaves) if table is None else table

    chunks = stats.chunks if isinstance(stats, pa.ChunkedArray) else [stats]
    pieces = [chunk.slice(start, _CHUNK) for chunk in chunks for start in range(0, len(chunk), _CHUNK)]
    if not pieces:
        return [pa.array([], type_) for _, type_ in leaves]
    if len(pieces) == 1:
        return read(pieces[0])
    with ThreadPoolExecutor(pa.cpu_count()) as pool:
        parts = list(pool.map(read, pieces))
    return [_joined([part[index] for part in parts]) for index in range(len(leaves))]


def load_stats(text: str | None) -> Mapping[str, Any] | None:
    """The statistics of one file as a JSON object, `None` if they are missing or invalid.

    >>> load_stats('{"numRecords": 1}'), load_stats("[1]"), load_stats(None)
    ({'numRecords': 1}, None, None)
    """
    if text is None or has_too_many_values(text):
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _in_columns(stats: pa.Array, leaves: Sequence[Leaf]) -> list[pa.Array] | None:
    """The leaves of all texts at once, or `None` where some text must be parsed by itself."""
    import pyarrow.json as pj

    texts = pc.fill_null(stats, "{}") if stats.null_count else stats
    if not len(texts) or not _are_objects(texts):
        return None
    # One block, so that the objects need no separator.
    data = _bytes_of(texts)
    try:
        table = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(block_size=len(data) + 1, use_threads=False),
            parse_options=pj.ParseOptions(explicit_schema=_schema(leaves), unexpected_field_behavior="ignore"),
        )
    except pa.ArrowException:
        return None
    if table.num_rows != len(texts):
        return None
    tops = {name: StructLeaves(table[name]) for name in table.column_names}
    # The schema has each of the leaves, so the table has them too.
    columns = [tops[path[0]].find(path[1:]) for path, _ in leaves]
    return [_joined(column.chunks) for column in columns if column is not None]


def _are_objects(texts: pa.Array) -> bool:
    """Whether every text starts and ends with a brace; otherwise a row could take values of another."""
    offsets = _offsets(texts)
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    starts, ends = offsets[:-1], offsets[1:]
    if not len(data) or bool(np.any(ends - starts < 2)):
        return False
    return bool(np.all(data[starts] == _OPEN) and np.all(data[ends - 1] == _CLOSE))


def _offsets(texts: pa.Array) -> np.ndarray[Any, Any]:
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    offsets: np.ndarray[Any, Any] = np.frombuffer(texts.buffers()[1], width)
    return offsets[texts.offset : texts.offset + len(texts) + 1]


def _bytes_of(texts: pa.Array) -> pa.Buffer:
    offsets = _offsets(texts)
    return texts.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _schema(leaves: Sequence[Leaf]) -> pa.Schema:
    tree: dict[str, Any] = {}
    for path, type_ in leaves:
        level = tree
        for name in path[:-1]:
            level = level.setdefault(name, {})
        level[path[-1]] = type_

    def fields(level: dict[str, Any]) -> list[pa.Field]:
        return [
            pa.field(name, pa.struct(fields(child)) if isinstance(child, dict) else child)
            for name, child in level.items()
        ]

    return pa.schema(fields(tree))


def _one_by_one(stats: pa.Array, leaves: Sequence[Leaf]) -> list[pa.Array]:
    columns: list[list[Any]] = [[] for _ in leaves]
    load = _load_exactly if any(pa.types.is_decimal(type_) for _, type_ in leaves) else load_stats
    for text in stats.to_pylist():
        value = load(text)
        for column, (path, type_) in zip(columns, leaves, strict=True):
            column.append(_coerced(_descend(value, path), type_))
    return [pa.array(column, type_) for column, (_, type_) in zip(columns, leaves, strict=True)]


def _load_exactly(text: str | None) -> Mapping[str, Any] | None:
    """The same as `load_stats`, with the full precision of numbers."""
    if load_stats(text) is None:
        return None
    try:
        value: Mapping[str, Any] = json.loads(text or "", parse_float=Decimal)
    except (RecursionError, ValueError):
        return None
    return value


def _descend(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _coerced(value: Any, type_: pa.DataType) -> Any:
    """The value if it is of that type; Jackson writes non-finite numbers as strings."""
    if value is None or isinstance(value, (dict, list)):
        return None
    if pa.types.is_string(type_):
        return value if isinstance(value, str) else None
    if pa.types.is_boolean(type_):
        return value if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    if pa.types.is_integer(type_):
        return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None
    if pa.types.is_floating(type_):
        if isinstance(value, str):
            return float(value) if value in ("NaN", "Infinity", "-Infinity") else None
        return float(value) if abs(value) < 1e308 or isinstance(value, float) else None
    if pa.types.is_decimal(type_):
        return _decimal(value, type_)
    return None


def _decimal(value: Any, type_: pa.DataType) -> Decimal | None:
    try:
        number = Decimal(str(value))
        return number if pa.scalar(number, type_) is not None else None
    except (ArithmeticError, ValueError, pa.ArrowException):
        return None


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
