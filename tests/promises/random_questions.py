"""Random windows and filters, and which rows satisfy them by shapely and by engines that read every row.

A question is a tree: windows and relations are evaluated by shapely on the shapes that were read, and by points on
great circles where they are geographies, filters of plain columns by the SQL of an engine in its list of columns,
where no file can be skipped, and AND, OR, NOT by SQL's three values here.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import shapely
from shapely.affinity import translate

from geolake_nb.expressions.predicate import And, Not, Or, Predicate, Spatial
from geolake_nb.expressions.predicate_sql import parse_predicate
from geolake_nb.model.box import Box
from geolake_nb.model.operators import SpatialOp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from tests.promises.arc_queries import Arcs

__all__ = ["OF_PARTITIONS", "WORDS", "Filter", "Question", "Scan", "draw_questions", "filters_of"]

WORDS = ("anna", "Anna", "BERT", "bert", "Ärger", "ärger", "zoë", "ZOË", "", "straße", "Zürich", "m", "M", "émile")
GEO = ("geom", "place")
OF_PARTITIONS = (
    "part = 'a/b: 1%'",
    "part <> 'ü'",
    "part < 'b'",
    "part >= 'ü'",
    "part IN ('ü', 'k=v', 'nowhere')",
    "part IS NULL",
    "level = 10",
    "level < 2",
    "level > 2",  # as texts 10 would not be
    "level IN (-3, 10)",
    "level IS NOT NULL",
    "since = DATE '2024-02-29'",
    "since <= DATE '1969-12-31'",
    "since > DATE '1969-12-31'",
    "since IN (DATE '1969-12-31', DATE '2030-01-01')",
    "since IS NULL",
)
"""Comparisons of `part`, `level` and `since`, which some tables are partitioned by."""


@dataclass(frozen=True, slots=True)
class Scan:
    """Every live row as one engine read it, in the order of the ids."""

    ids: np.ndarray
    shapes: Mapping[str, np.ndarray]
    answers: Mapping[str, tuple[np.ndarray, np.ndarray]]
    """Of each filter: where it is true, and where it is false; it is neither where it is null."""
    arcs: Mapping[str, Arcs] = field(default_factory=dict)
    """Of the columns of geographies."""


@dataclass(frozen=True, slots=True)
class Window:
    """Rows whose shape meets a box, or lies within it; a box may run over the antimeridian."""

    column: str
    box: Box
    within: bool = False

    def predicate(self) -> Predicate:
        return Spatial.of(SpatialOp.WITHIN if self.within else SpatialOp.INTERSECTS, self.column, self.box)

    def evaluate(self, scan: Scan) -> tuple[np.ndarray, np.ndarray]:
        shapes = shapely.force_2d(scan.shapes[self.column])
        box = self.box
        if box.xmin <= box.xmax:
            area = shapely.box(box.xmin, box.ymin, box.xmax, box.ymax)
        else:
            west, east = (box.xmin, 180.0), (-180.0, box.xmax)
            area = shapely.union_all([shapely.box(low, box.ymin, other, box.ymax) for low, other in (west, east)])
        shapely.prepare(area)
        if self.column in scan.arcs:
            return scan.arcs[self.column].meet(area)
        test = shapely.covered_by if self.within else shapely.intersects
        true = test(shapes, area) & ~shapely.is_missing(shapes)
        return true, ~true & ~shapely.is_missing(shapes)


TESTS = {
    SpatialOp.CONTAINS: shapely.contains,
    SpatialOp.COVERED_BY: shapely.covered_by,
    SpatialOp.COVERS: shapely.covers,
    SpatialOp.CROSSES: shapely.crosses,
    SpatialOp.EQUALS: shapely.equals,
    SpatialOp.INTERSECTS: shapely.intersects,
    SpatialOp.OVERLAPS: shapely.overlaps,
    SpatialOp.TOUCHES: shapely.touches,
    SpatialOp.WITHIN: shapely.within,
}
"""What decides each relation of a row to a query."""
_OF_AREAS = {SpatialOp.CONTAINS, SpatialOp.COVERS, SpatialOp.OVERLAPS, SpatialOp.TOUCHES}


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows whose geometry lies so to a shape."""

    op: SpatialOp
    shape: Any
    column: str = "geom"

    def predicate(self) -> Predicate:
        return Spatial.of(self.op, self.column, self.shape)

    def evaluate(self, scan: Scan) -> tuple[np.ndarray, np.ndarray]:
        shapes = shapely.force_2d(scan.shapes[self.column])
        true = TESTS[self.op](shapes, self.shape) & ~shapely.is_missing(shapes)
        return true, ~true & ~shapely.is_missing(shapes)


@dataclass(frozen=True, slots=True)
class Filter:
    """A comparison of a plain column, in SQL that all engines take alike."""

    sql: str

    def predicate(self) -> Predicate:
        return parse_predicate(self.sql)

    def evaluate(self, scan: Scan) -> tuple[np.ndarray, np.ndarray]:
        return scan.answers[self.sql]


@dataclass(frozen=True, slots=True)
class Compound:
    """AND and OR of two questions, or NOT of one."""

    word: str
    parts: tuple[Question, ...]

    def predicate(self) -> Predicate:
        predicates = [part.predicate() for part in self.parts]
        return Not(predicates[0]) if self.word == "NOT" else {"AND": And, "OR": Or}[self.word](tuple(predicates))

    def evaluate(self, scan: Scan) -> tuple[np.ndarray, np.ndarray]:
        (true, false), *rest = [part.evaluate(scan) for part in self.parts]
        for other_true, other_false in rest:
            if self.word == "AND":
                true, false = true & other_true, false | other_false
            else:
                true, false = true | other_true, false & other_false
        return (false, true) if self.word == "NOT" else (true, false)


Question = Window | Relation | Filter | Compound


def draw_questions(
    seed: int, count: int, scan: Scan, filters: Sequence[str], windowed: Sequence[str] = ()
) -> list[Question]:
    """So many questions around the rows of a scan, and some that are always included: `windowed` with a window."""
    rng = random.Random(seed)
    world = Box(-180, -90, 180, 90)
    fixed: list[Question] = [Window(name, world) for name in GEO]
    fixed += [Window("place", Box(179, -90, -179, 90)), Window("geom", Box(179.5, -60, -179.5, 60))]
    fixed += [Window("geom", Box(1e-9, 89.9, 2e-9, 89.9)), Window("place", Box(-180, -90, -180, 90))]
    fixed += [Window("place", Box(-1, 87.4, 1, 87.6))]  # between the ends of a line that has no vertex there
    fixed += [Filter(sql) for sql in filters]
    fixed += [_relation(rng, op, scan, moved=moved) for op in SpatialOp for moved in (False, True)]
    drawn = [_draw(rng, scan, filters, depth=rng.choice((0, 0, 1, 1, 2))) for _ in range(count)]
    drawn += [Compound(word, (Filter(sql), _window(rng, scan))) for sql in windowed for word in ("AND", "OR")]
    return [*fixed, *drawn]


def _draw(rng: random.Random, scan: Scan, filters: Sequence[str], *, depth: int) -> Question:
    if depth == 0:
        way = rng.random()
        if way < 0.25:
            return _relation(rng, rng.choice(list(SpatialOp)), scan, moved=rng.random() < 0.5)
        return Filter(rng.choice(filters)) if way < 0.5 else _window(rng, scan)
    word = rng.choice(("AND", "AND", "OR", "NOT"))
    parts = [_draw(rng, scan, filters, depth=depth - 1) for _ in range(1 if word == "NOT" else 2)]
    return Compound(word, tuple(parts))


def _relation(rng: random.Random, op: SpatialOp, scan: Scan, *, moved: bool) -> Relation:
    """A shape to which some row lies so, or such a shape in another place, where few rows do or none."""
    kind = "LineString" if op is SpatialOp.CROSSES else "Polygon" if op in _OF_AREAS else None
    geometries = [candidate for candidate in scan.shapes["geom"] if candidate is not None and not candidate.is_empty]
    row = rng.choice(
        [candidate for candidate in geometries if kind is None or (candidate.geom_type == kind and candidate.length)]
    )
    shape = _shape_for(rng, op, row)
    return Relation(op, translate(shape, rng.uniform(-30, 30), rng.uniform(-30, 30)) if moved else shape)


def _shape_for(rng: random.Random, op: SpatialOp, row: Any) -> Any:
    low_x, low_y, high_x, high_y = row.bounds
    middle, size = row.centroid, 10 ** rng.uniform(-2, 1)
    match op:
        case SpatialOp.EQUALS:
            return shapely.reverse(row)
        case SpatialOp.CONTAINS | SpatialOp.COVERS:
            return rng.choice((middle, shapely.Polygon([(low_x, low_y), (high_x, low_y), (middle.x, middle.y)])))
        case SpatialOp.TOUCHES:  # they share an edge
            return shapely.Polygon([(low_x, low_y), (low_x, high_y), (low_x - size, high_y + size)])
        case SpatialOp.OVERLAPS:  # one corner lies within the row
            return shapely.Polygon([(middle.x, middle.y), (high_x + size, middle.y), (high_x + size, high_y + size)])
        case SpatialOp.CROSSES:  # around one end of the line alone
            return shapely.Point(row.coords[0]).buffer(row.length / 3, quad_segs=2)
    # Around the row, and less than the box around it.
    return middle.buffer(size + max(high_x - low_x, high_y - low_y), quad_segs=2)


def _window(rng: random.Random, scan: Scan) -> Window:
    column = rng.choice(GEO)
    row = rng.choice([shape for name in GEO for shape in scan.shapes[name] if shape is not None and not shape.is_empty])
    x, y = row.centroid.coords[0]
    if column in scan.arcs and rng.random() < 0.5:  # on an edge, which is not where a plane has it
        x, y = map(float, rng.choice(scan.arcs[column].points))
    width, height = 10 ** rng.uniform(-3, 1.5), 10 ** rng.uniform(-3, 1.5)
    way = rng.random()
    if way < 0.15:  # a row itself, as a point
        return Window(column, Box(x, y, x, y))
    if way < 0.35:  # over the antimeridian
        return Window(column, Box(180 - width, y - height, -180 + width, y + height))
    x += rng.uniform(-width, width)
    y += rng.uniform(-height, height)
    low, high = max(-180.0, min(180.0, x - width)), max(-180.0, min(180.0, x + width))
    bottom, top = max(-90.0, min(90.0, y - height)), max(-90.0, min(90.0, y + height))
    return Window(column, Box(low, bottom, high, top), within=column == "geom" and rng.random() < 0.3)


def filters_of(seed: int, count: int, ids: int) -> list[str]:
    """Comparisons of `id`, `n`, `x`, `name` and `day`: numbers, NaN, texts, dates and nulls."""
    rng = random.Random(seed)
    made = [
        "n IS NULL",
        "name IS NOT NULL",
        "x IS NOT NULL",
        "day IS NULL",
        "name = ''",
        "n <> 3",
        "id < 0",
        "name > 'Z'",
        "x > 1e300",
    ]
    signs = ("=", "<>", "<", "<=", ">", ">=")
    for _ in range(count):
        sign = rng.choice(signs)
        way = rng.randrange(6)
        if way == 0:
            made.append(f"id {sign} {rng.randrange(ids)}")
        elif way == 1:
            made.append(f"n {sign} {rng.randint(-6, 60)}")
        elif way == 2:
            low = rng.randint(-5, 50)
            made.append(f"n BETWEEN {low} AND {low + rng.randint(0, 9)}")
        elif way == 3:
            made.append(f"x {sign} {rng.choice((0.0, -1.5, rng.uniform(-100, 100)))}")
        elif way == 4:
            some = ", ".join(_text(word) for word in rng.sample(WORDS, 2))
            made.append(f"name IN ({some})" if sign in "=<>" else f"name {sign} {_text(rng.choice(WORDS))}")
        else:
            made.append(f"day {sign} DATE '20{rng.randint(10, 30)}-0{rng.randint(1, 9)}-1{rng.randint(0, 9)}'")
    return list(dict.fromkeys(made))


def _text(word: str) -> str:
    return "'" + word.replace("'", "''") + "'"
