"""Compares the rows of two answers as multisets, whatever their order and the types that an engine gave them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.geo.wkb import may_nest_deeply

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

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


def row_difference(
    expected: pa.Table, actual: pa.Table, *, shapes: Collection[str] = ()
) -> tuple[int, NDArray[np.int64]]:
    """How many rows the second answer lacks, and which of its rows it has too many, by the columns that both have.

    Geometries are compared by their coordinates, however the bytes order them; NaN and null are one.

    >>> import pyarrow as pa
    >>> lost, extra = row_difference(pa.table({"a": [1, 1, 2]}), pa.table({"a": [2, 1, 3]}))
    >>> lost, extra.tolist()
    (1, [2])
    """
    names = [name for name in expected.column_names if name in actual.column_names]
    if not names:
        return max(expected.num_rows - actual.num_rows, 0), np.arange(expected.num_rows, actual.num_rows)
    both = pa.concat_tables([_plain(expected.select(names)), _plain(actual.select(names))])
    lost, extra = _unmatched(_row_codes(both), expected.num_rows)
    if not (lost or len(extra)) or not any(name in shapes for name in names):
        return lost, extra
    for name in shapes:
        if name in names:
            both = both.set_column(names.index(name), name, pa.chunked_array([_canonical_shapes(both[name])]))
    return _unmatched(_row_codes(both), expected.num_rows)


def _row_codes(rows: pa.Table) -> NDArray[np.int64]:
    """A number for each row, the same for equal rows."""
    codes = np.zeros(rows.num_rows, np.int64)
    for values in rows.columns:
        encoded = values.combine_chunks().dictionary_encode(null_encoding="encode")
        indices = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        # Numbers of all columns so far, made small again so that the next product is exact.
        _, codes = np.unique(codes * (len(encoded.dictionary) + 1) + indices, return_inverse=True)
    return codes


def _unmatched(codes: NDArray[np.int64], count: int) -> tuple[int, NDArray[np.int64]]:
    """How many of the first rows, and which of the others, are left when equal ones are paired."""
    before, after = codes[:count], codes[count:]
    most = int(codes.max(initial=-1)) + 1
    wanted, given = np.bincount(before, minlength=most), np.bincount(after, minlength=most)
    lost = int(np.maximum(wanted - given, 0).sum())
    # The number of each row among those equal to it.
    order = np.argsort(after, kind="stable")
    ranks = np.empty(len(after), np.int64)
    ranks[order] = np.arange(len(after)) - (np.cumsum(given) - given)[after[order]]
    return lost, np.flatnonzero(ranks >= wanted[after])


def _plain(rows: pa.Table) -> pa.Table:
    """The same values in types that Arrow can number; without the metadata of the columns."""
    return pa.table({name: _plain_values(rows[name]) for name in rows.column_names})


def _plain_values(values: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = values.type
    if pa.types.is_floating(kind):
        numbers = values.cast(pa.float64())
        # Two zeros are one value.
        return pc.add(pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers), 0.0)
    if pa.types.is_nested(kind) or pa.types.is_null(kind):
        return pa.chunked_array([[None if value is None else repr(value) for value in values.to_pylist()]], pa.string())
    return values


def _canonical_shapes(values: pa.ChunkedArray) -> pa.Array:
    """WKB as shapely writes it; values that it cannot read stay as they are."""
    import shapely

    raw: list[Any] = values.to_pylist()
    readable = np.array([None if value is None or may_nest_deeply(value) else value for value in raw], object)
    try:
        with np.errstate(invalid="ignore"):
            written = shapely.to_wkb(shapely.from_wkb(readable, on_invalid="ignore"), flavor="iso", byte_order=1)
    except (NotImplementedError, shapely.errors.ShapelyError):
        return values.combine_chunks()
    return pa.array([value if text is None else text for value, text in zip(raw, written, strict=True)], pa.binary())
