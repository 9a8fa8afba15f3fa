"""For property tests: odd shapes and JSON in its many spellings by hypothesis, seeded makers for large numbers."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from tests.oracle.wkb_write import CHILD_KINDS, Shape, write

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "JSON_KEYS",
    "geographies",
    "geometries",
    "geometry_columns",
    "json_objects",
    "json_strings",
    "json_values",
    "make_geographies",
    "make_geometries",
    "star",
    "with_heights",
]

NAN, INF = float("nan"), float("inf")
DIMS = ("XY", "XYZ", "XYM", "XYZM")
WIDTH = {"XY": 2, "XYZ": 3, "XYM": 3, "XYZM": 4}
SIMPLE = (1, 2, 3, 4, 5, 6, 7)
CURVED = (8, 9, 10, 11, 12)

ordinates = st.one_of(
    st.floats(allow_nan=False, width=64),
    st.floats(-180, 180),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, NAN, INF, -INF, 5e-324, 1.7976931348623157e308]),
)


@st.composite
def geometries(draw, kinds=SIMPLE, max_depth: int = 3, ordinate=ordinates) -> Shape:
    """Any tree: dimensions, dialect, byte order and SRID are drawn anew at every level."""
    kind = draw(st.sampled_from(kinds))
    dims = draw(st.sampled_from(DIMS))
    level = {"big": draw(st.booleans()), "ewkb": draw(st.booleans())}
    if level["ewkb"] and draw(st.booleans()):
        level["srid"] = draw(st.sampled_from([0, 4326, 3857, 2**31 - 1]))
    vertex = st.tuples(*[ordinate] * WIDTH[dims])
    if kind == 1:
        return Shape(1, dims, points=tuple(draw(st.lists(vertex, max_size=1))), **level)
    if kind == 2:
        return Shape(2, dims, points=tuple(draw(st.lists(vertex, max_size=6))), **level)
    if kind in (3, 17):
        rings = draw(st.lists(st.lists(vertex, max_size=6).map(tuple), max_size=3 if kind == 3 else 1))
        return Shape(kind, dims, rings=tuple(rings), **level)
    if kind == 8:
        count = draw(st.sampled_from([0, 3, 5, 7]))
        return Shape(8, dims, points=tuple(draw(st.lists(vertex, min_size=count, max_size=count))), **level)
    allowed = [k for k in CHILD_KINDS[kind] if kind != 7 or k in kinds]
    if max_depth <= 1:
        allowed = [k for k in allowed if k not in CHILD_KINDS]
    if not allowed:
        return Shape(kind, dims, **level)
    child = geometries(kinds=tuple(allowed), max_depth=max_depth - 1, ordinate=ordinate)
    return Shape(kind, dims, children=tuple(draw(st.lists(child, max_size=4))), **level)


def geometry_columns(max_size: int = 12) -> st.SearchStrategy[list[bytes | None]]:
    """Rows of a column: WKB values and nulls."""
    return st.lists(st.one_of(st.none(), geometries().map(write)), max_size=max_size)


longitudes = st.one_of(
    st.floats(-180, 180), st.sampled_from([-180.0, 180.0, 0.0, -90.0, 90.0, 179.999999, -179.999999])
)
latitudes = st.one_of(st.floats(-90, 90), st.sampled_from([-90.0, 90.0, 0.0, -60.0, 60.0, 89.999999, -89.999999]))
positions = st.tuples(longitudes, latitudes)


@st.composite
def geographies(draw) -> Shape:
    """Points, lines and their collections in range; polygons come from `star`, which are valid."""
    kind = draw(st.sampled_from([1, 2, 4, 5, 7]))
    if kind == 1:
        return Shape(1, points=(draw(positions),))
    if kind == 2:
        return Shape(2, points=tuple(draw(st.lists(positions, min_size=2, max_size=6))))
    if kind == 4:
        points = draw(st.lists(positions, min_size=1, max_size=5))
        return Shape(4, children=tuple(Shape(1, points=(p,)) for p in points))
    lines = draw(st.lists(st.lists(positions, min_size=2, max_size=4), min_size=1, max_size=3))
    return Shape(kind, children=tuple(Shape(2, points=tuple(line)) for line in lines))


# ---- JSON as text

JSON_KEYS = st.sampled_from(
    ["a", "b", "minValues", "maxValues", "x y", 'q"', "\\", "ü", "", "u0061", "aa", "}", "\U0001f600"]
)
_SPACE = st.sampled_from(["", "", "", " ", "\n\t", "  \r"])
_NUMBERS = st.sampled_from(["1.50", "-0", "1E+2", "12345678901234567890.123456789", "0e0", "7", "1e-400"])


@st.composite
def json_strings(draw: st.DrawFn, text: str) -> str:
    """A string in one of its many spellings."""
    parts = []
    for letter in text:
        plain = json.dumps(letter, ensure_ascii=False)[1:-1]
        escaped = json.dumps(letter)[1:-1] if ord(letter) > 127 else f"\\u{ord(letter):04X}"
        parts.append(draw(st.sampled_from([plain, plain, plain, escaped])))
    return '"' + "".join(parts) + '"'


@st.composite
def json_values(draw: st.DrawFn, depth: int = 3, *, space=_SPACE, numbers=_NUMBERS, keys=JSON_KEYS) -> str:
    """Any value, as it may be written by anybody."""
    kind = draw(st.integers(0, 6 if depth else 3))
    if kind == 0:
        return draw(numbers)
    if kind == 1:
        return draw(st.sampled_from(["true", "false", "null"]))
    if kind <= 3:
        return draw(keys.flatmap(json_strings))
    inner = {"space": space, "numbers": numbers, "keys": keys}
    if kind == 4:
        items = draw(st.lists(json_values(depth - 1, **inner), max_size=3))
        return "[" + ",".join(draw(space) + item + draw(space) for item in items) + "]"
    return draw(json_objects(depth - 1, **inner))


@st.composite
def json_objects(draw: st.DrawFn, depth: int = 3, *, space=_SPACE, numbers=_NUMBERS, keys=JSON_KEYS) -> str:
    """Any object; no key stands twice."""
    inner = {"space": space, "numbers": numbers, "keys": keys}
    members = []
    for key in draw(st.lists(keys, max_size=5, unique=True)):
        value = draw(json_values(depth, **inner))
        members.append(
            "".join([draw(space), draw(json_strings(key)), draw(space), ":", draw(space), value, draw(space)])
        )
    return "{" + (",".join(members) or draw(space)) + "}"


# ---- large numbers from a seed


def make_geometries(seed: int, count: int, kinds=SIMPLE) -> Iterator[Shape]:
    """Many trees fast, with every dimension, dialect and byte order, NaN, infinities, empties, nesting."""
    rng = random.Random(seed)
    for _ in range(count):
        yield _tree(rng, rng.choice(kinds), 4, kinds)


def _ordinate(rng: random.Random) -> float:
    draw = rng.random()
    if draw < 0.80:
        return rng.uniform(-1000.0, 1000.0)
    if draw < 0.90:
        return NAN
    if draw < 0.93:
        return float(rng.randint(-3, 3))
    if draw < 0.97:
        return math.ldexp(rng.uniform(-1, 1), rng.randint(-1070, 1023))
    return rng.choice([0.0, -0.0, INF, -INF, 5e-324, -5e-324, 1.7976931348623157e308])


def _line(rng: random.Random, width: int, count: int) -> tuple[tuple[float, ...], ...]:
    if rng.random() < 0.5:  # half of all lines are free of odd numbers, as most are outside
        flat = [rng.uniform(-180.0, 180.0) for _ in range(width * count)]
    else:
        flat = [_ordinate(rng) for _ in range(width * count)]
    return tuple(tuple(flat[i : i + width]) for i in range(0, width * count, width))


def _tree(rng: random.Random, kind: int, depth: int, kinds) -> Shape:
    dims = DIMS[rng.randrange(4)]
    width = WIDTH[dims]
    bits = rng.getrandbits(3)
    ewkb = bool(bits & 2)
    level = {"big": bool(bits & 1), "ewkb": ewkb, "srid": 4326 if ewkb and bits & 4 else None}
    empty = rng.random() < 0.1
    if kind == 1:
        return Shape(1, dims, points=() if empty else _line(rng, width, 1), **level)
    if kind == 2:
        return Shape(2, dims, points=() if empty else _line(rng, width, rng.randint(1, 8)), **level)
    if kind == 8:
        return Shape(8, dims, points=() if empty else _line(rng, width, rng.choice((3, 5))), **level)
    if kind in (3, 17):
        rings = 0 if empty else 1 if kind == 17 else rng.randint(1, 3)
        made = tuple(_line(rng, width, rng.randint(0, 8)) for _ in range(rings))
        return Shape(kind, dims, rings=made, **level)
    allowed = CHILD_KINDS[kind] if kind != 7 else kinds
    if depth <= 1:
        allowed = [k for k in allowed if k not in CHILD_KINDS]
    count = 0 if empty or not allowed else rng.randint(1, 3)
    made = tuple(_tree(rng, rng.choice(allowed), depth - 1, kinds) for _ in range(count))
    return Shape(kind, dims, children=made, **level)


def _destination(lon: float, lat: float, course: float, distance: float) -> tuple[float, float]:
    """The place at that angle and course (degrees) from a place on the sphere."""
    sin1, cos1 = math.sin(math.radians(lat)), math.cos(math.radians(lat))
    north, east = math.cos(math.radians(course)), math.sin(math.radians(course))
    along, ahead = math.cos(math.radians(distance)), math.sin(math.radians(distance))
    up, side = cos1 * along - sin1 * north * ahead, east * ahead
    z = sin1 * along + cos1 * north * ahead
    new_lon = lon + math.degrees(math.atan2(side, up))
    if not -180 <= new_lon <= 180:
        new_lon -= math.copysign(360, new_lon)
    return max(-180.0, min(180.0, new_lon)), math.degrees(math.atan2(z, math.hypot(up, side)))


def star(rng: random.Random, lon: float, lat: float, size: float, holes: bool = False):
    """A polygon that is seen whole from its centre, and some points inside it.

    Gaps between the courses stay below 120 degrees, so the centre is inside whatever the distances are.
    """
    count = rng.randint(4, 9)
    turn = rng.uniform(0, 360)
    courses = [turn + 360 * (i + rng.uniform(-0.15, 0.15)) / count for i in range(count)]
    distances = [size * rng.uniform(0.3, 1) for _ in courses]
    ring = [_destination(lon, lat, c, d) for c, d in zip(courses, distances, strict=True)]
    ring.append(ring[0])
    if rng.random() < 0.5:
        ring.reverse()
    rings = [tuple(ring)]
    inside = [
        _destination(lon, lat, c, d * part) for c, d in zip(courses, distances, strict=True) for part in (0.9, 0.99)
    ]
    if holes:
        # The inner ring is a third of the smallest distance that an edge of the shell can come to.
        small = min(distances) * 0.3
        hole = [_destination(lon, lat, c, small) for c in courses]
        hole.append(hole[0])
        rings.append(tuple(hole))
    else:
        inside.append((lon, lat))
    return Shape(3, rings=tuple(rings)), inside


def _random_point(rng: random.Random) -> tuple[float, float]:
    draw = rng.random()
    if draw < 0.6:
        return rng.uniform(-180, 180), math.degrees(math.asin(rng.uniform(-1, 1)))
    if draw < 0.75:
        return float(rng.randrange(-180, 181, 30)), float(rng.randrange(-90, 91, 15))
    if draw < 0.9:
        return math.copysign(180 - 10 ** rng.uniform(-9, 1), rng.random() - 0.5), rng.uniform(-80, 80)
    return rng.uniform(-180, 180), math.copysign(90 - 10 ** rng.uniform(-9, 1), rng.random() - 0.5)


def _path(rng: random.Random, count: int) -> tuple[tuple[float, float], ...]:
    lon, lat = _random_point(rng)
    reach = 10 ** rng.uniform(-7, 2.2)
    path = [(lon, lat)]
    for _ in range(count - 1):
        draw = rng.random()
        if draw < 0.1:
            lon, lat = _random_point(rng)
        elif draw < 0.2:
            lon, _ = _random_point(rng)  # along a parallel
        elif draw < 0.25:
            lat = rng.uniform(-90, 90)  # along a meridian
        else:
            lon, lat = _destination(lon, lat, rng.uniform(0, 360), reach)
        path.append((lon, lat))
    return tuple(path)


def make_geographies(seed: int, count: int) -> Iterator[tuple[Shape, list[tuple[float, float]]]]:
    """Many geographies in range, each with some points that lie inside its polygons."""
    rng = random.Random(seed)
    for _ in range(count):
        draw = rng.random()
        if draw < 0.10:
            yield Shape(1, points=(_random_point(rng),)), []
        elif draw < 0.20:
            points = [_random_point(rng) for _ in range(rng.randint(1, 6))]
            yield Shape(4, children=tuple(Shape(1, points=(p,)) for p in points)), []
        elif draw < 0.50:
            yield Shape(2, points=_path(rng, rng.randint(2, 6))), []
        elif draw < 0.60:
            lines = (Shape(2, points=_path(rng, rng.randint(2, 4))) for _ in range(rng.randint(1, 3)))
            yield Shape(5, children=tuple(lines)), []
        elif draw < 0.90:
            yield _some_star(rng)
        else:
            stars = [_some_star(rng) for _ in range(rng.randint(1, 2))]
            yield Shape(6, children=tuple(s for s, _ in stars)), [p for _, inside in stars for p in inside]


def _some_star(rng: random.Random):
    lon, lat = _random_point(rng)
    if rng.random() < 0.2:
        lat = math.copysign(rng.uniform(60, 90), rng.random() - 0.5)
    return star(rng, lon, lat, 10 ** rng.uniform(-4, 1.85), holes=rng.random() < 0.3)


def with_heights(rng: random.Random, shape: Shape, dims: str) -> Shape:
    """The shape in these dimensions; one height or measure in ten is NaN."""

    def vertex(point: tuple[float, ...]) -> tuple[float, ...]:
        more = (NAN if rng.random() < 0.1 else rng.uniform(-1e4, 1e4) for _ in range(WIDTH[dims] - 2))
        return (*point, *more)

    return replace(
        shape,
        dims=dims,
        points=tuple(vertex(point) for point in shape.points),
        rings=tuple(tuple(vertex(point) for point in ring) for ring in shape.rings),
        children=tuple(with_heights(rng, child, dims) for child in shape.children),
    )
