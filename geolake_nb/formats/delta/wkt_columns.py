"""Delta's WKT points as columns of box sides, by the rules of `from_delta_wkt` for each pair."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import BoundError
from geolake_nb.geo.bound_codec import from_delta_wkt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["SIDES", "PointBoxes", "point_boxes"]

_Rows = tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]
"""Axes, rows, and the coordinates of the lower and the upper points, one row each."""

SIDES = ("xmin", "ymin", "xmax", "ymax", "zmin", "zmax", "mmin", "mmax")

# The spellings of known writers, and the axes of each tag; any other is parsed one by one.
_SPELLINGS = {
    "POINT(": None,
    "POINT (": None,
    "POINT Z(": "xyz",
    "POINT Z (": "xyz",
    "POINT M(": "xym",
    "POINT M (": "xym",
    "POINT ZM(": "xyzm",
    "POINT ZM (": "xyzm",
    "POINTZ(": "xyz",
    "POINTM(": "xym",
    "POINTZM(": "xyzm",
}
# One unusual text makes all texts of its chunk with the same spelling take the slow path.
_CHUNK = 16_384
_UNTAGGED = {2: "xy", 3: "xyz", 4: "xyzm"}


@dataclass(frozen=True, slots=True, eq=False)
class PointBoxes:
    """The boxes between pairs of points."""

    sides: Mapping[str, pa.Array]
    """By axis; null where a pair is not a box. Axes that no box has are left out."""
    problem: pa.Array
    """Why a pair is not a valid box."""


def point_boxes(lows: pa.Array, highs: pa.Array) -> PointBoxes:
    """The boxes between the texts in `minValues` and `maxValues`.

    >>> boxes = point_boxes(pa.array(["POINT(0 1)", "point z ( 1 2 3 )", None, "POINT(1 2)", "POINT EMPTY"]),
    ...     pa.array(["POINT(2 3)", "POINT Z(2 3 4)", None, None, "POINT(1 2)"]))
    >>> boxes.sides["xmax"].to_pylist(), boxes.sides["zmax"].to_pylist()
    ([2.0, 2.0, None, None, None], [None, 4.0, None, None, None])
    >>> boxes.problem.to_pylist()[3:]
    ['there is a min but no max', "the min 'POINT EMPTY' is an empty point: it bounds nothing"]
    """
    count = len(lows)
    values = {side: np.full(count, np.nan) for side in SIDES}
    has_low, has_high = (_flags(pc.is_valid(texts)) for texts in (lows, highs))
    both = has_low & has_high
    done = np.zeros(count, np.bool_)
    for axes, rows, low, high in _in_columns(lows, highs, both):
        good = _is_box(low, high)
        where, kept = _copy_indices(rows, good)
        done[where] = True
        for index, axis in enumerate(axes):
            values[f"{axis}min"][where] = low[kept, index]
            values[f"{axis}max"][where] = high[kept, index]
    problems: dict[int, str] = {}
    for row in np.flatnonzero(both & ~done).tolist():
        try:
            box = from_delta_wkt(lows[row].as_py(), highs[row].as_py())
        except BoundError as problem:
            problems[row] = problem.what
        else:
            for side in SIDES:
                number = getattr(box, side)
                values[side][row] = np.nan if number is None else number
    halves = {True: "there is a min but no max", False: "there is a max but no min"}
    problems |= {row: halves[bool(has_low[row])] for row in np.flatnonzero(has_low ^ has_high).tolist()}
    sides = {
        side: pa.array(numbers, from_pandas=True)
        for side, numbers in values.items()
        if side in SIDES[:4] or not np.isnan(numbers).all()
    }
    return PointBoxes(sides, _texts(problems, count))


def _in_columns(lows: pa.Array, highs: pa.Array, both: np.ndarray[Any, Any]) -> Iterator[_Rows]:
    """Rows with the same spelling, with their coordinates."""
    starts = range(0, len(lows), _CHUNK)

    def read(start: int) -> list[_Rows]:
        chunk = slice(start, start + _CHUNK)
        return list(_in_chunk(lows[chunk], highs[chunk], both[chunk].copy()))

    if len(starts) <= 1:
        batches = map(read, starts)
        yield from (rows for some in batches for rows in some)
        return
    with ThreadPoolExecutor(pa.cpu_count()) as pool:
        for start, some in zip(starts, pool.map(read, starts), strict=True):
            yield from ((axes, rows + start, low, high) for axes, rows, low, high in some)


def _in_chunk(lows: pa.Array, highs: pa.Array, left: np.ndarray[Any, Any]) -> Iterator[_Rows]:
    yield from _spelled_alike(lows, highs, left)
    if left.any():
        yield from _spelled_alike(_respelled(lows), _respelled(highs), left)


def _spelled_alike(lows: pa.Array, highs: pa.Array, left: np.ndarray[Any, Any]) -> Iterator[_Rows]:
    """The rows that match a known spelling; rows that are parsed are removed from `left`."""
    for spelling, tagged in _SPELLINGS.items():
        if not left.any():
            return
        alike = left & _flags(pc.starts_with(lows, spelling)) & _flags(pc.starts_with(highs, spelling))
        if not alike.any():
            continue
        rows = np.flatnonzero(alike)
        mask = None if alike.all() else pa.array(alike)
        low, high = (_numbers(texts if mask is None else texts.filter(mask), len(spelling)) for texts in (lows, highs))
        if low is None or high is None or low.shape != high.shape:
            continue
        axes = tagged or _UNTAGGED.get(low.shape[1])
        if axes is not None and len(axes) == low.shape[1]:
            left[rows] = False
            yield axes, rows, low, high


def _respelled(texts: pa.Array) -> pa.Array:
    """The texts in upper case, with one space between words and none next to parentheses."""
    upper = pc.utf8_upper(pc.utf8_trim_whitespace(texts))
    spaced = pc.replace_substring_regex(upper, r"\s+", " ")
    opened = pc.replace_substring_regex(spaced, r" ?\( ?", "(", max_replacements=1)
    return pc.replace_substring_regex(opened, r" \)$", ")")


def _numbers(texts: pa.Array, start: int) -> Any:
    """The numbers between the parentheses, one row per text, or `None` if some text has another form."""
    if not pc.all(pc.ends_with(texts, ")")).as_py():
        return None
    inner = pc.binary_slice(texts.cast(pa.binary()), start, -1).view(pa.string())
    words = pc.split_pattern(inner, " ")
    widths = pc.list_value_length(words)
    width = widths[0].as_py()
    if not 2 <= width <= 4 or pc.min(widths).as_py() != width or pc.max(widths).as_py() != width:
        return None
    try:
        flat = pc.list_flatten(words).cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    return flat.to_numpy().reshape(-1, width)


def _is_box(low: Any, high: Any) -> Any:
    """Where the ends are finite and in order; everything else is checked one by one."""
    good = np.ones(len(low), np.bool_)
    for index in range(low.shape[1]):
        bottom, top = low[:, index], high[:, index]
        good &= np.isfinite(bottom) & np.isfinite(top)
        ordered = bottom <= top
        if index == 0 and not ordered.all():
            # xmin > xmax in degrees is read as a box across the antimeridian.
            ordered |= (np.abs(bottom) <= 180.0) & (np.abs(top) <= 180.0)
        good &= ordered
    return good


def _copy_indices(rows: Any, good: Any) -> tuple[Any, Any]:
    """The target and source indices of the good rows: slices if they form one run, which NumPy copies much faster."""
    if good.all() and len(rows) and rows[-1] - rows[0] == len(rows) - 1:
        return slice(int(rows[0]), int(rows[-1]) + 1), slice(None)
    return rows[good], good


def _flags(array: pa.Array) -> Any:
    return pc.fill_null(array, False).to_numpy(zero_copy_only=False)


def _texts(texts: Mapping[int, str], count: int) -> pa.Array:
    if not texts:
        return pa.nulls(count, pa.string())
    rows = sorted(texts)
    indices = np.full(count, -1, np.int64)
    indices[rows] = np.arange(len(rows))
    return pa.array([texts[row] for row in rows]).take(pa.array(indices, mask=indices < 0))
