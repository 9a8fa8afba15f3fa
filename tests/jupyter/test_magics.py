"""`%geolake` in a real shell: every subcommand, every error it documents, and nothing expanded."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import geolake_nb as gl
from geolake_nb.api.advice import Advice
from geolake_nb.api.engine_comparison import EngineComparison
from geolake_nb.api.maintenance import MaintenanceReport
from geolake_nb.api.plan import Plan, Report
from geolake_nb.api.scan import Scan
from geolake_nb.api.sql import SqlResult
from geolake_nb.api.table import Table
from geolake_nb.changes.rewrite import Preview
from geolake_nb.checks.finding import Findings
from geolake_nb.errors import GeolakeError, MissingFileError, RefusedError
from geolake_nb.formats.delta.collations import TableCollations
from geolake_nb.jupyter.cards import render
from geolake_nb.jupyter.cards.results import TableRows
from geolake_nb.jupyter.magic_commands import SUBCOMMANDS, parser_of
from geolake_nb.model.file_table import FileTable
from geolake_nb.model.schema import Schema
from geolake_nb.model.snapshot import History, Protocol
from geolake_nb.scan.diff import Diff
from geolake_nb.scan.explanation import Explanation
from geolake_nb.scan.layout import Layout
from tests import small_tables
from tests.jupyter.html_reading import text_of
from tests.jupyter.shell import notebook


@pytest.fixture
def book(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with notebook(capsys) as opened:
        yield opened


@pytest.fixture
def t(book, tmp_path):
    """A table without bounds in the variable `t`."""
    folder = small_tables.make_delta(tmp_path / "roads", bounds=False)
    book.run(f"t = %geolake open {folder}")
    return book.shell.user_ns["t"]


SAID = [
    ("open t", Table),
    ("protocol t", Protocol),
    ("schema t", Schema),
    ("files t", FileTable),
    ("row-groups t", TableRows),
    ("explain t --where 'id > 1'", Explanation),
    ("explain t --box -10,35,30,60 --row-groups", Explanation),
    ("scan t --box -10,35,30,60 --columns id", Scan),
    ("sql 'SELECT count(*) AS n FROM t'", SqlResult),
    ("head t --rows 2", pd.DataFrame),
    ("count t --where 'id > 1'", int),
    ("engines t --box=9,49,12,52 --engines geolake,sedonadb", EngineComparison),
    ("check t", Findings),
    ("check t --metadata-only", Findings),
    ("check t --deep 2", Findings),
    ("history t", History),
    ("diff t 0 1", Diff),
    ("diff t 0", Diff),
    ("repair t", Plan),
    ("repair t --column geom --verify", Plan),
    ("rewrite t --cluster geom --file-size 1MB", Plan),
    ("rewrite t --cluster geom --preview", Preview),
    ("rewrite t --cluster geom --box=5,45,11,52", Plan),
    ("layout t --versions 2", Layout),
    ("maintain t", Plan),
    ("maintain t --apply --budget 1B", MaintenanceReport),
    ("enable t geospatial", Plan),
    ("collations t", TableCollations),
]


@pytest.mark.parametrize(("line", "kind"), SAID, ids=[line for line, _ in SAID])
def test_a_line_gives_back_the_object(book, t, line, kind):
    assert isinstance(book.value(f"%geolake {line}"), kind)
    book.run(f"x = %geolake {line}")
    assert isinstance(book.shell.user_ns["x"], kind)


def test_every_subcommand_is_tried_here():
    tried = {line.split()[0] for line, _ in SAID} | {
        "advise",
        "catalog",
        "rasters",
        "convert",
        "undo",
        "map",
        "export",
        "report",
        "help",
    }
    assert tried == set(SUBCOMMANDS)


def test_rows_are_those_of_python_and_can_be_written(book, t, tmp_path):
    where = "--where 'id > 1'"
    assert book.value(f"%geolake scan t {where}").to_arrow() == t.scan("id > 1").to_arrow()
    assert book.value(f"%geolake count t {where}") == t.scan("id > 1").count()
    written = book.value(f"%geolake scan t {where} -o {tmp_path / 'rows.parquet'}")
    assert pq.read_table(written).num_rows == t.scan("id > 1").count()


def test_advice_is_that_of_python(book, t, tmp_path):
    queries = tmp_path / "queries.txt"
    queries.write_text("id > 1\n5,45,12,52\n")
    advice = book.value(f"%geolake advise t --queries {queries} --cluster geom,id")
    assert isinstance(advice, Advice)
    assert advice.to_dict() == t.advise(queries, layouts=[{"cluster_by": ["geom", "id"]}]).to_dict()


def test_a_line_says_what_python_says(book, t):
    assert book.value("%geolake check t").to_dict() == t.check().to_dict()
    box = book.value("%geolake explain t --box -10,35,30,60")
    assert box.to_dict() == t.explain(gl.Box(-10, 35, 30, 60)).to_dict()
    assert book.value("%geolake diff t 0 1").to_dict() == t.diff(0, 1).to_dict()
    assert book.value("%geolake repair t").hash == t.plan_repair().hash


def test_a_repair_gives_a_type_to_a_plain_column(book, tmp_path):
    pq.write_table(pa.table({"place": [bytes.fromhex("0101000000") + bytes(16)]}), tmp_path / "plain.parquet")
    plan = book.value("%geolake repair plain.parquet --column place=geometry")
    assert plan.hash == gl.open("plain.parquet").plan_repair(columns={"place": gl.geometry("OGC:CRS84")}).hash
    assert not plan.is_empty


def test_a_cell_is_a_filter_of_many_lines(book, t):
    explanation = book.value("%%geolake explain t\nid > 1\n  AND id < 3  -- not all\n")
    assert explanation.to_dict() == t.explain("id > 1 AND id < 3").to_dict()


def test_rasters_are_listed_as_arrow(book, tmp_path):
    folder = small_tables.make_rasters(tmp_path / "rasters")
    rows = book.value(f"%geolake rasters {folder}")
    assert (rows.what, len(rows)) == ("rasters", 3)
    assert pa.table(rows).num_rows == 3


def test_files_are_converted_by_a_plan(book, tmp_path):
    folder = small_tables.make_parquet(tmp_path / "points")
    planned = book.value(f"%geolake convert {folder} {tmp_path / 'new'}")
    assert planned.change.verb.value == "convert"
    assert not (tmp_path / "new").exists()
    in_place = book.value(f"%geolake convert {folder} --in-place --column geom=geometry(OGC:CRS84)")
    assert in_place.change.verb.value == "publish"
    assert "leave out the target" in book.complaint(f"%geolake convert {folder} new --in-place")


def test_a_plan_is_applied_only_with_apply_and_undone(book, t):
    assert gl.open(t.location).version == 1
    shown = book.value("%geolake repair t").hash
    assert "expected the plan 000000000000, got" in book.complaint("%geolake repair t --apply --expect 000000000000")
    done = book.value(f"%geolake repair t --apply --expect {shown}")
    assert isinstance(done, Report)
    assert gl.open(t.location).files.table["geom.xmin"].null_count == 0
    undone = book.value(f"%geolake undo {t.location} --apply")
    assert undone.version == 3
    assert gl.open(t.location).files.table["geom.xmin"].null_count == 3


def test_a_change_is_planned_on_the_newest_version_whatever_the_variable_holds(book, t):
    assert book.value("%geolake repair t --apply").version == 2
    assert book.value("%geolake open t") is t
    assert book.value("%geolake repair t").is_empty
    assert book.value("%geolake undo t --apply").version == 3


def test_an_irreversible_step_is_confirmed_by_its_name_alone(book, tmp_path):
    folder = make_plain(tmp_path / "plain")
    planned = book.value(f"%geolake enable {folder} geospatial")
    assert [step.name for step in planned.change.irreversible_steps] == ["geospatial"]
    for words in ("--apply", "--apply --consent yes"):
        assert isinstance(book.run(f"%geolake enable {folder} geospatial {words}", fails=True).error, RefusedError)
    assert gl.open(folder).version == 0
    assert book.value(f"%geolake enable {folder} geospatial --apply --consent geospatial").version == 1


def make_plain(folder):
    """A Delta table without files and without a feature."""
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    metadata = {"id": "t", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(schema)}
    metadata |= {"partitionColumns": [], "configuration": {}}
    actions = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    (folder / "_delta_log").mkdir(parents=True)
    (folder / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return folder


@pytest.mark.parametrize("name", ["map", "export"])
def test_the_map_and_the_exports_are_those_of_the_table(book, t, name, monkeypatch):
    calls = []
    monkeypatch.setattr(Table, name, lambda self, *words, **options: calls.append((self, words, options)))
    book.run("%geolake map t --color rows" if name == "map" else "%geolake export t boxes.geojson --column geom")
    expected = (
        ((), {"column": None, "where": None, "color": "rows", "versions": False})
        if name == "map"
        else (("boxes.geojson",), {"column": "geom"})
    )
    assert calls == [(t, *expected)]


@pytest.mark.parametrize("word", ['"{1/0}"', "'{t}'", "$t", "{t}", "${HOME}", '"$t"', "'\\t'", "!ls", "`ls`"])
def test_a_word_is_taken_as_it_stands(book, t, word):
    ran = book.run(f"%geolake open {word}", fails=True)
    assert isinstance(ran.error, MissingFileError)
    assert word.strip("'\"") in str(ran.error)


def test_a_path_with_braces_opens(book, tmp_path):
    small_tables.make_delta(tmp_path / "{1/0}".replace("/", "_"))
    assert book.value('%geolake open "{1_0}"').location.endswith("{1_0}")


def test_a_quoted_word_is_a_path_even_where_a_variable_has_its_name(book, t, tmp_path):
    small_tables.make_delta(tmp_path / "t")
    assert book.value("%geolake open t") is t
    assert book.value('%geolake open "t"').location == str(tmp_path / "t")
    assert book.value("%geolake open ./t").location == str(tmp_path / "t")


def test_a_variable_may_hold_a_path(book, t):
    book.shell.user_ns["where"] = t.location
    assert book.value("%geolake open where").location == t.location


def test_a_variable_is_taken_at_another_version(book, t):
    assert book.value("%geolake open t --version 0").version == 0


def test_the_filter_of_a_line_may_hold_quotes(book, t):
    explanation = book.value("%geolake explain t --where \"ST_Intersects(geom, 'POINT(11 51)')\"")
    assert "POINT" in str(explanation.where)


COMPLAINTS = [
    ("%geolake chek t", "no subcommand 'chek'; did you mean check"),
    ("%geolake frobnicate", "no subcommand 'frobnicate'; use one of: advise, catalog, check, collations"),
    ("%geolake open nowhere", "there is nothing at this path; check the path"),
    ("%geolake open", "the following arguments are required: TABLE; %geolake help open shows how it is used"),
    ("%geolake open 'x", "unclosed quote"),
    ("%geolake check t --depp", "unrecognized arguments: --depp; did you mean --deep?"),
    ("%geolake explain t", "one of the arguments --where --box is required"),
    ("%geolake explain t --where 'gem > 3'", "no column 'gem'; did you mean geom?"),
    ("%geolake explain t --where 'SELECT * FROM t WHERE id > 3'", "expected a condition, got SELECT"),
    ("%geolake map t --color byte", "unknown colour 'byte'; did you mean bytes?"),
    ("%geolake explain t --where 'id >'", "id >"),
    ("%geolake explain t --box 1,2,3", "--box '1,2,3' is not four numbers; write --box=-10,35,30,60"),
    ("%%geolake explain t\n \n", "the filter below the line is missing"),
    ("%%geolake explain t --where 'id > 1'\nid < 9", "the filter is given twice, with --where and below the line"),
    ("%%geolake map t --where='id > 1'\nid < 9", "the filter is given twice"),
    ("%%geolake check t\nx", "check takes no text below its line; write %geolake check with one %"),
    ("%geolake diff t 0 9", "there is no version 9"),
    ("%geolake diff t zero", "argument old: invalid int value: 'zero'"),
    ("%geolake open n", "expected a table in the variable n, got a int; write ./n or 'n' for a path"),
    ("%geolake open t --timestamp 2026-01-01", "t is already open, and --timestamp applies only when opening"),
    ("%geolake rasters t", "the table has no raster column"),
    ("%geolake collations t --apply", "no change to apply; write COLUMN=ID, --refresh or --upgrade"),
    ("%geolake collations t name", "'name' is not COLUMN=ID"),
    ("%geolake enable t geom", "'geom' is not COLUMN=TYPE"),
    ("%geolake convert t", "the location of the new table is missing; write %geolake convert TABLE TARGET"),
    ("%geolake convert t new", "convert supports havasu and parquet tables, and this one is delta"),
    ("%geolake rewrite t --curve spiral", "argument --curve: invalid choice: 'spiral'"),
    ("%geolake undo t", "the log has no version by geolake_nb that is not undone"),
    ("%geolake check t --deep 0", "a deep check of 0 files reads nothing; give how many files to read, from 1 on"),
    ("%geolake files t --json", "leave out shell options, the cell returns the value itself"),
    ("%geolake report t", "the following arguments are required: -o/--output"),
    ("%geolake report t -o ''", "'': cannot be written: Is a directory"),
    ("%geolake export t x", "the path has no file extension; use one of: .geojson"),
    ("%geolake export t x.kml", "unsupported file extension '.kml'"),
    ("%geolake help chek", "no help about 'chek'; did you mean check"),
]


@pytest.mark.parametrize(("cell", "text"), COMPLAINTS, ids=[cell for cell, _ in COMPLAINTS])
def test_an_error_is_one_sentence_with_a_remedy(book, t, cell, text):
    book.shell.user_ns["n"] = 3
    ran = book.run(cell, fails=True)
    lines = ran.out.strip().splitlines()
    assert isinstance(ran.error, GeolakeError)
    assert lines[0].startswith("geolake: ")
    assert text in lines[0]
    assert lines[1:] == ["(--debug shows the traceback)"]
    assert "Traceback" not in ran.out


def test_a_variable_with_a_similar_name_is_suggested(book, t):
    book.run("roads_2024 = t")
    line = book.complaint("%geolake check roads_2O24")
    assert line == "geolake: neither a variable nor a path is named roads_2O24; did you mean roads_2024?"
    assert "there is nothing at this path" in book.complaint("%geolake check 'roads_2O24'")


def test_a_call_shows_one_sentence_and_the_traceback_when_it_is_asked_for(book, t):
    lines = book.run("t.explain('idd > 3')", fails=True).out.strip().splitlines()
    assert lines == ["PredicateError: no column 'idd'; use one of: id", "(%tb shows the traceback)"]
    whole = book.run("%tb").out
    assert "Traceback" in whole
    assert "binding.py" in whole
    assert "PredicateError: no column 'idd'" in whole


def test_debug_shows_where_an_error_comes_from(book):
    out = book.run("%geolake open nowhere --debug", fails=True).out
    assert "Traceback" in out
    assert "opening.py" in out


def test_a_fault_of_ours_is_a_sentence_too(book, t, monkeypatch):
    def fail(self, **_):
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(Table, "check", fail)
    assert "ZeroDivisionError: by zero; this is a bug in geolake" in book.complaint("%geolake check t")
    assert "Traceback" in book.run("%geolake check t --debug", fails=True).out


def test_an_error_can_be_caught_by_its_kind(book):
    book.run("import geolake_nb as gl\ntry:\n    %geolake open nowhere\nexcept gl.GeolakeError as e:\n    caught = e")
    assert isinstance(book.shell.user_ns["caught"], MissingFileError)


def test_an_interrupt_is_no_traceback(book, t, monkeypatch):
    def stop(self, **_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Table, "check", stop)
    ran = book.run("%geolake check t", fails=True)
    assert isinstance(ran.error, KeyboardInterrupt)
    assert ran.out.startswith("geolake: cancelled")


def test_an_error_shows_no_control_characters(book):
    assert "\x1b" not in book.run("%geolake open 'a\x1b[31m'", fails=True).out


@pytest.mark.parametrize("name", sorted(SUBCOMMANDS))
def test_help_shows_usage_and_an_example(book, name):
    text = book.run(f"%geolake help {name}").out
    assert text == book.run(f"%geolake {name} --help").out
    assert text.startswith(f"usage: %geolake {name}")
    example = text.split("example:\n")[1].strip()
    assert f"%geolake {name}" in example
    words = re.sub(r".*%geolake ", "", example)
    assert words.split()[0] == name


@pytest.mark.parametrize("name", sorted(SUBCOMMANDS))
def test_the_example_of_a_subcommand_is_understood(name):
    from geolake_nb.jupyter.magic_words import split_words

    words = split_words(SUBCOMMANDS[name].example.partition("%geolake ")[2])
    assert parser_of(words[0]).parse_args(words[1:]) is not None


@pytest.mark.parametrize("cell", ["%geolake", "%geolake help", "%geolake --help", "%geolake?"])
def test_the_overview_names_every_subcommand(book, cell):
    out = book.run(cell).out
    assert all(re.search(rf"^  {name} ", out, re.MULTILINE) for name in SUBCOMMANDS)
    assert "t = %geolake open" in out


def test_what_a_cell_shows_is_a_card_and_a_text(book, t):
    formats, _ = book.shell.display_formatter.format(t.files)
    assert formats["text/html"].startswith("<div")
    assert formats["text/plain"] == str(t.files)
    assert t._repr_html_().startswith("<div")
    assert str(t) in book.run("t").out
    assert "3 files" in book.run("%geolake files t").out
    assert "WRITE" in book.run("%geolake history t").out


def test_a_plan_shows_itself_once(book, t):
    out = book.run("%geolake repair t").out
    assert out.count("3 files without a bound") == 1


def test_loading_twice_and_unloading_leave_no_trace(book):
    book.run("%reload_ext geolake_nb")
    assert book.run("%geolake help").out
    book.run("%unload_ext geolake_nb")
    assert "geolake" not in book.shell.magics_manager.magics["line"]
    assert "geolake" not in book.shell.magics_manager.magics["cell"]
    assert book.shell.Completer.custom_matchers == []


def test_a_report_is_written_and_its_path_is_returned(book, t):
    assert book.value("%geolake report t -o report.html --where 'id > 1'") == Path("report.html")
    page = Path("report.html").read_text()
    assert "What the filter reads" in page
    assert "1 warning" in page


def test_a_path_that_cannot_be_written_is_one_sentence(book, t):
    for line in (
        "report t -o nowhere/x.html",
        *(f"export t nowhere/x.{suffix}" for suffix in ("geojson", "html", "parquet")),
    ):
        path = line.split()[-1]
        message = book.complaint(f"%geolake {line}")
        assert message == f"geolake: {path}: cannot be written: No such file or directory; give another path"


def test_a_map_takes_the_window_the_height_and_the_versions_of_python(book, t, tmp_path):
    shown = book.value("%geolake map t --box=9,49,12,52 --versions --height 300 --color bytes")
    assert (shown.height, list(shown.versions), shown.color_by) == (300, [0, 1], "bytes")
    assert str(shown.explanation.where) == str(t.explain((9, 49, 12, 52)).where)
    path = book.value("%geolake map t -o map.html")
    assert path.read_text().startswith("<!doctype html>")


def test_debug_may_stand_first(book, t):
    assert isinstance(book.value("%geolake --debug check t"), Findings)


def test_an_explanation_shows_itself_once_and_as_text_in_a_terminal(book, t):
    out = book.run("%geolake explain t --box 0,40,20,60").out
    assert out.count("reads 3 of 3 files: no file has bounds") == 1
    assert "<div" not in out
    assert "Button" not in out


def test_a_command_of_a_card_opens_the_table_whatever_its_name(book, tmp_path):
    for name in ("semi;", "a b", "it's", 'say "x"', "$(x)", "{0}", "<b>", "back\\"):
        folder = small_tables.make_delta(tmp_path / name)
        shown = text_of(render(gl.open(str(folder)).explain("id < 9")))
        line = shown.partition("On the map: ")[2].partition("Engines")[0]
        assert "--version 1" in line
        drawn = book.value(line)
        assert drawn.snapshot.location == str(folder)
        assert drawn.verdict["files_read"] == 3
