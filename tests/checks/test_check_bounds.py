"""Bounds of files: what they look like, and how they compare with the footers and the data."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from geolake_nb.checks.finding import Severity
from geolake_nb.geo.box_comparison import AXES, BoxSides, misses
from geolake_nb.model.box import Box
from geolake_nb.model.statistics import ColumnStats
from geolake_nb.model.types import Field, ListType, geography, geometry
from geolake_nb.parquet.footer_boxes import widened
from tests.checks.check_tables import (
    BOXES,
    COUNT,
    GOOD,
    PATHS,
    ROWS,
    WRAPPED,
    delta,
    files,
    geo_stats,
    havasu,
    iceberg,
    parquet,
    the_finding,
    truth,
)

NOWHERE = [None] * COUNT
REPAIR = {
    "delta": "geolake repair /data/roads",
    "havasu": "geolake repair /data/scenes",
    "iceberg": "geolake repair /data/ways",
    "parquet": "geolake repair /data/lakes",
}


@pytest.mark.parametrize("name", GOOD)
def test_missing_bounds(name):
    column = GOOD[name]().snapshot.files.geo_columns[1]
    boxes = [None, None, *BOXES[2:]]
    table = replace(GOOD[name]().with_boxes(boxes, column), row_groups=None, deep=None)
    finding = the_finding(table.check(), "bounds.missing")
    assert finding.severity is Severity.WARNING
    assert (finding.scope.column, finding.scope.paths, finding.scope.count) == (column, tuple(PATHS[:2]), 2)
    assert finding.what.startswith("2 of 10 files")
    assert finding.fix == REPAIR[name]


def test_files_of_nulls_need_no_bounds():
    table = delta().with_boxes([None, *BOXES[1:]]).with_files(geom__null_count=[ROWS, *[0] * 9])
    assert not table.check()


def test_files_of_nulls_whose_rows_are_deleted_need_no_bounds():
    table = delta().with_boxes([None, *BOXES[1:]])
    table = table.with_files(rows=[60, *[ROWS] * 9], deleted_rows=[40, *[0] * 9], geom__null_count=[100, *[0] * 9])
    assert not table.check()


def test_files_of_empty_values_need_no_bounds_once_they_are_scanned():
    table = delta().with_boxes([None, *BOXES[1:]])
    deep = truth({"geom": [None, *BOXES[1:]], "track": BOXES})
    empties = pa.array([ROWS - 3, *[0] * 9], pa.int64())
    nulls = pa.array([3, *[0] * 9], pa.int64())
    deep = deep.set_column(deep.column_names.index("geom.empty_count"), "geom.empty_count", empties)
    deep = deep.set_column(deep.column_names.index("geom.null_count"), "geom.null_count", nulls)
    assert not table.check(deep=deep)
    assert table.check(deep=None).of("bounds.missing")


def test_a_column_inside_a_list_needs_no_bounds():
    nested = Field("parts", ListType(Field("element", geometry())))
    geo = {"parts.element": geo_stats(NOWHERE), "geom": geo_stats(), "track": geo_stats()}
    assert not delta().changed(files=files(geo)).with_fields(nested).check()


@pytest.mark.parametrize("name", GOOD)
def test_malformed_bounds(name):
    reason = "the lower bound has 21 bytes; Iceberg writes 16, 24 or 32, and these look like WKB"
    column = GOOD[name]().snapshot.files.geo_columns[0]
    table = GOOD[name]()
    table = table.with_files(
        **{
            f"{column}__{axis}": [None, *table.snapshot.files.table[f"{column}.{axis}"].to_pylist()[1:]]
            for axis in AXES
        },
        **{f"{column}__problem": [reason, *[None] * 9]},
    )
    finding = the_finding(table.check(), "bounds.malformed")
    assert finding.severity is Severity.ERROR
    assert (finding.scope.column, finding.scope.paths, finding.scope.count) == (column, (PATHS[0],), 1)
    assert reason in finding.what
    assert finding.fix == REPAIR[name]


def test_the_reasons_of_many_malformed_bounds_are_shown_by_the_first_few():
    table = delta().with_boxes(NOWHERE).with_files(geom__problem=[f"reason {index}" for index in range(COUNT)])
    finding = the_finding(table.check(), "bounds.malformed")
    assert "reason 0; reason 1; reason 2; …" in finding.what
    assert finding.scope.count == COUNT


@pytest.mark.parametrize(
    "reason",
    [
        "a geography box of another writer may cover only the vertices, not the edges",
        "the file's type is geometry(EPSG:3857), the table's geometry(OGC:CRS84)",
    ],
)
def test_boxes_that_may_be_the_wrong_ones_are_not_malformed(reason):
    table = parquet().with_boxes(NOWHERE, "track").with_files(track__problem=[reason] * COUNT)
    finding = the_finding(table.check(), "bounds.untrusted")
    assert finding.severity is Severity.WARNING
    assert (finding.scope.column, finding.scope.count) == ("track", COUNT)
    assert finding.fix == "geolake repair /data/lakes"


@pytest.mark.parametrize("column", ["geom", "track"])
def test_no_box_wraps_in_delta(column):
    table = replace(delta().with_boxes(WRAPPED, column), row_groups=None, deep=None)
    finding = the_finding(table.check(), "bounds.wrapped")
    assert finding.severity is Severity.ERROR
    assert (finding.scope.column, finding.scope.paths, finding.scope.count) == (column, (PATHS[0],), 1)
    assert finding.spec.section == "Per-file statistics"
    assert finding.fix == "geolake repair /data/roads"


@pytest.mark.parametrize("name", ["havasu", "parquet"])
def test_no_box_of_a_geometry_wraps(name):
    table = replace(GOOD[name]().with_boxes(WRAPPED), row_groups=None, deep=None)
    finding = the_finding(table.check(), "bounds.wrapped")
    assert (finding.scope.column, finding.scope.count) == ("geom", 1)


@pytest.mark.parametrize("zero", [Box(0, 0, 0, 0), widened(Box(0, 0, 0, 0))], ids=["exact", "widened"])
def test_phantom_boxes(zero):
    table = replace(delta().with_boxes([zero, zero, *BOXES[2:]]), row_groups=None, deep=None)
    finding = the_finding(table.check(), "bounds.phantom")
    assert finding.severity is Severity.WARNING
    assert (finding.scope.column, finding.scope.paths, finding.scope.count) == ("geom", tuple(PATHS[:2]), 2)
    assert finding.fix == "geolake repair /data/roads"


def test_a_phantom_box_that_loses_rows_is_an_error_too():
    table = delta().with_boxes([Box(0, 0, 0, 0), *BOXES[1:]])
    rules = [finding.rule for finding in table.check()]
    assert rules == ["bounds.smaller_than_footer", "bounds.smaller_than_data", "bounds.phantom"]


def test_data_at_zero_is_not_a_phantom():
    boxes = [Box(0, 0, 0, 0), *BOXES[1:]]
    same = truth({"geom": boxes, "track": BOXES})
    assert not delta().with_boxes(boxes).check(row_groups=same, deep=same)


@pytest.mark.parametrize(
    ("crs", "box"),
    [
        ("OGC:CRS84", Box(500_000, 0, 600_000, 80)),
        ("EPSG:4326", Box(0, 80, 1, 91)),
        ("EPSG:3857", Box(0, 0, 3e7, 1)),
        ("EPSG:32633", Box(10, 50, 11, 51)),  # degrees where metres belong
        ("OGC:CRS84", Box(-math.inf, 0, math.inf, 1)),
    ],
)
def test_boxes_outside_of_the_crs(crs, box):
    inside = {"EPSG:3857": Box(0, 0, 1e6, 1e6), "EPSG:32633": Box(4e5, 5e6, 5e5, 6e6)}.get(crs, BOXES[5])
    table = delta().with_fields(Field("geom", geometry(crs))).with_boxes([box, *[inside] * 9])
    table = replace(table, row_groups=None, deep=None, footers=None)
    [finding] = [result for result in table.check() if not result.rule.startswith("layout.")]
    assert (finding.rule, finding.severity) == ("bounds.outside_crs", Severity.WARNING)
    assert (finding.scope.column, finding.scope.paths, finding.scope.count) == ("geom", (PATHS[0],), 1)
    assert finding.fix is None


def test_a_box_somewhat_beyond_a_zone_is_not_a_fault():
    inside = Box(1.4e5, 5e6, 8.6e5, 6e6)  # zone 33 runs from 166,021 to 833,979
    table = delta().with_fields(Field("geom", geometry("EPSG:32633"))).with_boxes([inside] * COUNT)
    table = replace(table, row_groups=None, deep=None, footers=None)
    assert not table.check().of("bounds")


def test_nothing_is_outside_of_an_unknown_crs():
    table = delta().with_fields(Field("geom", geometry("SRID:0"))).with_boxes([Box(1e9, 1e9, 2e9, 2e9)] * COUNT)
    assert not replace(table, row_groups=None, deep=None, footers=None).check().of("bounds")


def test_raster_bounds_are_in_degrees():
    table = replace(havasu().with_boxes([Box(4e5, 0, 5e5, 80), *BOXES[1:]], "rast"), deep=None)
    assert the_finding(table.check(), "bounds.outside_crs").scope.column == "rast"


@pytest.mark.parametrize(("codes", "expected"), [([1, 99], "99"), ([8], "8"), ([-5], "-5"), ([3, 3], "twice")])
def test_type_codes_that_are_not_valid(codes, expected):
    table = replace(parquet(), row_groups=None, deep=None)
    table = table.with_files(geom__types=[codes, *[[3, 1006]] * 8, None])
    finding = the_finding(table.check(), "bounds.types_invalid")
    assert finding.severity is Severity.WARNING
    assert (finding.scope.column, finding.scope.paths, finding.scope.count) == ("geom", (PATHS[0],), 1)
    assert expected in finding.what
    assert finding.fix == "geolake repair /data/lakes"


def test_type_codes_that_leave_one_out():
    table = parquet().with_files(geom__types=[[1], *[[3]] * 9])
    finding = the_finding(table.check(), "bounds.types_differ")
    assert finding.severity is Severity.WARNING
    assert (finding.scope.column, finding.scope.paths, finding.scope.count) == ("geom", (PATHS[0],), 1)


def test_type_codes_that_are_not_known_differ_from_nothing():
    assert not parquet().with_files(geom__types=[[], None, *[[3]] * 8]).check()


SMALLER = Box(0.0, 0.0, 7.0, 8.0)


def test_a_box_that_is_smaller_than_the_footer():
    table = delta().with_boxes([SMALLER, *BOXES[1:]])
    finding = the_finding(table.check(deep=None), "bounds.smaller_than_footer")
    assert finding.severity is Severity.ERROR
    assert (finding.scope.column, finding.scope.paths, finding.scope.count) == ("geom", (PATHS[0],), 1)
    assert finding.fix == "geolake repair /data/roads"


def test_one_row_group_of_many_is_enough():
    outside = truth({"geom": [*BOXES, Box(-5, 0, -4, 1)]}, paths=[*PATHS, PATHS[4]])
    table = replace(delta(), row_groups=outside, deep=None)
    assert the_finding(table.check(), "bounds.smaller_than_footer").scope.paths == (PATHS[4],)


def test_a_box_that_holds_the_data_is_right_and_the_footer_loose():
    table = delta().with_boxes([SMALLER, *BOXES[1:]])
    deep = truth({"geom": [SMALLER, *BOXES[1:]], "track": BOXES})
    assert not table.check(deep=deep)


def test_a_box_that_is_smaller_than_the_data():
    table = replace(delta().with_boxes([SMALLER, *BOXES[1:]]), row_groups=None)
    finding = the_finding(table.check(), "bounds.smaller_than_data")
    assert finding.severity is Severity.ERROR
    assert (finding.scope.column, finding.scope.paths, finding.scope.count) == ("geom", (PATHS[0],), 1)
    assert finding.fix == "geolake repair /data/roads --verify"


def test_statistics_of_a_scan_may_come_by_path_and_column():
    deep = {
        path: {"geom": ColumnStats(box, (3,), rows=ROWS, null_count=0, empty_count=0)}
        for path, box in zip(PATHS, BOXES, strict=True)
    }
    assert not delta().check(deep=deep)
    table = replace(delta().with_boxes([SMALLER, *BOXES[1:]]), row_groups=None)
    assert the_finding(table.check(deep=deep), "bounds.smaller_than_data").scope.count == 1


def test_values_that_cannot_be_read():
    deep = {
        path: {"geom": ColumnStats(None if bad else box, None, rows=ROWS, null_count=0, empty_count=0, bad=bad)}
        for path, box, bad in zip(PATHS, BOXES, [2, 0, 3, *[0] * 7], strict=True)
    }
    table = replace(delta().with_boxes([None, BOXES[1], None, *BOXES[3:]]), row_groups=None)
    findings = table.check(deep=deep)
    assert [finding.rule for finding in findings] == ["bounds.values_unreadable", "bounds.missing"]
    finding = findings[0]
    assert finding.severity is Severity.ERROR
    assert (finding.scope.column, finding.scope.paths, finding.scope.count) == ("geom", (PATHS[0], PATHS[2]), 2)
    assert finding.what.startswith("5 values")
    assert finding.fix is None


def test_a_box_that_is_smaller_in_z_alone():
    flat = [replace(box, zmin=0.0, zmax=5.0) for box in BOXES]
    tall = truth({"geom": [replace(box, zmin=0.0, zmax=9.0) for box in BOXES]})
    table = replace(delta().with_boxes(flat), row_groups=None)
    assert the_finding(table.check(deep=tall), "bounds.smaller_than_data").scope.count == COUNT
    assert not replace(delta(), row_groups=None).check(deep=tall)


def test_a_wrapped_box_holds_both_of_its_sides():
    # Iceberg's geography from 175 to -175 has these parts, and not the last one.
    parts = [Box(176, 0, 180, 1), Box(-180, 0, -176, 1), Box(178, 2, -178, 3), Box(100, 0, 101, 1)]
    groups = truth({"track": [*parts, *BOXES[1:]]}, paths=[*[PATHS[0]] * 4, *PATHS[1:]])
    table = replace(iceberg(), deep=None, row_groups=groups)
    assert the_finding(table.check(), "bounds.smaller_than_footer").scope.paths == (PATHS[0],)
    good = truth({"track": [*parts[:3], *BOXES[1:]]}, paths=[*[PATHS[0]] * 3, *PATHS[1:]])
    assert not replace(table, row_groups=good).check()


def test_a_plane_box_around_the_circle_holds_a_wrapped_one():
    boxes = [Box(-180, 0, 180, 8), *BOXES[1:]]
    assert (
        not delta()
        .with_boxes(boxes, "geom")
        .with_boxes(boxes, "track")
        .check(row_groups=truth({"geom": WRAPPED, "track": WRAPPED}), deep=truth({"geom": WRAPPED, "track": WRAPPED}))
    )


def test_a_box_that_misses_the_data_by_rounding():
    # Real footers miss vertices by up to 1.4e-14 degrees.
    table = replace(delta(), row_groups=None)
    deep = truth({"geom": [replace(BOXES[0], xmin=-1.4e-14), *BOXES[1:]]})
    finding = the_finding(table.check(deep=deep), "bounds.rounding")
    assert finding.severity is Severity.INFO
    assert (finding.scope.column, finding.scope.paths, finding.scope.count) == ("geom", (PATHS[0],), 1)
    assert finding.fix == "geolake repair /data/roads --verify"


def test_a_box_that_misses_the_footer_by_rounding():
    table = replace(delta(), deep=None)
    beyond = widened(BOXES[9])
    beyond = replace(beyond, xmax=beyond.xmax + 1e-13)
    finding = the_finding(table.check(row_groups=truth({"geom": [*BOXES[:9], beyond]})), "bounds.rounding")
    assert finding.scope.paths == (PATHS[9],)


def test_the_margin_around_the_boxes_of_other_writers_is_not_missed():
    assert not replace(delta(), deep=None).check(row_groups=truth({"geom": [widened(box) for box in BOXES]}))


def test_the_step_around_a_covering_of_floats_is_not_missed():
    wide = [Box(box.xmin, box.ymin, float(np.nextafter(np.float32(box.xmax), np.inf)), box.ymax) for box in BOXES]
    groups = truth({"geom": wide}, **{"geom.source": pa.array(["covering"] * COUNT)})
    assert not replace(delta(), deep=None).check(row_groups=groups)
    assert replace(delta(), deep=None).check(row_groups=truth({"geom": wide})).of("bounds.smaller_than_footer")


def test_what_the_scan_adds_to_a_geography_is_rounding():
    beyond = truth({"track": [replace(box, ymax=box.ymax + 1e-10) for box in BOXES]})
    assert the_finding(delta().check(row_groups=None, deep=beyond), "bounds.rounding").scope.column == "track"
    more = truth({"track": [replace(box, ymax=box.ymax + 1e-5) for box in BOXES]})
    assert delta().check(row_groups=None, deep=more).of("bounds.smaller_than_data")
    ellipsoid = Field("track", geography(algorithm="thomas"))
    loose = replace(delta().with_fields(ellipsoid), row_groups=None, footers=None)
    assert [finding.rule for finding in loose.check(deep=more)] == ["bounds.rounding"]


def test_a_raster_box_may_be_a_little_tighter_than_ours():
    near = truth({"rast": [replace(box, ymax=box.ymax + 1e-3) for box in BOXES]})
    far = truth({"rast": [replace(box, ymax=box.ymax + 1e-1) for box in BOXES]})
    table = havasu().with_boxes(BOXES, "rast")
    assert [finding.rule for finding in table.check(deep=near)] == ["bounds.rounding"]
    assert [finding.rule for finding in table.check(deep=far)] == ["bounds.smaller_than_data"]


def test_a_box_that_is_looser_than_the_footer():
    table = delta().with_boxes([Box(-50, -50, 60, 60), *BOXES[1:]])
    finding = the_finding(table.check(), "bounds.looser_than_footer")
    assert finding.severity is Severity.WARNING
    assert (finding.scope.column, finding.scope.paths, finding.scope.count) == ("geom", (PATHS[0],), 1)
    assert finding.fix == "geolake repair /data/roads"


def test_a_box_is_loose_only_when_all_row_groups_are_known():
    groups = truth({"geom": [*BOXES, None]}, paths=[*PATHS, PATHS[0]])
    table = delta().with_boxes([Box(-50, -50, 60, 60), *BOXES[1:]])
    assert not table.check(row_groups=groups)
    nulls = pa.array([*[0] * COUNT, ROWS], pa.int64())
    only_null = groups.set_column(groups.column_names.index("geom.null_count"), "geom.null_count", nulls)
    assert the_finding(table.check(row_groups=only_null), "bounds.looser_than_footer")


def test_a_geography_may_be_larger_than_the_vertices_in_the_footer():
    assert not delta().with_boxes([Box(0, 0, 8, 12), *BOXES[1:]], "track").check()


def test_a_box_may_be_larger_by_a_percent():
    assert not delta().with_boxes([Box(-0.05, 0, 8.05, 8), *BOXES[1:]]).check()


def test_box_comparison_agrees_with_boxes_one_by_one():
    rng = np.random.default_rng(7)
    grid = rng.integers(-18, 19, (4000, 8)) * 10.0

    def box(x1, x2, y1, y2):
        return Box(x1, min(y1, y2), x2, max(y1, y2))

    outer = [box(*row[:4]) for row in grid]
    inner = [box(*row[4:]) for row in grid]
    sides = [
        BoxSides(
            {axis: np.array([getattr(one_box, axis) or 0.0 for one_box in boxes]) for axis in AXES[:4]}
            | {axis: np.full(len(boxes), np.nan) for axis in AXES[4:]}
        )
        for boxes in (outer, inner)
    ]
    missed = misses(*sides)
    expected = [not outer_box.contains(other) for outer_box, other in zip(outer, inner, strict=True)]
    assert missed.smaller.tolist() == expected
    assert not missed.rounded.any()
    assert 100 < sum(expected) < 3990
