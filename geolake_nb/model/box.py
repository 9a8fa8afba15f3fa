"""The bounding box of a value, a column chunk or a file, and how boxes relate to each other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from geolake_nb.errors import BoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Box", "cover", "union_all"]


def cover(intervals: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """The shortest interval that holds them all; an interval with `west > east` crosses 180 degrees.

    The answer leaves out the widest gap. Of equal gaps the one over the antimeridian wins, so that a
    cover wraps only where that makes it shorter. -180 and 180 are one meridian, yet both stay inside.

    >>> cover([(170, 180), (-180, -175)])
    (170, -175)
    >>> cover([(-90, -90), (90, 90)])
    (-90, 90)
    >>> cover([(0, 180), (-180, 0)])
    (-180, 180)
    """
    pieces: list[tuple[float, float]] = []
    for west, east in intervals:
        if west > east:
            pieces += [(west, 180.0), (-180.0, east)]
        else:
            pieces.append((west, east))
    pieces.sort()
    gap = (pieces[0][0] + 180.0) + (180.0 - max(east for _, east in pieces))
    start, end = pieces[0][0], max(east for _, east in pieces)
    reached = pieces[0][1]
    for west, east in pieces[1:]:
        if west - reached > gap:
            gap, start, end = west - reached, west, reached
        reached = max(reached, east)
    return start, end


@dataclass(frozen=True, slots=True)
class Box:
    """A closed box. X and Y are always there; Z and M are `None` when no value had them.

    `xmin > xmax` means that the box crosses the antimeridian: it holds x when `x >= xmin or x <= xmax`.

    Example:
        >>> gl.Box(170, -20, -170, -10).wraps
        True
        >>> gl.Box(0, 0, 1, 1).union(gl.Box(2, 2, 3, 3))
        Box(xmin=0.0, ymin=0.0, xmax=3.0, ymax=3.0, zmin=None, zmax=None, mmin=None, mmax=None)
    """

    xmin: float
    ymin: float
    xmax: float
    ymax: float
    zmin: float | None = None
    zmax: float | None = None
    mmin: float | None = None
    mmax: float | None = None

    def __post_init__(self) -> None:
        for name in ("xmin", "ymin", "xmax", "ymax"):
            object.__setattr__(self, name, float(getattr(self, name)))
        for low, high in (("zmin", "zmax"), ("mmin", "mmax")):
            ends = getattr(self, low), getattr(self, high)
            if (ends[0] is None) != (ends[1] is None):
                raise BoundError(f"a box has {low} or {high} but not both", remedy="give both or neither")
            if ends[0] is not None:
                object.__setattr__(self, low, float(ends[0]))
                object.__setattr__(self, high, float(ends[1]))
        if any(math.isnan(value) for value in self.values):
            raise BoundError("a box has a NaN side", remedy="an axis without values is None")
        for low, high in (("ymin", "ymax"), ("zmin", "zmax"), ("mmin", "mmax")):
            bottom, top = getattr(self, low), getattr(self, high)
            if bottom is not None and bottom > top:
                raise BoundError(f"a box has {low} {bottom} > {high} {top}", remedy="only x may wrap")

    @property
    def values(self) -> tuple[float, ...]:
        """The sides that are there, in the order of the fields."""
        sides = (self.xmin, self.ymin, self.xmax, self.ymax, self.zmin, self.zmax, self.mmin, self.mmax)
        return tuple(side for side in sides if side is not None)

    @property
    def wraps(self) -> bool:
        """Whether the box crosses the antimeridian."""
        return self.xmin > self.xmax

    @property
    def has_z(self) -> bool:
        """Whether the box has a Z range."""
        return self.zmin is not None

    @property
    def has_m(self) -> bool:
        """Whether the box has an M range."""
        return self.mmin is not None

    def unwrapped(self) -> Box:
        """The same box without wraparound: x over the whole circle if it crosses the antimeridian.

        Returns:
            A box whose xmin is at most its xmax.

        Example:
            >>> gl.Box(170, 0, -170, 1).unwrapped().xmin
            -180.0
        """
        if not self.wraps:
            return self
        return Box(-180.0, self.ymin, 180.0, self.ymax, self.zmin, self.zmax, self.mmin, self.mmax)

    def union(self, other: Box, *, circular: bool = False) -> Box:
        """The smallest box that holds both.

        Args:
            other: another box. One that wraps makes the union circular: no plane contains it.
            circular: whether x is a longitude and may wrap to stay small.

        Returns:
            The union; an axis that one of them lacks is that of the other.

        Example:
            >>> east, west = gl.Box(170, 0, 180, 1), gl.Box(-180, 0, -170, 1)
            >>> east.union(west).xmin, east.union(west, circular=True).xmin
            (-180.0, 170.0)
        """
        if circular or self.wraps or other.wraps:
            xmin, xmax = cover([(self.xmin, self.xmax), (other.xmin, other.xmax)])
        else:
            xmin, xmax = min(self.xmin, other.xmin), max(self.xmax, other.xmax)
        zmin, zmax = _join((self.zmin, self.zmax), (other.zmin, other.zmax))
        mmin, mmax = _join((self.mmin, self.mmax), (other.mmin, other.mmax))
        ymin, ymax = min(self.ymin, other.ymin), max(self.ymax, other.ymax)
        return Box(xmin, ymin, xmax, ymax, zmin, zmax, mmin, mmax)

    def contains(self, other: Box) -> bool:
        """Whether every x, y of another box lies in this one (Z and M are not compared).

        Args:
            other: the other box.

        Returns:
            True where it does; equal boxes contain each other.

        Example:
            >>> gl.Box(170, 0, -170, 1).contains(gl.Box(175, 0, 180, 1))
            True
        """
        return self.ymin <= other.ymin and other.ymax <= self.ymax and _x_contains(self, other)

    def intersects(self, other: Box) -> bool:
        """Whether the boxes share an x, y (Z and M are not compared).

        Args:
            other: the other box.

        Returns:
            True where they do; touching counts.

        Example:
            >>> gl.Box(170, 0, -170, 1).intersects(gl.Box(-175, 1, 0, 2))
            True
        """
        return self.ymin <= other.ymax and other.ymin <= self.ymax and _x_intersects(self, other)


def union_all(boxes: Iterable[Box], *, circular: bool = False) -> Box | None:
    """The smallest box that holds them all, `None` for no boxes.

    On a circle this is not the same as joining two at a time, which can end with a larger cover.

    >>> union_all([]) is None
    True
    >>> union_all([Box(-10, 0, -5, 1), Box(170, 0, 175, 1), Box(100, 0, 105, 1)], circular=True).xmin
    -10.0
    """
    parts = list(boxes)
    if not parts:
        return None
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.union(part, circular=circular)
    if circular or whole.wraps:
        xmin, xmax = cover([(part.xmin, part.xmax) for part in parts])
        sides = (whole.zmin, whole.zmax, whole.mmin, whole.mmax)
        whole = Box(xmin, whole.ymin, xmax, whole.ymax, *sides)
    return whole


_Range = tuple[float | None, float | None]


def _join(range_: _Range, other: _Range) -> _Range:
    if range_[0] is None or range_[1] is None:
        return other
    if other[0] is None or other[1] is None:
        return range_
    return min(range_[0], other[0]), max(range_[1], other[1])


def _x_intersects(box: Box, other: Box) -> bool:
    if box.wraps and other.wraps:
        return True  # both hold the antimeridian
    if box.wraps or other.wraps:
        return other.xmin <= box.xmax or box.xmin <= other.xmax
    return box.xmin <= other.xmax and other.xmin <= box.xmax


def _x_contains(outer: Box, inner: Box) -> bool:
    if outer.wraps == inner.wraps:
        return outer.xmin <= inner.xmin and inner.xmax <= outer.xmax
    if outer.wraps:
        return inner.xmin >= outer.xmin or inner.xmax <= outer.xmax
    return outer.xmin <= -180.0 and outer.xmax >= 180.0
