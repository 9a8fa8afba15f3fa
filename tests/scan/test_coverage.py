from __future__ import annotations

import random

import numpy as np
import pytest
import shapely

from geolake_nb.model.box import Box, union_all
from geolake_nb.model.statistics import BoxColumn
from geolake_nb.model.types import Field, GeographyType, GeometryType, RasterType
from geolake_nb.scan.coverage import FEWEST_FILES, coverage, overlap_depth, union_box
from geolake_nb.scan.explanation import Amount
from tests.scan.snapshots import files, geo, snapshot


def test_coverage_counts_files_rows_and_bytes():
    table = files(["a", "b", "c"], rows=[1, 2, 4], sizes=[10, 30, 60], geom=[Box(0, 0, 1, 1), None, Box(5, 5, 6, 6)])
    [bounds] = coverage(snapshot(table))
    assert (bounds.covered, bounds.total) == (Amount(2, 5, 70), Amount(3, 7, 100))
    assert (bounds.share, bounds.complete, bounds.box) == (0.7, False, Box(0, 0, 6, 6))
    assert bounds.to_dict() == {
        "column": "geom",
        "covered": {"files": 2, "rows": 5, "bytes": 70},
        "total": {"files": 3, "rows": 7, "bytes": 100},
        "share": 0.7,
        "box": [0.0, 0.0, 6.0, 6.0],
    }


def test_a_file_of_nulls_needs_no_bounds():
    [bounds] = coverage(snapshot(files(["a"], rows=[3], geom=geo([None], nulls=[3]))))
    assert (bounds.complete, bounds.box) == (True, None)


def test_a_table_without_files_has_no_share():
    [bounds] = coverage(snapshot(files([], geom=[])))
    assert (bounds.share, bounds.complete) == (None, True)


def test_each_geo_column_has_its_own_and_longitudes_wrap_where_they_may():
    boxes = [Box(170, 0, 175, 1), Box(-175, 0, -170, 1)]
    fields = (Field("geom", GeometryType()), Field("geog", GeographyType()), Field("tile", RasterType()))
    bounds = coverage(snapshot(files(["a", "b"], geom=boxes, geog=boxes, tile=boxes), fields=fields))
    sides = [(entry.column, entry.box.xmin, entry.box.xmax) for entry in bounds]
    assert sides == [("geom", -175, 175), ("geog", 170, -170), ("tile", 170, -170)]


@pytest.mark.parametrize("seed", range(40))
def test_the_union_is_that_of_the_boxes_one_by_one(seed):
    rng = random.Random(seed)
    boxes = []
    for _ in range(rng.randint(1, 9)):
        west, south = rng.uniform(-180, 180), rng.uniform(-90, 89)
        east = west + rng.uniform(0, 90)
        boxes.append(Box(west, south, east - 360 if east > 180 else east, south + 1))
    flat = [box for box in boxes if not box.wraps]
    assert union_box(BoxColumn.from_boxes(boxes), circular=True) == union_all(boxes, circular=True)
    assert union_box(BoxColumn.from_boxes(flat)) == union_all(flat)


def test_few_files_are_not_checked():
    boxes = [Box(0, 0, 1, 1)] * FEWEST_FILES
    assert overlap_depth(BoxColumn.from_boxes(boxes[1:])) is None
    assert overlap_depth(BoxColumn.from_boxes([*boxes[1:], None])) is None
    depth = overlap_depth(BoxColumn.from_boxes(boxes))
    assert (depth.mean, depth.deepest, depth.files, depth.sampled) == (8.0, 8, 8, 8)


def test_the_depth_is_what_shapely_counts():
    rng = np.random.default_rng(7)
    x, y = rng.uniform(0, 100, 300), rng.uniform(0, 100, 300)
    width, height = rng.uniform(0, 20, 300), rng.uniform(0, 20, 300)
    depth = overlap_depth(BoxColumn.from_sides(x, y, x + width, y + height))
    tree = shapely.STRtree(shapely.box(x, y, x + width, y + height))
    centres, _ = tree.query(shapely.points(x + width / 2, y + height / 2), predicate="intersects")
    counts = np.bincount(centres, minlength=300)
    assert (depth.mean, depth.deepest) == (counts.mean(), counts.max())


def test_wrapped_boxes_overlap_over_the_antimeridian():
    boxes = [Box(170, 0, -170, 1)] * 4 + [Box(175, 0, 179, 1)] * 4 + [Box(0, 0, 1, 1)] * 2
    depth = overlap_depth(BoxColumn.from_boxes(boxes))
    # The centre of the wrapped ones is 180, where only they are.
    assert (depth.deepest, depth.mean) == (8, (4 * 4 + 4 * 8 + 2 * 2) / 10)


def test_a_large_table_is_sampled():
    x = np.repeat(np.arange(5000.0), 2)
    depth = overlap_depth(BoxColumn.from_sides(x, x * 0, x + 0.5, x * 0 + 1))
    assert (depth.mean, depth.files, depth.sampled) == (2.0, 10_000, 512)


def test_endless_boxes_have_a_centre():
    depth = overlap_depth(BoxColumn.from_sides([-np.inf] * 8, [0.0] * 8, [np.inf] * 8, [1.0] * 8))
    assert depth.mean == 8
