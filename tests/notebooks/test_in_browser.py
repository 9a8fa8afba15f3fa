"""The first notebook as a reader goes through it in JupyterLab: cells are run, a button is pressed, a map is asked."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest
import shapely

from geolake_nb import demo
from geolake_nb.spark.session import cache_folder
from tests.jupyter.browser import artefacts
from tests.jupyter.lab.notebook_page import open_notebook
from tests.jupyter.lab.server import App, serve
from tests.notebooks.counting_proxy import counting_proxy
from tests.notebooks.running import notebook_path


@pytest.fixture
def lab(tmp_path):
    """A server whose kernels can reach no other host."""
    # Its home is its own; what Spark needs is kept for all.
    kept = str(cache_folder().parent)
    with (
        counting_proxy() as proxy,
        serve(App.LAB, tmp_path / "lab", XDG_CACHE_HOME=kept, **proxy.environment) as server,
    ):
        yield server
        assert proxy.seen == []


def test_a_reader_repairs_a_table_by_a_click_and_asks_the_map(browser, lab, tmp_path):
    address = lab.put_copy(notebook_path("01"))
    kept = artefacts(tmp_path)
    with open_notebook(browser, address, height=1000) as book:
        book.run_above("apply-repair")
        press_apply(book, lab.folder, kept)
        book.run_from("apply-repair")
        query_the_map(book, lab.folder, kept)
        assert book.other_hosts() == set()
        assert book.problems == []


def press_apply(book, folder, kept):
    """The plan that the page shows is the kernel's; after a click every file has the box of its rows."""
    output = book.cell(book.index_of("plan-repair"))
    card = output.locator(".geolake-card").first
    assert book.python("plan.hash") in card.inner_text()
    output.screenshot(path=kept / "notebook-01-plan.png")
    output.get_by_role("button", name="Apply").click()
    report = output.locator(".geolake-card[aria-label='Report']")
    report.wait_for(timeout=60_000)
    output.screenshot(path=kept / "notebook-01-applied.png")
    assert report.locator("tr:has(th:text-is('version')) td").inner_text() == "1"
    names = ["path", *(f"location.{side}" for side in ("xmin", "ymin", "xmax", "ymax"))]
    paths, *sides = book.python(f"[gl.open(path).files.table[name].to_pylist() for name in {names}]")
    # A bound may be a little loose: it is rounded outwards.
    np.testing.assert_allclose(np.column_stack(sides), true_boxes(folder, paths), atol=1e-9)


def query_the_map(book, folder, kept):
    """A click chooses the file that lies there, and a window is answered as shapely answers it."""
    shown = book.map(book.index_of("before-and-after"), "after", nth=1)
    paths = book.python("t.files.table['path'].to_pylist()")
    boxes = true_boxes(folder, paths)
    number, point = lonely_point(boxes, *shown.positions(*corners(shown)))
    assert shown.hover(point).splitlines()[0] == paths[number]
    shown.click(point)
    book.becomes("after.selected['path'].to_pylist()", [paths[number]])
    assert "1 selected" in shown.root.locator(".glm-counts").inner_text()
    before = book.python("after.window")
    x, y = shown.middle()
    window, message = shown.draw_window((x - 60, y - 40), (x + 90, y + 50))
    assert window != before
    meets = shapely.intersects(shapely.box(*boxes.T), shapely.box(*window))
    assert message.startswith(f"{meets.sum()} of {len(paths)} files read")
    assert 0 < meets.sum() < len(paths) / 4
    sizes = [(folder / "tables" / "airports" / path).stat().st_size for path in paths]
    output = book.python("[after.verdict['files_read'], after.verdict['bytes_read']]")
    assert output == [meets.sum(), np.array(sizes)[meets].sum()]
    airports = shapely.from_wkb(demo.airports()["location"].to_pylist())
    inside = shapely.intersects(airports, shapely.box(*window)).sum()
    assert shown.load_rows().startswith(f"{inside:,} rows · ")
    assert book.python("len(after.rows())") == inside
    book.cell(book.index_of("before-and-after")).screenshot(path=kept / "notebook-01-window.png")


def true_boxes(folder, paths):
    """The box of the points in each file, by shapely."""
    files = [folder / "tables" / "airports" / path for path in paths]
    rows = [pq.read_table(file, columns=["location"], arrow_extensions_enabled=False) for file in files]
    return np.array([shapely.total_bounds(shapely.from_wkb(table["location"].to_pylist())) for table in rows])


def corners(shown):
    """The points of the screen that bound what a map shows."""
    frame = shown.root.locator(".glm-map").bounding_box()
    left, top = frame["x"], frame["y"]
    return (left, top + frame["height"]), (left + frame["width"], top)


def lonely_point(boxes, southwest, northeast):
    """A file and the middle of its box, where no other box lies and the map shows it."""
    middles = (boxes[:, :2] + boxes[:, 2:]) / 2
    shapes, points = shapely.box(*boxes.T), shapely.points(middles)
    alone = shapely.intersects(shapes[:, None], points[None, :]).sum(axis=0) == 1
    seen = np.all((middles > southwest) & (middles < northeast), axis=1)
    number = int(np.flatnonzero(alone & seen)[0])
    return number, tuple(middles[number])
