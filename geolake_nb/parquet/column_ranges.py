"""The minimum and maximum of a primitive column while it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.model.types import PrimitiveType

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FLOATS", "ColumnRange", "column_range", "has_nan", "merge_ranges"]

FLOATS = tuple(map(PrimitiveType, ("float16", "float32", "float64")))
"""The types with NaN values."""


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """Statistics of a primitive column, as Python values; `None` for an unknown bound."""

    low: Any
    high: Any
    """`None` also where a value is NaN, which is greater than any number for Spark and for Iceberg."""
    null_count: int
    rows: int = 0
    nan_count: int | None = None
    """`None` where values cannot be NaN."""
    least: Any = None
    """The bounds of the other values, where some are NaN."""
    greatest: Any = None

    @property
    def only_nulls(self) -> bool:
        """Whether all values are null."""
        return self.null_count == self.rows

    @property
    def numbers(self) -> tuple[Any, Any]:
        """The bounds without NaN, which Iceberg counts separately.

        >>> column_range(pa.chunked_array([[1.5, float("nan"), 0.5]])).numbers
        (0.5, 1.5)
        """
        return (self.least, self.greatest) if self.nan_count else (self.low, self.high)


def column_range(values: pa.ChunkedArray) -> ColumnRange:
    """The range of some values; types without order, such as lists, have only a null count.

    >>> column_range(pa.chunked_array([[3, None, 1]]))
    ColumnRange(low=1, high=3, null_count=1, rows=3, nan_count=None, least=None, greatest=None)
    >>> column_range(pa.chunked_array([[1.5, float("nan")]])).high is None
    True
    >>> column_range(pa.chunked_array([], pa.int8())).rows
    0
    """
    kind, rows, nulls = values.type, len(values), values.null_count
    nans = 0 if pa.types.is_floating(kind) else None
    if nulls == rows or pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return ColumnRange(None, None, nulls, rows, nans)
    try:
        ends = pc.min_max(values)
    except pa.ArrowNotImplementedError:  # half-precision numbers
        return ColumnRange(None, None, nulls, rows)
    low, high = _python(ends["min"]), _python(ends["max"])
    if pa.types.is_floating(kind):
        nans = pc.sum(pc.is_nan(values)).as_py() or 0
        if nans:
            only = nans == rows - nulls
            least, greatest = (None, None) if only else (low, high)
            return ColumnRange(least, None, nulls, rows, nans, least, greatest)
    return ColumnRange(low, high, nulls, rows, nans)


def merge_ranges(parts: Iterable[ColumnRange]) -> ColumnRange:
    """The range of a column made of these parts; a bound that is unknown in one is unknown for the whole.

    >>> merge_ranges([ColumnRange(1, 5, 0, 2), ColumnRange(None, None, 3, 3), ColumnRange(0, None, 0, 1)])
    ColumnRange(low=0, high=None, null_count=3, rows=6, nan_count=None, least=None, greatest=None)
    >>> merge_ranges([]).low is None
    True
    """
    whole = list(parts)
    filled = [part for part in whole if not part.only_nulls]
    lows, highs = [part.low for part in filled], [part.high for part in filled]
    counts = [part.nan_count for part in whole if part.nan_count is not None]
    # A part of only NaN has no other values; any other part has both bounds or none.
    numbers = [part.numbers for part in filled if part.nan_count != part.rows - part.null_count]
    known = bool(sum(counts)) and all(None not in ends for ends in numbers)
    return ColumnRange(
        min(lows) if lows and None not in lows else None,
        max(highs) if highs and None not in highs else None,
        sum(part.null_count for part in whole),
        sum(part.rows for part in whole),
        sum(counts) if counts else None,
        min((ends[0] for ends in numbers), default=None) if known else None,
        max((ends[1] for ends in numbers), default=None) if known else None,
    )


def has_nan(values: pa.ChunkedArray) -> bool:
    """Whether a value is NaN.

    >>> has_nan(pa.chunked_array([[1.0, None]])), has_nan(pa.chunked_array([[1.0, float("nan")]]))
    (False, True)
    """
    # Arrow has no is_nan for half-precision numbers.
    numbers = values.cast(pa.float32()) if pa.types.is_float16(values.type) else values
    return bool(pc.any(pc.is_nan(numbers)).as_py())


def _python(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return None  # a year beyond Python's range, or invalid UTF-8
