"""Boxes in another coordinate reference system, grown rather than cut, or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.core.box import Box

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BoxMover", "CannotMoveError"]

# Engines shift datums with other grids than ours, which moves a point by some hundred metres at most.
_DATUM_METRES = 1_000.0
_METRES_PER_DEGREE = 111_000.0
# Between the points at which an edge is transformed it can bulge by a small part of the whole.
_BULGE = 0.01
_EDGE_POINTS = 101
_GRID_POINTS = 21


class CannotMoveError(Exception):
    """The box cannot be moved to another CRS without a doubt."""


@dataclass(frozen=True, slots=True, eq=False)
class BoxMover:
    """Moves boxes from one CRS to another so that they grow rather than lose something.

    >>> import pyproj
    >>> mover = BoxMover.between(pyproj.CRS("OGC:CRS84"), pyproj.CRS("EPSG:3857"))
    >>> mover.move_box(Box(0, 0, 1, 1)).contains(Box(0, 0, 111319, 111325))
    True
    >>> mover.move_box(Box(0, 0, 1, 95))
    Traceback (most recent call last):
    geolake_nb.core.box_moving.CannotMoveError: the column's CRS has no coordinates where the query lies
    """

    transformer: Any
    from_geographic: bool
    to_geographic: bool
    metres: float
    """The length of the target's unit."""

    @classmethod
    def between(cls, source: Any, target: Any) -> BoxMover:
        """The way from one `pyproj.CRS` to another."""
        import pyproj
        from pyproj.exceptions import ProjError

        try:
            transformer = pyproj.Transformer.from_crs(source, target, always_xy=True)
        except ProjError:
            raise CannotMoveError("PROJ knows no way between them") from None
        metres = target.axis_info[0].unit_conversion_factor if target.axis_info else 1.0
        return cls(transformer, bool(source.is_geographic), bool(target.is_geographic), metres or 1.0)

    def move_points(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The points in the target, all of which have a place there."""
        x, y = self.transformer.transform(points[:, 0], points[:, 1])
        moved = np.column_stack([x, y])
        if not np.isfinite(moved).all():
            raise CannotMoveError("the column's CRS has no coordinates where the query lies")
        return moved

    def move_box(self, box: Box) -> Box:
        """A box of the target that holds everything in the box of the source."""
        from pyproj.exceptions import ProjError

        xs, ys = (np.linspace(low, high, _GRID_POINTS) for low, high in ((box.xmin, box.xmax), (box.ymin, box.ymax)))
        grid = np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)
        moved = self.move_points(grid)
        self._check_way_back(grid, moved, box)
        try:
            sides = self.transformer.transform_bounds(box.xmin, box.ymin, box.xmax, box.ymax, densify_pts=_EDGE_POINTS)
        except ProjError:
            sides = (np.inf,)
        if not np.isfinite(sides).all():
            raise CannotMoveError("the column's CRS has no coordinates where the query lies")
        return self._with_bulge(sides, moved)

    def margin(self, geometry: Any) -> tuple[float, float]:
        """How far another engine may place the query from where we do."""
        import shapely

        if not self.to_geographic:
            return _DATUM_METRES / self.metres, _DATUM_METRES / self.metres
        degrees = _DATUM_METRES / _METRES_PER_DEGREE
        farthest = min(90.0, float(np.abs(shapely.get_coordinates(geometry)[:, 1]).max()) + degrees)
        shrink = float(np.cos(np.radians(farthest)))
        return (degrees / shrink if shrink > 1e-3 else 360.0), degrees

    def _check_way_back(self, grid: NDArray[np.float64], moved: NDArray[np.float64], box: Box) -> None:
        """Refuse what does not come back: far outside its area a projection gives meaningless numbers."""
        x, y = self.transformer.transform(moved[:, 0], moved[:, 1], direction="INVERSE")
        size = max(box.xmax - box.xmin, box.ymax - box.ymin)
        tolerance = 1e-3 * size + (1e-6 if self.from_geographic else 0.1)
        off_x, off_y = np.abs(x - grid[:, 0]), np.abs(y - grid[:, 1])
        if self.from_geographic:
            off_x = np.minimum(off_x, np.abs(off_x - 360.0))
            off_x[np.abs(grid[:, 1]) > 89.9999] = 0.0  # a pole has every longitude
        if not ((off_x <= tolerance) & (off_y <= tolerance)).all():
            raise CannotMoveError("the query reaches beyond the area where the two can be converted")

    def _with_bulge(self, sides: tuple[float, ...], moved: NDArray[np.float64]) -> Box:
        xmin, ymin, xmax, ymax = (float(side) for side in sides)
        ymin, ymax = min(ymin, float(moved[:, 1].min())), max(ymax, float(moved[:, 1].max()))
        rise = _BULGE * (ymax - ymin)
        if not self.to_geographic:
            xmin, xmax = min(xmin, float(moved[:, 0].min())), max(xmax, float(moved[:, 0].max()))
            run = _BULGE * (xmax - xmin)
            return Box(xmin - run, ymin - rise, xmax + run, ymax + rise)
        width = xmax - xmin + (360.0 if xmin > xmax else 0.0)
        run = _BULGE * width
        ymin, ymax = max(-90.0, ymin - rise), min(90.0, ymax + rise)
        offsets = (moved[:, 0] - xmin + run) % 360.0
        if width + 2 * run >= 360.0 or ymax >= 90.0 or ymin <= -90.0 or (offsets > width + 2 * run).any():
            return Box(-180.0, ymin, 180.0, ymax)
        return Box(_longitude(xmin - run), ymin, _longitude(xmax + run), ymax)


def _longitude(x: float) -> float:
    return x if -180.0 <= x <= 180.0 else (x + 180.0) % 360.0 - 180.0
