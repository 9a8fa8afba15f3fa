"""The commands that change a table: they print a plan, and run it when told to."""

from __future__ import annotations

import ast
import json
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.api.plan import Plan
from geolake_nb.cli import command_parser, main
from geolake_nb.cli.plan_options import geo_types
from geolake_nb.errors import GeolakeError, JobError
from geolake_nb.planning.health.rules import RULES
from tests import small_tables

README = (Path(__file__).parents[2] / "README.md").read_text()

PLAN_KEYS = "verb location format base_version hash says reads actions job one_way undo engines parameters"
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
    assert "3 files restated" in out
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


def test_nothing_to_do_is_said_and_is_no_failure(tmp_path, capsys):
    folder = str(small_tables.make_delta(tmp_path / "t"))
    code, out, err = run(capsys, "repair", folder)
    assert (code, err) == (0, "")
    assert "no bound is missing" in out
    code, out, _ = run(capsys, "repair", folder, "--apply", "--json")
    assert (code, json.loads(out)["version"]) == (0, None)


def test_the_keys_of_the_json_are_those_of_the_readme(bare, capsys):
    _, out, _ = run(capsys, "repair", bare, "--json")
    assert list(json.loads(out)) == PLAN_KEYS.split()
    assert f"`{', '.join(PLAN_KEYS.split())}`" in README
    _, out, _ = run(capsys, "repair", bare, "--apply", "--json")
    assert list(json.loads(out)) == REPORT_KEYS.split()
    assert f"`{', '.join(REPORT_KEYS.split())}`" in README
    _, out, _ = run(capsys, "collations", bare, "--json")
    assert f"| `collations` without a change | `{', '.join(json.loads(out))}` |" in README


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["repair", "TABLE", "--column", "id"], "use one of: geom"),
        (["undo", "TABLE"], "no version that is left in the log"),
        (["undo", "TABLE", "--undo-version", "0"], "delete its folder"),
        (["enable", "TABLE", "geom"], "is not COLUMN=TYPE"),
        (["enable", "TABLE", "geom=box(1)"], "no geometry or geography type"),
        (["convert", "TABLE"], "geolake convert TABLE TARGET"),
        (["convert", "TABLE", "new"], "works on parquet tables"),
        (["collations", "TABLE", "name"], "is not COLUMN=ID"),
        (["collations", "TABLE", "--apply"], "no change to apply"),
        (["rewrite", "TABLE", "--file-size", "big"], "is no file size"),
    ],
)
def test_errors_are_one_sentence_and_exit_with_three(bare, words, said, capsys):
    code, out, err = run(capsys, *[bare if word == "TABLE" else word for word in words])
    assert (code, out) == (3, "")
    assert err.startswith("geolake: ")
    assert err.count("\n") == 1
    assert said in err


def test_a_column_of_no_type_is_mended_by_what_its_error_says(tmp_path, capsys):
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(pa.table({"g": [shapely.to_wkb(shapely.Point(1, 2))]}), folder / "a.parquet")
    code, _, err = run(capsys, "repair", str(folder), "--column", "g")
    assert code == 3
    shell, _, python = err.strip().partition("say it with ")[2].partition(", in Python columns=")
    assert run(capsys, "repair", str(folder), *shlex.split(shell))[0] == 0
    assert not gl.open(folder).plan_repair(columns=ast.literal_eval(python)).is_empty


def test_every_command_that_a_finding_names_can_be_typed():
    parser = command_parser()
    mends = sorted({rule.mend for rule in RULES if rule.mend is not None})
    assert len(mends) > 5
    for mend in mends:
        name, *words = shlex.split(mend.replace("{table}", "/lake/roads"))
        assert name == "geolake"
        assert parser.parse_args(words).table == "/lake/roads"


def test_an_interrupt_says_that_nothing_was_changed(bare, capsys, monkeypatch):
    def interrupted(self, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Plan, "apply", interrupted)
    code, out, err = run(capsys, "repair", bare, "--apply")
    assert (code, out, err) == (130, "", "geolake: cancelled; the table is as it was\n")


def test_files_that_a_failed_job_left_are_listed(bare, capsys, monkeypatch):
    def failed(self, **options):
        raise JobError("the job failed", orphans=[f"f{number}.parquet" for number in range(12)])

    monkeypatch.setattr(Plan, "apply", failed)
    code, _, err = run(capsys, "repair", bare, "--apply")
    assert code == 3
    assert err.splitlines()[0] == "geolake: left over: f0.parquet"
    assert "and 2 more files" in err
    assert err.splitlines()[-1] == "geolake: the job failed"


def test_types_are_read_as_delta_writes_them():
    types = geo_types(["a=geometry(EPSG:3857)", "b=geography(OGC:CRS84, karney)"])
    assert types == {"a": gl.geometry("EPSG:3857"), "b": gl.geography("OGC:CRS84", "karney")}
    with pytest.raises(GeolakeError, match="COLUMN=TYPE"):
        geo_types(["=geometry(EPSG:3857)"])
