"""Which rows an equality delete file deletes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from geolake_nb.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["equal_rows"]


def equal_rows(columns: Sequence[pa.Array], deleted: pa.Table) -> NDArray[np.bool_]:
    """Which rows equal a row of the deletes in all of the columns; nulls are equal.

    >>> equal_rows([pa.array([1, 2, None])], pa.table({"id": [None, 1]}))
    array([ True, False,  True])
    """
    rows, count = len(columns[0]), len(deleted)
    keys = np.zeros((rows + count, len(columns)), np.int64)
    for index, column in enumerate(columns):
        mine, theirs = _same_type(column, deleted.column(index).combine_chunks())
        encoded = pa.concat_arrays([mine, theirs]).dictionary_encode(null_encoding="encode")
        keys[:, index] = encoded.indices.to_numpy(zero_copy_only=False)
    _, codes = np.unique(keys, axis=0, return_inverse=True)
    codes = codes.reshape(-1)
    return np.isin(codes[:rows], codes[rows:])


def _same_type(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Both as the wider of the two types: a column may have been promoted in between.

    >>> _same_type(pa.array([0.1]), pa.array([0.1], pa.float32()))[1].to_pylist()
    [0.10000000149011612]
    """
    if left.type == right.type:
        return left, right
    # A double or a time would silently become a float or a date, and equal to other values.
    wide = (pa.types.is_float64, pa.types.is_timestamp)
    for kind in sorted((right.type, left.type), key=lambda kind: not any(is_wide(kind) for is_wide in wide)):
        try:
            return left.cast(kind), right.cast(kind)
        except pa.ArrowException:
            continue
    raise SchemaError(f"values of type {left.type} cannot be compared with deletes of type {right.type}")
