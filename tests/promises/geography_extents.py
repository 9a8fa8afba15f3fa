"""Rows of geographies, and where each of them lies by two oracles that share no code with the package.

Latitudes: on a sphere, great circles in long doubles and the geodesics of `pyproj` for a sphere; on the ellipsoid,
Karney's geodesics by `pyproj` and Vincenty's formulae. Where edges are not nearly antipodal, they may differ by
`AGREE` degrees. Longitudes: the shorter way from vertex to vertex, and dense points of the edge, by vectors or by
`pyproj`. Poles: the sum of the ways around, and how often a great circle from inside to the pole meets the rings.
Heights and measures: GEOS and `wkb_walk`, to the last bit.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import numpy as np
import pyproj
import shapely

from tests.heavy.prop_geography import GEODESIC_NOISE, NOISE
from tests.oracle import great_circle as gc
from tests.oracle.vector_sphere import chord_points, pole_inside
from tests.oracle.wkb_walk import walk
from tests.oracle.wkb_write import Shape, write
from tests.promises.row_extents import ranges_of, same_sides
from tests.strategies import DIMS, SIMPLE, make_geographies, with_heights

__all__ = ["AGREE", "SPHERICAL", "Geographies", "latitudes_differ", "longitudes_differ", "poles_differ"]

SPHERICAL = "spherical"
AGREE = {SPHERICAL: 1e-9, "ellipsoid": 1e-7}
"""Degrees. Vincenty's azimuths are good to some 1e-9, and a turning point near a vertex doubles their digits."""
# Degrees that each oracle may be wrong by itself: the equator by pyproj lies 4e-15 degrees from the equator, and
# Vincenty's series, which end early, are 2e-9 degrees away from Karney's on an arc of 172 degrees.
_NOISE = {SPHERICAL: (NOISE[SPHERICAL], GEODESIC_NOISE), "ellipsoid": (GEODESIC_NOISE, 1e-8)}
# Degrees of the arc beyond which its course hangs on the last bits of its ends.
_ANTIPODAL = {SPHERICAL: 179.9, "ellipsoid": 170.0}
_SAMPLES = 9


@dataclass
class Geographies:
    """Rows of a geography column; their vertices and edges, and the latitudes of each row by two oracles."""

    values: list[bytes | None]
    shapes: list[Shape | None]
    insides: list[list[tuple[float, float]]]
    """Points inside the polygons of a row, which are polygons of the sphere."""
    edges: str = SPHERICAL
    low: np.ndarray = field(init=False)
    """Latitudes."""
    high: np.ndarray = field(init=False)
    heights: tuple[np.ndarray, np.ndarray] = field(init=False)
    """The lowest and the highest z and m of each row, NaN where it has none."""
    differ: list[str] = field(default_factory=list)

    @classmethod
    def make(cls, seed: int, count: int, edges: str = SPHERICAL) -> Geographies:
        """Points, lines and polygons over dateline and poles, in all dimensions; nulls, empties, both byte orders."""
        rng = random.Random(seed)
        made = []
        for shape, inside in make_geographies(seed, count):
            draw = rng.random()
            if draw < 0.03:
                made.append((rng.random(), None if draw < 0.02 else Shape(rng.choice(SIMPLE)), []))
            else:
                made.append((_order(shape), shape, inside))
        # Neighbours together, or every box would be the world.
        made.sort(key=lambda entry: entry[0])
        # The last files have heights throughout: a box with Z in the `geo` property is for such values only.
        dims = [rng.choice(DIMS) if number < 0.8 * count else "XYZ" for number in range(len(made))]
        shapes = [
            None if shape is None else with_heights(rng, shape, some)
            for (_, shape, _), some in zip(made, dims, strict=True)
        ]
        insides = [inside for _, _, inside in made]
        values = [
            None if geography is None else write(replace(geography, big=rng.random() < 0.3)) for geography in shapes
        ]
        return cls(values, shapes, insides, edges)

    @classmethod
    def of(cls, values: list[bytes | None], edges: str) -> Geographies:
        """Those of others; what is inside of their polygons is not known."""
        shapes = [
            None if geometry is None else _tree(geometry) for geometry in shapely.from_wkb(np.array(values, object))
        ]
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
        # An edge of half a circle in longitude is checked by the pole that it passes.
        self.over = np.abs(self.starts[:, 0] - self.ends[:, 0]) == 180
        kind = SPHERICAL if self.edges == SPHERICAL else "ellipsoid"
        pairs = _latitudes(kind, self.starts, self.ends)
        self.differ += latitudes_differ(kind, self.starts, self.ends, pairs, self.over)
        ways = (self.ends[:, 0] - self.starts[:, 0] + 540) % 360 - 180
        self.differ += longitudes_differ(kind, self.starts, self.ends, ways, self.over)
        for shape, inside in zip(self.shapes, self.insides, strict=True):
            self.differ += [] if shape is None else poles_differ(shape, inside)
        self._measure()
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

    def _measure(self) -> None:
        low, high = (ends[:, 2:] for ends in ranges_of(shapely.from_wkb(np.array(self.values, object))))
        self.heights = np.full_like(low, np.nan), np.full_like(high, np.nan)
        for row, value in enumerate(self.values):
            for axis, ends in enumerate(() if value is None else walk(value).ranges[2:]):
                if ends is not None:
                    self.heights[0][row, axis], self.heights[1][row, axis] = ends
        same = (same_sides(low, self.heights[0]) & same_sides(high, self.heights[1])).all(axis=1)
        self.differ += [f"GEOS reads other heights in {self.values[row].hex()}" for row in np.flatnonzero(~same)]


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
    clear = _is_clear(kind, starts, ends)
    (low, high), (other_low, other_high) = pairs
    apart = np.maximum(np.abs(low - other_low), np.abs(high - other_high)) > AGREE[kind]
    return [
        f"{kind}: {starts[edge].tolist()} to {ends[edge].tolist()}: {float(low[edge])!r} to {float(high[edge])!r} by "
        f"one oracle, {float(other_low[edge])!r} to {float(other_high[edge])!r} by the other"
        for edge in np.flatnonzero(apart & clear & ~over)
    ]


def _is_clear(kind: str, starts, ends) -> np.ndarray:
    sin1, cos1 = gc.sin_cos(starts[:, 1])
    sin2, cos2 = gc.sin_cos(ends[:, 1])
    _, cos_lon = gc.sin_cos(starts[:, 0].astype(gc.Wide) - ends[:, 0])
    return sin1 * sin2 + cos1 * cos2 * cos_lon > np.cos(np.radians(_ANTIPODAL[kind]))


def longitudes_differ(kind: str, starts, ends, ways, over) -> list[str]:
    """The edges of which a dense point lies outside of the longitudes from start to end, on the way that is given.

    Vectors of doubles are wrong by 3e-16, which the chord of an arc of 179.9 degrees makes 1000 times larger, and
    `pyproj` by 15 nanometres: 2e-11 degrees on the equator, and more where the meridians meet.
    """
    points = chord_points if kind == SPHERICAL else gc.geodesic_points
    lon, lat = points(starts, ends, _SAMPLES)
    west = np.where(ways >= 0, starts[:, 0], ends[:, 0])[:, None]
    room = 1e-10 / np.maximum(np.cos(np.radians(lat)), 1e-12)
    ahead = (lon - west) % 360
    outside = (ahead > np.abs(ways)[:, None] + room) & (ahead < 360 - room)
    on_pole = (np.abs(starts[:, 1]) == 90) | (np.abs(ends[:, 1]) == 90)  # whose longitude means nothing
    wrong = outside.any(axis=1) & _is_clear(kind, starts, ends) & ~over & ~on_pole
    return [
        f"{kind}: {starts[edge].tolist()} to {ends[edge].tolist()}, {float(ways[edge])!r} degrees around, passes "
        f"{lon[edge].tolist()}"
        for edge in np.flatnonzero(wrong)
    ]


def poles_differ(shape: Shape, inside: list[tuple[float, float]]) -> list[str]:
    """The polygons whose rings go around a pole by one oracle and not by the other."""
    if shape.kind == 6:
        faults, start = [], 0
        for child in shape.children:
            count = 2 * (len(child.rings[0]) - 1) + (len(child.rings) == 1)  # as `star` makes them
            faults += poles_differ(child, inside[start : start + count])
            start += count
        return faults
    if shape.kind != 3 or not inside:
        return []
    needs = gc.needs_of(shape)
    if needs.loose_y:  # an edge or a vertex on a pole, or no clear side
        return []
    faults = []
    lats = [lat for _, lat in needs.vertices]
    for north, need in ((False, needs.south), (True, needs.north)):
        answers = pole_inside(shape.rings, inside[::4], north=north)
        # A ring on both sides of the equator gets both poles, as which of its sides is smaller is not computed.
        either = min(lats) < 0 < max(lats)
        if len(answers) > 1 or (True in answers and not (need and needs.full)):
            faults.append(f"the {'north' if north else 'south'} pole is inside, by vectors: {shape}")
        if False in answers and need and not either:
            faults.append(f"the {'north' if north else 'south'} pole is not inside, by vectors: {shape}")
    return faults


def _vincenty_latitudes(starts, ends) -> tuple[np.ndarray, np.ndarray]:
    """As `great_circle.geodesic_latitudes`, with the azimuths of Vincenty's inverse formula (1975) and no pyproj."""
    f = 1 / 298.257223563
    lon = np.radians((ends[:, 0] - starts[:, 0] + 540) % 360 - 180)
    left, two = (np.arctan((1 - f) * np.tan(np.radians(side[:, 1]))) for side in (starts, ends))
    sin1, cos1, sin2, cos2 = np.sin(left), np.cos(left), np.sin(two), np.cos(two)
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
