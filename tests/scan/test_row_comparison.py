from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from decimal import Decimal

import geoarrow.pyarrow as ga
import numpy as np
import pyarrow as pa
import pytest
import shapely

from geolake_nb.scan.row_comparison import row_difference, with_types

WKB = shapely.to_wkb([shapely.Point(1, 2), shapely.LineString([(0, 0), (1, 1)]), shapely.Point()])


def row_counts(expected, actual, **options):
    lost, extra = row_difference(expected, actual, **options)
    return lost, len(extra)


def test_order_does_not_count_and_repeated_rows_do():
    rows = pa.table({"a": [1, 1, 2], "b": ["x", "x", "y"]})
    assert row_counts(rows, rows.take([2, 0, 1])) == (0, 0)
    assert row_counts(rows, rows.slice(1)) == (1, 0)
    assert row_counts(rows.slice(1), rows) == (0, 1)
    # As many rows of each value in every column, and not the same rows.
    assert row_counts(rows, pa.table({"a": [1, 1, 2], "b": ["x", "y", "x"]})) == (2, 2)
    assert row_difference(rows, pa.concat_tables([rows, rows]))[1].tolist() == [3, 4, 5]
    assert row_counts(rows.slice(0, 0), rows.slice(0, 0)) == (0, 0)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1.5, float("nan"), None]),
        pa.array([0, 1, None], pa.timestamp("ns")),
        pa.array([dt.time(1), None, None]),
        pa.array([Decimal("1.50"), None, Decimal("2.00")]),
        pa.array([[1, 2], None, []]),
        pa.array([{"x": 1}, None, {"x": None}]),
        pa.array([b"\x00", b"", None]),
        pa.array([0.0, 1.0, -1.0], pa.float32()),
        pa.array([dt.date(2024, 1, 1), None, dt.date(1, 1, 1)]),
        pa.array([True, None, False]),
    ],
)
def test_values_of_all_types_equal_themselves(values):
    rows = pa.table({"a": values})
    assert row_counts(rows, rows.take([1, 2, 0])) == (0, 0)
    assert row_counts(rows, rows.slice(0, 2))[0] == 1


def test_geometries_are_compared_by_their_coordinates():
    other_order = shapely.to_wkb(shapely.from_wkb(WKB), byte_order=0)
    left, right = pa.table({"g": pa.array(WKB)}), pa.table({"g": pa.array(other_order)})
    assert row_counts(left, right, shapes=["g"]) == (0, 0)
    assert row_counts(left, right)[0] == 3
    broken = pa.table({"g": pa.array([b"\x01", None, WKB[0]])})
    assert row_counts(broken, broken, shapes=["g"]) == (0, 0)
    assert row_counts(left, broken, shapes=["g"]) == (2, 2)


def test_only_columns_that_both_have_are_compared():
    assert row_counts(pa.table({"a": [1], "b": [2]}), pa.table({"a": [1], "c": [3]})) == (0, 0)
    assert row_counts(pa.table({"a": [1, 2]}), pa.table({"b": [1]})) == (1, 0)


def test_types_of_engines_become_those_of_the_table():
    schema = pa.schema({"g": pa.binary(), "s": pa.string(), "n": pa.int64(), "w": pa.binary(), "x": pa.int64()})
    spark = pa.array([{"srid": 4326, "wkb": WKB[0]}, None])
    given = pa.table({
        "w": spark,
        "g": pa.ExtensionArray.from_storage(ga.wkb(), pa.array(WKB[:2], pa.binary())),
        "s": pa.array(["a", "b"]).dictionary_encode(),
        "n": np.array([1, 2], np.int32),
        "x": ["not", "numbers"],
        "more": [1, 2],
    })  # fmt: skip
    rows = with_types(given, schema)
    assert rows.schema.names == ["g", "s", "n", "w"]
    assert rows.schema == pa.schema([schema.field(name) for name in rows.schema.names])
    assert rows["w"].to_pylist() == [WKB[0], None]


def test_differences_are_those_of_counted_tuples():
    draw = random.Random(7)
    for _ in range(200):
        left, right = (
            pa.table({
                "a": pa.array([draw.choice([None, 1, 2]) for _ in range(size)], pa.int64()),
                "b": pa.array([draw.choice([None, "x", "y"]) for _ in range(size)], pa.string()),
                "c": pa.array([draw.choice([0.0, -0.0, None, 2.5]) for _ in range(size)], pa.float64()),
            })
            for size in (draw.randint(0, 30), draw.randint(0, 30))
        )  # fmt: skip
        before, after = (Counter(tuple(row.values()) for row in rows.to_pylist()) for rows in (left, right))
        assert row_counts(left, right) == ((before - after).total(), (after - before).total())
        extra = right.take(pa.array(row_difference(left, right)[1], pa.int64())).to_pylist()
        assert Counter(tuple(row.values()) for row in extra) == after - before
