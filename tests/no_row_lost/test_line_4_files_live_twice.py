"""Line 4: a compacted log, a checkpoint or a commit after which one data file is live twice, or added and removed."""

from __future__ import annotations

import json

import pytest

import geolake_nb as gl
from geolake_nb.errors import CorruptTableError
from geolake_nb.formats.delta.log_segment import list_log
from geolake_nb.formats.delta.raw_actions import raw_adds
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol, remove, vector, write_checkpoint

DV, DV_2 = vector(1), vector(2, offset=7)


@pytest.fixture
def table(tmp_path):
    return LogMaker(tmp_path / "t").commit(0, protocol("deletionVectors"), metadata())


# What the commits 1 and 2 say, and compacted logs of the two that break the rule of one action for each file.
COMMITS = [add("a"), add("b")], [remove("a"), add("a", deletionVector=DV), remove("b")]
UNRECONCILED = {
    "newest first": [*COMMITS[1], *COMMITS[0]],
    "all actions": [*COMMITS[0], *COMMITS[1]],
    "an add and a remove of one file": [add("a", deletionVector=DV), remove("b"), add("b")],
    "two vectors of one file": [add("a", deletionVector=DV), add("a", deletionVector=DV_2), remove("b")],
    "two schemas": [metadata(field("x", "long")), metadata(), add("a", deletionVector=DV), remove("b")],
}


def live(table: LogMaker) -> list[tuple[str, int]]:
    files = table.open().files.table
    return sorted(zip(files["path"].to_pylist(), files["deleted_rows"].to_pylist(), strict=True))


@pytest.mark.parametrize("actions", UNRECONCILED.values(), ids=UNRECONCILED)
def test_the_commits_are_read_in_place_of_a_compacted_log_that_is_not_reconciled(table, actions):
    for version, commit in enumerate(COMMITS, 1):
        table.commit(version, *commit)
    expected = live(table)
    assert expected == [("a", 1)]
    table.compacted(1, 2, *actions)
    assert live(table) == expected
    adds = raw_adds(table.storage, list_log(table.storage).segment())
    assert adds["path"].to_pylist() == ["a"]
    assert [field.name for field in table.open().schema.fields] == ["id"]


@pytest.mark.parametrize("actions", UNRECONCILED.values(), ids=UNRECONCILED)
def test_the_check_reports_such_a_compacted_log(table, actions):
    for version, commit in enumerate(COMMITS, 1):
        table.commit(version, *commit)
    table.compacted(1, 2, *actions)
    findings = [finding for finding in gl.open(str(table.folder)).check() if finding.rule == "protocol.compacted_log"]
    assert [finding.scope.paths for finding in findings] == [(f"_delta_log/{1:020}.{2:020}.compacted.json",)]


@pytest.mark.parametrize("actions", UNRECONCILED.values(), ids=UNRECONCILED)
def test_without_the_commits_such_a_compacted_log_is_refused(table, actions):
    table.commit(2, *COMMITS[1]).compacted(1, 2, *actions)
    with pytest.raises(CorruptTableError, match=r"compacted\.json: .* more than once.*; restore the commits"):
        table.open()


def test_a_compacted_log_that_is_reconciled_is_used(table):
    for version, commit in enumerate(COMMITS, 1):
        table.commit(version, *commit)
    table.compacted(1, 2, remove("a"), add("a", deletionVector=DV, size=77), remove("b"))
    assert live(table) == [("a", 1)]
    assert table.open().files.table["bytes"].to_pylist() == [77]
    assert not [finding for finding in gl.open(str(table.folder)).check() if finding.rule == "protocol.compacted_log"]


def test_a_commit_that_adds_and_removes_one_file_is_refused(table):
    # Delta, Actions: those of one commit have no order, so that nobody knows whether the file is live.
    for version, actions in enumerate([(add("a"), remove("a")), (remove("a"), add("a"))], 1):
        broken = LogMaker(table.folder.parent / str(version)).commit(0, protocol("deletionVectors"), metadata())
        broken.commit(1, add("x")).commit(2, remove("x"), add("y")).commit(3, *actions)
        with pytest.raises(CorruptTableError, match=r"00003\.json: the data file 'a' is both added and removed"):
            broken.open()


def test_a_commit_with_lines_of_several_actions_is_read_too(table):
    text = json.dumps(add("a") | {"note": 1}) + "\n" + json.dumps({"note": 2} | remove("a")) + "\n"
    (table.log / f"{1:020}.json").write_text(text)
    with pytest.raises(CorruptTableError, match="the data file 'a' is both added and removed"):
        table.open()


def test_a_commit_may_exchange_the_vector_of_a_file(table):
    table.commit(1, add("a")).commit(2, remove("a"), add("a", deletionVector=DV))
    table.commit(3, add("a", deletionVector=DV_2), remove("a", deletionVector=DV))
    assert live(table) == [("a", 2)]


@pytest.mark.parametrize("second", [add("a"), add("a", deletionVector=DV)], ids=["same key", "another vector"])
def test_a_checkpoint_with_one_file_twice_is_refused(table, second):
    table.commit(1, add("a"))
    actions = [protocol("deletionVectors"), metadata(), add("a"), second]
    write_checkpoint(table.log / f"{1:020}.checkpoint.parquet", actions)
    with pytest.raises(CorruptTableError, match="the data file 'a' is live twice in version 1"):
        table.open()


def test_a_second_vector_without_a_remove_of_the_first_is_refused(table):
    table.commit(1, add("a")).commit(2, add("a", deletionVector=DV))
    with pytest.raises(CorruptTableError, match="the data file 'a' is live twice in version 2"):
        table.open()
    assert table.paths(version=1) == ["a"]
