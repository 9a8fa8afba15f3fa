"""The map in a real browser, without a kernel and without a network: what the page says equals what numpy says."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
import shapely

from geolake_nb.jupyter.map_widget import BUNDLE, pack_columns, pack_float64, pack_parts, pack_rings
from tests.jupyter.browser import artefacts, contrast, headless_browser, open_map, wait_until

if TYPE_CHECKING:
    from pathlib import Path

NAN = float("nan")
WRAPPED, POINT, LINE, POLAR, BIG, SMALL, HOSTILE, NOTHING, WRONG = range(9)
SPECIMENS = [
    [170, -20, -165, -5],  # crosses the antimeridian
    [0, 0, 0, 0],
    [-30, 20, -30, 40],
    [-60, 87, -20, 89],
    [60, 10, 110, 50],
    [80, 25, 90, 35],  # inside the big one
    [-100, -40, -80, -20],
    [NAN, NAN, NAN, NAN],
    [10, 95, 20, 99],
]
NAMES = ["wrapped", "point", "line", "polar", "big", "small", "<img src=x onerror=window.hacked=1>", "nothing", "wrong"]


@pytest.fixture(scope="module")
def browser():
    with headless_browser() as chromium:
        yield chromium


@pytest.fixture
def show(browser, tmp_path):
    """Opens a map, and at the end holds that nothing failed and nothing was asked for."""
    opened = []

    def run(traits, **options):
        opened.append(open_map(browser, tmp_path, traits, **options))
        return opened[-1]

    yield run
    for shown in opened:
        shown.page.context.close()
        assert shown.problems == []


def specimens(**more):
    return {"boxes": pack_float64(SPECIMENS), "names": NAMES, "title": "specimens", **more}


def random_boxes(count, *, seed):
    rng = np.random.default_rng(seed)
    west, south = rng.uniform(-180, 180, count), rng.uniform(-85, 85, count)
    east = west + rng.exponential(3, count)
    boxes = np.stack(
        [west, south, np.where(east > 180, east - 360, east), np.minimum(85, south + rng.exponential(2, count))], 1
    )
    whole = rng.random(count) < 0.3
    boxes[whole] = np.round(boxes[whole])
    return boxes


def touching(boxes, window):
    """The rule of `Box.intersects`, for all boxes at once."""
    xmin, ymin, xmax, ymax = boxes.T
    west, south, east, north = window
    y = (ymin <= north) & (south <= ymax)
    wraps, window_wraps = xmin > xmax, west > east
    either = (xmin <= east) | (west <= xmax)
    plain = (xmin <= east) & (west <= xmax)
    return np.flatnonzero(y & np.where(wraps & window_wraps, True, np.where(wraps | window_wraps, either, plain)))


def corners(left, other):
    """The window between two places as the page gives it."""
    (west, east), (south, north) = sorted([left[0], other[0]]), sorted([left[1], other[1]])
    return [(west + 180) % 360 - 180, south, (east + 180) % 360 - 180, north]


def test_a_thousand_windows_find_what_numpy_finds_on_both_sides_of_180(show):
    boxes = random_boxes(20_000, seed=1)
    shown = show({"boxes": pack_float64(boxes)})
    rng = np.random.default_rng(2)
    west, south = rng.uniform(-180, 180, 1000), rng.uniform(-85, 85, 1000)
    west[:500] = rng.uniform(150, 180, 500)
    east = west + rng.uniform(0, 60, 1000)
    windows = np.stack(
        [west, south, np.where(east > 180, east - 360, east), np.minimum(90, south + rng.uniform(0, 30, 1000))], 1
    )
    windows[::3] = np.round(windows[::3])
    assert (windows[:, 0] > windows[:, 2]).sum() > 300
    result = shown.ask("argument.map(window => map.query(window))", windows.tolist())
    for window, ids in zip(windows, result, strict=True):
        np.testing.assert_array_equal(ids, touching(boxes, window), err_msg=str(window))


def test_hover_shows_what_is_under_the_pointer(show):
    columns = [
        {"key": "rows", "label": "Rows", "kind": "log", "unit": "rows"},
        {"key": "bytes", "label": "Size", "kind": "log", "unit": "bytes"},
    ]
    data = pack_columns([np.arange(9) * 1000, np.arange(9) * 1e6])
    shown = show(specimens(columns=columns, column_data=data, color_by="rows"))
    card = shown.hover(85, 30)
    assert card.splitlines()[0] == "small", "the smaller one, which lies inside the other"
    assert "5,000" in card
    assert "5.0 MB" in card
    assert "1 more here" in card
    assert shown.hover(65, 15).startswith("big")
    assert shown.hover(-120, 60) is None


def test_a_box_over_the_antimeridian_is_there_on_either_side_and_on_the_next_copy_of_the_world(show):
    shown = show(specimens(view={"lat": 10, "lng": 0, "zoom": 1}))
    assert shown.hover(175, -10).startswith("wrapped")
    assert shown.hover(-170 + 360, -10).startswith("wrapped")
    assert "crosses 180" in shown.hover(-170, -10)
    assert shown.click(-170, -10) == [WRAPPED]


@pytest.mark.parametrize("height", [420, 480])
def test_a_view_that_is_given_stays(show, height):
    shown = show(specimens(view={"lat": 45, "lng": 8, "zoom": 3}, height=height))
    shown.page.wait_for_timeout(600)  # longer than the map glides
    frame = shown.page.locator(".glm-map").bounding_box()
    middle = (frame["x"] + frame["width"] / 2, frame["y"] + frame["height"] / 2)
    assert shown.on_screen(8, 45) == pytest.approx(middle, abs=1)


def test_the_land_shows_through_many_boxes_that_lie_over_each_other(show):
    shown = show({"boxes": pack_float64([[-170, -60, 170, 60]] * 300), "view": {"lat": 10, "lng": 0, "zoom": 2}})
    pixel = "[...document.querySelector('.glm-data').getContext('2d').getImageData(...argument, 1, 1).data]"
    (x, y), ratio = shown.corner, shown.ask("Math.min(2, window.devicePixelRatio)")
    sahara, atlantic = (
        shown.ask(pixel, [round((across - x) * ratio), round((down - y) * ratio)])
        for across, down in (shown.on_screen(20, 15), shown.on_screen(-35, 15))
    )
    assert sum(abs(left - other) for left, other in zip(sahara, atlantic, strict=True)) > 15


def test_points_lines_and_polar_boxes_can_be_seen_and_clicked(show):
    shown = show(specimens())
    assert shown.click(0, 0) == [POINT]
    assert shown.click(-30, 30) == [LINE]
    shown.ask("map.set('view', {lat: 84, lng: -40, zoom: 2})")
    shown.settle()
    assert shown.click(-40, 85.04) == [POLAR]


def test_clicks_select_add_take_away_cycle_and_clear(show):
    shown = show(specimens())
    assert shown.click(85, 30) == [SMALL]
    assert shown.click(85, 30) == [BIG], "a second click at the place takes the one below"
    assert shown.click(-90, -30, "Control") == [BIG, HOSTILE]
    assert shown.click(-90, -30, "Control") == [BIG]
    assert shown.click(-120, 60) == []


def test_a_box_selects_what_numpy_finds(show):
    boxes = random_boxes(5000, seed=3)
    shown = show({"boxes": pack_float64(boxes)})
    shown.tool("Select by a box")
    x, y = shown.corner
    for start, end in [((300, 80), (620, 260)), ((900, 300), (1150, 120)), ((40, 60), (45, 66))]:
        left, other = (x + start[0], y + start[1]), (x + end[0], y + end[1])
        shown.drag([left, other])
        window = corners(shown.position(*left), shown.position(*other))
        np.testing.assert_array_equal(shown.selected(), touching(boxes, window))
    first = shown.selected()
    shown.page.keyboard.down("Control")
    shown.drag([(x + 300, y + 80), (x + 320, y + 90)])
    shown.page.keyboard.up("Control")
    assert set(first) < set(shown.selected())


def test_shift_and_drag_selects_without_changing_the_tool(show):
    shown = show(specimens())
    before = shown.ask("map.get('view')")
    shown.page.keyboard.down("Shift")
    shown.drag([shown.on_screen(50, 55), shown.on_screen(115, 5)])
    shown.page.keyboard.up("Shift")
    assert shown.selected() == [BIG, SMALL]
    assert shown.ask("map.get('view')") == before


def test_a_lasso_selects_what_shapely_finds(show):
    boxes = random_boxes(5000, seed=4)
    plain = boxes[boxes[:, 0] <= boxes[:, 2]]
    shown = show({"boxes": pack_float64(plain), "view": {"lat": 20, "lng": 0, "zoom": 2}})
    shown.tool("Select by a lasso")
    x, y = shown.corner
    angles = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    reach = np.where(np.arange(40) % 2, 60, 150)
    points = [(x + 600 + r * np.cos(a), y + 210 + r * np.sin(a)) for a, r in zip(angles, reach, strict=True)]
    shown.drag(points)
    mercator = lambda latitude: np.arctanh(np.sin(np.radians(latitude)))  # noqa: E731
    lasso = shapely.Polygon([(lng, float(mercator(lat))) for lng, lat in (shown.position(*point) for point in points)])
    flat = shapely.box(plain[:, 0], mercator(plain[:, 1]), plain[:, 2], mercator(plain[:, 3]))
    sure = np.flatnonzero(shapely.intersects(lasso.buffer(-1e-3), flat))
    most = np.flatnonzero(shapely.intersects(lasso.buffer(1e-3), flat))
    chosen = set(shown.selected())
    assert set(sure) <= chosen <= set(most)
    assert len(sure) > 50
    assert len(most) < 1.05 * len(sure)


def test_a_drawn_window_counts_what_numpy_counts_and_says_why_a_file_is_skipped(show):
    boxes = random_boxes(3000, seed=5)
    boxes[:7] = NAN
    size = np.random.default_rng(6).integers(1, 2**20, 3000).astype("f4")
    columns = [{"key": "bytes", "label": "Size", "kind": "log", "unit": "bytes"}]
    traits = {"boxes": pack_float64(boxes), "columns": columns, "column_data": pack_columns([size])}
    shown = show({**traits, "view": {"lat": 0, "lng": 180, "zoom": 2}})
    shown.tool("Query window")
    left, other = shown.on_screen(150, 40), shown.on_screen(215, -20)
    shown.drag([left, other])
    window = shown.ask("map.get('window')")
    assert window[0] > window[2]
    np.testing.assert_allclose(window, corners(shown.position(*left), shown.position(*other)), atol=1e-4)
    kept = np.union1d(touching(boxes, window), np.arange(7))
    text = shown.page.locator(".glm-verdict-text").inner_text()
    assert text.startswith(f"{len(kept):,} of 3,000 files read"), "a file without bounds is read"
    assert shown.page.locator(".glm-legend").inner_text().count("skipped: bounds do not overlap the query") == 1
    outside = next(i for i in range(7, 3000) if i not in kept and abs(boxes[i, 1]) < 30 and 100 < boxes[i, 0] < 145)
    shown.tool("Move the map")
    assert "bounds do not overlap the query" in shown.hover(*(boxes[outside, :2] + boxes[outside, 2:]) / 2)
    field = shown.page.get_by_label(re.compile("Query window: xmin"))
    field.fill("-10, -10, 10, 10")
    field.press("Enter")
    shown.settle()
    kept = np.union1d(touching(boxes, [-10, -10, 10, 10]), np.arange(7))
    assert shown.page.locator(".glm-verdict-text").inner_text().startswith(f"{len(kept):,} of")
    shown.page.get_by_role("button", name="Clear the window").click()
    assert shown.ask("map.get('window')") is None


def test_a_window_can_be_moved_and_pulled_at_a_corner(show):
    shown = show(specimens(window=[0, 0, 40, 40]))
    shown.tool("Query window")
    shown.drag([shown.on_screen(20, 20), shown.on_screen(30, 20)])
    np.testing.assert_allclose(shown.ask("map.get('window')"), [10, 0, 50, 40], atol=1.5)
    shown.drag([shown.on_screen(50, 40), shown.on_screen(70, 50)])
    np.testing.assert_allclose(shown.ask("map.get('window')"), [10, 0, 70, 50], atol=2)


def test_typed_coordinates_show_their_errors_in_place_and_windows_can_be_undone_and_copied(show):
    shown = show(specimens())
    shown.page.evaluate("() => { navigator.clipboard.writeText = async text => { window.copied = text; }; }")
    field = shown.page.get_by_label("Query window: xmin, ymin, xmax, ymax in degrees")
    assert not field.is_visible()
    shown.tool("Query window")
    verdict, problem = (shown.page.locator(f".glm-verdict-{part}") for part in ("text", "problem"))

    def type_in(text):
        field.fill(text)
        field.press("Enter")
        shown.settle()

    type_in("0, 0, 40, 40")
    assert shown.ask("map.get('window')") == [0, 0, 40, 40]
    before = verdict.inner_text()
    type_in("hello")
    assert problem.inner_text() == "hello is not a number: write xmin, ymin, xmax, ymax"
    assert (field.get_attribute("aria-invalid"), verdict.is_visible()) == ("true", False)
    assert contrast(problem) >= 4.5
    type_in("-120, -50, 110, 50")
    assert (problem.is_visible(), verdict.is_visible()) == (False, True)
    assert verdict.inner_text() != before
    copies = shown.page.get_by_label("Copy the query window")
    assert copies.locator("option").all_inner_texts() == ["Copy", "as bbox", "as WKT"]
    copies.select_option("wkt")
    wait_until(shown.page, "window.copied")
    assert shapely.from_wkt(shown.page.evaluate("window.copied")).bounds == (-120, -50, 110, 50)
    undo = shown.page.get_by_role("button", name="Back to the last window")
    undo.click()
    assert shown.ask("map.get('window')") == [0, 0, 40, 40]
    undo.click()
    assert shown.ask("map.get('window')") is None
    assert undo.is_disabled()


def test_the_colours_are_named_as_in_python_and_read_or_skipped_has_a_legend(show):
    columns = [{"key": "rows", "label": "Rows", "kind": "log"}]
    traits = specimens(columns=columns, column_data=pack_columns([[7] * len(SPECIMENS)]), color_by="rows")
    shown = show(traits)
    colours = shown.page.get_by_label("Colour by")
    assert colours.locator("option").all_inner_texts() == ["none", "rows", "overlap", "read"]
    legend = shown.page.locator(".glm-legend")
    # Of one value there is one colour and no gradient.
    assert legend.locator(".glm-ramp").count() == 0
    assert re.sub(r"\s+", " ", legend.inner_text()).strip() == "Rows 7 9"
    colours.select_option("read")
    shown.settle()
    assert "draw a query window to see what it reads" in legend.inner_text()
    shown.ask("map.set('window', [0, 0, 40, 40])")
    shown.settle()
    assert "This query, files" in legend.inner_text()
    for name, part in (("Legend panel", legend), ("Verdict panel", shown.page.locator(".glm-verdict"))):
        before = part.bounding_box()
        frame = shown.page.locator(".glm-map").bounding_box()
        assert before["width"] * before["height"] <= frame["width"] * frame["height"] / 4
        fold = shown.page.get_by_role("button", name=name)
        fold.focus()
        shown.page.keyboard.press("Enter")
        assert fold.get_attribute("aria-expanded") == "false"
        assert part.bounding_box()["height"] < before["height"]


def test_the_basemap_is_chosen_and_a_server_without_tiles_gives_way_to_the_land(show):
    shown = show(specimens(tile_url="data:image/png;base64,none#{z}/{x}/{y}", attribution="somebody"))
    message = shown.page.locator(".glm-ground-message")
    message.wait_for()
    assert message.inner_text() == "The tiles cannot be loaded: the built-in land is shown instead"
    assert shown.page.locator(".glm-credit").inner_text() == ""
    shown.page.get_by_role("button", name="Layers").click()
    basemaps = shown.page.get_by_label("Basemap")
    assert basemaps.input_value() == "borders"
    assert basemaps.locator("option").all_inner_texts() == ["none", "land", "land and borders", "tiles"]
    drawn = "document.querySelector('.glm-data').toDataURL()"
    pictures = set()
    for mode in ("borders", "land", "none"):
        basemaps.select_option(mode)
        shown.settle()
        pictures.add(shown.page.evaluate(drawn))
        assert shown.ask("map.get('basemap')") == mode
    assert len(pictures) == 3


def test_the_map_goes_to_coordinates_and_is_saved_as_a_picture(show):
    shown = show(specimens())
    shown.page.get_by_role("button", name="Layers").click()
    field = shown.page.get_by_label("Go to longitude, latitude")
    field.fill("13.4")
    field.press("Enter")
    assert "Write longitude, latitude: such as 13.4, 52.5" in shown.page.locator(".glm-layers").inner_text()
    field.fill("13.4, 52.5")
    field.press("Enter")
    shown.settle()
    view = shown.ask("map.get('view')")
    wait_until(shown.page, "window.geolakeMap.get('view').zoom >= 8")
    view = shown.ask("map.get('view')")
    np.testing.assert_allclose([view["lng"], view["lat"]], [13.4, 52.5], atol=0.01)
    with shown.page.expect_download() as download:
        shown.page.get_by_role("button", name="Save as PNG").click()
    assert download.value.suggested_filename == "specimens.png"
    with open(download.value.path(), "rb") as file:
        assert file.read(8) == b"\x89PNG\r\n\x1a\n"
    shown.page.get_by_role("button", name="Full screen").click()
    wait_until(shown.page, "document.fullscreenElement !== null")
    shown.page.get_by_role("button", name="Full screen").click()
    wait_until(shown.page, "document.fullscreenElement === null")


def test_density_at_100_000_shows_the_largest_count_that_a_histogram_finds(show):
    rng = np.random.default_rng(7)
    points = np.clip(rng.normal([10, 45], [30, 12], (100_000, 2)), [-179, -84], [179, 84])
    shown = show(
        {"boxes": pack_float64(np.hstack([points, points])), "measure": True, "view": {"lat": 30, "lng": 0, "zoom": 1}}
    )
    drawn = shown.ask("map.get('drawn')")
    assert drawn["mode"] == "density"
    cells = 256
    x = (points[:, 0] + 180) / 360 * cells
    y = (0.5 - np.arctanh(np.sin(np.radians(points[:, 1]))) / (2 * np.pi)) * cells
    counts, _, _ = np.histogram2d(x, y, bins=cells, range=[[0, cells], [0, cells]])
    legend = shown.page.locator(".glm-legend").inner_text()
    assert legend.splitlines()[0] == "Overlap, files per cell"
    assert legend.split()[-1] == f"{int(counts.max()):,}"
    shown.ask("map.set('view', {lat: 45, lng: 10, zoom: 8})")
    shown.settle()
    assert shown.ask("map.get('drawn').mode") == "outlines"


def test_items_without_bounds_and_flagged_ones_are_counted_and_listed(show):
    shown = show(specimens())
    foot = shown.page.locator(".glm-foot")
    assert "9 files" in foot.inner_text()
    foot.get_by_role("button", name="1 without bounds").click()
    assert shown.selected() == [NOTHING]
    assert shown.page.locator(".glm-table tbody tr").all_inner_texts() == ["nothing\tnone"]
    foot.get_by_role("button", name="1 flagged").click()
    assert shown.selected() == [WRONG]


def test_the_table_pages_sorts_and_follows_the_selection(show):
    boxes = random_boxes(100, seed=8)
    rows = np.random.default_rng(9).permutation(100).astype("f4")
    rows[3] = NAN
    names = [f"part-{i}" for i in range(100)]
    columns = [{"key": "rows", "label": "Rows", "kind": "linear"}]
    shown = show(
        {"boxes": pack_float64(boxes), "columns": columns, "column_data": pack_columns([rows]), "names": names}
    )
    shown.page.get_by_role("button", name="Table").click()
    first = shown.page.locator(".glm-table tbody tr td:first-child")
    assert first.first.inner_text() == "part-0"
    size = first.count()
    shown.page.get_by_role("button", name="Next page").click()
    assert first.first.inner_text() == f"part-{size}"
    shown.page.get_by_role("button", name="Rows").click()
    order = np.argsort(rows, kind="stable")
    assert first.all_inner_texts() == [f"part-{i}" for i in order[:size]]
    shown.page.get_by_role("button", name="Rows").click()
    assert first.first.inner_text() == f"part-{int(np.nanargmax(rows))}"
    shown.ask("map.set('selected_items', new Uint32Array([40, 41]))")
    shown.settle()
    assert sorted(first.all_inner_texts()) == ["part-40", "part-41"]


def test_the_keyboard_moves_selects_and_clears(show):
    shown = show(specimens(view={"lat": 30, "lng": 85, "zoom": 3}))
    shown.page.locator(".glm-map").focus()
    shown.page.keyboard.press("Enter")
    assert shown.selected() == [SMALL]
    shown.page.keyboard.press("Escape")
    assert shown.selected() == []
    shown.page.keyboard.press("+")
    wait_until(shown.page, "window.geolakeMap.get('view').zoom === 4")
    shown.page.keyboard.press("ArrowRight")
    wait_until(shown.page, "window.geolakeMap.get('view').lng > 86")


def test_outlines_replace_rectangles_and_overlays_can_be_switched(show):
    triangle = [[0, 0], [40, 0], [0, 40]]
    overlays = [{"name": "row groups", "kind": "rings"}, {"name": "rows", "kind": "points", "visible": False}]
    data = [pack_parts([[[1, 1], [5, 1], [5, 5]]]), pack_parts([[[2, 2]]])]
    shape = pack_rings([(0, triangle)])
    shown = show(
        {
            "boxes": pack_float64([[0, 0, 40, 40]]),
            "names": ["footprint"],
            **shape,
            "overlays": overlays,
            "overlay_data": data,
        }
    )
    assert shown.hover(10, 10).startswith("footprint")
    assert shown.hover(38, 38) is None
    shown.page.get_by_role("button", name="Layers").click()
    boxes = shown.page.locator(".glm-layers input[type=checkbox]")
    assert [boxes.nth(i).is_checked() for i in range(boxes.count())] == [True, True, False]
    boxes.nth(0).uncheck()
    shown.settle()


@pytest.mark.parametrize(("is_cut", "rings"), [(True, [(170, 180), (-180, -170)]), (False, [(170, 180)])])
def test_a_cut_at_180_is_no_edge_of_a_shape_that_lies_on_both_sides(show, is_cut, rings):
    shapes = [(0, [[west, -33], [east, -33], [east, -22], [west, -22]]) for west, east in rings]
    box = [170, -33, -170 if is_cut else 180, -22]
    shown = show({"boxes": pack_float64([box]), **pack_rings(shapes), "view": {"lat": -28, "lng": 175, "zoom": 4}})
    pixels = "[...document.querySelector('.glm-data').getContext('2d').getImageData(...argument, 5, 1).data]"
    (x, y), ratio = shown.corner, shown.ask("Math.min(2, window.devicePixelRatio)")
    inside, across = (
        shown.ask(pixels, [round((point[0] - x) * ratio) - 2, round((point[1] - y) * ratio)])
        for point in (shown.on_screen(175, -28), shown.on_screen(180, -28))
    )
    assert (inside == across) is is_cut


def test_hostile_text_is_shown_as_text(show):
    script = "<script>window.hacked=1</script>"
    columns = [{"key": "c", "label": script, "kind": "category", "labels": [script]}]
    data = pack_columns([np.zeros(9)])
    overlays = [{"name": script, "kind": "points", "color": "red;background:url(http://x)"}]
    notes = {"no_bounds": 1, "problems": [[script, 3]]}
    shown = show(
        specimens(
            columns=columns,
            column_data=data,
            color_by="c",
            title=script,
            noun=script,
            notes=notes,
            overlays=overlays,
            overlay_data=[b""],
        )
    )
    assert shown.hover(-90, -30).startswith("<img src=x")
    shown.page.get_by_role("button", name="Table").click()
    shown.page.get_by_role("button", name="Layers").click()
    assert shown.page.locator(".glm img").count() == 0
    assert shown.page.evaluate("window.hacked") is None
    assert shown.page.locator(".glm-title").inner_text() == script


def test_an_error_shows_in_the_cell(browser, tmp_path):
    shown = open_map(browser, tmp_path, {"boxes": b"12345"})
    assert "boxes has 5 bytes" in shown.page.get_by_role("alert").inner_text()
    shown.page.context.close()


def test_with_a_kernel_the_map_sends_ids_and_shows_what_python_answers(show):
    shown = show({})
    shown.page.evaluate(
        """async ([code, boxes]) => {
            const { default: widget } = await import(code);
            const state = { boxes: new DataView(Float64Array.from(boxes).buffer), height: 300, view: {} };
            const heard = new Map();
            window.sent = [];
            window.model = {
              get: key => state[key],
              set(key, value) { state[key] = value; (heard.get("change:" + key) || []).forEach(call => call()); },
              save_changes() {},
              on(event, call) { heard.set(event, [...(heard.get(event) || []), call]); },
              off(event, call) { heard.set(event, (heard.get(event) || []).filter(one => one !== call)); },
              send(message) { window.sent.push(message); },
              say(message) { (heard.get("msg:custom") || []).forEach(call => call(message)); },
            };
            window.geolakeMap.destroy();
            window.end = widget.render({ model: window.model, el: document.getElementById("map") });
        }""",
        ["data:text/javascript;base64," + _base64(BUNDLE), [0, 0, 20, 20, 60, 10, 110, 50]],
    )
    page = shown.page
    page.wait_for_selector(".glm-canvas")
    shown.settle()
    page.evaluate("model.set('view', {lat: 10, lng: 10, zoom: 3})")
    shown.settle()
    x, y = shown.corner
    box = page.locator(".glm-map").bounding_box()
    page.mouse.move(x + box["width"] / 2, y + box["height"] / 2)
    wait_until(page, "window.sent.length > 0")
    assert page.evaluate("window.sent") == [{"type": "describe", "id": 0}]
    page.evaluate("model.say({type: 'description', id: 0, fields: [['path', '<b>a</b>']]})")
    assert "<b>a</b>" in page.locator(".glm-card").inner_text()
    page.mouse.down()
    page.mouse.up()
    wait_until(page, "model.get('selected_items') instanceof DataView")
    assert page.evaluate("[...new Uint32Array(model.get('selected_items').buffer)]") == [0]
    page.get_by_role("button", name="Table").click()
    assert page.evaluate("model.get('page_request')")["selected_only"] is True
    answer = {"columns": ["path"], "rows": [["from python"]], "ids": [0], "page": 0, "pages": 1, "total": 1}
    page.evaluate("page => model.set('page', page)", answer)
    shown.settle()
    assert page.locator(".glm-table tbody").inner_text().strip() == "from python"
    page.evaluate("model.set('window', [0, 0, 5, 5])")
    page.evaluate(
        "model.set('verdict', {files: 2, files_read: 1, bytes: 3e6, bytes_read: 1e6, text: 'bounds overlap'})"
    )
    shown.settle()
    assert page.locator(".glm-verdict-text").inner_text() == "1 of 2 files read · 1.0 MB of 3.0 MB · bounds overlap"
    field = page.get_by_label(re.compile("Query window: xmin"))
    field.fill("1, 1, 9, 9")
    field.press("Enter")
    for window, waits in (([0, 0, 5, 5], "true"), ([1, 1, 9, 9], "false")):
        page.evaluate("window => model.set('verdict', {files: 2, files_read: 1, window})", window)
        shown.settle()
        assert page.locator(".glm-verdict").get_attribute("data-pending") == waits
    page.evaluate("window.end()")
    assert page.locator(".glm").count() == 0


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("width", [700, 1280])
def test_nothing_is_cut_off_and_text_can_be_read(show, tmp_path, theme, width):
    boxes = random_boxes(3000, seed=10)
    rng = np.random.default_rng(11)
    rows = rng.lognormal(10, 2, 3000)
    columns = [
        {"key": "rows", "label": "Rows", "kind": "log", "unit": "rows"},
        {"key": "added", "label": "Added", "kind": "time", "origin": 1.7e9},
    ]
    traits = {
        "boxes": pack_float64(boxes),
        "columns": columns,
        "column_data": pack_columns([rows, rng.uniform(0, 3e7, 3000)]),
    }
    shown = show(
        {**traits, "color_by": "rows", "title": "lake.overture.buildings", "versions": [1, 2, 5], "version": 5},
        width=width,
        theme=theme,
    )
    shown.ask("map.set('window', [-20, 0, 40, 50])")
    shown.page.get_by_role("button", name="Table").click()
    shown.settle()
    shown.page.screenshot(path=artefacts(tmp_path) / f"map-{theme}-{width}.png", full_page=True)
    outer = shown.page.locator(".glm-map").bounding_box()
    for part in (".glm-legend", ".glm-verdict"):
        inner = shown.page.locator(part).bounding_box()
        assert outer["x"] <= inner["x"]
        assert outer["y"] <= inner["y"]
        assert inner["x"] + inner["width"] <= outer["x"] + outer["width"]
        assert inner["y"] + inner["height"] <= outer["y"] + outer["height"]
    assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert shown.page.evaluate(TICKS_INSIDE)
    # WCAG 2.2, 1.4.3: text needs a contrast of 4.5 to 1.
    for part in (
        ".glm-title",
        ".glm-verdict-text",
        ".glm-tick",
        ".glm-counts",
        ".glm-page",
        ".glm-table td",
        ".glm-label span",
    ):
        assert contrast(shown.page.locator(part).first) >= 4.5, part


TICKS_INSIDE = """[...document.querySelectorAll('.glm-tick')].every(tick => {
  const [own, bar] = [tick, tick.parentElement].map(element => element.getBoundingClientRect());
  return own.left >= bar.left - 1 && own.right <= bar.right + 1;
})"""


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
