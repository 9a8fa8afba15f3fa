"""Boxes in another coordinate reference system, grown rather than cut, or not at all.

A patch is a rectangle (of pixels, say) bent over the Earth and known on a grid of sample points. The box of
the samples alone is too small, because the surface bulges between them. In every cell of the grid a smooth
coordinate `f` strays from the bilinear blend of its four corners by at most (|f_uu| + |f_vv|) / 8, with the
derivatives taken in units of the cell; the blend itself stays between its corners. The second differences
of the samples estimate these derivatives. The margin here is their *whole* sum, eight times the estimate:
enough for derivatives that grow by that factor within a cell, and for a jump as large as the one that the
second difference shows, as when a datum shift changes at the border of its area. A patch that no margin can
make safe, where neighbouring samples lie more than `MAX_STEP` apart, has no box.

Longitude and latitude are smooth except at the poles. A cell close to a pole for its size is measured in the
plane that touches the Earth there, where everything is smooth and a pole is a point like any other.

A box goes by way of longitude and latitude. There a query around a pole has the pole's latitude and every longitude,
and what tears a map apart, its poles and the meridian at which it is cut open, is a side of the box or crosses it:
the samples see it, and the margin between them grows by as much as the map jumps (see `patch_bounds`).
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.model import box
from geolake_nb.model.box import Box

if TYPE_CHECKING:
    import numpy.typing as npt
    from numpy.typing import NDArray

    _Array = npt.NDArray[np.float64]

__all__ = ["MAX_STEP", "BoxMover", "CannotMoveError", "MovedBox", "PatchBox", "flat_box", "patch_box", "plane_box"]

MAX_STEP = 0.1
"""The longest step between neighbouring samples, in radians of the Earth, for which a bound is valid."""

_POLAR_RATIO = 0.2
"""A cell counts as close to a pole when its sides exceed this part of its distance to it."""


@dataclass(frozen=True, slots=True)
class PatchBox:
    """A box, and how much of it is margin: `looseness` and `extent`, both in the unit of the samples."""

    box: Box
    looseness: float
    extent: float


def patch_box(lon: _Array, lat: _Array, *, pad: float) -> PatchBox | None:
    """The box of a patch sampled on a grid of 3 by 3 points or more, in degrees; `None` if a step is long.

    `pad` covers the rounding of the samples themselves. A box that touches a pole has every longitude.

    >>> lon, lat = np.meshgrid(np.linspace(170, 190, 33), np.linspace(-10, -20, 33))
    >>> box = patch_box(lon, lat, pad=1e-9).box
    >>> [round(side, 6) for side in (box.xmin, box.ymin, box.xmax, box.ymax)]
    [170.0, -20.0, -170.0, -10.0]
    >>> patch_box(lon[::16, ::16], lat[::16, ::16], pad=1e-9) is None
    True
    """
    lam, phi = np.radians(lon), np.radians(lat)
    points = np.stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)], axis=-1)
    steps = [np.linalg.norm(np.diff(points, axis=axis), axis=-1) for axis in (0, 1)]
    if max(step.max() for step in steps) > MAX_STEP:
        return None

    turns = [_least_turn(np.diff(lon, axis=axis)) for axis in (0, 1)]
    lats, lons = _corners(lat), _corners(lon)
    lons = lons + 360.0 * np.round((lons[0] - lons) / 360.0)
    farthest_lat = np.abs(lats).max(axis=0)
    west, east = lons.min(axis=0), lons.max(axis=0)
    lat_margin = _bend([np.diff(lat, axis=axis) for axis in (0, 1)]) + pad
    lon_margin = _bend(turns) + pad / np.maximum(np.cos(np.radians(farthest_lat)), 1e-9)
    south, north = lats.min(axis=0) - lat_margin, lats.max(axis=0) + lat_margin

    side = np.maximum(np.maximum(steps[0][:, :-1], steps[0][:, 1:]), np.maximum(steps[1][:-1, :], steps[1][1:, :]))
    polar = side > _POLAR_RATIO * np.radians(90.0 - farthest_lat)
    if polar.any():
        flat = points[..., :2]
        margin = _bend([np.diff(flat, axis=axis) for axis in (0, 1)]) + math.radians(pad)
        seen = _seen_from_pole(_corners(flat)[:, polar], margin[polar])
        upper = lats[0][polar] > 0
        low, high = seen.low_lat, seen.high_lat
        south[polar], north[polar] = np.where(upper, low, -high), np.where(upper, high, -low)
        west[polar], east[polar], lon_margin[polar] = seen.west, seen.east, seen.margin

    bottom, top = max(-90.0, float(south.min())), min(90.0, float(north.max()))
    raw_west, raw_east = _cover(west, east)
    if top >= 90.0 or bottom <= -90.0:
        # Havasu, Raster bounds: an envelope that covers a pole spans [-180, 180] in longitude.
        left, right = -180.0, 180.0
        slop = 0.0
    else:
        left, right = _cover(west - lon_margin, east + lon_margin)
        slop = _width(left, right) - _width(raw_west, raw_east)
    middle = math.cos(math.radians((bottom + top) / 2))
    extent = max(float(np.ptp(lat)), _width(raw_west, raw_east) * middle)
    looseness = max(float(lat.min()) - bottom, top - float(lat.max()), slop * middle)
    return PatchBox(Box(left, bottom, right, top), looseness, extent)


def flat_box(x: _Array, y: _Array) -> PatchBox:
    """The box of a patch of a plane, a map say, sampled on a grid of 3 by 3 points or more.

    A map that is cut open within the patch jumps there, and the box grows by as much along that axis.

    >>> across, along = np.meshgrid(np.linspace(-1, 1, 5), np.linspace(0, 4, 5))
    >>> flat_box(across, along + 1 - across**2).box
    Box(xmin=-1.0, ymin=-0.5, xmax=1.0, ymax=5.5, zmin=None, zmax=None, mmin=None, mmax=None)
    """
    sides = []
    for values in (x, y):
        corners = _corners(values)
        margin = _bend([np.diff(values, axis=axis) for axis in (0, 1)])
        sides.append((float((corners.min(axis=0) - margin).min()), float((corners.max(axis=0) + margin).max())))
    looseness = max(
        max(float(values.min()) - low, high - float(values.max()))
        for values, (low, high) in zip((x, y), sides, strict=True)
    )
    (xmin, xmax), (ymin, ymax) = sides
    return PatchBox(Box(xmin, ymin, xmax, ymax), looseness, max(float(np.ptp(x)), float(np.ptp(y))))


def plane_box(west: float, south: float, east: float, north: float, *, pad: float) -> Box:
    """The box of a rectangle that lies in degrees already, where x may run past 180.

    >>> plane_box(170, 0, 190, 1, pad=0.0)
    Box(xmin=170.0, ymin=0.0, xmax=-170.0, ymax=1.0, zmin=None, zmax=None, mmin=None, mmax=None)
    >>> plane_box(0, 0, 360, 1, pad=0.0).xmin
    -180.0
    """
    bottom, top = max(-90.0, south - pad), min(90.0, north + pad)
    if top >= 90.0 or bottom <= -90.0:
        return Box(-180.0, bottom, 180.0, top)
    # In degrees a side at 180 is just that, and rounding must not make such a box cross the antimeridian.
    left = max(west - pad, -180.0) if west >= -180.0 else west - pad
    right = min(east + pad, 180.0) if east <= 180.0 else east + pad
    left, right = _cover(np.array([left]), np.array([right]))
    return Box(left, bottom, right, top)


@dataclass(frozen=True, slots=True)
class _PolarCells:
    """What the cells around a pole cover; latitudes are counted towards that pole."""

    west: _Array
    east: _Array
    margin: _Array
    low_lat: _Array
    high_lat: _Array


def _seen_from_pole(corners: _Array, margin: _Array) -> _PolarCells:
    """Measure quadrilaterals, widened by a margin, in the plane that has the pole as its origin."""
    inside = np.zeros(margin.shape, bool)
    for first, two, three in itertools.combinations(corners, 3):
        turns = np.stack([_cross(first, two), _cross(two, three), _cross(three, first)])
        inside |= (turns >= 0).all(axis=0) | (turns <= 0).all(axis=0)
    nearest = np.linalg.norm(corners, axis=-1).min(axis=0)
    for start, end in itertools.combinations(corners, 2):
        nearest = np.minimum(nearest, _distance(start, end))
    nearest[inside] = 0.0
    farthest = np.linalg.norm(corners, axis=-1).max(axis=0)

    holds_pole = nearest <= margin
    centre = corners.mean(axis=0)
    bearing = np.degrees(np.arctan2(centre[..., 1], centre[..., 0]))
    # Seen from outside, a convex shape spans less than 180 degrees around the bearing of its centre.
    offsets = np.degrees(np.arctan2(_cross(centre, corners), (centre * corners).sum(axis=-1)))
    sweep = np.degrees(np.arcsin(np.minimum(1.0, margin / np.where(holds_pole, 1.0, nearest))))
    return _PolarCells(
        west=np.where(holds_pole, -180.0, bearing + offsets.min(axis=0)),
        east=np.where(holds_pole, 180.0, bearing + offsets.max(axis=0)),
        margin=sweep,
        low_lat=90.0 - np.degrees(np.arcsin(np.minimum(1.0, farthest + margin))),
        high_lat=90.0 - np.degrees(np.arcsin(np.maximum(0.0, nearest - margin))),
    )


def _bend(first_differences: list[_Array]) -> _Array:
    """Per cell: the largest second difference at its corners, summed over the two directions of the grid."""
    total: Any = 0.0
    for axis, first in enumerate(first_differences):
        second = np.abs(np.diff(first, axis=axis))
        if second.ndim == 3:
            second = np.linalg.norm(second, axis=-1)
        # The outermost points have no second difference of their own and take their neighbour's.
        at_points = np.pad(second, [(1, 1) if each == axis else (0, 0) for each in (0, 1)], mode="edge")
        total = total + _corners(at_points).max(axis=0)
    bend: _Array = total
    return bend


def _corners(grid: _Array) -> _Array:
    """The four corners of every cell, around it, along a new first axis."""
    return np.stack([grid[:-1, :-1], grid[:-1, 1:], grid[1:, 1:], grid[1:, :-1]])


def _least_turn(difference: _Array) -> _Array:
    """The same change of longitude as a turn of at most half a circle."""
    turn: _Array = difference - 360.0 * np.round(difference / 360.0)
    return turn


def _cross(left: _Array, other: _Array) -> _Array:
    cross: _Array = left[..., 0] * other[..., 1] - left[..., 1] * other[..., 0]
    return cross


def _distance(start: _Array, end: _Array) -> _Array:
    """The distance of segments from the origin."""
    along = end - start
    length = (along * along).sum(axis=-1)
    part = np.clip(-(start * along).sum(axis=-1) / np.where(length > 0, length, 1.0), 0.0, 1.0)
    distance: _Array = np.linalg.norm(start + part[..., None] * along, axis=-1)
    return distance


def _cover(west: _Array, east: _Array) -> tuple[float, float]:
    """The smallest interval on the circle that holds all of these, whose ends may lie beyond 180."""
    turn = 360.0 * np.floor((west + 180.0) / 360.0)
    west, east = (west - turn).ravel(), (east - turn).ravel()
    if (east - west >= 360.0).any():
        return -180.0, 180.0
    over = east > 180.0
    starts = np.concatenate([west, np.full(over.sum(), -180.0)])
    ends = np.concatenate([np.minimum(east, 180.0), east[over] - 360.0])
    # Thousands of cells come down to a few pieces before they meet Python.
    order = np.argsort(starts)
    starts, reached = starts[order], np.maximum.accumulate(ends[order])
    gap = starts[1:] > reached[:-1]
    pieces = zip(starts[np.r_[True, gap]].tolist(), reached[np.r_[gap, True]].tolist(), strict=True)
    return box.cover(pieces)


def _width(west: float, east: float) -> float:
    return east - west if west <= east else east - west + 360.0


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
