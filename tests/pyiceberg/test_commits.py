"""Commits of concurrent writers, of writers that are killed, and of those that do not hear the answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

import geolake_nb as gl
import geolake_nb.pyiceberg as geo
from geolake_nb.errors import ConflictError, OutcomeUnknownError, RefusedError
from tests.pyiceberg.geo_rows import make_table, rows
from tests.pyiceberg.racing_writers import load

ROOT = Path(__file__).parents[2]


def race(uri, warehouse, kind, count, *, patience=120):
    """Two processes append to one table; what both were told, and the table afterwards."""
    catalog = load(uri, warehouse, kind)
    catalog.create_namespace("ns")
    make_table(catalog, "ns.raced", **{"commit.retry.min-wait-ms": "5", "commit.retry.num-retries": "20"})
    words = [sys.executable, "-m", "tests.pyiceberg.racing_writers", uri, warehouse, kind]
    writers = [
        subprocess.Popen([*words, str(start), str(count)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for start in (0, 10_000)
    ]
    told = [int(line) for writer in writers for line in writer.communicate(timeout=patience)[0].split()]
    assert [writer.returncode for writer in writers] == [0, 0]
    return told, catalog.load_table("ns.raced")


def assert_none_is_lost_or_doubled(told, table):
    rows_there = geo.scan(table).to_arrow()
    assert sorted(rows_there["id"].to_pylist()) == sorted(told)
    snapshots = table.metadata.snapshots
    assert len(snapshots) == len(told)
    assert [snapshot.sequence_number for snapshot in snapshots] == list(range(1, len(told) + 1))
    assert sorted(snapshot.first_row_id for snapshot in snapshots) == list(range(len(told)))
    assert table.metadata.next_row_id == len(told)


def test_two_writers_lose_and_double_nothing(bridge, tmp_path):
    told, table = race(f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse", "sql", 6)
    assert len(told) == 12
    assert_none_is_lost_or_doubled(told, table)


@pytest.mark.slow
def test_a_writer_that_is_killed_leaves_the_table_as_it_was_or_as_it_becomes(tmp_path):
    kill_at_each_step(str(tmp_path))


@pytest.mark.slow
def test_a_writer_that_is_killed_while_it_talks_to_a_server_leaves_one_of_both(rest_server, tmp_path):
    kill_at_each_step(str(tmp_path), rest_server[0])


def kill_at_each_step(*words):
    command = [sys.executable, "-m", "tests.pyiceberg.dying_commits", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    states = [json.loads(line) for line in done.stdout.splitlines()]
    assert [state["lived"] for state in states] == [False] * (len(states) - 1) + [True]
    assert len(states) > 15
    before = {"rows": [0, 1, 2], "snapshots": [[1, 0, 3]], "next_row_id": 3}
    for state in states:
        if state["rows"] != before["rows"]:
            # The appended rows are there as a whole, once for each append that reached the catalog.
            assert state["rows"] == sorted([*before["rows"], 1000, 1001])
            number, first = len(before["snapshots"]) + 1, before["next_row_id"]
            assert state["snapshots"] == [*before["snapshots"], [number, first, 2]]
            assert state["next_row_id"] == first + 2
        before = state
    assert 1000 not in states[0]["rows"]
    assert 1000 in states[-1]["rows"]


def test_an_append_is_tried_again_on_what_another_writer_committed(bridge, catalog):
    table = make_table(catalog)
    other = catalog.load_table("ns.places")
    for start in (0, 10):
        table.append(rows(start))
    other.append(rows(20))
    assert sorted(other.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 10, 11, 12, 20, 21, 22]
    numbered = [
        (snapshot.sequence_number, snapshot.first_row_id, snapshot.added_rows) for snapshot in other.metadata.snapshots
    ]
    assert numbered == [(1, 0, 3), (2, 3, 3), (3, 6, 3)]
    listed = {path.name for path in Path(table.location().removeprefix("file://"), "metadata").glob("*.avro")}
    used = {
        manifest.manifest_path for snapshot in other.metadata.snapshots for manifest in snapshot.manifests(other.io)
    }
    used |= {snapshot.manifest_list for snapshot in other.metadata.snapshots}
    assert listed == {path.rpartition("/")[2] for path in used}


def test_an_append_to_another_branch_is_tried_again_too(bridge, catalog):
    table = make_table(catalog, **{"commit.retry.min-wait-ms": "1"})
    table.append(rows(0))
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "side").commit()
    other = catalog.load_table("ns.places")
    table.append(rows(10))
    other.append(rows(20), branch="side")
    snapshots = other.metadata.snapshots
    numbered = [(snapshot.sequence_number, snapshot.first_row_id, snapshot.added_rows) for snapshot in snapshots]
    assert numbered == [(1, 0, 3), (2, 3, 3), (3, 6, 3)]
    assert sorted(other.scan().use_ref("side").to_arrow()["id"].to_pylist()) == [0, 1, 2, 20, 21, 22]
    assert sorted(other.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 10, 11, 12]


def test_a_commit_that_landed_is_not_repeated_when_its_answer_is_lost(bridge, catalog, monkeypatch):
    table = make_table(catalog, **{"commit.retry.min-wait-ms": "1"})
    commit, calls = catalog.commit_table, []

    def lost(*args):
        answer = commit(*args)
        calls.append(answer)
        if len(calls) == 1:
            raise CommitFailedException("the answer was lost on its way")
        return answer

    monkeypatch.setattr(catalog, "commit_table", lost)
    table.append(rows(0))
    assert len(calls) == 1
    assert catalog.load_table("ns.places").scan().to_arrow().num_rows == 3
    assert len(catalog.load_table("ns.places").metadata.snapshots) == 1


def test_gl_write_says_when_the_outcome_is_unknown(catalog, monkeypatch):
    with_bridge(lambda: make_table(catalog))
    monkeypatch.setattr("geolake_nb.pyiceberg.writing.load_catalog", lambda *_, **__: catalog)

    def unknown(*_):
        raise CommitStateUnknownException("503")

    monkeypatch.setattr(catalog, "commit_table", unknown)
    with pytest.raises(OutcomeUnknownError, match="may or may not be in the table: 503; keep all files and look for"):
        gl.write(rows(0), "lake.ns.places", format="iceberg", mode="append")
    data = list(Path(catalog.properties["warehouse"].removeprefix("file://")).rglob("*.parquet"))
    assert len(data) == 1


def test_gl_write_leaves_no_files_of_a_commit_that_failed(catalog, monkeypatch):
    with_bridge(lambda: make_table(catalog, **{"commit.retry.num-retries": "0"}))
    monkeypatch.setattr("geolake_nb.pyiceberg.writing.load_catalog", lambda *_, **__: catalog)

    def refused(*_):
        raise CommitFailedException("somebody else was faster")

    monkeypatch.setattr(catalog, "commit_table", refused)
    with pytest.raises(ConflictError, match="somebody else was faster; plan again"):
        gl.write(rows(0), "lake.ns.places", format="iceberg", mode="append")
    assert list(Path(catalog.properties["warehouse"].removeprefix("file://")).rglob("*.parquet")) == []


def test_a_delete_that_would_lose_row_ids_is_refused(bridge, catalog):
    table = make_table(catalog)
    table.append(rows(0))
    before = table.metadata_location
    for filter_ in ("id = 1", geo.STWithin("geom", gl.Box(0, 0, 1, 1))):
        with pytest.raises(RefusedError, match="would lose the ids of the rows that stay; delete whole files"):
            table.delete(filter_)
    assert catalog.load_table("ns.places").metadata_location == before
    table.delete("id >= 0")
    assert catalog.load_table("ns.places").scan().to_arrow().num_rows == 0


def with_bridge(work):
    geo.enable()
    try:
        return work()
    finally:
        geo.disable()
