"""The range of a circular arc in exact fractions: no angle, no sample and no rounding but that of the last step."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.oracle.wkb_walk import Arc

__all__ = ["Range", "arc_range"]

Range = tuple[tuple[float, float], tuple[float, float]]
"""The lowest and the highest x, and the same of y."""

_BITS = 120
"""Bits of the radius, the only number that is not a fraction."""


def arc_range(arc: Arc) -> Range | None:
    """The nearest doubles between which the arc lies; None for a straight line, one point or an endless circle."""
    (ax, ay), (bx, by), (cx, cy) = [(Fraction(x), Fraction(y)) for x, y in arc]
    whole = (ax, ay) == (cx, cy)
    if whole:
        ox, oy = (ax + bx) / 2, (ay + by) / 2
    else:
        turn = 2 * ((bx - ax) * (cy - ay) - (by - ay) * (cx - ax))
        if turn == 0:
            return None
        b2, c2 = (bx - ax) ** 2 + (by - ay) ** 2, (cx - ax) ** 2 + (cy - ay) ** 2
        ox, oy = ax + ((cy - ay) * b2 - (by - ay) * c2) / turn, ay + ((bx - ax) * c2 - (cx - ax) * b2) / turn
    square = (ax - ox) ** 2 + (ay - oy) ** 2
    if not 0 < square < Fraction(10) ** 600:
        return None
    radius = _root(square)
    lows, highs = [], []
    for axis, centre in enumerate((ox, oy)):
        ends = [min(ax, bx, cx), max(ax, bx, cx)] if axis == 0 else [min(ay, by, cy), max(ay, by, cy)]
        for end, sign in enumerate((-1, 1)):
            # The place where the circle turns is on the arc when it is on the side of the chord that the middle is on.
            chord = (cx - ax) * (oy - ay) - (cy - ay) * (ox - ax)
            slope = -sign * (cy - ay) if axis == 0 else sign * (cx - ax)
            middle = (cx - ax) * (by - ay) - (cy - ay) * (bx - ax)
            if whole or _sign(chord, slope, square) * middle > 0:
                ends[end] = centre + sign * radius
        lows.append(_double(ends[0], -math.inf))
        highs.append(_double(ends[1], math.inf))
    return (lows[0], highs[0]), (lows[1], highs[1])


def _sign(number: Fraction, times: Fraction, square: Fraction) -> int:
    """The sign of `number + times * sqrt(square)`, by squares alone."""
    ours, theirs = (number > 0) - (number < 0), (times > 0) - (times < 0)
    if ours * theirs >= 0:
        return ours or theirs
    return ours if number**2 > times**2 * square else theirs if number**2 < times**2 * square else 0


def _root(square: Fraction) -> Fraction:
    """The root to so many bits, never above the true one."""
    shift = max(0, 2 * _BITS - square.numerator.bit_length() + square.denominator.bit_length()) // 2 + 1
    return Fraction(math.isqrt((square.numerator << 2 * shift) // square.denominator), 1 << shift)


def _double(number: Fraction, towards: float) -> float:
    """The nearest double on that side of the number, or the number itself."""
    near = float(number)
    exact = Fraction(near)
    return near if exact == number or (exact > number) == (towards > 0) else math.nextafter(near, towards)
