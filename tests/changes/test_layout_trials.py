"""What queries would read of other layouts, where arithmetic says how much that is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.changes.layout_trials import LayoutOption, LayoutTrials
from geolake_nb.changes.sampling import Sample
from geolake_nb.changes.write_job import Packing
from geolake_nb.errors import GeolakeError, SchemaError
from geolake_nb.scan.layout_model import LayoutQueries
from tests.changes.rewrite_tables import FIELDS, PointTable
from tests.formats.delta.log_maker import field

MB = 10**6
ROWS = 6400


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    """A table of 64 MB."""
    table = PointTable(tmp_path_factory.mktemp("t"), fields=(*FIELDS, field("day", "integer")))
    for number in range(64):
        table.bare(f"{number}.parquet", MB, rows=ROWS // 64)
    return table.made().open()


def share(snapshot, query, *, rows=ROWS, partition_by=None, groups=False, **packing) -> float:
    """With points on a grid of 80 by 80 in a square, and 16 days."""
    x, y = np.meshgrid(np.arange(80) + 0.5, np.arange(80) + 0.5)
    draw = np.random.default_rng(1).permutation(ROWS)
    columns = {
        "id": pa.array(np.arange(ROWS)),
        "geom": pa.array(shapely.to_wkb(shapely.points(x.ravel(), y.ravel()))[draw], pa.large_binary()),
        "day": pa.array(np.arange(ROWS) % 16),
    }
    predicates = LayoutQueries.given(snapshot, None, [query]).predicates
    trials = LayoutTrials(snapshot, Sample(columns, ((),), np.zeros(ROWS, np.int64)), predicates, rows=rows)
    result = trials.measure(LayoutOption(Packing.of(**packing), partition_by))
    return result.group_share if groups else result.share


def test_rows_in_no_order_are_all_read(snapshot):
    assert share(snapshot, (1, 1, 9, 9), target_file_size="1MB") == 1


def test_a_window_reads_the_files_of_a_hilbert_curve_that_it_touches(snapshot):
    # 64 files are 64 squares of 10 by 10: the curve fills each of the 8 by 8 quadrants before it leaves it.
    assert share(snapshot, (1, 1, 9, 9), cluster_by="geom", target_file_size="1MB") == pytest.approx(1 / 64)
    assert share(snapshot, (1, 1, 19, 9), cluster_by="geom", target_file_size="1MB") == pytest.approx(2 / 64)
    assert share(snapshot, (1, 1, 39, 39), cluster_by="geom", target_file_size="4MB") == pytest.approx(1 / 4)
    assert share(snapshot, (1, 1, 39, 39), cluster_by="geom", target_file_size="64MB") == 1


def test_row_groups_are_smaller_parts_of_files(snapshot):
    packing = {"cluster_by": "geom", "target_file_size": "64MB", "row_group_rows": 100}
    assert share(snapshot, (1, 1, 9, 9), groups=True, **packing) == pytest.approx(1 / 64)


def test_an_order_by_a_plain_column_serves_its_comparisons(snapshot):
    assert share(snapshot, "id < 100", cluster_by="id", target_file_size="1MB") == pytest.approx(1 / 64, rel=0.3)
    assert share(snapshot, "id < 100", cluster_by="geom", target_file_size="1MB") > 0.5
    assert share(snapshot, "id IS NULL", cluster_by="geom", target_file_size="1MB") == 0


def test_partitions_by_a_plain_column_or_by_a_cell_are_files_of_their_own(snapshot):
    assert share(snapshot, "day = 3", partition_by=("day",), target_file_size="1MB") == pytest.approx(1 / 16)
    # A geohash of one letter is 45 degrees wide and high: the square has 2 by 2 of them, the first with 45 x 45 rows.
    cell = gl.cell("geom", "geohash:1")
    window = share(snapshot, (1, 1, 9, 9), partition_by=(cell,), target_file_size="64MB")
    assert window == pytest.approx(45 * 45 / ROWS)


def test_boxes_of_a_sample_grow_by_what_it_leaves_out(snapshot):
    # The window is between the rows of two files. Of those that are not in the sample, one may be there.
    query = (9.55, 1, 9.58, 2)
    packing = {"cluster_by": "geom", "target_file_size": "1MB"}
    assert share(snapshot, query, **packing) == 0
    assert share(snapshot, query, rows=100 * ROWS, **packing) > 0


def test_a_partition_column_that_is_not_there_is_refused(snapshot):
    with pytest.raises(SchemaError, match="no column 'week' to partition by; use one of: day, geom, id"):
        share(snapshot, "day = 3", partition_by=("week",))


def test_the_advice_ranks_layouts_and_changes_nothing(tmp_path):
    table = PointTable(tmp_path)
    for number in range(8):
        table.points(f"{number}.parquet", rows=1000)
    opened = gl.open(table.made().folder)
    before = sorted(tmp_path.rglob("*"))
    windows = [(x, y, x + 10, y + 10) for x in range(-180, 170, 50) for y in range(-90, 80, 50)]
    advice = opened.advise(windows, target_file_size="10KB")
    assert sorted(tmp_path.rglob("*")) == before
    shares = [layout.result.share for layout in advice.layouts]
    assert shares == sorted(shares)
    assert advice.now > 0.95
    assert shares[0] < 0.2
    names = [layout.name for layout in advice.layouts]
    assert "by geom" in names
    assert any("geohash" in name for name in names)
    assert any("in files of 40.0 kB" in name for name in names)
    assert any("in row groups of 16,384 rows" in name for name in names)
    first = advice.layouts[0]
    assert first.pays_after == -(-2 // (advice.now - first.result.share))
    assert advice.to_arrow()["layout"].to_pylist() == names
    assert "<table" in advice._repr_html_()
    assert all(len(line) <= 100 + len(str(tmp_path)) for line in str(advice).splitlines())


def test_queries_of_a_plain_column_get_layouts_by_it(tmp_path):
    opened = gl.open(PointTable(tmp_path).points("a", rows=2000).points("b", rows=2000).made().folder)
    names = [layout.name for layout in opened.advise(["id < 100"], target_file_size="10KB").layouts]
    assert any("by geom and id" in name for name in names)
    layouts = [{"cluster_by": "id"}, {"cluster_by": "geom", "curve": "zorder"}]
    given = opened.advise(["id < 100"], layouts=layouts, target_file_size="10KB").layouts
    assert [layout.name for layout in given] == ["by id", "by geom along zorder"]
    assert given[0].code == "t.plan_rewrite(cluster_by=['id'], target_file_size=10_000)"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layouts": []}, "the list of layouts is empty"),
        ({"layouts": [{"sort_by": "geom"}]}, "unknown option 'sort_by' of a layout; use: cluster_by, curve"),
        ({"queries": []}, "the list of queries is empty"),
        ({}, "no windows can be drawn: no file has bounds of a geo column; give queries"),
    ],
)
def test_what_cannot_be_compared_is_refused(tmp_path, options, words):
    opened = gl.open(PointTable(tmp_path).points("a", rows=10, bounds=False).made().folder)
    with pytest.raises(GeolakeError, match=words):
        opened.advise(**({"queries": [(0, 0, 1, 1)]} if "layouts" in options else {}) | options)
