"""Where edges of geographies run: dense points, extreme latitudes and the shortest cover of longitudes.

Spherical numbers are made with `numpy.longdouble` (64 bits of mantissa on x86), so that what they say of a
double is beyond its last bit. Geodesics of the ellipsoid come from `pyproj.Geod` (Karney).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyproj

if TYPE_CHECKING:
    from tests.oracle.wkb_write import Shape

__all__ = [
    "Needs",
    "arc_points",
    "cover_width",
    "edges_of",
    "geodesic_latitudes",
    "geodesic_points",
    "great_circle_latitudes",
    "in_x",
    "needs_of",
    "step",
    "vertices_of",
    "width_of",
]

Wide = np.longdouble
_PI = Wide("3.14159265358979323846264338327950288")
_RADIANS = _PI / Wide(180)
_DEGREES = Wide(180) / _PI


def _radians(degrees) -> np.ndarray:
    return np.asarray(degrees, dtype=Wide) * _RADIANS


def sin_cos(degrees) -> tuple[np.ndarray, np.ndarray]:
    """Sine and cosine of degrees, exact at the multiples of 90."""
    degrees = np.asarray(degrees, dtype=Wide)
    quarter = np.rint(degrees / 90)
    rest = (degrees - quarter * 90) * _RADIANS  # exact: the quarter is a small whole number
    sine, cosine = np.sin(rest), np.cos(rest)
    turn = np.asarray(quarter, dtype=np.int64) % 4
    return (
        np.choose(turn, [sine, cosine, -sine, -cosine]),
        np.choose(turn, [cosine, -sine, -cosine, sine]),
    )


def _course(lon1, lat1, lon2, lat2):
    """North and east parts of the course from 1 to 2, true to the last bits for short edges too."""
    half_sine, _ = sin_cos((np.asarray(lon2, Wide) - np.asarray(lon1, Wide)) / 2)
    east_sine, _ = sin_cos(np.asarray(lon2, Wide) - np.asarray(lon1, Wide))
    rise_sine, _ = sin_cos(np.asarray(lat2, Wide) - np.asarray(lat1, Wide))
    sin1, _ = sin_cos(lat1)
    _, cos2 = sin_cos(lat2)
    return rise_sine + 2 * sin1 * cos2 * half_sine**2, east_sine * cos2


def arc_points(starts, ends, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Longitudes and latitudes, in degrees, of points on the shorter arcs; one row per edge."""
    starts, ends = np.atleast_2d(starts), np.atleast_2d(ends)
    lon1, lat1 = starts[:, 0], starts[:, 1]
    north, east = _course(lon1, lat1, ends[:, 0], ends[:, 1])
    sin1, cos1 = sin_cos(lat1)
    sin2, cos2 = sin_cos(ends[:, 1])
    _, cos_lon = sin_cos(np.asarray(ends[:, 0], Wide) - np.asarray(lon1, Wide))
    sine = np.hypot(north, east)
    angle = np.arctan2(sine, sin1 * sin2 + cos1 * cos2 * cos_lon)
    scale = np.where(sine == 0, 1, sine)
    head_north, head_east = np.where(sine == 0, 1, north / scale), np.where(sine == 0, 0, east / scale)
    part = np.linspace(0, 1, samples, dtype=Wide)[None, :] * angle[:, None]
    along, ahead = np.cos(part), np.sin(part)
    # The frame of the start: up (the vertex itself), north and east.
    up = cos1[:, None] * along - (sin1 * head_north)[:, None] * ahead  # away from the axis, at lon1
    side = head_east[:, None] * ahead
    z = sin1[:, None] * along + (cos1 * head_north)[:, None] * ahead
    lat = np.arctan2(z, np.hypot(up, side)) * _DEGREES
    lon = np.asarray(lon1, Wide)[:, None] + np.arctan2(side, up) * _DEGREES
    return (lon + 180) % 360 - 180, lat


def great_circle_latitudes(starts, ends) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and highest latitude, in degrees, of each shorter arc."""
    starts, ends = np.atleast_2d(starts), np.atleast_2d(ends)
    north1, east1 = _course(starts[:, 0], starts[:, 1], ends[:, 0], ends[:, 1])
    north2, _ = _course(ends[:, 0], ends[:, 1], starts[:, 0], starts[:, 1])
    sin1, cos1 = sin_cos(starts[:, 1])
    size = np.hypot(north1, east1)
    size = np.where(size == 0, 1, size)
    # Clairaut: cos(latitude) * sin(course) is one number along the circle, so it gives the turning point.
    turn = np.arctan2(np.hypot(sin1, cos1 * north1 / size), cos1 * np.abs(east1) / size) * _DEGREES
    low = np.minimum(starts[:, 1], ends[:, 1]).astype(Wide)
    high = np.maximum(starts[:, 1], ends[:, 1]).astype(Wide)
    high = np.where((north1 > 0) & (north2 > 0), np.maximum(high, turn), high)
    low = np.where((north1 < 0) & (north2 < 0), np.minimum(low, -turn), low)
    return low, high


def geodesic_points(starts, ends, samples: int, geod=None) -> tuple[np.ndarray, np.ndarray]:
    """Longitudes and latitudes of points on the geodesics of the ellipsoid; one row per edge."""
    geod = geod or _wgs84()
    starts, ends = np.atleast_2d(starts).astype(float), np.atleast_2d(ends).astype(float)
    azimuth, _, length = geod.inv(starts[:, 0], starts[:, 1], ends[:, 0], ends[:, 1])
    part = np.linspace(0, 1, samples)[None, :] * np.asarray(length)[:, None]
    shape = part.shape
    lon, lat, _ = geod.fwd(
        np.broadcast_to(starts[:, :1], shape).ravel(),
        np.broadcast_to(starts[:, 1:], shape).ravel(),
        np.broadcast_to(np.asarray(azimuth)[:, None], shape).ravel(),
        part.ravel(),
    )
    return np.asarray(lon).reshape(shape), np.asarray(lat).reshape(shape)


def geodesic_latitudes(starts, ends, geod=None) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and highest latitude of each geodesic, by Clairaut on the reduced latitude."""
    geod = geod or _wgs84()
    starts, ends = np.atleast_2d(starts).astype(float), np.atleast_2d(ends).astype(float)
    azimuth, back, _ = geod.inv(starts[:, 0], starts[:, 1], ends[:, 0], ends[:, 1])
    azimuth, back = np.radians(azimuth), np.radians(back)
    reduced = np.arctan((1 - geod.f) * np.tan(np.radians(starts[:, 1])))
    sine = np.abs(np.sin(azimuth)) * np.cos(reduced)
    top = np.arctan2(np.hypot(np.sin(reduced), np.cos(reduced) * np.cos(azimuth)), sine)
    turn = np.degrees(np.arctan2(np.sin(top), (1 - geod.f) * np.cos(top)))
    low = np.minimum(starts[:, 1], ends[:, 1])
    high = np.maximum(starts[:, 1], ends[:, 1])
    # `inv` gives the course from the end back to the start, so both point into the edge. What turns in the north has
    # an end there, which the course of an edge of some 1e-7 degrees is too imprecise to show.
    high = np.where((np.cos(azimuth) > 0) & (np.cos(back) > 0) & (high >= 0), np.maximum(high, turn), high)
    low = np.where((np.cos(azimuth) < 0) & (np.cos(back) < 0) & (low <= 0), np.minimum(low, -turn), low)
    return low, high


def _wgs84():
    return pyproj.Geod(ellps="WGS84")


def step(west: float, east: float) -> float:
    """The signed way from one longitude to the other by the shorter side; 180 has no side."""
    way = east - west
    if way > 180:
        return way - 360
    if way < -180:
        return way + 360
    return way


def in_x(lon, xmin, xmax) -> np.ndarray:
    """Whether a longitude lies in the box's x; -180 and 180 are one meridian."""
    lon = np.asarray(lon)

    def inside(value):
        return np.where(xmin <= xmax, (value >= xmin) & (value <= xmax), (value >= xmin) | (value <= xmax))

    return inside(lon) | ((lon == 180) & inside(-lon)) | ((lon == -180) & inside(-lon))


def width_of(xmin: float, xmax: float) -> float:
    """Degrees that the box spans, across the antimeridian if it wraps."""
    return xmax - xmin if xmin <= xmax else xmax - xmin + 360


def cover_width(intervals: list[tuple[float, float]]) -> float:
    """The width of the shortest cover of intervals (start, width): all but the widest gap, by a sweep."""
    if any(width >= 360 for _, width in intervals):
        return 360.0
    pieces = sorted(((start + 180) % 360, width) for start, width in intervals)
    # What runs on past the end of the sweep covers its beginning too.
    reach = max(start + width for start, width in pieces) - 360
    gap = -math.inf
    for start, width in pieces:
        gap = max(gap, start - reach)
        reach = max(reach, start + width)
    return min(360.0, 360.0 - gap)


@dataclass
class Needs:
    """What a box must hold, and how much it may; the latitudes of edges are computed from their ends."""

    vertices: list[tuple[float, float]] = field(default_factory=list)
    starts: list[tuple[float, float]] = field(default_factory=list)
    ends: list[tuple[float, float]] = field(default_factory=list)
    intervals: list[tuple[float, float]] = field(default_factory=list)
    full: bool = False
    """A ring or an edge goes around or over a pole: all longitudes."""
    south: bool = False
    north: bool = False
    loose_x: bool = False
    """How wide the box may be is open: a vertex on a pole lies on every meridian, whatever longitude it has."""
    loose_y: bool = False
    """How high the box may be is open: a ring through a pole or along the equator."""

    @property
    def width(self) -> float:
        return 360.0 if self.full else cover_width(self.intervals)


def vertices_of(shape: Shape) -> list[tuple[float, float]]:
    """All longitude, latitude pairs of the tree."""
    vertices = [(p[0], p[1]) for p in shape.points]
    vertices += [(p[0], p[1]) for ring in shape.rings for p in ring]
    for child in shape.children:
        vertices += vertices_of(child)
    return vertices


def edges_of(shape: Shape) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """All pairs of vertices that an edge joins, as written: a ring that is open stays open."""
    edges = []
    lines = list(shape.rings) if shape.kind in (3, 17) else [shape.points] if shape.kind == 2 else []
    for line in lines:
        pairs = [(p[0], p[1]) for p in line]
        edges += list(itertools.pairwise(pairs))
    for child in shape.children:
        edges += edges_of(child)
    return edges


def needs_of(shape: Shape, needs: Needs | None = None) -> Needs:
    """What the box of a geography must hold: vertices, edges, and the poles inside its polygons."""
    needs = Needs() if needs is None else needs
    for lon, lat in [(p[0], p[1]) for p in shape.points] + [(p[0], p[1]) for r in shape.rings for p in r]:
        if not (math.isnan(lon) or math.isnan(lat)):
            needs.vertices.append((lon, lat))
            needs.intervals.append((lon, 0.0))
            needs.loose_x = needs.loose_x or abs(lat) == 90
    own_edges = edges_of(shape) if not shape.children else []
    for start, end in own_edges:
        _add_edge(start, end, needs)
    if shape.kind in (3, 17):
        _add_polygon(shape, needs)
    for child in shape.children:
        needs_of(child, needs)
    return needs


def _add_edge(start, end, needs: Needs) -> None:
    needs.starts.append(start)
    needs.ends.append(end)
    way = step(start[0], end[0])
    on_pole = abs(start[1]) == 90 or abs(end[1]) == 90
    if on_pole:
        return  # a meridian, whatever longitude the pole has
    if abs(way) == 180:
        needs.full = True
        total = start[1] + end[1]
        needs.north = needs.north or total >= 0
        needs.south = needs.south or total <= 0
    else:
        if abs(way) > 180 - 1e-9:
            needs.loose_x = needs.loose_y = True
        needs.intervals.append((start[0], way) if way >= 0 else (end[0], -way))


def _add_polygon(shape: Shape, needs: Needs) -> None:
    winding = []
    for ring in shape.rings:
        pairs = [(p[0], p[1]) for p in ring]
        ways = [step(a[0], b[0]) for a, b in itertools.pairwise(pairs)]
        if any(abs(way) == 180 for way in ways) or any(abs(lat) == 90 for _, lat in pairs):
            needs.loose_x = needs.loose_y = True
            winding.append(False)
        else:
            winding.append(round(math.fsum(ways) / 360) != 0)
    if not any(winding):
        return
    needs.full = True
    if sum(winding) > 1:
        if not winding[0] or sum(winding) > 2:
            needs.loose_y = True
        return  # a band between two rings: no pole inside
    lats = [p[1] for p in shape.rings[winding.index(True)]]
    if not winding[0]:
        needs.loose_y = True  # a hole around a pole in a shell that is not
        return
    if min(lats) > 0:
        needs.north = True
    elif max(lats) < 0:
        needs.south = True
    else:
        needs.north = needs.south = True
        if min(lats) == 0 or max(lats) == 0:
            needs.loose_y = True
            needs.north, needs.south = max(lats) > 0, min(lats) < 0
