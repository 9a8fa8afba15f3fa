"""Tests geometries, geographies and rasters against the shape of a filter, row by row.

Most rows are settled by their own box, which the compiled walk over WKB computes; only the others become shapely
geometries. A result is that of shapely for planar edges, and that of S2 for great circles.
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import CrsError, MissingDependencyError, PredicateError
from geolake_nb.expressions.query_window import WhyNoWindow, query_window
from geolake_nb.geo.box_transform import BoxMover, CannotMoveError
from geolake_nb.geo.wkb import may_nest_deeply
from geolake_nb.model.crs import CRS84
from geolake_nb.model.operators import SpatialOp
from geolake_nb.model.schema import join_path
from geolake_nb.model.statistics import BoxColumn
from geolake_nb.model.types import EdgeAlgorithm, GeographyType, RasterType
from geolake_nb.text.messages import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from geolake_nb.expressions.binding import BoundSpatial
    from geolake_nb.model.crs import Crs

__all__ = ["SpatialFilter", "query_geometry", "read_shapes"]

_HOLDS = (SpatialOp.CONTAINS, SpatialOp.COVERS, SpatialOp.EQUALS)
_INSIDE = (SpatialOp.WITHIN, SpatialOp.COVERED_BY)
_POINT_BYTES = (21, 29, 37)
"""The sizes of ISO WKB of points; no other geometry with a coordinate has one of them."""
_PIECES = 64
"""Into how many pieces at least the longer side of a query is cut before it is transformed."""

_HALF_CIRCLE = 180.0
_POLE = 90.0

_TrueFalse = tuple["NDArray[np.bool_]", "NDArray[np.bool_]"]


class SpatialFilter:
    """A spatial predicate that is tested on batches of a column."""

    def __init__(self, predicate: BoundSpatial, *, exact: bool = True) -> None:
        """With `exact`, a value that cannot be decided is an error; otherwise it may be true and may be false."""
        self._predicate = predicate
        self._exact = exact
        self._count = threading.Lock()
        self.unreadable = 0
        """How many values could not be read."""
        self._test: Callable[[pa.Array], _TrueFalse]
        if isinstance(predicate.type, GeographyType):
            self._test = _geography_test(predicate, self._undecided)
        else:
            self._test = _PlanarTest(predicate, self._undecided).test

    def test(self, values: pa.Array) -> _TrueFalse:
        """Which rows are true and which are false; neither for null and for what cannot be read."""
        if isinstance(self._predicate.type, RasterType):
            values, unknown = _footprints(values)
            true, false = self._test(values)
            self._undecided(unknown, "the outline of a raster is not known in WGS 84")
            return true | unknown, false | unknown
        true, false = self._test(values)
        valid = np.asarray(values.is_valid())
        with self._count:
            self.unreadable += int(np.count_nonzero(valid & ~true & ~false))
        return true, false

    def _undecided(self, rows: NDArray[np.bool_], why: str) -> None:
        if self._exact and rows.any():
            raise PredicateError(
                f"{plural(int(rows.sum()), 'row')} cannot be tested: {why}",
                where=join_path(self._predicate.column),
                remedy="pass exact=False for the rows that may match",
            )


def query_geometry(predicate: BoundSpatial) -> Any:
    """The geometry of a filter in the CRS of its column, in two dimensions.

    Long edges are cut into pieces before they are transformed, since a straight line of one CRS bends in another.
    """
    import shapely

    geometry = _own_geometry(predicate)
    target = _target(predicate)
    if geometry.is_empty or predicate.crs.same_as(target):
        return geometry
    xmin, ymin, xmax, ymax = geometry.bounds
    side = max(xmax - xmin, ymax - ymin)
    if side > 0:
        geometry = shapely.segmentize(geometry, side / _PIECES)
    try:
        mover = BoxMover.between(predicate.crs.to_pyproj(), target.to_pyproj())
        return shapely.transform(geometry, mover.move_points)
    except (CrsError, CannotMoveError) as problem:
        raise _cannot_move(predicate, problem) from None


def _own_geometry(predicate: BoundSpatial) -> Any:
    """The geometry of a filter as it is given, in two dimensions."""
    import shapely

    return shapely.force_2d(shapely.from_wkb(predicate.geometry))


def _target(predicate: BoundSpatial) -> Crs:
    return CRS84 if isinstance(predicate.type, RasterType) else predicate.type.crs


def _cannot_move(predicate: BoundSpatial, problem: CrsError | CannotMoveError) -> PredicateError:
    reason = problem.what if isinstance(problem, CrsError) else str(problem)
    return PredicateError(
        f"the query is in {predicate.crs}, and cannot be transformed to {_target(predicate)}: {reason}",
        where=join_path(predicate.column),
        remedy="give the geometry in the CRS of the column",
    )


class _RowMover:
    """Moves rows to the CRS of a query that lies, in part, where the projection of the column gives no true numbers."""

    def __init__(self, predicate: BoundSpatial) -> None:
        try:
            source, target = _target(predicate).to_pyproj(), predicate.crs.to_pyproj()
            self._transformer = BoxMover.between(source, target).transformer
        except (CrsError, CannotMoveError) as problem:
            raise _cannot_move(predicate, problem) from None
        self._turn = 360.0 if target.is_geographic else None

    def move(self, values: pa.Array) -> tuple[pa.Array, NDArray[np.bool_], NDArray[np.bool_]]:
        """The moved values, which of them are curves, and which run over the antimeridian.

        A place that the CRS of the query does not have is in no query: its geometry becomes empty.
        """
        import shapely

        shapes, curved = read_shapes(values.to_pylist())
        shapes = shapely.force_2d(shapes)
        xmin, ymin, xmax, ymax = shapely.bounds(shapes).T
        sides = np.fmax(xmax - xmin, ymax - ymin)
        bent = np.isfinite(sides) & (sides > 0)
        shapes[bent] = shapely.segmentize(shapes[bent], sides[bent] / _PIECES)
        moved = shapely.transform(shapes, self._points)
        with np.errstate(invalid="ignore"):
            xmin, _, xmax, _ = shapely.bounds(moved).T
            wraps = bent & (xmax - xmin > self._turn / 2) if self._turn else np.zeros(len(moved), np.bool_)
        lost = ~shapely.is_missing(moved) & ~np.isfinite(shapely.bounds(moved)).all(axis=1)
        moved[lost] = shapely.Point()
        return pa.array(shapely.to_wkb(moved), pa.binary()), curved, wraps

    def _points(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.column_stack(self._transformer.transform(points[:, 0], points[:, 1]))


class _PlanarTest:
    """Straight edges in the coordinates of the column."""

    def __init__(self, predicate: BoundSpatial, undecided: Callable[[NDArray[np.bool_], str], None]) -> None:
        import shapely

        self._op = predicate.op
        self._undecided = undecided
        self._mover = _RowMover(predicate) if isinstance(query_window(predicate), WhyNoWindow) else None
        query = query_geometry(predicate) if self._mover is None else _own_geometry(predicate)
        self._wkb = shapely.to_wkb(query)
        self._of_thread = threading.local()
        self._relation: Callable[[Any, Any], Any] = getattr(shapely, predicate.op.converse.name.lower())
        self._empty = bool(query.is_empty)
        self._bounds = tuple(map(float, query.bounds))
        self._rectangles = _rectangles(query)

    def _prepared(self) -> Any:
        """The query, prepared for this thread: two that use one prepared geometry of GEOS crash."""
        import shapely

        query = getattr(self._of_thread, "query", None)
        if query is None:
            query = self._of_thread.query = shapely.from_wkb(self._wkb)
            shapely.prepare(query)
        return query

    def test(self, values: pa.Array) -> _TrueFalse:
        if self._mover is None:
            return self._test(values)
        moved, curved, wraps = self._mover.move(values)
        true, false = self._test(moved)
        self._undecided(curved, "GEOS has no curves")
        self._undecided(wraps, "they run over 180 degrees, where the query cannot follow them")
        return true | curved | wraps, false | curved | wraps

    def _test(self, values: pa.Array) -> _TrueFalse:
        from geolake_nb.geo.wkb_scan import Scan

        boxes, known = Scan().add_with_boxes(values)
        valid = np.asarray(values.is_valid())
        true = np.zeros(len(values), np.bool_)
        false = known & self._outside(boxes)
        if not self._empty:
            true = known & self._settled(boxes) & ~false
        left = np.flatnonzero(valid & ~true & ~false)
        if len(left):
            self._look(values, left, (boxes[:, left], known[left]), (true, false))
        return true, false

    def _outside(self, boxes: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which boxes show that the row does not match."""
        if self._empty:
            return np.full(boxes.shape[1], self._op is not SpatialOp.EQUALS)
        west, south, east, north = self._bounds
        xmin, ymin, xmax, ymax = boxes
        if self._op in _HOLDS:
            fits = (xmin <= west) & (xmax >= east) & (ymin <= south) & (ymax >= north)
        elif self._op in _INSIDE:
            fits = (xmin >= west) & (xmax <= east) & (ymin >= south) & (ymax <= north)
        else:
            fits = (xmin <= east) & (xmax >= west) & (ymin <= north) & (ymax >= south)
        return np.asarray(~fits, np.bool_)

    def _settled(self, boxes: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which boxes show that the row matches: those inside of a rectangle of the query."""
        inside = np.zeros(boxes.shape[1], np.bool_)
        if self._op not in (SpatialOp.INTERSECTS, *_INSIDE):
            return inside
        xmin, ymin, xmax, ymax = boxes
        for west, south, east, north in self._rectangles:
            if self._op is SpatialOp.WITHIN:  # a row in the border alone is not within
                inside |= (xmin > west) & (xmax < east) & (ymin > south) & (ymax < north)
            else:
                inside |= (xmin >= west) & (xmax <= east) & (ymin >= south) & (ymax <= north)
        return inside

    def _look(
        self,
        values: pa.Array,
        left: NDArray[np.int64],
        bounded: tuple[NDArray[np.float64], NDArray[np.bool_]],
        answer: _TrueFalse,
    ) -> None:
        """Decide the rows that are left, points by their coordinates and others as shapely geometries."""
        import shapely

        boxes, known = bounded
        true, false = answer
        if self._op in (SpatialOp.INTERSECTS, *_INSIDE):
            sizes = pc.binary_length(values.take(pa.array(left))).to_numpy()
            points = known & np.isin(sizes, _POINT_BYTES)
            if points.any():
                within = self._op is SpatialOp.WITHIN
                relation = shapely.contains_xy if within else shapely.intersects_xy
                hit = relation(self._prepared(), boxes[0][points], boxes[1][points])
                true[left[points]], false[left[points]] = hit, ~hit
                left = left[~points]
        if not len(left):
            return
        shapes, curved = read_shapes(values.take(pa.array(left)).to_pylist())
        there = ~shapely.is_missing(shapes)
        rows, (hit, failed) = left[there], self._related(shapes[there])
        self._undecided(failed, "GEOS has no answer for these geometries")
        self._undecided(curved, "GEOS has no curves")
        true[rows], false[rows] = hit | failed, ~hit | failed
        true[left[curved]] = false[left[curved]] = True

    def _related(self, shapes: NDArray[np.object_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which shapes match, and for which GEOS has no answer."""
        import shapely

        query = self._prepared()
        hit, failed = np.zeros(len(shapes), np.bool_), np.zeros(len(shapes), np.bool_)
        with np.errstate(invalid="ignore"):  # of a vertex that is not a number
            try:
                return np.asarray(self._relation(query, shapes), np.bool_), failed
            except shapely.GEOSException:
                pass
            for index, shape in enumerate(shapes):
                try:
                    hit[index] = self._relation(query, shape)
                except shapely.GEOSException:
                    failed[index] = True
        return hit, failed


def read_shapes(values: Sequence[bytes | None]) -> tuple[NDArray[np.object_], NDArray[np.bool_]]:
    """The geometries of WKB, `None` for what cannot be read, and which values are curves, which GEOS does not read."""
    import shapely

    wkb = [None if value is None or may_nest_deeply(value) else value for value in values]
    curved = np.zeros(len(wkb), np.bool_)
    with np.errstate(invalid="ignore"):
        try:
            return np.asarray(shapely.from_wkb(wkb, on_invalid="ignore"), object), curved
        except NotImplementedError:
            shapes = np.full(len(wkb), None, object)
        for index, value in enumerate(wkb):
            try:
                shapes[index] = shapely.from_wkb(value, on_invalid="ignore")
            except NotImplementedError:
                curved[index] = True
    return shapes, curved


def _rectangles(query: Any) -> Sequence[tuple[float, float, float, float]]:
    """The sides of the query's parts if all of them are rectangles along the axes."""
    import shapely

    parts = shapely.get_parts(np.array([query]))
    if not len(parts) or any(part.geom_type != "Polygon" or part.is_empty for part in parts):
        return ()
    boxes = shapely.box(*shapely.bounds(parts).T)
    same = shapely.equals(parts, boxes) & (shapely.area(boxes) > 0)
    return (
        [(west, south, east, north) for west, south, east, north in shapely.bounds(parts).tolist()]
        if same.all()
        else ()
    )


def _window(rectangles: Sequence[tuple[float, float, float, float]]) -> tuple[float, float, float, float] | None:
    """One window in degrees, to the east of 180 where it runs over it, as which two boxes are given."""
    if len(rectangles) == 1:
        return rectangles[0]
    if len(rectangles) == 2:
        right, left = sorted(rectangles)  # of the map
        if left[2] == _HALF_CIRCLE and right[0] == -_HALF_CIRCLE and left[1::2] == right[1::2]:
            return left[0], left[1], right[2] + 2 * _HALF_CIRCLE, left[3]
    return None


def _lune(west: float, south: float, east: float, north: float, *, cut: bool) -> Any:
    """A window as a polygon; with `cut`, vertices at each degree keep its edges near the parallels."""
    import shapely

    steps = np.linspace(west, east, 2 + int(east - west) if cut else 2)
    ring: list[tuple[float, float]] = []
    for latitude, longitudes, side in ((south, steps, east), (north, steps[::-1], west)):
        # At a pole all longitudes are one point.
        along = [0.0] if abs(latitude) == _POLE else longitudes.tolist()
        ring += [(_wrapped(x), latitude) for x in along]
        ring.append((_wrapped(side), (south + north) / 2))
    return shapely.Polygon(ring)


def _wrapped(longitude: float) -> float:
    """The same longitude above -180 degrees, which S2 tells from 180 by the last bit: a point might lie between."""
    if longitude <= -_HALF_CIRCLE:
        return longitude + 2 * _HALF_CIRCLE
    return longitude - 2 * _HALF_CIRCLE if longitude > _HALF_CIRCLE else longitude


def _geography_test(
    predicate: BoundSpatial, undecided: Callable[[NDArray[np.bool_], str], None]
) -> Callable[[pa.Array], _TrueFalse]:
    """Edges over the Earth: rows whose own bounds are away from the query do not match, S2 decides the others."""
    from geolake_nb.geo.bounds import row_boxes

    type_ = predicate.type
    assert isinstance(type_, GeographyType)
    window = query_window(predicate)
    relation = None
    if type_.algorithm is EdgeAlgorithm.SPHERICAL:
        relation = _SphericalRelation(predicate)

    def test(values: pa.Array) -> _TrueFalse:
        valid = np.asarray(values.is_valid())
        false = np.zeros(len(values), np.bool_)
        if window is None:
            false = valid & (predicate.op is not SpatialOp.EQUALS)
        elif not isinstance(window, WhyNoWindow):
            boxes = row_boxes(values, type=type_).storage
            known = np.asarray(boxes.is_valid())
            sides = [np.where(known, np.asarray(boxes.field(index)), np.nan) for index in range(4)]
            false = known & ~window.meets(BoxColumn.from_sides(*sides))
        true = np.zeros(len(values), np.bool_)
        left = np.flatnonzero(valid & ~false)
        if not len(left):
            return true, false
        if relation is None:
            rows = np.zeros(len(values), np.bool_)
            rows[left] = True
            undecided(rows, f"no engine here follows {type_.algorithm.value} edges")
            true[left] = false[left] = True
            return true, false
        hit, readable = relation(values.take(pa.array(left)).to_pylist())
        true[left], false[left] = hit & readable, ~hit & readable
        return true, false

    return test


class _SphericalRelation:
    """A relation on the sphere, by S2."""

    def __init__(self, predicate: BoundSpatial) -> None:
        try:
            import spherely
        except ImportError:
            raise MissingDependencyError(
                "filters on geographies with spherical edges need spherely",
                remedy="pip install 'geolake-nb[geography]', or pass exact=False for the rows that may match",
            ) from None
        import shapely

        self._s2 = spherely
        name = predicate.op.name.lower()
        relation = getattr(spherely, name, None)
        if relation is None:
            raise PredicateError(
                f"{predicate.op.sql} is not defined on the sphere",
                where=join_path(predicate.column),
                remedy="use ST_Intersects, ST_Within, ST_Contains, ST_Covers, ST_CoveredBy, ST_Touches or ST_Equals",
            )
        self._closed = predicate.op is SpatialOp.INTERSECTS
        self._relation: Callable[[Any, Any], Any] = relation
        parts = self._parts(predicate)
        self._queries = [spherely.from_wkb(shapely.to_wkb(part)) for part in parts]
        for query in self._queries:
            spherely.prepare(query)

    @staticmethod
    def _parts(predicate: BoundSpatial) -> Sequence[Any]:
        """The query as polygons on the sphere: one of them has to be met."""
        import shapely

        query = query_geometry(predicate)
        window = _window(_rectangles(query))
        # The ring of a box runs counterclockwise; clockwise it is a polygon over 180 degrees with a box like that.
        if window is None or not all(part.exterior.is_ccw for part in shapely.get_parts(query)):
            return [query]
        west, south, east, north = window
        if east - west < _HALF_CIRCLE:
            return [_lune(west, south, east, north, cut=False)] if east > _HALF_CIRCLE else [query]
        if predicate.op is not SpatialOp.INTERSECTS:
            raise PredicateError(
                f"{predicate.op.sql} of a window of 180 degrees or more is not defined on the sphere",
                where=join_path(predicate.column),
                remedy="use ST_Intersects, or a window that is less wide",
            )
        # No great circle follows a parallel so far: it would take the short way, around the other side.
        sides = np.linspace(west, east, 9).tolist()
        return [_lune(left, south, right, north, cut=True) for left, right in itertools.pairwise(sides)]

    def __call__(self, values: Sequence[bytes]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which values match, and which could be read."""
        shapes, readable = self._read(values)
        hit = np.zeros(len(values), np.bool_)
        if readable.any():
            some = np.zeros(len(shapes), np.bool_)
            for query in self._queries:
                some |= self._relation(shapes, query)
                if self._closed:  # of a polygon S2 counts some points of the border, and SQL all of them
                    some |= self._s2.touches(shapes, query)
            hit[readable] = some
        return hit, readable

    def _read(self, values: Sequence[bytes]) -> tuple[NDArray[np.object_], NDArray[np.bool_]]:
        import shapely

        # GEOS reads more than S2's reader, such as EWKB; S2 has neither Z nor M, and neither of them has curves.
        plain, _ = read_shapes(values)
        readable = ~shapely.is_missing(plain)
        there = shapely.force_2d(plain[readable])
        points = (shapely.get_type_id(there) == 0) & (np.abs(shapely.bounds(there)[:, 1]) == _POLE)
        there[points] = shapely.points(0.0, shapely.get_y(there[points]))  # a pole has every longitude
        flat = shapely.to_wkb(there)
        try:
            return np.asarray(self._s2.from_wkb(flat), object), readable
        except RuntimeError:
            pass
        shapes: list[Any] = []
        for index, value in zip(np.flatnonzero(readable).tolist(), flat.tolist(), strict=True):
            try:
                shapes.append(self._s2.from_wkb(value))
            except RuntimeError:  # S2: crossing edges, or a latitude above 90 degrees
                readable[index] = False
        return np.asarray(shapes, object), readable


def _footprints(values: pa.Array) -> tuple[pa.Array, NDArray[np.bool_]]:
    """The outlines of rasters in WGS 84 as WKB, and the rasters without a known one."""
    import shapely

    from geolake_nb.raster_data.arrow import metadata_from_arrow
    from geolake_nb.raster_data.footprint import wgs84_footprint

    outlines = [None if raster is None else wgs84_footprint(raster).shape for raster in metadata_from_arrow(values)]
    wkb = [None if outline is None else shapely.to_wkb(outline) for outline in outlines]
    unknown = np.array([outline is None for outline in outlines], np.bool_) & np.asarray(values.is_valid())
    return pa.array(wkb, pa.binary()), unknown
