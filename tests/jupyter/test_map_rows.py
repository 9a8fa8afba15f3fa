"""The rows in the window of a map: those of a full read, loaded, cancelled and drawn as the browser asks for it."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.api.scan import UnreadableValueWarning
from geolake_nb.errors import GeolakeError, JobError
from geolake_nb.jupyter.map_rows import RowPages
from geolake_nb.jupyter.map_shapes import RowShapes
from geolake_nb.jupyter.map_verdict import share_inside
from geolake_nb.jupyter.map_view import GeolakeMap
from geolake_nb.model.box import Box
from geolake_nb.model.crs import Crs
from geolake_nb.model.operators import SpatialOp
from geolake_nb.model.types import GeographyType, GeometryType
from geolake_nb.scan.scan_rows import GroupReader
from tests import small_tables
from tests.scan.row_oracle import Geo, area
from tests.scan.scan_tables import WRITERS, arrow_column, random_rows

WINDOWS = [(-5, -5, 5, 5), (8, 48, 12.5, 53), (175, -25, -175, -10), (-180, -90, 180, 90), (100, 80, 101, 81)]


def parts(shown) -> list[tuple[int, int, np.ndarray]]:
    """Kind, row and points of each part that is drawn."""
    drawn = shown.row_shapes
    ends = np.frombuffer(drawn["offsets"], "<u4")
    points = np.frombuffer(drawn["points"], "<f8").reshape(-1, 2)
    items = np.frombuffer(drawn["items"], "<u4").tolist()
    return [
        (kind, item, points[start:end])
        for kind, item, start, end in zip(drawn["kinds"], items, ends[:-1], ends[1:], strict=True)
    ]


def sent_by(shown, monkeypatch) -> list:
    sent: list = []
    monkeypatch.setattr(shown, "send", sent.append)
    return sent


def ask(shown, **message) -> None:
    """A message of the browser."""
    shown._handle_custom_msg(message, [])


def loaded(shown) -> dict:
    """The status after a click on the button."""
    ask(shown, type="load_rows")
    shown._rows._load.done.wait(30)
    return shown.row_status


def parquet(folder, shapes, crs="OGC:CRS84", **columns):
    folder.mkdir()
    wkb = pa.array([None if shape is None else shapely.to_wkb(shape) for shape in shapes], pa.binary())
    pq.write_table(pa.table({**columns, "geom": arrow_column(wkb, crs)}), folder / "a.parquet", row_group_size=2)
    return gl.open(str(folder))


@pytest.fixture
def points(tmp_path):
    """The twelve points of the small Delta table, four of them in this window."""
    shown = gl.open(str(small_tables.make_delta(tmp_path / "t"))).map()
    shown.window = [9.0, 49.0, 14.0, 54.0]
    return shown


@pytest.mark.parametrize("kind", WRITERS)
def test_the_rows_are_those_of_a_full_read_in_every_format_and_system(tmp_path, kind):
    draw = random.Random(kind)
    with np.errstate(invalid="ignore"):  # of vertices that are not a number
        made = WRITERS[kind](draw, tmp_path / "t", random_rows(draw))
    table = gl.open(made.location)
    for column, crs in made.full.crs.items():
        shown = table.map(column=column)
        known = None if crs in (None, "") else "OGC:CRS84"
        with np.errstate(invalid="ignore"):
            queries = [Geo(column, SpatialOp.INTERSECTS, Box(*window), known) for window in WINDOWS]
            expected = made.full.answers(queries)
        for window, (ids, undecided) in zip(WINDOWS, expected, strict=True):
            shown.window = list(window)
            frame = shown.rows()
            assert set(frame["id"].tolist()) - undecided == ids, (column, window)
            assert frame.active_geometry_name == column
            assert frame.crs == (known and pyproj.CRS(crs))
            assert shown.row_status["state"] == "loaded"
            assert shown.row_status["rows"] == len(frame) == frame["id"].nunique()


def test_the_button_loads_and_the_estimate_comes_first(points):
    status = points.row_status
    assert status["state"] == "ready"
    assert (status["estimate"]["files"], status["estimate"]["most"]) == (1, 4)
    assert status["estimate"]["bytes"] == points.explanation.read.bytes
    assert loaded(points)["state"] == "loaded"
    assert points.row_status["rows"] == 4
    assert 0 < points.row_status["bytes"] <= status["estimate"]["bytes"]
    assert [(kind, row) for kind, row, _ in parts(points)] == [(0, row) for row in range(4)]
    np.testing.assert_array_equal(np.concatenate([xy for *_, xy in parts(points)])[:, 0], [10, 11, 12, 13])
    assert points.row_page["boxes"][3] == [13, 53, 13, 53]
    assert len(points.rows()) == 4


def test_what_is_loaded_is_not_read_again_and_a_frame_is_a_copy(points, monkeypatch):
    first = points.rows()
    first["id"] = -1
    monkeypatch.setattr(GroupReader, "read", lambda *_, **__: pytest.fail("the rows are there"))
    assert points.rows()["id"].tolist() == [0, 1, 2, 3]


def test_another_window_forgets_the_rows(points):
    points.rows()
    points.window = [170.0, -20.0, -175.0, -15.5]
    assert (points.row_status["state"], points.row_shapes, points.row_page) == ("ready", {}, {})
    assert points.rows()["geom"].x.tolist() == [175, 176, 177]
    ask(points, type="clear_rows")
    assert (points.row_status["state"], points.row_shapes) == ("ready", {})
    points.window = None
    assert points.row_status == {"state": "none", "estimate": {}}


def test_a_filter_counts_too(points):
    points.explain("id >= 2")
    assert points.row_status["estimate"]["rows"] is None, "how many the filter keeps is not known"
    assert points.rows()["id"].tolist() == [2, 3]
    points.explain(None)
    assert len(points.rows()) == 4


def test_another_version_has_other_rows(tmp_path):
    shown = gl.open(str(small_tables.make_delta(tmp_path / "t"))).map(versions=True)
    shown.window = [-180.0, -90.0, 180.0, 90.0]
    assert len(shown.rows()) == 12
    shown.version = 0
    assert shown.row_status["state"] == "ready"
    assert len(shown.rows()) == 4


def test_without_a_window_one_sentence_says_what_to_do(tmp_path):
    shown = gl.open(str(small_tables.make_delta(tmp_path / "t"))).map()
    assert shown.row_status["state"] == "none"
    sentence = "no window is drawn; draw one on the map, or set m.window = [west, south, east, north]"
    with pytest.raises(GeolakeError, match="no window is drawn; draw one on the map") as refused:
        shown.rows()
    assert str(refused.value) == sentence
    ask(shown, type="load_rows")
    assert shown.row_status == {"state": "failed", "estimate": {}, "text": sentence}


def test_a_preview_and_rasters_have_no_rows_to_load(tmp_path):
    table = gl.open(str(small_tables.make_rasters(tmp_path / "r")))
    shown = table.map()
    assert shown.row_status == {}, "the browser offers none"
    with pytest.raises(GeolakeError, match="rasters"):
        shown.rows()
    explained = gl.open(str(small_tables.make_delta(tmp_path / "t"))).snapshot
    with pytest.raises(GeolakeError, match="a preview or an explanation has no rows"):
        GeolakeMap(explained).rows()


def test_an_empty_window_has_no_rows(points):
    points.window = [11.2, 50.5, 11.8, 50.9]
    assert points.rows().empty
    assert points.row_status["rows"] == 0
    assert (points.row_shapes["rows"], points.row_page["rows"]) == (0, [])


@pytest.fixture
def paused(points, monkeypatch):
    """A read that waits after it has begun; `go` lets it end."""
    begun, go = threading.Event(), threading.Event()
    read = GroupReader.read

    def slow(*given, **options):
        begun.set()
        assert go.wait(30)
        yield from read(*given, **options)

    monkeypatch.setattr(GroupReader, "read", slow)
    return points, begun, go


def test_a_click_on_cancel_ends_the_read(paused):
    shown, begun, go = paused
    ask(shown, type="load_rows")
    assert begun.wait(30)
    assert shown.row_status["state"] == "loading"
    load = shown._rows._load
    ask(shown, type="load_rows")
    assert shown._rows._load is load, "a second click does not read twice"
    ask(shown, type="cancel_rows")
    go.set()
    assert load.done.wait(30)
    assert (shown.row_status["state"], shown.row_shapes) == ("cancelled", {})
    assert shown.row_status["estimate"]["most"] == 4
    assert len(shown.rows()) == 4, "and then it can be read"


def test_a_window_that_is_drawn_during_the_read_wins(paused):
    shown, begun, go = paused
    ask(shown, type="load_rows")
    load = shown._rows._load
    assert begun.wait(30)
    shown.window = [-180.0, -90.0, 180.0, 90.0]
    go.set()
    assert load.done.wait(30)
    assert (shown.row_status["state"], shown.row_shapes) == ("ready", {})
    assert len(shown.rows()) == 12


def test_a_map_that_is_closed_reads_no_further(paused):
    shown, begun, go = paused
    ask(shown, type="load_rows")
    load = shown._rows._load
    assert begun.wait(30)
    shown.close()
    go.set()
    assert load.done.wait(30)
    assert load.rows is None
    assert len(shown.rows()) == 4, "Python may still ask"


def test_rows_waits_for_the_read_of_the_button_and_hears_of_its_cancel(paused):
    shown, begun, go = paused
    ask(shown, type="load_rows")
    assert begun.wait(30)
    threading.Timer(0.05, lambda: (ask(shown, type="cancel_rows"), go.set())).start()
    with pytest.raises(JobError, match="cancelled"):
        shown.rows()


def test_progress_is_shown(points, monkeypatch):
    monkeypatch.setattr("geolake_nb.jupyter.map_rows._PAUSE", 0.0)
    states: list = []
    points.observe(lambda change: states.append(change["new"]), names="row_status")
    points.window = [-180.0, -90.0, 180.0, 90.0]
    points.rows()
    loading = [(state["done"], state["total"]) for state in states if state["state"] == "loading"]
    assert loading == [(0, 0), (1, 3), (2, 3), (3, 3)]


def test_an_error_is_one_sentence_on_the_map_and_in_python(points):
    for file in points.explanation.kept["path"].to_pylist():
        (Path(points.snapshot.location) / file).unlink()
    with pytest.raises(GeolakeError, match="does not exist") as missing:
        points.rows()
    assert (points.row_status["state"], points.row_status["text"]) == ("failed", str(missing.value))


def test_the_pointer_asks_for_the_columns_of_a_row(points, monkeypatch):
    points.rows()
    sent = sent_by(points, monkeypatch)
    ask(points, type="describe_row", id=2)
    assert sent == [{"type": "row_description", "id": 2, "fields": [["id", "2"], ["geom", "POINT (12 52)"]]}]


@pytest.mark.parametrize(
    "message",
    [
        {"type": "describe_row", "id": 4},
        {"type": "describe_row", "id": -1},
        {"type": "describe_row", "id": True},
        {"type": "describe_row"},
        {"type": "row_view", "view": [0, 5, 1, 1]},
        {"type": "row_view", "view": ["a", 0, 1, 1]},
        {"type": "row_view", "view": [0, 0, float("nan"), 1]},
        {"type": "row_view", "view": None},
        {"type": "rows"},
        {},
    ],
)
def test_a_strange_message_changes_nothing(points, monkeypatch, message):
    points.rows()
    sent, before = sent_by(points, monkeypatch), dict(points.row_shapes)
    ask(points, **message)
    assert (sent, points.row_shapes, points.row_status["state"]) == ([], before, "loaded")


def test_the_table_of_rows_is_paged_and_sorted(points):
    points.window = [-180.0, -90.0, 180.0, 90.0]
    points.rows()
    assert (points.row_page["total"], points.row_page["pages"], len(points.row_page["rows"])) == (12, 2, 8)
    points.row_page_request = {"page": 9, "size": 5, "sort": "id", "descending": True}
    page = points.row_page
    assert (page["page"], [row[0] for row in page["rows"]]) == (2, [0, 0])
    points.row_page_request = {"page": -1, "size": 10**9, "sort": ["id"]}
    assert points.row_page["ids"] == list(range(12))


def test_every_value_is_a_number_or_a_short_text():
    hostile = "<img src=x onerror=alert(1)>\x1b[2J"
    table = pa.table(
        {
            "name": [hostile, "x" * 9999],
            "data": pa.array([b"\x00\x01" * 5000, None]),
            "big": pa.array([2**62, -3]),
            "real": [float("nan"), 1.5],
            "flag": [True, None],
            "day": pa.array([0, 2_932_897], pa.int32()).cast(pa.date32()),
            "nested": [{"a": [1, None]}, None],
            "geom": pa.array([shapely.to_wkb(shapely.Point(1, 2)), b"\x07"]),
        }
    )
    pages = RowPages(table, {"geom"})
    first, second = pages.page({})["rows"]
    assert first[0] == "<img src=x onerror=alert(1)>\\x1b[2J"
    assert first[1:5] == [f"10,000 bytes: {'0001' * 8}...", str(2**62), "NaN", "true"]
    assert second[1:6] == [None, -3, 1.5, None, "10000-01-01"]
    assert len(second[0]) == 200
    assert first[6:] == ["{'a': [1, None]}", "POINT (1 2)"]
    assert second[6:] == [None, "1 byte: not readable"]
    assert all(len(text) <= 80 for row in (0, 1) for _, text in pages.fields(row))
    for key in table.column_names:
        assert sorted(pages.page({"sort": key, "descending": True})["ids"]) == [0, 1]


def test_lines_and_areas_are_drawn_with_their_holes_and_nulls_are_not(tmp_path):
    donut = shapely.Point(0, 0).buffer(2).difference(shapely.Point(0, 0).buffer(1))
    line = shapely.LineString([(-3, 0), (3, 0.5), (3, 3)])
    both = shapely.GeometryCollection([shapely.MultiPoint([(1, 1), (2, 2)]), shapely.GeometryCollection([line])])
    table = parquet(tmp_path / "t", [donut, None, line, shapely.Point(), both], id=[0, 1, 2, 3, 4])
    shown = table.map()
    shown.window = [-5.0, -5.0, 5.0, 5.0]
    assert shown.rows()["id"].tolist() == [0, 2, 4]
    drawn = parts(shown)
    assert [(kind, row) for kind, row, _ in drawn] == [(0, 2), (0, 2), (1, 1), (1, 2), (2, 0), (3, 0)]
    np.testing.assert_array_equal(drawn[2][2], shapely.get_coordinates(line))
    np.testing.assert_array_equal(drawn[4][2], shapely.get_coordinates(donut.exterior))
    np.testing.assert_array_equal(drawn[5][2], shapely.get_coordinates(donut.interiors[0]))


def test_a_projected_column_is_drawn_in_degrees(tmp_path):
    line = shapely.LineString([(400_000, 5_000_000), (600_000, 5_100_000)])
    shown = parquet(tmp_path / "t", [line], "EPSG:32633").map()
    shown.window = [10.0, 40.0, 20.0, 50.0]
    assert shown.rows().crs == "EPSG:32633"
    [(_, _, drawn)] = parts(shown)
    way = pyproj.Transformer.from_crs("EPSG:32633", "OGC:CRS84", always_xy=True)
    np.testing.assert_allclose(drawn, np.column_stack(way.transform(*shapely.get_coordinates(line).T)), atol=1e-9)


def test_a_geography_is_found_and_drawn_along_its_arc(tmp_path):
    pytest.importorskip("spherely")
    wkb = pa.array([shapely.from_wkt("LINESTRING (-60 60, 60 60)").wkb, shapely.Point(0, 60).wkb])
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"geom": arrow_column(wkb, spherical=True)}), tmp_path / "t" / "a.parquet")
    shown = gl.open(str(tmp_path / "t")).map()
    shown.window = [-1.0, 70.0, 1.0, 75.0]
    assert shown.rows().geometry.geom_type.tolist() == ["LineString"]
    [(_, _, line)] = parts(shown)
    # tan(60) / cos(60), of the highest place on a great circle
    assert line[:, 1].max() == pytest.approx(np.degrees(np.arctan(np.sqrt(3) / 0.5)), abs=0.01)


def test_values_that_cannot_be_read_are_counted_on_the_map_and_warned_of(tmp_path):
    folder = tmp_path / "t"
    folder.mkdir()
    wkb = pa.array([shapely.to_wkb(shapely.Point(1, 1)), b"\x01\x02", shapely.to_wkb(shapely.Point(2, 2))])
    pq.write_table(pa.table({"geom": arrow_column(wkb)}), folder / "a.parquet", write_statistics=False)
    shown = gl.open(str(folder)).map()
    shown.window = [0.0, 0.0, 3.0, 3.0]
    with pytest.warns(UnreadableValueWarning, match="1 value of geom cannot be read"):
        assert len(shown.rows()) == 2
    assert shown.row_status["text"] == "1 value of geom cannot be read as geometries and were left out"


def test_a_geo_column_inside_a_struct_is_loaded(tmp_path):
    wkb = arrow_column(pa.array([shapely.to_wkb(shapely.Point(x, x)) for x in range(4)]))
    place = pa.StructArray.from_arrays([pa.array(range(4)), wkb], names=["id", "geom"])
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"place": place}), tmp_path / "t" / "a.parquet")
    shown = gl.open(str(tmp_path / "t")).map()
    shown.window = [0.5, 0.5, 2.5, 2.5]
    frame = shown.rows()
    assert (shown.column, frame.active_geometry_name, frame.geometry.x.tolist()) == ("place.geom", "place.geom", [1, 2])


def spread(count: int) -> np.ndarray:
    return np.random.default_rng(3).uniform((-180, -80), (180, 80), (count, 2))


def test_beyond_the_limit_a_sample_is_drawn_that_stays_when_the_map_zooms_in():
    places = spread(3000)
    shapes = RowShapes(shapely.points(places), GeometryType(), limit=500)
    whole = shapes.drawn()
    ids = np.frombuffer(whole["items"], "<u4")
    assert (whole["rows"], whole["in_view"], len(np.unique(ids))) == (500, 3000, 500)
    for view in [(-90, -40, 90, 40), (0, 0, 20, 20), (170, -80, -170, 80)]:
        west, south, east, north = view
        x, y = places.T
        inside = ((x >= west) & (x <= east) if west < east else (x >= west) | (x <= east)) & (y >= south) & (y <= north)
        drawn = shapes.drawn(view)
        chosen = set(np.frombuffer(drawn["items"], "<u4").tolist())
        assert drawn["in_view"] == inside.sum()
        assert len(chosen) == drawn["rows"] == min(500, inside.sum())
        assert chosen <= set(np.flatnonzero(inside).tolist())
        assert set(ids[inside[ids]].tolist()) <= chosen, "what was drawn there is drawn still"


def test_many_points_are_simplified_and_then_rows_are_left_out():
    angle = np.linspace(0, 2 * np.pi, 5000)
    rings = [shapely.Polygon(np.column_stack([x + np.cos(angle), np.sin(angle)])) for x in range(0, 40, 4)]
    shapes = RowShapes(np.array(rings, object), GeometryType(), points=2000)
    drawn = shapes.drawn((0, -20, 40, 20))
    assert drawn["rows"] == 10, "simplified to what a pixel shows, all fit"
    assert len(drawn["points"]) // 16 <= 2000
    near = RowShapes(np.array(rings, object), GeometryType(), points=20).drawn((0, -20, 40, 20))
    assert (near["rows"], near["in_view"]) == (1, 10)


def test_geographies_and_projections_are_drawn_over_180_degrees_and_planes_are_not():
    ring = shapely.Polygon([(178, -5), (-178, -5), (-178, 5), (178, 5)], [[(-179.5, 0), (-179, 0), (-179, 1)]])
    shapes = np.array([ring], object)
    flat = RowShapes(shapes, GeometryType()).drawn()
    np.testing.assert_array_equal(np.frombuffer(flat["points"], "<f8").reshape(-1, 2), shapely.get_coordinates(ring))
    round_ = RowShapes(shapes, GeographyType()).drawn()
    points = np.frombuffer(round_["points"], "<f8").reshape(-1, 2)
    assert (points[:, 0].min(), points[:, 0].max()) == (178, 182)
    start = np.frombuffer(round_["offsets"], "<u4")[1]
    assert points[start:, 0].tolist() == [180.5, 181, 181, 180.5], "the hole lies in its ring"
    plane = np.array([shapely.box(2.0e6, 3.9e6, 2.4e6, 4.0e6)], object)
    fiji = RowShapes(plane, GeometryType(Crs("EPSG:3460"))).drawn()
    assert np.ptp(np.frombuffer(fiji["points"], "<f8").reshape(-1, 2)[:, 0]) < 10


def test_long_edges_of_a_geography_follow_great_circles():
    pyproj_geod = pyproj.Geod(a=1, b=1)
    ends = [(-60.0, 45.0), (60.0, 45.0)]
    drawn = RowShapes(np.array([shapely.LineString(ends)], object), GeographyType()).drawn()
    points = np.frombuffer(drawn["points"], "<f8").reshape(-1, 2)
    expected = np.array([ends[0], *pyproj_geod.npts(*ends[0], *ends[1], len(points) - 2), ends[1]])
    np.testing.assert_allclose(points, expected, atol=1e-9)


def test_the_share_of_a_box_in_a_window_is_that_of_shapely():
    draw = np.random.default_rng(4)
    west, south = draw.uniform(-180, 170, 500), draw.uniform(-90, 80, 500)
    boxes = np.column_stack([west, south, west + draw.uniform(0, 10, 500), south + draw.uniform(0, 10, 500)])
    # A box that ends beyond 180 degrees goes on behind it, which shapely does not know.
    boxes = boxes[boxes[:, 2] <= 180]
    shapes = shapely.box(*boxes.T)
    for window in [(-50, -40, 60, 30), (150, -60, -150, 60), (-180, -90, 180, 90)]:
        inside = shapely.area(shapely.intersection(shapes, area(Box(*window))))
        np.testing.assert_allclose(share_inside(boxes, window), inside / shapely.area(shapes), atol=1e-9)
