from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal

import pytest
import shapely

from geolake_nb.errors import PredicateError
from geolake_nb.expressions.predicate import (
    MAX_DEPTH,
    And,
    Comparison,
    ComparisonOp,
    In,
    IsNotNull,
    IsNull,
    Not,
    Or,
    Predicate,
    Spatial,
    SpatialOp,
    st_contains,
    st_covered_by,
    st_covers,
    st_crosses,
    st_disjoint,
    st_equals,
    st_intersects,
    st_overlaps,
    st_touches,
    st_within,
)
from geolake_nb.model.box import Box
from geolake_nb.model.collation import Collation

CONSTRUCTORS = {
    SpatialOp.CONTAINS: st_contains,
    SpatialOp.COVERED_BY: st_covered_by,
    SpatialOp.COVERS: st_covers,
    SpatialOp.CROSSES: st_crosses,
    SpatialOp.EQUALS: st_equals,
    SpatialOp.INTERSECTS: st_intersects,
    SpatialOp.OVERLAPS: st_overlaps,
    SpatialOp.TOUCHES: st_touches,
    SpatialOp.WITHIN: st_within,
}


@pytest.mark.parametrize("op", SpatialOp)
def test_every_relation_has_its_constructor(op):
    predicate = CONSTRUCTORS[op]("geom", "POINT (1 2)")
    assert predicate.op is op
    assert str(predicate).startswith(op.sql)
    assert CONSTRUCTORS[op].__name__ == op.value.replace("-", "_")


def test_the_json_names_are_those_of_the_pyiceberg_plan():
    named = {SpatialOp.CONTAINS, SpatialOp.INTERSECTS, SpatialOp.WITHIN, SpatialOp.OVERLAPS}
    assert {op.value for op in named} == {"st-contains", "st-intersects", "st-within", "st-overlaps"}


def test_the_same_geometry_in_any_form_gives_the_same_predicate():
    wkb = struct.pack("<BIdd", 1, 1, 1.0, 2.0)
    big_endian = struct.pack(">BIdd", 0, 1, 1.0, 2.0)
    forms = [wkb, big_endian, bytearray(wkb), "POINT (1 2)", shapely.Point(1, 2)]
    assert {st_within("geom", form) for form in forms} == {Spatial(SpatialOp.WITHIN, ("geom",), wkb)}


def test_an_srid_gives_the_crs_unless_one_is_given():
    ewkb = shapely.to_wkb(shapely.set_srid(shapely.Point(1, 2), 3857), include_srid=True)
    assert st_within("geom", ewkb).crs == "EPSG:3857"
    assert st_within("geom", "SRID=3857;POINT (1 2)").crs == "EPSG:3857"
    assert st_within("geom", shapely.set_srid(shapely.Point(1, 2), 3857)).crs == "EPSG:3857"
    assert st_within("geom", ewkb, crs="OGC:CRS84").crs == "OGC:CRS84"


def test_a_box_over_the_antimeridian_is_two_polygons():
    shape = shapely.from_wkb(st_within("geom", Box(170, -10, -170, 10)).geometry)
    assert shape.equals(shapely.MultiPolygon([shapely.box(170, -10, 180, 10), shapely.box(-180, -10, -170, 10)]))
    with pytest.raises(PredicateError, match="only a box of longitudes may cross"):
        st_within("geom", Box(500_000, 0, 400_000, 1))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (b"\x01\x01", "not valid WKB"),
        ("PIONT (1 2)", "not valid WKT"),
        (12, "expected a geometry, got a int"),
        ("LINESTRING (0 0, Inf 1)", "non-finite coordinate"),
        ("CIRCULARSTRING (0 0, 1 1, 2 0)", "Nonlinear"),
    ],
)
def test_what_is_no_usable_geometry_is_refused(shape, message):
    with pytest.raises(PredicateError, match=message):
        st_within("geom", shape)


def test_operators_build_flat_trees():
    a, b, c = IsNull("a"), IsNull("b"), IsNull("c")
    assert (a & b & c).operands == (a & (b & c)).operands == (a, b, c)
    assert (a | b | c).operands == (a, b, c)
    assert ~(a & b) == Not(And((a, b)))
    assert ~~(a & b) == a & b
    assert ~a == IsNotNull("a")
    assert str((a | b) & ~(c | a)) == "(a IS NULL OR b IS NULL) AND NOT (c IS NULL OR a IS NULL)"


def test_a_long_chain_is_not_deep():
    chain: Predicate = IsNull("a")
    for _ in range(2_000):
        chain = chain & IsNull("b")
    assert chain.depth == 2


def test_nesting_without_end_is_refused():
    nested: Predicate = IsNull("a")
    for level in range(MAX_DEPTH - 1):
        nested = And((nested, IsNull("b"))) if level % 2 else Or((nested, IsNull("b")))
    with pytest.raises(PredicateError, match=f"deeper than {MAX_DEPTH}"):
        Not(nested)


@pytest.mark.parametrize("connective", [And, Or])
def test_a_connective_needs_two_operands(connective):
    with pytest.raises(PredicateError, match="fewer than two operands"):
        connective((IsNull("a"),))


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), Decimal("NaN"), object(), "\ud800"])
def test_values_without_an_order_are_refused(value):
    with pytest.raises(PredicateError, match=r"^a\.b: "):
        Comparison.of("a.b", "=", value)
    with pytest.raises(PredicateError, match=r"^a\.b: "):
        In("a.b", (1, value))


def test_only_strings_have_a_collation():
    Comparison(ComparisonOp.EQ, ("a",), "x", Collation("icu", "de"))
    with pytest.raises(PredicateError, match="only strings"):
        Comparison(ComparisonOp.EQ, ("a",), 1, Collation("icu", "de"))


@pytest.mark.parametrize("path", ["", "a.", (), ("a", "")])
def test_a_path_needs_names(path):
    with pytest.raises(PredicateError, match="expected the path of a column, got"):
        IsNull(path)


@pytest.mark.parametrize(
    "predicate",
    [
        st_within("geom", "POINT (1 2)"),
        IsNull("a"),
        IsNull("a") & IsNull("b"),
        ~In("a", (1,)),
        st_disjoint("geom", "POINT (1 2)"),
    ],
)
def test_rows_are_evaluated_elsewhere(predicate):
    with pytest.raises(NotImplementedError, match="Spark"):
        predicate.evaluate({"geom": b""})
    with pytest.raises(NotImplementedError, match="Spark"):
        predicate({"geom": b""})


@pytest.mark.parametrize("op", SpatialOp)
def test_the_message_names_a_function_that_shapely_has(op):
    with pytest.raises(NotImplementedError) as caught:
        CONSTRUCTORS[op]("geom", "POINT (1 2)")(None)
    name = str(caught.value).rpartition("shapely.")[2].partition("(")[0]
    assert callable(getattr(shapely, name))


def test_python_and_is_a_mistake_that_is_noticed():
    with pytest.raises(TypeError, match="combine filters with &"):
        IsNull("a") and IsNull("b")


def test_unknown_operators_list_the_known_ones():
    with pytest.raises(PredicateError, match="use one of: !=, <, <=, =, >, >="):
        Comparison.of("a", "~", 1)
    with pytest.raises(PredicateError, match="use one of: ST_Contains, ST_CoveredBy"):
        SpatialOp.parse("ST_Near")


@pytest.mark.parametrize("op", ComparisonOp)
def test_converse_and_negation_undo_themselves(op):
    assert op.converse.converse is op
    assert op.negation.negation is op


def test_literals_print_as_sql():
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 678, tzinfo=dt.UTC)
    assert str(Comparison.of("a", "<", moment)) == "a < TIMESTAMP '2024-01-02 03:04:05.000678+00:00'"
    assert str(In("a", (b"\x00\xff", True))) == "a IN (X'00FF', TRUE)"


DEEP_WKT = "GEOMETRYCOLLECTION(" * 200_000 + "POINT(1 2)" + ")" * 200_000
DEEP_WKB = bytes.fromhex("010700000001000000") * 500_000 + bytes.fromhex("0101000000000000000000F03F0000000000000040")


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        (DEEP_WKT, "nested more than 300 deep"),
        (DEEP_WKB, "nested more than 128 deep"),
        (b"\x01\x06\x00\x00\x00\x01\x00\x00\x00" + DEEP_WKB, "does not belong in its collection"),
        ("POINT(1 2)\0garbage", "NUL character"),
        ("POINT(1 2)\ud800", "lone surrogate"),
    ],
    ids=["wkt", "wkb", "multipolygon", "nul", "surrogate"],
)
def test_a_geometry_that_would_break_the_parser_is_refused(shape, reason):
    with pytest.raises(PredicateError, match=reason):
        st_intersects("g", shape)


def test_nesting_that_wkb_may_have_is_fine():
    text = "GEOMETRYCOLLECTION(" * 120 + "POINT(1 2)" + ")" * 120
    predicate = st_intersects("g", text)
    assert st_intersects("g", predicate.geometry) == predicate


@pytest.mark.parametrize("crs", ["", " ", "bla", "EPSG:", "{", "a\0b"])
def test_the_crs_of_a_query_is_checked(crs):
    with pytest.raises(PredicateError):
        st_intersects("g", "POINT(1 2)", crs=crs)


@pytest.mark.parametrize(
    "value",
    [Decimal("sNaN"), Decimal("NaN"), Decimal("Infinity"), 10**5000, -(10**5000)],
    ids=["sNaN", "NaN", "Infinity", "large", "small"],
)
def test_values_that_are_no_numbers_are_refused(value):
    with pytest.raises(PredicateError):
        Comparison.of("x", ">", value)
