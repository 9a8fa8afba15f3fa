"""Feeds Arrow arrays to the compiled walk and holds what it found, chunk after chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from geolake_nb.geo import wkb_kernel as kernel
from geolake_nb.geo.wkb import WkbFault
from geolake_nb.model.box import Box

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["EdgeRules", "Fault", "OpenValue", "Scan"]

_FAULTS = {
    kernel.FAULT_TRUNCATED: WkbFault.TRUNCATED,
    kernel.FAULT_BYTE_ORDER: WkbFault.BYTE_ORDER,
    kernel.FAULT_TYPE: WkbFault.TYPE,
    kernel.FAULT_COUNT: WkbFault.COUNT,
    kernel.FAULT_NESTING: WkbFault.NESTING,
    kernel.FAULT_CHILD_TYPE: WkbFault.CHILD_TYPE,
    kernel.FAULT_ARC_POINTS: WkbFault.ARC_POINTS,
    kernel.FAULT_TRAILING: WkbFault.TRAILING,
}

_OPEN = {
    kernel.OPEN_ARC: "the circle of an arc cannot be computed in doubles",
    kernel.OPEN_CURVE: "a circular arc is not defined on the Earth",
    kernel.OPEN_RANGE: "a longitude is outside [-180, 180] or a latitude outside [-90, 90]",
}


class EdgeRules(NamedTuple):
    """How the edges of a geography run, in the numbers that the kernel needs."""

    flattening: float
    """Of the ellipsoid; 0 for a sphere."""
    margin: float
    """Degrees of latitude added on both sides for each radian of an edge."""
    widest: float
    """Edges longer than this many degrees of arc get all latitudes."""


class Fault(NamedTuple):
    """A value that cannot be read."""

    row: int
    fault: WkbFault
    offset: int
    detail: int


class OpenValue(NamedTuple):
    """A value that can be read and cannot be bounded."""

    row: int
    reason: str


class Scan:
    """What is known of the values seen so far; with edge rules they are geographies.

    It lives while a column is read and is then frozen into statistics.
    """

    def __init__(self, edges: EdgeRules | None = None) -> None:
        self.rows = 0
        self.first_bad: Fault | None = None
        self.first_open: OpenValue | None = None
        self._geographic = edges is not None
        self._edges = np.array(edges or EdgeRules(0.0, 0.0, 180.0))
        self._circle = kernel.new_circle()
        self._box = np.array([np.inf, np.inf, -np.inf, -np.inf, np.inf, -np.inf, np.inf, -np.inf])
        self._seen = np.zeros((4, 18), np.uint8)
        self._counts = np.zeros(4, np.int64)
        self._srids = np.array([-kernel.NO_SRID, kernel.NO_SRID])
        self._work = np.zeros(kernel.WORK_WORDS, np.int64)

    def add(self, array: pa.Array) -> None:
        """Take in a `binary` or `large_binary` array."""
        self._add(array, None, None)

    def add_with_boxes(self, array: pa.Array) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Take in an array and give the box of each row: xmin, ymin, xmax, ymax, and which rows have one."""
        boxes, known = np.empty((4, len(array))), np.zeros(len(array), np.bool_)
        self._add(array, boxes, known)
        return boxes, known

    def _add(self, array: pa.Array, boxes: NDArray[np.float64] | None, known: NDArray[np.bool_] | None) -> None:
        validity, offsets, data = array.buffers()
        if len(array) == 0:
            return
        problems = np.full(6, -1, np.int64)
        kernel.scan(
            0 if data is None else data.address,
            offsets.address,
            pa.types.is_large_binary(array.type),
            0 if validity is None else validity.address,
            array.offset,
            len(array),
            self._geographic,
            self._edges.ctypes.data,
            self._circle.ctypes.data,
            self._box.ctypes.data,
            self._seen.ctypes.data,
            self._counts.ctypes.data,
            problems.ctypes.data,
            self._srids.ctypes.data,
            0 if boxes is None else boxes.ctypes.data,
            0 if known is None else known.ctypes.data,
            self._work.ctypes.data,
        )
        bad_row, fault, offset, detail, open_row, reason = problems.tolist()
        if bad_row >= 0 and self.first_bad is None:
            self.first_bad = Fault(self.rows + bad_row, _FAULTS[fault], offset, detail)
        if open_row >= 0 and self.first_open is None:
            self.first_open = OpenValue(self.rows + open_row, _OPEN[reason])
        self.rows += len(array)

    @property
    def null_count(self) -> int:
        """How many values are null."""
        return int(self._counts[kernel.COUNT_NULL])

    @property
    def empty_count(self) -> int:
        """How many values have no X and no Y."""
        return int(self._counts[kernel.COUNT_EMPTY])

    @property
    def bad_count(self) -> int:
        """How many values cannot be read."""
        return int(self._counts[kernel.COUNT_BAD])

    @property
    def open_count(self) -> int:
        """How many values can be read and cannot be bounded."""
        return int(self._counts[kernel.COUNT_OPEN])

    @property
    def srids(self) -> tuple[int, ...]:
        """The least and the greatest SRID of EWKB values; one if they are the same, none if no value has one."""
        low, high = self._srids.tolist()
        return () if low > high else (low,) if low == high else (low, high)

    @property
    def types(self) -> tuple[int, ...]:
        """The ISO codes of the values that could be read, in order."""
        return tuple(int(1000 * dimensions + basic) for dimensions, basic in np.argwhere(self._seen))

    @property
    def box(self) -> Box | None:
        """The box of all values, `None` if one of them has no bound or X or Y has no value."""
        xmin, ymin, xmax, ymax, zmin, zmax, mmin, mmax = self._box.tolist()
        has_x = self._circle[0] > 0 if self._geographic else xmin <= xmax
        if self.bad_count or self.open_count or not has_x or ymin > ymax:
            return None
        z = (zmin, zmax) if zmin <= zmax else (None, None)
        m = (mmin, mmax) if mmin <= mmax else (None, None)
        return Box(xmin, ymin, xmax, ymax, *z, *m)
