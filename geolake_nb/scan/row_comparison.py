"""Compares the rows of two answers as multisets, whatever their order and the types that an engine gave them."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from geolake_nb.geo.wkb import may_nest_deeply

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["row_difference", "with_types"]


def with_types(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of a schema that the rows have, with its types; a column of values that do not fit is left out.

    >>> import pyarrow as pa
    >>> rows = pa.table({"b": ["x"], "n": pa.array([1.0])})
    >>> with_types(rows, pa.schema({"n": pa.int64(), "a": pa.int64()})).to_pydict()
    {'n': [1]}
    """
    columns: dict[str, pa.ChunkedArray] = {}
    for field in schema:
        if field.name in rows.column_names:
            values = _with_type(rows[field.name], field.type)
            if values is not None:
                columns[field.name] = values
    return pa.table(columns)


def _with_type(values: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray | None:
    kind = values.type
    if isinstance(kind, pa.ExtensionType):
        values = pa.chunked_array([chunk.storage for chunk in values.chunks], kind.storage_type)
        kind = values.type
    if pa.types.is_struct(kind) and wanted == pa.binary() and kind.get_field_index("wkb") >= 0:
        # Spark's geometries in Arrow.
        values = pa.chunked_array(
            [chunk.flatten()[kind.get_field_index("wkb")] for chunk in values.chunks], kind.field("wkb").type
        )
    if pa.types.is_dictionary(kind):
        values = pa.chunked_array([chunk.dictionary_decode() for chunk in values.chunks], kind.value_type)
    try:
        return values.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return None


def row_difference(expected: pa.Table, actual: pa.Table, *, shapes: Collection[str] = ()) -> tuple[int, int]:
    """How many rows the second answer lacks, and how many it has too many, by the columns that both have.

    Geometries are compared by their coordinates, however the bytes order them; NaN and null are one.

    >>> import pyarrow as pa
    >>> row_difference(pa.table({"a": [1, 1, 2]}), pa.table({"a": [2, 1, 3]}))
    (1, 1)
    """
    names = [name for name in expected.column_names if name in actual.column_names]
    if not names:
        missing = expected.num_rows - actual.num_rows
        return max(missing, 0), max(-missing, 0)
    left, right = _canonical(expected.select(names), shapes), _canonical(actual.select(names), shapes)
    if left == right:
        return 0, 0
    before, after = Counter(zip(*left, strict=True)), Counter(zip(*right, strict=True))
    return sum((before - after).values()), sum((after - before).values())


def _canonical(rows: pa.Table, shapes: Collection[str]) -> list[list[Any]]:
    return [_shape_values(rows[name]) if name in shapes else _plain_values(rows[name]) for name in rows.column_names]


def _plain_values(values: pa.ChunkedArray) -> list[Any]:
    kind = values.type
    plain: list[Any]
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind):
        # Their Python values do not have nanoseconds.
        values = values.cast(pa.int64() if kind.bit_width == 64 else pa.int32())
    plain = values.to_pylist()
    if pa.types.is_nested(kind):
        return [repr(value) for value in plain]
    if pa.types.is_floating(kind):
        return [None if value is None or math.isnan(value) else value for value in plain]
    return plain


def _shape_values(values: pa.ChunkedArray) -> list[Any]:
    """WKB as shapely writes it; values that it cannot read stay as they are."""
    import shapely

    raw: list[Any] = values.to_pylist()
    if not all(isinstance(value, bytes | None) for value in raw):
        return [repr(value) for value in raw]
    readable = np.array([None if value is None or may_nest_deeply(value) else value for value in raw], object)
    try:
        with np.errstate(invalid="ignore"):
            written = shapely.to_wkb(shapely.from_wkb(readable, on_invalid="ignore"), flavor="iso", byte_order=1)
    except (NotImplementedError, shapely.errors.ShapelyError):
        return raw
    return [value if text is None else text for value, text in zip(raw, written.tolist(), strict=True)]
