"""Which parts of a table a filter can match, each with its one reason.

The verdicts are those of `geolake_nb.expressions.projection`; what is added here is why. A filter is walked once with
NOT pushed down to its leaves, and each step works on whole arrays: a part keeps the reason of the leaf that
decided about it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from geolake_nb.expressions.binding import BoundComparison, BoundIn, BoundIsNull, BoundSpatial
from geolake_nb.expressions.predicate import And, ColumnPath, Not, Or, Predicate
from geolake_nb.expressions.projection import Statistics, Verdict, project
from geolake_nb.expressions.query_window import QueryWindow, WhyNoWindow, query_window
from geolake_nb.model.operators import SpatialOp
from geolake_nb.scan.reason import SCAN_REASONS, ScanReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from geolake_nb.model.box_column import BoxColumn
    from geolake_nb.model.collation import Collation

__all__ = ["PruneInput", "PruneResult", "prune"]


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
    >>> from geolake_nb.model.box_column import BoxColumn
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
