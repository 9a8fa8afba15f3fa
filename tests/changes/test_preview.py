"""Previews against what shapely counts on the rows, and against layouts that can be told beforehand."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest
import shapely

from geolake_nb.changes.rewrite import preview
from geolake_nb.changes.sampling import sample_delta
from geolake_nb.errors import RefusedError
from geolake_nb.model.box import Box
from geolake_nb.spark.row_sources import sample_rows
from tests.changes.rewrite_tables import FIELDS, PointTable
from tests.formats.delta.log_maker import field


@pytest.fixture(scope="module")
def scattered(tmp_path_factory):
    """Twelve files that each cover the whole Earth."""
    table = PointTable(tmp_path_factory.mktemp("scattered"))
    for number in range(12):
        table.points(f"{number}.parquet")
    return table.made()


def size(table) -> int:
    return sum(path.stat().st_size for path in table.folder.rglob("*.parquet"))


def test_clustering_is_estimated_to_read_much_less(scattered):
    change = scattered.plan(cluster_by=["geom"], target_file_size=size(scattered) // 40)
    result = preview(scattered.storage, change, windows=50, sample_rows=sample_rows)
    assert (result.before.files_read, result.before.bytes_read) == (1.0, 1.0)
    assert result.before.overlap.mean == 12
    assert len(result.after.files) in (40, 41)
    assert result.after.overlap.mean < 2.5
    assert result.after.bytes_read < 0.08
    assert result.sampled_rows == 12_000
    assert sum(result.after.files.table["bytes"].to_pylist()) == pytest.approx(size(scattered), rel=0.01)


def test_the_estimated_boxes_contain_the_sampled_rows(scattered):
    change = scattered.plan(cluster_by=["geom"], target_file_size=size(scattered) // 40)
    result = preview(scattered.storage, change, windows=50, sample_rows=sample_rows)
    points = np.concatenate(
        [shapely.from_wkb(pq.read_table(path)["geom"].to_numpy()) for path in scattered.folder.rglob("*.parquet")]
    )
    boxes = result.after.files.box_array("geom").storage.to_pylist()
    areas = [shapely.box(sides["xmin"], sides["ymin"], sides["xmax"], sides["ymax"]) for sides in boxes]
    assert shapely.intersects(shapely.union_all(areas), points).all()
    # By every window the files are counted that shapely says it meets.
    windows = [shapely.box(query.xmin, query.ymin, query.xmax, query.ymax) for query in result.windows]
    shares = [np.mean(shapely.intersects(areas, window)) for window in windows]
    assert result.after.files_read == pytest.approx(np.mean(shares))


def test_windows_are_a_degree_wide_around_sampled_rows(scattered):
    result = preview(scattered.storage, scattered.plan(cluster_by=["geom"]), windows=30, sample_rows=sample_rows)
    assert len(result.windows) == 30
    assert all(window.xmax - window.xmin == pytest.approx(1.0) for window in result.windows)


def test_windows_in_a_projected_crs_are_a_hundredth_of_the_extent(tmp_path):
    table = PointTable(tmp_path, fields=(field("id", "long"), field("geom", "geometry(EPSG:32633)")))
    table.points("a.parquet", span=Box(0, 0, 500_000, 1_000_000)).made()
    result = preview(table.storage, table.plan(cluster_by=["geom"]), windows=5, sample_rows=sample_rows)
    assert result.windows[0].xmax - result.windows[0].xmin == pytest.approx(5000, rel=0.02)
    assert result.windows[0].ymax - result.windows[0].ymin == pytest.approx(10_000, rel=0.02)


def test_files_without_bounds_are_read_by_every_window(tmp_path):
    table = PointTable(tmp_path)
    for number in range(10):
        table.points(f"{number}.parquet", span=Box(number, 0, number + 0.1, 1), bounds=number > 4)
    table.made()
    result = preview(table.storage, table.plan(cluster_by=["geom"]), windows=40, sample_rows=sample_rows)
    assert 0.5 <= result.before.files_read < 0.7


def test_files_of_other_partitions_count_on_both_sides(tmp_path):
    table = PointTable(tmp_path, fields=(*FIELDS, field("p", "string")), partitions=("p",))
    for name in "abcd":
        table.points(f"p={name}/1.parquet", partition={"p": name})
    table.made()
    change = table.plan(cluster_by=["geom"], where="p = 'a'", target_file_size=size(table) // 15)
    result = preview(table.storage, change, sample_rows=sample_rows)
    assert len(result.before.files) == 4
    assert len(result.after.files) == 3 + 4
    assert result.after.bytes_read == pytest.approx(0.75 + 0.25 * 0.25, abs=0.04)


def test_compaction_is_estimated_from_the_boxes_of_the_files(tmp_path):
    table = PointTable(tmp_path)
    for number in range(8):
        table.points(f"{number}.parquet", span=Box(10 * number, 0, 10 * number + 1, 1))
    table.made()
    change = table.plan(target_file_size=size(table) // 2 + 1)
    result = preview(table.storage, change, windows=20, sample_rows=sample_rows)
    west = sorted(result.after.files.table["geom.xmin"].to_pylist())
    assert len(west) == 2
    assert west[0] == pytest.approx(0, abs=0.1)
    assert west[1] == pytest.approx(40, abs=0.1)
    assert result.after.files_read == 0.5


def test_it_prints_and_becomes_json(scattered):
    result = preview(scattered.storage, scattered.plan(cluster_by=["geom"]), windows=10, sample_rows=sample_rows)
    lines = str(result).splitlines()
    assert lines[0] == "10 windows on geom, from a sample of 12,000 rows"
    assert lines[2].split()[:2] == ["before", "12"]
    plain = result.to_dict()
    assert sorted(plain) == ["after", "before", "column", "sampled_rows", "windows"]
    assert sorted(plain["after"]) == ["bytes", "bytes_read", "files", "files_read", "overlap_depth"]


def test_a_table_without_shapes_has_a_preview_too(tmp_path):
    table = PointTable(tmp_path, fields=(field("id", "long"),))
    table.points("a.parquet").points("b.parquet").made()
    result = preview(table.storage, table.plan(cluster_by=["id"]), sample_rows=sample_rows)
    assert result.column is None
    assert result.after.files_read is None
    assert "no geo column" in str(result)


def test_nothing_to_do_has_no_preview(tmp_path):
    table = PointTable(tmp_path).bare("a", 10**8).made()
    with pytest.raises(RefusedError, match="only a rewrite that has something to do"):
        preview(table.storage, table.plan(target_file_size="100MB"), sample_rows=sample_rows)


def test_a_sample_is_the_same_each_time_and_reads_no_more_than_requested(scattered):
    rows = scattered.plan(cluster_by=["geom"]).job.rows
    progress: list[tuple[int, int]] = []
    first = sample_delta(scattered.storage, rows, ["geom"], count=600, on_progress=lambda *at: progress.append(at))
    other = sample_delta(scattered.storage, rows, ["geom"], count=600)
    assert first.columns["geom"].equals(other.columns["geom"])
    assert len(first) == pytest.approx(600, rel=0.1)
    assert progress[-1] == (12, 12)


def test_a_column_that_old_files_lack_is_null_in_the_sample(tmp_path):
    table = PointTable(tmp_path, fields=(*FIELDS, field("late", "date"))).points("a.parquet", rows=10).made()
    sample = sample_delta(table.storage, table.plan(cluster_by=["geom"]).job.rows, ["late"])
    assert sample.columns["late"].null_count == 10
