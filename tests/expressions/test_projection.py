from __future__ import annotations

import datetime as dt
import math
import time
from decimal import Decimal

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyproj
import pytest
import shapely
from hypothesis import given, settings

from geolake_nb.errors import BoundError, PredicateError
from geolake_nb.expressions.binding import bind
from geolake_nb.expressions.predicate import (
    And,
    Comparison,
    ComparisonOp,
    In,
    IsNull,
    Not,
    Or,
    Spatial,
    SpatialOp,
    st_contains,
    st_covers,
    st_equals,
    st_intersects,
    st_within,
)
from geolake_nb.expressions.predicate_sql import parse_predicate
from geolake_nb.expressions.projection import CollatedColumn, Statistics, Verdict, project, verdict
from geolake_nb.model.box import Box
from geolake_nb.model.collation import Collation
from geolake_nb.model.crs import Crs
from geolake_nb.model.schema import Schema
from geolake_nb.model.statistics import BoxColumn, ScalarColumn
from geolake_nb.model.types import (
    EdgeAlgorithm,
    Field,
    GeographyType,
    GeometryType,
    PrimitiveType,
    RasterType,
    StringType,
    StructType,
)

CANNOT, UNKNOWN, MIGHT = Verdict.CANNOT_MATCH, Verdict.UNKNOWN, Verdict.MIGHT_MATCH
SCHEMA = Schema(
    StructType((
        Field("geom", GeometryType()),
        Field("geog", GeographyType()),
        Field("tile", RasterType()),
        Field("mercator", GeometryType(Crs("EPSG:3857"))),
        Field("plane", GeometryType(Crs("SRID:0"))),
        Field("n", PrimitiveType("int64")),
        Field("f", PrimitiveType("float64")),
        Field("f32", PrimitiveType("float32")),
        Field("price", PrimitiveType("decimal(10, 2)")),
        Field("name", StringType()),
        Field("ort", StringType(Collation("icu", "de"))),
        Field("flag", PrimitiveType("boolean")),
        Field("day", PrimitiveType("date")),
        Field("at", PrimitiveType("timestamptz")),
        Field("local", PrimitiveType("timestamp")),
        Field("clock", PrimitiveType("time")),
        Field("raw", PrimitiveType("binary")),
        Field("key", PrimitiveType("uuid")),
    ))
)  # fmt: skip
NEEDS_A_COMMON_POINT = [op for op in SpatialOp if op not in (SpatialOp.CONTAINS, SpatialOp.COVERS, SpatialOp.EQUALS)]


def on_box(predicate, box, **options):
    return verdict(bind(predicate, SCHEMA), box, **options)


def on_scalars(predicate, **columns):
    count = len(next(iter(columns.values())))
    bound = bind(parse_predicate(predicate) if isinstance(predicate, str) else predicate, SCHEMA)
    scalars = {(name,): column for name, column in columns.items()}
    return project(bound, Statistics(count, scalars=scalars)).verdicts.tolist()


# Boxes, the plain rules


@pytest.mark.parametrize("op", NEEDS_A_COMMON_POINT)
def test_a_common_point_needs_boxes_that_meet(op):
    predicate = Spatial.of(op, "geom", Box(0, 0, 10, 10))
    assert on_box(predicate, Box(5, 5, 6, 6)) is MIGHT
    assert on_box(predicate, Box(10, 10, 20, 20)) is MIGHT
    assert on_box(predicate, Box(-5, -5, 20, 20)) is MIGHT
    assert on_box(predicate, Box(11, 0, 20, 10)) is CANNOT
    assert on_box(predicate, Box(0, -2, 10, -1)) is CANNOT
    assert on_box(predicate, None) is UNKNOWN


@pytest.mark.parametrize("op", [SpatialOp.CONTAINS, SpatialOp.COVERS, SpatialOp.EQUALS])
def test_a_row_that_holds_the_query_needs_a_box_that_does(op):
    predicate = Spatial.of(op, "geom", Box(0, 0, 10, 10))
    assert on_box(predicate, Box(0, 0, 10, 10)) is MIGHT
    assert on_box(predicate, Box(-5, -5, 20, 20)) is MIGHT
    assert on_box(predicate, Box(0, 0, 9, 10)) is CANNOT
    assert on_box(predicate, Box(5, 5, 20, 20)) is CANNOT
    assert on_box(predicate, None) is UNKNOWN


def test_z_and_m_are_ignored():
    assert on_box(st_intersects("geom", "POINT Z (1 1 99)"), Box(0, 0, 2, 2, 0, 1)) is MIGHT


@pytest.mark.parametrize("op", SpatialOp)
def test_a_file_of_nulls_and_empties_matches_nothing_but_a_negation(op):
    predicate = Spatial.of(op, "geom", Box(0, 0, 10, 10))
    assert on_box(predicate, None, only_null_or_empty=True) is CANNOT
    assert on_box(~predicate, None, only_null_or_empty=True) is MIGHT


@pytest.mark.parametrize("op", SpatialOp)
def test_an_empty_query_equals_empties_only(op):
    # shapely and PostGIS: no relation with an empty geometry holds, but two empty ones are equal.
    predicate = Spatial.of(op, "geom", "POLYGON EMPTY")
    expected = MIGHT if op is SpatialOp.EQUALS else CANNOT
    assert on_box(predicate, Box(0, 0, 1, 1)) is expected
    assert on_box(predicate, None, only_null_or_empty=True) is expected
    assert on_box(~predicate, Box(0, 0, 1, 1)) is MIGHT


def test_a_file_of_nulls_matches_not_even_a_negation():
    boxes = BoxColumn.from_boxes([None, None])
    nulls = ScalarColumn(pa.nulls(2, pa.null()), pa.nulls(2), pa.array([3, 2]), pa.array([3, 3]))
    statistics = Statistics(2, boxes={("geom",): boxes}, scalars={("geom",): nulls})
    bound = bind(st_intersects("geom", "POINT (1 2)"), SCHEMA)
    assert project(bound, statistics).verdicts.tolist() == [CANNOT, UNKNOWN]
    assert project(~bound, statistics).verdicts.tolist() == [CANNOT, UNKNOWN]
    is_null = bind(IsNull("geom"), SCHEMA)
    assert project(is_null, statistics).verdicts.tolist() == [MIGHT, MIGHT]
    assert project(~is_null, statistics).verdicts.tolist() == [CANNOT, MIGHT]


def test_a_negation_is_never_ruled_out_by_a_box():
    predicate = st_intersects("geom", Box(-100, -100, 100, 100))
    assert on_box(~predicate, Box(0, 0, 1, 1)) is MIGHT
    assert on_box(~predicate, None) is UNKNOWN


def test_a_box_may_miss_a_vertex_by_a_rounding():
    # Specs, Foreign boxes: off by some 1e-14 degrees.
    assert on_box(st_intersects("geom", "POINT (100 0)"), Box(0, 0, 100 - 3e-14, 1)) is MIGHT
    assert on_box(st_contains("geom", "POINT (100 0)"), Box(0, 3e-14, 100 - 3e-14, 1)) is MIGHT


def test_a_box_that_cannot_be_true_is_unknown():
    nan, inf = np.nan, np.inf
    boxes = BoxColumn.from_sides([0, nan, 0, -inf], [0, 0, 5, -inf], [1, 1, nan, inf], [1, 1, 4, inf])
    bound = bind(st_intersects("geom", "POINT (50 50)"), SCHEMA)
    verdicts = project(bound, Statistics(4, boxes={("geom",): boxes})).verdicts.tolist()
    assert verdicts == [CANNOT, UNKNOWN, UNKNOWN, MIGHT]


# Longitudes


@pytest.mark.parametrize("column", ["geog", "tile"])
def test_the_antimeridian_is_one_meridian(column):
    west, east = Box(-180, 0, -170, 10), Box(170, 0, 180, 10)
    assert on_box(st_intersects(column, west), east) is MIGHT
    assert on_box(st_intersects(column, east), west) is MIGHT
    assert on_box(st_contains(column, "POINT (-180 5)"), east) is MIGHT
    assert on_box(st_contains(column, "POINT (180 5)"), west) is MIGHT
    assert on_box(st_equals(column, "POINT (180 5)"), Box(-180, 5, -180, 5)) is MIGHT
    assert on_box(st_contains(column, "POINT (-180 5)"), Box(170, 0, 179, 10)) is CANNOT
    assert on_box(st_intersects(column, west), Box(170, 0, 179, 10)) is CANNOT


def test_a_plane_has_no_antimeridian():
    assert on_box(st_intersects("geom", Box(-180, 0, -170, 10)), Box(170, 0, 180, 10)) is CANNOT


@pytest.mark.parametrize("column", ["geom", "geog", "tile"])
def test_wrapped_boxes_of_files(column):
    fiji = Box(170, -20, -170, -10)
    assert on_box(st_intersects(column, "POINT (175 -15)"), fiji) is MIGHT
    assert on_box(st_intersects(column, "POINT (-175 -15)"), fiji) is MIGHT
    assert on_box(st_intersects(column, "POINT (0 -15)"), fiji) is CANNOT
    assert on_box(st_contains(column, Box(171, -16, 179, -15)), fiji) is MIGHT
    assert on_box(st_contains(column, Box(-160, -16, -150, -15)), fiji) is CANNOT
    assert on_box(st_contains(column, "MULTIPOINT ((171 -15), (-171 -15))"), fiji) is MIGHT
    assert on_box(st_contains(column, "MULTIPOINT ((171 -15), (0 -15))"), fiji) is CANNOT


@pytest.mark.parametrize("column", ["geom", "geog", "tile"])
def test_wrapped_boxes_of_queries(column):
    fiji = st_intersects(column, Box(170, -20, -170, -10))
    assert on_box(fiji, Box(175, -15, 176, -14)) is MIGHT
    assert on_box(fiji, Box(-176, -15, -175, -14)) is MIGHT
    assert on_box(fiji, Box(0, -15, 160, -14)) is CANNOT
    assert on_box(fiji, Box(160, -15, -175, -14)) is MIGHT
    covers = st_covers(column, Box(170, -20, -170, -10))
    assert on_box(covers, Box(-180, -90, 180, 90)) is MIGHT
    assert on_box(covers, Box(160, -30, -160, 0)) is MIGHT
    assert on_box(covers, Box(175, -30, -160, 0)) is CANNOT
    assert on_box(covers, Box(-180, -90, 0, 90)) is CANNOT


def test_two_wrapped_boxes_meet():
    assert on_box(st_intersects("geog", Box(179, 0, -179, 1)), Box(100, 0, -100, 1)) is MIGHT


def test_a_pole_has_every_longitude():
    pole = st_intersects("geog", "POINT (0 90)")
    assert on_box(pole, Box(90, 80, 91, 90)) is MIGHT
    assert on_box(pole, Box(90, 80, 91, 89)) is CANNOT
    assert on_box(st_contains("geog", "POINT (0 -90)"), Box(90, -90, 91, -80)) is MIGHT
    assert on_box(st_contains("geog", "LINESTRING (0 80, 123 90)"), Box(0, 80, 0, 90)) is MIGHT


def test_ambiguous_longitudes_exclude_no_file():
    assert on_box(st_intersects("geog", "POINT (-170 0)"), Box(185, -1, 195, 1)) is MIGHT
    assert on_box(st_intersects("geog", "POINT (190 0)"), Box(-171, -1, -169, 1)) is MIGHT
    assert on_box(st_intersects("tile", Box(185, -1, 195, 1)), Box(-171, -1, -169, 1)) is MIGHT
    assert on_box(st_intersects("tile", Box(185, -1, 195, 1)), Box(-171, 2, -169, 3)) is CANNOT


@pytest.mark.parametrize("algorithm", EdgeAlgorithm)
def test_the_edges_of_a_query_on_a_geography_are_geodesics(algorithm):
    # Specs, Geography boxes: between (0, 60) and (90, 60) the great circle reaches above 67 degrees.
    schema = Schema(StructType((Field("geog", GeographyType(algorithm=algorithm)),)))
    arc = bind(st_intersects("geog", "LINESTRING (0 60, 90 60)"), schema)
    assert verdict(arc, Box(44, 67, 46, 67.5)) is MIGHT
    assert verdict(arc, Box(44, 60, 46, 60)) is MIGHT  # as an engine on a plane sees it
    assert verdict(arc, Box(44, 50, 46, 59)) is CANNOT
    holds = bind(st_contains("geog", "LINESTRING (0 60, 90 60)"), schema)
    assert verdict(holds, Box(0, 60, 90, 67.8)) is MIGHT
    assert verdict(holds, Box(10, 60, 90, 67.8)) is CANNOT


# Other coordinate reference systems


def test_the_query_is_moved_to_the_column():
    berlin = st_intersects("mercator", Box(13, 52, 14, 53), crs="OGC:CRS84")
    x, y = pyproj.Transformer.from_crs("OGC:CRS84", "EPSG:3857", always_xy=True).transform(13.4, 52.5)
    assert on_box(berlin, Box(x, y, x, y)) is MIGHT
    assert on_box(berlin, Box(x + 1e6, y, x + 1e6, y)) is CANNOT
    tile = st_within("tile", Box(x - 10_000, y - 10_000, x + 10_000, y + 10_000), crs="EPSG:3857")
    assert on_box(tile, Box(13.4, 52.5, 13.4, 52.5)) is MIGHT
    assert on_box(tile, Box(20, 52.5, 20, 52.5)) is CANNOT


def test_the_same_crs_under_another_name_moves_nothing():
    point = st_intersects("geom", "POINT (1 1)", crs="EPSG:4326")
    assert on_box(point, Box(1 + 1e-6, 1, 2, 2)) is CANNOT


@pytest.mark.parametrize(
    ("predicate", "reason"),
    [
        (st_intersects("plane", "POINT (1 1)", crs="EPSG:4326"), "the CRS is unknown"),
        (st_intersects("geom", "POINT (1 1)", crs="SRID:0"), "the CRS is unknown"),
        (st_intersects("geom", "POINT (1 1)", crs="EPSG:999999"), "PROJ does not know this CRS"),
        (st_intersects("mercator", Box(0, 80, 1, 95), crs="OGC:CRS84"), "outside the area of the column's CRS"),
        (st_intersects("geom", Box(3e7, 0, 4e7, 1e6), crs="EPSG:32632"), "outside the area of the column's CRS"),
        (st_intersects("geom", Box(0, 0, 4e7, 1e6), crs="EPSG:3857"), "where the two can be transformed"),
    ],
)  # fmt: skip
def test_what_cannot_be_moved_is_unknown_and_says_why(predicate, reason):
    bound = bind(predicate, SCHEMA)
    boxes = BoxColumn.from_boxes([Box(50, 50, 51, 51)])
    result = project(bound, Statistics(1, boxes={bound.column: boxes}))
    assert result.verdicts.tolist() == [UNKNOWN]
    assert len(result.reasons) == 1
    assert reason in result.reasons[0].text


CRSES = [
    "EPSG:3857",
    "EPSG:32633",
    "EPSG:3995",
    "EPSG:3031",
    "EPSG:3832",
    "EPSG:27700",
    "EPSG:2180",
    "EPSG:3035",
]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(CRSES), st.data())
def test_no_point_of_a_moved_query_is_lost(code, data):
    area = pyproj.CRS(code).area_of_use
    there = pyproj.Transformer.from_crs("OGC:CRS84", code, always_xy=True)
    back = pyproj.Transformer.from_crs(code, "OGC:CRS84", always_xy=True)
    width = area.east - area.west + (360 if area.west > area.east else 0)
    fraction = st.floats(0.02, 0.98)
    longitude = (area.west + width * data.draw(fraction) + 180) % 360 - 180
    latitude = area.south + (area.north - area.south) * data.draw(fraction)
    x, y = there.transform(longitude, latitude)
    size = 10 ** data.draw(st.floats(0, 5.5))
    query = Box(x - size, y - size, x + size, y + size)
    for column, kind in (("geom", "planar"), ("tile", "circular"), ("geog", "geodesic")):
        bound = bind(st_intersects(column, query, crs=code), SCHEMA)
        px = x + size * data.draw(st.floats(-1, 1))
        py = y + size * data.draw(st.floats(-1, 1))
        east, north = back.transform(px, py)
        if math.isfinite(east) and math.isfinite(north):
            assert verdict(bound, Box(east, north, east, north)) is not CANNOT, kind
    corners = [back.transform(x + a * size, y + b * size) for a in (-1, 1) for b in (-1, 1)]
    if np.isfinite(corners).all():
        holds_it = bind(st_contains("geom", query, crs=code), SCHEMA)
        assert verdict(holds_it, Box(*shapely.MultiPoint(corners).bounds)) is not CANNOT


# Soundness against shapely

SMALL = st.integers(-3, 3)
NEAR_180 = st.sampled_from([-180.0, -179.5, -179.0, 179.0, 179.5, 180.0])
XS = st.one_of(SMALL, NEAR_180)
POINTS = st.builds(shapely.Point, XS, SMALL)
LINES = st.lists(st.tuples(XS, SMALL), min_size=2, max_size=3, unique=True).map(shapely.LineString)
BOXES = st.tuples(SMALL, SMALL, st.integers(1, 3), st.integers(1, 3)).map(
    lambda side: shapely.box(side[0], side[1], side[0] + side[2], side[1] + side[3])
)
TRIANGLES = st.lists(st.tuples(SMALL, SMALL), min_size=3, max_size=3, unique=True).map(shapely.Polygon)
EMPTIES = st.sampled_from([shapely.Point(), shapely.Polygon(), shapely.GeometryCollection()])
MULTIPOINTS = st.lists(st.tuples(XS, SMALL), min_size=1, max_size=3).map(shapely.MultiPoint)
SHAPES = st.one_of(POINTS, LINES, BOXES, TRIANGLES.filter(lambda shape: shape.is_valid), MULTIPOINTS, EMPTIES)
ROWS = st.fixed_dictionaries({
    "geom": st.none() | SHAPES,
    "n": st.none() | st.integers(-2, 2),
    "f": st.none() | st.sampled_from([-1.0, 0.0, 0.5, 1.0, math.nan]),
    "name": st.none() | st.sampled_from(["", "a", "ab", "abc", "b", "é"]),
})  # fmt: skip
FILES = st.lists(st.lists(ROWS, min_size=1, max_size=4), min_size=1, max_size=3)
LEAVES = st.one_of(
    st.builds(Spatial.of, st.sampled_from(SpatialOp), st.just("geom"), SHAPES),
    st.builds(Comparison, st.sampled_from(ComparisonOp), st.just(("n",)), st.sampled_from([-2, 0, 0.5, 2])),
    st.builds(Comparison, st.sampled_from(ComparisonOp), st.just(("f",)), st.sampled_from([-1, 0.5, 1])),
    st.builds(Comparison, st.sampled_from(ComparisonOp), st.just(("name",)), st.sampled_from(["", "ab", "b"])),
    st.builds(In, st.just(("n",)), st.lists(st.integers(-2, 2), min_size=1, max_size=3).map(tuple)),
    st.sampled_from(["geom", "n", "f"]).map(IsNull),
)
FILTERS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda negated: ~negated),
        st.lists(inner, min_size=2, max_size=3).map(lambda many: And(tuple(many))),
        st.lists(inner, min_size=2, max_size=3).map(lambda many: Or(tuple(many))),
    ),
    max_leaves=5,
)
COMPARE = {
    ComparisonOp.EQ: lambda a, b: a == b,
    ComparisonOp.NE: lambda a, b: a != b,
    ComparisonOp.LT: lambda a, b: a < b,
    ComparisonOp.LE: lambda a, b: a <= b,
    ComparisonOp.GT: lambda a, b: a > b,
    ComparisonOp.GE: lambda a, b: a >= b,
}


def holds(predicate, row, nan):
    """SQL's three values; NaN as IEEE 754 has it, or as the greatest number, as Spark does."""
    if isinstance(predicate, Not):
        inner = holds(predicate.operand, row, nan)
        return None if inner is None else not inner
    if isinstance(predicate, (And, Or)):
        inner = [holds(operand, row, nan) for operand in predicate.operands]
        decisive = isinstance(predicate, Or)
        return decisive if decisive in inner else None if None in inner else not decisive
    value = row[predicate.column[0]]
    if isinstance(predicate, IsNull):
        return value is None
    if type(predicate).__name__ == "IsNotNull":
        return value is not None
    if value is None:
        return None
    if isinstance(predicate, Spatial):
        return bool(getattr(shapely, predicate.op.name.lower())(value, shapely.from_wkb(predicate.geometry)))
    value = nan if isinstance(value, float) and math.isnan(value) else value
    if isinstance(predicate, In):
        return value in predicate.values
    if isinstance(value, str):
        return COMPARE[predicate.op](value.encode(), predicate.value.encode())
    return COMPARE[predicate.op](value, predicate.value)


def bounds_of(values, kind):
    if kind == pa.float64():
        values = [value for value in values if value is not None and not math.isnan(value)]
    values = [value for value in values if value is not None]
    key = (lambda value: value.encode()) if kind == pa.string() else None
    return (min(values, key=key), max(values, key=key)) if values else (None, None)


def statistics_of(files, truncated=False):
    places = [[row["geom"] for row in rows if row["geom"] is not None and not row["geom"].is_empty] for rows in files]
    boxes = [Box(*shapely.total_bounds(shapes)) if shapes else None for shapes in places]
    scalars = {}
    for name, kind in (("n", pa.int64()), ("f", pa.float64()), ("name", pa.string())):
        ends = [bounds_of([row[name] for row in rows], kind) for rows in files]
        if kind == pa.string() and truncated:
            ends = [(low and low[:1], high and high[:1]) for low, high in ends]
        scalars[name,] = ScalarColumn(
            pa.array([low for low, _ in ends], kind),
            pa.array([high for _, high in ends], kind),
            pa.array([sum(row[name] is None for row in rows) for rows in files]),
            pa.array([len(rows) for rows in files]),
            truncated=truncated,
        )
    nulls = pa.array([sum(row["geom"] is None for row in rows) for rows in files])
    scalars["geom",] = ScalarColumn(pa.nulls(len(files)), pa.nulls(len(files)), nulls, scalars["n",].row_count)
    column = BoxColumn.from_boxes(boxes, only_null_or_empty=[not shapes for shapes in places])
    return Statistics(len(files), boxes={("geom",): column}, scalars=scalars)


@settings(max_examples=700, deadline=None)
@given(FILES, FILTERS, st.booleans())
def test_no_file_with_a_matching_row_is_ruled_out(files, predicate, truncated):
    verdicts = project(bind(predicate, SCHEMA), statistics_of(files, truncated)).verdicts
    for rows, result in zip(files, verdicts, strict=True):
        matching = [row for row in rows for nan in (math.nan, math.inf) if holds(predicate, row, nan)]
        assert not matching or result != CANNOT, matching


@settings(max_examples=200, deadline=None)
@given(FILES, FILTERS)
def test_without_statistics_nothing_is_ruled_out(files, predicate):
    verdicts = project(bind(predicate, SCHEMA), Statistics(len(files))).verdicts
    empty = [leaf for leaf in str(predicate).split("ST_") if "EMPTY" in leaf]
    assert empty or CANNOT not in verdicts


LONGITUDES = st.sampled_from([-180.0, -179.0, -90.0, -1.0, 0.0, 1.0, 90.0, 179.0, 180.0])
LATITUDES = st.sampled_from([-90.0, -89.0, 0.0, 45.0, 89.0, 90.0])
PLACES = st.tuples(LONGITUDES, LATITUDES)


def same_place(left, other):
    if abs(left[1]) == 90.0:
        return left[1] == other[1]
    return left[1] == other[1] and (left[0] - other[0]) % 360.0 == 0.0


def in_window(point, box):
    if not box.ymin <= point[1] <= box.ymax:
        return False
    if abs(point[1]) == 90.0:
        return True
    west, east = box.xmin, box.xmax + (360.0 if box.wraps else 0.0)
    return any(west <= point[0] + turn <= east for turn in (-360.0, 0.0, 360.0))


def some_cover(places, start):
    """A box on the circle that holds the places, beginning at the one of that index going east."""
    west = places[start % len(places)][0]
    span = max((x - west) % 360.0 for x, _ in places)
    east = west + span
    ys = [y for _, y in places]
    if span >= 360.0 or (west == -180.0 and east >= 180.0):
        return Box(-180, min(ys), 180, max(ys))
    return Box(west, min(ys), east - 360.0 if east > 180.0 else east, max(ys))


@settings(max_examples=400, deadline=None)
@given(st.lists(PLACES, min_size=1, max_size=4), st.integers(0, 3), PLACES, LONGITUDES, LATITUDES)
def test_on_a_circle_no_file_with_a_matching_point_is_ruled_out(places, start, corner, east, north):
    cover = some_cover(places, start)
    assert all(in_window(vertex, cover) for vertex in places)
    window = Box(corner[0], min(corner[1], north), east, max(corner[1], north))
    point = shapely.Point(corner)
    for column in ("geog", "tile"):
        if any(in_window(vertex, window) for vertex in places):
            assert on_box(st_intersects(column, window), cover) is MIGHT
            assert on_box(st_within(column, window), cover) is MIGHT
        if any(same_place(vertex, corner) for vertex in places):
            for op in (SpatialOp.EQUALS, SpatialOp.CONTAINS, SpatialOp.INTERSECTS, SpatialOp.WITHIN):
                assert on_box(Spatial.of(op, column, point), cover) is MIGHT
        # One row may hold several of the places.
        many = shapely.MultiPoint(places[:2])
        assert on_box(st_contains(column, many), cover) is MIGHT


# Scalars


def ints(minimum, maximum, **counts):
    return ScalarColumn(pa.array(minimum, pa.int64()), pa.array(maximum, pa.int64()), **counts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n = 5", [MIGHT, CANNOT, MIGHT, UNKNOWN]),
        ("n != 5", [MIGHT, MIGHT, CANNOT, UNKNOWN]),
        ("NOT (n = 5)", [MIGHT, MIGHT, CANNOT, UNKNOWN]),
        ("n < 1", [CANNOT, CANNOT, CANNOT, UNKNOWN]),
        ("n <= 1", [MIGHT, CANNOT, CANNOT, UNKNOWN]),
        ("n > 9", [CANNOT, MIGHT, CANNOT, UNKNOWN]),
        ("n >= 9", [MIGHT, MIGHT, CANNOT, UNKNOWN]),
        ("NOT (n >= 1)", [CANNOT, CANNOT, CANNOT, UNKNOWN]),
        ("n BETWEEN 6 AND 8", [MIGHT, CANNOT, CANNOT, UNKNOWN]),
        ("n IN (5, 99)", [MIGHT, CANNOT, MIGHT, UNKNOWN]),
        ("n NOT IN (5, 99)", [MIGHT, MIGHT, CANNOT, UNKNOWN]),
        ("n < 1 OR n > 9", [CANNOT, MIGHT, CANNOT, UNKNOWN]),
        ("n > 9.5", [CANNOT, MIGHT, CANNOT, UNKNOWN]),
        ("n > 99999999999999999999999", [CANNOT, CANNOT, CANNOT, UNKNOWN]),
        ("n = 5 AND f = 1", [UNKNOWN, CANNOT, UNKNOWN, UNKNOWN]),
        ("n = 5 OR f = 1", [MIGHT, UNKNOWN, MIGHT, UNKNOWN]),
    ],
)
def test_comparisons(text, expected):
    assert on_scalars(text, n=ints([1, 10, 5, None], [9, 20, 5, None])) == expected


def test_one_bound_is_better_than_none():
    column = ints([10, None], [None, 20])
    assert on_scalars("n < 5", n=column) == [CANNOT, UNKNOWN]
    assert on_scalars("n = 30", n=column) == [UNKNOWN, CANNOT]
    assert on_scalars("n = 15", n=column) == [UNKNOWN, UNKNOWN]


def test_a_column_of_nulls_compares_to_nothing():
    column = ints([None, None], [None, None], null_count=pa.array([4, 3]), row_count=pa.array([4, 4]))
    assert on_scalars("n = 5", n=column) == [CANNOT, UNKNOWN]
    assert on_scalars("NOT (n = 5)", n=column) == [CANNOT, UNKNOWN]
    assert on_scalars("n IS NULL", n=column) == [MIGHT, MIGHT]
    assert on_scalars("n IS NOT NULL", n=column) == [CANNOT, MIGHT]


def test_null_counts_decide_null_checks():
    column = ints([1, 1, 1], [1, 1, 1], null_count=pa.array([0, 2, None]), row_count=pa.array([4, 4, 4]))
    assert on_scalars("n IS NULL", n=column) == [CANNOT, MIGHT, UNKNOWN]
    assert on_scalars("n IS NOT NULL", n=column) == [MIGHT, MIGHT, UNKNOWN]


def test_a_long_list_is_compared_as_a_range():
    column = ints([1, 5_000, 500], [9, 6_000, 500])
    values = ", ".join(map(str, range(100, 1_000)))
    assert on_scalars(f"n IN ({values})", n=column) == [CANNOT, CANNOT, MIGHT]
    assert on_scalars(f"n NOT IN ({values})", n=column) == [MIGHT, MIGHT, MIGHT]


def test_nan_may_hide_behind_bounds():
    bounds = pa.array([0.0, math.nan, 0.0]), pa.array([1.0, 1.0, math.nan])
    column = ScalarColumn(*bounds)
    assert on_scalars("f > 5", f=column) == [MIGHT, MIGHT, UNKNOWN]
    assert on_scalars("f < -5", f=column) == [CANNOT, UNKNOWN, CANNOT]
    assert on_scalars("NOT (f > -5)", f=column) == [MIGHT, UNKNOWN, MIGHT]
    counted = ScalarColumn(*bounds, nan_count=pa.array([0, 0, 0]))
    assert on_scalars("f > 5", f=counted) == [CANNOT, CANNOT, UNKNOWN]
    assert on_scalars("NOT (f > -5)", f=counted) == [CANNOT, UNKNOWN, CANNOT]


def test_decimals_and_narrow_floats_are_compared_with_room_for_rounding():
    price = ScalarColumn(pa.array([Decimal("0.10")]), pa.array([Decimal("0.10")]))
    for literal in ("0.1", "1e-1", "DECIMAL '0.1'"):
        assert on_scalars(f"price = {literal}", price=price) == [MIGHT]
    assert on_scalars("price = 0.11", price=price) == [CANNOT]
    narrow = ScalarColumn(pa.array([0.1], pa.float32()), pa.array([0.1], pa.float32()))
    assert on_scalars("f32 = 0.1", f32=narrow) == [MIGHT]
    assert on_scalars("f32 <= 0.1", f32=narrow) == [MIGHT]
    assert on_scalars("f32 = 0.1001", f32=narrow) == [CANNOT]
    big = 2**53
    assert on_scalars(f"n = {big + 1}", n=ints([big], [big])) == [CANNOT]
    assert on_scalars(f"n = {big}", n=ints([big], [big])) == [MIGHT]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.decimals(-1000, 1000, places=2), min_size=1, max_size=4),
    st.sampled_from(ComparisonOp),
    st.decimals(-1000, 1000, places=3),
    st.booleans(),
)
def test_no_decimal_is_lost(values, op, literal, as_float):
    column = ScalarColumn(pa.array([min(values)], pa.decimal128(10, 2)), pa.array([max(values)], pa.decimal128(10, 2)))
    predicate = Comparison(op, ("price",), float(literal) if as_float else literal)
    if any(COMPARE[op](value, literal) or COMPARE[op](float(value), float(literal)) for value in values):
        assert on_scalars(predicate, price=column) != [CANNOT]


def test_strings_compare_by_their_bytes():
    # U+FF5E comes before U+1F600 in UTF-8, after it in UTF-16.
    column = ScalarColumn(pa.array(["\uff5e"]), pa.array(["\uff5e"]))
    assert on_scalars(Comparison.of("name", "<", "\U0001f600"), name=column) == [MIGHT]
    assert on_scalars(Comparison.of("name", ">", "\U0001f600"), name=column) == [CANNOT]


def test_a_maximum_that_was_cut_stands_for_all_that_start_with_it():
    whole = ScalarColumn(pa.array(["abc"]), pa.array(["abc"]))
    cut = ScalarColumn(pa.array(["abc"]), pa.array(["abc"]), truncated=True)
    for text in ("name = 'abcd'", "name > 'abc'", "name >= 'abcd'", "name != 'abc'", "name IN ('abcd')"):
        assert on_scalars(text, name=whole) == [CANNOT]
        assert on_scalars(text, name=cut) == [MIGHT]
    assert on_scalars("name = 'abd'", name=cut) == [CANNOT]
    assert on_scalars("name < 'abc'", name=cut) == [CANNOT]


def test_bytes_booleans_dates_and_times():
    raw = ScalarColumn(pa.array([b"\x01"]), pa.array([b"\x7f"]))
    assert on_scalars("raw > X'7F'", raw=raw) == [CANNOT]
    assert on_scalars("raw = X'20'", raw=raw) == [MIGHT]
    flag = ScalarColumn(pa.array([False, True]), pa.array([False, True]))
    assert on_scalars("flag", flag=flag) == [CANNOT, MIGHT]
    assert on_scalars("NOT flag", flag=flag) == [MIGHT, CANNOT]
    day = ScalarColumn(pa.array([dt.date(2024, 1, 1)]), pa.array([dt.date(2024, 1, 31)]))
    assert on_scalars("day > DATE '2024-01-31'", day=day) == [CANNOT]
    assert on_scalars("day >= '2024-01-31'", day=day) == [MIGHT]
    assert on_scalars("day >= TIMESTAMP '2024-02-01 12:00:00'", day=day) == [MIGHT]
    assert on_scalars("day >= TIMESTAMP '2024-02-04 12:00:00'", day=day) == [CANNOT]
    clock = ScalarColumn(pa.array([dt.time(1)]), pa.array([dt.time(2)]))
    assert on_scalars("clock > '02:00:00'", clock=clock) == [CANNOT]
    assert on_scalars("clock = '01:30'", clock=clock) == [MIGHT]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_instants_are_compared_in_any_unit(unit):
    moment = dt.datetime(2024, 1, 1, 12, 0, 0)
    local = ScalarColumn(pa.array([moment], pa.timestamp(unit)), pa.array([moment], pa.timestamp(unit)))
    assert on_scalars("local > TIMESTAMP '2024-01-01 12:00:00'", local=local) == [CANNOT]
    assert on_scalars("local = '2024-01-01 12:00:00'", local=local) == [MIGHT]
    assert on_scalars("local >= '2024-01-01 12:00:01'", local=local) == [CANNOT]
    aware = "TIMESTAMP '2024-01-01 13:00:00+01:00'"
    for zone in (None, "UTC"):
        kind = pa.timestamp(unit, zone)
        at = ScalarColumn(pa.array([moment], kind), pa.array([moment], kind))
        assert on_scalars(f"at > {aware}", at=at) == [CANNOT]
        assert on_scalars(f"at = {aware}", at=at) == [MIGHT]
        # Without a zone the literal is meant in that of the session, which nobody tells us.
        assert on_scalars("at > TIMESTAMP '2024-01-01 13:00:00'", at=at) == [MIGHT]
        assert on_scalars("at > TIMESTAMP '2024-01-03 13:00:00'", at=at) == [CANNOT]


def test_what_has_no_order_here_is_unknown_and_says_why():
    key = ScalarColumn(pa.array([b"0" * 16]), pa.array([b"1" * 16]))
    bound = bind(parse_predicate("key = 'f79c3e09-677c-4bbd-a479-3f349cb785e7'"), SCHEMA)
    result = project(bound, Statistics(1, scalars={("key",): key}))
    assert result.verdicts.tolist() == [UNKNOWN]
    assert result.reasons[0].text == "key: a str is not compared with statistics of the type binary"


# Collations


def collated(collation, *, sort_key=str.casefold, versions=("icu.de.75.1",)):
    texts = ScalarColumn(pa.array(["A"]), pa.array(["c"]))
    key = sort_key and (lambda text: sort_key(text).encode())
    collations = {(("ort",), Collation.parse(name)): CollatedColumn(texts, key) for name in versions}
    statistics = Statistics(1, scalars={("ort",): texts}, collated=collations)
    predicate = Comparison(ComparisonOp.EQ, ("ort",), "B", Collation.parse(collation) if collation else None)
    below = Comparison(ComparisonOp.EQ, ("ort",), "D", predicate.collation)
    results = [project(bind(filter_, SCHEMA), statistics) for filter_ in (predicate, below)]
    return [result.verdicts[0] for result in results], results[0].reasons


def test_collated_statistics_serve_the_same_version_only():
    assert collated("icu.de.75.1") == ([MIGHT, CANNOT], ())
    for other in ("icu.de.75", "icu.de", "icu.fr.75.1", "spark.de.75.1", None):
        verdicts, reasons = collated(other)
        assert verdicts == [UNKNOWN, UNKNOWN]
        assert "has no statistics of the collation" in reasons[0].text
    # A filter without a version may use any, and so may not use those of one.
    assert collated("icu.de", versions=["icu.de"])[0] == [UNKNOWN, UNKNOWN]


def test_collated_statistics_need_a_collator():
    verdicts, reasons = collated("icu.de.75.1", sort_key=None)
    assert verdicts == [UNKNOWN, UNKNOWN]
    assert "no collator of the version icu.de.75.1" in reasons[0].text


def test_plain_statistics_serve_a_binary_comparison_of_a_collated_column():
    assert collated("spark.UTF8_BINARY")[0] == [MIGHT, MIGHT]
    texts = ScalarColumn(pa.array(["A"]), pa.array(["c"]))
    binary = Comparison(ComparisonOp.EQ, ("ort",), "d", Collation.parse("spark.UTF8_BINARY"))
    assert project(bind(binary, SCHEMA), Statistics(1, scalars={("ort",): texts})).verdicts.tolist() == [CANNOT]


# The whole


def test_reasons_say_which_leaf_and_how_many_files():
    boxes = BoxColumn.from_boxes([None, Box(0, 0, 1, 1), None])
    bound = bind(parse_predicate("ST_Intersects(geom, 'POINT (1 1)') AND n = 5"), SCHEMA)
    result = project(bound, Statistics(3, boxes={("geom",): boxes}))
    assert [(reason.text, reason.files) for reason in result.reasons] == [
        ("geom has no box", 2),
        ("n has no statistics", 3),
    ]
    assert result.reasons[1].predicate == "n = 5"


def test_what_is_not_bound_or_does_not_fit_is_refused():
    with pytest.raises(PredicateError, match="not bound"):
        project(IsNull("a"), Statistics(1))
    with pytest.raises(PredicateError, match="geom: there are statistics of 1 files, not of 2"):
        Statistics(2, boxes={("geom",): BoxColumn.from_boxes([None])})
    with pytest.raises(BoundError, match="ymax has the shape"):
        BoxColumn.from_sides([1, 2], [1, 2], [1, 2], [1])


def test_z_and_m_are_kept_in_a_column():
    column = BoxColumn.from_boxes([Box(0, 0, 1, 1, 5, 6), None])
    assert column.zmax[0] == 6
    assert column.mmin is None


def test_no_files_give_no_verdicts():
    boxes = BoxColumn.from_boxes([])
    bound = bind(st_intersects("geom", "POINT (1 1)") & Not(IsNull("geom")), SCHEMA)
    assert project(bound, Statistics(0, boxes={("geom",): boxes})).verdicts.shape == (0,)


def test_a_million_files_take_no_time():
    rng = np.random.default_rng(1)
    x, y = rng.uniform(-180, 179, 1_000_000), rng.uniform(-90, 89, 1_000_000)
    boxes = BoxColumn.from_sides(x, y, x + 1, y + 1)
    low = pa.array(rng.integers(0, 1000, 1_000_000))
    statistics = Statistics(1_000_000, boxes={("geom",): boxes}, scalars={("n",): ScalarColumn(low, low)})
    bound = bind(parse_predicate("ST_Intersects(geom, 'POLYGON ((0 0, 9 0, 9 9, 0 0))') AND NOT n < 500"), SCHEMA)
    project(bound, statistics)
    started = time.perf_counter()
    result = project(bound, statistics)
    assert time.perf_counter() - started < 2.0
    assert result.verdicts.dtype == np.int8
    inside = (x <= 9) & (x + 1 >= 0) & (y <= 9) & (y + 1 >= 0) & (low.to_numpy() >= 500)
    assert np.count_nonzero(result.verdicts == MIGHT) == np.count_nonzero(inside)


@pytest.mark.parametrize("column", ["f", "f32", "price", "n"])
def test_a_number_beyond_the_doubles_is_greater_than_all_but_infinity(column):
    kinds = {"f": pa.float64(), "f32": pa.float32(), "price": pa.decimal128(10, 2), "n": pa.int64()}
    values = pa.array([Decimal(1) if column == "price" else 1], kinds[column])
    counted = ScalarColumn(values, values, nan_count=pa.array([0]))
    huge = "1" + "0" * 400
    for op, expected in ((">", CANNOT), (">=", CANNOT), ("=", CANNOT), ("<", MIGHT), ("<=", MIGHT), ("!=", MIGHT)):
        assert on_scalars(f"{column} {op} {huge}", **{column: counted}) == [expected]
    for op, expected in (("<", CANNOT), ("<=", CANNOT), ("=", CANNOT), (">", MIGHT), (">=", MIGHT), ("!=", MIGHT)):
        assert on_scalars(f"{column} {op} -{huge}", **{column: counted}) == [expected]


def test_infinity_may_be_what_a_number_beyond_the_doubles_is_read_as():
    infinite = pa.array([float("inf")])
    column = ScalarColumn(infinite, infinite, nan_count=pa.array([0]))
    for op in ("=", ">", ">="):
        assert on_scalars(f"f {op} 1{'0' * 400}", f=column) == [MIGHT]
