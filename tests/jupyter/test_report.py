"""The report: one file, small, silent on the network, with every name as text and the numbers of Python."""

from __future__ import annotations

import json
import re

import pytest

import geolake_nb as gl
from geolake_nb.cli import main
from geolake_nb.errors import GeolakeError, PredicateError
from geolake_nb.jupyter.card_parts import shared_page
from geolake_nb.jupyter.cards import render
from geolake_nb.jupyter.cards.table import show_table
from geolake_nb.jupyter.report_page import report_page
from geolake_nb.reference import FOLDER
from tests import small_tables
from tests.jupyter.browser import headless_browser, wait_until
from tests.jupyter.html_reading import text_of
from tests.jupyter.mapped_tables import mapped_table, random_boxes
from tests.jupyter.named_tables import Names, make_named
from tests.jupyter.test_html import HOSTILE

MOST = 5_000_000


@pytest.fixture
def table(tmp_path):
    return gl.open(str(small_tables.make_delta(tmp_path / "roads")))


def without_scripts(page: str) -> str:
    return re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def test_a_report_has_the_card_the_map_the_findings_and_the_explanation(table):
    page = report_page(table, where="id > 99")
    with shared_page(table.location):
        for value in (table.explain("id > 99"), table.check(footers=False)):
            assert render(value) in page
    assert [*re.findall("<h2>(.*?)</h2>", page)] == ["Map", "Findings", "What the filter reads", "Table"]
    assert "renderStatic" in page
    assert "What the filter reads" not in report_page(table)


def test_the_card_of_a_report_knows_the_findings(table, tmp_path):
    assert "Checked: no findings." in text_of(show_table(table, table.check(footers=False)))
    bare = gl.open(str(small_tables.make_delta(tmp_path / "bare", bounds=False)))
    page = report_page(bare)
    with shared_page(bare.location):
        assert show_table(bare, bare.check(footers=False)) in page
    assert "Checked: 1 warning." in page


def test_a_report_opens_with_the_verdict_and_the_date_and_has_no_magic(tmp_path):
    bare = gl.open(str(small_tables.make_delta(tmp_path / "my bare", bounds=False)))
    plain, filtered = report_page(bare), report_page(bare, where=(5, 45, 12, 52))
    opening = text_of(plain.partition("</h1>")[2].partition("<h2>")[0])
    assert opening.strip().startswith("1 warning. A query reads 100% of the bytes.")
    assert re.search(r"Made \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC of Delta, version 1", opening)
    assert "The filter reads 3 of 3 files: no file has bounds." in filtered
    for page in (plain, filtered):
        text = text_of(without_scripts(page).partition("</h1>")[2].partition("<footer>")[0])
        assert "geolake repair TABLE" in text
        assert "%geolake" not in text
    assert "%geolake repair" in text_of(render(bare))


def test_a_report_can_look_at_the_footers(table):
    with shared_page(table.location):
        assert render(table.check()) in report_page(table, footers=True)


def test_a_table_without_geo_columns_has_a_report_without_a_map(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "plain.parquet")
    page = report_page(gl.open(str(tmp_path / "plain.parquet")), where="id > 1")
    assert "renderStatic" not in page
    assert "What the filter reads" in page


def test_an_invalid_filter_is_an_error(table, tmp_path):
    with pytest.raises(PredicateError):
        table.report(tmp_path / "r.html", where="nobody = 1")
    assert not (tmp_path / "r.html").exists()
    with pytest.raises(GeolakeError):
        table.report(tmp_path / "r.html", column="nobody")


@pytest.mark.parametrize("text", [text for text in HOSTILE if text and "\ud800" not in text])
def test_a_hostile_table_has_the_elements_of_a_plain_one(tmp_path, text):
    elements = []
    for folder, name in (("plain", "plain"), ("hostile", text)):
        table = gl.open(str(make_named(tmp_path / folder, Names(name))))
        page = report_page(table)
        elements.append(re.findall(r"<(/?[a-zA-Z!?]+)", without_scripts(page)))
        assert page.count("<script") == 2
        assert page.count("</script") == 2
    assert elements[0] == elements[1]


def test_a_report_of_a_hundred_thousand_files_is_small_and_asks_no_host():
    page = report_page(mapped_table(random_boxes(100_000)), where="ST_Intersects(geom, ST_MakeEnvelope(0, 40, 20, 50))")
    assert len(page.encode()) < MOST
    assert not re.search(r"(?:src|href)\s*=", without_scripts(page))


def test_the_command_writes_the_report(table, tmp_path, capsys):
    target = tmp_path / "report.html"
    assert main(["report", table.location, "-o", str(target), "--where", "id > 1", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert list(output) == ["table", "report", "bytes"]
    assert output["bytes"] == target.stat().st_size
    assert "| `report` | `table, report, bytes` |" in (FOLDER / "json.md").read_text()
    assert main(["report", table.location, "-o", str(target)]) == 0
    assert str(target) in capsys.readouterr().out
    assert main(["report", table.location, "-o", str(target), "--where", "nobody = 1"]) == 3


def test_the_shell_writes_maps_and_exports(table, tmp_path, capsys):
    page, bounds = tmp_path / "map.html", tmp_path / "bounds.geojson"
    words = ["--box=9,49,12,52", "--height", "500", "--color", "bytes", "-o", str(page)]
    assert main(["map", table.location, *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "table": table.location, "map": str(page), "bytes": page.stat().st_size,
    }  # fmt: skip
    text = page.read_text()
    assert '"height": 500' in text
    assert '"files_read": 1' in text
    assert main(["export", table.location, str(bounds)]) == 0
    assert capsys.readouterr().out == f"{bounds}: {bounds.stat().st_size:,} bytes\n"
    assert len(json.loads(bounds.read_text())["features"]) == 3
    assert main(["map", table.location]) == 2 or "required" in capsys.readouterr().err


def test_a_report_in_a_browser_that_reaches_no_host(tmp_path):
    attack = "<img src=x onerror='window.hit=1'>"
    boxes = random_boxes(300)
    table = mapped_table(boxes, name=attack + " {}")
    where = "ST_Intersects(geom, ST_MakeEnvelope(0, 0, 90, 45))"
    path = table.report(tmp_path / "report.html", where=where)
    explanation = table.explain(where)
    with headless_browser() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        problems: list[str] = []
        page.on(
            "request", lambda request: problems.append(request.url) if request.url.startswith(("http", "ws")) else None
        )
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.goto(path.as_uri())
        wait_until(page, "window.geolakeMap !== undefined")
        page.wait_for_timeout(300)
        verdict = page.locator(".glm-verdict-text").inner_text()
        assert verdict.startswith(f"{explanation.read.files} of 300 files read")
        assert page.locator(".glm-counts").inner_text() == "300 files"
        page.get_by_role("button", name="Table").first.click()
        assert attack in page.locator(".glm-rows").inner_text()
        assert page.evaluate("window.hit") is None
        assert problems == []
