"""Maintenance of tables of every format: the rows stay, a second run does nothing, and undo reverts it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import shapely

import geolake_nb as gl
from tests.spark.named_iceberg import named, row

__all__ = ["named"]

pytestmark = pytest.mark.spark

SIZE = 6_000


def scattered(start: int, rows: int = 150) -> pa.Table:
    """Rows all over a square, in two partitions."""
    draw = np.random.default_rng(start)
    shapes = shapely.points(draw.random((rows, 2)) * 80)
    ids = pa.array(np.arange(start, start + rows))
    return pa.table(
        {"id": ids, "day": pa.array([f"d{n % 2}" for n in range(rows)]), "geom": pa.array(shapely.to_wkb(shapes))}
    )


def rows_of(table: gl.Table) -> list[tuple[object, ...]]:
    """The rows by a full read, in the order of their ids."""
    read = table.scan(columns=["id", "day", "geom"]).to_arrow()
    shapes = [bytes(value.as_py()) for value in read["geom"].combine_chunks()]
    return sorted(zip(read["id"].to_pylist(), read["day"].to_pylist(), shapes, strict=True))


@pytest.mark.parametrize("format", ["delta", "parquet", "havasu"])
def test_a_table_that_grew_is_maintained_once(format, tmp_path, spark):  # noqa: A002
    where = str(tmp_path / "t")
    columns = {"geom": gl.geometry("OGC:CRS84")}
    gl.write(scattered(0), where, format=format, columns=columns, partition_by=["day"], spark=spark)
    for start in range(1000, 6000, 1000):
        gl.write(scattered(start), where, format=format, mode="append", columns=columns, spark=spark)
    table = gl.open(where)
    before, read = rows_of(table), table.layout(target_file_size=SIZE).share
    report = table.maintain(target_file_size=SIZE, spark=spark)
    assert report.steps[-1].verb == "rewrite"
    after = gl.open(where)
    assert rows_of(after) == before
    assert after.layout(target_file_size=SIZE).share < 0.75 * read
    assert after.maintain(target_file_size=SIZE, spark=spark).steps == ()
    report.steps[-1].undo(spark=spark)
    assert rows_of(gl.open(where)) == before


def test_an_iceberg_table_that_grew_is_maintained_once(named, spark):
    table = named.make("ice.db.maintained")
    draw = np.random.default_rng(3)
    for start in range(0, 200, 40):
        points = shapely.points(draw.random((40, 2)) * 80)
        named.insert(table, *(row(start + number, point, None) for number, point in enumerate(points)))
    rows = f"SELECT id, st_asbinary(g) AS g, _row_id AS r FROM {table} ORDER BY id"
    before = named.sql(rows)
    assert named.open(table).layout(target_file_size=SIZE).share is None  # Spark writes no bounds
    report = named.open(table).maintain(column="g", target_file_size=SIZE, spark=spark)
    assert [step.verb for step in report.steps] == ["repair", "rewrite"]
    assert named.sql(rows) == before
    assert named.open(table).layout(target_file_size=SIZE).share < 0.75
    assert named.open(table).maintain(target_file_size=SIZE, spark=spark).steps == ()
