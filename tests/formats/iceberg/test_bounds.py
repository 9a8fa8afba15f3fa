from __future__ import annotations

import datetime as dt
import decimal
import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import conversions
from pyiceberg import types as theirs

from geolake_nb.errors import BoundError
from geolake_nb.formats.iceberg.bounds import decode_single_values, havasu_boxes, iceberg_boxes
from geolake_nb.formats.iceberg.schema import from_iceberg_schema
from geolake_nb.geo.bound_codec import from_havasu_wkb, from_iceberg_bytes
from geolake_nb.model.file_table import AXES
from tests.formats.havasu_tables import point
from tests.formats.iceberg_tables import column, xy

doubles = st.floats(width=64) | st.sampled_from([0.0, -0.0, 180.0, float("inf"), float("nan")])
corners = st.lists(doubles, min_size=2, max_size=4).map(lambda values: xy(*values))
ewkb = st.builds(point, doubles, doubles, big_endian=st.booleans(), srid=st.none() | st.just(4326))
iceberg_ends = st.none() | corners | st.binary(max_size=33)
havasu_ends = st.none() | ewkb | corners | st.binary(max_size=30)


def expected(lower, upper, codec):
    if lower is None and upper is None:
        return dict.fromkeys(AXES), None
    if lower is None or upper is None:
        return dict.fromkeys(AXES), "is missing"
    try:
        box = codec(lower, upper)
    except BoundError as error:
        return dict.fromkeys(AXES), error.what
    return {axis: getattr(box, axis) for axis in AXES}, None


def bits(value):
    return None if value is None else struct.pack("<d", value)


def check(pairs, decode, codec):
    lower, upper = (pa.array([pair[end] for pair in pairs], pa.binary()) for end in (0, 1))
    sides, problem = decode(lower, upper)
    for row, pair in enumerate(pairs):
        wanted, reason = expected(*pair, codec)
        for axis in AXES:
            side = sides[axis][row].as_py() if axis in sides else None
            assert bits(side) == bits(wanted[axis])
        message = problem[row].as_py()
        assert (message is None) if reason is None else reason in message


@settings(max_examples=150)
@given(st.lists(st.tuples(iceberg_ends, iceberg_ends), max_size=12))
def test_columns_of_bounds_read_as_the_codec_reads_each(pairs):
    check(pairs, iceberg_boxes, from_iceberg_bytes)


@settings(max_examples=150)
@given(st.lists(st.tuples(havasu_ends, havasu_ends), max_size=12))
def test_columns_of_points_read_as_the_codec_reads_each(pairs):
    check(pairs, havasu_boxes, from_havasu_wkb)


@pytest.mark.parametrize(
    ("lower", "upper", "reason"),
    [
        (point(0, 0), point(1, 1), "these look like WKB"),
        (xy(0, 0)[:15], xy(1, 1), "has 15 bytes"),
        (xy(0, 5), xy(1, 4), "ymin 5.0 > ymax 4.0"),
        (xy(0, float("nan")), xy(1, 1), "NaN"),
        (xy(0, 0, 1), xy(1, 1), "the lower end of a box has XYZ, its upper end XY"),
        (xy(float("inf"), 0), xy(float("-inf"), 1), "neither a range nor a wrapped one"),
        (None, xy(1, 1), "the upper bound is set but the lower bound is missing"),
    ],
)
def test_an_invalid_bound_has_a_reason(lower, upper, reason):
    sides, problem = iceberg_boxes(pa.array([lower], pa.binary()), pa.array([upper], pa.binary()))
    assert reason in problem[0].as_py()
    assert sides["xmin"].to_pylist() == [None]


def test_a_box_that_wraps_is_kept_and_m_without_z_is_distinguished_from_z():
    sides, problem = iceberg_boxes(
        pa.array([xy(170, 0), xy(0, 0, float("nan"), 5)]), pa.array([xy(-170, 1), xy(1, 1, float("nan"), 6)])
    )
    assert problem.null_count == 2
    assert (sides["xmin"][0].as_py(), sides["xmax"][0].as_py()) == (170.0, -170.0)
    assert sides["mmin"].to_pylist() == [None, 5.0]
    assert "zmin" not in sides


def test_slices_of_an_array_read_as_the_array():
    lower = pa.array([b"junk", None, xy(0, 1), xy(2, 3)])[2:]
    upper = pa.array([b"junk", None, xy(4, 5), xy(6, 7)])[2:]
    assert iceberg_boxes(lower, upper)[0]["xmin"].to_pylist() == [0.0, 2.0]


CASES = {
    "boolean": (theirs.BooleanType(), st.booleans()),
    "int": (theirs.IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    "long": (theirs.LongType(), st.integers(-(2**63), 2**63 - 1)),
    "float": (theirs.FloatType(), st.floats(width=32, allow_nan=False)),
    "double": (theirs.DoubleType(), st.floats(allow_nan=False)),
    "date": (theirs.DateType(), st.dates()),
    "time": (theirs.TimeType(), st.times()),
    "timestamp": (theirs.TimestampType(), st.datetimes()),
    "timestamptz": (theirs.TimestamptzType(), st.datetimes(timezones=st.just(dt.UTC))),
    "string": (theirs.StringType(), st.text(max_size=20)),
    "binary": (theirs.BinaryType(), st.binary(max_size=20)),
    "uuid": (theirs.UUIDType(), st.uuids().map(lambda uuid_: uuid_.bytes)),
    "decimal(38, 6)": (theirs.DecimalType(38, 6), st.decimals(-(10**31), 10**31, places=6)),
    "decimal(9, 2)": (theirs.DecimalType(9, 2), st.decimals(-(10**6), 10**6, places=2)),
    "fixed[3]": (theirs.FixedType(3), st.binary(min_size=3, max_size=3)),
}


def own_type(name):
    return from_iceberg_schema({"type": "struct", "fields": [column(1, "c", name)]}).fields[0].type


def theirs_to_bytes(type_, value):
    if isinstance(type_, theirs.UUIDType):
        return value
    if isinstance(type_, (theirs.TimestampType, theirs.TimestamptzType)):
        epoch = dt.datetime(1970, 1, 1, tzinfo=value.tzinfo)
        return conversions.to_bytes(type_, (value - epoch) // dt.timedelta(microseconds=1))
    return conversions.to_bytes(type_, value)


@pytest.mark.parametrize("name", sorted(CASES))
@settings(max_examples=25)
@given(data=st.data())
def test_single_values_that_pyiceberg_writes_are_read_back(name, data):
    type_, strategy = CASES[name]
    values = data.draw(st.lists(st.none() | strategy, max_size=6))
    stored = [None if value is None else theirs_to_bytes(type_, value) for value in values]
    decoded = decode_single_values(pa.array(stored, pa.binary()), own_type(name))
    assert decoded.validate(full=True) is None
    assert decoded.to_pylist() == values


def test_values_written_before_a_promotion_are_read_as_they_were():
    ints = pa.array([struct.pack("<i", -5), struct.pack("<q", 7)])
    assert decode_single_values(ints, own_type("long")).to_pylist() == [-5, 7]
    floats = pa.array([struct.pack("<f", 0.5), struct.pack("<d", 0.1)])
    assert decode_single_values(floats, own_type("double")).to_pylist() == [0.5, 0.1]
    days = pa.array([struct.pack("<i", 1)])
    assert decode_single_values(days, own_type("timestamp")).to_pylist() == [dt.datetime(1970, 1, 2)]


@pytest.mark.parametrize("name", sorted(set(CASES) - {"string", "binary", "fixed[3]"}))
def test_a_value_of_a_wrong_length_is_not_a_bound(name):
    lengths = [b"", b"x" * 17] + ([b"xxx"] if "decimal" not in name else [])
    values = decode_single_values(pa.array(lengths), own_type(name))
    assert values.null_count == len(lengths)


def test_a_string_truncated_inside_a_character_is_not_a_bound():
    values = decode_single_values(pa.array(["ä".encode()[:1], b"ok", None]), own_type("string"))
    assert values.to_pylist() == [None, "ok", None]


def test_types_without_an_order_have_no_bounds():
    assert decode_single_values(pa.array([b"x"]), own_type("variant")) is None
    assert decode_single_values(pa.array([b"x"]), own_type("geometry")) is None


def test_decimals_are_sign_extended():
    values = decode_single_values(pa.array([b"\xff", b"\x00\xff"]), own_type("decimal(9, 2)"))
    assert values.to_pylist() == [decimal.Decimal("-0.01"), decimal.Decimal("2.55")]
