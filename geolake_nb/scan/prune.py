"""Which parts of a table a filter can match, each with its one reason.

The verdicts are those of `geolake_nb.expressions.projection`; what is added here is why. A filter is walked once with
NOT pushed down to its leaves, and each step works on whole arrays: a part keeps the reason of the leaf that
decided about it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from geolake_nb.expressions.binding import BoundComparison, BoundIn, BoundIsNull, BoundSpatial
from geolake_nb.expressions.predicate import And, ColumnPath, Not, Or, Predicate
from geolake_nb.expressions.projection import Statistics, Verdict, project
from geolake_nb.expressions.query_window import QueryWindow, WhyNoWindow, query_window
from geolake_nb.model.operators import SpatialOp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from geolake_nb.model.collation import Collation
    from geolake_nb.model.statistics import BoxColumn

__all__ = ["SCAN_REASONS", "PruneInput", "PruneResult", "ScanReason", "prune"]


class ScanReason(enum.Enum):
    """The one reason for which a file or a row group is kept or skipped; the value is its name in JSON.

    Of several reasons with the same verdict, the first in this list is given.

    >>> ScanReason.NO_BOUNDS.kept, ScanReason.OUTSIDE_WINDOW.kept
    (True, False)
    >>> ScanReason.NO_BOUNDS.text
    'no bounds'
    """

    PARTITION = "partition"
    """Skipped: no value of its partition matches."""
    ONLY_NULLS = "only_nulls"
    """Skipped: the column has no value in it."""
    EMPTY_QUERY = "empty_query"
    """Skipped: the query geometry is empty."""
    OUTSIDE_WINDOW = "outside_window"
    """Skipped: its bounds do not overlap the query."""
    TOO_SMALL_TO_HOLD = "too_small_to_hold"
    """Skipped: its bounds overlap the query, but do not contain it, as the filter requires."""
    SCALAR_STATISTICS = "scalar_statistics"
    """Skipped: min, max or null count of a plain column exclude a match."""
    FILE_SKIPPED = "file_skipped"
    """Skipped: a row group of a file that is skipped."""

    UNUSABLE_BOUNDS = "unusable_bounds"
    """Kept: its bounds cannot be used; the detail is the reason."""
    CRS_DIFFERS = "crs_differs"
    """Kept: the query cannot be transformed to the CRS of the column."""
    QUERY_UNBOUNDED = "query_unbounded"
    """Kept: the query geometry has no usable bounds."""
    NOT_INDEXED = "not_indexed"
    """Kept: the table does not index statistics for the column."""
    NO_BOUNDS = "no_bounds"
    """Kept: no bounds are stored."""
    COLLATION_VERSION_DIFFERS = "collation_version_differs"
    """Kept: its collated statistics are of another version than the filter's, or the filter names none."""
    NO_COLLATOR = "no_collator"
    """Kept: it has collated statistics of that version, and no collator for them is available."""
    NO_COLLATED_STATISTICS = "no_collated_statistics"
    """Kept: it has no statistics of the filter's collation."""
    NO_STATISTICS = "no_statistics"
    """Kept: a plain column has no statistics for the comparison."""
    WRAPPED = "wrapped"
    """Kept: its bounds cross the antimeridian and overlap the query."""
    OVERLAPS = "overlaps"
    """Kept: its bounds overlap the query."""
    IN_RANGE = "in_range"
    """Kept: it may match by the statistics of a plain column."""
    PARTITION_MATCHES = "partition_matches"
    """Kept: its partition matches."""
    NEGATED = "negated"
    """Kept: bounds cannot exclude rows for a negated filter."""

    @property
    def kept(self) -> bool:
        """Whether what has this reason is read."""
        return self not in _SKIPPED

    @property
    def text(self) -> str:
        """The reason in a few words."""
        return _TEXTS[self]

    @property
    def code(self) -> int:
        """Its index in `SCAN_REASONS`."""
        return _CODES[self]


SCAN_REASONS: tuple[ScanReason, ...] = tuple(ScanReason)
"""All reasons in order; arrays of reasons hold indices into it."""

_CODES = {reason: code for code, reason in enumerate(SCAN_REASONS)}

_SKIPPED = frozenset(SCAN_REASONS[: SCAN_REASONS.index(ScanReason.UNUSABLE_BOUNDS)])

_TEXTS = {
    ScanReason.PARTITION: "partition does not match",
    ScanReason.ONLY_NULLS: "only nulls in the column",
    ScanReason.EMPTY_QUERY: "query geometry is empty",
    ScanReason.OUTSIDE_WINDOW: "bounds do not overlap the query",
    ScanReason.TOO_SMALL_TO_HOLD: "bounds do not contain the query",
    ScanReason.SCALAR_STATISTICS: "excluded by min/max/null statistics",
    ScanReason.FILE_SKIPPED: "file is skipped",
    ScanReason.UNUSABLE_BOUNDS: "bounds not usable",
    ScanReason.CRS_DIFFERS: "query cannot be transformed to column CRS",
    ScanReason.QUERY_UNBOUNDED: "query geometry has no usable bounds",
    ScanReason.NOT_INDEXED: "column is not indexed for statistics",
    ScanReason.NO_BOUNDS: "no bounds",
    ScanReason.COLLATION_VERSION_DIFFERS: "statistics of another collation version",
    ScanReason.NO_COLLATOR: "no collator of that version available",
    ScanReason.NO_COLLATED_STATISTICS: "no statistics of this collation",
    ScanReason.NO_STATISTICS: "no statistics for the column",
    ScanReason.WRAPPED: "bounds cross the antimeridian and overlap",
    ScanReason.OVERLAPS: "bounds overlap the query",
    ScanReason.IN_RANGE: "may match (min/max)",
    ScanReason.PARTITION_MATCHES: "partition matches",
    ScanReason.NEGATED: "bounds cannot exclude a negated filter",
}


@dataclass(frozen=True, slots=True, eq=False)
class PruneInput:
    """The statistics of each part, and why some are missing."""

    statistics: Statistics
    why_missing: Mapping[ColumnPath, NDArray[np.int8] | ScanReason] = field(default_factory=dict)
    """For a column the reason why a part has no box or statistics, one for all or a code for each."""
    why_not_collated: Mapping[tuple[ColumnPath, Collation], NDArray[np.int8]] = field(default_factory=dict)
    """For a column under a collation the code of the reason why a part has no usable statistics."""
    partitions: frozenset[ColumnPath] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class PruneResult:
    """One verdict and one reason, as its index in `SCAN_REASONS`, for each part."""

    verdicts: NDArray[np.int8]
    reasons: NDArray[np.int8]

    @property
    def kept(self) -> NDArray[np.bool_]:
        """The parts that have to be read."""
        return np.not_equal(self.verdicts, Verdict.CANNOT_MATCH)

    def among(self, *reasons: ScanReason) -> NDArray[np.bool_]:
        """The parts that have one of these reasons."""
        wanted = np.zeros(len(SCAN_REASONS), np.bool_)
        wanted[[reason.code for reason in reasons]] = True
        return wanted[self.reasons]


def prune(predicate: Predicate, known: PruneInput) -> PruneResult:
    """The verdict of a bound filter on each part, with the reason.

    >>> from geolake_nb.model.box import Box
    >>> from geolake_nb.model.statistics import BoxColumn
    >>> from geolake_nb.expressions.predicate import st_intersects
    >>> from geolake_nb.expressions.binding import bind
    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.types import Field, GeometryType, StructType
    >>> near = bind(st_intersects("g", "POINT (1 1)"), Schema(StructType((Field("g", GeometryType()),))))
    >>> boxes = BoxColumn.from_boxes([Box(0, 0, 2, 2), Box(5, 5, 6, 6), None])
    >>> pruned = prune(near, PruneInput(Statistics(3, boxes={("g",): boxes})))
    >>> [SCAN_REASONS[code].value for code in pruned.reasons]
    ['overlaps', 'outside_window', 'no_bounds']
    """
    return _walk(predicate, known, negated=False)


# A verdict and a reason in one number: AND takes the least, and so the first reason of the least verdict.
_STEP = len(SCAN_REASONS)


def _walk(predicate: Predicate, known: PruneInput, *, negated: bool) -> PruneResult:
    if isinstance(predicate, Not):
        return _walk(predicate.operand, known, negated=not negated)
    if isinstance(predicate, (And, Or)):
        pruned = [_walk(operand, known, negated=negated) for operand in predicate.operands]
        # De Morgan: NOT (a OR b) is true where neither is.
        if isinstance(predicate, And) != negated:
            keys = np.minimum.reduce([result.verdicts.astype(np.int16) * _STEP + result.reasons for result in pruned])
            return PruneResult((keys // _STEP).astype(np.int8), (keys % _STEP).astype(np.int8))
        keys = np.maximum.reduce(
            [result.verdicts.astype(np.int16) * _STEP + (_STEP - 1 - result.reasons) for result in pruned]
        )
        return PruneResult((keys // _STEP).astype(np.int8), (_STEP - 1 - keys % _STEP).astype(np.int8))
    verdicts = project(Not(predicate) if negated else predicate, known.statistics).verdicts
    if isinstance(predicate, BoundSpatial):
        reasons = _why_spatial(predicate, known, verdicts, negated=negated)
    else:
        reasons = _why_scalar(predicate, known, verdicts)
    return PruneResult(verdicts, reasons)


_HOLDS = (SpatialOp.CONTAINS, SpatialOp.COVERS, SpatialOp.EQUALS)


def _why_spatial(
    predicate: BoundSpatial, known: PruneInput, verdicts: NDArray[np.int8], *, negated: bool
) -> NDArray[np.int8]:
    boxes = known.statistics.boxes.get(predicate.column)
    if negated:
        return np.where(verdicts == Verdict.CANNOT_MATCH, _code(ScanReason.ONLY_NULLS), _code(ScanReason.NEGATED))
    window = query_window(predicate)
    unknown: NDArray[np.int8] | np.int8
    if isinstance(window, WhyNoWindow):
        unknown = _code(_why_no_window(predicate))
    else:
        unknown = _missing(predicate.column, known, ScanReason.NO_BOUNDS)
    if boxes is None:
        return np.broadcast_to(unknown, verdicts.shape).astype(np.int8)
    if window is None:
        # Nothing but another empty geometry can equal an empty query, and those have no extent.
        out = verdicts == Verdict.CANNOT_MATCH
        return np.where(out, _code(ScanReason.EMPTY_QUERY), _code(ScanReason.QUERY_UNBOUNDED))
    with np.errstate(invalid="ignore"):
        wraps = boxes.xmin > boxes.xmax
    reasons = np.where(wraps, _code(ScanReason.WRAPPED), _code(ScanReason.OVERLAPS))
    np.copyto(reasons, unknown, where=verdicts == Verdict.UNKNOWN)
    np.copyto(reasons, _why_out(predicate, boxes, window), where=verdicts == Verdict.CANNOT_MATCH)
    return reasons


def _why_out(
    predicate: BoundSpatial, boxes: BoxColumn, window: QueryWindow | WhyNoWindow
) -> NDArray[np.int8] | np.int8:
    """Why parts that cannot match are skipped; undefined for the others."""
    outside: NDArray[np.int8] | np.int8 = _code(ScanReason.OUTSIDE_WINDOW)
    if predicate.op in _HOLDS and isinstance(window, QueryWindow):
        outside = np.where(window.meets(boxes), _code(ScanReason.TOO_SMALL_TO_HOLD), outside)
    # A part with a box can be one of nulls only as well, when its writer gave it an odd box.
    return np.where(boxes.known & ~boxes.only_null_or_empty, outside, _code(ScanReason.ONLY_NULLS))


def _why_no_window(predicate: BoundSpatial) -> ScanReason:
    from geolake_nb.model.crs import CRS84
    from geolake_nb.model.types import RasterType

    target = CRS84 if isinstance(predicate.type, RasterType) else predicate.type.crs
    return ScanReason.QUERY_UNBOUNDED if predicate.crs.same_as(target) else ScanReason.CRS_DIFFERS


def _why_scalar(predicate: Predicate, known: PruneInput, verdicts: NDArray[np.int8]) -> NDArray[np.int8]:
    if not isinstance(predicate, (BoundComparison, BoundIn, BoundIsNull)):
        raise TypeError(f"expected a leaf of a bound filter, got {type(predicate).__name__}")
    column = predicate.column
    in_partition = column in known.partitions
    out = ScanReason.PARTITION if in_partition else ScanReason.SCALAR_STATISTICS
    might = ScanReason.PARTITION_MATCHES if in_partition else ScanReason.IN_RANGE
    unknown = _missing(column, known, ScanReason.NO_STATISTICS)
    if not isinstance(predicate, BoundIsNull) and predicate.collation is not None:
        otherwise = _code(ScanReason.NO_COLLATED_STATISTICS)
        unknown = known.why_not_collated.get((column, predicate.collation), otherwise)
    reasons = np.full(verdicts.shape, _code(might), np.int8)
    np.copyto(reasons, unknown, where=verdicts == Verdict.UNKNOWN)
    np.copyto(reasons, _code(out), where=verdicts == Verdict.CANNOT_MATCH)
    return reasons


def _missing(column: ColumnPath, known: PruneInput, default: ScanReason) -> NDArray[np.int8] | np.int8:
    reason = known.why_missing.get(column, default)
    return _code(reason) if isinstance(reason, ScanReason) else reason


def _code(reason: ScanReason) -> np.int8:
    return np.int8(reason.code)
