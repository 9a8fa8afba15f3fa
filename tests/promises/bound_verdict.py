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
    required: Counter[str] = field(default_factory=Counter)
    """Bounds that the values allow, by the same and for z and m apart: not all empty, nothing infinite."""
    written: Counter[str] = field(default_factory=Counter)
    """How many of those are there."""
    problems: list[str] = field(default_factory=list)

    @property
    def shortfalls(self) -> list[str]:
        """Where bounds are missing that the values allow."""
        return [
            f"{where}: {self.written[where]} of {count} bounds that the values allow"
            for where, count in self.required.items()
            if self.written[where] < count
        ]

    def check(self, writer: str, bounds: list[Bound], truth: Mapping[str, Geometries | Geographies]) -> None:
        """Add what these bounds of one table show; every level that exists must cover every row."""
        grouped: dict[tuple[str, str], list[Bound]] = {}
        for bound in bounds:
            grouped.setdefault((bound.level, bound.column), []).append(bound)
        for (level, column), some in grouped.items():
            column_values = truth[column]
            sides = np.full((len(column_values.values), 8), np.nan)
            for bound in some:
                sides[bound.ids] = bound.sides
            if level != "covering":  # which a null or empty geometry does not have
                ids = np.sort(np.concatenate([bound.ids for bound in some]))
                if not np.array_equal(ids, np.arange(len(column_values.values))):
                    self.problems.append(f"{writer}, {level}: the rows are not those that were written")
            placed = _has_location(column_values)
            wrong = _leaves_out(column_values, sides)
            if level.startswith("covering"):  # a row without x or without y has none, and meets no window
                wrong = [fault for fault in wrong if placed[fault[0]]]
            bounded = ~np.isnan(sides[:, :4]).any(axis=1)
            half = np.isnan(sides[:, :4]).any(axis=1) & ~np.isnan(sides[:, :4]).all(axis=1)
            # A filter on a covering drops what has none.
            lost = half | (placed & ~bounded) if level == "covering" else half
            where = f"{writer}, {level}, {column}"
            self.problems += [
                f"{where}: row {row}: {_text(sides[row])} leaves out {what} of {column_values.shapes[row]}"
                for row, what in [*wrong, *[(row, "a side") for row in np.flatnonzero(lost)]][:5]
            ]
            self.compared[where] += int((placed & bounded).sum())
            self.unbounded[where] += int((placed & ~bounded).sum())
            if level != "covering":
                self._count(where, level, some, column_values)

    def _count(self, where: str, level: str, some: list[Bound], values: Geometries | Geographies) -> None:
        low, high, boundable = _numbers(values)
        for bound in some:
            has = ~np.isnan(low[bound.ids]).all(axis=0)
            if level != "row group":  # made of the boxes of parts, and a part with x alone or y alone has none
                has[:2] &= _has_location(values)[bound.ids].any()
            if not (has[:2].all() and boundable[bound.ids].all() and _is_read(low[bound.ids], high[bound.ids])):
                continue
            there = not np.isnan(bound.sides[:4]).any()
            self.required[where] += 1
            self.written[where] += there
            for axis in _WITH_HEIGHTS.get(level, ""):
                index, side = _HEIGHTS[axis]
                if has[index] and (level != "geo property" or all(_is_solid(values, row) for row in bound.ids)):
                    self.required[f"{where}, {axis}"] += 1
                    self.written[f"{where}, {axis}"] += not np.isnan(bound.sides[side : side + 2]).any()


def _text(sides: np.ndarray) -> str:
    return str([None if np.isnan(side) else float(side) for side in sides])


def _has_location(values: Geometries | Geographies) -> np.ndarray:
    if isinstance(values, Geometries):
        return ~np.isnan(values.low[:, :2]).any(axis=1)
    return np.isfinite(values.low)


def _numbers(values: Geometries | Geographies) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ends of each row on x, y, z and m, NaN without one, and whether nothing of it defies a bound."""
    if isinstance(values, Geographies):
        latitude = np.where(np.isfinite(values.low), values.low, np.nan).astype(float)
        low, high = (np.column_stack([latitude, latitude, heights]) for heights in values.heights)
        return low, high, np.ones(len(latitude), bool)
    infinite = np.isinf(values.low).any(axis=1) | np.isinf(values.high).any(axis=1)
    return values.low, values.high, ~(infinite | values.unclear)


def _is_read(low: np.ndarray, high: np.ndarray) -> bool:
    """Whether all ranges are such as Arrow shows: one that is wider than the largest double it takes for none."""
    with np.errstate(over="ignore"):
        return not np.isinf(np.fmax.reduce(high) - np.fmin.reduce(low)).any()


def _is_solid(rows: Geometries | Geographies, row: int) -> bool:
    """Whether GeoParquet 1.1 has a name for the type of the value, and it ends in Z; a null has none."""
    shape = rows.shapes[row]
    return rows.values[row] is None or (shape is not None and shape.kind <= 7 and shape.dims.endswith("Z"))


def _leaves_out(values: Geometries | Geographies, sides: np.ndarray) -> list[tuple[int, str]]:
    """The rows that are partly outside their box."""
    if isinstance(values, Geometries):
        low, high = sides[:, _LOWS], sides[:, _HIGHS]
        wrong = ((values.low < low) | (values.high > high)).any(axis=1)
        # A geometry's x never wraps: its readers would find nothing.
        wrong |= sides[:, 0] > sides[:, 2]
        return [(int(row), f"{values.low[row]} to {values.high[row]}") for row in np.flatnonzero(wrong)]
    return _leaves_out_on_earth(values, sides)


def _leaves_out_on_earth(values: Geographies, sides: np.ndarray) -> list[tuple[int, str]]:
    wide = sides.astype(np.longdouble)
    xmin, ymin, xmax, ymax = wide[:, 0], wide[:, 1], wide[:, 2], wide[:, 3]
    faults: list[tuple[int, str]] = []

    def report(rows: np.ndarray, what: str) -> None:
        faults.extend((int(row), what) for row in np.unique(rows))

    # NaN, where there is no box, is never left out.
    lon, lat, owner = values.vertices[:, 0], values.vertices[:, 1], values.vertex_owner
    out = np.where(
        xmin[owner] <= xmax[owner], (lon < xmin[owner]) | (lon > xmax[owner]), (lon < xmin[owner]) & (lon > xmax[owner])
    )
    report(owner[out | (lat < ymin[owner]) | (lat > ymax[owner])], "a vertex")
    report(np.flatnonzero((values.low < ymin) | (values.high > ymax)), "a latitude")
    report(np.flatnonzero(values.full & ((xmin > -180) | (xmax < 180))), "a longitude of a pole")
    lows, highs = sides[:, _LOWS[2:]], sides[:, _HIGHS[2:]]
    report(
        np.flatnonzero(((values.heights[0] < lows) | (values.heights[1] > highs)).any(axis=1)), "a height or a measure"
    )
    owner, start, end = values.owner, values.starts, values.ends
    way = (end[:, 0] - start[:, 0] + 540) % 360 - 180
    west = np.where(way >= 0, start[:, 0], end[:, 0])
    width = np.where(xmin <= xmax, xmax - xmin, xmax - xmin + 360)[owner]
    ahead = (west - xmin[owner]) % 360
    on_pole = (np.abs(start[:, 1]) == 90) | (np.abs(end[:, 1]) == 90)
    out = (ahead + np.abs(way) > width + 1e-12) & (width < 360) & ~values.over & ~on_pole
    # A start at the western side may be a full turn ahead by its last bit.
    out &= ~((ahead > 360 - 1e-12) & (np.abs(way) <= width + 1e-12))
    report(owner[out], "an edge")
    if values.edges == SPHERICAL:
        owner, lat = values.inner_owner, values.inner[:, 1]
        ahead = (values.inner[:, 0] - xmin[owner]) % 360
        width = np.where(xmin <= xmax, xmax - xmin, xmax - xmin + 360)[owner]
        room = 1e-9 / np.maximum(np.cos(np.radians(lat)), 1e-9)
        out = (ahead > width + room) & (ahead < 360 - room) & (np.abs(lat) < 90)
        report(owner[out | (lat < ymin[owner] - 1e-9) | (lat > ymax[owner] + 1e-9)], "a point inside")
    return faults
