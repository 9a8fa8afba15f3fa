"""The Python side of the live map: what it says of windows, selections and versions is what the table says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.errors import GeolakeError, PredicateError
from geolake_nb.expressions.predicate import Spatial, SpatialOp, st_intersects
from geolake_nb.jupyter.map_traits import page_traits
from geolake_nb.jupyter.map_widget import MapWidget, pack_float64, pack_uint32, side_by_side
from geolake_nb.jupyter.rewrite_dialog import preview_maps
from geolake_nb.model.box import Box
from geolake_nb.model.crs import Crs
from geolake_nb.model.types import GeographyType, GeometryType
from tests import small_tables
from tests.jupyter.mapped_tables import mapped_table, random_boxes, touching

if TYPE_CHECKING:
    from geolake_nb.jupyter.map_view import GeolakeMap

MAKERS = {
    "delta": small_tables.make_delta,
    "havasu": small_tables.make_havasu,
    "parquet": small_tables.make_parquet,
    "rasters": small_tables.make_rasters,
}


def kept(shown: GeolakeMap) -> np.ndarray:
    return np.frombuffer(shown.marks, np.uint8) == 1


def assert_says(shown: GeolakeMap, result) -> None:
    """The map says what the explanation says: amounts, marks and reasons."""
    verdict = shown.verdict
    assert (verdict["files"], verdict["files_read"]) == (result.total.files, result.read.files)
    assert (verdict["bytes"], verdict["bytes_read"]) == (result.total.bytes, result.read.bytes)
    np.testing.assert_array_equal(kept(shown), result.pruning.kept)
    marks = np.frombuffer(shown.marks, np.uint8)
    reasons = gl_reasons(result)
    for mark, reason in zip(marks.tolist(), reasons, strict=True):
        assert mark == 1 or shown.mark_reasons[mark - 2] == reason.text


def gl_reasons(result) -> list:
    from geolake_nb.scan.prune import SCAN_REASONS

    return [SCAN_REASONS[code] for code in result.pruning.reasons]


@pytest.mark.parametrize("kind", MAKERS)
def test_a_window_says_what_explain_says(tmp_path, kind):
    table = gl.open(str(MAKERS[kind](tmp_path / "t")))
    shown = table.map()
    for window in [(9, 49, 12, 52), (170, -20, -170, -10), (-180, -90, 180, 90), (0, 0, 1, 1)]:
        shown.window = list(window)
        assert_says(shown, table.explain(Box(*window)))
        # Or the browser would wait for an answer that is the same as the last one.
        assert shown.verdict["window"] == list(window)
    shown.window = None
    assert (shown.marks, shown.verdict, shown.explanation) == (b"", {}, None)


@pytest.mark.parametrize("type_", [GeometryType(), GeographyType()], ids=["geometry", "geography"])
def test_a_thousand_windows_on_both_sides_of_180_are_those_of_numpy(type_):
    boxes = random_boxes(400, seed=3)
    boxes[::50] = np.nan
    table = mapped_table(boxes, type_)
    shown = table.map(color="overlap")
    unknown = np.isnan(boxes[:, 0])
    for window in random_boxes(500 if isinstance(type_, GeographyType) else 1000, seed=4):
        shown.window = window.tolist()
        with np.errstate(invalid="ignore"):
            truth = touching(boxes, window) | unknown
        if isinstance(type_, GeometryType):
            np.testing.assert_array_equal(kept(shown), truth)
        else:
            # The edges of a window over the Earth bend polewards: it may hold more, and never less.
            assert (kept(shown) >= truth).all()
        assert shown.verdict["files_read"] == kept(shown).sum()


def test_a_window_is_moved_to_the_projection_of_the_column():
    draw = np.random.default_rng(6)
    x, y = draw.uniform(3e5, 7e5, 300), draw.uniform(5e6, 6e6, 300)
    boxes = np.column_stack([x, y, x + draw.uniform(0, 2e4, 300), y + draw.uniform(0, 2e4, 300)])
    table = mapped_table(boxes, GeometryType(Crs("EPSG:32633")))
    shown = table.map()
    outlines = dict.fromkeys(np.frombuffer(shown.ring_items, "<u4").tolist())
    assert len(outlines) == 300
    for window in [(14, 46, 15, 47), (12.5, 45.2, 17.4, 53.9), (13, 50, 13.01, 50.01)]:
        shown.window = list(window)
        predicate = Spatial.of(SpatialOp.INTERSECTS, ("geom",), Box(*window), crs="OGC:CRS84")
        assert_says(shown, table.explain(predicate))
        hulls = np.frombuffer(shown.boxes, "<f8").reshape(-1, 4)
        inside = (hulls[:, 0] >= window[0]) & (hulls[:, 2] <= window[2])
        inside &= (hulls[:, 1] >= window[1]) & (hulls[:, 3] <= window[3])
        assert kept(shown)[inside].all()


def test_a_filter_and_a_window_count_together(tmp_path):
    table = gl.open(str(small_tables.make_delta(tmp_path / "t")))
    shown = table.map(where="id > 1")
    assert_says(shown, table.explain("id > 1"))
    shown.window = [9.0, 49.0, 12.0, 52.0]
    assert_says(shown, table.explain(st_intersects("geom", Box(9, 49, 12, 52)) & gl_parse("id > 1")))
    shown.window = None
    assert_says(shown, table.explain("id > 1"))
    assert shown.explain("id > 99").read.files == 0
    assert shown.verdict["files_read"] == 0
    assert shown.explain(Box(9, 49, 12, 52)).read.files == 1
    assert shown.explain(None) is None
    assert shown.verdict == {}


def gl_parse(text):
    from geolake_nb.expressions.predicate_sql import parse_predicate

    return parse_predicate(text)


def test_an_invalid_filter_is_an_error_and_changes_nothing(tmp_path):
    shown = gl.open(str(small_tables.make_delta(tmp_path / "t"))).map()
    with pytest.raises(PredicateError):
        shown.explain("nobody > 1")
    shown.window = [0.0, 0.0, 1.0, 1.0]
    assert shown.verdict["files_read"] == 0
    shown.window = [0.0, 5.0, 1.0, 1.0]
    assert "ymin" in shown.verdict["text"]
    assert shown.marks == b""


def test_files_without_bounds_are_read_and_reported(tmp_path):
    shown = gl.open(str(small_tables.make_delta(tmp_path / "t", bounds=False))).map()
    assert shown.notes["no_bounds"] == 3
    shown.window = [0.0, 0.0, 1.0, 1.0]
    assert shown.verdict["files_read"] == 3
    assert "no bounds" in shown.verdict["text"]


def test_the_selection_is_a_table_of_its_files(tmp_path):
    table = gl.open(str(small_tables.make_delta(tmp_path / "t")))
    shown = table.map()
    assert shown.selected.num_rows == 0
    shown.selected_items = pack_uint32([0, 2])
    assert isinstance(shown.selected, pa.Table)
    assert shown.selected.equals(table.files.table.take([0, 2]))
    shown.page_request = {"page": 0, "size": 10, "sort": None, "descending": False, "selected_only": True}
    assert shown.page["ids"] == [0, 2]
    shown.select([1])
    assert shown.page["ids"] == [1]
    with pytest.raises(GeolakeError, match="0 to 2"):
        shown.select([3])


@pytest.mark.parametrize("key", ["name", "rows", "bytes", "age", "partition", "overlap", "bounds"])
@pytest.mark.parametrize("descending", [False, True])
def test_the_table_is_paged_in_the_requested_order(key, descending):
    boxes = random_boxes(95, seed=8)
    table = mapped_table(boxes)
    shown = table.map()
    stored = table.files.table
    ids: list[int] = []
    for page in range(10):
        shown.page_request = {"page": page, "size": 10, "sort": key, "descending": descending, "selected_only": False}
        assert (shown.page["page"], shown.page["pages"], shown.page["total"]) == (page, 10, 95)
        ids += shown.page["ids"]
        heads = [head["key"] for head in shown.page["columns"]]
        paths = [row[heads.index("name")] for row in shown.page["rows"]]
        assert paths == stored["path"].take(shown.page["ids"]).to_pylist()
    assert sorted(ids) == list(range(95))
    columns = {"name": "path", "rows": "rows", "bytes": "bytes", "age": "modified", "partition": "partition.day"}
    if key in columns:
        values = stored[columns[key]].take(ids).to_pylist()
        assert values == sorted(values, reverse=descending)
    if key == "bounds":
        assert (np.diff(boxes[ids, 0]) * (-1 if descending else 1) >= 0).all()


@pytest.mark.parametrize(
    "request_",
    [{}, {"page": -3}, {"page": 10**9}, {"page": "x", "size": None}, {"size": -1}, {"size": 10**9}, {"sort": ["a"]}],
)
def test_a_strange_request_for_a_page_gets_a_page(request_):
    shown = mapped_table(random_boxes(30)).map()
    shown.page_request = request_
    shown._page_requested(None)
    assert 0 <= shown.page["page"] < shown.page["pages"]
    assert shown.page["rows"]


def test_the_pointer_requests_a_description_when_there_are_many_files(monkeypatch):
    shown = mapped_table(random_boxes(20_001)).map()
    assert shown.names == []
    sent = []
    monkeypatch.setattr(shown, "send", sent.append)
    shown._handle_custom_msg({"type": "describe", "id": 7}, [])
    shown._handle_custom_msg({"type": "describe", "id": 10**6}, [])
    [message] = sent
    assert message["id"] == 7
    assert dict(map(tuple, message["fields"]))["Path"] == "part 7.parquet"


def test_the_slider_moves_over_the_versions(tmp_path):
    table = gl.open(str(small_tables.make_delta(tmp_path / "t")))
    shown = table.map(versions=True, color="version")
    assert (shown.versions, shown.version, shown.item_count) == ([0, 1], 1, 3)
    shown.window = [9.0, 49.0, 12.0, 52.0]
    shown.select([0, 1, 2])
    shown.version = 0
    assert shown.item_count == 1
    assert shown.selected["path"].to_pylist() == ["part-0.parquet"], "the file that both versions have"
    assert_says(shown, table.at(0).explain(Box(9, 49, 12, 52)))
    assert "version 0" in shown.title
    shown.version = 1
    assert_says(shown, table.explain(Box(9, 49, 12, 52)))
    keys = [column["key"] for column in shown.columns]
    added = np.frombuffer(shown.column_data, "<f4").reshape(len(keys), 3)[keys.index("version")]
    assert added.tolist() == [0, 1, 1]


def test_the_snapshots_of_iceberg_are_counted_because_their_ids_are_too_large(tmp_path):
    table = gl.open(str(small_tables.make_havasu(tmp_path / "t")))
    shown = table.map(versions=True)
    assert (shown.versions, shown.version) == ([1], 1)


def test_row_groups_of_the_selected_files_are_drawn(tmp_path):
    table = gl.open(str(small_tables.make_delta(tmp_path / "t")))
    shown = table.map()
    shown.select([2])
    shown.show_row_groups()
    [overlay] = shown.overlays
    assert overlay["name"] == "row groups (1 of 1 have bounds)"
    points = np.frombuffer(shown.overlay_data[0], "<f8").reshape(-1, 2)
    points = points[~np.isnan(points[:, 0])]
    # The boxes of other writers' footers are grown by what their rounding may miss.
    assert [*points.min(axis=0), *points.max(axis=0)] == pytest.approx([175, -18, 178, -15], abs=1e-8)
    shown.show_row_groups()
    assert len(shown.overlays) == 1


def test_geometries_of_a_file_are_drawn(tmp_path):
    shown = gl.open(str(small_tables.make_delta(tmp_path / "t"))).map()
    shown.show_geometries("part-1.parquet", limit=3)
    [overlay] = shown.overlays
    assert (overlay["kind"], overlay["name"]) == ("points", "3 geometries of part-1.parquet, points")
    points = np.frombuffer(shown.overlay_data[0], "<f8").reshape(-1, 2)
    drawn = {shapely.Point(*point) for point in points if not np.isnan(point[0])}
    assert drawn < set(small_tables.shapes(small_tables.PLACES[1]))
    assert len(drawn) == 3
    with pytest.raises(GeolakeError, match="no file 'nothing'"):
        shown.show_geometries("nothing")


def test_rasters_are_drawn_as_they_lie(tmp_path):
    table = gl.open(str(small_tables.make_rasters(tmp_path / "t")))
    shown = table.map()
    assert shown.notes["no_bounds"] == 3
    rows = table.rasters()
    boxes = np.frombuffer(shown.boxes, "<f8").reshape(-1, 4)
    np.testing.assert_array_equal(boxes[:, 0], rows["xmin"].to_numpy())
    items = np.frombuffer(shown.ring_items, "<u4")
    assert sorted(set(items.tolist())) == [0, 1, 2]
    assert [overlay["name"] for overlay in shown.overlays] == ["stored bounds (0 files)"]
    shown.show_footprints()
    assert len(shown.overlays) == 1
    with pytest.raises(GeolakeError, match="no bounds for rasters"):
        shown.show_row_groups()


def test_stored_bounds_are_drawn_when_the_rasters_cannot_be_read(tmp_path):
    folder = small_tables.make_rasters(tmp_path / "t")
    for path in folder.rglob("*.parquet"):
        path.unlink()
    shown = gl.open(str(folder)).map()
    assert shown.item_count == 3
    assert any(text.startswith("no outlines: ") for text, _ in shown.notes["problems"])


def test_a_map_says_in_a_line_what_it_is(tmp_path):
    shown = gl.open(str(small_tables.make_delta(tmp_path / "roads"))).map()
    assert repr(shown) == "GeolakeMap('roads: geom, version 1', 3 files)"


def test_an_unknown_colour_lists_the_known_ones():
    with pytest.raises(GeolakeError, match="use one of: age, bytes, overlap, partition, read, rows"):
        mapped_table(random_boxes(9)).map(color="height")


def test_a_table_without_files_has_a_map():
    shown = mapped_table(np.empty((0, 4))).map()
    shown.window = [0.0, 0.0, 1.0, 1.0]
    assert (shown.item_count, shown.verdict["files"], shown.page["total"]) == (0, 0, 0)


def test_two_maps_move_together():
    left, other = MapWidget(title="a"), MapWidget(title="b")
    pair = side_by_side(left, other)
    assert pair.children == (left, other)


def test_maps_side_by_side_share_the_window():
    table = mapped_table(np.array([[0.0, 0, 10, 10], [20, 0, 30, 10]]))
    left, right = table.map(title="before"), table.map(title="after")
    left.window = [1.0, 1.0, 2.0, 2.0]
    assert [child.title for child in left.beside(right).children] == ["before", "after"]
    assert right.verdict["files_read"] == 1
    right.window = [5.0, 5.0, 25.0, 6.0]
    assert (left.window, left.verdict["files_read"]) == (right.window, 2)


def test_a_preview_has_two_maps_that_share_the_window(tmp_path):
    table = gl.open(str(small_tables.make_delta(tmp_path / "t")))
    preview = table.plan_rewrite(cluster_by="geom").preview()
    before, after = preview_maps(preview).children
    assert (before.item_count, after.item_count) == (3, len(preview.after.files))
    before.window = [9.0, 49.0, 12.0, 52.0]
    assert after.window == before.window
    assert before.verdict["files_read"] == table.explain(Box(9, 49, 12, 52)).read.files
    assert after.verdict["files_read"] >= 1
    with pytest.raises(GeolakeError, match="a preview or an explanation"):
        before.show_row_groups()


def test_a_page_of_many_boxes_is_rounded_outwards():
    boxes = random_boxes(20_500, seed=9)
    shown = mapped_table(boxes).map()
    np.testing.assert_array_equal(np.frombuffer(shown.boxes, "<f8").reshape(-1, 4), boxes)
    paged = np.frombuffer(page_traits(shown)["boxes"], "<f8").reshape(-1, 4)
    assert (paged[:, :2] <= boxes[:, :2]).all()
    assert (paged[:, 2:] >= boxes[:, 2:]).all()
    few = mapped_table(boxes[:100]).map()
    assert page_traits(few)["boxes"] == pack_float64(boxes[:100])
