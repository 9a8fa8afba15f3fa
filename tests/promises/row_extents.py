"""Rows of geometries, and where each of them lies by two oracles that share no code with the package.

GEOS and `wkb_walk` read the bytes, and must give the same ranges to the last bit. Of what GEOS does not read (curves,
TINs), it reads the vertices under other type codes, and the tree that the bytes were written from is asked as well.
Arcs are bounded in exact fractions, and dense points of them must fill that range.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace

import numpy as np
import shapely

from tests.geo.test_wkb import arc_samples
from tests.oracle.arc_range import Range, arc_range
from tests.oracle.wkb_plain import as_plain
from tests.oracle.wkb_walk import Arc, walk
from tests.oracle.wkb_write import AXES, NAMES, Shape, write
from tests.strategies import SIMPLE, make_geometries

__all__ = ["Geometries", "arc_oracles_differ", "ranges_of", "same_sides"]

NAN = math.nan
_AXES = {"XY": (0, 1), "XYZ": (0, 1, 2), "XYM": (0, 1, 3), "XYZM": (0, 1, 2, 3)}


# ---- geometries


@dataclass(frozen=True, slots=True)
class _Region:
    """Where the rows of a run lie: a file or a row group of them has a small box, or one that is hard to write."""

    centre: tuple[float, float, float, float]
    spread: float
    non_finite: bool = False
    """Whether NaN, infinities, denormal and huge numbers stay."""


def _region(rng: random.Random, *, non_finite: bool) -> _Region:
    z, m = rng.uniform(-100, 100), rng.uniform(0, 1e9)
    draw = rng.random() if non_finite else 0.85 * rng.random()
    if draw < 0.40:
        return _Region((rng.uniform(-179, 179), rng.uniform(-89, 89), z, m), 10 ** rng.uniform(-6, 0))
    if draw < 0.55:
        return _Region((math.copysign(180, rng.random() - 0.5), rng.uniform(-80, 80), z, m), 10 ** rng.uniform(-9, 1))
    if draw < 0.65:
        return _Region((rng.uniform(-180, 180), math.copysign(90, rng.random() - 0.5), z, m), 10 ** rng.uniform(-9, 0))
    if draw < 0.75:
        return _Region((rng.uniform(-2e7, 2e7), rng.uniform(-2e7, 2e7), z, m), 1e4)
    if draw < 0.80:
        return _Region((0.0, -0.0, 0.0, -0.0), rng.choice([0.0, 5e-324, 1e-310, 1e-30]))
    if draw < 0.85:
        return _Region((1e308, -1e308, 1e300, -1e300), 1e307)
    return _Region((0.0, 0.0, 0.0, 0.0), 1000.0, non_finite=True)


def _vertex(vertex: tuple[float, ...], axes: tuple[int, ...], location: _Region) -> tuple[float, ...]:
    if location.non_finite:
        return vertex
    return tuple(
        location.centre[axis] + location.spread * (value / 1000 if abs(value) <= 1000 else 0.0)
        for axis, value in zip(axes, vertex, strict=True)
    )


def _placed(shape: Shape, location: _Region, *, top: bool = True) -> Shape:
    """The tree at that place, with lines and rings that GEOS takes: two points at least, and closed."""
    axes = _AXES[shape.dims]
    points = tuple(_vertex(vertex, axes, location) for vertex in shape.points)
    if shape.kind == 1 and points and math.isnan(points[0][0]) and math.isnan(points[0][1]):
        points = ()  # an empty geometry has no height either: readers differ on the rest
    if shape.kind == 2 and len(points) == 1:
        points *= 2
    rings = [_ring([_vertex(vertex, axes, location) for vertex in ring]) for ring in shape.rings]
    if rings and not rings[0]:
        rings = []
    children = tuple(_placed(child, location, top=False) for child in shape.children)
    return replace(
        shape, points=points, rings=tuple(rings), children=children, srid=shape.srid if top and shape.ewkb else None
    )


def _ring(points: list[tuple[float, ...]]) -> tuple[tuple[float, ...], ...]:
    first = next(
        (index for index, point in enumerate(points) if not (math.isnan(point[0]) or math.isnan(point[1]))), None
    )
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
    unclear: np.ndarray = field(init=False)
    """Rows with an arc whose circle is lost in the rounding of doubles: a writer may leave them without a bound."""
    geos: np.ndarray = field(init=False)
    """What GEOS reads, None for the kinds that it does not."""
    differ: list[str] = field(default_factory=list)
    """Rows on which the oracles do not agree."""

    @classmethod
    def make(cls, seed: int, count: int, *, non_finite: bool = True) -> Geometries:
        """Every kind, nested, in all dimensions, dialects and byte orders; a null in fifty.

        With `non_finite` values, NaN and infinities, files may have no bound; without them all have one.
        """
        rng = random.Random(seed)
        plain, every = make_geometries(seed, count), make_geometries(seed + 1, count, kinds=tuple(NAMES))
        shapes: list[Shape | None] = []
        run = max(32, count // 60)
        for number in range(count):
            if number % run == 0:
                location = _region(rng, non_finite=non_finite)
                source = plain if rng.random() < 0.7 else every
            shapes.append(None if rng.random() < 0.02 else _placed(next(source), location))
        made = cls([None if shape is None else write(shape) for shape in shapes], shapes)
        if not non_finite:
            made._drop(made.unclear)
        return made

    def _drop(self, rows: np.ndarray) -> None:
        """Make nulls of these rows."""
        for row in np.flatnonzero(rows):
            self.values[row] = self.shapes[row] = None
        self.low[rows], self.high[rows], self.geos[rows] = NAN, NAN, None
        self.unclear = self.unclear & ~rows

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
            odd = [
                None if plain or not value else as_plain(value)
                for value, plain in zip(self.values, simple, strict=True)
            ]
            low, high = ranges_of(np.where(simple, self.geos, shapely.from_wkb(np.array(odd, object))))
        self._compare(low, high, "GEOS")
        for row in np.flatnonzero(~simple):
            shape = self.shapes[row]
            if shape is not None:
                low[row], high[row] = _tree_ranges(shape)
        self._compare(low, high, "its tree")
        self.unclear = np.zeros(rows, bool)
        for row, row_arcs in arcs.items():
            for arc in row_arcs:
                self._add_arc(row, arc)

    def _compare(self, low: np.ndarray, high: np.ndarray, whose: str) -> None:
        same = (same_sides(low, self.low) & same_sides(high, self.high)).all(axis=1)
        self.differ += [
            f"row {row}: {self.low[row]} to {self.high[row]} by its bytes, {low[row]} to {high[row]} by {whose}: "
            f"{self.values[row].hex()}"
            for row in np.flatnonzero(~same)
        ]

    def _add_arc(self, row: int, arc: Arc) -> None:
        if not all(math.isfinite(n) and abs(n) < 1e100 for point in arc for n in point):
            self.unclear[row] = True
            return
        clear = _is_clear(arc)
        self.unclear[row] |= not clear
        range_ = arc_range(arc)
        if range_ is None:
            return
        if clear:  # the angles of points on a circle that is as good as infinite are all the same
            samples = arc_samples(*arc)
            self.differ += [f"row {row}: {difference}" for difference in arc_oracles_differ(arc, range_, samples)]
        for axis, (low, high) in enumerate(range_):
            self.low[row, axis] = min(self.low[row, axis], low)
            self.high[row, axis] = max(self.high[row, axis], high)

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
    axes: list[list[float]] = [[], [], [], []]
    _collect(shape, axes)
    numbers = [[value for value in axis if not math.isnan(value)] for axis in axes]
    return (
        np.array([min(axis, default=NAN) for axis in numbers]),
        np.array([max(axis, default=NAN) for axis in numbers]),
    )


def _collect(shape: Shape, axes: list[list[float]]) -> None:
    for vertex in [*shape.points, *[ring_vertex for ring in shape.rings for ring_vertex in ring]]:
        for axis, value in zip(_AXES[shape.dims], vertex[: AXES[shape.dims]], strict=True):
            axes[axis].append(value)
    for child in shape.children:
        _collect(child, axes)


def same_sides(left: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Whether two numbers are one, or both are none."""
    return (left == other) | (np.isnan(left) & np.isnan(other))


# ---- arcs


def _is_clear(arc: Arc) -> bool:
    """Whether products of the differences neither vanish nor overflow, and the circle is not as good as infinite."""
    a, b, c = arc
    if b in (a, c):
        return True  # a straight line
    (ax, ay), (cx, cy) = ((point[0] - b[0], point[1] - b[1]) for point in (a, c))
    lengths = math.hypot(ax, ay), math.hypot(cx, cy)
    if not (min(lengths) > 1e-139 and max(lengths) < 1e150):
        return False
    # A middle that is between the others leaves a flat arc near its chord; one beyond them sends it around.
    return a == c or ax * cx + ay * cy < 0 or abs(ax * cy - ay * cx) > 1.1e-5 * lengths[0] * lengths[1]


def arc_oracles_differ(
    arc: Arc, range_: Range, samples: tuple[np.ndarray, np.ndarray, np.longdouble] | None
) -> list[str]:
    """Where the exact range and the dense points of an arc do not agree.

    No point may lie beyond the range by more than their rounding: 1e-15 of the radius, for angles of 64 bits, and the
    last bits of a far centre; points have no denormal numbers. Of 65 points none is farther than 1/128 of a turn from
    where the circle turns, so that the range may go beyond them by `1 - cos(pi / 64)` of the radius, which is 0.0012.
    """
    if samples is None:
        return [f"{arc} is straight by its points, and {range_} by fractions"]
    *points, radius = samples
    # The angles of a few metres on a circle of light years are lost in 64 bits.
    if not np.isfinite(radius) or max(math.dist(arc[0], arc[1]), math.dist(arc[1], arc[2])) < 1e-12 * radius:
        return []
    differences = []
    for axis, (low, high) in enumerate(range_):
        room = radius * np.longdouble(1e-15) + np.longdouble(1e-15) * max(abs(low), abs(high)) + 1e-300
        step = radius * np.longdouble(0.00121) + room
        least, most = points[axis].min(), points[axis].max()
        if not (low - room <= least <= low + step and high - step <= most <= high + room):
            differences.append(
                f"{arc}: {low!r} to {high!r} by fractions, {float(least)!r} to {float(most)!r} by points"
            )
    return differences
