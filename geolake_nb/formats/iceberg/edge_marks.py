"""Which bounds of geographies in manifests hold the edges between the vertices too: those that say so.

Nothing in a manifest says how its writer bounds a geography, and many take the box of the vertices. Two marks name the
columns, by their field ids, whose bounds this package made. One is in the summary of a snapshot and counts for the
files that this snapshot added, wherever others put their entries; where the snapshot expires, so does the mark. The
other is in the header of a manifest and counts for all its entries: manifests never change, and who merges or rewrites
them makes new ones without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from geolake_nb.formats.iceberg.metadata import StoredSnapshot

__all__ = ["EDGES", "edge_mark", "edges_held", "marked_ids"]

EDGES = "geolake_nb.geography-bounds"
"""The key of both marks."""


def edge_mark(ids: Iterable[int]) -> str:
    """The value that names these columns.

    >>> edge_mark([7, 2])
    '2,7'
    """
    return ",".join(str(one) for one in sorted(set(ids)))


def marked_ids(value: str | bytes | None) -> frozenset[int]:
    """The columns that a value names, none where it cannot be read.

    >>> sorted(marked_ids(b"2,7")), marked_ids("all"), marked_ids(None)
    ([2, 7], frozenset(), frozenset())
    """
    text = value.decode(errors="replace") if isinstance(value, bytes) else value or ""
    numbers = text.split(",")
    return frozenset(map(int, numbers)) if all(one.isascii() and one.isdigit() for one in numbers) else frozenset()


def edges_held(
    column: int,
    *,
    added_by: NDArray[np.int64],
    manifest: NDArray[np.int64],
    snapshots: Mapping[int, StoredSnapshot],
    manifests: Mapping[int, frozenset[int]],
) -> NDArray[np.bool_]:
    """The files whose bounds of a column hold its edges: by the snapshot that added each, or by its manifest.

    >>> places, marks = np.array([0, 1]), {1: frozenset((2,))}
    >>> edges_held(2, added_by=np.array([5, 5]), manifest=places, snapshots={}, manifests=marks)
    array([False,  True])
    """
    ours = [number for number, one in snapshots.items() if column in marked_ids(one.summary.get(EDGES))]
    marked = [place for place, ids in manifests.items() if column in ids]
    return np.isin(added_by, ours) | np.isin(manifest, marked)
