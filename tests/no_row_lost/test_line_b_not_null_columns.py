"""Delta tables with NOT NULL columns can be rewritten and enabled, and nothing is written into them for reading."""

from __future__ import annotations

import contextlib
import io
import os
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.errors import JobError, SchemaError
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import Field, ListType, PrimitiveType, StringType, StructType
from geolake_nb.parquet.file_columns import FileColumns
from geolake_nb.spark.jobs import cause

pytestmark = pytest.mark.spark

COLUMNS = (
    "id INT NOT NULL, s STRUCT<a: INT NOT NULL, b: STRING>, tags ARRAY<STRING>, tn TIMESTAMP_NTZ NOT NULL,"
    " p STRING NOT NULL, w BINARY NOT NULL"
)
PROPERTIES = {
    "delta.enableDeletionVectors": "true",
    "delta.enableTypeWidening": "true",
    "delta.enableChangeDataFeed": "true",
}


def make_table(spark, path, *, mapping, rows=40):
    """A table as production has them: NOT NULL, deletion vectors, mapped columns, a widened type, partitions."""
    properties = {**PROPERTIES, "delta.columnMapping.mode": mapping}
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} ({COLUMNS}) USING delta PARTITIONED BY (p) TBLPROPERTIES ({listed})")
    points = [bytearray(shapely.to_wkb(shapely.Point(number, number / 2))) for number in range(rows)]
    frame = spark.createDataFrame(list(enumerate(points)), "id int, w binary").coalesce(2)
    frame.selectExpr(
        "id",
        "named_struct('a', id, 'b', IF(id % 3 = 0, NULL, 'x')) AS s",
        "array('t', NULL) AS tags",
        "timestamp_ntz'2020-01-01 00:00:00' AS tn",
        "CONCAT('p ', id % 2) AS p",
        "w",
    ).write.format("delta").mode("append").save(str(path))
    spark.sql(f"DELETE FROM {table} WHERE id IN (3, 8)")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id TYPE BIGINT")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN tags TO labels")


def rows_of(spark, path):
    # A table that is enabled in the same session has a new schema.
    spark.catalog.clearCache()
    frame = spark.read.format("delta").load(str(path))
    shapes = "st_asbinary(w)" if "geometry" in dict(frame.dtypes)["w"] else "w"
    other = [f"`{name}`" for name in frame.columns if name != "w"]
    return Counter(str(row) for row in frame.selectExpr(*other, f"hex({shapes}) AS w").collect())


@pytest.mark.parametrize("mapping", ["name", "id"])
def test_a_table_with_not_null_columns_is_rewritten_and_enabled(spark, tmp_path, mapping):
    path = tmp_path / "a table"
    make_table(spark, path, mapping=mapping)
    before = rows_of(spark, path)
    assert sum(before.values()) == 38
    gl.open(str(path)).plan_rewrite(cluster_by=["id"]).apply(spark=spark)
    assert rows_of(spark, path) == before
    gl.open(str(path)).plan_enable({"w": gl.geometry()}).apply(spark=spark, consent="geospatial")
    assert rows_of(spark, path) == before
    # The rule still holds for the next writer.
    with pytest.raises(Exception, match=r"NOT.NULL"):
        spark.sql(f"INSERT INTO delta.`{path}` SELECT NULL, s, labels, tn, p, w FROM delta.`{path}` LIMIT 1")
    assert rows_of(spark, path) == before


def test_nothing_but_data_files_is_written_into_the_table(spark, tmp_path):
    path = tmp_path / "t"
    spark.range(10).selectExpr("id", "id % 2 AS p").write.format("delta").save(str(path))
    before = set(path.rglob("*"))
    seen = set()
    plan = gl.open(str(path)).plan_rewrite(cluster_by=["id"])
    plan.apply(spark=spark, on_progress=lambda done, total: seen.update(path.rglob("*")))
    new = (seen | set(path.rglob("*"))) - before
    assert new
    assert all(path_.suffix == ".parquet" or path_.parent.name == "_delta_log" for path_ in new), new
    assert not [name for name in os.listdir(path) if name.startswith("_geolake")]


def test_nulls_in_a_column_that_says_it_has_none_are_not_turned_into_zeros(spark, tmp_path):
    """Another writer broke the rule: the rewrite keeps the null or fails, it does not make a 0 of it."""
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, n INT) USING delta")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, NULL), (2, 7)")
    log = path / "_delta_log" / "00000000000000000000.json"
    text = log.read_text()
    old = '{\\"name\\":\\"n\\",\\"type\\":\\"integer\\",\\"nullable\\":true'
    assert old in text
    log.write_text(text.replace(old, old.replace("true", "false")))
    for crc in path.glob("_delta_log/.*.crc"):
        crc.unlink()
    for crc in path.glob("_delta_log/*.crc"):
        crc.unlink()
    plan = gl.open(str(path)).plan_rewrite(cluster_by=["id"])
    with contextlib.suppress(JobError):
        plan.apply(spark=spark)
    live = gl.open(str(path)).snapshot.files.table["path"].to_pylist()
    values = {
        (row["id"], row["n"]) for name in live for row in pq.read_table(path / name, partitioning=None).to_pylist()
    }
    assert values == {(1, None), (2, 7)}


def test_a_null_struct_with_a_required_field_is_written_as_it_is():
    """Spark refuses such rows in Delta tables, other writers and Iceberg do not."""
    number, text = PrimitiveType("int32"), StringType()
    inner = StructType(
        (Field("a", number, nullable=False), Field("t", ListType(Field("element", text)), nullable=False))
    )
    outer = StructType((Field("n", inner, nullable=False), Field("z", text, nullable=False)))
    columns = FileColumns.of(Schema(StructType((Field("s", outer),))))
    rows = [{"s": {"n": {"a": 1, "t": ["x", None]}, "z": "q"}}, {"s": None}, {"s": {"n": {"a": 3, "t": []}, "z": "w"}}]
    batch = pa.RecordBatch.from_pylist(rows)
    for given in (batch, batch.slice(1)):
        buffer = io.BytesIO()
        pq.write_table(pa.Table.from_batches([columns.fit(given)]), buffer)
        assert pq.read_table(buffer).to_pylist() == given.to_pylist()
    with pytest.raises(SchemaError, match=r"s\.z: the column is not nullable and has 1 nulls"):
        columns.fit(pa.RecordBatch.from_pylist([*rows, {"s": {"n": {"a": 1, "t": []}, "z": None}}]))


def test_a_failed_job_names_its_cause(spark, tmp_path):
    path = tmp_path / "t"
    spark.range(10).repartition(2).write.format("delta").save(str(path))
    plan = gl.open(str(path)).plan_rewrite()
    data = min(path.glob("*.parquet"))
    content = data.read_bytes()
    data.write_bytes(b"PAR1" + b"x" * 60 + content[64:])
    for crc in path.glob(".*.crc"):
        crc.unlink()
    with pytest.raises(JobError) as caught:
        plan.apply(spark=spark)
    assert "calling o" not in str(caught.value)
    assert "Exception: " in str(caught.value)
    assert "no changes were made" in str(caught.value)


def test_the_cause_of_an_error_of_java_is_the_deepest_one(spark):
    with pytest.raises(Exception, match="An error occurred while calling") as caught:
        spark._jvm.org.apache.spark.sql.delta.actions.Action.fromJson("{")
    assert "calling" not in cause(caught.value)
    assert "JsonEOFException" in cause(caught.value)
