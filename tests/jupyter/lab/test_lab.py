"""JupyterLab in a real browser that reaches no other host: what the page shows is what the kernel says."""

from __future__ import annotations

import math
import re
import time

import numpy as np
import pytest
import shapely

from geolake_nb.model.box import Box
from tests import small_tables
from tests.jupyter.browser import artefacts, headless_browser, launch
from tests.jupyter.lab.looks import faults
from tests.jupyter.lab.notebook_page import open_notebook
from tests.jupyter.lab.notebook_tables import FORMATS, make_many, make_plain, many_boxes
from tests.jupyter.lab.server import App, serve
from tests.scan.row_oracle import area

MIDDLES = [(x + 1.5, y + 1.5) for x, y in small_tables.PLACES]
LOAD = "%load_ext geolake_nb\nimport geolake_nb as gl"
MANY, PAIR, REPAIR, CANCEL, CONSENT, CHECK, EDITOR = range(1 + len(FORMATS), 8 + len(FORMATS))

SHOWN = {"delta": 1, "many": MANY, "pair": PAIR, "repair": REPAIR, "consent": CONSENT, "check": CHECK, "editor": EDITOR}
PARTS = {"card": ".geolake-card", "map": ".glm", "buttons": ".widget-vbox", "editor": ".geolake-editor"}


@pytest.fixture(scope="module")
def browser():
    with headless_browser() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serve(App.LAB, tmp_path_factory.mktemp("lab")) as started:
        yield started


def cells(folder):
    """A notebook that opens each table and shows its card and its map, and then plans and pairs."""
    shown = [LOAD]
    for kind, make in FORMATS.items():
        lines = [f'{kind} = %geolake open "{make(folder / kind)}"', f"{kind}_map = %geolake map {kind}"]
        shown.append("\n".join([*lines, f"display({kind}, {kind}_map)"]))
    bare, other = (small_tables.make_delta(folder / name, bounds=False) for name in ("bare", "other"))
    many = make_many(folder / "many")
    return [
        *shown,
        f'many = gl.open(r"{many}")\nmany_map = many.map(color="bytes")\nmany_map',
        "from geolake_nb.jupyter.map_widget import side_by_side\n"
        "left, right = many.map(height=260), delta.map(height=260)\nside_by_side(left, right)",
        f'%geolake repair "{bare}"',
        f'%geolake repair "{other}"',
        f'gl.open(r"{make_plain(folder / "plain")}").plan_enable({{"geom": gl.geometry()}})',
        f'%geolake check "{other}"',
        f'editor = %geolake collations "{folder / "plain"}" --edit\neditor',
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="module")
def lab(browser, server, folder):
    """The notebook, run once; at the end nothing has failed and no other host was asked."""
    with open_notebook(browser, server.put_notebook("tables.ipynb", cells(folder))) as book:
        book.run_all()
        yield book
        assert book.other_hosts() == set()
        assert len(book.asked) > 50, "the log of requests is a log"
        assert book.problems == []


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_opens_and_its_map_answers_the_pointer(lab, kind):
    cell_number = 1 + list(FORMATS).index(kind)
    output = lab.python(f"[{kind}.snapshot.files.table[name].to_pylist() for name in ('path', 'rows', 'bytes')]")
    paths = output[0]
    facts = lab.cell(cell_number).locator(".geolake-card table").first
    for name, value in (("files", len(paths)), ("rows", sum(output[1]))):
        assert facts.locator(f"tr:has(th:text-is('{name}')) td").inner_text() == f"{value:,}"
    shown = lab.map(cell_number, f"{kind}_map")
    assert shown.root.locator(".glm-counts").inner_text() == "3 files"
    for number, middle in enumerate(MIDDLES):
        assert shown.hover(middle).splitlines()[0] == paths[number]
    shown.click(MIDDLES[1])
    lab.becomes(f"{kind}_map.selected['path'].to_pylist()", [paths[1]])
    shown.tool("Select by a lasso")
    x, y = shown.on_screen(MIDDLES[0])[0]
    circle = [(x + 30 * math.cos(turn / 2), y + 30 * math.sin(turn / 2)) for turn in range(13)]
    shown.drag(*circle)
    lab.becomes(f"{kind}_map.selected['path'].to_pylist()", [paths[0]])
    window, message = shown.draw_window(*shown.on_screen((small_tables.PLACES[2][0] - 6, -5), (-175, -30)))
    assert window[0] > window[2], "it crosses the antimeridian"
    np.testing.assert_allclose(window, [169, -30, -175, -5], atol=0.8)
    assert message.startswith("1 of 3 files read"), "the third file alone lies there"
    answer = f"{kind}.explain(gl.Box(*{kind}_map.window))"
    assert lab.python(f"[{answer}.read.files, {answer}.read.bytes]") == [1, output[2][2]]
    assert lab.python(f"[{kind}_map.verdict['files_read'], {kind}_map.verdict['bytes_read']]") == [1, output[2][2]]
    load_and_hover(lab, shown, window)


def load_and_hover(lab, shown, window):
    """The rows in the window are those of a full read by shapely: in Python, in the table and under the pointer."""
    points = [point for place in small_tables.PLACES for point in small_tables.shapes(place)]
    inside = [point for point in points if shapely.intersects(area(Box(*window)), point)]
    assert shown.root.locator(".glm-rows-text").inner_text().startswith("Up to 4 rows")
    assert shown.load_rows().startswith(f"{len(inside)} rows · ")
    rows = f"{shown.name}.rows()"
    geometry = f"{rows}.geometry.to_wkt().tolist()"
    assert lab.python(f"[len({rows}), sorted({geometry})]") == [len(inside), sorted(shapely.to_wkt(inside))]
    line = shown.root.locator(".glm-loaded .glm-row").nth(1)
    cells = line.locator("td").all_inner_texts()
    assert cells[-1] == lab.python(f"{geometry}[1]")
    point = shapely.from_wkt(cells[-1])
    line.focus()
    lab.page.keyboard.press("Enter")
    lab.becomes(f"[round({shown.name}.view[side], 3) for side in ('lng', 'lat')]", [point.x, point.y])
    heads = shown.root.locator(".glm-loaded th").all_inner_texts()
    fields = [text for pair in zip(heads, cells, strict=True) for text in pair]
    assert shown.hover_row((point.x, point.y)).splitlines() == ["Row 2", *fields]


def test_a_read_is_cancelled_by_a_click_while_the_kernel_answers(lab):
    shown = lab.map(1, "delta_map")
    shown.root.get_by_role("button", name="Clear rows").click()
    hold = "go = threading.Event(); read = scan_rows.GroupReader.read\n"
    hold += "scan_rows.GroupReader.read = lambda *given, **options: (go.wait(60), read(*given, **options))[1]"
    lab.python("0", f"import threading\nfrom geolake_nb.scan import scan_rows\n{hold}")
    assert shown.load_rows("Cancel").startswith("Loading")
    assert lab.python("delta_map.row_status['state']") == "loading"
    shown.root.get_by_role("button", name="Cancel").press("Enter")
    lab.becomes("delta_map._rows._load.cancelled.is_set()", True)
    lab.python("0", "go.set(); scan_rows.GroupReader.read = read")
    lab.becomes("delta_map.row_status['state']", "cancelled")
    assert shown.root.locator(".glm-rows-text").inner_text().startswith("Cancelled. Up to 4 rows")
    assert shown.load_rows().startswith("4 rows")


def test_a_lasso_and_a_window_over_many_files_agree_with_shapely_and_with_python(lab):
    boxes = many_boxes()
    bounded = np.arange(len(boxes)) % 10 > 0
    shown = lab.map(MANY, "many_map")
    assert "400 files" in shown.root.locator(".glm-counts").inner_text()
    assert "40 without bounds" in shown.root.locator(".glm-notes").inner_text()
    x, y = shown.middle()
    middle = x, y - 30
    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    reach = np.where(np.arange(24) % 2, 50, 130)
    star = [(middle[0] + r * math.cos(a), middle[1] + r * math.sin(a)) for a, r in zip(angles, reach, strict=True)]
    positions = shown.positions(*star)
    shown.tool("Select by a lasso")
    shown.drag(*star)
    mercator = lambda latitude: np.degrees(np.arctanh(np.sin(np.radians(latitude))))  # noqa: E731
    lasso = shapely.Polygon([(longitude, mercator(latitude)) for longitude, latitude in positions])
    flat = shapely.box(boxes[:, 0], mercator(boxes[:, 1]), boxes[:, 2], mercator(boxes[:, 3]))
    sure = set(np.flatnonzero(bounded & shapely.intersects(lasso.buffer(-1), flat)).tolist())
    most = set(np.flatnonzero(bounded & shapely.intersects(lasso.buffer(1), flat)).tolist())
    lab.becomes("len(many_map.selected) > 5", True)
    chosen = lab.python("many_map.selected_ids.tolist()")
    assert sure <= set(chosen) <= most
    assert f"{len(chosen)} selected" in shown.root.locator(".glm-counts").inner_text()
    rows = lab.python("many_map.selected['rows'].to_pylist()")
    assert rows == [10 * (number + 1) for number in chosen]
    window, message = shown.draw_window((middle[0] - 90, middle[1] - 60), (middle[0] + 90, middle[1] + 60))
    west, south, east, north = window
    inside = (boxes[:, 0] <= east) & (boxes[:, 2] >= west) & (boxes[:, 1] <= north) & (boxes[:, 3] >= south)
    kept = np.flatnonzero(inside | ~bounded)
    assert message.startswith(f"{len(kept)} of 400 files read")
    size = 1000 * (kept + 7).sum()
    assert lab.python("many_map.verdict['bytes_read']") == size
    assert f"{size / 1e6:.1f} MB of" in message
    # The files of this table are in its log alone.
    shown.root.get_by_role("button", name="Load rows").click()
    problem = shown.root.locator(".glm-rows-problem")
    problem.wait_for()
    assert "a data file that the table lists does not exist" in problem.inner_text()
    shown.root.get_by_role("button", name="Table").click()
    shown.root.locator(".glm-table tbody tr").first.wait_for()
    names = {f"part-{number}.parquet" for number in chosen}
    listed = shown.root.locator(".glm-table tbody tr td:first-child")
    end = time.monotonic() + 20
    while not set(listed.all_inner_texts()) <= names and time.monotonic() < end:
        lab.page.wait_for_timeout(50)
    assert set(listed.all_inner_texts()) <= names


def test_two_maps_side_by_side_move_together(lab):
    left, other = (lab.map(PAIR, name, nth) for nth, name in enumerate(("left", "right")))
    boxes = [shown.root.bounding_box() for shown in (left, other)]
    assert abs(boxes[0]["y"] - boxes[1]["y"]) < 2
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"] + 1
    before = left.view()
    x, y = left.middle()
    left.tool("Zoom in")
    left.drag((x, y), (x - 60, y + 20))
    lab.becomes(f"left.view == right.view and left.view['zoom'] > {before['zoom']}", True)
    after = left.view()
    assert after["lng"] > before["lng"]
    other.tool("Zoom in")
    lab.becomes(f"left.view == right.view and left.view['zoom'] > {after['zoom']}", True)


def test_a_repair_is_applied_by_a_click(lab, folder):
    output = lab.cell(REPAIR)
    assert "3 files" in output.locator(".geolake-card").first.inner_text()
    output.get_by_role("button", name="Apply").click()
    report = output.locator(".geolake-card[aria-label='Report']")
    report.wait_for()
    assert "Done." in report.inner_text()
    assert report.locator("tr:has(th:text-is('version')) td").inner_text() == "2"
    repaired = f'gl.open(r"{folder / "bare"}")'
    version, west = lab.python(f"[{repaired}.version, {repaired}.files.table['geom.xmin'].to_pylist()]")
    assert version == 2
    # A bound may be a little loose: it is rounded outwards.
    assert west == pytest.approx([x for x, _ in small_tables.PLACES], abs=1e-9)
    assert output.get_by_role("button", name="Apply").is_disabled()


def test_a_cancelled_repair_changes_nothing(lab, folder):
    output = lab.cell(CANCEL)
    output.get_by_role("button", name="Cancel").click()
    output.get_by_text("no changes were made").wait_for()
    assert output.get_by_role("button", name="Apply").is_enabled(), "it can be applied after all"
    assert lab.python(f'gl.open(r"{folder / "other"}").version') == 1


def test_an_irreversible_step_needs_its_typed_name(lab, folder):
    output = lab.cell(CONSENT)
    apply = output.get_by_role("button", name="Apply")
    assert apply.is_disabled()
    field = output.get_by_label(re.compile("Type geospatial to confirm"))
    field.fill("yes")
    field.press("Enter")
    lab.settle()
    assert apply.is_disabled()
    field.fill("geospatial")
    field.press("Enter")
    output.locator("button:not([disabled])", has_text="Apply").wait_for()
    output.get_by_role("button", name="Cancel").click()
    output.get_by_text("no changes were made").wait_for()
    assert apply.is_enabled(), "it can be applied after all"
    assert lab.python(f'gl.open(r"{folder / "plain"}").version') == 0


def test_a_collation_is_edited_up_to_its_plan(lab, folder):
    editor = lab.cell(EDITOR).locator(".geolake-collation-editor")
    editor.locator(".geolake-collation-search input").fill("de ci")
    lab.becomes("'icu.de_CI' in editor.offers.options", True)
    editor.locator(".geolake-fields select").select_option(index=[0, 1])
    editor.locator(".geolake-collations select").select_option("icu.de_CI")
    lab.becomes("editor.offers.value", "icu.de_CI")
    editor.locator(".geolake-set").click()
    editor.locator(".geolake-diff .new").first.wait_for()
    assert lab.python("editor.draft.changes") == {"name": "icu.de_CI", "place": "icu.de_CI"}
    editor.locator(".geolake-make-plan").click()
    card = editor.locator(".geolake-plan .geolake-card")
    card.wait_for()
    assert lab.python("editor.plan.hash") in card.inner_text()
    assert "name compares by icu.de_CI" in card.inner_text()
    assert editor.get_by_role("button", name="Apply").is_disabled(), "the feature cannot be undone"
    assert lab.python(f'gl.open(r"{folder / "plain"}").version') == 0


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_light_and_dark_are_readable(lab, tmp_path, theme):
    lab.use_theme(theme)
    kept = artefacts(tmp_path)
    usual = lab.page.viewport_size
    lab.page.set_viewport_size({"width": usual["width"], "height": 1500})
    for name, index in SHOWN.items():
        output = lab.cell(index)
        lab.page.wait_for_timeout(150)
        for kind, part in (
            ("card", ".geolake-card"),
            ("map", ".glm"),
            ("buttons", ".widget-vbox"),
            ("editor", ".geolake-editor"),
        ):
            if element := output.locator(part).all():
                element[0].screenshot(path=kept / f"lab-{theme.lower()}-{name}-{kind}.png")
        assert faults(output) == [], name
    lab.page.set_viewport_size(usual)
    fact = lab.cell(1).locator(".geolake-card th").first
    assert fact.evaluate("element => getComputedStyle(element).textAlign") == "left", "the notebook's rule wins"
    assert lab.map(MANY, "many_map").root.get_attribute("data-theme") == theme.lower()
    lab.page.screenshot(path=kept / f"lab-{theme.lower()}.png")


def test_without_webgl_the_map_is_whole(browser, server, folder):
    plain = launch(browser.browser_type, "--disable-3d-apis")
    address = server.put_notebook("no-webgl.ipynb", [LOAD, f'm = gl.open(r"{folder / "many"}").map()\nm'])
    with open_notebook(plain, address) as book:
        assert book.page.evaluate("document.createElement('canvas').getContext('webgl')") is None
        book.run_all()
        shown = book.map(1, "m")
        number = 1
        middle = (many_boxes()[number, :2] + many_boxes()[number, 2:]) / 2
        shown.click(tuple(middle))
        book.becomes("len(m.selected)", 1)
        assert book.other_hosts() == set()
        assert book.problems == []
    plain.close()
