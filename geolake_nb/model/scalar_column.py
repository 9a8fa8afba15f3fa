"""Minima, maxima and null counts of one column over many files, and which comparisons they rule out."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.model.operators import ComparisonOp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geolake_nb.model.operators import Literal

__all__ = ["NoOrderError", "ScalarColumn"]

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
