"""Which rows the values of an equality delete file take away."""

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
    """Which rows have in all of the columns the values of a row of the deletes; null is like null.

    >>> equal_rows([pa.array([1, 2, None])], pa.table({"id": [None, 1]}))
    array([ True, False,  True])
    """
    rows, count = len(columns[0]), len(deleted)
    keys = np.zeros((rows + count, len(columns)), np.int64)
    for place, column in enumerate(columns):
        mine, theirs = _alike(column, deleted.column(place).combine_chunks())
        encoded = pa.concat_arrays([mine, theirs]).dictionary_encode(null_encoding="encode")
        keys[:, place] = encoded.indices.to_numpy(zero_copy_only=False)
    _, codes = np.unique(keys, axis=0, return_inverse=True)
    codes = codes.reshape(-1)
    return np.isin(codes[:rows], codes[rows:])


def _alike(one: pa.Array, two: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Both of the wider of two types: a column may have been promoted between them.

    >>> _alike(pa.array([0.1]), pa.array([0.1], pa.float32()))[1].to_pylist()
    [0.10000000149011612]
    """
    if one.type == two.type:
        return one, two
    # A double or a time would become a float or a date without a word, and like others that it is not.
    wide = (pa.types.is_float64, pa.types.is_timestamp)
    for kind in sorted((two.type, one.type), key=lambda kind: not any(is_wide(kind) for is_wide in wide)):
        try:
            return one.cast(kind), two.cast(kind)
        except pa.ArrowException:
            continue
    raise SchemaError(f"values of type {one.type} cannot be compared with deletes of type {two.type}")
