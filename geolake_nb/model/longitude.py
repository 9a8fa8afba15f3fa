"""Intervals of longitude on a circle, and the smallest one that covers many."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["cover"]


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
