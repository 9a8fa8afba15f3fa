"""A headless browser that can reach no host, and pages that hold a map."""

from __future__ import annotations

import os
import re
import shutil
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from geolake_nb.jupyter.map_widget import map_page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserType, Locator, Page

FLAGS = [
    "--no-sandbox",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
]


def artefacts(otherwise: Path) -> Path:
    """Where pictures of a run are kept for people: the folder in GEOLAKE_ARTEFACTS."""
    folder = Path(os.environ.get("GEOLAKE_ARTEFACTS", otherwise))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def launch(kind: BrowserType, *more_flags: str) -> Browser:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        pytest.skip("no Chromium here")
    return kind.launch(executable_path=chromium, args=[*FLAGS, *more_flags])


@contextmanager
def headless_browser(*more_flags: str) -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = launch(driver.chromium, *more_flags)
        yield browser
        browser.close()


def contrast(part: Locator) -> float:
    """How well the text of an element stands out from what lies behind it: 1 is not at all, 21 is black on white."""
    ink, *grounds = (_parts(colour) for colour in part.evaluate(COLOURS))
    ground = np.ones(3)
    for layer in reversed(grounds):
        ground = _over(layer, ground)
    low, high = sorted(_luminance(colour) for colour in (_over(ink, ground), ground))
    return (high + 0.05) / (low + 0.05)


# The colour of the text, and every ground from the element down to one that lets nothing through.
COLOURS = """element => {
  const grounds = [];
  for (let at = element; at && !/^rgb\\(/.test(grounds.at(-1) ?? ''); at = at.parentElement)
    grounds.push(getComputedStyle(at).backgroundColor);
  return [getComputedStyle(element).color, ...grounds];
}"""


def _parts(colour: str) -> np.ndarray:
    """Red, green, blue and what it lets through, each from 0 to 1."""
    values = [float(value) for value in re.findall(r"[\d.]+", colour)]
    scale = 1 if colour.startswith("color(srgb") else 255
    return np.array([*np.array(values[:3]) / scale, *(values[3:] or [1.0])])


def _over(colour: np.ndarray, ground: np.ndarray) -> np.ndarray:
    return colour[:3] * colour[3] + ground * (1 - colour[3])


def _luminance(colour: np.ndarray) -> float:
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@dataclass
class MapPage:
    """One open page with a map, and what went wrong in it."""

    page: Page
    problems: list[str] = field(default_factory=list)

    def ask(self, script: str, argument: Any = None) -> Any:
        return self.page.evaluate(f"argument => {{ const map = window.geolakeMap; return {script}; }}", argument)

    def selected(self) -> list[int]:
        return self.ask("map.selected()")

    def settle(self) -> None:
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    @property
    def corner(self) -> tuple[float, float]:
        box = self.page.locator(".glm-map").bounding_box()
        assert box
        return box["x"], box["y"]

    def on_screen(self, longitude: float, latitude: float) -> tuple[float, float]:
        pixel = self.ask("map.pixelOf(...argument)", [longitude, latitude])
        x, y = self.corner
        return x + pixel["x"], y + pixel["y"]

    def position(self, x: float, y: float) -> tuple[float, float]:
        left, top = self.corner
        position = self.ask("map.positionOf(...argument)", [x - left, y - top])
        return position["longitude"], position["latitude"]

    def hover(self, longitude: float, latitude: float) -> str | None:
        """The text of the card over a place, `None` without a card."""
        self.page.mouse.move(*self.on_screen(longitude, latitude))
        self.settle()
        card = self.page.locator(".glm-card")
        return card.inner_text() if card.is_visible() else None

    def click(self, longitude: float, latitude: float, *modifiers: str) -> list[int]:
        for key in modifiers:
            self.page.keyboard.down(key)
        self.page.mouse.click(*self.on_screen(longitude, latitude))
        for key in modifiers:
            self.page.keyboard.up(key)
        self.settle()
        return self.selected()

    def tool(self, label: str) -> None:
        self.page.get_by_role("button", name=label).click()

    def drag(self, points: list[tuple[float, float]]) -> None:
        """Presses at the first point of the screen and lets go at the last."""
        self.page.mouse.move(*points[0])
        self.page.mouse.down()
        for point in points[1:]:
            self.page.mouse.move(*point, steps=2)
        self.page.mouse.up()
        self.settle()


def wait_until(page: Page, expression: str, *, seconds: float = 30.0) -> None:
    """Wait for a condition from outside: inside, the page's own policy forbids to evaluate it again and again."""
    end = time.monotonic() + seconds
    while not page.evaluate(f"Boolean({expression})"):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(20)


def open_map(
    browser: Browser,
    folder: Path,
    traits: dict[str, Any],
    *,
    width: int = 1280,
    height: int = 600,
    theme: str = "light",
) -> MapPage:
    """Opens the traits as a page from a file. Every request but that for the file is refused and is a problem."""
    path = folder / "map.html"
    path.write_text(map_page(traits), encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
    page = context.new_page()
    opened = MapPage(page)

    def allow(route: Any) -> None:
        if route.request.url == path.as_uri():
            route.continue_()
            return
        opened.problems.append(f"asked for {route.request.url[:80]}")
        route.abort()

    page.route("**/*", allow)
    page.on("pageerror", lambda error: opened.problems.append(str(error)))
    page.on("console", lambda message: opened.problems.append(message.text) if message.type == "error" else None)
    page.goto(path.as_uri())
    wait_until(page, "window.geolakeMap !== undefined")
    opened.settle()
    return opened
