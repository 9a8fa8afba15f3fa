"""The JSON of an `add` action that only a checkpoint contains, with all of its fields in the checkpoint."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import CorruptTableError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Zones", "add_texts", "stats_object", "stats_objects"]

Zones = Mapping[tuple[str, ...], bool]
"""Whether each timestamp column, by its name in the statistics, holds instants."""

_PARSED = "stats_parsed"
_EPOCH = dt.datetime(1970, 1, 1)


def add_texts(adds: pa.StructArray, *, where: str, zones: Zones | None = None) -> list[str]:
    """The JSON object of each `add`; a file without `stats` gets them from its `stats_parsed`.

    `zones` specifies which timestamps are written with a zone; for others the Parquet type decides.

    >>> add = {"path": "a", "size": 3, "tags": None, "stats_parsed": {"numRecords": 2}}
    >>> add_texts(pa.array([add]), where="checkpoint")
    ['{"path":"a","partitionValues":{},"size":3,"stats":"{\\\\"numRecords\\\\":2}"}']
    """
    names = [child.name for child in adds.type]
    columns: dict[str, list[Any]] = {}
    try:
        for name in names:
            if name != _PARSED:
                columns[name] = _plain(adds.field(name))
        columns["stats"] = _stats(adds, columns.get("stats"), zones or {})
    except (pa.ArrowException, UnicodeDecodeError, TypeError, ValueError) as problem:
        raise CorruptTableError(f"a file of the checkpoint cannot be read: {problem}", where=where) from None
    if adds.null_count or None in columns["path"]:
        raise CorruptTableError("a file of the checkpoint has no path", where=where)
    # Delta, Add file: the map of partition values is required even if it is empty.
    columns["partitionValues"] = [values or {} for values in columns.get("partitionValues", [None] * len(adds))]
    order = ["path", "partitionValues", *(name for name in columns if name not in ("path", "partitionValues"))]
    rows = zip(*(columns[name] for name in order), strict=True)
    return [
        orjson.dumps({name: value for name, value in zip(order, row, strict=True) if value is not None}).decode()
        for row in rows
    ]


def stats_object(parsed: pa.Scalar) -> Mapping[str, Any] | None:
    """The statistics of one file, a struct in a checkpoint, as a JSON object.

    >>> stats_object(pa.scalar({"numRecords": 2, "minValues": {"day": dt.date(2000, 1, 1)}}))
    {'numRecords': 2, 'minValues': {'day': '2000-01-01'}}
    """
    return stats_objects(pa.chunked_array([pa.array([parsed], parsed.type)]))[0]


def stats_objects(parsed: pa.ChunkedArray) -> list[Mapping[str, Any] | None]:
    """The statistics of many files, or a part of them, structs in a checkpoint, as JSON objects.

    >>> stats_objects(pa.chunked_array([[{"numRecords": 2}, None]]))
    [{'numRecords': 2}, None]
    """
    return [value for chunk in parsed.chunks for value in _stat_values(chunk, (), {})]


def _stats(adds: pa.StructArray, texts: list[Any] | None, zones: Zones) -> list[Any]:
    stats = [None] * len(adds) if texts is None else texts
    if None not in stats or adds.type.get_field_index(_PARSED) < 0:
        return stats
    parsed = _stat_values(adds.field(_PARSED), (), zones)
    return [
        orjson.dumps(struct).decode() if text is None and struct else text
        for text, struct in zip(stats, parsed, strict=True)
    ]


def _plain(column: pa.Array) -> list[Any]:
    """The values as in JSON: maps as objects, and no member for a null in a struct."""
    kind = column.type
    if pa.types.is_map(kind):
        # The children of a map array span all rows; each row has those between its offsets.
        keys, items = column.keys.to_pylist(), _plain(column.items)
        offsets = column.offsets.to_pylist()
        return [
            dict(zip(keys[start:end], items[start:end], strict=True)) if valid else None
            for start, end, valid in zip(offsets, offsets[1:], pc.is_valid(column).to_pylist(), strict=False)
        ]
    if pa.types.is_struct(kind):
        if column.null_count == len(column):
            return [None] * len(column)
        return _objects(column, [_plain(column.field(index)) for index in range(kind.num_fields)])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        values, offsets = _plain(column.values), column.offsets.to_pylist()
        return [
            values[start:end] if valid else None
            for start, end, valid in zip(offsets, offsets[1:], pc.is_valid(column).to_pylist(), strict=False)
        ]
    if pa.types.is_decimal(kind):
        return [None if value is None else orjson.Fragment(format(value, "f")) for value in column.to_pylist()]
    if pa.types.is_null(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return list(column.to_pylist())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_floating(kind):
        return list(column.to_pylist())
    raise TypeError(f"a field of type {kind} cannot be written as JSON")


def _objects(column: pa.StructArray, children: Sequence[list[Any]]) -> list[Any]:
    names = [child.name for child in column.type]
    made = [
        {name: value for name, value in zip(names, row, strict=True) if value is not None} if valid else None
        for row, valid in zip(zip(*children, strict=True), pc.is_valid(column).to_pylist(), strict=True)
    ]
    # Some writers write a struct of nulls for a missing value.
    return [object_ or None for object_ in made]


def _stat_values(column: pa.Array, path: tuple[str, ...], zones: Zones) -> list[Any]:
    """Statistics as in JSON; values that JSON cannot represent are left out, which is always sound."""
    kind = column.type
    if pa.types.is_struct(kind):
        return _objects(column, [_stat_values(column.field(child.name), (*path, child.name), zones) for child in kind])
    if pa.types.is_floating(kind):
        return [_number(value) for value in column.to_pylist()]
    if pa.types.is_timestamp(kind):
        # Delta, Per-file statistics: truncated to milliseconds, which readers of a maximum expect. Some writers keep no
        # zone in Parquet, and readers interpret an instant without one in their own zone: the column's type decides.
        mark = "Z" if zones.get(path[1:], kind.tz is not None) else ""
        ticks = {"s": 1_000, "ms": 1, "us": 1_000, "ns": 1_000_000}[kind.unit]
        counts = column.cast(pa.int64()).to_pylist()
        millis = [None if n is None else n * ticks if kind.unit == "s" else n // ticks for n in counts]
        return [_instant(value, mark) for value in millis]
    if pa.types.is_date(kind):
        return [_date(value) for value in column.cast(pa.date32()).cast(pa.int32()).to_pylist()]
    if any(test(kind) for test in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_nested)):
        return [None] * len(column)
    return _plain(column)


def _number(value: float | None) -> float | str | None:
    # As Spark writes them; a bare NaN is not valid JSON.
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _instant(millis: int | None, mark: str) -> str | None:
    if millis is None:
        return None
    try:
        return (_EPOCH + dt.timedelta(milliseconds=millis)).isoformat(timespec="milliseconds") + mark
    except OverflowError:
        return None


def _date(days: int | None) -> str | None:
    if days is None:
        return None
    try:
        return (_EPOCH + dt.timedelta(days=days)).date().isoformat()
    except OverflowError:
        return None
