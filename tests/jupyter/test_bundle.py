"""The bundle that the wheel carries: small, built from these sources, and silent on the network."""

from __future__ import annotations

import gzip
import hashlib
import re
from pathlib import Path

import anywidget
import pytest

from geolake_nb.jupyter.map_widget import BUNDLE, MapWidget

WIDGETS = Path(__file__).parents[2] / "widgets"


@pytest.fixture(scope="module")
def code() -> str:
    return BUNDLE.read_text(encoding="utf-8")


def test_the_bundle_is_small():
    data = BUNDLE.read_bytes()
    assert len(data) < 400_000
    assert len(gzip.compress(data, 9)) < 130_000


def hash_of_sources(widgets: Path) -> str:
    """The rule of widgets/build.mjs: SHA-256 over name, NUL, bytes, NUL of each source."""
    inside = [path.relative_to(widgets).as_posix() for path in (widgets / "src").rglob("*") if path.is_file()]
    digest = hashlib.sha256()
    for name in sorted([*inside, "build.mjs", "package-lock.json"]):
        digest.update(name.encode() + b"\0" + (widgets / name).read_bytes() + b"\0")
    return digest.hexdigest()


def banner_hash(bundle: Path) -> str:
    """What the first line of a bundle says of its sources."""
    match = re.search(r"sha256 ([0-9a-f]{64})", bundle.read_text(encoding="utf-8")[:200])
    return "" if match is None else match.group(1)


def test_the_bundle_was_built_from_these_sources():
    assert banner_hash(BUNDLE) == hash_of_sources(WIDGETS), "run `npm run build` in widgets/"


def test_the_bundle_asks_no_host_for_anything(code):
    banner_end = code.index("*/")
    body = code[banner_end:]
    for asking in ("fetch(", "XMLHttpRequest", "WebSocket", "EventSource", "sendBeacon", "importScripts", "new Worker"):
        assert asking not in body, asking
    assert not re.search(r"\bimport\s*\(", body)
    assert not re.search(r"\bfrom\s*[\"']", body)
    # Names of namespaces and of Leaflet's home page, which nothing opens; no picture, font or style from elsewhere.
    hosts = {match.split("/")[2] for match in re.findall(r"https?://[^\"'`\s)]+", body)}
    assert hosts <= {"www.w3.org", "leafletjs.com"}
    assert not re.search(r"url\((?!#)", body.replace("url(#default#VML)", ""))


def test_the_bundle_has_no_markup_from_data():
    for path in (WIDGETS / "src").rglob("*.ts"):
        text = path.read_text()
        for step in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert step not in text, f"{path.name}: {step}"
        assert len(text.splitlines()) <= 400, path.name


def test_the_bundle_carries_the_licences_of_its_parts(code):
    banner = code[: code.index("*/")]
    for part in ("flatbush", "flatqueue", "leaflet", "topojson-client", "world-atlas"):
        assert re.search(rf"^{part} \d", banner, re.MULTILINE), part


def test_python_and_the_browser_share_the_same_traits():
    text = (WIDGETS / "src" / "model.ts").read_text()
    block = text[text.index("export const DEFAULTS") :]
    browser = set(re.findall(r"^  (\w+):", block[: block.index("\n};")], re.MULTILINE))
    own = MapWidget.class_traits(sync=True).keys() - anywidget.AnyWidget.class_traits(sync=True).keys()
    assert browser == {name for name in own if not name.startswith("_")}
