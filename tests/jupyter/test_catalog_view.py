"""A catalog in a notebook: the tree loads as it is opened, details come in the background, a table opens as a card."""

from __future__ import annotations

import re

import pytest

import geolake_nb as gl
from geolake_nb.jupyter.cards import render
from geolake_nb.jupyter.catalog_view import CATALOG_BUNDLE, CatalogView
from tests import small_tables
from tests.jupyter.shell import notebook
from tests.jupyter.test_bundle import WIDGETS, banner_hash, hash_of_sources


@pytest.fixture
def lake(tmp_path):
    (tmp_path / "europe").mkdir()
    small_tables.make_delta(tmp_path / "europe" / "roads", bounds=False)
    small_tables.make_parquet(tmp_path / "europe" / "parcels")
    small_tables.make_iceberg(tmp_path / "<b>quakes")
    return tmp_path


@pytest.fixture
def view(lake):
    made = CatalogView(gl.catalog(lake))
    yield made
    made.cancel()
    made.join(30)


def ask(view, **message) -> None:
    """A message of the browser."""
    view.tree._handle_custom_msg(message, [])


def node(view, label) -> dict:
    return next(node for node in view.tree.nodes if node["label"] == label)


def test_the_bundle_was_built_from_these_sources():
    assert banner_hash(CATALOG_BUNDLE) == hash_of_sources(WIDGETS), "run `npm run build` in widgets/"
    assert len(CATALOG_BUNDLE.read_bytes()) < 20_000


def test_a_namespace_loads_when_it_is_opened(view):
    assert [(entry["label"], entry["kind"]) for entry in view.tree.nodes] == [
        ("<b>quakes", "folder"),
        ("europe", "folder"),
    ]
    ask(view, type="expand", id=node(view, "europe")["id"])
    assert node(view, "europe")["kind"] == "namespace"
    below = [entry["name"] for entry in view.tree.nodes if entry["parent"] == node(view, "europe")["id"]]
    assert below == ["europe/parcels", "europe/roads"]
    ask(view, type="expand", id=node(view, "europe")["id"])
    assert len(view.tree.nodes) == 4


def test_a_click_on_a_table_shows_its_card(view, lake):
    ask(view, type="open", id=node(view, "<b>quakes")["id"])
    assert view.table.location == str(lake / "<b>quakes")
    assert view.card.value == render(view.table)
    assert view.tree.selected == node(view, "<b>quakes")["id"]


def test_details_are_those_of_the_catalog(view, lake):
    ask(view, type="details")
    view.join(120)
    assert view.tree.progress == {"text": "3 tables listed", "running": False}
    table = gl.catalog(lake).details().to_pylist()
    for row in table:
        cells = view.tree.details[str(next(n["id"] for n in view.tree.nodes if n["name"] == row["table"]))]["cells"]
        assert cells[:3] == [row["format"], f"{row['files']:,}", f"{row['coverage']:.0%}"]


def test_a_read_that_is_cancelled_says_so(view):
    view._cancelled.set()
    view.load_details()
    view.cancel()
    view.join(120)
    assert re.fullmatch(r"Cancelled; [0-3] tables read|3 tables listed", view.tree.progress["text"])
    assert not view.tree.progress["running"]


def test_an_error_is_one_sentence_and_no_markup(lake):
    log = lake / "europe" / "broken" / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text('{"<script>')
    view = CatalogView(gl.catalog(lake))
    ask(view, type="expand", id=node(view, "europe")["id"])
    ask(view, type="open", id=node(view, "broken")["id"])
    assert view.table is None
    assert 'role="alert"' in view.card.value
    assert "<script>" not in view.card.value
    ask(view, type="open", id=10_000)
    ask(view, type="open", id="europe")
    ask(view, type="nothing")


def test_the_map_opens_the_table_that_is_selected(view, lake):
    ask(view, type="map")
    assert view.map in view.box.children
    assert view.map.item_count == 3
    view.map.select(["europe/parcels"])
    assert view.table.location == str(lake / "europe" / "parcels")
    view.map.window = [-180, -90, 180, 90]
    assert view.map.verdict["text"].startswith("2 tables in the window: ")


def test_the_cards_escape_names_and_list_the_worst_first(lake):
    catalog = gl.catalog(lake)
    assert "<b>quakes" not in render(catalog)
    assert "&lt;b&gt;quakes" in render(catalog)
    report = render(catalog.check())
    assert report.index("europe/roads") > 0
    assert "bounds.missing" in report


def test_magics_connect_list_and_check(lake, capsys):
    with notebook(capsys) as cells:
        catalog = cells.value(f"%geolake catalog '{lake}'")
        assert catalog.tables() == ["<b>quakes", "europe/parcels", "europe/roads"]
        assert cells.value(f"%geolake catalog '{lake}' --details")["files"].tolist() == [3, 3, 3]
        cells.run(f"c = %geolake catalog '{lake}'")
        assert cells.value("%geolake check c").exit_code() == 1
        assert cells.value(f"%geolake check '{lake}' --catalog").exit_code() == 1
