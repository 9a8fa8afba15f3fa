"""The raster browser, driven by its controls: what it shows is what was written into the files."""

from __future__ import annotations

import socket

import numpy as np
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.completion import offers
from geolake_nb.jupyter.map_widget import pack_uint32
from geolake_nb.jupyter.raster_browser import RasterBrowser
from geolake_nb.raster_data.raster import Band, GeoReference, PixelType, Raster
from tests import small_tables
from tests.formats.havasu_tables import make_havasu_table, raster_at, raster_entry
from tests.jupyter.html_reading import read, text_of
from tests.jupyter.shell import notebook
from tests.jupyter.test_collation_editor import every_widget, labelled

HERE = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
URL = "https://me:pw@host.example/<b>a</b>.tif?sig=secret"
BANDS = (
    Band(PixelType.PT_16BSI, b"\x01\x80", bytes(12)),
    Band(PixelType.PT_32BF, None, None, 2, URL),
    Band(PixelType.PT_64BF, np.float64("nan").tobytes(), None, 0, "file:///etc/passwd"),
)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def make(folder, *files):
    entries = [raster_entry(f"r{number}", list(stored), None) for number, stored in enumerate(files)]
    make_havasu_table(folder, entries, encoding=None, rasters=True)
    return gl.open(folder)


@pytest.fixture
def mixed(tmp_path):
    """Three rasters in two files: one with a null before it, one without a georeference."""
    return make(
        tmp_path / "t", [None, raster_at(10, 50)], [Raster(3, 2, BANDS, None, HERE), raster_at(179, -10, bands=7)]
    )


def shown(browser):
    return text_of(browser.card.value)


def test_the_list_has_every_raster_with_its_size(mixed):
    browser = mixed.browse_rasters()
    assert browser.list.options == (
        ("0  r0.parquet #0  4 x 4, 1 band", 0),
        ("1  r1.parquet #0  3 x 2, 3 bands", 1),
        ("2  r1.parquet #1  4 x 4, 7 bands", 2),
    )
    assert "page 1 of 1, 3 rasters" in browser.note.value


def test_the_selected_raster_is_shown_band_by_band(mixed):
    browser = mixed.browse_rasters()
    assert "WGS 84" in shown(browser)
    assert "PT_8BUI (uint8)" in shown(browser)
    browser.list.value = 1
    first, second, third = browser.details.bands
    assert (first.pixel_type, first.no_data, first.stored) == ("PT_16BSI (int16)", "-32767", "in-db")
    assert (second.pixel_type, second.no_data, second.stored) == ("PT_32BF (float32)", "none", "out-db, band 2")
    assert (third.no_data, third.url) == ("nan", "file:///etc/passwd")
    assert "crs_wkt is absent" in shown(browser)
    assert "-32767" in shown(browser)
    browser.list.value = 2
    assert len(browser.details.bands) == 7
    assert browser.details.entry.index_in_file == 1


def test_a_url_is_text_without_secrets_and_is_never_opened(mixed, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a host was asked for")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    browser = mixed.browse_rasters()
    browser.list.value = 1
    assert "https://host.example/<b>a</b>.tif?..." in shown(browser)
    assert not {"b", "a", "img"} & {name for name, _ in read(browser.card.value).elements}
    for secret in ("me:pw", "sig=secret", "root:"):
        assert secret not in browser.card.value
        assert secret not in str(browser.details)


def test_the_map_has_the_true_outlines(mixed):
    browser = mixed.browse_rasters()
    boxes = np.frombuffer(browser.map.boxes, "<f8").reshape(-1, 4)
    # Four cells of half a degree from the corner, which is the upper left one.
    assert boxes[0].tolist() == pytest.approx([10, 48, 12, 50])
    assert np.isnan(boxes[1]).all()
    assert boxes[2].tolist() == pytest.approx([179, -12, -179, -10])
    items = np.frombuffer(browser.map.ring_items, "<u4").tolist()
    assert set(items) == {0, 2}
    ends = np.frombuffer(browser.map.ring_offsets, "<u4")
    points = np.frombuffer(browser.map.rings, "<f8").reshape(-1, 2)
    first = shapely.Polygon(points[ends[0] : ends[1]])
    assert first.symmetric_difference(shapely.box(10, 48, 12, 50)).area < 1e-9
    assert browser.map.noun == "rasters"
    assert browser.map.notes["no_bounds"] == 1


def test_the_list_and_the_map_follow_each_other(mixed):
    browser = mixed.browse_rasters()
    browser.list.value = 2
    assert browser.map.selected_ids.tolist() == [2]
    browser.map.selected_items = pack_uint32([0, 1])
    assert browser.list.value == 0
    assert browser.map.selected_ids.tolist() == [0, 1]
    browser.map.selected_items = b""
    assert browser.list.value == 0


def test_many_rasters_come_in_pages(tmp_path):
    browser = make(tmp_path / "t", [raster_at(x, 0) for x in range(120)]).browse_rasters()
    assert (len(browser.list.options), browser.previous.disabled, browser.next.disabled) == (50, True, False)
    browser.next.click()
    browser.next.click()
    assert [number for _, number in browser.list.options] == list(range(100, 120))
    assert browser.next.disabled
    assert browser.details.entry.index_in_file == 100
    browser.previous.click()
    assert browser.list.value == 50
    browser.map.selected_items = pack_uint32([119])
    assert (browser.page, browser.list.value) == (2, 119)
    browser.choose(3)
    assert (browser.page, browser.list.value, browser.map.selected_ids.tolist()) == (0, 3, [3])
    with pytest.raises(GeolakeError, match="no raster 120; there are 120, counted from 0"):
        browser.choose(120)


def test_a_thumbnail_is_a_picture_or_nothing(mixed):
    calls = []

    def thumbnail(raster):
        calls.append((raster.path.rpartition("/")[2], raster.column, raster.index_in_file))
        return {0: PNG, 1: None, 2: b"<svg onload=alert(1)>"}[raster.number]

    browser = mixed.browse_rasters(thumbnail=thumbnail)
    assert (browser.picture.value, browser.picture.layout.display) == (PNG, None)
    browser.list.value = 1
    assert (browser.picture.value, browser.picture.layout.display) == (b"", "none")
    assert browser.status.value == ""
    browser.list.value = 2
    assert browser.picture.value == b""
    assert "to be a PNG" in browser.status.value
    assert calls == [("r0.parquet", "rast", 0), ("r1.parquet", "rast", 0), ("r1.parquet", "rast", 1)]


def test_a_file_that_is_gone_leaves_what_is_known(mixed, tmp_path):
    browser = mixed.browse_rasters()
    next((tmp_path / "t").rglob("r1.parquet")).unlink()
    browser.list.value = 1
    assert "The bands cannot be read" in shown(browser)
    assert "3 \N{MULTIPLICATION SIGN} 2 pixels" in shown(browser)


def test_a_table_without_rasters(tmp_path):
    browser = make(tmp_path / "t", [None]).browse_rasters()
    assert (browser.list.options, browser.details, browser.card.value) == ((), None, "")
    assert browser.previous.disabled
    assert browser.next.disabled
    with pytest.raises(GeolakeError, match="no raster column"):
        gl.open(small_tables.make_havasu(tmp_path / "shapes")).browse_rasters()


def test_every_control_has_a_label_and_a_name(mixed):
    browser = mixed.browse_rasters()
    controls = [widget for widget in every_widget(browser.box) if hasattr(widget, "description") and labelled(widget)]
    assert len(controls) == 3
    assert all(control.description for control in controls)
    assert all(any(name.startswith("geolake-") for name in control._dom_classes) for control in controls)


def test_a_terminal_gets_a_text(mixed):
    browser = mixed.browse_rasters()
    assert str(browser).startswith(f"RasterBrowser({mixed.location!r}, 3 rasters)\n")
    assert "t.rasters()" in browser._repr_mimebundle_()["text/plain"]
    assert "band 0: PT_8BUI (uint8), no-data none, in-db" in str(browser.details)


def test_the_magic_opens_it(mixed, capsys):
    with notebook(capsys) as book:
        book.shell.user_ns["t"] = mixed
        assert isinstance(book.value("%geolake rasters t --browse"), RasterBrowser)
        assert "--browse" in book.run("%geolake help rasters").out
        assert offers("%geolake rasters t --bro", 0, {}) == ("--bro", ["--browse"])
