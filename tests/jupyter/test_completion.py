"""What Tab offers after `%geolake`, asked of the shell as a notebook asks, with and without jedi."""

from __future__ import annotations

import pytest
from IPython.core.completer import provisionalcompleter

import geolake_nb as gl
from geolake_nb.jupyter.magic_commands import SUBCOMMANDS
from geolake_nb.model.collation import collation_names
from tests import small_tables
from tests.jupyter.named_tables import Names, make_named
from tests.jupyter.shell import notebook


@pytest.fixture(params=[True, False], ids=["jedi", "no jedi"])
def book(capsys, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    small_tables.make_delta(tmp_path / "roads")
    small_tables.make_parquet(tmp_path / "old roads")
    with notebook(capsys, jedi=request.param) as opened:
        opened.shell.user_ns["t"] = gl.open(tmp_path / "roads")
        opened.shell.user_ns["n"] = 3
        yield opened


def offered(book, text: str) -> list[str]:
    """The whole cell after each completion."""
    with provisionalcompleter():
        return [
            text[: completion.start] + completion.text + text[completion.end :]
            for completion in book.shell.Completer.completions(text, len(text))
        ]


def ends(book, text: str) -> list[str]:
    return [offer.removeprefix(text[: text.rfind(" ") + 1]) for offer in offered(book, text)]


def test_subcommands(book):
    assert ends(book, "%geolake ") == sorted(SUBCOMMANDS)
    assert ends(book, "%geolake r") == ["rasters", "repair", "report", "rewrite", "row-groups"]
    assert ends(book, "x = %geolake che") == ["check"]
    assert ends(book, "%%geolake expl") == ["explain"]
    assert ends(book, "%geolake help ma") == ["magics", "maintain", "map"]
    assert ends(book, "%geolake help bounds.mi") == ["bounds.missing"]


def test_tables_and_paths_and_no_other_variable(book):
    offers = ends(book, "%geolake check ")
    assert "t" in offers
    assert "n" not in offers
    assert "roads/" in offers
    assert "'old roads/'" in offers
    assert ends(book, "%geolake check roads/part-0") == ["roads/part-0.parquet"]
    assert ends(book, "%geolake check --deep 3 roa") == ["roads/"]


def test_the_file_of_a_report_is_a_path(book):
    assert ends(book, "%geolake report t -o roa") == ["roads/"]
    assert ends(book, "%geolake report t --output roa") == ["roads/"]
    assert ends(book, "%geolake report -o x.html roa") == ["roads/"]


def test_a_path_in_quotes_keeps_them(book):
    assert offered(book, '%geolake check "old') == ['%geolake check "old roads/']


def test_flags_that_are_not_there_yet(book):
    offers = ends(book, "%geolake explain t --")
    assert {"--where", "--box", "--column", "--row-groups", "--debug", "--help"} <= set(offers)
    assert "--json" not in offers
    assert "--where" not in ends(book, "%geolake explain t --where 'id > 3' --")
    assert ends(book, "%geolake repair t --ap") == ["--apply"]


def test_columns_after_where_cluster_and_column(book):
    assert ends(book, "%geolake explain t --where ge") == ["geom"]
    assert offered(book, '%geolake explain t --where "id > 3 AND ge') == ['%geolake explain t --where "id > 3 AND geom']
    assert ends(book, "%geolake rewrite t --cluster ") == ["geom", "id"]
    assert ends(book, "%geolake repair t --column ") == ["geom"]
    assert offered(book, "%%geolake explain t\nid > 3\nAND ST_Intersects(ge") == [
        "%%geolake explain t\nid > 3\nAND ST_Intersects(geom"
    ]


def test_choices_and_types(book):
    assert ends(book, "%geolake rewrite t --curve ") == ["hilbert", "zorder"]
    assert offered(book, "%geolake enable t geom=geometry(OGC") == ["%geolake enable t geom=geometry(OGC:CRS84)"]


def test_collations(book, tmp_path):
    book.shell.user_ns["w"] = gl.open(make_named(tmp_path, Names("x")))
    assert ends(book, "%geolake collations w ") == ["part_x=", "string_x="]
    assert ends(book, "%geolake explain w --where struct_x.") == ["struct_x.inner_x"]
    offers = offered(book, "%geolake collations t name=icu.de_")
    assert "%geolake collations t name=icu.de_CI" in offers
    assert offered(book, "%geolake collations t name=spark") == ["%geolake collations t name=spark.UTF8_LCASE"]


def test_catalogs(book, monkeypatch):
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", "http://127.0.0.1:1")
    assert ends(book, "%geolake open pro") == ["prod."]


def test_a_column_that_is_more_than_a_name_is_not_put_into_a_cell(book, tmp_path):
    table = gl.open(make_named(tmp_path, Names("\n!rm -rf /\n")))
    book.shell.user_ns["evil"] = table
    for line in ("explain evil --where ", "rewrite evil --cluster ", "collations evil ", "enable evil "):
        assert all("-rf" not in offer for offer in offered(book, f"%geolake {line}"))


def test_other_lines_are_left_to_python(book):
    assert all("check" not in offer for offer in offered(book, "print('%geolake ch"))
    offers = offered(book, "impo")
    assert "import" in offers


def test_the_names_are_those_that_spark_lists(corpus):
    listed = (corpus / "collation/spark/ICU-collations-map.md").read_text().splitlines()
    rows = [
        line.split("|")[2].strip() for line in listed if line.startswith("|") and line.split("|")[1].strip().isdigit()
    ]
    ours = {
        collation_name.removeprefix("icu.") for collation_name in collation_names() if collation_name.startswith("icu.")
    }
    assert set(rows) <= ours
    assert {name.split("_CI")[0].split("_AI")[0] for name in ours} == set(rows)
