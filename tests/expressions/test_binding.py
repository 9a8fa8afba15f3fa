from __future__ import annotations

import datetime as dt
import zoneinfo
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest

from geolake_nb.errors import PredicateError
from geolake_nb.expressions.binding import BoundComparison, BoundIn, BoundIsNull, BoundSpatial, bind
from geolake_nb.expressions.predicate import And, Comparison, ComparisonOp, In, IsNotNull, IsNull, Not, st_intersects
from geolake_nb.expressions.predicate_sql import parse_predicate
from geolake_nb.model.collation import Collation
from geolake_nb.model.crs import CRS84, Crs
from geolake_nb.model.schema import Schema
from geolake_nb.model.statistics import ScalarColumn
from geolake_nb.model.types import (
    Field,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    PrimitiveType,
    RasterType,
    StringType,
    StructType,
)

MERCATOR = Crs("EPSG:3857")
GERMAN = Collation("icu", "de")


def spatial(column, crs=None):
    return st_intersects(column, "POINT (1 2)", crs=crs)


SCHEMA = Schema(
    StructType((
        Field("id", PrimitiveType("int64")),
        Field("geom", GeometryType(MERCATOR)),
        Field("geog", GeographyType()),
        Field("Tile", RasterType()),
        Field("name", StringType()),
        Field("ort", StringType(GERMAN)),
        Field("price", PrimitiveType("decimal(10, 2)")),
        Field("speed", PrimitiveType("float32")),
        Field("flag", PrimitiveType("boolean")),
        Field("day", PrimitiveType("date")),
        Field("at", PrimitiveType("timestamptz")),
        Field("local", PrimitiveType("timestamp_ns")),
        Field("clock", PrimitiveType("time")),
        Field("raw", PrimitiveType("binary")),
        Field("key", PrimitiveType("uuid")),
        Field("odd.name", PrimitiveType("int32")),
        Field("any", PrimitiveType("variant")),
        Field("place", StructType((Field("Geom", GeometryType()), Field("code", StringType())))),
        Field("tags", ListType(Field("element", StructType((Field("geom", GeometryType()),))))),
        Field("names", MapType(Field("key", StringType(), False), Field("value", StringType()))),
        Field("Case", StringType()),
        Field("case", StringType()),
    ))
)  # fmt: skip


@pytest.mark.parametrize(
    ("column", "path", "crs"),
    [
        ("geom", ("geom",), MERCATOR),
        ("GEOM", ("geom",), MERCATOR),
        ("geog", ("geog",), CRS84),
        ("tile", ("Tile",), CRS84),
        ("place.geom", ("place", "Geom"), CRS84),
    ],
)
def test_spatial_predicates_bind_to_every_geo_type(column, path, crs):
    bound = bind(spatial(column), SCHEMA)
    assert isinstance(bound, BoundSpatial)
    assert (bound.column, bound.crs) == (path, crs)


def test_the_crs_of_the_query_is_kept():
    assert bind(spatial("geog", crs="EPSG:25832"), SCHEMA).crs == Crs("EPSG:25832")
    with pytest.raises(PredicateError, match="'nonsense' is not a known form of a CRS"):
        bind(spatial("geog", crs="nonsense"), SCHEMA)


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        (spatial("geomm"), "no column 'geomm'; use one of: geom, geog, place.Geom, Tile"),
        (spatial("tyle"), "no column 'tyle'; use one of: Tile, geog, geom, place.Geom"),
        (spatial("name"), "name: ST_Intersects needs a geometry, geography or raster, and this is a string"),
        (spatial("place"), "place: ST_Intersects needs a geometry, geography or raster"),
        (spatial("tags.element.geom"), "tags.element.geom: this is inside the list 'tags'"),
        (Comparison.of("names.value", "=", "x"), "names.value: this is inside the map 'names'"),
        (Comparison.of("nam", "=", "x"), "no column 'nam'; use one of: name, "),
        (Comparison.of("goem", ">", 3), "no column 'goem'; did you mean geom? This condition cannot test its type, "),
        (Comparison.of("CASE", "=", "x"), "no column 'CASE'; use one of: "),
        (IsNull("place.cod"), "no column 'place.cod'; use one of: place.code"),
        (Comparison.of("geom", "=", b""), "geom: a geometry(EPSG:3857) has no order; use ST_Equals"),
        (Comparison.of("place", "=", 1), "place: a struct cannot be compared; use IS NULL"),
        (Comparison.of("any", "=", 1), "any: a variant cannot be compared; use IS NULL"),
        (Comparison.of("id", "=", "5"), "id: a int64 cannot be compared with '5'; use a number"),
        (Comparison.of("id", "=", True), "id: a int64 cannot be compared with TRUE; use a number"),
        (Comparison.of("flag", "=", 1), "flag: a boolean cannot be compared with 1; use TRUE or FALSE"),
        (Comparison.of("name", "=", 5), "name: a string cannot be compared with 5; use a string"),
        (Comparison.of("day", "=", "soon"), "day: a date cannot be compared with 'soon'; use a date"),
        (Comparison.of("key", "=", "x"), "key: a uuid cannot be compared with 'x'"),
        (In("price", (1, "x")), "price: a decimal(10, 2) cannot be compared with 'x'; use a number"),
        (In("raw", ("x",)), "raw: a binary cannot be compared with 'x'; use bytes such as X'00'"),
    ],
)  # fmt: skip
def test_a_failure_names_the_column_and_the_candidates(predicate, message):
    with pytest.raises(PredicateError) as caught:
        bind(predicate, SCHEMA)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("column", "value", "bound"),
    [
        ("id", 5.0, 5),
        ("id", Decimal("5.00"), 5),
        ("id", 5.5, 5.5),
        ("price", 0.1, 0.1),
        ("day", "2024-01-31", dt.date(2024, 1, 31)),
        ("local", "2024-01-31", dt.datetime(2024, 1, 31)),
        ("at", dt.date(2024, 1, 31), dt.datetime(2024, 1, 31)),
        ("at", "2024-01-31 10:00:00Z", dt.datetime(2024, 1, 31, 10, tzinfo=dt.UTC)),
        ("clock", "10:30", dt.time(10, 30)),
        ("key", "F79C3E09677C4BBDA4793F349CB785E7", "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    ],
)
def test_values_become_those_of_the_column(column, value, bound):
    predicate = bind(Comparison.of(column, "<", value), SCHEMA)
    assert isinstance(predicate, BoundComparison)
    assert predicate.value == bound
    assert type(predicate.value) is type(bound)


def test_the_collation_in_force_is_that_of_the_filter_or_of_the_column():
    assert bind(Comparison.of("name", "=", "x"), SCHEMA).collation is None
    assert bind(Comparison.of("ort", "=", "x"), SCHEMA).collation == GERMAN
    binary = Comparison(ComparisonOp.EQ, ("ort",), "x", Collation("spark", "UTF8_BINARY"))
    assert bind(binary, SCHEMA).collation is None
    french = In("ort", ("x",), Collation("icu", "fr"))
    assert bind(french, SCHEMA).collation == Collation("icu", "fr")


def test_a_name_with_dots_is_found_without_quotes():
    assert bind(parse_predicate("odd.name = 1"), SCHEMA).column == ("odd.name",)
    assert bind(parse_predicate("`odd.name` = 1"), SCHEMA).column == ("odd.name",)


def test_the_whole_tree_is_bound():
    bound = bind(parse_predicate("NOT (id IN (1, 2) AND geom IS NOT NULL) OR flag"), SCHEMA)
    text = "NOT (id IN (1, 2) AND NOT (geom IS NULL)) OR flag = TRUE"
    assert str(bound) == text
    inner = bound.operands[0].operand
    assert isinstance(inner, And)
    assert isinstance(inner.operands[0], BoundIn)
    assert inner.operands[1] == Not(BoundIsNull(("geom",), GeometryType(MERCATOR)))
    assert bind(IsNotNull("place"), SCHEMA) == Not(bind(IsNull("place"), SCHEMA))


def test_a_table_without_geo_columns_says_so():
    with pytest.raises(PredicateError, match="this table has no column of such a type"):
        bind(spatial("geom"), Schema(StructType((Field("id", PrimitiveType("int64")),))))


@pytest.mark.parametrize(
    "value",
    [
        "2024-01-31 12:30:00.123456789",
        "2024-01-31T12:30:00.1234560001+01:00",
        pd.Timestamp("2024-01-31 12:30:00.123456789"),
    ],
)
def test_a_time_that_is_finer_than_a_microsecond_is_refused(value):
    """Cut to six digits, it would leave out the file that holds this very time."""
    schema = Schema(StructType((Field("ts", PrimitiveType("timestamp_ns")), Field("t", PrimitiveType("time_ns")))))
    with pytest.raises(PredicateError, match=r"compared to the microsecond; give six digits at most"):
        bind(Comparison.of("ts", "=", value), schema)
    with pytest.raises(PredicateError, match=r"compared to the microsecond; give six digits at most"):
        bind(Comparison.of("t", "<=", "00:00:00.000000999"), schema)
    assert bind(Comparison.of("ts", "=", "2024-01-31 12:30:00.123456000"), schema).value.microsecond == 123456


def test_a_double_that_stands_for_several_integers_stays_a_double():
    """Spark and DuckDB compare 9007199254740993 with 9.007199254740992E15 as doubles, which are equal."""
    schema = Schema(StructType((Field("id", PrimitiveType("int64")),)))
    assert isinstance(bind(Comparison.of("id", "=", 9.007199254740992e15), schema).value, float)
    assert bind(Comparison.of("id", "=", 5.0), schema).value == 5
    stats = ScalarColumn(pa.array([9007199254740993]), pa.array([9007199254740993]))
    for op in (ComparisonOp.EQ, ComparisonOp.LE):
        assert not stats.rules_out(op, 9.007199254740992e15).any()


@pytest.mark.parametrize("zone", ["Asia/Manila", "America/Metlakatla"])
def test_a_time_without_a_zone_may_be_meant_in_any_of_the_past(zone):
    moment = dt.datetime(1840, 1, 1)
    stored = pa.array([moment.replace(tzinfo=zoneinfo.ZoneInfo(zone)).astimezone(dt.UTC)], pa.timestamp("us", "UTC"))
    assert not ScalarColumn(stored, stored).rules_out(ComparisonOp.EQ, moment).any()
