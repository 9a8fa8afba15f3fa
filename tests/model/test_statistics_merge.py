from __future__ import annotations

import random
import warnings

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import geolake_nb as gl
from geolake_nb.geo.bounds import BadValueWarning
from geolake_nb.model.statistics import merge
from tests.oracle import great_circle as gc
from tests.oracle import wkb_walk
from tests.oracle.wkb_write import linestring, point, polygon, write
from tests.strategies import geometry_columns, make_geographies, make_geometries

NAN = float("nan")
GEOGRAPHY = gl.geography("OGC:CRS84")


def sides(box):
    if box is None:
        return None
    return box.xmin, box.ymin, box.xmax, box.ymax, box.zmin, box.zmax, box.mmin, box.mmax


def summary(stats):
    return sides(stats.box), stats.types, stats.rows, stats.null_count, stats.empty_count, stats.bad


def part(*shapes, **options):
    return gl.bounds(pa.array([None if s is None else write(s) for s in shapes], pa.binary()), **options)


def bad_part():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BadValueWarning)
        return gl.bounds(pa.array([write(point(1, 2)), b"broken"]))


def test_no_parts_are_a_column_without_rows():
    assert summary(merge([])) == (None, (), 0, 0, 0, 0)


def test_one_part_is_itself():
    stats = part(point(1, 2, 3, dims="XYZ"), None, point())
    assert summary(merge([stats])) == summary(stats)


def test_boxes_join_types_unite_and_counts_add():
    left, other = part(point(1, 2), None), part(point(-3, 4, 5, dims="XYZ"), polygon(), None)
    assert summary(merge([left, other])) == ((-3, 2, 1, 4, 5, 5, None, None), (1, 3, 1001), 5, 2, 1, 0)


def test_an_iterator_of_parts_is_taken():
    assert merge(iter([part(point(1, 2)), part(point(3, 4))])).rows == 2


@pytest.mark.parametrize("nothing", [(), (None,), (point(),), (None, point(), polygon())])
def test_a_part_with_only_nulls_and_empties_adds_nothing_to_the_box(nothing):
    for parts in ([part(*nothing), part(point(1, 2))], [part(point(1, 2)), part(*nothing)]):
        assert sides(merge(parts).box)[:4] == (1, 2, 1, 2)


def test_only_nulls_and_empties_have_no_box_and_known_types():
    merged = merge([part(None), part(point()), part()])
    assert summary(merged) == (None, (1,), 2, 1, 1, 0)


def test_any_other_part_without_a_box_makes_the_box_unknown():
    x_only = part(point(1, NAN))
    assert x_only.box is None
    for parts in ([x_only, part(point(1, 2))], [part(point(1, 2)), x_only], [x_only, x_only, part(None)]):
        merged = merge(parts)
        assert merged.box is None
        assert merged.types == (1,)


def test_a_bad_part_leaves_box_and_types_unknown_for_good():
    for parts in ([bad_part(), part(point(1, 2))], [part(point(1, 2)), bad_part()]):
        merged = merge(parts)
        assert (merged.box, merged.types, merged.bad, merged.rows) == (None, None, 1, 3)
        again = merge([merged, part(point(3, 4))])
        assert (again.box, again.types, again.bad, again.rows) == (None, None, 1, 4)


def test_unknown_survives_nested_merges():
    inner = merge([part(point(1, NAN)), part(point(1, 2))])
    assert merge([part(point(5, 6)), inner]).box is None


def test_geography_out_of_range_makes_the_whole_unknown():
    outside = part(point(200, 0), type=GEOGRAPHY)
    assert outside.box is None
    assert merge([outside, part(point(1, 2), type=GEOGRAPHY)], type=GEOGRAPHY).box is None


def test_longitudes_merge_on_a_circle_when_asked():
    parts = [part(point(175, 0), type=GEOGRAPHY), part(point(-175, 1), type=GEOGRAPHY)]
    assert sides(merge(parts, type=GEOGRAPHY).box)[:4] == (175, 0, -175, 1)
    assert sides(merge(parts, type=gl.geometry("OGC:CRS84")).box)[:4] == (-175, 0, 175, 1)


def test_the_cover_of_many_parts_is_the_smallest_and_not_that_of_pairs():
    parts = [part(point(lon, 0), type=GEOGRAPHY) for lon in (-10, 170, 100, 175, -5, 105)]
    box = merge(parts, type=GEOGRAPHY).box
    assert gc.width_of(box.xmin, box.xmax) == 185
    assert (box.xmin, box.xmax) == (-10, 175)


def test_wrapped_parts_merge():
    east = part(linestring((170, 0), (-170, 0)), type=GEOGRAPHY)
    assert east.box.wraps
    box = merge([east, part(point(150, 0), type=GEOGRAPHY)], type=GEOGRAPHY).box
    assert (box.xmin, box.xmax) == (150, -170)


def has_plain_box_or_nothing(values):
    walks = [wkb_walk.walk(value) for value in values if value is not None]
    boxless = [walk for walk in walks if walk.sides is None and not walk.empty]
    return not boxless and not any(walk.empty and any(walk.ranges) for walk in walks)


@settings(max_examples=150, deadline=None)
@given(st.lists(geometry_columns(max_size=4), max_size=5))
def test_merging_parts_is_the_whole_column_or_unknown(columns):
    merged = merge([gl.bounds(pa.array(column, pa.binary())) for column in columns])
    values = [value for column in columns for value in column]
    whole = gl.bounds(pa.array(values, pa.binary()))
    assert summary(merged)[1:] == summary(whole)[1:]
    if has_plain_box_or_nothing(values):
        assert sides(merged.box) == sides(whole.box)
    elif merged.box is not None:
        assert merged.box.contains(whole.box)


@settings(max_examples=100, deadline=None)
@given(st.lists(geometry_columns(max_size=3), max_size=5), st.randoms(use_true_random=False))
def test_the_order_and_grouping_of_parts_do_not_matter(columns, rng):
    parts = [gl.bounds(pa.array(column, pa.binary())) for column in columns]
    shuffled = parts[:]
    rng.shuffle(shuffled)
    cut = rng.randint(0, len(parts))
    straight = summary(merge(parts))
    assert summary(merge(shuffled)) == straight
    assert summary(merge([merge(parts[:cut]), merge(parts[cut:])])) == straight


def test_parts_of_many_trees_merge_to_the_whole():
    rng = random.Random(2)
    values = [write(shape) for shape in make_geometries(21, 20_000)]
    values = [value for value in values if has_plain_box_or_nothing([value])]
    parts, start = [], 0
    while start < len(values):
        size = rng.randint(1, 200)
        parts.append(gl.bounds(pa.array(values[start : start + size], pa.binary())))
        start += size
    assert summary(merge(parts)) == summary(gl.bounds(pa.array(values)))


def test_merged_geographies_hold_every_part_and_are_no_wider_than_the_cover_of_the_parts():
    rng = random.Random(3)
    shapes = [shape for shape, _ in make_geographies(4, 3000)]
    start = 0
    while start < len(shapes):
        group = [part(shape, type=GEOGRAPHY) for shape in shapes[start : start + rng.randint(1, 4)]]
        start += len(group)
        box = merge(group, type=GEOGRAPHY).box
        assert all(box.contains(stats.box) for stats in group)
        intervals = [(stats.box.xmin, gc.width_of(stats.box.xmin, stats.box.xmax)) for stats in group]
        assert gc.width_of(box.xmin, box.xmax) <= gc.cover_width(intervals) + 1e-9
