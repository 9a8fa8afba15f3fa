"""The commands that change a table: they print a plan, and run it when told to."""

from __future__ import annotations

import ast
import json
import shlex

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.api.plan import Plan
from geolake_nb.cli import command_parser, main
from geolake_nb.cli.options import geo_types
from geolake_nb.errors import GeolakeError, JobError
from geolake_nb.formats.rules import RULES
from geolake_nb.reference import FOLDER
from tests import small_tables

PAGE = (FOLDER / "json.md").read_text()

PLAN_KEYS = "verb location format base_version hash notes reads actions job irreversible_steps undo engines parameters"
REPORT_KEYS = "verb location version transaction rebased_over metrics seconds"


@pytest.fixture
def bare(tmp_path):
    """A table without bounds, whose footers have them."""
    return str(small_tables.make_delta(tmp_path / "roads", bounds=False))


def run(capsys, *words):
    code = main(list(words))
    return code, *capsys.readouterr()


def test_repair_prints_its_plan_and_changes_nothing(bare, capsys):
    code, out, err = run(capsys, "repair", bare)
    assert (code, err) == (0, "")
    assert "plan" in out.splitlines()[0]
    assert "3 files without a bound" in out
    assert "--apply" in out
    assert all(len(line) <= 400 for line in out.splitlines())
    assert gl.open(bare).version == 1


def test_a_plan_is_applied_undone_and_done_again(bare, capsys):
    before = gl.open(bare).files.table["geom.xmin"].null_count
    code, out, err = run(capsys, "repair", bare, "--apply")
    assert (code, err) == (0, "")
    assert "version 2" in out
    assert "3 files updated" in out
    assert gl.open(bare).files.table["geom.xmin"].null_count == 0
    code, out, _ = run(capsys, "repair", bare, "--apply")
    assert (code, "nothing to do" in out) == (0, True)
    code, out, _ = run(capsys, "undo", bare)
    assert "GEOLAKE REPAIR" in out
    code, out, _ = run(capsys, "undo", bare, "--apply", "--json")
    assert (code, json.loads(out)["version"]) == (0, 3)
    assert gl.open(bare).files.table["geom.xmin"].null_count == before
    code, out, _ = run(capsys, "undo", bare, "--undo-version", "3", "--apply")
    assert (code, "version 4" in out) == (0, True)


def test_nothing_to_do_is_reported_and_not_a_failure(tmp_path, capsys):
    folder = str(small_tables.make_delta(tmp_path / "t"))
    code, out, err = run(capsys, "repair", folder)
    assert (code, err) == (0, "")
    assert "no bound is missing" in out
    code, out, _ = run(capsys, "repair", folder, "--apply", "--json")
    assert (code, json.loads(out)["version"]) == (0, None)


def test_the_keys_of_the_json_are_those_of_the_page(bare, capsys):
    _, out, _ = run(capsys, "repair", bare, "--json")
    assert list(json.loads(out)) == PLAN_KEYS.split()
    assert f"`{', '.join(PLAN_KEYS.split())}`" in PAGE
    _, out, _ = run(capsys, "repair", bare, "--apply", "--json")
    assert list(json.loads(out)) == REPORT_KEYS.split()
    assert f"`{', '.join(REPORT_KEYS.split())}`" in PAGE
    _, out, _ = run(capsys, "collations", bare, "--json")
    assert f"| `collations` without a change | `{', '.join(json.loads(out))}` |" in PAGE


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["repair", "TABLE", "--column", "id"], "use one of: geom"),
        (["undo", "TABLE"], "the log has no version by geolake_nb that is not undone"),
        (["undo", "TABLE", "--undo-version", "0"], "delete its folder"),
        (["enable", "TABLE", "geom"], "is not COLUMN=TYPE"),
        (["enable", "TABLE", "geom=box(1)"], "expected a geometry or geography type"),
        (["convert", "TABLE"], "geolake convert TABLE TARGET"),
        (["convert", "TABLE", "new"], "supports havasu and parquet tables"),
        (["collations", "TABLE", "name"], "is not COLUMN=ID"),
        (["collations", "TABLE", "--apply"], "no change to apply"),
        (["rewrite", "TABLE", "--file-size", "big"], "is not a valid file size"),
    ],
)
def test_errors_are_one_sentence_and_exit_with_three(bare, words, message, capsys):
    code, out, err = run(capsys, *[bare if word == "TABLE" else word for word in words])
    assert (code, out) == (3, "")
    assert err.startswith("geolake: ")
    assert err.count("\n") == 1
    assert message in err


def test_a_column_of_no_type_is_repaired_by_what_its_error_says(tmp_path, capsys):
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(pa.table({"g": [shapely.to_wkb(shapely.Point(1, 2))]}), folder / "a.parquet")
    code, _, err = run(capsys, "repair", str(folder), "--column", "g")
    assert code == 3
    shell, _, python = err.strip().partition("declare it with ")[2].partition(", in Python columns=")
    assert run(capsys, "repair", str(folder), *shlex.split(shell))[0] == 0
    assert not gl.open(folder).plan_repair(columns=ast.literal_eval(python)).is_empty


def test_every_command_that_a_finding_names_can_be_typed():
    parser = command_parser()
    repairs = sorted({rule.fix for rule in RULES if rule.fix is not None})
    assert len(repairs) > 5
    for fix in repairs:
        name, *words = shlex.split(fix.replace("{table}", "/lake/roads"))
        assert name == "geolake"
        assert parser.parse_args(words).table == "/lake/roads"


def test_an_interrupt_says_that_nothing_was_changed(bare, capsys, monkeypatch):
    def interrupted(self, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Plan, "apply", interrupted)
    code, out, err = run(capsys, "repair", bare, "--apply")
    assert (code, out, err) == (130, "", "geolake: cancelled; no changes were made\n")


def test_files_that_a_failed_job_left_are_listed(bare, capsys, monkeypatch):
    def failed(self, **options):
        raise JobError("the job failed", orphans=[f"f{number}.parquet" for number in range(12)])

    monkeypatch.setattr(Plan, "apply", failed)
    code, _, err = run(capsys, "repair", bare, "--apply")
    assert code == 3
    assert err.splitlines()[0] == "geolake: leftover file: f0.parquet"
    assert "and 2 more leftover files" in err
    assert err.splitlines()[-1] == "geolake: the job failed"


def test_types_are_read_as_delta_writes_them():
    types = geo_types(["a=geometry(EPSG:3857)", "b=geography(OGC:CRS84, karney)"])
    assert types == {"a": gl.geometry("EPSG:3857"), "b": gl.geography("OGC:CRS84", "karney")}
    with pytest.raises(GeolakeError, match="COLUMN=TYPE"):
        geo_types(["=geometry(EPSG:3857)"])
