"""How far the box of another writer can be trusted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from geolake_nb.geo.usable_bounds import VERTICES_ONLY
from geolake_nb.geo.wrapped_boxes import wrap_problem
from geolake_nb.model.box import Box
from geolake_nb.model.types import GeographyType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geolake_nb.model.types import GeometryType

__all__ = ["MARGIN", "OWN_WRITER", "is_own_writer", "usable_box", "widened", "widened_sides"]

OWN_WRITER = "geolake_nb"
"""How `created_by` starts in the footer of a file that this package wrote."""

MARGIN = 1e-12
"""The relative margin by which an axis is widened: boxes of other writers miss vertices by 1e-14 degrees."""

_POINT_CODES = frozenset(base + code for base in (0, 1000, 2000, 3000) for code in (1, 4))


def is_own_writer(created_by: str | None) -> bool:
    """Whether this package wrote a file: its boxes are exact and cover the edges of geographies.

    >>> is_own_writer("geolake_nb 0.1"), is_own_writer(None)
    (True, False)
    """
    return created_by is not None and created_by.startswith(OWN_WRITER)


def widened(box: Box) -> Box:
    """The box, a little larger on every axis: by `MARGIN` and by one step of a double.

    >>> widened(Box(0, 10, 0, 20)).values
    (-5e-324, 9.999999999979998, 5e-324, 20.000000000020002)
    """
    xmin, xmax = _outward(box.xmin, box.xmax)
    if box.wraps and xmin <= xmax:
        xmin, xmax = -180.0, 180.0  # the gap closed
    ymin, ymax = _outward(box.ymin, box.ymax)
    z = (None, None) if box.zmin is None or box.zmax is None else _outward(box.zmin, box.zmax)
    m = (None, None) if box.mmin is None or box.mmax is None else _outward(box.mmin, box.mmax)
    return Box(xmin, ymin, xmax, ymax, *z, *m)


def usable_box(
    box: Box, type: GeometryType | GeographyType, *, types: tuple[int, ...] | None, own: bool
) -> tuple[Box | None, str | None]:
    """The box as far as a scan may rely on it, or `None` and the reason.

    `types` are the ISO codes of the values, `own` is whether this package wrote the box.

    >>> usable_box(Box(0, 0, 1, 1), GeographyType(), types=(3,), own=False)
    (None, 'a geography box of another writer may cover only the vertices, not the edges')
    >>> usable_box(Box(0, 0, 1, 1), GeographyType(), types=(1,), own=False)[0].xmin
    -1.0000000000000002e-12
    """
    if not all(map(math.isfinite, box.values)):
        return None, "the box has an infinite side"
    if isinstance(type, GeographyType):
        return _usable_on_earth(box, types, own)
    problem = wrap_problem(box.xmin, box.xmax, type)
    if problem is not None:
        return None, problem
    return (box if own else widened(box)), None


def _usable_on_earth(box: Box, types: tuple[int, ...] | None, own: bool) -> tuple[Box | None, str | None]:
    # Parquet, Bounding Box: a geography has X in [-180, 180] and Y in [-90, 90].
    if max(abs(box.xmin), abs(box.xmax)) > 180 or max(-box.ymin, box.ymax) > 90:
        return None, "the box of a geography exceeds [-180, 180] or [-90, 90]"
    if own:
        return box, None
    # Points have no edges, so the box of the vertices is exact.
    if types is None or not _POINT_CODES.issuperset(types):
        return None, VERTICES_ONLY
    wide = widened(box)
    ymin, ymax = max(wide.ymin, -90.0), min(wide.ymax, 90.0)
    xmin, xmax = max(wide.xmin, -180.0), min(wide.xmax, 180.0)
    if ymin == -90.0 or ymax == 90.0:
        xmin, xmax = -180.0, 180.0  # a pole has every longitude
    return Box(xmin, ymin, xmax, ymax, wide.zmin, wide.zmax, wide.mmin, wide.mmax), None


def widened_sides(
    low: NDArray[np.float64], high: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The two sides of many boxes on one axis, widened as in `widened`; NaN stays NaN.

    >>> low, high = widened_sides(np.array([10.0, np.nan]), np.array([20.0, np.nan]))
    >>> float(low[0]) == widened(Box(0, 10, 0, 20)).ymin, float(high[0]), bool(np.isnan(low[1]))
    (True, 20.000000000020002, True)
    """
    margin = MARGIN * np.maximum(np.abs(low), np.abs(high))
    return np.nextafter(low - margin, -np.inf), np.nextafter(high + margin, np.inf)


def _outward(low: float, high: float) -> tuple[float, float]:
    margin = MARGIN * max(abs(low), abs(high))
    return math.nextafter(low - margin, -math.inf), math.nextafter(high + margin, math.inf)
