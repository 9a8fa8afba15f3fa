"""Rows of all shapes, and where each of them lies by two oracles that share no code with the package.

Geometries: GEOS and `wkb_walk` read the bytes, and must give the same ranges to the last bit. Of what GEOS does not
read (curves, TINs), the second opinion is the tree that the bytes were written from, and dense points of the arcs.

Geographies: on a sphere, great circles in long doubles and the geodesics of `pyproj` for a sphere; on the ellipsoid,
Karney's geodesics by `pyproj` and Vincenty's formulae. Where edges are not nearly antipodal, their latitudes may
differ by `AGREE` degrees.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace

import numpy as np
import pyproj
import shapely

from tests.core.test_wkb import arc_samples
from tests.heavy.prop_geography import GEODESIC_NOISE, NOISE
from tests.oracle import great_circle as gc
from tests.oracle.wkb_walk import walk
from tests.oracle.wkb_write import AXES, NAMES, Shape, write
from tests.strategies import SIMPLE, make_geographies, make_geometries

__all__ = ["AGREE", "SPHERICAL", "Geographies", "Geometries", "latitudes_differ", "ranges_of"]

NAN = math.nan
SPHERICAL = "spherical"
AGREE = {SPHERICAL: 1e-9, "ellipsoid": 1e-7}
"""Degrees. Vincenty's azimuths are good to some 1e-9, and a turning point near a vertex doubles their digits."""
# Degrees that each oracle may be wrong by itself: the equator by pyproj lies 4e-15 degrees from the equator, and
# Vincenty's series, which end early, are 2e-9 degrees away from Karney's on an arc of 172 degrees.
_NOISE = {SPHERICAL: (NOISE[SPHERICAL], GEODESIC_NOISE), "ellipsoid": (GEODESIC_NOISE, 1e-8)}
# Degrees of the arc beyond which its course hangs on the last bits of its ends.
_ANTIPODAL = {SPHERICAL: 179.9, "ellipsoid": 170.0}
_AXES = {"XY": (0, 1), "XYZ": (0, 1, 2), "XYM": (0, 1, 3), "XYZM": (0, 1, 2, 3)}


# ---- geometries


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the rows of a run lie: a file or a row group of them has a small box, or one that is hard to write."""

    centre: tuple[float, float, float, float]
    spread: float
    wild: bool = False
    """Whether NaN, infinities, denormal and huge numbers stay."""


def _place(rng: random.Random, *, wild: bool) -> _Place:
    z, m = rng.uniform(-100, 100), rng.uniform(0, 1e9)
    draw = rng.random() if wild else 0.85 * rng.random()
    if draw < 0.40:
        return _Place((rng.uniform(-179, 179), rng.uniform(-89, 89), z, m), 10 ** rng.uniform(-6, 0))
    if draw < 0.55:
        return _Place((math.copysign(180, rng.random() - 0.5), rng.uniform(-80, 80), z, m), 10 ** rng.uniform(-9, 1))
    if draw < 0.65:
        return _Place((rng.uniform(-180, 180), math.copysign(90, rng.random() - 0.5), z, m), 10 ** rng.uniform(-9, 0))
    if draw < 0.75:
        return _Place((rng.uniform(-2e7, 2e7), rng.uniform(-2e7, 2e7), z, m), 1e4)
    if draw < 0.80:
        return _Place((0.0, -0.0, 0.0, -0.0), rng.choice([0.0, 5e-324, 1e-310, 1e-30]))
    if draw < 0.85:
        return _Place((1e308, -1e308, 1e300, -1e300), 1e307)
    return _Place((0.0, 0.0, 0.0, 0.0), 1000.0, wild=True)


def _vertex(vertex: tuple[float, ...], axes: tuple[int, ...], place: _Place) -> tuple[float, ...]:
    if place.wild:
        return vertex
    return tuple(
        place.centre[axis] + place.spread * (value / 1000 if abs(value) <= 1000 else 0.0)
        for axis, value in zip(axes, vertex, strict=True)
    )


def _placed(shape: Shape, place: _Place, *, top: bool = True) -> Shape:
    """The tree at that place, with lines and rings that GEOS takes: two points at least, and closed."""
    axes = _AXES[shape.dims]
    points = tuple(_vertex(one, axes, place) for one in shape.points)
    if shape.kind == 1 and points and math.isnan(points[0][0]) and math.isnan(points[0][1]):
        points = ()  # what has no place has no height either: readers differ on the rest
    if shape.kind == 2 and len(points) == 1:
        points *= 2
    rings = [_ring([_vertex(one, axes, place) for one in ring]) for ring in shape.rings]
    if rings and not rings[0]:
        rings = []
    children = tuple(_placed(child, place, top=False) for child in shape.children)
    return replace(
        shape, points=points, rings=tuple(rings), children=children, srid=shape.srid if top and shape.ewkb else None
    )


def _ring(points: list[tuple[float, ...]]) -> tuple[tuple[float, ...], ...]:
    first = next((place for place, one in enumerate(points) if not (math.isnan(one[0]) or math.isnan(one[1]))), None)
    if first is None:
        return ()
    turned = [*points[first:], *points[:first]]
    turned += turned[-1:] * max(0, 3 - len(turned))
    return (*turned, turned[0])


@dataclass
class Geometries:
    """Rows of a geometry column, and the range of each on x, y, z and m: NaN where it has no number there."""

    values: list[bytes | None]
    shapes: list[Shape | None]
    """The trees that they were written from, None for those of others."""
    low: np.ndarray = field(init=False)
    high: np.ndarray = field(init=False)
    geos: np.ndarray = field(init=False)
    """What GEOS reads, None for the kinds that it does not."""
    differ: list[str] = field(default_factory=list)
    """Rows on which the oracles do not agree."""

    @classmethod
    def make(cls, seed: int, count: int, *, wild: bool = True) -> Geometries:
        """Every kind, nested, in all dimensions, dialects and byte orders; a null in fifty.

        Where some are `wild`, with NaN and infinities, files may have no bound; where none is, all have one.
        """
        rng = random.Random(seed)
        plain, every = make_geometries(seed, count), make_geometries(seed + 1, count, kinds=tuple(NAMES))
        shapes: list[Shape | None] = []
        run = max(32, count // 60)
        for number in range(count):
            if number % run == 0:
                place = _place(rng, wild=wild)
                source = plain if rng.random() < 0.7 else every
            shapes.append(None if rng.random() < 0.02 else _placed(next(source), place))
        return cls([None if one is None else write(one) for one in shapes], shapes)

    def __post_init__(self) -> None:
        rows = len(self.values)
        self.low, self.high = np.full((rows, 4), NAN), np.full((rows, 4), NAN)
        simple = np.zeros(rows, bool)
        arcs = {}
        for row, value in enumerate(self.values):
            if value is not None:
                walked = walk(value)
                simple[row] = walked.kinds <= set(SIMPLE)
                for axis, ends in enumerate(walked.ranges):
                    if ends is not None:
                        self.low[row, axis], self.high[row, axis] = ends
                if walked.arcs:
                    arcs[row] = walked.arcs
        with np.errstate(invalid="ignore"):
            read = [value if plain else None for value, plain in zip(self.values, simple, strict=True)]
            self.geos = shapely.from_wkb(np.array(read, object))
        low, high = ranges_of(self.geos)
        for row in np.flatnonzero(~simple):
            shape = self.shapes[row]
            if shape is not None:
                low[row], high[row] = _tree_ranges(shape)
            elif self.values[row] is not None:  # of others, and of a kind that GEOS does not read
                low[row], high[row] = self.low[row], self.high[row]
        same = (_same(low, self.low) & _same(high, self.high)).all(axis=1)
        self.differ += [
            f"row {row}: {self.low[row]} to {self.high[row]} by its bytes, {low[row]} to {high[row]} by "
            f"{'GEOS' if simple[row] else 'its tree'}: {self.values[row].hex()}"
            for row in np.flatnonzero(~same)
        ]
        for row, found in arcs.items():
            self._add_arcs(row, found)

    def _add_arcs(self, row: int, arcs) -> None:
        for arc in arcs:
            if not all(math.isfinite(n) and abs(n) < 1e100 for point in arc for n in point):
                continue
            points = arc_samples(*arc)
            if points is None or not np.isfinite(points[2]):
                continue
            room = points[2] * np.longdouble(1e-15)
            for axis in (0, 1):
                self.low[row, axis] = min(self.low[row, axis], float((points[axis] + room).min()))
                self.high[row, axis] = max(self.high[row, axis], float((points[axis] - room).max()))

    def text(self, kind: str) -> list[str | None]:
        """The rows that GEOS reads and whose numbers are finite, as WKT or GeoJSON."""
        finite = np.isfinite(np.where(np.isnan(self.low), 0, self.low)).all(axis=1)
        finite &= np.isfinite(np.where(np.isnan(self.high), 0, self.high)).all(axis=1)
        some = np.where(finite & _all_numbers(self.geos), self.geos, None)
        # GEOS reads no WKT whose parts have different axes, as empty ones have, and GeoJSON has no M.
        parts = np.array([shape is not None and bool(shape.children) for shape in self.shapes])
        some = np.where(parts | (kind != "wkt"), shapely.force_2d(some), some)
        return list(shapely.to_wkt(some, rounding_precision=-1) if kind == "wkt" else shapely.to_geojson(some))


def _all_numbers(shapes: np.ndarray) -> np.ndarray:
    flat, owner = shapely.get_coordinates(shapes, return_index=True)
    good = np.ones(len(shapes), bool)
    good[owner[np.isnan(flat).any(axis=1)]] = False
    return good


def ranges_of(shapes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The range of each row on every axis; NaN counts for nothing."""
    low, high = np.full((len(shapes), 4), np.inf), np.full((len(shapes), 4), -np.inf)
    flat, owner = shapely.get_coordinates(shapes, include_z=True, include_m=True, return_index=True)
    there = np.zeros((len(shapes), 4), bool)
    for axis in range(4):
        some = ~np.isnan(flat[:, axis])
        np.minimum.at(low[:, axis], owner[some], flat[some, axis])
        np.maximum.at(high[:, axis], owner[some], flat[some, axis])
        there[owner[some], axis] = True
    return np.where(there, low, NAN), np.where(there, high, NAN)


def _tree_ranges(shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    held: list[list[float]] = [[], [], [], []]
    _collect(shape, held)
    numbers = [[one for one in axis if not math.isnan(one)] for axis in held]
    return (
        np.array([min(axis, default=NAN) for axis in numbers]),
        np.array([max(axis, default=NAN) for axis in numbers]),
    )


def _collect(shape: Shape, held: list[list[float]]) -> None:
    for vertex in [*shape.points, *[one for ring in shape.rings for one in ring]]:
        for axis, value in zip(_AXES[shape.dims], vertex[: AXES[shape.dims]], strict=True):
            held[axis].append(value)
    for child in shape.children:
        _collect(child, held)


def _same(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return (one == other) | (np.isnan(one) & np.isnan(other))


# ---- geographies


@dataclass
class Geographies:
    """Rows of a geography column; their vertices and edges, and the latitudes of each row by two oracles."""

    values: list[bytes | None]
    shapes: list[Shape | None]
    insides: list[list[tuple[float, float]]]
    """Points inside the polygons of a row, which are polygons of the sphere."""
    edges: str = SPHERICAL
    low: np.ndarray = field(init=False)
    high: np.ndarray = field(init=False)
    differ: list[str] = field(default_factory=list)

    @classmethod
    def make(cls, seed: int, count: int, edges: str = SPHERICAL) -> Geographies:
        """Points, lines and polygons over dateline and poles; some nulls and empties, both byte orders."""
        rng = random.Random(seed)
        made = []
        for shape, inside in make_geographies(seed, count):
            draw = rng.random()
            if draw < 0.03:
                made.append((rng.random(), None if draw < 0.02 else Shape(rng.choice(SIMPLE)), []))
            else:
                made.append((_order(shape), shape, inside))
        # Neighbours together, or every box would be the world.
        made.sort(key=lambda one: one[0])
        shapes = [shape for _, shape, _ in made]
        insides = [inside for _, _, inside in made]
        values = [None if one is None else write(replace(one, big=rng.random() < 0.3)) for one in shapes]
        return cls(values, shapes, insides, edges)

    @classmethod
    def of(cls, values: list[bytes | None], edges: str) -> Geographies:
        """Those of others, in two dimensions."""
        shapes = [None if one is None else _tree(one) for one in shapely.from_wkb(np.array(values, object))]
        return cls(values, shapes, [[] for _ in values], edges)

    def __post_init__(self) -> None:
        rows = len(self.shapes)
        needs = [gc.Needs() if shape is None else gc.needs_of(shape) for shape in self.shapes]
        self.starts = np.array([p for need in needs for p in need.starts], float).reshape(-1, 2)
        self.ends = np.array([p for need in needs for p in need.ends], float).reshape(-1, 2)
        self.owner = np.array([row for row, need in enumerate(needs) for _ in need.starts], int)
        self.vertices = np.array([p for need in needs for p in need.vertices], float).reshape(-1, 2)
        self.vertex_owner = np.array([row for row, need in enumerate(needs) for _ in need.vertices], int)
        self.inner = np.array([p for inside in self.insides for p in inside], float).reshape(-1, 2)
        self.inner_owner = np.array([row for row, inside in enumerate(self.insides) for _ in inside], int)
        self.full = np.array([need.full for need in needs])
        south, north = (np.array([getattr(need, pole) for need in needs]) for pole in ("south", "north"))
        # An edge of half a circle in longitude is judged by the pole that it passes.
        self.over = np.abs(self.starts[:, 0] - self.ends[:, 0]) == 180
        kind = SPHERICAL if self.edges == SPHERICAL else "ellipsoid"
        pairs = _latitudes(kind, self.starts, self.ends)
        self.differ += latitudes_differ(kind, self.starts, self.ends, pairs, self.over)
        self.low, self.high = np.full(rows, np.inf, gc.Wide), np.full(rows, -np.inf, gc.Wide)
        np.minimum.at(self.low, self.vertex_owner, self.vertices[:, 1])
        np.maximum.at(self.high, self.vertex_owner, self.vertices[:, 1])
        for (low, high), noise in zip(pairs, _NOISE[kind], strict=True):
            np.minimum.at(self.low, self.owner[~self.over], low[~self.over].astype(gc.Wide) + noise)
            np.maximum.at(self.high, self.owner[~self.over], high[~self.over].astype(gc.Wide) - noise)
        self.low[south], self.high[north] = -90, 90
        # What is inside a ring of the sphere lies among its latitudes: the points were made on another way.
        if kind == SPHERICAL:
            lat = self.inner[:, 1]
            beyond = (lat < self.low[self.inner_owner] - 1e-9) | (lat > self.high[self.inner_owner] + 1e-9)
            self.differ += [f"a point inside lies beyond: {self.shapes[row]}" for row in self.inner_owner[beyond]]


def _tree(shape: shapely.Geometry) -> Shape:
    kind = (1, 2, 2, 3, 4, 5, 6, 7)[shapely.get_type_id(shape)]  # a ring is a line
    if kind >= 4:
        return Shape(kind, children=tuple(_tree(part) for part in shape.geoms))
    if kind == 3:
        rings = [] if shape.is_empty else [shape.exterior, *shape.interiors]
        return Shape(3, rings=tuple(tuple(map(tuple, shapely.get_coordinates(ring).tolist())) for ring in rings))
    return Shape(kind, points=tuple(map(tuple, shapely.get_coordinates(shape).tolist())))


def _order(shape: Shape) -> float:
    """Small shapes by their place, from 0 to 1, and larger ones after them."""
    lons, lats = zip(*gc.vertices_of(shape), strict=True)
    if max(lats) - min(lats) > 20 or 20 < max(lons) - min(lons) < 340:
        return 2.0
    # From Greenwich around, so that the antimeridian lies inside of boxes.
    return ((lats[0] + 90) // 25 + lons[0] % 360 / 361) / 9


def _latitudes(kind: str, starts, ends) -> list[tuple[np.ndarray, np.ndarray]]:
    """The lowest and the highest latitude of each edge, by the two oracles."""
    if kind == SPHERICAL:
        return [
            gc.great_circle_latitudes(starts, ends),
            gc.geodesic_latitudes(starts, ends, pyproj.Geod(a=6371008.8, f=0)),
        ]
    return [gc.geodesic_latitudes(starts, ends), _vincenty_latitudes(starts, ends)]


def latitudes_differ(kind: str, starts, ends, pairs, over) -> list[str]:
    """The edges on which the oracles differ by more than `AGREE`; nearly antipodal ends are left out."""
    sin1, cos1 = gc.sin_cos(starts[:, 1])
    sin2, cos2 = gc.sin_cos(ends[:, 1])
    _, cos_lon = gc.sin_cos(starts[:, 0].astype(gc.Wide) - ends[:, 0])
    clear = sin1 * sin2 + cos1 * cos2 * cos_lon > np.cos(np.radians(_ANTIPODAL[kind]))
    (low, high), (other_low, other_high) = pairs
    apart = np.maximum(np.abs(low - other_low), np.abs(high - other_high)) > AGREE[kind]
    return [
        f"{kind}: {starts[edge].tolist()} to {ends[edge].tolist()}: {float(low[edge])!r} to {float(high[edge])!r} by "
        f"one oracle, {float(other_low[edge])!r} to {float(other_high[edge])!r} by the other"
        for edge in np.flatnonzero(apart & clear & ~over)
    ]


def _vincenty_latitudes(starts, ends) -> tuple[np.ndarray, np.ndarray]:
    """As `great_circle.geodesic_latitudes`, with the azimuths of Vincenty's inverse formula (1975) and no pyproj."""
    f = 1 / 298.257223563
    lon = np.radians((ends[:, 0] - starts[:, 0] + 540) % 360 - 180)
    one, two = (np.arctan((1 - f) * np.tan(np.radians(side[:, 1]))) for side in (starts, ends))
    sin1, cos1, sin2, cos2 = np.sin(one), np.cos(one), np.sin(two), np.cos(two)
    turn = lon.copy()
    with np.errstate(all="ignore"):
        for _ in range(60):
            sine = np.hypot(cos2 * np.sin(turn), cos1 * sin2 - sin1 * cos2 * np.cos(turn))
            cosine = sin1 * sin2 + cos1 * cos2 * np.cos(turn)
            angle = np.arctan2(sine, cosine)
            steep = np.where(sine == 0, 0, cos1 * cos2 * np.sin(turn) / np.where(sine == 0, 1, sine))
            flat = 1 - steep**2
            middle = np.where(flat == 0, 0, cosine - 2 * sin1 * sin2 / np.where(flat == 0, 1, flat))
            c = f / 16 * flat * (4 + f * (4 - 3 * flat))
            turn = lon + (1 - c) * f * steep * (angle + c * sine * (middle + c * cosine * (2 * middle**2 - 1)))
        north1 = cos1 * sin2 - sin1 * cos2 * np.cos(turn)
        north2 = cos2 * sin1 - sin2 * cos1 * np.cos(turn)
        # Clairaut, by the azimuth at the start: an arc cosine near 1 would lose half of the digits at the equator.
        cos_azimuth, sin_azimuth = north1 / sine, cos2 * np.sin(turn) / sine
        top = np.arctan2(np.hypot(cos_azimuth, sin_azimuth * sin1), np.abs(steep))
        highest = np.degrees(np.arctan2(np.tan(top), 1 - f))
    low, high = np.minimum(starts[:, 1], ends[:, 1]), np.maximum(starts[:, 1], ends[:, 1])
    converged = np.isfinite(turn) & (np.abs(turn) < np.pi)
    high = np.where(converged & (north1 > 0) & (north2 > 0), np.maximum(high, highest), high)
    low = np.where(converged & (north1 < 0) & (north2 < 0), np.minimum(low, -highest), low)
    return low, high
