"""Changes of Havasu tables: repairs, races of writers, kills, doubt, and the way back."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import shutil
import signal
import uuid
from dataclasses import replace

import pytest
import shapely

from geolake_nb.errors import ConflictError, OutcomeUnknownError, RefusedError
from geolake_nb.formats.base import CommitContext
from geolake_nb.formats.havasu.commit import TRANSACTION, commit, commit_change, find_commit, find_transaction
from geolake_nb.formats.havasu.write import plan_repair, plan_undo
from geolake_nb.formats.iceberg.snapshot import open_iceberg
from geolake_nb.parquet.footer import FooterReader
from geolake_nb.scan.value_scan import scan_part
from geolake_nb.storage.storage import Storage
from geolake_nb.storage.writing import WriteStep, storage_put
from tests.formats.havasu_rows import (
    EWKB,
    append,
    appends,
    bounds_of,
    commit_of,
    commit_with,
    create,
    entries_of,
    ids,
    killed,
    metadata_of,
    opened,
    planned_append,
    planned_table,
    points,
    updating_all_bounds,
)
from tests.formats.havasu_tables import GEOM, geometry_entry, make_havasu_table, point
from tests.formats.iceberg_tables import EQUALITY_DELETES, HAVASU_FIELDS, FileEntry, PartitionFieldSpec
from tests.heavy.havasu_kill_sweep import sweep


@pytest.mark.parametrize("version", [1, 2])
def test_rows_are_added_replaced_and_undone(tmp_path, version):
    first = create(tmp_path, points(3), columns=EWKB, version=version)
    second = append(tmp_path, points(2, first=10))
    assert ids(tmp_path) == [0, 1, 2, 10, 11]
    summary = metadata_of(tmp_path)["snapshots"][-1]["summary"]
    assert summary["operation"] == "append"
    assert (summary["added-records"], summary["total-records"], summary["total-data-files"]) == ("2", "5", "2")
    append(tmp_path, points(1, first=99), overwrite=True)
    assert ids(tmp_path) == [99]
    assert metadata_of(tmp_path)["snapshots"][-1]["summary"]["deleted-records"] == "5"
    for expected, version_ in (([0, 1, 2, 10, 11], second.version), ([0, 1, 2], first.version)):
        undo = plan_undo(Storage.at(str(tmp_path)), opened(tmp_path))
        context = CommitContext(Storage.at(str(tmp_path)), str(uuid.uuid4()))
        assert commit_change(undo, context).version == version_
        assert commit_change(undo, context).version == version_
        assert ids(tmp_path) == expected
        assert opened(tmp_path).version == version_
    assert [entry["snapshot-id"] for entry in metadata_of(tmp_path)["snapshot-log"]][-1] == first.version
    with pytest.raises(RefusedError, match="first of the table"):
        plan_undo(Storage.at(str(tmp_path)), opened(tmp_path))


def test_a_change_that_is_not_the_newest_is_not_undone(tmp_path):
    create(tmp_path, points(3), columns=EWKB)
    ours = append(tmp_path, points(1, first=5))
    undo = plan_undo(Storage.at(str(tmp_path)), opened(tmp_path))
    append(tmp_path, points(1, first=6))
    with pytest.raises(ConflictError, match="is based on the snapshot to undo"):
        commit_change(undo, CommitContext(Storage.at(str(tmp_path)), "t"))
    with pytest.raises(ConflictError, match="is the current one"):
        plan_undo(Storage.at(str(tmp_path)), opened(tmp_path), ours.version)
    assert ids(tmp_path) == [0, 1, 2, 5, 6]


SHAPES = [shapely.Point(1, 2), shapely.LineString([(0, 0), (5, 3)])]


def updating_stats(storage):
    """The change that states the right bounds of all files, scanned here and not by Spark."""
    plan = plan_repair(storage, opened(storage.location), verify=True)
    if plan.job is None:
        return plan
    reader = FooterReader()
    stats = {
        index: scan_part(storage, file.key, [plan.job.columns[wanted.column] for wanted in file.scanned], reader=reader)
        for index, file in enumerate(plan.job.files)
    }
    return plan.job.finish(plan, plan.job, stats)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("fault", ["missing", "lower only", "swapped", "cut off", "line", "too small"])
def test_a_repair_puts_bounds_right_and_keeps_all_else(tmp_path, version, fault):
    entries = [geometry_entry("a", SHAPES), geometry_entry("b", [shapely.Point(8, 9)])]
    extra = (*HAVASU_FIELDS, {"name": "their_own", "type": ["null", "string"], "default": None, "field-id": 9999})
    make_havasu_table(tmp_path, entries, version=version, fault=fault, extra={"x": [1, {"y": None}]}, fields=extra)
    before = entries_of(tmp_path)
    storage = Storage.at(str(tmp_path))
    change = updating_stats(storage)
    commit_change(change, CommitContext(storage, "t"))
    after = entries_of(tmp_path)
    assert [bounds_of(entry, "geom_lower_bounds") for entry in after] == [{GEOM: point(0, 0)}, {GEOM: point(8, 9)}]
    assert [bounds_of(entry, "geom_upper_bounds") for entry in after] == [{GEOM: point(5, 3)}, {GEOM: point(8, 9)}]
    assert metadata_of(tmp_path)["x"] == [1, {"y": None}]
    for old, new in zip(before, after, strict=True):
        kept = {key: value for key, value in old["data_file"].items() if not key.startswith("geom_")}
        assert {key: value for key, value in new["data_file"].items() if not key.startswith("geom_")} == kept
        assert new["status"] == 0
        assert new["snapshot_id"] == 1001
        if version == 2:
            assert (new["sequence_number"], new["file_sequence_number"]) == (1, 1)
            assert new["listed"]["min_sequence_number"] == 1
    assert metadata_of(tmp_path)["snapshots"][-1]["summary"]["operation"] == "replace"
    assert updating_stats(storage).is_empty


def test_a_table_of_version_1_without_manifest_lists_is_changed(tmp_path):
    make_havasu_table(tmp_path, [geometry_entry("a", SHAPES)], version=1, manifest_list=False, fault="missing")
    storage = Storage.at(str(tmp_path))
    commit_change(updating_stats(storage), CommitContext(storage, "t"))
    append(tmp_path, points(2, first=50))
    assert ids(tmp_path) == [0, 1, 50, 51]
    assert bounds_of(entries_of(tmp_path)[0], "geom_lower_bounds") == {GEOM: point(0, 0)}


def test_packed_metadata_stays_packed(tmp_path):
    make_havasu_table(tmp_path, [geometry_entry("a", SHAPES)], compress=True)
    append(tmp_path, points(2, first=50))
    assert ids(tmp_path) == [0, 1, 50, 51]
    packed = (tmp_path / "metadata" / "v2.gz.metadata.json").read_bytes()
    assert json.loads(gzip.decompress(packed))["metadata-log"][0]["metadata-file"].endswith("v1.gz.metadata.json")
    assert (tmp_path / "metadata" / "version-hint.text").read_text() == "2"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_metadata_in_another_encoding_goes_on_in_utf8(tmp_path, encoding):
    make_havasu_table(tmp_path, [geometry_entry("a", SHAPES)])
    path = tmp_path / "metadata" / "v1.metadata.json"
    path.write_bytes(path.read_text().encode(encoding))
    append(tmp_path, points(2, first=50))
    assert ids(tmp_path) == [0, 1, 50, 51]
    assert json.loads((tmp_path / "metadata" / "v2.metadata.json").read_text())["current-snapshot-id"]


def test_a_partition_by_a_transform_is_repaired(tmp_path):
    spec = [PartitionFieldSpec("id_bucket", 1, "bucket[4]", "int")]
    entry = geometry_entry("a", SHAPES)
    entries = [replace(entry, partition={"id_bucket": 3})]
    make_havasu_table(tmp_path, entries, partition=spec, fault="missing")
    storage = Storage.at(str(tmp_path))
    commit_change(updating_stats(storage), CommitContext(storage, "t"))
    (after,) = entries_of(tmp_path)
    assert after["data_file"]["partition"] == {"id_bucket": 3}
    assert bounds_of(after, "geom_lower_bounds") == {GEOM: point(0, 0)}


OTHERS = {
    "append": (lambda folder: append(folder, points(1, first=7)), None),
    "overwrite": (lambda folder: append(folder, points(1, first=7), overwrite=True), "was committed meanwhile"),
    "schema": (lambda folder: rewritten_metadata(folder, **{"current-schema-id": 1}), "schema"),
    "another table": (
        lambda folder: rewritten_metadata(folder, **{"table-uuid": str(uuid.uuid4())}),
        "replaced by another one",
    ),
}


def rewritten_metadata(folder, **changes):
    """What another writer does that changes no rows: the next metadata file with other words."""
    metadata = metadata_of(folder)
    metadata["schemas"] = [*metadata["schemas"], {**metadata["schemas"][0], "schema-id": 1}]
    storage = Storage.at(str(folder))
    names = [name for name in os.listdir(folder / "metadata") if name.endswith(".metadata.json")]
    number = 1 + max(int(name[1:].split(".")[0]) for name in names)
    storage.put_if_absent(f"metadata/v{number}.metadata.json", json.dumps({**metadata, **changes}).encode())


@pytest.mark.parametrize("name", OTHERS)
def test_a_repair_steps_over_appends_and_fails_cleanly_otherwise(tmp_path, name):
    create(tmp_path, points(3), columns=EWKB)
    storage = Storage.at(str(tmp_path))
    ours = updating_all_bounds(storage)
    act, problem = OTHERS[name]
    files = set(os.listdir(tmp_path / "metadata"))
    if problem is None:
        made = commit_with(storage, ours, lambda: act(tmp_path))
        assert len(made.rebased_over) == 1
        assert ids(tmp_path) == [0, 1, 2, 7]
        assert find_commit(storage, ours.transaction) == made.snapshot_id
        return
    with pytest.raises(ConflictError, match=problem):
        commit_with(storage, ours, lambda: act(tmp_path))
    assert find_commit(storage, ours.transaction) is None
    left = {item for item in set(os.listdir(tmp_path / "metadata")) - files if ours.transaction in item}
    assert not left


def test_an_append_steps_over_an_overwrite(tmp_path):
    create(tmp_path, points(3), columns=EWKB)
    storage = Storage.at(str(tmp_path))
    ours = commit_of(planned_append(storage, points(1, first=50)), "ours")
    commit_with(storage, ours, lambda: append(tmp_path, points(1, first=7), overwrite=True))
    assert ids(tmp_path) == [7, 50]


def test_one_of_two_that_make_a_table_wins(tmp_path):
    storage = Storage.at(str(tmp_path))
    ours = commit_of(planned_table(storage, points(1), columns=EWKB), "ours")
    with pytest.raises(ConflictError, match="the table already exists"):
        commit_with(storage, ours, lambda: create(tmp_path, points(2), columns=EWKB))
    assert ids(tmp_path) == [0, 1]


def test_in_doubt_nothing_is_cleaned_up_and_the_next_read_resolves_it(tmp_path):
    create(tmp_path, points(3), columns=EWKB)
    storage = Storage.at(str(tmp_path))
    change = planned_append(storage, points(1, first=50))

    def put(path, data):
        storage.put_if_absent(path, data)
        raise ConnectionResetError("no answer")

    with pytest.raises(OutcomeUnknownError, match="may or may not be in the table"):
        commit(storage, commit_of(change, "ours"), put=put)
    assert find_transaction(change, CommitContext(storage, "ours")) == opened(tmp_path).version
    assert commit(storage, commit_of(change, "ours")).snapshot_id == opened(tmp_path).version
    assert ids(tmp_path) == [0, 1, 2, 50]
    assert [snapshot["summary"].get(TRANSACTION) for snapshot in metadata_of(tmp_path)["snapshots"]].count("ours") == 1


def test_two_processes_lose_no_commit(tmp_path):
    create(tmp_path, points(1), columns=EWKB)
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=appends, args=(str(tmp_path), 100 * number, 8)) for number in (1, 2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert ids(tmp_path) == [0, *range(100, 108), *range(200, 208)]
    assert len(metadata_of(tmp_path)["snapshots"]) == 17
    assert metadata_of(tmp_path)["last-sequence-number"] == 17


STEPS = ["before", WriteStep.TEMP_WRITTEN, WriteStep.LINKED, "after"]


@pytest.mark.parametrize("step", STEPS, ids=str)
@pytest.mark.parametrize("version", [1, 2])
def test_a_kill_at_any_step_leaves_the_old_or_the_new_snapshot(tmp_path, version, step):
    create(tmp_path, points(3), columns=EWKB, version=version)
    before = opened(tmp_path).version
    storage = Storage.at(str(tmp_path))
    change = planned_append(storage, points(2, first=50))
    victim = multiprocessing.get_context("fork").Process(
        target=killed, args=(str(tmp_path), commit_of(change, "ours"), step)
    )
    victim.start()
    victim.join()
    assert victim.exitcode == -signal.SIGKILL
    landed = step in (WriteStep.LINKED, "after")
    assert (opened(tmp_path).version != before) is landed
    assert ids(tmp_path) == ([0, 1, 2, 50, 51] if landed else [0, 1, 2])
    commit(storage, commit_of(change, "ours"))
    assert ids(tmp_path) == [0, 1, 2, 50, 51]


def test_a_moved_table_is_changed_where_it_lies(tmp_path):
    create(tmp_path / "a", points(3), columns=EWKB)
    shutil.move(tmp_path / "a", tmp_path / "b")
    append(tmp_path / "b", points(1, first=9))
    snapshot = opened(tmp_path / "b")
    assert sum(snapshot.files.table["rows"].to_pylist()) == 4
    storage = Storage.at(str(tmp_path / "b"))
    assert all(storage.exists(snapshot.details.paths.key(path)) for path in snapshot.files.table["path"].to_pylist())


def test_deletes_that_no_file_is_left_for_go_with_an_overwrite(tmp_path):
    deletes = FileEntry("data/d.parquet", rows=1, content=EQUALITY_DELETES, equality_ids=[1])
    make_havasu_table(tmp_path, [geometry_entry("a", SHAPES), deletes])
    append(tmp_path, points(1, first=7), overwrite=True)
    assert opened(tmp_path).details.delete_files.num_rows == 0
    assert {entry["status"] for entry in entries_of(tmp_path) if entry["data_file"]["content"]} == {2}
    assert ids(tmp_path) == [7]


def test_in_a_bucket_the_store_lets_one_of_two_writers_win(tmp_path, s3):
    create(tmp_path, points(2), columns=EWKB)
    url = s3.upload(tmp_path, "lake", "havasu")
    storage = Storage.at(url, options=s3.options)
    changes = [planned_append(storage, points(1, first=first)) for first in (10, 20)]
    first, second = (commit_of(change, f"t{index}") for index, change in enumerate(changes))
    put = storage_put(storage)
    commit_with(storage, first, lambda: commit(storage, second, put=put))
    snapshot = open_iceberg(storage)
    assert sum(snapshot.files.table["rows"].to_pylist()) == 4
    assert storage.read("metadata/version-hint.text") == b"3"
    assert not [file.path for file in storage.list("metadata") if "probe" in file.path]


def test_kills_at_random_moments_lose_nothing(tmp_path):
    assert sweep(tmp_path / "t", count=4, seed=11)["rows of the other"] == 4
