"""Which stored bounds of a geo column are missing or wrong, from the log and the Parquet footers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from geolake_nb.checks.evidence import flags
from geolake_nb.geo.box_comparison import BoxSides, excess, misses
from geolake_nb.model.box import Box
from geolake_nb.model.file_table import AXES

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from geolake_nb.changes.repair.footer_bounds import FooterBounds
    from geolake_nb.model.snapshot import Snapshot

__all__ = ["StoredBounds", "box_at", "holds"]


@dataclass(frozen=True, slots=True, eq=False)
class StoredBounds:
    """The stored bounds of one geo column, one entry per file."""

    boxes: BoxSides
    broken: NDArray[np.bool_]
    """Bounds that cannot be read, or wrap where the readers of the format compare boxes on a plane and lose rows."""
    only_null: NDArray[np.bool_]
    """Where no row has a value, so that no bound is missing."""
    null_count: NDArray[np.int64]
    """-1 where it is not known."""

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        column: str,
        positions: NDArray[np.intp],
        *,
        records: pa.Array | pa.ChunkedArray,
        may_wrap: bool,
    ) -> StoredBounds:
        """The bounds of a column in the files at these positions; `records` are the rows of all files."""
        table = snapshot.files.table
        boxes = BoxSides.of(table, column)
        broken = flags(pc.is_valid(table[f"{column}.problem"]))
        if not may_wrap:
            broken |= boxes.wraps & boxes.known
        nulls = table[f"{column}.null_count"]
        only_null = flags(pc.equal(nulls, records))
        counts = np.asarray(pc.fill_null(nulls, -1).to_numpy(), np.int64)
        return cls(boxes.take(positions), broken[positions], only_null[positions], counts[positions])

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Files without a bound that may have values to bound."""
        return ~self.boxes.known & ~self.broken & ~self.only_null

    def refuted(self, footers: FooterBounds, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Files whose footer contradicts the bound: a larger box, or values where the log has only nulls."""
        missed = misses(self.boxes, footers.stated)
        counted = (footers.null_count >= 0) & (footers.null_count < rows)
        has_values = self.only_null & (counted | footers.stated.known)
        sticks_out = (missed.smaller | missed.rounded) & ~self.only_null
        refuted: NDArray[np.bool_] = (sticks_out | has_values) & ~self.broken
        return refuted

    def loose(self, footers: FooterBounds) -> NDArray[np.bool_]:
        """Files whose box is larger than the footer's by more than 1 %, so that queries read them needlessly."""
        loose: NDArray[np.bool_] = excess(self.boxes, footers.usable) & ~self.broken & ~self.only_null
        return loose

    def settled(self, footers: FooterBounds) -> NDArray[np.bool_]:
        """Files without a bound that, by the footer, have only null or empty geometries, with up-to-date counts."""
        counted = (footers.null_count < 0) | (footers.null_count == self.null_count)
        settled: NDArray[np.bool_] = self.missing & footers.nowhere & counted
        return settled


def box_at(boxes: BoxSides, index: int) -> Box | None:
    """One of many boxes, `None` where there is none.

    >>> box_at(BoxSides({axis: np.array([np.nan]) for axis in AXES}), 0) is None
    True
    """
    sides = [None if math.isnan(side) else side for side in (boxes[axis].item(index) for axis in AXES)]
    return None if None in sides[:4] else Box(*sides)  # type: ignore[arg-type]


def holds(outer: Box, inner: Box, *, may_wrap: bool = False) -> bool:
    """Whether a stored bound holds a box, on every axis that both have; a wrapping box holds nothing unless `may_wrap`.

    >>> holds(Box(-180, 0, 180, 1), Box(170, 0, -170, 1)), holds(Box(0, 0, 1, 1, 0, 1), Box(0, 0, 1, 1, 0, 2))
    (True, False)
    """
    if (outer.wraps and not may_wrap) or not outer.contains(inner):
        return False
    for low, high in (("zmin", "zmax"), ("mmin", "mmax")):
        bottom, top, least, most = getattr(outer, low), getattr(outer, high), getattr(inner, low), getattr(inner, high)
        if bottom is not None and least is not None and not (bottom <= least and most <= top):
            return False
    return True
