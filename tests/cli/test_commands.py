from __future__ import annotations

import json
import os
import shutil

import pytest

from geolake_nb.api.table import Table
from geolake_nb.cli import main
from geolake_nb.reference import FOLDER
from tests import small_tables


@pytest.fixture
def delta(tmp_path):
    return str(small_tables.make_delta(tmp_path / "roads"))


COMMANDS = {
    "open": [],
    "schema": [],
    "files": [],
    "history": [],
    "row-groups": [],
    "explain": ["--box=11,51,12,52"],
    "engines": ["--box=11,51,12,52"],
    "layout": [],
    "advise": ["--cluster", "geom"],
    "check": [],
}


def run(capsys, *words):
    code = main(list(words))
    return code, *capsys.readouterr()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_prints_text_in_a_hundred_columns_and_json(delta, command, capsys):
    code, out, err = run(capsys, command, delta, *COMMANDS[command])
    assert (code, err) == (0, "")
    folder = len(delta)
    assert all(len(line) <= 100 + folder for line in out.splitlines() if command not in ("files", "row-groups"))
    code, out, err = run(capsys, command, delta, "--json", *COMMANDS[command])
    assert (code, err) == (0, "")
    json.loads(out)


JSON_KEYS = {
    "open": "location format version timestamp protocol features files rows bytes schema "
    "partition_columns coverage engines untyped_wkb layout",
    "schema": "fields",
    "files": "files",
    "history": "versions",
    "row-groups": "row_groups",
    "explain": "table format version where verdict next_step query_crs read total levels reasons unusable if_complete "
    "engines notes",
    "engines": "location where rows rows_read seconds files row_groups unreadable agree verdicts engines facts",
    "layout": "location version column files bytes target_bytes share best median ratio "
    "spread_files decayed queries versions",
    "advise": "location version queries sampled_rows files bytes reads median layouts",
    "check": "table counts findings skipped_checks",
}


@pytest.mark.parametrize("command", JSON_KEYS)
def test_the_keys_of_the_json_are_those_of_the_page(delta, command, capsys):
    _, out, _ = run(capsys, command, delta, "--json", *COMMANDS[command])
    keys = JSON_KEYS[command].split()
    assert list(json.loads(out)) == keys
    assert f"| `{command}` | `{', '.join(keys)}` |" in (FOLDER / "json.md").read_text()


def test_diff_and_versions(delta, capsys):
    code, out, _ = run(capsys, "diff", delta, "0", "1", "--json")
    assert code == 0
    assert json.loads(out)
    code, out, _ = run(capsys, "open", delta, "--version", "0", "--json")
    assert (code, json.loads(out)["version"]) == (0, 0)


def test_rasters(tmp_path, capsys):
    folder = str(small_tables.make_rasters(tmp_path / "r"))
    code, out, _ = run(capsys, "rasters", folder, "--json")
    assert code == 0
    assert [row["bands"] for row in json.loads(out)["rasters"]] == [1, 1, 1]


def test_findings_exit_with_one(tmp_path, capsys):
    folder = str(small_tables.make_delta(tmp_path / "t", bounds=False))
    code, out, _ = run(capsys, "check", folder)
    assert code == 1
    assert "bounds.missing" in out
    assert f"geolake repair {folder}" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["open", "/no/such/place"], "geolake: /no/such/place: there is nothing at this path; check the path\n"),
        (["explain", "TABLE", "--box=1,2,3"], "is not four numbers"),
        (["explain", "TABLE", "--where", "ST_Intersects(gem, 'POINT(1 2)')"], "geom"),
        (["open", "TABLE", "--version", "99"], "99"),
        (["open", "TABLE", "--timestamp", "soon"], "expected a timestamp, got 'soon'"),
        (["open", "TABLE", "--storage-option", "hush"], "is not KEY=VALUE"),
        (["rasters", "TABLE"], "no raster column"),
    ],
)
def test_errors_are_one_sentence_and_exit_with_three(delta, words, message, capsys):
    code, out, err = run(capsys, *[delta if word == "TABLE" else word for word in words])
    assert (code, out) == (3, "")
    assert err.startswith("geolake: ")
    assert err.count("\n") == 1
    assert message in err
    assert "hush" not in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "required: COMMAND; geolake help lists the commands"),
        (["bogus"], "invalid choice: 'bogus'"),
        (["check", "TABLE", "--typo"], "--typo; geolake help check shows how it is used"),
        (["open"], "required: TABLE; geolake help open shows how it is used"),
        (["diff", "TABLE", "a"], "'a'"),
        (["files", "TABLE", "--limit=abc"], "'abc'"),
        (["open", "TABLE", "--branch", "a", "--tag", "b"], "not allowed with"),
        (["explain", "TABLE", "--box"], "expected one argument"),
    ],
)
def test_a_wrong_command_exits_with_three_and_not_as_a_table_with_errors(delta, words, message, capsys):
    code, out, err = run(capsys, *[delta if word == "TABLE" else word for word in words])
    assert (code, out) == (3, "")
    assert err.startswith("geolake: ")
    assert err.count("\n") == 1
    assert message in err
    assert "geolake help" in err


@pytest.mark.parametrize("box", ["-10,-5,11,6", "-.5,-5,11,6", "-1e1,-5,11,6"])
def test_a_value_may_start_with_a_minus_sign(delta, box, capsys):
    code, out, _ = run(capsys, "explain", delta, "--box", box, "--json")
    assert (code, out) == run(capsys, "explain", delta, f"--box={box}", "--json")[:2]
    assert code == 0


def test_a_number_with_a_minus_sign_may_follow_a_flag_without_a_value(delta, capsys):
    code, _, err = run(capsys, "diff", delta, "--json", "-5", "1")
    assert code == 3
    assert "-5" in err


def test_a_fault_of_ours_is_one_sentence_and_exits_with_three(delta, capsys, monkeypatch):
    def fail(self, **_):
        raise ZeroDivisionError("by zero\n, token=hush")

    monkeypatch.setattr(Table, "check", fail)
    code, out, err = run(capsys, "check", delta)
    assert (code, out) == (3, "")
    assert err.startswith("geolake: ZeroDivisionError: by zero")
    assert "this is a bug in geolake" in err
    assert err.count("\n") == 1
    monkeypatch.setenv("GEOLAKE_DEBUG", "1")
    code, _, shown = run(capsys, "check", delta)
    assert code == 3
    assert shown.startswith("Traceback")
    assert shown.endswith(err)
    assert "hush" not in shown


def test_nothing_that_a_terminal_acts_upon_is_in_a_traceback(tmp_path, capsys, monkeypatch):
    hostile = tmp_path / "a\x1b]0;owned\x07\x1b[2J\u202e.parquet"
    hostile.write_bytes(b"PAR1 and nothing else PAR1")
    monkeypatch.setenv("GEOLAKE_DEBUG", "1")
    code, _, shown = run(capsys, "check", str(tmp_path))
    assert code == 3
    assert shown.startswith("Traceback")
    assert r"a\x1b]0;owned\x07\x1b[2J\u202e.parquet" in shown
    assert all(line.isprintable() for line in shown.splitlines())


def test_a_name_that_is_no_utf8_is_shown_and_to_be_renamed(tmp_path, capsys):
    made = small_tables.make_parquet(tmp_path / "parts") / "part-0.parquet"
    name = os.fsdecode(b"caf\xe9")
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(made, bare / f"{name}.parquet")
    folder = tmp_path / name
    folder.mkdir()
    shutil.copy(made, folder)
    for path in (bare, bare / f"{name}.parquet", bare / "*.parquet", folder, tmp_path):
        code, out, err = run(capsys, "open", str(path), "--json")
        assert (code, out) == (3, "")
        assert "caf\\xe9" in err
        assert "rename it" in err
        assert err.count("\n") == 1


def no_table(folder):
    folder.mkdir()


def gap_in_the_log(folder):
    small_tables.make_delta(folder)
    (folder / "_delta_log" / f"{1:020}.json").rename(folder / "_delta_log" / f"{2:020}.json")


def truncated_checkpoint(folder):
    small_tables.make_delta(folder)
    (folder / "_delta_log" / f"{1:020}.checkpoint.parquet").write_bytes(b"PAR1 and no more")
    (folder / "_delta_log" / f"{0:020}.json").unlink()


def unknown_feature(folder):
    small_tables.make_delta(folder)
    first = folder / "_delta_log" / f"{0:020}.json"
    first.write_text(first.read_text().replace('["geospatial"]', '["geospatial", "timeMachine"]'))


def corrupt_manifest(folder):
    small_tables.make_havasu(folder)
    for manifest in folder.glob("metadata/*.avro"):
        manifest.write_bytes(manifest.read_bytes()[:40] + b"\xff" * 40)


def truncated_parquet(folder):
    small_tables.make_parquet(folder)
    file = folder / "part-0.parquet"
    file.write_bytes(file.read_bytes()[:-30])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (no_table, "no table here"),
        (gap_in_the_log, "1"),
        (truncated_checkpoint, "checkpoint"),
        (unknown_feature, "timeMachine"),
        (corrupt_manifest, "avro"),
        (truncated_parquet, "part-0.parquet"),
    ],
)
def test_a_table_that_cannot_be_opened_gets_one_sentence(tmp_path, spoil, message, capsys):
    spoil(tmp_path / "t")
    code, out, err = run(capsys, "open", str(tmp_path / "t"))
    assert (code, out) == (3, "")
    assert err.startswith("geolake: ")
    assert err.count("\n") == 1
    assert message.lower() in err.lower()


def test_a_table_with_an_unknown_feature_opens_if_allowed(tmp_path, capsys):
    unknown_feature(tmp_path / "t")
    code, out, _ = run(capsys, "open", str(tmp_path / "t"), "--allow-unknown-features")
    assert code == 0
    assert "timeMachine" in out
