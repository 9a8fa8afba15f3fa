"""Where the boxes of a column lie in WGS84: as they are in degrees, bent outlines where the CRS is a projection.

Every side that is drawn holds what the stored box holds: hulls grow and are never cut. Boxes that cannot be drawn
are counted with the reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.errors import CrsError
from geolake_nb.model.crs import CRS84, Crs
from geolake_nb.model.types import RasterType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from geolake_nb.model.statistics import BoxColumn
    from geolake_nb.model.types import GeographyType, GeometryType

    _Floats = NDArray[np.float64]

__all__ = ["FLAGS", "Outlines", "PlacedBoxes", "float32_outward", "place_boxes", "way_to_wgs84"]

OUT_OF_RANGE = "a side is beyond 180 or 90 degrees"
NO_BOX = "not a valid box (NaN, or ymin > ymax)"
NO_PLACE = "outside the area of its CRS"
FLAGS = (OUT_OF_RANGE, NO_BOX, NO_PLACE)
"""Why a box is flagged; a CRS that cannot be used adds a text of its own."""

_STEPS = (2, 20, 80)
"""Steps a side, tried in turn until the outline is smooth."""
_MANY = 20_000
"""Above so many bent outlines each is drawn with four steps a side: more is not visible, and takes longer to send."""
_STRAIGHT = 0.003
"""An edge that strays less than this part of the extent is drawn as a line."""
_LONG_STEP = 20.0
"""Degrees between two points of an outline that require more points."""
_ROUNDING = 1e-9
"""Degrees that cover the rounding of a conversion."""
_BLOCK = 1 << 21
_LOST = np.array([np.nan, np.nan, np.nan, np.inf])
"""A box that the map counts as flagged, not as missing, and does not draw."""


@dataclass(frozen=True, slots=True, eq=False)
class Outlines:
    """Rings of points in degrees, each of one item; longitudes lie within 180."""

    points: _Floats = field(default_factory=lambda: np.empty((0, 2)))
    offsets: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    """Where each ring starts, and where the last one ends."""
    items: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def of(cls, rings: Iterable[tuple[int, ArrayLike]]) -> Outlines:
        """The outlines of pairs of an item and its points.

        >>> Outlines.of([(3, [(0, 0), (1, 0), (1, 1)])]).offsets.tolist(), len(Outlines.of([]).items)
        ([0, 3], 0)
        """
        pairs = [(item, np.asarray(points, np.float64).reshape(-1, 2)) for item, points in rings]
        return cls(
            np.concatenate([np.empty((0, 2)), *(points for _, points in pairs)]),
            np.cumsum([0, *(len(points) for _, points in pairs)]),
            np.array([item for item, _ in pairs], np.int64),
        )

    def join(self, other: Outlines) -> Outlines:
        """These, and the others after them."""
        return Outlines(
            np.concatenate([self.points, other.points]),
            np.concatenate([self.offsets, self.offsets[-1] + other.offsets[1:]]),
            np.concatenate([self.items, other.items]),
        )

    def __iter__(self) -> Iterator[tuple[int, _Floats]]:
        for item, start, end in zip(self.items.tolist(), self.offsets[:-1], self.offsets[1:], strict=True):
            yield item, self.points[start:end]


@dataclass(frozen=True, slots=True, eq=False)
class PlacedBoxes:
    """Boxes in degrees of WGS84, in the order of the files.

    >>> from geolake_nb.model.statistics import BoxColumn
    >>> placed = place_boxes(BoxColumn.from_sides([170, np.nan], [0, 0], [-170, 0], [1, 0]), CRS84)
    >>> placed.boxes[0].tolist(), placed.no_bounds.tolist(), placed.problems()
    ([170.0, 0.0, -170.0, 1.0], [False, True], {})
    """

    boxes: _Floats
    """Four sides an item; xmin > xmax crosses the antimeridian; NaN where there are no bounds."""
    outlines: Outlines
    """The true shape of boxes that are not rectangles in degrees."""
    flags: NDArray[np.int8]
    """0 for a good box, else 1 + the index of the reason in `reasons`."""
    reasons: tuple[str, ...] = FLAGS
    caution: str | None = None
    """Notes about everything that is drawn."""

    def __len__(self) -> int:
        return len(self.boxes)

    @property
    def no_bounds(self) -> NDArray[np.bool_]:
        """Which files have no bounds."""
        return _all_nan(self.boxes)

    @property
    def drawn(self) -> NDArray[np.bool_]:
        """Which boxes are drawn on the map."""
        with np.errstate(invalid="ignore"):
            upright = self.boxes[:, 1] <= self.boxes[:, 3]
        finite: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(self.boxes), axis=1)
        drawn: NDArray[np.bool_] = finite & upright & (self.flags != 1 + FLAGS.index(NO_BOX))
        return drawn

    def problems(self) -> dict[str, int]:
        """How many boxes are flagged, by reason."""
        counts = np.bincount(self.flags, minlength=len(self.reasons) + 1)[1:]
        return {reason: int(count) for reason, count in zip(self.reasons, counts, strict=True) if count}

    def flag_of(self, item: int) -> str | None:
        """Why an item is flagged, `None` for a good one or one without bounds."""
        flag = int(self.flags[item])
        return self.reasons[flag - 1] if flag else None


def place_boxes(boxes: BoxColumn, where: GeometryType | GeographyType | RasterType | Crs) -> PlacedBoxes:
    """The boxes of a column of that type, or in that CRS, on the map.

    >>> from geolake_nb.model.statistics import BoxColumn
    >>> metres = BoxColumn.from_sides([0.0], [0.0], [111319.49], [111325.14])
    >>> place_boxes(metres, Crs("EPSG:3857")).boxes.round(6).tolist()
    [[0.0, 0.0, 1.0, 1.0]]
    >>> place_boxes(metres, Crs("SRID:0")).problems()
    {'the CRS is unknown, and the coordinates are not degrees': 1}
    """
    # Havasu, Raster bounds: they are in WGS84, whatever the CRS of the rasters.
    crs = CRS84 if isinstance(where, RasterType) else where if isinstance(where, Crs) else where.crs
    sides = np.column_stack([boxes.xmin, boxes.ymin, boxes.xmax, boxes.ymax]).astype(np.float64)
    sides[np.isnan(sides[:, 0])] = np.nan
    missing = _all_nan(sides)
    with np.errstate(invalid="ignore"):
        whole = np.isfinite(sides).all(axis=1) & (sides[:, 1] <= sides[:, 3])
    flags = np.where(missing | whole, 0, 1 + FLAGS.index(NO_BOX)).astype(np.int8)
    if crs.is_unknown:
        return _taken_for_degrees(sides, whole, flags)
    try:
        way = way_to_wgs84(crs)
    except CrsError as problem:
        return _not_drawn(sides, missing, problem.what)
    if way is None:
        return _in_degrees(sides, whole, flags)
    return _projected(sides, whole, flags, way)


def float32_outward(boxes: _Floats) -> _Floats:
    """The boxes with sides that a 32-bit float holds, never smaller than they were: they pack into half the bytes.

    >>> float32_outward(np.array([[0.1, 0.1, 0.3, 0.3]])).tolist()
    [[0.09999999403953552, 0.09999999403953552, 0.30000001192092896, 0.30000001192092896]]
    >>> float32_outward(np.array([[-180.0, -90.0, 180.0, 90.0]])).tolist()
    [[-180.0, -90.0, 180.0, 90.0]]
    """
    with np.errstate(over="ignore"):
        near = boxes.astype(np.float32)
    low, high = np.float32(-np.inf), np.float32(np.inf)
    down = np.where(near > boxes, np.nextafter(near, low), near)
    up = np.where(near < boxes, np.nextafter(near, high), near)
    rounded: _Floats = np.column_stack([down[:, :2], up[:, 2:]]).astype(np.float64)
    # A wrapped box whose sides meet would seem to be a narrow one.
    joined = (boxes[:, 0] > boxes[:, 2]) & (rounded[:, 0] <= rounded[:, 2])
    rounded[joined, 0], rounded[joined, 2] = -180.0, 180.0
    return rounded


def _all_nan(sides: _Floats) -> NDArray[np.bool_]:
    missing: NDArray[np.bool_] = np.logical_and.reduce(np.isnan(sides), axis=1)
    return missing


def _not_drawn(sides: _Floats, missing: NDArray[np.bool_], reason: str) -> PlacedBoxes:
    lost = np.where(missing[:, None], sides, _LOST)
    flags = np.where(missing, 0, len(FLAGS) + 1).astype(np.int8)
    return PlacedBoxes(lost, Outlines(), flags, (*FLAGS, reason))


def _taken_for_degrees(sides: _Floats, whole: NDArray[np.bool_], flags: NDArray[np.int8]) -> PlacedBoxes:
    """Boxes of which no CRS is known, as in Havasu: most tables hold degrees, and others show themselves."""
    placed = _in_degrees(sides, whole, flags)
    beyond = placed.flags == 1 + FLAGS.index(OUT_OF_RANGE)
    flags = np.where(beyond, len(FLAGS) + 1, placed.flags).astype(np.int8)
    boxes = np.where(beyond[:, None], _LOST, placed.boxes)
    reasons = (*FLAGS, "the CRS is unknown, and the coordinates are not degrees")
    return PlacedBoxes(boxes, Outlines(), flags, reasons, "the CRS is unknown: coordinates are drawn as degrees")


def way_to_wgs84(crs: Crs) -> Any:
    """What moves points to longitude and latitude, `None` where they are that already."""
    if crs == CRS84:
        return None
    from pyproj import Transformer
    from pyproj.exceptions import ProjError

    known = crs.to_pyproj()
    if known.is_geographic:
        unit = known.axis_info[0].unit_conversion_factor if known.axis_info else 0.0
        meridian = known.prime_meridian
        # A shift of the datum is far below what a map shows.
        if math.isclose(unit, math.radians(1.0)) and meridian is not None and meridian.longitude == 0.0:
            return None
    try:
        return Transformer.from_crs(known, CRS84.to_pyproj(), always_xy=True)
    except ProjError:
        raise CrsError("PROJ has no transformation from its CRS to WGS84") from None


def _in_degrees(sides: _Floats, whole: NDArray[np.bool_], flags: NDArray[np.int8]) -> PlacedBoxes:
    with np.errstate(invalid="ignore"):
        # A bound may be rounded outward: one that ends at a pole lies beyond it by less than anybody can mean.
        x_beyond = (np.abs(sides[:, ::2]) > 180.0 + _ROUNDING).any(axis=1)
        beyond = x_beyond | (np.abs(sides[:, 1::2]) > 90.0 + _ROUNDING).any(axis=1)
        torn = whole & x_beyond & (sides[:, 0] > sides[:, 2])
    flags = np.where(whole & beyond, 1 + FLAGS.index(OUT_OF_RANGE), flags).astype(np.int8)
    flags[torn] = 1 + FLAGS.index(NO_BOX)
    return PlacedBoxes(sides, Outlines(), flags)


def _projected(sides: _Floats, whole: NDArray[np.bool_], flags: NDArray[np.int8], way: Any) -> PlacedBoxes:
    # A projection has no antimeridian that a box could cross: its x are distances.
    torn = whole & (sides[:, 0] > sides[:, 2])
    flags[torn] = 1 + FLAGS.index(NO_BOX)
    placed = np.where(_all_nan(sides)[:, None], np.nan, _LOST)
    outlines = Outlines()
    left = np.flatnonzero(whole & ~torn)
    for steps in _STEPS:
        rough: list[NDArray[np.int64]] = []
        size = max(1, _BLOCK // (4 * steps))
        stride = steps if steps == _STEPS[0] else steps // 4 if len(left) > _MANY else 1
        for block in (left[start : start + size] for start in range(0, len(left), size)):
            lon, lat, good = _bent(sides[block], way, steps)
            flags[block[~good]] = 1 + FLAGS.index(NO_PLACE)
            here, ring = block[good], _Ring(lon[good], lat[good], steps)
            done = np.ones(len(here), np.bool_) if steps == _STEPS[-1] else ring.is_smooth()
            rough.append(here[~done])
            placed[here[done]] = ring.hulls()[done]
            outlines = outlines.join(ring.outlines(np.flatnonzero(done), here, placed, stride))
        left = np.concatenate([left[:0], *rough])
    return PlacedBoxes(placed, outlines, flags)


def _bent(sides: _Floats, way: Any, steps: int) -> tuple[_Floats, _Floats, NDArray[np.bool_]]:
    """The outlines in degrees, and which of them come back to where they were."""
    along = np.arange(steps) / steps
    u = np.concatenate([along, np.ones(steps), 1.0 - along, np.zeros(steps)])
    v = np.concatenate([np.zeros(steps), along, np.ones(steps), 1.0 - along])
    # Both products and no difference: at 0 and 1 they give the sides to the last bit.
    x = sides[:, [0]] * (1.0 - u) + sides[:, [2]] * u
    y = sides[:, [1]] * (1.0 - v) + sides[:, [3]] * v
    lon, lat = way.transform(x, y, errcheck=False)
    back_x, back_y = way.transform(lon, lat, direction="INVERSE", errcheck=False)
    size = np.maximum(sides[:, [2]] - sides[:, [0]], sides[:, [3]] - sides[:, [1]])
    with np.errstate(invalid="ignore"):
        # Far outside its area a projection gives meaningless numbers, which do not come back.
        near = (np.abs(back_x - x) <= 1e-3 * size + 0.1) & (np.abs(back_y - y) <= 1e-3 * size + 0.1)
        good = (near & np.isfinite(lon) & (np.abs(lat) <= 90.0 + _ROUNDING)).all(axis=1)
    return lon, np.clip(lat, -90.0, 90.0), good


class _Ring:
    """Outlines of many boxes with the same number of points, starting at their lower left corner."""

    def __init__(self, lon: _Floats, lat: _Floats, steps: int) -> None:
        self.steps = steps
        closed = np.concatenate([lon, lon[:, :1]], axis=1)
        self.lon = np.unwrap(closed, period=360.0, axis=1)
        self.lat = np.concatenate([lat, lat[:, :1]], axis=1)
        self.longest = np.abs(np.diff(self.lon, axis=1)).max(axis=1, initial=0.0)
        self.winds = np.abs(self.lon[:, -1] - self.lon[:, 0]) > 180.0
        self.extent = np.maximum(np.ptp(self.lon, axis=1), np.ptp(self.lat, axis=1))

    def is_smooth(self) -> NDArray[np.bool_]:
        """Where more points would show nothing new."""
        strays = np.maximum(*(self._strays(axis) for axis in (self.lon, self.lat)))
        straight = strays <= _STRAIGHT * self.extent + _ROUNDING
        smooth: NDArray[np.bool_] = (~self.winds & (self.longest <= _LONG_STEP) & straight) | self._is_upright()
        return smooth

    def _strays(self, axis: _Floats) -> _Floats:
        """How far an edge strays from the lines that will be drawn: between corners, or between points."""
        sides = [axis[:, n * self.steps : (n + 1) * self.steps + 1] for n in range(4)]
        if self.steps > _STEPS[0]:
            deviation: _Floats = np.max([np.abs(np.diff(side, 2, axis=1)).max(axis=1) / 8.0 for side in sides], axis=0)
            return deviation
        part = np.linspace(0.0, 1.0, self.steps + 1)
        lines = [side[:, [0]] * (1.0 - part) + side[:, [-1]] * part for side in sides]
        off = [np.abs(side - line).max(axis=1) for side, line in zip(sides, lines, strict=True)]
        strays: _Floats = np.max(off, axis=0)
        return strays

    def hulls(self) -> _Floats:
        """Boxes around the shapes, grown by what an edge may bulge between two points."""
        west, east = self._reach(self.lon, -1), self._reach(self.lon, 1)
        south, north = self._reach(self.lat, -1), self._reach(self.lat, 1)
        # A shape around a pole has every longitude; one that passes it closely is taken for such a shape.
        polar = self.winds | (self.longest > 120.0)
        upper = np.abs(north) >= np.abs(south)
        north, south = np.where(polar & upper, 90.0, north), np.where(polar & ~upper, -90.0, south)
        around = polar | (east - west >= 360.0)
        turn = 360.0 * np.floor((west + 180.0) / 360.0)
        west, east = west - turn, east - turn
        east = np.where(east > 180.0, east - 360.0, east)
        west, east = np.where(around, -180.0, west), np.where(around, 180.0, east)
        return np.column_stack([west, np.maximum(south, -90.0), east, np.minimum(north, 90.0)])

    def _reach(self, axis: _Floats, sign: int) -> _Floats:
        points = axis[:, :-1]
        if not len(points):
            return points[:, 0]
        index = (points * sign).argmax(axis=1)[:, None]
        count = points.shape[1]
        here, before, after = (np.take_along_axis(points, (index + step) % count, axis=1)[:, 0] for step in (0, -1, 1))
        # Sides that are straight in degrees end at their corner; a bent one has its summit between two points.
        bulge = np.where(self._is_upright(), 0.0, np.minimum(np.abs(here - before), np.abs(here - after)) / 2.0)
        bulge = np.where(np.isfinite(bulge), np.maximum(bulge, self._curve(axis)), 0.0)
        reach: _Floats = here + sign * (bulge + _ROUNDING)
        return np.where(self._is_upright(), here, reach)

    def _curve(self, axis: _Floats) -> _Floats:
        sides = [axis[:, n * self.steps : (n + 1) * self.steps + 1] for n in range(4)]
        curve: _Floats = np.max([np.abs(np.diff(side, 2, axis=1)).max(axis=1) for side in sides], axis=0) / 4.0
        return np.where(self.longest > 120.0, 0.0, curve)

    def _is_upright(self) -> NDArray[np.bool_]:
        """Where the shape is a rectangle in degrees, as in Mercator's projection."""
        n = self.steps
        flat = np.ptp(self.lat[:, : n + 1], axis=1) + np.ptp(self.lat[:, 2 * n : 3 * n + 1], axis=1)
        upright = np.ptp(self.lon[:, n : 2 * n + 1], axis=1) + np.ptp(self.lon[:, 3 * n : 4 * n + 1], axis=1)
        straight: NDArray[np.bool_] = (flat + upright <= _ROUNDING) & ~self.winds
        return straight

    def outlines(self, which: NDArray[np.int64], items: NDArray[np.int64], placed: _Floats, stride: int) -> Outlines:
        """The rings of some of them, with every so many points; a rectangle needs none."""
        polar = self.winds & (self.longest <= 120.0)
        which = which[(~self._is_upright() & (self.longest <= 120.0))[which]]
        plain = which[~polar[which]]
        corners = np.arange(0, 4 * self.steps, stride)
        lon, lat = self.lon[plain][:, corners], self.lat[plain][:, corners]
        lon = lon - 360.0 * np.floor((lon + 180.0) / 360.0)
        # 180 and -180 are one meridian: a point on it lies on the side of its box.
        east = placed[items[plain]][:, [2]]
        lon = np.where((lon == -180.0) & (east == 180.0), 180.0, lon)
        points = np.stack([lon, lat], axis=2).reshape(-1, 2)
        drawn = Outlines(points, np.arange(len(plain) + 1) * len(corners), items[plain])
        around = which[polar[which]]
        return drawn.join(Outlines.of((int(items[index]), self._over_pole(index)) for index in around.tolist()))

    def _over_pole(self, index: int) -> _Floats:
        """A ring around a pole from -180 to 180, closed along the pole."""
        lon, lat = self.lon[index, :-1], self.lat[index, :-1]
        if self.lon[index, -1] < self.lon[index, 0]:
            lon, lat = lon[::-1], lat[::-1]
        lon = lon - 360.0 * np.floor((lon + 180.0) / 360.0)
        first = int(np.argmin(lon))
        lon, lat = np.roll(lon, -first), np.roll(lat, -first)
        edge = lat[0] + (lat[-1] - lat[0]) * (lon[0] + 180.0) / max(lon[0] + 360.0 - lon[-1], 1e-9)
        pole = 90.0 if abs(lat.max()) >= abs(lat.min()) else -90.0
        lon = np.concatenate([[-180.0], lon, [180.0, 180.0, -180.0]])
        return np.column_stack([lon, np.concatenate([[edge], lat, [edge, pole, pole]])])
