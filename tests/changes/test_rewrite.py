"""Plans of rewrites: which files, which actions, and what is refused."""

from __future__ import annotations

import json

import pytest

from geolake_nb.changes.rewrite import rewrite_filter
from geolake_nb.errors import PredicateError, RefusedError, SchemaError
from geolake_nb.formats.delta.rewrite import live_rows
from geolake_nb.model.box import Box
from tests.changes.rewrite_tables import FIELDS, PointTable
from tests.formats.delta.log_maker import field, vector

MB = 10**6


def removed(change) -> list[str]:
    return [json.loads(action)["remove"]["path"] for action in change.actions]


def test_every_file_is_removed_with_all_that_the_log_has_of_it(tmp_path):
    fields = {"tags": {"a": "1.50"}, "deletionVector": vector(3), "baseRowId": 7, "defaultRowCommitVersion": 2}
    table = PointTable(tmp_path, features=("deletionVectors",)).bare("a%20b.parquet", 5 * MB, partition={}, **fields)
    change = table.bare("c.parquet", 6 * MB).made().plan(cluster_by=["geom"])
    first, second = (json.loads(action)["remove"] for action in change.actions)
    assert first.pop("deletionTimestamp") > 1_600_000_000_000
    assert first == {
        "path": "a%20b.parquet",
        "dataChange": False,
        "extendedFileMetadata": True,
        "partitionValues": {},
        "size": 5 * MB,
        **fields,
    }
    assert second["path"] == "c.parquet"
    assert "deletionVector" not in second


def test_the_job_says_what_will_be_done_and_the_plan_what_it_costs(tmp_path):
    table = PointTable(tmp_path).bare("a", 300 * MB).bare("b", 100 * MB).made()
    change = table.plan(cluster_by=["geom", "id"], curve="zorder", target_file_size="100MB", row_group_rows=5000)
    plain = change.job.to_dict()
    assert plain["ordering"] == {"columns": ["geom", "id"], "curve": "zorder"}
    assert (plain["target_bytes"], plain["row_group_rows"], plain["expected_rows"]) == (100 * MB, 5000, 200)
    assert plain["target"]["data_change"] is False
    assert (change.reads.files, change.reads.bytes) == (2, 400 * MB)
    assert change.notes[0].startswith("2 of 2 files (400.0 MB) are rewritten into about 4 files (target 100.0 MB, ")
    assert "by geom and id along a Z-order curve" in change.notes[1]
    assert "until VACUUM" in change.undo
    assert change.parameters["clusterBy"] == '["geom", "id"]'


def test_the_same_plan_has_the_same_hash_at_another_time(tmp_path, monkeypatch):
    table = PointTable(tmp_path).bare("a", MB).bare("b", MB).made()
    first = table.plan(cluster_by=["geom"])
    monkeypatch.setattr("time.time", lambda: 2e9)
    other = table.plan(cluster_by=["geom"])
    assert first.actions != other.actions
    assert first.hash == other.hash
    assert first.hash != table.plan(cluster_by=["geom"], target_file_size="1MB").hash
    assert first.hash != table.plan(cluster_by=["geom"], curve="zorder").hash


def test_compaction_leaves_files_of_the_right_size_alone(tmp_path):
    table = PointTable(tmp_path).bare("right", 90 * MB).bare("small", 3 * MB).bare("tiny", MB).bare("large", 300 * MB)
    change = table.made().plan(target_file_size="100MB")
    assert removed(change) == ["small", "tiny", "large"]
    assert change.notes[1] == "Row order is kept."


def test_compaction_takes_files_with_many_deleted_rows(tmp_path):
    table = PointTable(tmp_path, features=("deletionVectors",))
    table.bare("few", 90 * MB, deletionVector=vector(3)).bare("many", 90 * MB, deletionVector=vector(30, offset=9))
    assert removed(table.made().plan(target_file_size="100MB")) == ["many"]


def test_a_small_file_alone_in_its_partition_stays(tmp_path):
    table = PointTable(tmp_path, fields=(*FIELDS, field("p", "string")), partitions=("p",))
    for name, value in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("n1", None), ("n2", None)):
        table.bare(name, MB, partition={"p": value})
    assert removed(table.made().plan()) == ["a1", "a2", "n1", "n2"]


@pytest.mark.parametrize("files", [[], [90 * MB], [MB]])
def test_there_may_be_nothing_to_do(tmp_path, files):
    table = PointTable(tmp_path)
    for number, size in enumerate(files):
        table.bare(str(number), size)
    change = table.made().plan(target_file_size="100MB")
    assert change.is_empty
    assert change.notes


def test_a_filter_chooses_partitions(tmp_path):
    table = PointTable(tmp_path, fields=(*FIELDS, field("p", "integer")), partitions=("p",))
    for name, value in (("a", "1"), ("b", "2"), ("c", "3"), ("d", None)):
        table.bare(name, MB, partition={"p": value})
    change = table.made().plan(cluster_by=["geom"], where="p >= 2")
    assert removed(change) == ["b", "c"]
    assert change.job.expected_rows == 200
    assert table.plan(cluster_by=["geom"], where="p IS NULL").job.rows.paths == ["d"]
    assert table.plan(cluster_by=["geom"], where="p = 7").is_empty


def test_a_filter_takes_the_files_that_may_match_by_their_bounds(tmp_path):
    table = PointTable(tmp_path)
    for name, span in (("west", Box(-90, 0, -80, 10)), ("east", Box(80, 0, 90, 10))):
        table.points(name, rows=10, span=span)
    table.points("unknown", rows=10, bounds=False).made()
    change = table.plan(cluster_by=["geom"], where=(80, 0, 90, 10))
    assert removed(change) == ["east", "unknown"]
    text = "ST_Intersects(geom, ST_MakeEnvelope(80, 0, 90, 10))"
    assert change.notes[1] == f"They may have rows that match {text}; other files stay."
    assert json.loads(change.parameters["predicate"]) == text
    assert removed(table.plan(cluster_by=["geom"], where=(-90, 0, -80, 10))) == ["west", "unknown"]
    assert removed(table.plan(cluster_by=["geom"], where="NOT id IS NULL AND id < 5")) == ["west", "east", "unknown"]
    assert table.plan(cluster_by=["geom"], where="id IS NULL").is_empty


def test_compaction_merges_only_files_that_may_match(tmp_path):
    table = PointTable(tmp_path)
    for name, west in (("a", 0), ("b", 1), ("far", 90), ("far2", 91)):
        table.points(name, rows=10, span=Box(west, 0, west + 1, 1))
    assert removed(table.made().plan(where=(0, 0, 5, 5))) == ["a", "b"]
    assert table.plan(where=(-20, 0, -10, 5)).notes == ("No file that may match the filter needs a rewrite.",)


def test_a_long_filter_is_cut_in_the_history(tmp_path):
    import shapely

    table = PointTable(tmp_path).points("a", rows=5).made()
    change = table.plan(cluster_by=["geom"], where=shapely.Point(0, 0).buffer(170, quad_segs=500))
    assert len(change.parameters["predicate"]) < 1100
    assert len(change.notes[1]) < 300


def test_an_area_names_its_column_where_there_are_several(tmp_path):
    fields = (*FIELDS, field("other", "geometry(OGC:CRS84)"))
    table = PointTable(tmp_path, fields=fields).bare("a", MB).made()
    snapshot = table.open()
    assert str(rewrite_filter(snapshot, (0, 0, 1, 1), cluster_by=["other"])).startswith("ST_Intersects(other, ")
    with pytest.raises(PredicateError, match=r"geo columns geom, other, and the area does not name one; write SQL"):
        rewrite_filter(snapshot, (0, 0, 1, 1))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target_file_size": "huge"}, "'huge' is not a valid file size"),
        ({"target_file_size": 0}, "0 is not a valid file size"),
        ({"row_group_rows": -1}, "a row group has 1 to"),
        ({"cluster_by": ["geom"], "curve": "peano"}, "unknown curve"),
    ],
)
def test_odd_options_are_refused(tmp_path, options, words):
    with pytest.raises(RefusedError, match=words):
        PointTable(tmp_path).bare("a", MB).made().plan(**options)


def test_a_type_that_cannot_be_written_is_refused(tmp_path):
    table = PointTable(tmp_path, fields=(*FIELDS, field("v", "void"))).bare("a", MB).made()
    with pytest.raises(SchemaError, match="the column 'v' is of type unknown, which cannot be written"):
        table.plan(cluster_by=["geom"])


def test_rows_are_counted_by_the_footers_where_the_log_does_not_say(tmp_path):
    table = PointTable(tmp_path, features=("deletionVectors",)).points("a.parquet", rows=700)
    table.points("b.parquet", rows=300, deletionVector=vector(20)).made()
    change = table.plan(cluster_by=["geom"])
    assert change.job.expected_rows == live_rows(table.storage, change.job.rows) == 980
