"""Keys, splits and places of rows, against orders that can be told without them."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.changes.clustering import NOWHERE, UNREADABLE, Ordering, centres, keying, place_rows, split_points
from geolake_nb.changes.sampling import Sample
from geolake_nb.errors import RefusedError, SchemaError
from geolake_nb.formats.delta.file_stats import typed_partition
from geolake_nb.geo.curves import Curve
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import Field, ListType, PrimitiveType, StringType, StructType, geography, geometry
from geolake_nb.storage.hive_paths import partition_text

NESTED = StructType((Field("g", geometry()), Field("n", PrimitiveType("int32"))))
SCHEMA = Schema(
    StructType(
        (
            Field("geom", geometry()),
            Field("id", PrimitiveType("int64")),
            Field("name", StringType()),
            Field("place", NESTED),
            Field("many", ListType(Field("element", geometry()))),
            Field("any", PrimitiveType("variant")),
            Field("day", PrimitiveType("date")),
        )
    )
)


def points(*xy: tuple[float, float] | None) -> pa.Array:
    return pa.array([None if point is None else shapely.Point(point).wkb for point in xy], pa.binary())


def order_of(type_, column: pa.Array) -> list[int]:
    """The places of the rows in the order of their keys."""
    key_of = keying(Ordering(("c",)), [type_], [column])
    return np.argsort(key_of.keys([column]), kind="stable").tolist()


def test_columns_are_spelled_as_in_the_schema():
    ordering = Ordering.of(["GEOM", "place.G", "Name"], "z-order", SCHEMA)
    assert ordering == Ordering(("geom", "place.g", "name"), Curve.ZORDER)


def test_without_columns_there_is_no_ordering():
    assert Ordering.of([], "hilbert", SCHEMA) is None


@pytest.mark.parametrize(
    ("columns", "error", "words"),
    [
        (["gone"], SchemaError, "no column 'gone'"),
        (["any"], SchemaError, "any: a variant has no order"),
        (["place"], SchemaError, "place: a struct has no order"),
        (["many"], SchemaError, "many: a list has no order"),
        (["many.element"], RefusedError, "is inside a list or a map"),
        (["geom", "GEOM"], RefusedError, "listed twice"),
        (["day"], RefusedError, "'day' is a partition column"),
    ],
)
def test_columns_without_an_order_are_refused(columns, error, words):
    with pytest.raises(error, match=words):
        Ordering.of(columns, "hilbert", SCHEMA, partition_by=["day"])


def test_null_and_empty_geometries_come_last_and_bad_ones_after_them():
    column = pa.array([b"junk", None, shapely.Point(1, 1).wkb, shapely.Point().wkb, shapely.Point(0, 0).wkb])
    keys = keying(Ordering(("g",)), [geometry()], [column]).keys([column]).tolist()
    assert keys[0] == UNREADABLE
    assert keys[1] == keys[3] == NOWHERE
    assert keys[4] < keys[2] < NOWHERE


def test_only_shapes_that_are_not_empty_take_bounds_away():
    arc = bytes.fromhex("0108000000020000000000000000000000000000000000000000000000000000000000000000000040")
    shapes = [shapely.Point().wkb, b"", arc, shapely.Polygon().wkb, shapely.Point(200, 0).wkb, shapely.Point(1, 1).wkb]
    keys = keying(Ordering(("g",)), [geography()], [pa.array(shapes)]).keys([pa.array(shapes * 5)])
    assert keys.tolist()[:5] == [NOWHERE, UNREADABLE, UNREADABLE, NOWHERE, UNREADABLE]
    assert (keys.reshape(5, 6) == keys[:6]).all()


def test_a_row_with_one_of_two_geometries_has_a_location():
    first, two = points((0, 0), None, None), points(None, (5, 5), None)
    keys = keying(Ordering(("a", "b")), [geometry(), geometry()], [first, two]).keys([first, two])
    assert (keys < NOWHERE).tolist() == [True, True, False]


def test_longitudes_of_a_geography_start_after_their_widest_gap():
    around = points((179, 0), (-179, 0), (178, 0), (-178, 0))
    x = order_of(geography(), around)
    assert x in ([2, 0, 1, 3], [3, 1, 0, 2])
    assert order_of(geometry(), around) not in ([2, 0, 1, 3], [3, 1, 0, 2])


def test_the_centre_of_a_shape_over_the_antimeridian_is_on_it():
    line = pa.array([shapely.LineString([(170, 0), (-160, 0)]).wkb])
    x, _ = centres(line, geography())
    assert x.tolist() == [-175.0]


@pytest.mark.parametrize(
    ("type_", "column"),
    [
        (PrimitiveType("int64"), pa.array([5, -3, 2**60, 0])),
        (PrimitiveType("float64"), pa.array([1.5, -2.5, float("inf"), 0.0])),
        (PrimitiveType("decimal(5, 2)"), pa.array([decimal.Decimal(x) for x in ("1.50", "-3.25", "9.99", "0")])),
        (PrimitiveType("date"), pa.array([dt.date(2024, 1, day) for day in (3, 1, 4, 2)])),
        (PrimitiveType("timestamptz"), pa.array([dt.datetime(2024, 1, day, tzinfo=dt.UTC) for day in (3, 1, 4, 2)])),
        (PrimitiveType("boolean"), pa.array([True, False, True, False])),
        (StringType(), pa.array(["m", "a", "zebra", "ab"])),
        (PrimitiveType("binary"), pa.array([b"m", b"a", b"\xff", b"ab"])),
    ],
)
def test_plain_columns_are_put_in_order_with_nulls_last(type_, column):
    nulled = pa.concat_arrays([column, pa.nulls(1, column.type)])
    values = column.to_pylist()
    assert order_of(type_, nulled) == [*sorted(range(4), key=lambda index: values[index]), 4]


def test_a_value_that_the_sample_does_not_have_lies_between_its_neighbours():
    key_of = keying(Ordering(("c",)), [StringType()], [pa.array(["a", "c", "e"])])
    assert np.argsort(key_of.keys([pa.array(["d", "0", "b", "x"])])).tolist() == [1, 2, 0, 3]


@given(st.lists(st.integers(0, 1000), max_size=200), st.integers(1, 20))
@settings(max_examples=100)
def test_files_get_equal_numbers_of_rows(values, files):
    keys = np.unique(np.array(values, np.int64))
    counts = np.bincount(np.searchsorted(split_points(keys, files), keys, side="right"))
    assert len(counts) <= files
    assert not len(keys) or counts.max() - counts.min() <= 1


def test_null_and_empty_geometries_do_not_count_for_splits():
    keys = np.array([1, 2, 3, 4, NOWHERE, UNREADABLE, UNREADABLE])
    assert split_points(keys, 2).tolist() == [3]


def test_every_row_of_a_partition_goes_to_its_own_tasks():
    draw = np.random.default_rng(0)
    column = points(*[tuple(point) for point in draw.random((400, 2)).tolist()])
    key_of = keying(Ordering(("g",)), [geometry()], [column])
    codes = np.repeat([0, 1], 200)
    sample = Sample({"g": column}, (("a",), (None,)), codes)
    placed = place_rows({("a",): 1000, (None,): 300}, 100, keying=key_of, sample=sample)
    tasks = placed.tasks_of(sample.partitions, codes, key_of.keys([column]), turn=0)
    assert placed.tasks == 13
    assert set(tasks[:200].tolist()) == set(range(10))
    assert set(tasks[200:].tolist()) == {10, 11, 12}
    assert np.bincount(tasks).tolist() == [20] * 10 + [66, 67, 67]


@pytest.mark.parametrize(("nulls", "tasks"), [(0, 10), (1, 10), (40, 10), (100, 10)])
def test_null_and_empty_geometries_are_spread_over_tasks_of_their_own(nulls, tasks):
    xy = np.random.default_rng(0).random((100 - nulls, 2)).tolist()
    column = points(*[tuple(point) for point in xy], *[None] * nulls)
    key_of = keying(Ordering(("g",)), [geometry()], [column])
    sample = Sample({"g": column}, ((),), np.zeros(100, np.int64))
    placed = place_rows({(): 1000}, 100, keying=key_of, sample=sample)
    keys = key_of.keys([column])
    went = [placed.tasks_of([()], sample.codes, keys, turn=turn) for turn in range(20)]
    counts = np.sum([np.bincount(tasks_of_part, minlength=tasks) for tasks_of_part in went], axis=0)
    assert placed.tasks == len(counts) == tasks
    assert counts.min() > 0
    assert counts.max() <= 20 * 12
    mixed = {int(task_number) for task in went for task_number in task[: 100 - nulls]} & {
        int(task_number) for task in went for task_number in task[100 - nulls :]
    }
    assert len(mixed) <= (nulls == 1)


def test_an_unexpected_partition_gets_one_task():
    placed = place_rows({("a",): 100, ("b",): 100}, 100)
    [task] = set(placed.tasks_of([("c",)], np.zeros(9, np.int64), None, turn=3).tolist())
    assert 0 <= task < placed.tasks


def test_without_keys_the_files_of_a_partition_are_filled_in_turns():
    placed = place_rows({("a",): 300}, 100)
    assert [int(placed.tasks_of([("a",)], np.zeros(1, np.int64), None, turn=turn)[0]) for turn in range(4)] == [
        0,
        1,
        2,
        0,
    ]


VALUES = {
    "boolean": st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False),
    "date": st.dates(),
    "timestamp": st.datetimes(),
    "timestamptz": st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30), timezones=st.just(dt.UTC)),
    "decimal(9, 3)": st.decimals(-99999, 99999, places=3, allow_nan=False),
    "string": st.text(min_size=1),
}


@given(st.data())
@settings(max_examples=200)
def test_a_partition_value_survives_the_log(data):
    name = data.draw(st.sampled_from(sorted(VALUES)))
    type_ = StringType() if name == "string" else PrimitiveType(name)
    value = data.draw(VALUES[name])
    kind = typed_partition(pa.nulls(1, pa.string()), type_).type
    text = partition_text(pa.scalar(value, kind))
    assert typed_partition(pa.array([text], pa.string()), type_).to_pylist() == [value]


def test_bytes_that_are_not_text_are_not_a_partition_value():
    with pytest.raises(SchemaError, match="beyond ASCII"):
        partition_text(pa.scalar(b"\xff"))
