"""What a task of a write job does with the batches that it gets, without Spark."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from geolake_nb.changes.clustering import UNREADABLE, Ordering, keying, place_rows
from geolake_nb.changes.sampling import Sample
from geolake_nb.changes.write_job import GeoInput
from geolake_nb.errors import SchemaError
from geolake_nb.formats.delta.details import ColumnMapping
from geolake_nb.formats.delta.write_target import DeltaTarget
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import Field, GeometryEncoding, ListType, PrimitiveType, StringType, StructType, geometry
from geolake_nb.parquet.writer import Layout
from geolake_nb.spark.shuffle import CutTask
from geolake_nb.spark.write_tasks import WriteTask
from geolake_nb.storage.storage import Storage

pytest.importorskip("pyspark", reason="pyspark is not installed")

SCHEMA = Schema(
    StructType(
        (
            Field("id", PrimitiveType("int64"), physical_name="c1"),
            Field("geom", geometry(), physical_name="c2"),
            Field("p", StringType(), physical_name="c3"),
        )
    )
)


def task(folder, **changed) -> WriteTask:
    mapping, partition_by = changed.pop("mapping", ColumnMapping.NONE), changed.get("partition_by", ())
    inside = Schema(StructType(tuple(field for field in SCHEMA.fields if field.name not in partition_by)))
    indexed = frozenset({("id",), ("geom",)})
    options = {
        "storage": Storage.at(str(folder)),
        "layout": Layout(inside, row_group_rows=10, measured=frozenset({("id",)})),
        "target": DeltaTarget(SCHEMA, partition_by, indexed, data_change=False, mapping=mapping),
        "partition_by": (),
        "transaction": "txn",
        "max_bytes": 10**9,
        "max_rows": None,
        "key": None,
    }
    return WriteTask(**(options | changed))


def batch(start: int = 0, rows: int = 10, p: object = "a", **more) -> pa.RecordBatch:
    points = [shapely.Point(number, -number).wkb for number in range(start, start + rows)]
    values = p if isinstance(p, list) else [p] * rows
    columns = {"id": range(start, start + rows), "geom": points, "p": pa.array(values, pa.string())}
    return pa.record_batch(columns | more)


def run(write_task: WriteTask, *batches: pa.RecordBatch) -> list[dict]:
    return [row for result in write_task(iter(batches)) for row in result.to_pylist()]


def adds(results: list[dict]) -> list[dict]:
    return [json.loads(row["entry"])["add"] for row in results]


def test_a_file_has_its_rows_its_statistics_and_the_name_of_the_transaction(tmp_path):
    [result] = run(task(tmp_path), batch(), batch(10))
    [add] = adds([result])
    assert add["path"] == result["path"]
    assert "-txn-" in result["path"]
    assert add["dataChange"] is False
    assert add["size"] == result["bytes"] == (tmp_path / result["path"]).stat().st_size
    stats = json.loads(add["stats"])
    assert (stats["numRecords"], stats["minValues"]) == (20, {"id": 0, "geom": "POINT(0 -19)"})
    assert pq.read_table(tmp_path / result["path"])["id"].to_pylist() == list(range(20))


def test_a_task_that_runs_again_writes_other_files(tmp_path):
    copied = pickle.loads(pickle.dumps(task(tmp_path)))
    paths = {run(copied, batch())[0]["path"] for _ in range(3)}
    assert len(paths) == len(list(tmp_path.glob("part-*"))) == 3


def test_no_rows_are_no_file(tmp_path):
    assert run(task(tmp_path)) == []
    assert run(task(tmp_path), batch(rows=0)) == []
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("mapping", list(ColumnMapping))
def test_each_partition_has_a_file_of_its_own(tmp_path, mapping):
    write_task = task(tmp_path, partition_by=("p",), mapping=mapping)
    values = ["a/b"] * 4 + [None] * 3 + [""] * 3
    results = run(write_task, batch(p=values), batch(10, p="c"))
    name = "p" if mapping is ColumnMapping.NONE else "c3"
    assert [(add["partitionValues"], json.loads(add["stats"])["numRecords"]) for add in adds(results)] == [
        ({name: "a/b"}, 4),
        ({name: None}, 6),  # Delta, Partition value serialization: an empty text is null
        ({name: "c"}, 10),
    ]
    folders = [row["path"].rpartition("/")[0] for row in results]
    if mapping is ColumnMapping.NONE:
        assert folders == ["p=a%2Fb", "p=__HIVE_DEFAULT_PARTITION__", "p=c"]
        assert adds(results)[0]["path"].startswith("p=a%252Fb/part-")
    else:
        assert folders == ["", "", ""]


def test_a_file_that_is_full_is_followed_by_another(tmp_path):
    results = run(task(tmp_path, max_rows=20), *(batch(10 * number) for number in range(5)))
    assert [row["rows"] for row in results] == [20, 20, 10]
    results = run(task(tmp_path, max_bytes=1), *(batch(10 * number) for number in range(3)))
    assert [row["rows"] for row in results] == [10, 10, 10]


def test_shapes_without_a_bound_have_a_file_of_their_own(tmp_path):
    keys = pa.array([1, 2, 3, 4, 5, 6, 7, 8, UNREADABLE, UNREADABLE])
    shapes = [shapely.Point(1, 1).wkb] * 8 + [b"junk", b"more"]
    results = run(task(tmp_path, key="k"), batch(k=keys, geom=pa.array(shapes)))
    stored = [json.loads(add["stats"]) for add in adds(results)]
    assert [stats["numRecords"] for stats in stored] == [8, 2]
    assert stored[0]["minValues"]["geom"] == "POINT(1 1)"
    assert "geom" not in stored[1]["minValues"]


def test_a_task_that_fails_takes_its_open_file_away(tmp_path):
    def broken():
        yield batch()
        raise RuntimeError("the wire broke")

    results = task(tmp_path)(broken())
    with pytest.raises(RuntimeError, match="the wire broke"):
        list(results)
    assert not list(tmp_path.glob("part-*"))


def test_rows_that_do_not_fit_the_schema_are_refused(tmp_path):
    with pytest.raises(SchemaError, match="id"):
        run(task(tmp_path), batch(id=pa.array(["x"] * 10)))


def test_invalid_values_are_reported(tmp_path):
    inputs = {"geom": GeoInput(geometry(), GeometryEncoding.WKT)}
    texts = pa.array(["POINT (1 2)"] * 9 + ["POINT of no return"])
    *_, last = run(task(tmp_path, inputs=inputs), batch(geom=texts))
    [bad] = pickle.loads(last["bad"])
    assert (bad.column, bad.count) == ("geom", 1)
    assert last["path"] is None


def test_shapes_of_spark_become_plain_bytes_at_any_depth(tmp_path):
    spark_geo = pa.struct([pa.field("srid", pa.int32(), False), pa.field("wkb", pa.binary(), False)])
    point = {"srid": 4326, "wkb": shapely.Point(1, 2).wkb}
    inner = StructType((Field("n", PrimitiveType("int32")), Field("g", geometry())))
    schema = Schema(StructType((Field("top", geometry()), Field("many", ListType(Field("element", inner))))))
    many = pa.list_(pa.struct([("n", pa.int32()), ("g", spark_geo)]))
    rows = pa.record_batch(
        {
            "top": pa.array([None, point, point], spark_geo),
            "many": pa.array([[{"n": 1, "g": point}], None, [{"n": 2, "g": None}, None]], many),
        }
    ).slice(1)
    target = DeltaTarget(schema, (), frozenset(), data_change=False)
    write_task = task(tmp_path, target=target, layout=Layout(schema, row_group_rows=10))
    [result] = run(write_task, rows)
    file = pq.ParquetFile(tmp_path / result["path"], arrow_extensions_enabled=False)
    assert file.read().to_pylist() == [
        {"top": point["wkb"], "many": None},
        {"top": point["wkb"], "many": [{"n": 2, "g": None}, None]},
    ]


def test_keys_send_rows_to_the_tasks_of_their_partition():
    draw = np.random.default_rng(3)
    column = pa.array([shapely.Point(point).wkb for point in draw.random((200, 2))])
    row_keying = keying(Ordering(("g",)), [geometry()], [column])
    sample = Sample({"g": column}, (("a",), ("b",)), np.repeat([0, 1], 100))
    placed = place_rows({("a",): 100, ("b",): 400}, 100, keying=row_keying, sample=sample)
    cut_task = pickle.loads(pickle.dumps(CutTask(placed, ("p",), "k")))
    tasks, rows = cut_task.cut(pa.record_batch({"g": column, "p": ["b"] * 100 + ["a"] * 100}), turn=0)
    assert (np.diff(tasks) >= 0).all()
    mine = np.asarray(rows.column("p")) == "b"
    assert set(tasks[mine].tolist()) == {1, 2, 3, 4}
    assert set(tasks[~mine].tolist()) == {0}
    order = np.argsort(np.asarray(rows.column("k"))[mine], kind="stable")
    assert (np.diff(tasks[mine][order]) >= 0).all()
    assert sorted(rows.column("g").to_pylist()) == sorted(column.to_pylist())


def test_without_keys_whole_batches_go_to_the_tasks_in_turns():
    placed = place_rows({("a",): 300}, 100)
    cut_task = CutTask(placed, ("p",), "k")
    for part in range(4):
        tasks, _ = cut_task.cut(pa.record_batch({"p": ["a", "a"]}), turn=part)
        assert tasks.tolist() == [part % 3] * 2
    assert list(cut_task(iter([]))) == []
    assert list(cut_task(iter([pa.record_batch({"p": pa.array([], pa.string())})]))) == []
