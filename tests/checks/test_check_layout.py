"""Files too small or too large, and overlapping boxes."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from geolake_nb.checks.finding import Severity
from geolake_nb.checks.rules.files import target_size
from geolake_nb.model.box import Box
from tests.checks.check_tables import BOXES, COUNT, PATHS, delta, files, geo_stats, iceberg, the_finding

MB = 2**20
FIX = "geolake rewrite /data/roads"


def test_many_small_files():
    finding = the_finding(delta().with_files(bytes=[MB] * COUNT).check(), "layout.small_files")
    assert finding.severity is Severity.WARNING
    assert (finding.scope.column, finding.scope.paths, finding.scope.count) == (None, tuple(PATHS[:3]), COUNT)
    assert "32 MB" in finding.what
    assert " 1 of 512 MB" in finding.what
    assert finding.fix == f"{FIX} --file-size 512MiB"


def test_a_few_small_files_among_others_are_not_a_fault():
    assert not delta().with_files(bytes=[MB] * 7 + [200 * MB] * 3).check()


def test_small_files_that_cannot_be_merged_are_not_a_fault():
    geo = {"geom": geo_stats(), "track": geo_stats()}
    days = pa.array([f"2026-01-{index + 1:02}" for index in range(COUNT)])
    table = delta().changed(files=files(geo, megabytes=1, partitions={"day": days}), partition_columns=("day",))
    assert not table.check()
    same = pa.array(["2026-01-01"] * COUNT)
    joined = table.changed(files=files(geo, megabytes=1, partitions={"day": same, "hour": same}))
    assert the_finding(joined.check(), "layout.small_files")


@pytest.mark.parametrize(
    ("table", "properties"),
    [(delta, {"delta.targetFileSize": "16mb"}), (iceberg, {"write.target-file-size-bytes": str(16 * MB)})],
    ids=["delta", "iceberg"],
)
def test_the_target_size_of_the_table_defines_small_and_large(table, properties):
    sized = table().with_files(bytes=[2 * MB] * COUNT)
    assert sized.check().of("layout.small_files")
    assert not sized.changed(properties=properties).check()
    assert the_finding(
        sized.changed(properties=properties).with_files(bytes=[2 * MB] * 9 + [65 * MB]).check(), "layout.large_files"
    )


def test_large_files():
    finding = the_finding(
        delta().with_files(bytes=[200 * MB] * 8 + [2049 * MB, 3000 * MB]).check(), "layout.large_files"
    )
    assert finding.severity is Severity.WARNING
    assert (finding.scope.paths, finding.scope.count) == ((PATHS[8], PATHS[9]), 2)
    assert "2 GB" in finding.what
    assert finding.fix == f"{FIX} --file-size 512MiB"


def with_overlap(boxes):
    return replace(delta().with_boxes(boxes), row_groups=None, deep=None)


def test_overlapping_boxes():
    [finding] = with_overlap([Box(-10, -10, 10, 10)] * COUNT).check().of("layout.overlap")
    assert finding.severity is Severity.WARNING
    assert finding.scope.column == "geom"
    assert "overlap depth 10.0" in finding.what
    assert finding.fix == f"{FIX} --cluster geom"


def test_boxes_that_overlap_in_one_direction_only_are_good():
    # Strips of the same longitudes: an order by one coordinate would see them as one heap.
    strips = [Box(-100, -50 + 10 * index, 100, -42 + 10 * index) for index in range(COUNT)]
    assert not with_overlap(strips).check()


def test_under_8_files_the_layout_is_not_checked():
    table = with_overlap([Box(-10, -10, 10, 10)] * COUNT)
    kept = table.snapshot.files
    few = type(kept)(kept.table.slice(0, 7), kept.geo_columns)
    findings = table.changed(files=few, details=None).check()
    assert not findings
    assert ("layout.overlap", "7 of 7 files have a box of geom; the overlap check needs at least 8") in {
        (check.rule, check.why) for check in findings.skipped_checks
    }


def test_few_boxes_in_many_files_are_not_checked():
    boxes = [Box(-10, -10, 10, 10)] * 5 + [None] * 5
    findings = with_overlap(boxes).check()
    assert [finding.rule for finding in findings] == ["bounds.missing"]
    assert "layout.overlap" in {check.rule for check in findings.skipped_checks}


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("128mb", 128 * MB),
        ("1g", 2**30),
        ("1024", 1024),
        ("10 mb", 512 * MB),
        ("-1", 512 * MB),
        ("", 512 * MB),
        ("9" * 40, 512 * MB),
    ],
)
def test_target_sizes_as_tables_write_them(text, size):
    assert target_size({"delta.targetFileSize": text}) == size


def test_boxes_of_the_good_tables_lie_apart():
    assert not delta().with_boxes(BOXES).check()


def test_files_whose_rows_lie_far_apart_are_a_decayed_layout():
    table = with_overlap([Box(-10, -10, 10, 10)] * COUNT)
    [finding] = table.check().of("layout.decayed")
    assert (finding.severity, finding.scope.column) == (Severity.WARNING, "geom")
    assert "a query reads 100.0% of the bytes" in finding.what
    assert finding.fix == "geolake maintain /data/roads"
    sized = table.changed(properties={"delta.targetFileSize": "64mb"})
    [finding] = sized.check().of("layout.decayed")
    assert finding.fix == f"geolake maintain /data/roads --file-size {64 * MB}B"


def test_one_file_that_covers_all_others_is_not_a_decayed_layout():
    assert not delta().with_boxes([Box(0, 0, 100, 8), *BOXES[1:]]).check().of("layout.decayed")
