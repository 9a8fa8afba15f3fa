"""The bounds of a query's geometry in the CRS of a column's boxes, and which boxes may contain a match.

A filter that needs a common point checks whether the file's box intersects the query's box. One that needs
the row to contain the query checks whether the file's box contains every vertex of the query: they belong to
the query whichever way its edges run, while a box around it may be too large for the check.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.errors import CrsError
from geolake_nb.geo.box_transform import BoxMover, CannotMoveError
from geolake_nb.model.box import Box, union_all
from geolake_nb.model.crs import CRS84
from geolake_nb.model.types import GeographyType, RasterType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geolake_nb.expressions.binding import BoundSpatial, GeoType
    from geolake_nb.model.statistics import BoxColumn

__all__ = ["QueryWindow", "WhyNoWindow", "query_window"]

# Specs, Foreign boxes: those in other writers' footers can miss vertices by some 1e-14 degrees.
_FOREIGN = 1e-12
_MAX_PARTS = 256


@dataclass(frozen=True, slots=True)
class WhyNoWindow:
    """Why the bounds of the query are unknown in the CRS of the column."""

    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class QueryWindow:
    """A box around the query, and the range of its vertices, both with some slack.

    On a circle -180 and 180 degrees are one meridian, and a pole has every longitude.
    """

    around: Box
    vertex_x: NDArray[np.float64]
    """The x of the vertices, sorted; on a circle without those at 180 degrees and at a pole."""
    vertex_y: tuple[float, float]
    slack: tuple[float, float]
    circular: bool
    on_antimeridian: bool = False
    """Whether a vertex lies at 180 degrees, on a circle."""

    def meets(self, files: BoxColumn) -> NDArray[np.bool_]:
        """Which boxes share a point with the box around the query."""
        west, east = self.around.xmin, self.around.xmax
        wraps = files.xmin > files.xmax
        below, above = files.xmin <= east, files.xmax >= west
        in_x = wraps | below | above if west > east else np.where(wraps, below | above, below & above)
        in_y = (files.ymin <= self.around.ymax) & (files.ymax >= self.around.ymin)
        if self.circular:
            in_x |= _odd_longitudes(files)
            if west > east or west <= -180.0 or east >= 180.0:
                in_x |= _touches_antimeridian(files, self.slack[0])
            if self.around.ymax >= 90.0:
                in_x |= files.ymax >= 90.0 - self.slack[1]
            if self.around.ymin <= -90.0:
                in_x |= files.ymin <= -90.0 + self.slack[1]
        return in_x & in_y

    def may_be_contained_by(self, files: BoxColumn) -> NDArray[np.bool_]:
        """Which boxes contain every vertex of the query."""
        slack_x, slack_y = self.slack
        in_x = np.ones(len(files), np.bool_)
        if len(self.vertex_x):
            west, east = files.xmin - slack_x, files.xmax + slack_x
            in_gap = np.searchsorted(self.vertex_x, west, "left") - np.searchsorted(self.vertex_x, east, "right")
            plain = (west <= self.vertex_x[0]) & (self.vertex_x[-1] <= east)
            in_x = np.where(files.xmin > files.xmax, in_gap <= 0, plain)
        if self.on_antimeridian:
            in_x &= _touches_antimeridian(files, slack_x)
        if self.circular:
            in_x |= _odd_longitudes(files)
        return in_x & (files.ymin - slack_y <= self.vertex_y[0]) & (self.vertex_y[1] <= files.ymax + slack_y)


def _odd_longitudes(files: BoxColumn) -> NDArray[np.bool_]:
    """Boxes with longitudes beyond 180 degrees, whose meaning is ambiguous."""
    return (np.abs(files.xmin) > 180.0) | (np.abs(files.xmax) > 180.0)


def _touches_antimeridian(files: BoxColumn, slack: float) -> NDArray[np.bool_]:
    return (files.xmin > files.xmax) | (files.xmin <= -180.0 + slack) | (files.xmax >= 180.0 - slack)


@functools.lru_cache(maxsize=16)
def query_window(predicate: BoundSpatial) -> QueryWindow | WhyNoWindow | None:
    """The window of the predicate's geometry, `None` for an empty one.

    >>> from geolake_nb.expressions.binding import BoundSpatial
    >>> from geolake_nb.expressions.predicate import SpatialOp, st_within
    >>> from geolake_nb.model.crs import Crs
    >>> from geolake_nb.model.types import GeometryType
    >>> line = st_within("geom", "LINESTRING (0 1, 2 3)").geometry
    >>> query_window(BoundSpatial(SpatialOp.WITHIN, ("geom",), GeometryType(), line, CRS84)).vertex_y
    (1.0, 3.0)
    >>> plane = GeometryType(Crs("SRID:0"))
    >>> print(query_window(BoundSpatial(SpatialOp.WITHIN, ("geom",), plane, line, CRS84)).reason)
    the query is in OGC:CRS84 and the column in SRID:0: the CRS is unknown
    """
    import shapely

    geometry = shapely.force_2d(shapely.from_wkb(predicate.geometry))
    if geometry.is_empty:
        return None
    target = CRS84 if isinstance(predicate.type, RasterType) else predicate.type.crs
    circular = not _is_planar(predicate.type)
    boxes = [Box(*sides) for sides in _part_bounds(geometry)]
    margin = (0.0, 0.0)
    if not predicate.crs.same_as(target):
        where = f"the query is in {predicate.crs} and the column in {target}"
        try:
            source, destination = predicate.crs.to_pyproj(), target.to_pyproj()
            mover = BoxMover.between(source, destination)
            moved = [mover.move_box(box) for box in boxes]
            geometry = shapely.transform(geometry, mover.move_points)
        except CrsError as problem:
            return WhyNoWindow(f"{where}: {problem.what}")
        except CannotMoveError as problem:
            return WhyNoWindow(f"{where}: {problem}")
        boxes = [window.box for window in moved]
        margin = max(window.margin[0] for window in moved), max(window.margin[1] for window in moved)
        # A query that was moved may come to lie on either side of the antimeridian.
        circular = circular or bool(destination.is_geographic)
    if isinstance(predicate.type, GeographyType):
        curved = _geodesic_box(geometry, predicate.type)
        if isinstance(curved, WhyNoWindow):
            return curved
        boxes += curved
    return _window(geometry, _cover(boxes, circular=circular), margin, circular=circular)


def _is_planar(type_: GeoType) -> bool:
    return not isinstance(type_, (GeographyType, RasterType))


def _part_bounds(geometry: Any) -> list[list[float]]:
    """The bounds of the parts, so that a query in two parts at the antimeridian has a small cover."""
    import shapely

    parts = np.array([geometry])
    while (shapely.get_type_id(parts) > 3).any():  # collections, which may hold collections
        parts = shapely.get_parts(parts)
    bounds = shapely.bounds(parts[~shapely.is_empty(parts)])
    if len(bounds) > _MAX_PARTS:
        bounds = shapely.bounds(geometry)[None, :]
    return bounds.tolist()  # type: ignore[no-any-return]


def _cover(boxes: list[Box], *, circular: bool) -> Box:
    """The smallest box around the boxes, which wraps where that is smaller and x can be a longitude."""
    plain, around = union_all(boxes), union_all(boxes, circular=True)
    if plain is None or around is None:
        raise ValueError("a non-empty query has a box")
    if any(abs(side) > 180.0 for box in boxes for side in (box.xmin, box.xmax)):
        # On a circle these longitudes are ambiguous; on a plane they are not longitudes.
        return replace(plain, xmin=-np.inf, xmax=np.inf) if circular else plain
    return around


def _window(geometry: Any, around: Box, margin: tuple[float, float], *, circular: bool) -> QueryWindow:
    import shapely

    points = shapely.get_coordinates(geometry)
    slack = (
        margin[0] + _FOREIGN * max(1.0, float(np.abs(points[:, 0]).max())),
        margin[1] + _FOREIGN * max(1.0, float(np.abs(points[:, 1]).max())),
    )
    vertex_y = float(points[:, 1].min()), float(points[:, 1].max())
    xs, on_antimeridian = points[:, 0], False
    if circular:
        xs = xs[np.abs(points[:, 1]) < 90.0 - slack[1]]
        at_180 = np.abs(xs) >= 180.0 - slack[0]
        on_antimeridian = bool(at_180.any())
        xs = xs[~at_180]
        if (np.abs(points[:, 0]) > 180.0 + slack[0]).any():
            xs, on_antimeridian = xs[:0], False
    return QueryWindow(_grown(around, slack), np.unique(xs), vertex_y, slack, circular, on_antimeridian)


def _grown(box: Box, slack: tuple[float, float]) -> Box:
    west, east = box.xmin - slack[0], box.xmax + slack[0]
    if box.wraps and west <= east:
        west, east = -np.inf, np.inf
    return Box(west, box.ymin - slack[1], east, box.ymax + slack[1])


def _geodesic_box(geometry: Any, type_: GeographyType) -> list[Box] | WhyNoWindow:
    """The box of the query with edges as the column's; nothing for points, which have no edges."""
    import warnings

    import pyarrow as pa
    import shapely

    from geolake_nb.geo.bounds import BadValueWarning, bounds

    if shapely.get_dimensions(geometry) == 0:
        return []
    wkb = shapely.to_wkb(geometry, flavor="iso", byte_order=1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BadValueWarning)
            box = bounds(pa.array([wkb]), type=type_).box
    except CrsError as problem:
        return WhyNoWindow(str(problem))
    if box is None:
        return WhyNoWindow("the query has no reliable bounds as a geography")
    return [box]
