"""Delta Kernel as a second reader: plain tables, deletion vectors, nested values and geo types, as Spark has them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from tests.kernel_reader import kernel_rows

pytestmark = pytest.mark.spark

POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")


def test_kernel_reads_a_plain_table(spark, tmp_path):
    path = str(tmp_path / "t")
    rows = [(1, "Äpfel", Decimal("1.50"), dt.date(2024, 2, 29), 0.5), (2, None, None, None, None)]
    schema = "id long, name string, price decimal(9,2), day date, share double"
    spark.createDataFrame(rows, schema).coalesce(1).write.format("delta").save(path)
    assert sorted(kernel_rows(spark, path)) == rows
    assert set(kernel_rows(spark, path, ["name", "id"])) == {("Äpfel", 1), (None, 2)}


def test_kernel_reads_nested_values(spark, tmp_path):
    path = str(tmp_path / "t")
    rows = [({"a": "x"}, ["p", None], ("y", [("z",)]), dt.datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC))]
    schema = "m map<string,string>, l array<string>, s struct<b:string,u:array<struct<c:string>>>, at timestamp"
    spark.createDataFrame(rows, schema).write.format("delta").save(path)
    assert kernel_rows(spark, path) == rows


def test_kernel_leaves_out_rows_that_a_deletion_vector_takes_away(spark, tmp_path):
    path = str(tmp_path / "t")
    spark.range(0, 100, 1, 1).write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 3 = 0")
    assert any((tmp_path / "t").glob("deletion_vector_*.bin"))
    assert sorted(kernel_rows(spark, path)) == [(number,) for number in range(100) if number % 3]
    assert sorted(kernel_rows(spark, path, version=0)) == [(number,) for number in range(100)]


def test_kernel_hands_out_geometries_as_their_bytes(spark, tmp_path):
    path = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, g GEOMETRY(4326), h GEOGRAPHY(4326)) USING delta")
    point = f"X'{POINT.hex()}'"
    spark.sql(
        f"INSERT INTO delta.`{path}` SELECT 1, st_setsrid(st_geomfromwkb({point}), 4326), st_geogfromwkb({point})"
    )
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (2, NULL, NULL)")
    assert sorted(kernel_rows(spark, path)) == [(1, POINT, POINT), (2, None, None)]
