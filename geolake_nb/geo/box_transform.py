"""Boxes in another coordinate reference system, grown rather than cut, or not at all.

A box goes by way of longitude and latitude. There a query around a pole has the pole's latitude and every longitude,
and what tears a map apart, its poles and the meridian at which it is cut open, is a side of the box or crosses it:
the samples see it, and the margin between them grows by as much as the map jumps (see `patch_bounds`).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.geo.patch_bounds import PatchBox, flat_box, patch_box, plane_box

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geolake_nb.model.box import Box

__all__ = ["BoxMover", "CannotMoveError", "MovedBox"]

# Engines shift datums with other grids than ours, which moves a point by some hundred metres at most.
_DATUM_METRES = 1_000.0
_METRES_PER_DEGREE = 111_000.0
_GRIDS = (16, 32, 64, 128)
"""Cells per side of the sampling grid, tried in turn until the box is tight enough."""
_TIGHT = 0.01
"""A box is tight enough when its margins are this small a part of its extent."""
_PAD = 1e-9
"""Degrees that cover the rounding of a conversion."""
_SIGNS = np.array([-1.0, 1.0])
_NO_PLACE = "the query lies outside the area of the column's CRS"
_TOO_FAR = "the query extends beyond the area where the two can be transformed"


class CannotMoveError(Exception):
    """The box cannot be transformed reliably to another CRS."""


@dataclass(frozen=True, slots=True)
class MovedBox:
    """A box of the target, and how far beyond it another engine may place the query, in x and in y."""

    box: Box
    margin: tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class BoxMover:
    """Transforms boxes from one CRS to another; they grow rather than lose something.

    >>> import pyproj
    >>> from geolake_nb.model.box import Box
    >>> mover = BoxMover.between(pyproj.CRS("OGC:CRS84"), pyproj.CRS("EPSG:3857"))
    >>> mover.move_box(Box(0, 0, 1, 1)).box.contains(Box(0, 0, 111319, 111325))
    True
    >>> mover.move_box(Box(0, 0, 1, 95))
    Traceback (most recent call last):
    geolake_nb.geo.box_transform.CannotMoveError: the query lies outside the area of the column's CRS
    """

    transformer: Any
    to_degrees: Any
    """The way to longitude and latitude: those of the target if it has them, else those of WGS84."""
    from_degrees: Any
    """The way on to the target, `None` where it is in degrees itself."""
    source_circle: float | None
    """A full turn in the source's unit if its x is a longitude."""

    @classmethod
    def between(cls, source: Any, target: Any) -> BoxMover:
        """The way from one `pyproj.CRS` to another."""
        from pyproj.exceptions import ProjError

        if any(crs.is_vertical and not (crs.is_geographic or crs.is_projected) for crs in (source, target)):
            # PROJ takes what has heights alone for longitudes and latitudes.
            raise CannotMoveError("a CRS of heights has no x and y")
        if target.is_geographic and not math.isclose(_unit(target), _unit(None)):
            raise CannotMoveError("the column's longitudes are not in degrees")
        try:
            transformer = _transformer(source, target)
            to_degrees, from_degrees = transformer, None
            if not target.is_geographic:
                to_degrees, from_degrees = _transformer(source, "OGC:CRS84"), _transformer("OGC:CRS84", target)
        except ProjError:
            raise CannotMoveError("PROJ has no transformation between them") from None
        return cls(transformer, to_degrees, from_degrees, math.tau / _unit(source) if source.is_geographic else None)

    def move_points(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The points in the target CRS, all of them finite."""
        return np.column_stack(_transformed(self.transformer, points[:, 0], points[:, 1]))

    def move_box(self, box: Box) -> MovedBox:
        """A box of the target that holds everything in the box of the source."""
        degrees = self._to_degrees(box)
        margin = _datum_margin(degrees)
        return MovedBox(degrees, margin) if self.from_degrees is None else self._from_degrees(degrees, margin)

    def _to_degrees(self, box: Box) -> Box:
        patch: PatchBox | None = None
        for cells in _GRIDS:
            x, y = _grid(box, cells)
            lon, lat = _transformed(self.to_degrees, x, y)
            if np.abs(lat).max() > 90.0 + _PAD:
                raise CannotMoveError(_NO_PLACE)
            if np.array_equal(lon, x) and np.array_equal(lat, y):
                return plane_box(box.xmin, box.ymin, box.xmax, box.ymax, pad=_PAD)
            back = _transformed(self.to_degrees, lon, lat, inverse=True)
            _check_way_back((x, y), back, self.source_circle)
            patch = patch_box(lon, np.clip(lat, -90.0, 90.0), pad=_PAD)
            if patch is not None and patch.looseness <= _TIGHT * patch.extent + 8 * _PAD:
                break
        if patch is None:
            raise CannotMoveError(_TOO_FAR)
        return patch.box

    def _from_degrees(self, box: Box, margin: tuple[float, float]) -> MovedBox:
        for cells in _GRIDS:
            lon, lat = _grid(box, cells)
            x, y = self._placed(lon, lat)
            _check_way_back((lon, lat), _transformed(self.from_degrees, x, y, inverse=True), 360.0)
            patch = flat_box(x, y)
            if patch.looseness <= _TIGHT * patch.extent:
                break
        # A projection may stretch a metre: the margin is measured on its samples.
        aside = [self._placed(lon + turn, lat + rise) for turn in _SIGNS * margin[0] for rise in _SIGNS * margin[1]]
        off_x, off_y = (
            2.0 * max(float(np.abs(point[axis] - here).max()) for point in aside) for axis, here in ((0, x), (1, y))
        )
        return MovedBox(patch.box, (off_x, off_y))

    def _placed(self, lon: NDArray[np.float64], lat: NDArray[np.float64]) -> _Grid:
        turned = lon - 360.0 * np.round(lon / 360.0)
        return _transformed(self.from_degrees, np.where(np.abs(lon) > 180.0, turned, lon), np.clip(lat, -90.0, 90.0))


def _unit(crs: Any) -> float:
    """The size of the unit of x, in radians or metres; without a CRS that of a degree."""
    factor = crs.axis_info[0].unit_conversion_factor if crs is not None and crs.axis_info else None
    return float(factor or math.radians(1.0))


def _datum_margin(box: Box) -> tuple[float, float]:
    degrees = _DATUM_METRES / _METRES_PER_DEGREE
    shrink = math.cos(math.radians(min(90.0, max(abs(box.ymin), abs(box.ymax)) + degrees)))
    return min(360.0, degrees / max(shrink, 1e-9)), degrees


@functools.lru_cache(maxsize=32)
def _transformer(source: Any, target: Any) -> Any:
    import pyproj

    return pyproj.Transformer.from_crs(source, target, always_xy=True)


_Grid = tuple["NDArray[np.float64]", "NDArray[np.float64]"]


def _grid(box: Box, cells: int) -> _Grid:
    east = box.xmax + 360.0 if box.wraps else box.xmax
    xs, ys = np.linspace(box.xmin, east, cells + 1), np.linspace(box.ymin, box.ymax, cells + 1)
    x, y = np.meshgrid(xs, ys)
    return x, y


def _transformed(transformer: Any, x: NDArray[np.float64], y: NDArray[np.float64], *, inverse: bool = False) -> _Grid:
    x, y = transformer.transform(x, y, direction="INVERSE" if inverse else "FORWARD")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise CannotMoveError(_TOO_FAR if inverse else _NO_PLACE)
    return x, y


def _check_way_back(sent: _Grid, back: _Grid, circle: float | None) -> None:
    """Refuse what does not come back: far outside its area a projection gives meaningless numbers."""
    size = max(float(np.ptp(sent[0])), float(np.ptp(sent[1])))
    tolerance = 1e-3 * size + (0.1 if circle is None else 1e-6)
    off_x, off_y = (np.abs(before - other) for before, other in zip(sent, back, strict=True))
    if circle is not None:
        off_x = np.abs(off_x - circle * np.round(off_x / circle))
        off_x[np.abs(sent[1]) > 0.249999 * circle] = 0.0  # a pole has every longitude
    if not ((off_x <= tolerance) & (off_y <= tolerance)).all():
        raise CannotMoveError(_TOO_FAR)
