"""A deep check finds row groups whose box, in the footer or in a bbox column, leaves out some of their values."""

from __future__ import annotations

import pytest

import geolake_nb as gl
from geolake_nb.model.box import Box
from tests.api.lying_tables import shrink_box, shrink_covering, write_covered, write_points

RULE = "bounds.row_group_smaller"


def found(folder, **options):
    return [finding for finding in gl.open(str(folder)).check(**options) if finding.rule == RULE]


@pytest.fixture
def folder(tmp_path):
    return write_points(tmp_path / "t")


def test_right_boxes_have_no_finding(folder, tmp_path):
    assert found(folder, deep=True) == []
    assert found(write_covered(tmp_path / "covered"), deep=True) == []


def test_a_footer_box_that_is_too_small_is_found_although_that_of_the_file_holds_all_rows(folder):
    # The other row groups lie around this one.
    shrink_box(folder / "part-1.parquet", 1, Box(23, 0, 23.5, 1))
    [finding] = found(folder, deep=True)
    assert (finding.scope.count, finding.scope.paths) == (1, ("part-1.parquet",))
    assert finding.fix == f"geolake repair {folder} --verify"
    assert found(folder) == []
    assert RULE in {skipped.rule for skipped in gl.open(str(folder)).check().skipped_checks}


def test_the_command_of_the_finding_removes_it(folder):
    shrink_box(folder / "part-1.parquet", 1, Box(23, 0, 23.5, 1))
    gl.open(str(folder)).plan_repair(verify=True).apply()
    assert found(folder, deep=True) == []


def test_a_bbox_column_that_is_too_small_is_found(tmp_path):
    folder = write_covered(tmp_path / "t")
    shrink_covering(folder / "part-0.parquet", range(10, 20), Box(2.5, 0, 2.75, 1))
    [finding] = found(folder, deep=True)
    assert finding.scope.paths == ("part-0.parquet",)


def test_files_that_were_not_chosen_are_not_read(folder):
    shrink_box(folder / "part-1.parquet", 1, Box(23, 0, 23.5, 1))
    assert found(folder, deep=1) == []
