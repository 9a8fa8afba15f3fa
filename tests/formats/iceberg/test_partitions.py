"""Partition transforms against the examples of Iceberg's spec and against PyIceberg."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import struct
import uuid

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import transforms as theirs
from pyiceberg import types as kinds

from geolake_nb.errors import SchemaError
from geolake_nb.formats.iceberg.partitions import _hashes, can_transform, partition_keys, partition_of_key, transformed
from geolake_nb.model.types import PrimitiveType, StringType

MICROS = pa.timestamp("us")
UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


def primitive(name):
    return StringType() if name == "string" else PrimitiveType(name)


# Iceberg, Appendix B: 32-bit Hash Requirements.
@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("int32", pa.scalar(34, pa.int32()), 2017239379),
        ("int64", pa.scalar(34), 2017239379),
        ("decimal(9, 2)", pa.scalar(decimal.Decimal("14.20"), pa.decimal128(9, 2)), -500754589),
        ("date", pa.scalar(dt.date(2017, 11, 16)), -653330422),
        ("time", pa.scalar(dt.time(22, 31, 8), pa.time64("us")), -662762989),
        ("timestamp", pa.scalar(dt.datetime(2017, 11, 16, 22, 31, 8), MICROS), -2047944441),
        ("timestamp", pa.scalar(dt.datetime(2017, 11, 16, 22, 31, 8, 1), MICROS), -1207196810),
        ("timestamptz", pa.scalar(1510871468000000, pa.timestamp("us", "UTC")), -2047944441),
        ("timestamp_ns", pa.scalar(1510871468000001001), -1207196810),
        ("string", pa.scalar("iceberg"), 1210000089),
        ("uuid", pa.scalar(UUID.bytes, pa.binary()), 1488055340),
        ("fixed(4)", pa.scalar(b"\x00\x01\x02\x03", pa.binary(4)), -188683207),
        ("binary", pa.scalar(b"\x00\x01\x02\x03"), -188683207),
    ],
)
def test_the_examples_of_the_spec(name, value, expected):
    assert _hashes(primitive(name), pa.array([value.as_py()], value.type)).tolist() == [expected]


EPOCH = dt.datetime(1970, 1, 1)
DAYS = st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))
MOMENTS = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))
COLUMNS = {
    "binary": (pa.binary(), kinds.BinaryType(), st.binary(max_size=20)),
    "date": (pa.date32(), kinds.DateType(), DAYS),
    "decimal(20, 3)": (
        pa.decimal128(20, 3), kinds.DecimalType(20, 3), st.decimals(-(10**16), 10**16, places=3, allow_nan=False)
    ),
    "int32": (pa.int32(), kinds.IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    "int64": (pa.int64(), kinds.LongType(), st.integers(-(2**63), 2**63 - 1)),
    "string": (pa.string(), kinds.StringType(), st.text(max_size=20)),
    "timestamp": (MICROS, kinds.TimestampType(), MOMENTS),
    "uuid": (pa.binary(), kinds.UUIDType(), st.binary(min_size=16, max_size=16)),
}  # fmt: skip
TRANSFORMS = {
    "bucket[7]": theirs.BucketTransform(7),
    "bucket[999983]": theirs.BucketTransform(999983),
    "day": theirs.DayTransform(),
    "hour": theirs.HourTransform(),
    "month": theirs.MonthTransform(),
    "truncate[1]": theirs.TruncateTransform(1),
    "truncate[10]": theirs.TruncateTransform(10),
    "year": theirs.YearTransform(),
}


def internal(value):
    """The value as PyIceberg's transforms take it."""
    if isinstance(value, dt.datetime):
        return (value - EPOCH) // dt.timedelta(microseconds=1)
    return (value - EPOCH.date()).days if isinstance(value, dt.date) else value


PAIRS = [(transform, name) for transform in TRANSFORMS for name in COLUMNS if can_transform(transform, primitive(name))]


def test_the_same_types_are_taken_as_by_pyiceberg():
    # PyIceberg cuts no bytes of UUIDs either; of what it takes more, it makes nothing that a table could hold.
    taken = {(transform, name) for transform in TRANSFORMS for name in COLUMNS
             if TRANSFORMS[transform].can_transform(COLUMNS[name][1])}  # fmt: skip
    assert set(PAIRS) == taken
    assert not can_transform("zorder", StringType())
    assert not can_transform("bucket[0]", StringType())
    with pytest.raises(SchemaError, match="the transform hour does not accept this type"):
        transformed("hour", PrimitiveType("date"), pa.array([], pa.date32()))


@pytest.mark.parametrize(("transform", "name"), PAIRS)
def test_every_value_goes_where_pyiceberg_puts_it(transform, name):
    kind, their_type, values = COLUMNS[name]

    @given(st.lists(st.none() | values, max_size=8))
    def check(some):
        function = TRANSFORMS[transform].transform(their_type)
        given_ = [uuid.UUID(bytes=value) if name == "uuid" and value is not None else value for value in some]
        expected = [function(internal(value)) for value in given_]
        actual = transformed(transform, primitive(name), pa.array(some, kind)).to_pylist()
        if transform.startswith("truncate") and name.startswith("int"):
            # Below the least number Java wraps around, and Python does not.
            bits = int(name[3:])
            expected = [
                None if value is None else (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for value in expected
            ]
        assert [internal(value) for value in actual] == expected
        keys = partition_keys(transform, primitive(name), pa.array(some, kind)).to_pylist()
        assert [key_ is None for key_ in keys] == [value is None for value in some]
        for value, key in zip(actual, keys, strict=True):
            assert [other for other, same in zip(actual, keys, strict=True) if same == key] == [
                other for other in actual if other == value
            ]

    check()


def test_days_outside_of_the_years_of_python_have_keys():
    days = [-800_000, 2_932_897, None]
    keys = partition_keys("day", PrimitiveType("date"), pa.array(days, pa.int32()).cast(pa.date32())).to_pylist()
    packed = [None if key is None else base64.b64decode(partition_of_key(key)) for key in keys]
    assert packed == [None if day is None else struct.pack("<i", day) for day in days]
