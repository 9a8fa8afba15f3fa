"""Notebook 7 in a real browser: it has the same cells, widgets and kernel as JupyterLab in another frame."""

from __future__ import annotations

from tests import small_tables
from tests.jupyter.browser import artefacts, headless_browser
from tests.jupyter.lab.notebook_page import open_notebook
from tests.jupyter.lab.server import App, serve


def test_card_map_and_plan_work(tmp_path):
    folder = small_tables.make_delta(tmp_path / "roads", bounds=False)
    other = small_tables.make_iceberg(tmp_path / "tracks")
    cells = [
        "%load_ext geolake_nb\nimport geolake_nb as gl",
        f'%geolake open "{folder}"',
        f'%geolake repair "{folder}"',
        f'm = gl.open(r"{other}").map()\nm',
    ]
    with serve(App.NOTEBOOK, tmp_path / "server") as server, headless_browser() as browser:
        address = server.put_notebook("roads.ipynb", cells)
        with open_notebook(browser, address) as book:
            book.run_all()
            facts = book.cell(1).locator(".geolake-card table").first
            assert facts.locator("tr:has(th:text-is('files')) td").inner_text() == "3"
            output = book.cell(2)
            output.get_by_role("button", name="Apply").click()
            output.locator(".geolake-card[aria-label='Report']").wait_for()
            assert book.python(f'gl.open(r"{folder}").files.table["geom.xmin"].null_count') == 0
            shown = book.map(3, "m")
            middle = 176.5, -16.5
            assert shown.hover(middle).splitlines()[0].endswith("part-2.parquet")
            shown.click(middle)
            book.becomes("m.selected_ids.tolist()", [2])
            _, message = shown.draw_window(*shown.on_screen((0, 60), (20, 40)))
            assert message.startswith("1 of 3 files read")
            assert book.python("m.verdict['files_read']") == 1
            for theme in ("Dark", "Light"):
                book.use_theme(theme)
                book.page.screenshot(path=artefacts(tmp_path) / f"notebook-{theme.lower()}.png")
            assert book.other_hosts() == set()
            assert book.problems == []
