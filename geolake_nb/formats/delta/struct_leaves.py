"""Leaves of a column of structs, with each struct flattened only once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["StructLeaves"]


class StructLeaves:
    """The fields of a column of structs by their paths, null where a parent struct is null.

    The cost of getting one field from Arrow grows with the width of the struct, and statistics are as wide as the table
    has columns: so all fields of a struct are extracted when the first is requested.

    >>> column = pa.chunked_array([[{"a": {"b": 1}, "c": 2}, {"a": None, "c": 3}, None]])
    >>> leaves = StructLeaves(column)
    >>> leaves.find(("a", "b")).to_pylist(), leaves.find(("c",)).to_pylist()
    ([1, None, None], [2, 3, None])
    >>> leaves.find(("a", "x")) is None, leaves.find(("c", "d")) is None, leaves.find(()) is column
    (True, True, True)
    """

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._column = column
        self._fields: dict[tuple[str, ...], list[pa.ChunkedArray]] = {}

    def find(self, path: Sequence[str]) -> pa.ChunkedArray | None:
        """The values at a path; `None` where the column has no such field, or several of that name."""
        column = self._column
        for depth, name in enumerate(path):
            index = column.type.get_field_index(name) if pa.types.is_struct(column.type) else -1
            if index < 0:
                return None
            above = tuple(path[:depth])
            if above not in self._fields:
                self._fields[above] = column.flatten()
            column = self._fields[above][index]
        return column
