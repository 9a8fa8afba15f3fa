"""Hostile tables cannot hurt the notebook: nothing of them runs, nothing outside is opened, and no bomb goes off."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import nbformat
import numpy as np
import pyarrow.parquet as pq
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter

import geolake_nb as gl
from geolake_nb import errors
from geolake_nb.errors import GeolakeError
from geolake_nb.formats.registry import DELTA
from geolake_nb.jupyter.cards import render
from geolake_nb.raster_data.arrow import rasters_to_arrow
from geolake_nb.raster_data.raster import Band, GeoReference, PixelType, Raster
from tests import small_tables
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol, vector
from tests.formats.havasu_tables import make_havasu_table, raster_entry
from tests.formats.iceberg_tables import FileEntry, column, make_iceberg_table
from tests.jupyter.browser import headless_browser, wait_until
from tests.jupyter.named_tables import Names, make_named, make_named_iceberg, make_named_parquet
from tests.jupyter.shell import notebook
from tests.promises.bomb_look import ENDS, LOOK
from tests.promises.bombs import BOMBS
from tests.promises.unpacking_bombs import UNPACKING
from tests.storage.watched_storage import serving, watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["watch"]

# Each calls the canary with its number if a browser takes it for more than text.
PAYLOADS = [
    "<script>hit(1)</script>",
    "</script><script>hit(2)</script>",
    "<img src=x onerror=hit(3)>",
    '"><img src=x onerror=hit(4)>',
    "' onmouseover='hit(5)' onfocus='hit(5)' autofocus='",
    "<svg/onload=hit(6)>",
    '<iframe src="javascript:parent.hit(7)"></iframe>',
    '<a href="javascript:hit(8)" id=x>x</a>',
    "[x](javascript:hit(9)) ![x](http://evil.example/9.png)",
    "javascript:hit(10)",
    "{{7*7}}{{ hit(11) }}<%= 7*7 %>#{7*7}",
    "`${hit(12)}`",
    "$(touch hit13) `touch hit13`",
    "');hit(14);//",
    '"-hit(15)-"',
    "<!--<script>hit(16)//",
    "--><script>hit(17)</script>",
    "]]><script>hit(18)</script>",
    "</style><script>hit(19)</script>",
    "</title></textarea></noscript></template><script>hit(20)</script>",
    "<math><mtext></mtext><mglyph><style><img src=x onerror=hit(21)>",
    "<base href=//evil.example/><link rel=stylesheet href=//evil.example/22.css>",
    "<meta http-equiv=refresh content='0;url=//evil.example/23'>",
    "\x1b[2J\x1b]8;;http://evil.example/24\x07x\x1b]8;;\x07",
    "\u202egnp.exe\u2066 \u2028hit(25)\u2029",
    "a\x00<script>hit(26)</script>",
    "{1/0} {0.__class__} %s %n",
    "\\u003cscript\\u003ehit(28)\\u003c/script\\u003e",
    "data:text/html,<script>parent.hit(29)</script>",
    "$\\href{javascript:hit(30)}{x}$",
]


# ---- nothing of a table runs


@contextmanager
def watched_page(browser: Any, path: Path) -> Iterator[tuple[Any, list[str]]]:
    """A page from a file, and all that it did which a page of texts does not do."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    done: list[str] = []
    page.add_init_script("window.hits = []; window.hit = number => { window.hits.push(number); return ''; };")

    def allow(route: Any) -> None:
        if route.request.url.startswith(("file:", "data:", "blob:")):
            route.continue_()
            return
        done.append(f"asked for {route.request.url[:100]}")
        route.abort()

    def shown_dialog(dialog: Any) -> None:
        done.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.route("**/*", allow)
    page.on("dialog", shown_dialog)
    page.on("pageerror", lambda error: done.append(f"error: {error}"))
    page.on("console", lambda entry: done.append(f"console: {entry.text}") if entry.type == "error" else None)
    page.on("framenavigated", lambda frame: done.append(frame.url) if frame.url != path.as_uri() else None)
    page.goto(path.as_uri())
    yield page, done
    context.close()


def settle(page: Any) -> list[int]:
    """Let what would run run; which canaries were called."""
    page.mouse.move(200, 200)
    page.mouse.move(500, 400, steps=5)
    page.wait_for_timeout(150)
    return page.evaluate("window.hits")


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> list[gl.Table]:
    """A table for each payload, which is in every text that it has."""
    parent = tmp_path_factory.mktemp("named")
    folder = "a <b onclick=hit(0)>'\"&"
    return [gl.open(make_named(parent / str(number), Names(text, folder))) for number, text in enumerate(PAYLOADS)]


@pytest.fixture(scope="module")
def others(tmp_path_factory) -> list[gl.Table]:
    """An Iceberg table and a set of Parquet files that have all the payloads as names."""
    parent = tmp_path_factory.mktemp("others")
    texts = [text for text in PAYLOADS if "\0" not in text]
    return [
        gl.open(make_named_iceberg(parent / "iceberg", texts)),
        gl.open(make_named_parquet(parent / "parquet", texts)),
    ]


def unseen(page: Any, texts: list[str]) -> list[str]:
    """Which of the texts do not stand on a page, for a person to read, of those that are shown as they are."""
    assert texts
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    body = " ".join(page.evaluate("document.body.innerText").split())
    assert "\u202e" not in body
    return [text for text in texts if text.isprintable() and text not in body]


@pytest.fixture(scope="module")
def mapped(tmp_path_factory) -> gl.Table:
    """One table whose files and partitions have all the payloads as names, each with a box of its own."""
    folder = tmp_path_factory.mktemp("mapped") / "a <b onclick=hit(0)>'\"&"
    made = LogMaker(folder)
    hostile = PAYLOADS[2]
    fields = (field(f"part {hostile}", "string"), field("geom", "geometry(OGC:CRS84)", comment=hostile))
    action = metadata(*fields, partitions=(f"part {hostile}",), **{hostile: hostile})
    adds = []
    for number, text in enumerate(PAYLOADS):
        low, high = f"POINT({number * 10 - 150} 0)", f"POINT({number * 10 - 142} 40)"
        stats = {"numRecords": 3, "minValues": {"geom": low}, "maxValues": {"geom": high}, "nullCount": {"geom": 0}}
        adds.append(add(quote(text, safe=""), stats, partition={f"part {hostile}": text}, size=100 + number))
    made.commit(0, {"commitInfo": {"operation": hostile}}, protocol("geospatial"), action, *adds)
    return gl.open(folder)


@pytest.fixture(scope="module")
def browser():
    with headless_browser() as opened:
        yield opened


def cards_of(table: gl.Table) -> Iterator[Any]:
    """Every card that the metadata alone gives."""
    yield table
    yield from (table.schema, table.protocol, table.files, table.history())
    yield table.check(footers=False)
    if table.snapshot.format is DELTA:
        yield table.collations
        yield table.diff(0, 1)
    name = table.schema.fields[0].name.replace("`", "``")
    yield table.explain(f"`{name}` IS NOT NULL")
    yield table.plan_rewrite()


def test_cards_and_editors_are_texts_in_a_browser(browser, tables, others, tmp_path):
    parts = []
    for table in [*tables, *others]:
        parts += [render(card) for card in cards_of(table)]
        for editor in (*([table.edit_collations()] if table in tables else []), table.edit_rewrite()):
            shown = [widget for widget in widgets_in(editor) if type(widget).__name__ in ("HTML", "HTMLMath", "Label")]
            parts += [str(widget.value) for widget in shown]
    path = tmp_path / "cards.html"
    path.write_text("<!doctype html><meta charset=utf-8><body>" + "\n".join(parts), encoding="utf-8")
    with watched_page(browser, path) as (page, done):
        assert settle(page) == []
        assert done == []
        assert page.locator("script, img, iframe, a, svg, link, base, meta[http-equiv], object, form").count() == 0
        assert unseen(page, PAYLOADS) == []
        # A name with a backtick is quoted, with two of them.
        assert unseen(page, [f"column {text}" for text in PAYLOADS if "`" not in text]) == []


def test_the_canary_sings(browser, tmp_path):
    """What finds nothing in our pages finds all of it where texts are put in as they are."""
    path = tmp_path / "raw.html"
    path.write_text("<!doctype html><meta charset=utf-8><body>" + "<hr>".join(PAYLOADS[2:8]), encoding="utf-8")
    with watched_page(browser, path) as (page, done):
        assert {3, 4, 6, 7} <= set(settle(page))
        assert done
    path.write_text(f"<body>{PAYLOADS[0]}<script>alert(1);fetch('http://evil.example/')</script>", encoding="utf-8")
    with watched_page(browser, path) as (page, done):
        assert settle(page) == [1]
        assert any(event.startswith("dialog") for event in done)
        assert any("evil.example" in event for event in done)


def test_rasters_are_texts_in_a_browser(browser, tmp_path):
    texts = [text for text in PAYLOADS if "\0" not in text]
    here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    rasters = [
        Raster(3, 2, (Band(PixelType.PT_16BSI, out_db_band_no=0, out_db_url=f"https://h.example/{text}"),), text, here)
        for text in texts
    ]
    make_havasu_table(tmp_path / "t", [raster_entry("a", rasters, None)], encoding=None, rasters=True)
    browsed = gl.open(tmp_path / "t").browse_rasters()
    parts = []
    for number in range(len(texts)):
        browsed.list.value = number
        parts.append(str(browsed.card.value))
    parts += [
        str(widget.value) for widget in widgets_in(browsed) if type(widget).__name__ in ("HTML", "HTMLMath", "Label")
    ]
    path = tmp_path / "rasters.html"
    path.write_text("<!doctype html><meta charset=utf-8><body>" + "\n".join(parts), encoding="utf-8")
    with watched_page(browser, path) as (page, done):
        assert settle(page) == []
        assert done == []
        assert page.locator("script, iframe, a, svg, link, base, img[src=x]").count() == 0
        assert "https://h.example/" in page.evaluate("document.body.innerText")


def widgets_in(root: Any) -> Iterator[Any]:
    yield root
    for child in getattr(root, "children", ()):
        yield from widgets_in(child)


def test_the_map_and_its_hover_card_are_texts(browser, mapped, tmp_path):
    path = mapped.map(color="bytes").to_html(tmp_path / "map.html")
    with watched_page(browser, Path(path)) as (page, done):
        wait_until(page, "window.geolakeMap !== undefined")
        page.get_by_role("button", name="Table").first.click()
        rows_text = page.locator(".glm-rows").inner_text()
        frame = page.locator(".glm-map").bounding_box()
        shown = ""
        for share in np.linspace(0.02, 0.98, 60):
            page.mouse.move(frame["x"] + frame["width"] * share, frame["y"] + frame["height"] * 0.42)
            page.wait_for_timeout(15)
            if page.locator(".glm-card").is_visible():
                shown += page.locator(".glm-card").inner_text()
        assert PAYLOADS[2] in rows_text + shown
        assert sum(text in shown for text in PAYLOADS) > 5
        assert settle(page) == []
        assert done == []
        assert page.locator(".glm img, .glm iframe, .glm a, .glm svg image").count() == 0


def test_reports_are_texts(browser, mapped, tables, others, tmp_path):
    # Each with what has to stand on its page; a card shows the first of many files and columns.
    shown = [(mapped, [PAYLOADS[2]]), *((table, PAYLOADS[:9]) for table in others)]
    shown += [(tables[number], [PAYLOADS[number]]) for number in (1, 4, 7, 12, 15, 18, 21, 26)]
    for number, (table, texts) in enumerate(shown):
        path = Path(table.report(tmp_path / f"{number}.html"))
        with watched_page(browser, path) as (page, done):
            if "window.geolakeMap" in path.read_text(encoding="utf-8"):
                wait_until(page, "window.geolakeMap !== undefined")
            else:
                assert table in tables  # they have no boxes
            assert settle(page) == []
            assert done == []
            assert page.locator("iframe, a[href^=javascript], img[src=x]").count() == 0
            assert unseen(page, texts) == []


def test_folium_is_texts(browser, mapped, tmp_path):
    path = tmp_path / "folium.html"
    path.write_text(mapped.to_folium().get_root().render(), encoding="utf-8")
    with watched_page(browser, path) as (page, done):
        page.wait_for_selector(".leaflet-container canvas")
        frame = page.locator(".leaflet-container").bounding_box()
        tooltips = ""
        for share in np.linspace(0.05, 0.95, 40):
            page.mouse.move(frame["x"] + frame["width"] * share, frame["y"] + frame["height"] * 0.45, steps=2)
            page.wait_for_timeout(15)
            tooltips += page.evaluate(
                "[...document.querySelectorAll('.leaflet-tooltip')].map(one => one.innerText).join()"
            )
        assert sum(text in tooltips for text in PAYLOADS) > 5
        assert settle(page) == []
        assert done == []
        assert page.locator(".leaflet-tooltip img, .leaflet-tooltip script, iframe").count() == 0


# A widget has two scripts of nbconvert: one finds its element, the other holds the JSON that names the widget.
FOREIGN_SCRIPTS = """() => [...document.querySelectorAll(".jp-OutputArea-output script")]
  .filter(script => script.type !== "application/vnd.jupyter.widget-view+json")
  .map(script => script.textContent.trim())
  .filter(text => !/^var element = document\\.getElementById\\('[0-9a-f-]+'\\);$/.test(text))"""


def converted(folder: Path, tables: list[str]) -> str:
    """The page that nbconvert makes of a notebook that a kernel has run."""
    lines = [f"display(gl.open({path!r}), gl.open({path!r}).check(footers=False))" for path in tables]
    cells = ["%load_ext geolake_nb\nimport geolake_nb as gl", *lines, f"print(gl.open({tables[0]!r}))"]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    return HTMLExporter().from_notebook_node(book)[0]


def test_a_page_of_nbconvert_requests_only_what_it_requests_without_the_table(browser, tables, others, tmp_path):
    plain = gl.open(make_named(tmp_path / "plain", Names("plain")))
    requested = []
    for name, shown in (("plain", [plain]), ("hostile", [*tables, *others])):
        path = tmp_path / f"{name}.html"
        path.write_text(converted(tmp_path, [table.location for table in shown]), encoding="utf-8")
        with watched_page(browser, path) as (page, done):
            assert settle(page) == []
            # The template of nbconvert asks for its own scripts, which are not let through.
            requested.append({event for event in done if event.startswith("asked for")})
            assert not [event for event in done if "evil.example" in event or event.startswith("dialog")]
            assert page.evaluate(FOREIGN_SCRIPTS) == []
            assert page.locator(".jp-OutputArea-output img").count() == 0
            if name == "hostile":
                assert unseen(page, PAYLOADS) == []
    assert requested[0] == requested[1]


# ---- no text of a table or of a line is evaluated

LINES = ["open t", "schema t", "files t", "history t", "check t --no-footers", "collations t", "diff t 0 1"]
HARMLESS = ["{1/0}", "'$(touch hit)'", "'`touch hit`'", "$(touch${IFS}hit)", "javascript:alert(1)", "'{t}'", "t.x()"]


def test_a_word_is_neither_run_nor_expanded(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with notebook(capsys) as book:
        book.shell.user_ns["t"] = gl.open(small_tables.make_delta(tmp_path / "table"))
        for word in HARMLESS:
            answer = book.complaint(f"%geolake open {word}")
            assert word.strip("'") in answer
            assert "there is nothing at this path" in answer
    assert not Path("hit").exists()


def test_no_name_of_a_table_is_evaluated(capsys, tmp_path, monkeypatch, tables):
    monkeypatch.chdir(tmp_path)
    with notebook(capsys) as book:
        for table in tables:
            book.shell.user_ns["t"] = table
            for line in LINES:
                ran = book.shell.run_cell(f"%geolake {line}", store_history=False)
                problem = ran.error_in_exec or ran.error_before_exec
                assert problem is None or isinstance(problem, GeolakeError | SystemExit), (line, problem)
            out = "".join(capsys.readouterr())
            assert all(character.isprintable() or character == "\n" for character in out)
    assert sorted(path.name for path in tmp_path.iterdir()) == []


# ---- nothing outside is opened


@pytest.fixture
def secret(tmp_path) -> Path:
    """A Parquet file beside the tables, which are not to open it."""
    folder = tmp_path / "secret"
    folder.mkdir()
    pq.write_table(small_tables.data((1, 2)), folder / "canary.parquet")
    return folder / "canary.parquet"


def places(secret: Path, web: str) -> list[str]:
    return [
        str(secret),
        secret.as_uri(),
        f"file:{secret}",
        f"../secret/{secret.name}",
        f"x/../../secret/{secret.name}",
        f"%2e%2e/secret/{secret.name}",
        f"..%2Fsecret%2F{secret.name}",
        f"{web}/{secret.name}",
        f"s3://127.0.0.1/{secret.name}",
        "/etc/passwd",
        "a\u0000b",
    ]


def look(path: Path | str) -> list[GeolakeError]:
    """Look at a table in every way; what goes wrong has to be an error of this package."""
    problems: list[GeolakeError] = []
    table = None

    def attempt(work: Callable[[], Any]) -> Any:
        try:
            return work()
        except GeolakeError as problem:
            problems.append(problem)
            return None

    table = attempt(lambda: gl.open(str(path)))
    if table is None:
        return problems
    for work in (
        table.check,
        lambda: table.check(deep=True),
        table.row_groups,
        lambda: table.explain("ST_Intersects(geom, ST_MakeEnvelope(0, 0, 1, 1))", row_groups=True),
        table.plan_repair,
        lambda: table.plan_rewrite(cluster_by="geom").preview(),
        lambda: table.geometries(table.files.table["path"][0].as_py()),
        table.rasters,
        lambda: gl.rasters.check(table),
        lambda: table.map().show_row_groups(),
    ):
        attempt(work)
    with suppress(GeolakeError):
        table.browse_rasters()
    return problems


def delta_at(folder: Path, location: str) -> Path:
    made = LogMaker(folder)
    made.commit(0, protocol("geospatial"), metadata(field("id", "long"), field("geom", "geometry(OGC:CRS84)")))
    made.commit(1, add(location, {"numRecords": 4}))
    return folder


def delta_with_vector(folder: Path, location: str) -> Path:
    small_tables.make_delta(folder, bounds=False)
    descriptor = vector(1) | {"storageType": "p", "pathOrInlineDv": location}
    size = (folder / "part-0.parquet").stat().st_size
    LogMaker(folder).commit(2, add("part-0.parquet", {"numRecords": 4}, size=size, deletionVector=descriptor))
    return folder


def delta_with_sidecar(folder: Path, location: str) -> Path:
    made = LogMaker(folder)
    action = metadata(field("id", "long"), field("geom", "geometry(OGC:CRS84)"))
    sidecar = {"sidecar": {"path": location, "sizeInBytes": 9, "modificationTime": 0}}
    name = f"{1:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet"
    first = protocol("geospatial", "v2Checkpoint")
    made.checkpoint(1, first, action, sidecar, {"checkpointMetadata": {"version": 1}}, name=name)
    return folder


def iceberg_at(folder: Path, location: str, part: str) -> Path:
    entry = FileEntry("a.parquet", rows=4, table=small_tables.data((1, 2)))
    columns = [column(1, "id", "long"), column(2, "geom", "geometry")]
    if part == "data":
        entry = replace(entry, path=location, table=None)
    path = make_iceberg_table(folder, columns, [entry], version=3)
    if part == "list":
        metadata = json.loads(path.read_text())
        metadata["snapshots"][0]["manifest-list"] = location
        path.write_text(json.dumps(metadata))
    return folder


def rasters_at(folder: Path, location: str) -> Path:
    here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    raster = Raster(
        3, 2, (Band(PixelType.PT_16BSI, out_db_band_no=0, out_db_url=location.replace("\0", "")),), None, here
    )
    assert rasters_to_arrow([raster])
    make_havasu_table(folder, [raster_entry("a", [raster], None)], encoding=None, rasters=True)
    return folder


LEADING: dict[str, Callable[[Path, str], Path]] = {
    "a data file of Delta": delta_at,
    "a deletion vector of Delta": delta_with_vector,
    "a sidecar of Delta": delta_with_sidecar,
    "a manifest list of Iceberg": lambda folder, location: iceberg_at(folder, location, "list"),
    "a data file of Iceberg": lambda folder, location: iceberg_at(folder, location, "data"),
    "a raster of Havasu": rasters_at,
}


@pytest.mark.parametrize("what", LEADING)
def test_no_path_of_a_table_leads_out_of_it(tmp_path, secret, watch, what):
    canary = watch(secret.parent)
    assert secret.read_bytes()
    assert canary.opened() == {secret.name}  # it would sing
    with serving(secret.parent) as web:
        for number, location in enumerate(places(secret, web.url)):
            problems = look(LEADING[what](tmp_path / f"t{number}", location))
            assert what in ("a deletion vector of Delta", "a raster of Havasu") or problems, location
        assert web.requests == []
    assert canary.opened() == set()


# ---- no bomb goes off


def test_no_bomb_takes_the_memory_the_time_or_the_process(tmp_path):
    folders = {}
    bombs = BOMBS | UNPACKING
    for number, (name, make) in enumerate(bombs.items()):
        make(tmp_path / f"b{number}")
        folders[str(tmp_path / f"b{number}")] = name
    # The limit is there for the machine that runs this: a notebook has none, and the peak is what counts.
    room, most, seconds = 2**33, 2**30, 60
    command = [sys.executable, "-W", "ignore", "-c", LOOK, json.dumps(list(folders)), str(room), str(seconds)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=900, check=True)
    reports = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(reports) == len(bombs)
    assert set(ENDS) == set(bombs)
    for report in reports:
        name = folders[report["path"]]
        assert report["ended"] == 0, name
        assert report["untyped"] == [], name
        assert any(re.match(ENDS[name], end) for end in report["ends"]), (name, report["ends"])
        assert all(hasattr(errors, kind) for kind in report["kinds"]), name
        assert report["peak"] < most, (name, report["peak"])
        assert report["seconds"] < seconds / 2, name
