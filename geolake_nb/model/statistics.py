"""Statistics of columns: of a geo column in one file, and of many files as arrays."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import BoundError
from geolake_nb.model.box import Box, union_all
from geolake_nb.model.operators import ComparisonOp
from geolake_nb.model.types import GeometryType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from geolake_nb.model.operators import Literal
    from geolake_nb.model.types import DataType

__all__ = ["BoxColumn", "ColumnStats", "NoOrderError", "Problem", "ScalarColumn", "merge"]


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


@dataclass(frozen=True, slots=True, eq=False)
class BoxColumn:
    """One box per file or row group; where `known` is false the sides are undefined.

    `only_null_or_empty` marks files whose geometries are all null or empty. An invalid box
    (NaN, or ymin > ymax) becomes an unknown one; xmin > xmax crosses the antimeridian.

    >>> column = BoxColumn.from_boxes([None])
    >>> column.known.tolist(), len(column)
    ([False], 1)
    """

    xmin: NDArray[np.float64]
    ymin: NDArray[np.float64]
    xmax: NDArray[np.float64]
    ymax: NDArray[np.float64]
    known: NDArray[np.bool_]
    only_null_or_empty: NDArray[np.bool_]
    zmin: NDArray[np.float64] | None = None
    zmax: NDArray[np.float64] | None = None
    mmin: NDArray[np.float64] | None = None
    mmax: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            kind = np.bool_ if field.name in {"known", "only_null_or_empty"} else np.float64
            array: NDArray[Any] = np.asarray(value, dtype=kind)
            if array.shape != (len(self.xmin),):
                raise BoundError(f"{field.name} has the shape {array.shape}, not that of xmin")
            object.__setattr__(self, field.name, array)
        with np.errstate(invalid="ignore"):
            sane = (self.ymin <= self.ymax) & ~np.isnan(self.xmin) & ~np.isnan(self.xmax)
        object.__setattr__(self, "known", self.known & sane)

    @classmethod
    def from_sides(
        cls,
        xmin: ArrayLike,
        ymin: ArrayLike,
        xmax: ArrayLike,
        ymax: ArrayLike,
        *,
        only_null_or_empty: ArrayLike | None = None,
    ) -> BoxColumn:
        """The column of these sides, where NaN means a missing side.

        >>> BoxColumn.from_sides([0, np.nan], [0, 0], [1, 1], [1, 1]).known.tolist()
        [True, False]
        """
        west, south, east, north = (np.asarray(side, np.float64) for side in (xmin, ymin, xmax, ymax))
        blank = np.zeros(len(west), np.bool_) if only_null_or_empty is None else only_null_or_empty
        known = np.ones(len(west), np.bool_)
        return cls(west, south, east, north, known, np.asarray(blank, np.bool_))

    @classmethod
    def from_boxes(cls, boxes: Sequence[Box | None], *, only_null_or_empty: Sequence[bool] | None = None) -> BoxColumn:
        """The column of these boxes, `None` for one that is not known.

        >>> from geolake_nb.model.box import Box
        >>> BoxColumn.from_boxes([Box(0, 0, 1, 1), None]).xmax[0]
        np.float64(1.0)
        """
        blank = np.zeros(len(boxes), np.bool_) if only_null_or_empty is None else only_null_or_empty
        sides: dict[str, Any] = {}
        for name in ("xmin", "ymin", "xmax", "ymax", "zmin", "zmax", "mmin", "mmax"):
            values = [None if box is None else getattr(box, name) for box in boxes]
            if name[0] in "xy" or any(value is not None for value in values):
                sides[name] = np.array([np.nan if value is None else value for value in values], np.float64)
        known = np.array([box is not None for box in boxes], np.bool_)
        return cls(known=known, only_null_or_empty=np.asarray(blank, np.bool_), **sides)

    def __len__(self) -> int:
        return len(self.xmin)


# A time without a zone is meant in some zone, and those lie between UTC-16 and UTC+16: local mean times of the past,
# on the other side of a date line that has moved since, are up to 15:56 away.
_EARLIEST = _LATEST = dt.timedelta(hours=16)


class NoOrderError(Exception):
    """The value cannot be compared with these minima and maxima."""


@dataclass(frozen=True, slots=True, eq=False)
class ScalarColumn:
    """One minimum, maximum and null count per file, each null where it is not known.

    A bound is one that holds for every row: the reader of statistics widens what its format truncates, such as
    Delta's timestamps, which are truncated to milliseconds. Where a writer may have truncated strings unmarked,
    `truncated` makes a maximum cover every string that starts with it.

    >>> ages = ScalarColumn(pa.array([1, 20, None]), pa.array([9, 30, None]))
    >>> ages.rules_out(ComparisonOp.GT, 9).tolist(), ages.decides(ComparisonOp.GT).tolist()
    ([True, False, False], [True, True, False])
    """

    minimum: pa.Array
    maximum: pa.Array
    null_count: pa.Array | None = None
    row_count: pa.Array | None = None
    nan_count: pa.Array | None = None
    """How many values are NaN, which minima and maxima leave out."""
    truncated: bool = False

    def __len__(self) -> int:
        return len(self.minimum)

    @property
    def no_nulls(self) -> NDArray[np.bool_]:
        """The files that have a value in every row."""
        return self._equal(self.null_count, 0)

    @property
    def only_nulls(self) -> NDArray[np.bool_]:
        """The files that have no value at all."""
        if self.null_count is None or self.row_count is None:
            return np.zeros(len(self), np.bool_)
        return _flags(pc.equal(self.null_count, self.row_count))

    @property
    def may_have_nan(self) -> NDArray[np.bool_]:
        """The files that may contain a NaN."""
        if not pa.types.is_floating(self.minimum.type):
            return np.zeros(len(self), np.bool_)
        return ~self._equal(self.nan_count, 0)

    def rules_out(self, op: ComparisonOp, value: Literal, *, negated: bool = False) -> NDArray[np.bool_]:
        """The files in which no value compares so; with `negated`, in which none fails to.

        NaN is greater than any number for some engines and unequal to every number for others, so that only
        an ordinary `<`, `<=` or `=` is sure to leave it out.
        """
        effective = op.negation if negated else op
        low, high, exact = self._range_of(value)
        minima, maxima = _keys(self.minimum), _keys(self.maximum)
        if effective is ComparisonOp.EQ:
            out = _less(high, minima) | self._above(maxima, low, or_equal=False)
        elif effective is ComparisonOp.NE:
            same = _equal(minima, low) & _equal(maxima, low)
            out = same if exact and not self.truncated else np.zeros(len(self), np.bool_)
        elif effective in (ComparisonOp.LT, ComparisonOp.LE):
            out = _less(high, minima) | (_equal(minima, high) if effective is ComparisonOp.LT else False)
        else:
            out = self._above(maxima, low, or_equal=effective is ComparisonOp.GT)
        if negated or effective not in (ComparisonOp.EQ, ComparisonOp.LT, ComparisonOp.LE):
            out &= ~self.may_have_nan
        return out | self.only_nulls

    def decides(self, op: ComparisonOp) -> NDArray[np.bool_]:
        """The files that have the bounds which the comparison needs."""
        low, high = _known(self.minimum), _known(self.maximum)
        if op in (ComparisonOp.EQ, ComparisonOp.NE):
            return low & high
        return low if op in (ComparisonOp.LT, ComparisonOp.LE) else high

    def _above(self, maxima: Any, value: Any, *, or_equal: bool) -> NDArray[np.bool_]:
        """Where the value is greater than every value of the file (or equal to the greatest)."""
        out = _less(maxima, value) | (_equal(maxima, value) if or_equal else False)
        if self.truncated and isinstance(value, (str, bytes)):
            prefixes = pa.array([value[:end] for end in range(len(value) + 1)], type=maxima.type)
            out &= ~_flags(pc.is_in(maxima, value_set=prefixes))
        return out

    def _equal(self, counts: pa.Array | None, wanted: int) -> NDArray[np.bool_]:
        if counts is None:
            return np.zeros(len(self), np.bool_)
        return _flags(pc.equal(counts, wanted))

    def _range_of(self, value: Literal) -> tuple[Any, Any, bool]:
        """The smallest and the largest key that the value can represent, and whether it is that key exactly."""
        kind = self.minimum.type
        if pa.types.is_boolean(kind) and isinstance(value, bool):
            return int(value), int(value), True
        if _is_number(value) and pa.types.is_integer(kind) and isinstance(value, int):
            return value, value, True
        if _is_number(value) and (pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_integer(kind)):
            return *_around(value, kind), False
        if _is_text(kind) and isinstance(value, str):
            return value, value, True
        if _is_bytes(kind) and isinstance(value, bytes):
            return value, value, True
        if pa.types.is_date(kind) and isinstance(value, dt.date):
            return _days_around(value)
        if pa.types.is_timestamp(kind) and isinstance(value, dt.datetime):
            return _instants_around(value, kind)
        if pa.types.is_time(kind) and isinstance(value, dt.time) and value.tzinfo is None:
            micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
            return *_in_unit(micros, micros, kind.unit), kind.unit in ("us", "ns")
        raise NoOrderError(f"a {type(value).__name__} is not compared with statistics of the type {kind}")


def _is_number(value: Literal) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _around(value: Any, kind: pa.DataType) -> tuple[float, float]:
    """The doubles around the number: engines compare it exactly, as doubles, or in the column's precision."""
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    if pa.types.is_floating(kind) and kind.bit_width < 64:
        narrow = np.float32 if kind.bit_width == 32 else np.float16
        with np.errstate(over="ignore"):
            near = narrow(number)
        low = float(np.nextafter(near, narrow(-np.inf)))
        high = float(np.nextafter(near, narrow(np.inf)))
        return min(low, math.nextafter(number, -math.inf)), max(high, math.nextafter(number, math.inf))
    if pa.types.is_decimal(kind) and math.isfinite(number):
        # Bounds are read as doubles, with more than one rounding on the way.
        margin = 1e-14 * abs(number) + math.ulp(0.0)
        return number - margin, number + margin
    return math.nextafter(number, -math.inf), math.nextafter(number, math.inf)


def _days_around(value: dt.date) -> tuple[int, int, bool]:
    if not isinstance(value, dt.datetime):
        days = (value - dt.date(1970, 1, 1)).days
        return days, days, True
    # A date is compared with an instant as its midnight in some zone.
    days = (value.date() - dt.date(1970, 1, 1)).days
    return days - 1, days + 2, False


def _instants_around(value: dt.datetime, kind: pa.DataType) -> tuple[int, int, bool]:
    epoch = dt.datetime(1970, 1, 1, tzinfo=value.tzinfo and dt.UTC)
    micros = (value - epoch) // dt.timedelta(microseconds=1)
    if (value.tzinfo is None) == (kind.tz is None):
        return *_in_unit(micros, micros, kind.unit), kind.unit in ("us", "ns")
    early, late = (span // dt.timedelta(microseconds=1) for span in (_EARLIEST, _LATEST))
    return *_in_unit(micros - early, micros + late, kind.unit), False


def _in_unit(low: int, high: int, unit: str) -> tuple[int, int]:
    """Microseconds in another unit, rounded outward."""
    if unit == "ns":
        return low * 1000, high * 1000
    size = {"us": 1, "ms": 1000, "s": 10**6}[unit]
    return low // size, -(-high // size)


def _keys(array: pa.Array) -> Any:
    """What the array is compared by: a NumPy array of numbers with a mask, or the Arrow array of texts."""
    kind = array.type
    if _is_text(kind) or _is_bytes(kind):
        return array
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        array = array.cast(pa.int32())
    elif pa.types.is_date64(kind):
        array = array.cast(pa.date32()).cast(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        array = array.cast(pa.int64())
    elif pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif pa.types.is_decimal(kind) or kind == pa.float16():
        array = array.cast(pa.float64())
    filled = pc.fill_null(array, pa.scalar(0, array.type)).to_numpy(zero_copy_only=False)
    return np.ma.MaskedArray(filled, mask=~_known(array))


def _less(left: Any, right: Any) -> NDArray[np.bool_]:
    if isinstance(left, pa.Array):
        return _flags(pc.less(left, pa.scalar(right, left.type)))
    if isinstance(right, pa.Array):
        return _flags(pc.greater(right, pa.scalar(left, right.type)))
    return _unmasked(left < right)


def _equal(keys: Any, value: Any) -> NDArray[np.bool_]:
    if isinstance(keys, pa.Array):
        return _flags(pc.equal(keys, pa.scalar(value, keys.type)))
    return _unmasked(keys == value)


def _unmasked(flags: Any) -> NDArray[np.bool_]:
    return np.ma.filled(flags, False).astype(np.bool_, copy=False)


def _flags(array: Any) -> NDArray[np.bool_]:
    """The array with false for null."""
    flags: NDArray[np.bool_] = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
    return flags.copy()


def _known(array: pa.Array) -> NDArray[np.bool_]:
    """Where the array has a value; NaN bounds nothing."""
    known = array.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(array.type):
        known = known & ~_flags(pc.is_nan(array))
    return np.asarray(known, np.bool_)
