"""Which files may contain matching rows, by their statistics alone.

The answer is safe: a file that cannot match has no such row, whatever its rows are within its statistics. It
goes by columns: a filter is walked once, and each leaf compares whole arrays.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from geolake_nb.errors import PredicateError
from geolake_nb.expressions.binding import BoundComparison, BoundIn, BoundIsNull, BoundSpatial, leaves
from geolake_nb.expressions.predicate import And, ColumnPath, Not, Or, Predicate
from geolake_nb.expressions.query_window import WhyNoWindow, query_window
from geolake_nb.model.operators import ComparisonOp, SpatialOp
from geolake_nb.model.schema import join_path
from geolake_nb.model.statistics import BoxColumn, NoOrderError, ScalarColumn
from geolake_nb.model.types import PrimitiveType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from geolake_nb.model.box import Box
    from geolake_nb.model.collation import Collation
    from geolake_nb.model.operators import Literal

__all__ = ["CollatedColumn", "Projection", "Reason", "Statistics", "Verdict", "project", "verdict"]

_MAX_VALUES = 200
"""Values of an IN list that are compared one by one; a longer list is compared as a range."""


class Verdict(enum.IntEnum):
    """The verdict of the statistics of a file on a filter; AND takes the minimum of these, OR the maximum."""

    CANNOT_MATCH = 0
    """No row of the file matches."""
    UNKNOWN = 1
    """The statistics are not sufficient; the file has to be read."""
    MIGHT_MATCH = 2
    """A row may match."""


@dataclass(frozen=True, slots=True)
class CollatedColumn:
    """Minima and maxima under a collation, and what gives the sort key of a string in that very version."""

    column: ScalarColumn
    sort_key: Callable[[str], bytes] | None = None


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of `count` files by the path of the column; what is not there is not known."""

    count: int
    boxes: Mapping[ColumnPath, BoxColumn] = field(default_factory=dict)
    scalars: Mapping[ColumnPath, ScalarColumn] = field(default_factory=dict)
    """Any column can have null counts here, a geo column too."""
    collated: Mapping[tuple[ColumnPath, Collation], CollatedColumn] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lengths = [(path, len(boxes)) for path, boxes in self.boxes.items()]
        lengths += [(path, len(scalars)) for path, scalars in self.scalars.items()]
        lengths += [(path, len(collated.column)) for (path, _), collated in self.collated.items()]
        for path, length in lengths:
            if length != self.count:
                what = f"there are statistics of {length} files, not of {self.count}"
                raise PredicateError(what, where=join_path(path))


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a part of the filter cannot be evaluated for some files."""

    predicate: str
    text: str
    files: int


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """One verdict per file, and why those of a leaf are unknown."""

    verdicts: NDArray[np.int8]
    reasons: tuple[Reason, ...] = ()


def project(predicate: Predicate, statistics: Statistics) -> Projection:
    """The verdicts of a bound filter on the files.

    >>> from geolake_nb.model.box import Box
    >>> from geolake_nb.expressions.predicate import st_intersects
    >>> from geolake_nb.expressions.binding import leaves, bind
    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.types import Field, GeometryType, StructType
    >>> schema = Schema(StructType((Field("geom", GeometryType()),)))
    >>> near = bind(st_intersects("geom", "POINT (1 1)"), schema)
    >>> boxes = BoxColumn.from_boxes([Box(0, 0, 2, 2), Box(5, 5, 6, 6), None])
    >>> result = project(near, Statistics(3, boxes={("geom",): boxes}))
    >>> [Verdict(verdict).name for verdict in result.verdicts]
    ['MIGHT_MATCH', 'CANNOT_MATCH', 'UNKNOWN']
    >>> result.reasons[0].text, result.reasons[0].files
    ('geom has no box', 1)
    """
    reasons: list[Reason] = []
    matches, _ = _walk(predicate, statistics, reasons)
    return Projection(matches, tuple(reasons))


def verdict(predicate: Predicate, box: Box | None, *, only_null_or_empty: bool = False) -> Verdict:
    """The verdict of a bound filter on one file, of whose geo columns this is the box; `None` is not known.

    >>> from geolake_nb.model.box import Box
    >>> from geolake_nb.model.crs import CRS84
    >>> from geolake_nb.expressions.predicate import st_covers
    >>> from geolake_nb.model.types import GeographyType
    >>> point = st_covers("geog", "POINT (-180 0)").geometry
    >>> covers = BoundSpatial(SpatialOp.COVERS, ("geog",), GeographyType(), point, CRS84)
    >>> verdict(covers, Box(170, -1, 180, 1)), verdict(covers, None)
    (<Verdict.MIGHT_MATCH: 2>, <Verdict.UNKNOWN: 1>)
    """
    boxes = BoxColumn.from_boxes([box], only_null_or_empty=[only_null_or_empty])
    columns = [leaf.column for leaf in leaves(predicate) if isinstance(leaf, BoundSpatial)]
    statistics = Statistics(1, boxes=dict.fromkeys(columns, boxes))
    return Verdict(project(predicate, statistics).verdicts[0])


# For each file: can the filter be true for a row, and can it be false? A null is neither, also under NOT.
_TrueFalse = tuple["NDArray[np.int8]", "NDArray[np.int8]"]


def _walk(predicate: Predicate, statistics: Statistics, reasons: list[Reason]) -> _TrueFalse:
    if isinstance(predicate, Not):
        yes, no = _walk(predicate.operand, statistics, reasons)
        return no, yes
    if isinstance(predicate, (And, Or)):
        walked = [_walk(operand, statistics, reasons) for operand in predicate.operands]
        yeses, noes = [yes for yes, _ in walked], [no for _, no in walked]
        # De Morgan: an AND is false where an operand is, an OR where all are.
        if isinstance(predicate, And):
            return np.minimum.reduce(yeses), np.maximum.reduce(noes)
        return np.maximum.reduce(yeses), np.minimum.reduce(noes)
    leaf = _Leaf(predicate, statistics, reasons)
    if isinstance(predicate, BoundSpatial):
        return _spatial(predicate, leaf)
    if isinstance(predicate, BoundIsNull):
        return _is_null(predicate, leaf)
    if isinstance(predicate, BoundComparison):
        return _comparison(predicate, leaf)
    if isinstance(predicate, BoundIn):
        return _in(predicate, leaf)
    raise PredicateError("the filter is not bound", where=str(predicate), remedy="bind it to the schema first")


@dataclass(frozen=True, slots=True)
class _Leaf:
    predicate: Predicate
    statistics: Statistics
    reasons: list[Reason]

    def verdicts(self, *, out: NDArray[np.bool_], known: NDArray[np.bool_]) -> NDArray[np.int8]:
        """Cannot match where it is ruled out, and unknown where that is not decided."""
        left = np.where(known, np.int8(Verdict.MIGHT_MATCH), np.int8(Verdict.UNKNOWN))
        return np.where(out, np.int8(Verdict.CANNOT_MATCH), left)

    def unknown(self, text: str) -> _TrueFalse:
        """Nothing is known of any file, for this reason."""
        self.note(text, np.ones(self.statistics.count, np.bool_))
        everywhere = np.full(self.statistics.count, Verdict.UNKNOWN, np.int8)
        return everywhere, everywhere

    def note(self, text: str, where: NDArray[np.bool_]) -> None:
        files = int(np.count_nonzero(where))
        if files:
            self.reasons.append(Reason(str(self.predicate), text, files))


_HOLDS = (SpatialOp.CONTAINS, SpatialOp.COVERS, SpatialOp.EQUALS)


def _spatial(predicate: BoundSpatial, leaf: _Leaf) -> _TrueFalse:
    name = join_path(predicate.column)
    boxes = leaf.statistics.boxes.get(predicate.column)
    if boxes is None:
        return leaf.unknown(f"{name} has no box")
    window = query_window(predicate)
    if isinstance(window, WhyNoWindow):
        return leaf.unknown(window.reason)
    nulls = leaf.statistics.scalars.get(predicate.column)
    only_nulls = np.zeros(len(boxes), np.bool_) if nulls is None else nulls.only_nulls
    blank = boxes.only_null_or_empty
    if window is None:
        # Nothing shares a point with an empty geometry, and only an empty one is equal to it.
        equal = predicate.op is SpatialOp.EQUALS
        out = only_nulls if equal else np.ones(len(boxes), np.bool_)
        known = boxes.known | blank
        return leaf.verdicts(out=out, known=known), leaf.verdicts(out=only_nulls, known=known)
    leaf.note(f"{name} has no box", ~(boxes.known | blank | only_nulls))
    # Havasu, Scan planning: the inclusive projection of ST_Within(geom, Q) is ST_Intersects(MBR[geom], Q).
    fits = window.meets(boxes)
    if predicate.op in _HOLDS:
        fits &= window.may_be_contained_by(boxes)
    yes = leaf.verdicts(out=blank | only_nulls | (boxes.known & ~fits), known=boxes.known)
    # A box does not cover the rows that do not match: an empty geometry has no bounds.
    no = leaf.verdicts(out=only_nulls, known=boxes.known | blank)
    return yes, no


def _is_null(predicate: BoundIsNull, leaf: _Leaf) -> _TrueFalse:
    column = leaf.statistics.scalars.get(predicate.column)
    if column is None or column.null_count is None:
        return leaf.unknown(f"{join_path(predicate.column)} has no null count")
    counted = column.null_count.is_valid().to_numpy(zero_copy_only=False)
    leaf.note(f"{join_path(predicate.column)} has no null count", ~counted)
    # Delta, Per-file statistics: a count shows that there are none, or only nulls; others may be stale.
    return (
        leaf.verdicts(out=column.no_nulls, known=counted),
        leaf.verdicts(out=column.only_nulls, known=counted),
    )


def _comparison(predicate: BoundComparison, leaf: _Leaf) -> _TrueFalse:
    ordered = _ordered(predicate, (predicate.value,), leaf)
    if isinstance(ordered, str):
        return leaf.unknown(ordered)
    column, (value,) = ordered
    try:
        yes = column.rules_out(predicate.op, value)
        no = column.rules_out(predicate.op, value, negated=True)
    except NoOrderError as problem:
        return leaf.unknown(f"{join_path(predicate.column)}: {problem}")
    known = column.decides(predicate.op)
    leaf.note(f"{join_path(predicate.column)} has no minimum or maximum", ~known & ~yes)
    return (
        leaf.verdicts(out=yes, known=known),
        leaf.verdicts(out=no, known=column.decides(predicate.op.negation)),
    )


def _in(predicate: BoundIn, leaf: _Leaf) -> _TrueFalse:
    ordered = _ordered(predicate, predicate.values, leaf)
    if isinstance(ordered, str):
        return leaf.unknown(ordered)
    column, values = ordered
    try:
        if len(values) <= _MAX_VALUES:
            yes = np.logical_and.reduce([column.rules_out(ComparisonOp.EQ, value) for value in values])
            no = np.logical_or.reduce([column.rules_out(ComparisonOp.EQ, value, negated=True) for value in values])
        else:
            low, high = min(values), max(values)
            yes = column.rules_out(ComparisonOp.GE, low) | column.rules_out(ComparisonOp.LE, high)
            no = column.only_nulls
    except (NoOrderError, TypeError) as problem:
        return leaf.unknown(f"{join_path(predicate.column)}: {problem}")
    known = column.decides(ComparisonOp.EQ)
    leaf.note(f"{join_path(predicate.column)} has no minimum or maximum", ~known & ~yes)
    return leaf.verdicts(out=yes, known=known), leaf.verdicts(out=no, known=known)


def _ordered(
    predicate: BoundComparison | BoundIn, values: tuple[Literal, ...], leaf: _Leaf
) -> tuple[ScalarColumn, tuple[Literal, ...]] | str:
    """The bounds that the comparison may use and the values in their order, or why there are none."""
    name = join_path(predicate.column)
    if predicate.collation is None:
        plain = leaf.statistics.scalars.get(predicate.column)
        return f"{name} has no statistics" if plain is None else (_in_utc(plain, predicate), values)
    # Delta collations, Reader requirements: only statistics of the same provider, name and version serve.
    collated = leaf.statistics.collated.get((predicate.column, predicate.collation))
    if collated is None or predicate.collation.version is None:
        return f"{name} has no statistics of the collation {predicate.collation}, version included"
    if collated.sort_key is None:
        return f"no collator of the version {predicate.collation} is available to compare with {name}"
    key = collated.sort_key

    def sort_keys(array: pa.Array) -> pa.Array:
        keys = [None if text is None else key(text) for text in array.to_pylist()]
        return pa.array(keys, pa.binary())

    column = collated.column
    ordered = ScalarColumn(sort_keys(column.minimum), sort_keys(column.maximum), column.null_count, column.row_count)
    return ordered, tuple(key(value) for value in values if isinstance(value, str))


def _in_utc(column: ScalarColumn, predicate: BoundComparison | BoundIn) -> ScalarColumn:
    """Instants with their zone: a reader of statistics may have left it out."""
    kind = column.minimum.type
    is_instant = isinstance(predicate.type, PrimitiveType) and predicate.type.name.startswith(
        ("timestamptz", "timestamp_int96")
    )
    if not (is_instant and pa.types.is_timestamp(kind) and kind.tz is None):
        return column
    zoned = pa.timestamp(kind.unit, "UTC")
    return ScalarColumn(column.minimum.cast(zoned), column.maximum.cast(zoned), column.null_count, column.row_count)
