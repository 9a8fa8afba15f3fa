"""A notebook in the browser: its cells are run by the front end, and its kernel is asked for the truth."""

from __future__ import annotations

import ast
import json
import math
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Error, Locator, Page

# The toolbar says "idle" before a cell can run: the session's own connection is what counts.
READY = """() => {
  const widget = window.jupyterapp?.shell.currentWidget;
  const kernel = widget?.sessionContext?.session?.kernel;
  return Boolean(widget?.context?.isReady && kernel?.connectionStatus === 'connected' && kernel.status === 'idle');
}"""
RUN = """async ([command, seconds]) => {
  const slow = new Promise(done => setTimeout(() => done('too slow'), seconds * 1000));
  const run = window.jupyterapp.commands.execute(command).then(() => 'run');
  const end = await Promise.race([run, slow]);
  const cells = [...window.jupyterapp.shell.currentWidget.content.model.cells];
  const errors = cells.flatMap(cell => cell.toJSON().outputs ?? []).filter(one => one.output_type === 'error');
  return [end, ...errors.map(one => `${one.ename}: ${one.evalue}`)];
}"""
ASK = """async ([code, answer]) => {
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  const asked = { code, store_history: false, user_expressions: { answer } };
  return (await kernel.requestExecute(asked).done).content;
}"""
THEMED = """theme => document.body.dataset.jpThemeLight === String(theme === 'light')
  && [...document.querySelectorAll('.glm')].every(map => map.dataset.theme === theme)"""
FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@dataclass
class NotebookPage:
    """An open notebook, every address it asked for, and what went wrong."""

    page: Page
    asked: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def run_all(self, seconds: float = 120) -> None:
        """Run every cell; an error in one is a failure here."""
        self._run("notebook:run-all-cells", seconds)

    def run_above(self, cell_id: str, seconds: float = 600) -> None:
        """Run every cell before one."""
        self._choose(cell_id)
        self._run("notebook:run-all-above", seconds)

    def run_from(self, cell_id: str, seconds: float = 600) -> None:
        """Run a cell and every one after it."""
        self._choose(cell_id)
        self._run("notebook:run-all-below", seconds)

    def _run(self, command: str, seconds: float) -> None:
        message = self.page.evaluate(RUN, [command, seconds])
        assert message == ["run"], message

    def _choose(self, cell_id: str) -> None:
        script = "place => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = place; }"
        self.page.evaluate(script, self.index_of(cell_id))

    def index_of(self, cell_id: str) -> int:
        """Which cell of the notebook has an id."""
        ids = self.page.evaluate("[...window.jupyterapp.shell.currentWidget.content.model.cells].map(cell => cell.id)")
        assert cell_id in ids, ids
        index: int = ids.index(cell_id)
        return index

    def python(self, expression: str, code: str = "") -> Any:
        """What the kernel says to an expression, as JSON carries it."""
        output = self.page.evaluate(ASK, [f"import json\n{code}", f"json.dumps({expression})"])
        answer = output.get("user_expressions", {}).get("answer", output)
        assert answer.get("status") == "ok", answer
        return json.loads(ast.literal_eval(answer["data"]["text/plain"]))

    def becomes(self, expression: str, wanted: Any, seconds: float = 20) -> None:
        """Hold that the kernel soon says so: what is done in the browser takes a moment to get there."""
        end = time.monotonic() + seconds
        while (message := self.python(expression)) != wanted and time.monotonic() < end:
            self.page.wait_for_timeout(50)
        assert message == wanted

    def cell(self, index: int) -> Locator:
        """The output of a cell, brought into view."""
        element = self.page.locator(".jp-Notebook .jp-Cell").nth(index)
        element.scroll_into_view_if_needed()
        return element.locator(".jp-Cell-outputArea")

    def map(self, index: int, name: str, nth: int = 0) -> ShownMap:
        """A map in the output of a cell; `name` is the variable that holds it in Python."""
        shown = self.cell(index).locator(".glm").nth(nth)
        shown.locator(".glm-canvas").first.wait_for()
        shown.evaluate("element => element.scrollIntoView({ block: 'center' })")
        self.settle()
        return ShownMap(self, shown, name)

    def settle(self) -> None:
        self.page.evaluate(FRAMES)

    def other_hosts(self) -> set[str]:
        """The hosts that were asked for anything, but for this machine."""
        own = {"127.0.0.1", None}
        return {f"{urlsplit(address).hostname}" for address in self.asked if urlsplit(address).hostname not in own}

    def use_theme(self, theme: str) -> None:
        """Change to Light or Dark, and wait until the notebook and its maps have it."""
        self.command("apputils:change-theme", theme=f"JupyterLab {theme}")
        self.page.wait_for_function(THEMED, arg=theme.lower())

    def command(self, name: str, **options: Any) -> None:
        """Run a command of the front end."""
        script = "async ([name, options]) => { await window.jupyterapp.commands.execute(name, options); }"
        self.page.evaluate(script, [name, options])


@dataclass(frozen=True)
class ShownMap:
    """A map in a cell. Places become pixels by Mercator's formula and the view that Python knows, not by the widget."""

    book: NotebookPage
    root: Locator
    name: str

    def view(self) -> dict[str, float]:
        """What Python knows of the view; the browser tells it at most every 80 ms."""
        self.book.page.wait_for_timeout(200)
        known: dict[str, float] = self.book.python(f"{self.name}.view")
        return known

    def on_screen(self, *positions: tuple[float, float]) -> list[tuple[float, float]]:
        """The points of the screen where positions are drawn, each on the copy of the world next to the middle."""
        scale, middle, (x, y) = self._projection()
        collected = []
        for across, down in (_mercator(*point) for point in positions):
            turns = round(middle[0] - across)
            collected.append((x + (across + turns - middle[0]) * scale, y + (down - middle[1]) * scale))
        return collected

    def positions(self, *points: tuple[float, float]) -> list[tuple[float, float]]:
        """The longitudes and latitudes of points of the screen."""
        scale, middle, (x, y) = self._projection()
        collected = []
        for across, down in points:
            south = middle[1] + (down - y) / scale
            latitude = math.degrees(math.atan(math.sinh(math.pi * (1 - 2 * south))))
            collected.append(((middle[0] + (across - x) / scale) % 1 * 360 - 180, latitude))
        return collected

    def _projection(self) -> tuple[float, tuple[float, float], tuple[float, float]]:
        """Pixels around the world, the middle of the map on the unit square, and where that is on the screen."""
        view = self.view()
        return 256 * 2 ** view["zoom"], _mercator(view["lng"], view["lat"]), self.middle()

    def middle(self) -> tuple[float, float]:
        """The point of the screen in the middle of the map."""
        frame = self.root.locator(".glm-map").bounding_box()
        assert frame
        return frame["x"] + frame["width"] / 2, frame["y"] + frame["height"] / 2

    def hover(self, point: tuple[float, float]) -> str:
        """The text of the card over a place."""
        self.book.page.mouse.move(*self.on_screen(point)[0])
        card = self.root.locator(".glm-card")
        card.wait_for()
        return card.inner_text()

    def click(self, point: tuple[float, float]) -> None:
        self.book.page.mouse.click(*self.on_screen(point)[0])

    def tool(self, label: str) -> None:
        self.root.get_by_role("button", name=label).click()

    def drag(self, *points: tuple[float, float]) -> None:
        """Press at the first point of the screen and let go at the last."""
        mouse = self.book.page.mouse
        mouse.move(*points[0])
        mouse.down()
        for point in points[1:]:
            mouse.move(*point, steps=3)
        mouse.up()
        self.book.settle()

    def draw_window(self, left: tuple[float, float], other: tuple[float, float]) -> tuple[list[float], str]:
        """Draw a window between two points of the screen; what Python takes it for, and what the map says of it."""
        self.tool("Query window")
        self.drag(left, other)
        # A window is sent while it is drawn: only the answer to the last one is awaited by nobody.
        message = self.verdict_text()
        return self.book.python(f"{self.name}.window"), message

    def load_rows(self, end: str = "Clear rows") -> str:
        """Press "Load rows" as the keyboard does, and wait for the button that comes after; what the map says then."""
        self.root.get_by_role("button", name="Load rows").press("Enter")
        self.root.get_by_role("button", name=end).wait_for()
        return self.root.locator(".glm-rows-text").inner_text()

    def hover_row(self, point: tuple[float, float]) -> str:
        """The text of the card over a loaded row, once Python has told its columns."""
        # The table below may have moved the map out of view.
        self.root.locator(".glm-map").evaluate("element => element.scrollIntoView({ block: 'center' })")
        self.book.page.mouse.move(*self.on_screen(point)[0])
        card = self.root.locator(".glm-row-card")
        card.locator(".glm-field").first.wait_for()
        return card.inner_text()

    def verdict_text(self) -> str:
        """What the map says of the window once Python has answered."""
        answered = self.root.locator(".glm-verdict[data-pending='false'] .glm-verdict-text")
        answered.wait_for()
        return answered.inner_text()


def _mercator(longitude: float, latitude: float) -> tuple[float, float]:
    """A place on the unit square."""
    return longitude / 360 + 0.5, 0.5 - math.asinh(math.tan(math.radians(latitude))) / (2 * math.pi)


def _of_notebook(error: Error) -> bool:
    """Whether Notebook 7 itself threw: it does once as it starts, with an empty notebook too."""
    frames = [line for line in (error.stack or "").splitlines() if line.strip().startswith("at ")]
    return bool(frames) and "/static/notebook/notebook_core" in frames[0]


@contextmanager
def open_notebook(browser: Browser, address: str, *, width: int = 1280, height: int = 900) -> Iterator[NotebookPage]:
    """Open a notebook and wait until its kernel takes work."""
    context = browser.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce")
    try:
        page = context.new_page()
        book = NotebookPage(page)
        context.on("request", lambda request: book.asked.append(request.url))
        page.on("websocket", lambda socket: book.asked.append(socket.url))
        page.on("pageerror", lambda error: None if _of_notebook(error) else book.problems.append(str(error)))
        page.on("console", lambda message: book.problems.append(message.text) if message.type == "error" else None)
        page.goto(address)
        page.wait_for_function(READY, timeout=120_000)
        yield book
    finally:
        context.close()
