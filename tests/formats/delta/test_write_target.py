"""The statistics and the `add` action of a new file, by the rules of Delta and as its readers take them."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from geolake_nb.formats.delta.details import ColumnMapping, indexed_columns
from geolake_nb.formats.delta.log_actions import decoded_path
from geolake_nb.formats.delta.write_target import add_action, cut_maximum, cut_minimum, encoded_path, stats_text
from geolake_nb.geo.bound_codec import from_delta_wkt
from geolake_nb.model.box import Box
from geolake_nb.model.schema import Schema
from geolake_nb.model.statistics import ColumnStats
from geolake_nb.model.types import (
    Field,
    GeographyType,
    GeometryType,
    ListType,
    PrimitiveType,
    StringType,
    StructType,
)
from geolake_nb.parquet.column_ranges import ColumnRange
from geolake_nb.parquet.writer import Layout, ParquetWriter, WrittenFile
from geolake_nb.storage.storage import Storage
from tests.oracle.wkb_write import linestring, point, write


def stats_of(schema: Schema, *, scalars=None, geo=None, rows=2, mapping=ColumnMapping.NONE, **options):
    file = WrittenFile("a.parquet", 1, rows, geo or {}, scalars or {})
    indexed = indexed_columns(schema, {}, [])
    return json.loads(stats_text(file, schema, mapping, indexed, **options), parse_float=Decimal)


def one_column(type_, low, high):
    schema = Schema(StructType((Field("c", type_),)))
    stats = stats_of(schema, scalars={("c",): ColumnRange(low, high, 0, 2)})
    return stats.get("minValues", {}).get("c"), stats.get("maxValues", {}).get("c")


NOON = dt.datetime(2024, 1, 1, 12, 0, 0, 123999)


@pytest.mark.parametrize(
    ("name", "low", "high", "expected"),
    [
        ("int64", -(2**63), 2**63 - 1, (-(2**63), 2**63 - 1)),
        ("float64", 0.0, -0.0, (Decimal("-0.0"), Decimal("0.0"))),
        ("float64", float("-inf"), float("inf"), (None, None)),
        ("float64", 1e-7, None, (Decimal("1e-07"), None)),
        ("decimal(38, 18)", Decimal("-1E-18"), Decimal("12345678901234567890.123456789012345678"), None),
        ("date", dt.date(1, 1, 1), dt.date(9999, 12, 31), ("0001-01-01", "9999-12-31")),
        ("timestamp", NOON, NOON, ("2024-01-01T12:00:00.123",) * 2),
        ("timestamptz", NOON.replace(tzinfo=dt.UTC), None, ("2024-01-01T12:00:00.123Z", None)),
        (
            "timestamptz",
            dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC),
            NOON.replace(tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30))),
            ("1969-12-31T23:59:59.999Z", "2024-01-01T06:30:00.123Z"),
        ),
        ("boolean", False, True, (None, None)),
        ("binary", b"a", b"b", (None, None)),
    ],
)
def test_values_are_written_as_delta_writes_them(name, low, high, expected):
    assert one_column(PrimitiveType(name), low, high) == (expected or (low, high))


def test_zeros_carry_the_sign_that_is_safe_for_those_who_compare_bits():
    low, high = one_column(PrimitiveType("float64"), 0.0, -0.0)
    assert (low.is_signed(), high.is_signed()) == (True, False)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("", "", ""),
        ("a" * 32, "a" * 32, "a" * 32),
        ("a" * 33, "a" * 32, "a" * 32 + "\x7f"),
        ("a" * 32 + "\x7f", "a" * 32, "a" * 32 + "\U0010ffff"),
        ("a" * 32 + "é", "a" * 32, "a" * 32 + "\U0010ffff"),
        ("a" * 32 + "\U0010ffff", "a" * 32, "a" * 32 + "\U0010ffff"),
        ("a" * 32 + "\U0010ffffb", "a" * 32, "a" * 32 + "\U0010ffff\x7f"),
        ("😀" * 40, "😀" * 16, "😀" * 16 + "\U0010ffff"),
        ("a" * 31 + "😀b", "a" * 31 + "😀", "a" * 31 + "😀\x7f"),
        ("\U0010ffff" * 80, "\U0010ffff" * 16, None),
    ],
)
def test_long_strings_are_cut_as_spark_cuts_them(text, low, high):
    assert one_column(StringType(), text, text) == (low, high)


letters = st.characters(exclude_categories=["Cs"]) | st.sampled_from("a\x7f\ufffd\U0010ffff")


@given(st.text(letters, max_size=80))
@example("\U0010ffff" * 31)
@settings(max_examples=300)
def test_a_cut_string_still_bounds_the_whole_one_in_the_order_of_utf8(text):
    low, high = cut_minimum(text), cut_maximum(text)
    assert low.encode() <= text.encode()
    assert high is None or high.encode() >= text.encode()


NESTED = Schema(
    StructType(
        (
            Field("id", PrimitiveType("int32"), physical_name="col-1"),
            Field(
                "s",
                StructType((Field("x", StringType(), physical_name="col-3"), Field("g", GeometryType()))),
                physical_name="col-2",
            ),
            Field("l", ListType(Field("element", PrimitiveType("int32"))), physical_name="col-4"),
        )
    )
)


def test_names_are_physical_under_column_mapping_and_structs_are_objects():
    scalars = {
        ("id",): ColumnRange(1, 2, 0, 2),
        ("s", "x"): ColumnRange("a", None, 1, 2),
        ("l",): ColumnRange(None, None, 1, 2),
    }
    geo = {("s", "g"): ColumnStats(Box(1, 2, 3, 4), (1,), 2, 1, 0)}
    assert stats_of(NESTED, scalars=scalars, geo=geo, mapping=ColumnMapping.ID, deletion_vectors=True) == {
        "numRecords": 2,
        "minValues": {"col-1": 1, "col-2": {"col-3": "a", "g": "POINT(1 2)"}},
        "maxValues": {"col-1": 2, "col-2": {"g": "POINT(3 4)"}},
        "nullCount": {"col-1": 0, "col-2": {"col-3": 1, "g": 1}, "col-4": 1},
        "tightBounds": True,
    }
    assert stats_of(NESTED, scalars=scalars)["nullCount"] == {"id": 0, "s": {"x": 1}, "l": 1}


def test_columns_that_are_not_indexed_have_no_statistics():
    file = WrittenFile("a", 1, 2, {}, {("id",): ColumnRange(1, 2, 0, 2), ("l",): ColumnRange(None, None, 0, 2)})
    indexed = indexed_columns(NESTED, {"delta.dataSkippingNumIndexedCols": "0"}, [])
    assert json.loads(stats_text(file, NESTED, ColumnMapping.NONE, indexed)) == {"numRecords": 2}


def test_a_column_of_nulls_has_a_null_count_alone():
    stats = stats_of(NESTED, scalars={("id",): ColumnRange(None, None, 2, 2)})
    assert stats == {"numRecords": 2, "nullCount": {"id": 2}}


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        (Box(170, -20, -170, -10), ("POINT(-180 -20)", "POINT(180 -10)")),
        (Box(0, 0, 1, 1, zmin=2, zmax=3, mmin=4, mmax=5), ("POINT ZM(0 0 2 4)", "POINT ZM(1 1 3 5)")),
        (Box(0, 0, 1, float("inf")), None),
        (None, None),
    ],
)
def test_boxes_are_points_that_never_wrap(box, expected):
    schema = Schema(StructType((Field("h", GeographyType()),)))
    stats = stats_of(schema, geo={("h",): ColumnStats(box, (1,), 2, 0, 0)})
    actual = None if "minValues" not in stats else (stats["minValues"]["h"], stats["maxValues"]["h"])
    assert actual == expected
    assert stats["nullCount"] == {"h": 0}


def test_statistics_of_a_written_file_hold_its_rows(tmp_path):
    schema = Schema(
        StructType(
            (
                Field("id", PrimitiveType("int64")),
                Field("g", GeometryType()),
                Field("h", GeographyType()),
                Field("f", PrimitiveType("float64")),
            )
        )
    )
    indexed = indexed_columns(schema, {}, [])
    line = write(linestring((170.0, 60.0), (-170.0, 60.0)))
    with ParquetWriter(Storage.at(str(tmp_path)), "a.parquet", Layout(schema, measured=indexed)) as writer:
        writer.write(
            pa.record_batch(
                {
                    "id": [3, None],
                    "g": [write(point(0.1, 0.2)), None],
                    "h": [line, write(point(179.0, 0.0))],
                    "f": [1.0, float("nan")],
                }
            )
        )
    stats = json.loads(stats_text(writer.close(), schema, ColumnMapping.NONE, indexed))
    assert stats["numRecords"] == 2
    assert stats["nullCount"] == {"id": 1, "g": 1, "h": 0, "f": 0}
    assert from_delta_wkt(stats["minValues"]["g"], stats["maxValues"]["g"]) == Box(0.1, 0.2, 0.1, 0.2)
    on_earth = from_delta_wkt(stats["minValues"]["h"], stats["maxValues"]["h"])
    assert (on_earth.xmin, on_earth.xmax) == (-180, 180)
    assert on_earth.ymax > 60.3  # the great circle between two points at 60 degrees rises above them
    # NaN is greater than any number for Spark, so that there is no greatest number to tell.
    assert stats["minValues"]["f"] == 1.0
    assert "f" not in stats["maxValues"]


def test_the_add_action_has_what_delta_asks_for():
    file = WrittenFile("p=a b%25/ä:#.parquet", 10, 2, {}, {})
    text = add_action(
        file,
        stats='{"numRecords":2}',
        partition_values={"p": "a b%", "q": None},
        modification_time=5,
        data_change=False,
        tags={"k": "v"},
    )
    assert "\n" not in text
    assert json.loads(text) == {
        "add": {
            "path": "p=a%20b%2525/ä%3A%23.parquet",
            "partitionValues": {"p": "a b%", "q": None},
            "size": 10,
            "modificationTime": 5,
            "dataChange": False,
            "stats": '{"numRecords":2}',
            "tags": {"k": "v"},
        }
    }


@given(st.text(letters, min_size=1, max_size=20))
@settings(max_examples=200)
def test_an_encoded_path_is_decoded_to_itself(path):
    stored = encoded_path(path)
    assert decoded_path(stored) == path
    assert not set(stored) & set(' "<>\\^`{|}?#:')
