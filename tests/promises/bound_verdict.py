"""Whether a bound that was written leaves out a row, and whether one is missing that the rows allow."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tests.promises.geography_extents import SPHERICAL, Geographies
from tests.promises.row_extents import Geometries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.promises.written_bounds import Bound

__all__ = ["Verdict"]

_LOWS, _HIGHS = [0, 1, 4, 6], [2, 3, 5, 7]
_HEIGHTS = {"z": (2, 4), "m": (3, 6)}
"""The place of an axis in the truth, and in the sides of a bound."""
_WITH_HEIGHTS = {"Delta log": "zm", "Iceberg manifest": "zm", "row group": "zm", "geo property": "z"}
"""The levels that have more than x and y: GeoParquet has no M, and Havasu and coverings have neither."""


@dataclass
class Verdict:
    """What was compared, by the writer, level and column, and what is wrong."""

    compared: Counter[str] = field(default_factory=Counter)
    """Rows that lie inside a bound."""
    unbounded: Counter[str] = field(default_factory=Counter)
    """Rows that have a place and no bound."""
    owed: Counter[str] = field(default_factory=Counter)
    """Bounds that the values allow, by the same and for z and m apart: not all empty, nothing infinite."""
    written: Counter[str] = field(default_factory=Counter)
    """How many of those are there."""
    problems: list[str] = field(default_factory=list)

    @property
    def shortfalls(self) -> list[str]:
        """Where bounds are missing that the values allow."""
        return [
            f"{where}: {self.written[where]} of {count} bounds that the values allow"
            for where, count in self.owed.items()
            if self.written[where] < count
        ]

    def judge(self, writer: str, bounds: list[Bound], truth: Mapping[str, Geometries | Geographies]) -> None:
        """Add what these bounds of one table show; every level that is there must speak of every row."""
        grouped: dict[tuple[str, str], list[Bound]] = {}
        for one in bounds:
            grouped.setdefault((one.level, one.column), []).append(one)
        for (level, column), some in grouped.items():
            held = truth[column]
            sides = np.full((len(held.values), 8), np.nan)
            for one in some:
                sides[one.ids] = one.sides
            if level != "covering":  # which a row without a place has not
                ids = np.sort(np.concatenate([one.ids for one in some]))
                if not np.array_equal(ids, np.arange(len(held.values))):
                    self.problems.append(f"{writer}, {level}: the rows are not those that were written")
            placed = _has_place(held)
            wrong = _leaves_out(held, sides)
            if level.startswith("covering"):  # a row without x or without y has none, and meets no window
                wrong = [one for one in wrong if placed[one[0]]]
            bounded = ~np.isnan(sides[:, :4]).any(axis=1)
            half = np.isnan(sides[:, :4]).any(axis=1) & ~np.isnan(sides[:, :4]).all(axis=1)
            # A filter on a covering drops what has none.
            lost = half | (placed & ~bounded) if level == "covering" else half
            where = f"{writer}, {level}, {column}"
            self.problems += [
                f"{where}: row {row}: {_text(sides[row])} leaves out {what} of {held.shapes[row]}"
                for row, what in [*wrong, *[(row, "a side") for row in np.flatnonzero(lost)]][:5]
            ]
            self.compared[where] += int((placed & bounded).sum())
            self.unbounded[where] += int((placed & ~bounded).sum())
            if level != "covering":
                self._count(where, level, some, held)

    def _count(self, where: str, level: str, some: list[Bound], held: Geometries | Geographies) -> None:
        low, high, boundable = _numbers(held)
        for one in some:
            has = ~np.isnan(low[one.ids]).all(axis=0)
            if level != "row group":  # made of the boxes of parts, and a part with x alone or y alone has none
                has[:2] &= _has_place(held)[one.ids].any()
            if not (has[:2].all() and boundable[one.ids].all() and _is_read(low[one.ids], high[one.ids])):
                continue
            there = not np.isnan(one.sides[:4]).any()
            self.owed[where] += 1
            self.written[where] += there
            for axis in _WITH_HEIGHTS.get(level, ""):
                place, side = _HEIGHTS[axis]
                if has[place] and (level != "geo property" or all(_is_solid(held, row) for row in one.ids)):
                    self.owed[f"{where}, {axis}"] += 1
                    self.written[f"{where}, {axis}"] += not np.isnan(one.sides[side : side + 2]).any()


def _text(sides: np.ndarray) -> str:
    return str([None if np.isnan(one) else float(one) for one in sides])


def _has_place(held: Geometries | Geographies) -> np.ndarray:
    if isinstance(held, Geometries):
        return ~np.isnan(held.low[:, :2]).any(axis=1)
    return np.isfinite(held.low)


def _numbers(held: Geometries | Geographies) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ends of each row on x, y, z and m, NaN without one, and whether nothing of it defies a bound."""
    if isinstance(held, Geographies):
        latitude = np.where(np.isfinite(held.low), held.low, np.nan).astype(float)
        low, high = (np.column_stack([latitude, latitude, heights]) for heights in held.heights)
        return low, high, np.ones(len(latitude), bool)
    infinite = np.isinf(held.low).any(axis=1) | np.isinf(held.high).any(axis=1)
    return held.low, held.high, ~(infinite | held.unclear)


def _is_read(low: np.ndarray, high: np.ndarray) -> bool:
    """Whether all ranges are such as Arrow shows: one that is wider than the largest double it takes for none."""
    with np.errstate(over="ignore"):
        return not np.isinf(np.fmax.reduce(high) - np.fmin.reduce(low)).any()


def _is_solid(held: Geometries | Geographies, row: int) -> bool:
    """Whether GeoParquet 1.1 has a name for the type of the value, and it ends in Z; a null has none."""
    shape = held.shapes[row]
    return held.values[row] is None or (shape is not None and shape.kind <= 7 and shape.dims.endswith("Z"))


def _leaves_out(held: Geometries | Geographies, sides: np.ndarray) -> list[tuple[int, str]]:
    """The rows of which something lies outside of the box that stands for them."""
    if isinstance(held, Geometries):
        low, high = sides[:, _LOWS], sides[:, _HIGHS]
        wrong = ((held.low < low) | (held.high > high)).any(axis=1)
        # A geometry's x never wraps: its readers would find nothing.
        wrong |= sides[:, 0] > sides[:, 2]
        return [(int(row), f"{held.low[row]} to {held.high[row]}") for row in np.flatnonzero(wrong)]
    return _leaves_out_on_earth(held, sides)


def _leaves_out_on_earth(held: Geographies, sides: np.ndarray) -> list[tuple[int, str]]:
    wide = sides.astype(np.longdouble)
    xmin, ymin, xmax, ymax = wide[:, 0], wide[:, 1], wide[:, 2], wide[:, 3]
    found: list[tuple[int, str]] = []

    def report(rows: np.ndarray, what: str) -> None:
        found.extend((int(row), what) for row in np.unique(rows))

    # NaN, where there is no box, is never left out.
    lon, lat, owner = held.vertices[:, 0], held.vertices[:, 1], held.vertex_owner
    out = np.where(
        xmin[owner] <= xmax[owner], (lon < xmin[owner]) | (lon > xmax[owner]), (lon < xmin[owner]) & (lon > xmax[owner])
    )
    report(owner[out | (lat < ymin[owner]) | (lat > ymax[owner])], "a vertex")
    report(np.flatnonzero((held.low < ymin) | (held.high > ymax)), "a latitude")
    report(np.flatnonzero(held.full & ((xmin > -180) | (xmax < 180))), "a longitude of a pole")
    lows, highs = sides[:, _LOWS[2:]], sides[:, _HIGHS[2:]]
    report(np.flatnonzero(((held.heights[0] < lows) | (held.heights[1] > highs)).any(axis=1)), "a height or a measure")
    owner, start, end = held.owner, held.starts, held.ends
    way = (end[:, 0] - start[:, 0] + 540) % 360 - 180
    west = np.where(way >= 0, start[:, 0], end[:, 0])
    width = np.where(xmin <= xmax, xmax - xmin, xmax - xmin + 360)[owner]
    ahead = (west - xmin[owner]) % 360
    on_pole = (np.abs(start[:, 1]) == 90) | (np.abs(end[:, 1]) == 90)
    out = (ahead + np.abs(way) > width + 1e-12) & (width < 360) & ~held.over & ~on_pole
    # A start at the western side may be a full turn ahead by its last bit.
    out &= ~((ahead > 360 - 1e-12) & (np.abs(way) <= width + 1e-12))
    report(owner[out], "an edge")
    if held.edges == SPHERICAL:
        owner, lat = held.inner_owner, held.inner[:, 1]
        ahead = (held.inner[:, 0] - xmin[owner]) % 360
        width = np.where(xmin <= xmax, xmax - xmin, xmax - xmin + 360)[owner]
        room = 1e-9 / np.maximum(np.cos(np.radians(lat)), 1e-9)
        out = (ahead > width + room) & (ahead < 360 - room) & (np.abs(lat) < 90)
        report(owner[out | (lat < ymin[owner] - 1e-9) | (lat > ymax[owner] + 1e-9)], "a point inside")
    return found
