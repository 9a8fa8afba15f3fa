"""The score of a layout: what explain says about the same queries, and what geometry says about regular layouts."""

from __future__ import annotations

import numpy as np
import pytest

import geolake_nb as gl
from geolake_nb.errors import GeolakeError, NoGeoColumnError, PredicateError
from geolake_nb.model.box import Box
from tests.changes.rewrite_tables import PointTable
from tests.formats.delta.log_maker import field
from tests.small_tables import make_delta

SIDES = (0.01, 0.03, 0.1)


@pytest.fixture(scope="module")
def tiles(tmp_path_factory):
    """64 files in a square grid, each with the points of its tile."""
    table = PointTable(tmp_path_factory.mktemp("tiles"))
    for number in range(64):
        x, y = number % 8 * 10.0, number // 8 * 10.0
        table.points(f"{number}.parquet", rows=200, span=Box(x, y, x + 10, y + 10), size=1000)
    return gl.open(str(table.made().folder))


@pytest.fixture(scope="module")
def heaps(tmp_path_factory):
    """64 files, each with points from the whole square."""
    table = PointTable(tmp_path_factory.mktemp("heaps"))
    for number in range(64):
        table.points(f"{number}.parquet", rows=200, span=Box(0, 0, 80, 80), size=1000)
    return gl.open(str(table.made().folder))


def of_a_grid(side: float, tiles: int = 8) -> float:
    """The share of a square grid that a window of this side meets around a random point, the margins considered."""
    centres = (np.arange(20_000) + 0.5) / 20_000
    low, high = np.maximum(centres - side / 2, 0), np.minimum(centres + side / 2, 1)
    met = np.minimum(np.floor(high * tiles), tiles - 1) - np.floor(low * tiles) + 1
    return float((met.mean() / tiles) ** 2)


def test_the_share_is_what_explain_reads(tiles):
    queries = [(1, 1, 12, 5), (30, 30, 31, 31), "ST_Intersects(geom, 'POINT (70 70)')", "id > 300"]
    explained = [tiles.explain(query) for query in queries]
    expected = [answer.read.bytes / answer.total.bytes for answer in explained]
    layout = tiles.layout(queries)
    assert layout.share == pytest.approx(np.mean(expected))
    assert layout.median == pytest.approx(np.median(expected))
    assert [(group.name, group.queries) for group in layout.queries] == [("queries", 4)]


def test_windows_read_what_geometry_says_of_a_grid(tiles):
    layout = tiles.layout(target_file_size=1000)
    for group, side in zip(layout.queries, SIDES, strict=True):
        # 32 windows of each size: the mean of so few strays from that of all.
        assert group.share == pytest.approx(of_a_grid(side), rel=0.25)
    assert layout.share == pytest.approx(np.mean([of_a_grid(side) for side in SIDES]), rel=0.1)
    assert layout.ratio < 1.15
    assert not layout.decayed


def test_the_best_of_scattered_rows_is_that_of_a_grid(heaps):
    layout = heaps.layout(target_file_size=1000)
    assert layout.share > 0.97
    # The Hilbert curve cuts a square into 64 squares, whose edges the counts of random rows move a little.
    grid = np.mean([of_a_grid(side) for side in SIDES])
    assert 0.9 * grid < layout.best < 1.4 * grid
    assert layout.decayed
    assert "geolake maintain" in str(layout)


def test_the_score_is_the_same_each_time(heaps):
    assert heaps.layout().to_dict() == heaps.layout().to_dict()


def test_files_that_one_file_could_hold_are_not_decayed(heaps):
    layout = heaps.layout()
    assert layout.best == layout.share
    assert not layout.decayed


def test_rows_stay_in_their_partitions(tmp_path):
    fields = (field("id", "long"), field("geom", "geometry(OGC:CRS84)"), field("day", "string"))
    table = PointTable(tmp_path, fields=fields, partitions=("day",))
    for number in range(16):
        more = {"size": 1000, "partitionValues": {"day": str(number)}}
        table.points(f"{number}.parquet", rows=200, span=Box(0, 0, 80, 80), **more)
    layout = gl.open(str(table.made().folder)).layout(target_file_size=1000)
    assert layout.best == layout.share > 0.97


def test_a_file_across_the_antimeridian_is_not_read_as_wide(tmp_path):
    fields = (field("id", "long"), field("geom", "geography(OGC:CRS84, spherical)"))
    table = PointTable(tmp_path, fields=fields)
    for number in range(8):
        table.points(f"{number}.parquet", rows=100, span=Box(number * 5, 0, number * 5 + 5, 5), size=1000)
    table.points("wrapped.parquet", rows=100, span=Box(-180, 0, 180, 5), size=1000)
    opened = gl.open(str(table.made().folder))
    layout = opened.layout([(60, 0, 61, 1), (0.5, 0.5, 1, 1)], target_file_size=1000)
    explained = [opened.explain(window) for window in ((60, 0, 61, 1), (0.5, 0.5, 1, 1))]
    assert layout.share == pytest.approx(np.mean([answer.read.bytes / answer.total.bytes for answer in explained]))


def test_the_versions_are_measured_one_by_one(tmp_path):
    opened = gl.open(str(make_delta(tmp_path / "t")))
    queries = [(5, 45, 12, 52)]
    layout = opened.layout(queries, versions=5)
    assert [entry.version for entry in layout.versions] == [0, 1]
    assert [entry.share for entry in layout.versions] == [opened.at(n).layout(queries).share for n in (0, 1)]


def test_queries_of_a_file(tiles, tmp_path):
    listed = tmp_path / "queries.txt"
    listed.write_text("# windows\n1, 1, 12, 5\n\nST_Intersects(geom, 'POINT (70 70)')\nPOINT (5 5)\n")
    queries = [(1, 1, 12, 5), "ST_Intersects(geom, 'POINT (70 70)')", "POINT (5 5)"]
    assert tiles.layout(listed).share == tiles.layout(str(listed)).share == tiles.layout(queries).share


def test_what_cannot_be_measured(tiles, tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("# nothing\n")
    for queries, error, words in [
        (empty, GeolakeError, "has no queries"),
        (tmp_path / "missing.txt", GeolakeError, "cannot be read"),
        ([], GeolakeError, "the list of queries is empty"),
        (["id >"], PredicateError, "id >"),
    ]:
        with pytest.raises(error, match=words):
            tiles.layout(queries)
    with pytest.raises(NoGeoColumnError, match="'id' is not a geo column"):
        tiles.layout(column="id")
    with pytest.raises(GeolakeError, match="-1 versions"):
        tiles.layout(versions=-1)


def test_without_bounds_there_is_no_score(tmp_path):
    layout = gl.open(str(make_delta(tmp_path / "t", bounds=False))).layout()
    assert (layout.share, layout.best, layout.ratio, layout.decayed) == (None, None, None, False)
    assert "every query reads all" in str(layout)
