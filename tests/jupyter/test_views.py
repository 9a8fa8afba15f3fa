"""An explanation in a cell: the button opens the map of what it says, and a printed notebook keeps the card."""

from __future__ import annotations

import nbformat
import numpy as np
import pytest
import shapely
from nbclient import NotebookClient
from nbconvert import HTMLExporter

import geolake_nb as gl
from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.cards import render
from geolake_nb.jupyter.views import ExplanationView
from geolake_nb.model.box import Box
from geolake_nb.model.crs import Crs
from geolake_nb.model.types import GeometryType
from tests import small_tables
from tests.jupyter.html_reading import read, text_of
from tests.jupyter.mapped_tables import mapped_table, random_boxes


def drawn_points(shown, index=0) -> np.ndarray:
    points = np.frombuffer(shown.overlay_data[index], "<f8").reshape(-1, 2)
    return points[~np.isnan(points[:, 0])]


def pressed(explanation):
    view = ExplanationView(explanation)
    assert view.box.children == (view.button,)
    assert view.button.description == "Show on map"
    view.button.click()
    return view


def test_the_map_has_the_files_the_reasons_and_the_window_of_the_explanation():
    table = mapped_table(random_boxes(50))
    explanation = table.explain(Box(0, 40, 60, 80))
    view = pressed(explanation)
    shown = view.map
    assert view.box.children == (view.button, shown)
    np.testing.assert_array_equal(np.frombuffer(shown.marks, np.uint8) == 1, explanation.pruning.kept)
    assert shown.mark_reasons == [reason.text for reason in explanation.by_reason() if not reason.kept]
    assert (shown.verdict["files_read"], shown.verdict["bytes_read"]) == (
        explanation.read.files,
        explanation.read.bytes,
    )
    [overlay] = shown.overlays
    assert (overlay["name"], overlay["kind"]) == ("filter: ST_Intersects, rings", "rings")
    points = drawn_points(shown)
    assert [*points.min(axis=0), *points.max(axis=0)] == [0, 40, 60, 80]


def test_the_button_hides_the_map_and_shows_the_same_again():
    view = pressed(mapped_table(random_boxes(3)).explain(Box(0, 0, 1, 1)))
    first = view.map
    view.button.click()
    assert view.box.children == (view.button,)
    assert view.button.description == "Show on map"
    view.button.click()
    assert view.box.children == (view.button, first)


def test_the_map_is_of_the_column_that_the_filter_asks_about():
    table = mapped_table(random_boxes(5), columns=("a", "b"))
    assert pressed(table.explain(Box(0, 0, 9, 9), column="b")).map.column == "b"
    assert "--column=b" in text_of(render(table.explain(Box(0, 0, 9, 9), column="b")))
    plain = pressed(table.explain("a IS NOT NULL AND b IS NULL")).map
    assert (plain.column, plain.overlays) == ("a", [])


def test_an_error_of_the_map_is_text_under_the_button(monkeypatch):
    from geolake_nb.jupyter import map_view

    def fail(*_, **__):
        raise GeolakeError("<script>alert(1)</script>")

    monkeypatch.setattr(map_view, "GeolakeMap", fail)
    view = pressed(mapped_table(random_boxes(3)).explain(Box(0, 0, 1, 1)))
    button, status = view.box.children
    assert button is view.button
    assert read(status.value).elements == [("p", (("role", "status"),))]


def test_a_table_without_geo_columns_is_not_sent_to_a_map(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "plain.parquet")
    shown = text_of(render(gl.open(str(tmp_path / "plain.parquet")).explain("id > 1")))
    assert "reads 1 of 1 file" in shown
    assert "%geolake map" not in shown


def test_a_shape_in_another_crs_is_drawn_where_it_lies():
    import pyproj

    table = mapped_table([[0, 0, 1e6, 1e6]], GeometryType(Crs("EPSG:3857")))
    shown = table.map(where="ST_Within(geom, ST_GeomFromText('POLYGON ((0 0, 8e6 0, 8e6 8e6, 0 0))', 3857))")
    to_degrees = pyproj.Transformer.from_crs("EPSG:3857", "OGC:CRS84", always_xy=True)
    corners = np.column_stack(to_degrees.transform([0, 8e6, 8e6], [0, 0, 8e6]))
    points = drawn_points(shown)
    assert len(points) > 32
    for corner in corners:
        assert np.abs(points - corner).max(axis=1).min() < 1e-9
    np.testing.assert_allclose([points.min(axis=0), points.max(axis=0)], [corners.min(axis=0), corners.max(axis=0)])


def test_a_shape_of_unknown_crs_is_not_drawn():
    table = mapped_table([[0, 0, 1, 1]], GeometryType(Crs("SRID:0")))
    assert table.map(where="ST_Intersects(geom, ST_GeomFromText('POINT (1 2)', 3857))").overlays == []
    assert len(table.map(where="ST_Intersects(geom, 'POINT (1 2)')").overlays) == 1
    assert table.map(where="ST_Intersects(geom, 'POLYGON EMPTY')").overlays == []


def test_points_lines_and_areas_of_a_filter_are_layers_that_the_next_filter_replaces():
    shown = mapped_table(random_boxes(5)).map()
    collection = "GEOMETRYCOLLECTION (POINT (1 2), LINESTRING (3 4, 5 6), POLYGON ((0 0, 1 0, 1 1, 0 0)))"
    shown.explain(f"ST_Intersects(geom, '{collection}') OR NOT ST_Touches(geom, 'POINT (7 8)')")
    assert [overlay["kind"] for overlay in shown.overlays] == ["points", "lines", "rings", "points"]
    assert drawn_points(shown, 0).tolist() == [[1, 2]]
    assert drawn_points(shown, 3).tolist() == [[7, 8]]
    assert len({overlay["name"] for overlay in shown.overlays}) == 4
    shown.explain("ST_Intersects(geom, 'POINT (9 9)')")
    assert [overlay["name"] for overlay in shown.overlays] == ["filter: ST_Intersects, points"]
    shown.explain(None)
    assert (shown.overlays, shown.overlay_data) == ([], [])


def test_a_window_over_the_antimeridian_is_drawn_in_its_two_parts():
    shown = mapped_table(random_boxes(5)).map(where=f"ST_Intersects(geom, '{shapely.box(175, 0, 180, 1).wkt}')")
    assert drawn_points(shown)[:, 0].min() == 175
    wrapped = pressed(mapped_table(random_boxes(5)).explain(Box(170, 0, -170, 1))).map
    points = drawn_points(wrapped)
    assert sorted({*points[:, 0].tolist()}) == [-180, -170, 170, 180]


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """A notebook that a real kernel ran, without a browser."""
    folder = small_tables.make_delta(tmp_path_factory.mktemp("book") / "roads", bounds=False)
    cells = [
        f"%load_ext geolake_nb\nt = %geolake open {folder}",
        "t",
        "%geolake explain t --box 0,40,20,60",
        "%geolake repair t",
        "%geolake check t",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(book, timeout=120, kernel_name="python3", store_widget_state=False).execute()
    return book


def test_a_kernel_shows_a_card_and_under_it_the_widget_with_a_line_for_those_without(printed):
    view = "application/vnd.jupyter.widget-view+json"
    for cell, output in ((2, "Show on map"), (3, "Apply and Cancel")):
        # What is left of a bar, which a slow machine shows for a moment, is empty.
        card, button = (output for output in printed.cells[cell].outputs if output.data != {"text/plain": ""})
        assert card.data["text/html"].startswith('<div class="geolake-card')
        assert view in button.data
        assert button.data["text/plain"].startswith(f"{output}: ")
    card, button = printed.cells[1].outputs
    assert (view in card.data, view in button.data) == (False, True)
    assert button.data["text/plain"] == "Plan repair: a button in a live notebook"


def test_a_printed_notebook_has_the_cards_and_no_code_of_widgets(printed):
    page, _ = HTMLExporter().from_notebook_node(printed)
    assert page.count('class="geolake-card') == 4
    assert "reads 3 of 3 files" in page
    assert "%geolake repair" in page
    for code in ("VBox(", "Button(", "Traceback"):
        assert code not in page
