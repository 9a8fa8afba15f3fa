"""An executed notebook, opened in JupyterLab: every output is looked at, and the main one is kept as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.jupyter.browser import artefacts
from tests.jupyter.lab.looks import faults
from tests.jupyter.lab.notebook_page import open_notebook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Locator

    from tests.jupyter.lab.notebook_page import NotebookPage
    from tests.jupyter.lab.server import Server
    from tests.notebooks.running import Ran

WIDTHS = (1280, 1920)
THEMES = ("Light", "Dark")
TALLEST = 12000
"""Pixels of a picture of the whole notebook."""

# A map that is restored has no kernel, and says so by a mark that the map of a running notebook has not.
NO_MARK = ".jupyter-widgets-disconnected::before { display: none !important; }"


def main_cell(ran: Ran) -> str:
    """The id of the cell whose picture stands for the notebook."""
    (result,) = (cell.id for cell in ran.notebook.cells if "main" in cell.metadata.get("tags", ()))
    return result


def look(ran: Ran, browser: Browser, server: Server, folder: Path) -> None:
    """Hold that all outputs look good in both themes and at both widths; pictures are kept for people."""
    assert ran.stderr() == {}, "nobody wants to read it"
    kept, result = artefacts(folder), []
    number = ran.path.name.partition("-")[0]
    with open_notebook(browser, server.put_copy(ran.path), width=WIDTHS[0]) as book:
        book.page.add_style_tag(content=NO_MARK)
        _wait_for_maps(book, ran)
        for theme in THEMES:
            book.use_theme(theme)
            for width in WIDTHS:
                _resize(book, width)
                for name, output in _outputs(book, ran):
                    result += [f"{name}, {theme}, {width} wide: {fault}" for fault in faults(output)]
                    if name == main_cell(ran):
                        output.screenshot(path=kept / f"notebook-{number}-{theme.lower()}-{width}.png")
            _resize(book, WIDTHS[0])
            book.page.locator(".jp-WindowedPanel-viewport").screenshot(
                path=kept / f"notebook-{number}-{theme.lower()}.png"
            )
        assert result == [], "\n".join(result)
        assert book.other_hosts() == set()
        assert book.problems == [], "\n".join(book.problems)


def _outputs(book: NotebookPage, ran: Ran) -> Iterator[tuple[str, Locator]]:
    for index, cell in enumerate(ran.notebook.cells):
        if cell.get("outputs"):
            yield cell.id, book.cell(index)


def _wait_for_maps(book: NotebookPage, ran: Ran) -> None:
    """Wait until every widget is there and every map is drawn: in a saved notebook they come after other outputs."""
    book.page.wait_for_function("!document.querySelector('.jp-Notebook').innerText.includes('Loading widget')")
    for name, output in _outputs(book, ran):
        maps = sum(model["model_name"] == "AnyModel" for model in ran.widgets(name))
        for nth in range(maps):
            output.locator(".glm").nth(nth).locator(".glm-canvas").first.wait_for()


def _resize(book: NotebookPage, width: int) -> None:
    """So tall that no cell has to be scrolled to."""
    book.page.set_viewport_size({"width": width, "height": 900})
    book.settle()
    height = book.page.evaluate("document.querySelector('.jp-WindowedPanel-outer').scrollHeight")
    book.page.set_viewport_size({"width": width, "height": min(height + 140, TALLEST)})
    book.page.wait_for_timeout(300)
