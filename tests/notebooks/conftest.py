"""A notebook is run once for all tests of its module, and one server shows all of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.jupyter.browser import headless_browser
from tests.jupyter.lab.server import App, serve
from tests.notebooks.pictures import look
from tests.notebooks.running import run_notebook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

    from tests.jupyter.lab.server import Server
    from tests.notebooks.running import Ran


@pytest.fixture(scope="module")
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The notebook that the module is named after, `test_01_why.py` after the first, as it is after its run."""
    named = re.search(r"test_(\d\d)_", request.module.__name__)
    assert named, request.module.__name__
    return run_notebook(named[1], tmp_path_factory.mktemp(f"notebook-{named[1]}"))


# Not for the session: as long as it lasts, an event loop runs in this thread, and other tests start their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with headless_browser() as chromium:
        yield chromium


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(App.LAB, tmp_path_factory.mktemp("lab")) as started:
        yield started


@pytest.fixture
def looks_good(browser: Browser, server: Server, tmp_path: Path) -> Callable[[Ran], None]:
    """Opens an executed notebook in JupyterLab and looks at every output, in both themes and at two widths."""
    return lambda ran: look(ran, browser, server, tmp_path)
