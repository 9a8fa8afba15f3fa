"""Statistics of a geo column, in one file or many, and how those of parts make those of the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from geolake_nb.model.box import Box, union_all
from geolake_nb.model.types import GeometryType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from geolake_nb.model.types import DataType

__all__ = ["ColumnStats", "Problem", "merge"]


@dataclass(frozen=True, slots=True)
class Problem:
    """The first value of a column that prevents a bound, or a reason that prevents all of them."""

    row: int | None
    reason: str
    offset: int | None = None
    """The byte of a WKB value at which it cannot be read further."""

    def __str__(self) -> str:
        row = "" if self.row is None else f"row {self.row}: "
        return row + self.reason + ("" if self.offset is None else f" (at byte {self.offset})")


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """What is known of the values of a geo column. `None` means unknown."""

    box: Box | None
    types: tuple[int, ...] | None
    """ISO type codes, unique and sorted; `None` when a value could not be read."""
    rows: int
    null_count: int
    empty_count: int
    """Values with no X and no Y."""
    bad: int = 0
    """Values that cannot be read."""
    unbounded: int = 0
    """Values that can be read and have no valid bound, such as a longitude of 190 degrees in a geography."""
    first_bad: Problem | None = None
    first_unbounded: Problem | None = None
    srids: tuple[int, ...] = ()
    """The least and the greatest SRID of EWKB values, one where all have the same, none where none has one."""

    @property
    def only_null_or_empty(self) -> bool:
        """Whether all values are null or empty: such a part adds nothing to the box of the whole."""
        return self.null_count + self.empty_count == self.rows


def merge(parts: Iterable[ColumnStats], *, type: DataType | None = None) -> ColumnStats:
    """The statistics of a column made of these parts, in order; `type` decides whether longitudes wrap.

    A part with only nulls and empties adds nothing to the box. Any other part without a box leaves the whole
    without one, as a part with unknown types leaves the types unknown.

    >>> known = ColumnStats(Box(0, 0, 1, 1), (1,), rows=2, null_count=0, empty_count=0)
    >>> blank = ColumnStats(None, (3,), rows=1, null_count=0, empty_count=1)
    >>> lost = ColumnStats(None, None, rows=1, null_count=0, empty_count=0, bad=1)
    >>> merge([known, blank]).box == known.box, merge([known, blank]).types
    (True, (1, 3))
    >>> merge([known, lost]).box, merge([]).box
    (None, None)
    """
    whole = list(parts)
    placed = [part for part in whole if not part.only_null_or_empty]
    boxes = [part.box for part in placed if part.box is not None]
    circular = type is not None and not isinstance(type, GeometryType)
    types = [part.types for part in whole if part.types is not None]
    return ColumnStats(
        box=union_all(boxes, circular=circular) if len(boxes) == len(placed) else None,
        types=tuple(sorted(set().union(*types))) if len(types) == len(whole) else None,
        rows=sum(part.rows for part in whole),
        null_count=sum(part.null_count for part in whole),
        empty_count=sum(part.empty_count for part in whole),
        bad=sum(part.bad for part in whole),
        unbounded=sum(part.unbounded for part in whole),
        first_bad=_first([(part.rows, part.first_bad) for part in whole]),
        first_unbounded=_first([(part.rows, part.first_unbounded) for part in whole]),
        srids=_ends({srid for part in whole for srid in part.srids}),
    )


def _ends(srids: set[int]) -> tuple[int, ...]:
    return tuple(sorted({min(srids), max(srids)})) if srids else ()


def _first(problems: list[tuple[int, Problem | None]]) -> Problem | None:
    before = 0
    for rows, problem in problems:
        if problem is not None:
            row = None if problem.row is None else before + problem.row
            return Problem(row, problem.reason, problem.offset)
        before += rows
    return None
