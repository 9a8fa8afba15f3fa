from __future__ import annotations

import datetime as dt
import json
import tempfile
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.errors import CorruptTableError
from geolake_nb.formats.delta.log_segment import list_log
from geolake_nb.formats.delta.raw_actions import raw_adds
from tests.formats.delta.log_maker import LogMaker, add, metadata, protocol, remove, vector, write_checkpoint


@pytest.fixture
def table(tmp_path):
    return LogMaker(tmp_path / "t").commit(0, protocol(), metadata())


def read(table, wanted=None, version=None):
    adds = raw_adds(table.storage, list_log(table.storage).segment(version), wanted)
    assert adds.schema.names == ["path", "vector", "add"]
    return {(row["path"], row["vector"]): row["add"] for row in adds.to_pylist()}


def test_the_newest_action_of_a_file_wins(table):
    table.commit(1, add("a", size=1), add("b"), add("c"))
    table.commit(2, remove("b"), add("a", size=2))
    table.commit(3, add("b", size=3), remove("c"), add("d"))
    adds = read(table)
    assert {path: json.loads(text)["size"] for (path, _), text in adds.items()} == {"a": 2, "b": 3, "d": 10}
    assert sorted(path for path, _ in read(table, version=1)) == ["a", "b", "c"]


def test_a_file_is_a_path_and_a_deletion_vector(table):
    table.commit(1, add("a"))
    table.commit(2, remove("a"), add("a", deletionVector=vector(1)))
    assert list(read(table)) == [("a", "uab^-aqEH.-t@S}K{vb[*k^@1")]
    table.commit(3, remove("a", deletionVector=vector(1)), add("a", deletionVector=vector(2, offset=None)))
    assert list(read(table)) == [("a", "uab^-aqEH.-t@S}K{vb[*k^")]


def test_only_what_is_wanted_is_given(table):
    table.commit(1, add("a"), add("b"), add("c"))
    assert list(read(table, ["b", "none"])) == [("b", None)]
    assert read(table, []) == {}


def test_an_empty_table_has_none(table):
    assert read(table) == {}


# JSON in the many ways in which it can be written; what is kept must be what was written.
TEXTS = st.text(st.sampled_from('ab"\\/\u00fc\U0001f600 {}:,\t'), max_size=5)
SPACE = st.sampled_from(["", " ", "\t", "  "])


@st.composite
def json_texts(draw: st.DrawFn, depth: int = 2) -> str:
    kind = draw(st.integers(0, 4 if depth else 2))
    if kind == 0:
        return draw(st.sampled_from(["1.50", "-0.0", "1E+2", "0.1000000000000000055", "12", "true", "null"]))
    if kind <= 2:
        return json.dumps(draw(TEXTS), ensure_ascii=draw(st.booleans()))
    if kind == 3:
        return "[" + ",".join(draw(st.lists(json_texts(depth - 1), max_size=2))) + "]"
    pairs = draw(st.lists(json_texts(depth - 1), max_size=2))
    return "{" + ",".join(f'"k{n}"{draw(SPACE)}:{value}' for n, value in enumerate(pairs)) + "}"


@st.composite
def add_texts(draw: st.DrawFn, path: str) -> str:
    members = [
        f'"path":{draw(SPACE)}{json.dumps(path, ensure_ascii=draw(st.booleans()))}',
        '"partitionValues":{}',
        '"size":10',
        '"dataChange":true',
        f'"modificationTime":{draw(SPACE)}5',
        f'"stats":{json.dumps(draw(TEXTS), ensure_ascii=draw(st.booleans()))}',
        draw(st.sampled_from(['"tags":null', '"tags":{}', '"tags":{"x":""}'])),
        f'"unknown":{draw(json_texts())}',
    ]
    return "{" + ",".join(draw(SPACE) + member for member in draw(st.permutations(members))) + draw(SPACE) + "}"


@settings(max_examples=60)
@given(st.data())
def test_a_commit_is_read_byte_for_byte(data):
    paths = ["a", "\u00fc%20b", "c"]
    texts = {path: data.draw(add_texts(path)) for path in paths}
    with tempfile.TemporaryDirectory() as folder:
        table = LogMaker(Path(folder)).commit(0, protocol(), metadata())
        lines = []
        for text in texts.values():
            before = data.draw(SPACE) if data.draw(st.booleans()) else ""
            line = f'{{{before}"add"{data.draw(SPACE) if before else ""}:{data.draw(SPACE)}{text}{data.draw(SPACE)}}}'
            lines.append(line + data.draw(st.sampled_from(["\n", "\r\n", "\n\n"])))
        (table.log / f"{1:020}.json").write_text("".join(lines), newline="")
        assert {path: text for (path, _), text in read(table).items()} == texts


def test_an_object_with_company_in_its_line_is_still_found(table):
    line = '{"add":{"path":"a","size":1.0e1},"note":{"path":"b"}}'
    (table.log / f"{1:020}.json").write_text(line.replace("1.0e1", "10") + "\n")
    assert read(table) == {("a", None): '{"path":"a","size":10}'}


def test_a_line_that_says_two_things_is_refused(table):
    (table.log / f"{1:020}.json").write_text('{"add":{"path":"a"},"add":{"path":"b"}}\n')
    with pytest.raises(CorruptTableError):
        read(table)


def test_a_compacted_log_counts_as_its_commits(table):
    table.commit(1, add("a")).commit(2, add("b"))
    table.compacted(1, 2, add("a", size=7), add("b", size=8))
    assert {path: json.loads(text)["size"] for (path, _), text in read(table).items()} == {"a": 7, "b": 8}


def test_a_checkpoint_in_json_is_read_byte_for_byte(table):
    name = f"{1:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    table.commit(1, add("a")).commit(2, remove("b"))
    actions = [{"checkpointMetadata": {"version": 1}}, protocol(), metadata(), add("a", size=7), add("b", size=8)]
    table.write(name, actions)
    assert read(table) == {("a", None): json.dumps(add("a", size=7)["add"])}


def test_files_of_a_checkpoint_give_way_to_newer_actions(table):
    table.checkpoint(1, protocol(), metadata(), *(add(name, {"numRecords": 1}) for name in "abc"))
    table.commit(2, remove("a"), add("b", size=99))
    adds = read(table)
    assert json.loads(adds["b", None])["size"] == 99
    assert json.loads(adds["c", None]) == add("c", {"numRecords": 1})["add"]
    assert sorted(adds) == [("b", None), ("c", None)]
    assert list(read(table, ["c"])) == [("c", None)]


def test_a_checkpoint_gives_every_field_it_has(table):
    stats = '{"numRecords":2,"minValues":{"d":1.10}}'
    row = {
        "path": "x=1/a%20b",
        "partitionValues": [("x", "1"), ("y", None)],
        "size": 2**62,
        "modificationTime": 5,
        "dataChange": False,
        "stats": stats,
        "tags": [("k", '\u00fc"')],
        "deletionVector": vector(3) | {"maxRowIndex": 7},
        "baseRowId": 4,
        "defaultRowCommitVersion": 2,
        "clusteringProvider": "liquid",
        "fromTheFuture": {"a": [1, None], "b": None, "c": Decimal("1.50")},
        "stats_parsed": {"numRecords": 9},
        "partitionValues_parsed": {"x": 1},
    }
    map_ = pa.map_(pa.string(), pa.string())
    types = {"partitionValues": map_, "tags": map_}
    fields = [(name, types.get(name) or pa.infer_type([value])) for name, value in row.items()]
    bare = dict.fromkeys(row) | {"path": "bare", "size": 1}
    adds = pa.array([row, None, bare], pa.struct(fields))
    others = [{"protocol": protocol()["protocol"]}, metadata(), {}]
    path = table.log / f"{1:020}.checkpoint.parquet"
    write_checkpoint(path, others)
    pq.write_table(pq.read_table(path).set_column(0, "add", adds), path)
    live = read(table)
    expected = {name: value for name, value in row.items() if not name.endswith("_parsed")}
    expected["partitionValues"] = {"x": "1", "y": None}
    expected["tags"] = {"k": '\u00fc"'}
    expected["fromTheFuture"] = {"a": [1, None], "c": "1.50"}
    assert json.loads(live["x=1/a%20b", "uab^-aqEH.-t@S}K{vb[*k^@1"], parse_float=str) == expected
    assert json.loads(live["bare", None]) == {"path": "bare", "partitionValues": {}, "size": 1}
    assert len(live) == 2


def test_statistics_in_columns_become_the_text_that_spark_would_have_written(table):
    instant = dt.datetime(2024, 2, 29, 12, 30, 1, 234567)
    low = {
        "b": True,
        "i": -5,
        "f": 0.1,
        "n": float("nan"),
        "m": float("-inf"),
        "d": Decimal("12345678901234567890.10"),
        "t": instant.replace(tzinfo=dt.UTC),
        "ntz": instant,
        "day": dt.date(1, 1, 1),
        "s": '\u00fc"',
        "deep": {"x": 1, "y": None},
        "none": None,
    }
    kind = pa.struct(
        [
            ("b", pa.bool_()),
            ("i", pa.int32()),
            ("f", pa.float64()),
            ("n", pa.float32()),
            ("m", pa.float64()),
            ("d", pa.decimal128(38, 2)),
            ("t", pa.timestamp("us", "UTC")),
            ("ntz", pa.timestamp("us")),
            ("day", pa.date32()),
            ("s", pa.string()),
            ("deep", pa.struct([("x", pa.int64()), ("y", pa.int64())])),
            ("none", pa.int64()),
        ]
    )
    parsed = pa.struct([("numRecords", pa.int64()), ("minValues", kind), ("tightBounds", pa.bool_())])
    statistics = {"numRecords": 3, "minValues": low, "tightBounds": False}
    actions = [protocol(), metadata(), add("a", stats_parsed=statistics), add("none")]
    write_checkpoint(table.log / f"{1:020}.checkpoint.parquet", actions, parsed, stats=False)
    adds = read(table)
    assert json.loads(json.loads(adds["a", None])["stats"], parse_float=str) == {
        "numRecords": 3,
        "minValues": {
            "b": True,
            "i": -5,
            "f": "0.1",
            "n": "NaN",
            "m": "-Infinity",
            "d": "12345678901234567890.10",
            "t": "2024-02-29T12:30:01.234Z",
            "ntz": "2024-02-29T12:30:01.234",
            "day": "0001-01-01",
            "s": '\u00fc"',
            "deep": {"x": 1},
        },
        "tightBounds": False,
    }
    assert "stats" not in json.loads(adds["none", None])
