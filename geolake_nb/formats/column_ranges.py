"""The least and the greatest value of a plain column while it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ColumnRange", "column_range", "merge_ranges"]


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """What is known of the values of a plain column, as Python values; `None` for an end that is not known."""

    low: Any
    high: Any
    """`None` also where a value is NaN, which is greater than any number for Spark and for Iceberg."""
    null_count: int
    rows: int = 0

    @property
    def only_nulls(self) -> bool:
        """Whether no value is there."""
        return self.null_count == self.rows


def column_range(values: pa.ChunkedArray) -> ColumnRange:
    """The range of some values; what has no order, such as a list, has a null count alone.

    >>> column_range(pa.chunked_array([[3, None, 1]]))
    ColumnRange(low=1, high=3, null_count=1, rows=3)
    >>> column_range(pa.chunked_array([[1.5, float("nan")]])).high is None
    True
    >>> column_range(pa.chunked_array([], pa.int8()))
    ColumnRange(low=None, high=None, null_count=0, rows=0)
    """
    kind, rows, nulls = values.type, len(values), values.null_count
    if nulls == rows or pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return ColumnRange(None, None, nulls, rows)
    try:
        ends = pc.min_max(values)
    except pa.ArrowNotImplementedError:  # half-precision numbers
        return ColumnRange(None, None, nulls, rows)
    low, high = _python(ends["min"]), _python(ends["max"])
    if pa.types.is_floating(kind):
        numbers = pc.is_nan(values)
        if pc.any(numbers).as_py():
            high = None
            low = None if pc.all(numbers).as_py() else low
    return ColumnRange(low, high, nulls, rows)


def merge_ranges(parts: Iterable[ColumnRange]) -> ColumnRange:
    """The range of a column made of these parts; an end that is not known in one is not known of the whole.

    >>> merge_ranges([ColumnRange(1, 5, 0, 2), ColumnRange(None, None, 3, 3), ColumnRange(0, None, 0, 1)])
    ColumnRange(low=0, high=None, null_count=3, rows=6)
    >>> merge_ranges([])
    ColumnRange(low=None, high=None, null_count=0, rows=0)
    """
    whole = list(parts)
    held = [part for part in whole if not part.only_nulls]
    lows, highs = [part.low for part in held], [part.high for part in held]
    return ColumnRange(
        min(lows) if lows and None not in lows else None,
        max(highs) if highs and None not in highs else None,
        sum(part.null_count for part in whole),
        sum(part.rows for part in whole),
    )


def _python(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return None  # a year beyond Python's, text that is no UTF-8
