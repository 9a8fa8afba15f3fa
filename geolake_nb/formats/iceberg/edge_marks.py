"""Marks for the bounds of geographies in manifests that also cover the edges between the vertices.

A manifest does not specify how its writer bounds a geography, and many use the box of the vertices. Two marks list the
columns, by their field ids, whose bounds this package wrote. One is in the summary of a snapshot and applies to the
files that this snapshot added, wherever others move their entries; it expires with the snapshot. The
other is in the header of a manifest and applies to all its entries: manifests never change, and a writer that merges or
rewrites them creates new ones without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from geolake_nb.formats.iceberg.metadata import StoredSnapshot

__all__ = ["EDGES", "covers_edges", "edge_mark", "marked_ids"]

EDGES = "geolake_nb.geography-bounds"
"""The key of both marks."""


def edge_mark(ids: Iterable[int]) -> str:
    """The value that lists these columns.

    >>> edge_mark([7, 2])
    '2,7'
    """
    return ",".join(str(id_) for id_ in sorted(set(ids)))


def marked_ids(value: str | bytes | None) -> frozenset[int]:
    """The columns that a value lists, none if it cannot be parsed.

    >>> sorted(marked_ids(b"2,7")), marked_ids("all"), marked_ids(None)
    ([2, 7], frozenset(), frozenset())
    """
    text = value.decode(errors="replace") if isinstance(value, bytes) else value or ""
    numbers = text.split(",")
    return (
        frozenset(map(int, numbers))
        if all(number.isascii() and number.isdigit() for number in numbers)
        else frozenset()
    )


def covers_edges(
    column: int,
    *,
    added_by: NDArray[np.int64],
    manifest: NDArray[np.int64],
    snapshots: Mapping[int, StoredSnapshot],
    manifests: Mapping[int, frozenset[int]],
) -> NDArray[np.bool_]:
    """The files whose bounds of a column cover its edges: by the snapshot that added each, or by its manifest.

    >>> manifests, marks = np.array([0, 1]), {1: frozenset((2,))}
    >>> covers_edges(2, added_by=np.array([5, 5]), manifest=manifests, snapshots={}, manifests=marks)
    array([False,  True])
    """
    ours = [number for number, snapshot in snapshots.items() if column in marked_ids(snapshot.summary.get(EDGES))]
    marked = [index for index, ids in manifests.items() if column in ids]
    return np.isin(added_by, ours) | np.isin(manifest, marked)
