"""Keys along space-filling curves: points that are near each other get keys that are near each other.

The Hilbert key is that of J. Skilling, Programming the Hilbert curve (AIP Conference Proceedings 707, 2004): the
coordinates are transposed in place, bit by bit, and then interleaved. Z-order interleaves them as they are.
"""

from __future__ import annotations

import enum
import itertools
from typing import TYPE_CHECKING

import numpy as np

from geolake_nb.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["KEY_BITS", "Curve", "bits_per_axis", "curve_keys"]

KEY_BITS = 62
"""The bits of a key: keys are never negative, and there is room for keys above all of them."""
_MAX_AXES = 16


class Curve(enum.Enum):
    """The curve along which points are put in order."""

    HILBERT = "hilbert"
    """Each step goes to a neighbour, in any number of dimensions."""
    ZORDER = "zorder"
    """Bits of the coordinates in turn; cheaper, with jumps."""

    @classmethod
    def parse(cls, text: str) -> Curve:
        """The curve of that name, in any case.

        >>> Curve.parse("Hilbert")
        <Curve.HILBERT: 'hilbert'>
        """
        try:
            return cls(text.strip().lower().replace("-", ""))
        except ValueError:
            known = ", ".join(sorted(member.value for member in cls))
            raise RefusedError(f"unknown curve {text!r}", remedy=f"use one of: {known}") from None


def bits_per_axis(axes: int) -> int:
    """How many bits of each coordinate a key holds.

    >>> bits_per_axis(1), bits_per_axis(2), bits_per_axis(3)
    (31, 31, 20)
    """
    if not 1 <= axes <= _MAX_AXES:
        raise RefusedError(f"a curve runs through 1 to {_MAX_AXES} dimensions, not {axes}")
    return min(31, KEY_BITS // axes)


def curve_keys(axes: Sequence[NDArray[np.float64]], curve: Curve = Curve.HILBERT) -> NDArray[np.int64]:
    """The key of each point; coordinates run from 0 to 1, those beyond count as the nearest, NaN as 1.

    >>> x, y = np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 1.0, 1.0, 0.0])
    >>> (curve_keys([x, y]) >> 60).tolist(), (curve_keys([x, y], Curve.ZORDER) >> 60).tolist()
    ([0, 1, 2, 3], [0, 1, 3, 2])
    >>> curve_keys([np.array([])]).tolist()
    []
    """
    bits = bits_per_axis(len(axes))
    cells = [_cells(axis, bits) for axis in axes]
    if curve is Curve.HILBERT and len(cells) > 1:
        _transpose(cells, bits)
    return _interleave(cells, bits)


def _cells(axis: NDArray[np.float64], bits: int) -> NDArray[np.uint32]:
    """The coordinate as a whole number of so many bits."""
    inside = np.clip(np.nan_to_num(np.asarray(axis, np.float64), nan=1.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
    return np.minimum(inside * float(1 << bits), float((1 << bits) - 1)).astype(np.uint32)


def _transpose(cells: list[NDArray[np.uint32]], bits: int) -> None:
    """Skilling's AxestoTranspose on arrays, in place."""
    first, last = cells[0], cells[-1]
    for bit in range(bits - 1, 0, -1):
        low = np.uint32((1 << bit) - 1)
        first ^= _where_set(first, bit) & low
        for cell in cells[1:]:
            # Where the bit is set, the low bits of the first axis are turned over, elsewhere they change places
            # with those of this axis.
            is_set = _where_set(cell, bit)
            swap = (first ^ cell) & low & ~is_set
            first ^= swap | (is_set & low)
            np.bitwise_xor(cell, swap, out=cell)
    for before, cell in itertools.pairwise(cells):
        np.bitwise_xor(cell, before, out=cell)
    turn = np.zeros_like(first)
    for bit in range(bits - 1, 0, -1):
        turn ^= _where_set(last, bit) & np.uint32((1 << bit) - 1)
    for cell in cells:
        np.bitwise_xor(cell, turn, out=cell)


def _where_set(cell: NDArray[np.uint32], bit: int) -> NDArray[np.uint32]:
    """All ones where the bit is set, else 0."""
    return np.uint32(0) - ((cell >> np.uint32(bit)) & np.uint32(1))


def _interleave(cells: list[NDArray[np.uint32]], bits: int) -> NDArray[np.int64]:
    """The bits of the cells in turn, the highest of the first axis first."""
    count = len(cells)
    key = np.zeros(len(cells[0]), np.int64)
    for index, cell in enumerate(cells):
        spread = _spread2(cell) if count == 2 else _spread(cell, bits, count)
        key |= spread << np.int64(count - 1 - index)
    return key


def _spread(cell: NDArray[np.uint32], bits: int, step: int) -> NDArray[np.int64]:
    wide = cell.astype(np.int64)
    if step == 1:
        return wide << np.int64(KEY_BITS - bits)
    spread = np.zeros_like(wide)
    for bit in range(bits):
        spread |= ((wide >> np.int64(bit)) & np.int64(1)) << np.int64(bit * step)
    return spread


_MASKS = ((16, 0x0000FFFF0000FFFF), (8, 0x00FF00FF00FF00FF), (4, 0x0F0F0F0F0F0F0F0F), (2, 0x3333333333333333))


def _spread2(cell: NDArray[np.uint32]) -> NDArray[np.int64]:
    """A zero after each bit, by the usual masks."""
    wide = cell.astype(np.int64)
    for shift, mask in (*_MASKS, (1, 0x5555555555555555)):
        wide = (wide | (wide << np.int64(shift))) & np.int64(mask)
    return wide
