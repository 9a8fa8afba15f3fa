"""Spark reads folders that became Delta tables where they lie: geometries, partitions, and types of plain columns."""

from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import geolake_nb as gl
from tests.formats.parquet_sets import GEO, make_set
from tests.kernel_reader import kernel_rows
from tests.oracle.wkb_write import point, write

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("leave_files", [False, True])
def test_spark_reads_geometries_and_deletes_rows(spark, tmp_path, leave_files):
    folder = tmp_path / "t"
    for day in ("1", "2 ä%"):
        make_set(folder / f"day={day.replace('%', '%25')}", files=1, geo=GEO)
    gl.publish(folder, leave_files=leave_files)
    frame = spark.read.format("delta").load(str(folder))
    rows = {
        (row["day"], row["id"], bytes(row["wkb"]))
        for row in frame.selectExpr("day", "id", "ST_AsBinary(geom) wkb").collect()
    }
    assert rows == {(day, n, write(point(float(n), -float(n)))) for day in ("1", "2 ä%") for n in range(10)}
    assert set(kernel_rows(spark, str(folder), ["day", "id", "geom"])) == rows
    assert [row["id"] for row in frame.where("id > 8 AND day = '1'").collect()] == [9]
    spark.sql(f"DELETE FROM delta.`{folder}` WHERE id < 9")
    assert spark.read.format("delta").load(str(folder)).count() == 2


def test_spark_reads_the_types_of_other_writers(spark, tmp_path):
    folder = tmp_path / "t"
    folder.mkdir()
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 678_000)
    columns = {
        "small": pa.array([200, None], pa.uint8()),
        "short": pa.array([60_000, None], pa.uint16()),
        "whole": pa.array([4_000_000_000, None], pa.uint32()),
        "local_ms": pa.array([moment, None], pa.timestamp("ms")),
        "ms": pa.array([moment, None], pa.timestamp("ms", "UTC")),
        "amount": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(10, 2)),
        "deep": pa.array([{"a": [1, 2], "b": "x"}, None]),
    }
    pq.write_table(pa.table(columns), folder / "a.parquet")
    pq.write_table(pa.table({"int96": pa.array([moment], pa.timestamp("us"))}), folder / "b.parquet",
                   use_deprecated_int96_timestamps=True)  # fmt: skip
    gl.publish(folder)
    frame = spark.read.format("delta").load(str(folder))
    [row] = frame.where("small = 200").collect()
    assert (row["small"], row["short"], row["whole"]) == (200, 60_000, 4_000_000_000)
    assert row["local_ms"] == moment
    assert row["amount"] == decimal.Decimal("1.50")
    assert row["deep"].asDict(recursive=True) == {"a": [1, 2], "b": "x"}
    [same] = frame.selectExpr("max(unix_millis(ms)) ms", "max(unix_millis(int96)) int96").collect()
    assert same["ms"] == same["int96"] == int(moment.replace(tzinfo=dt.UTC).timestamp() * 1000)
    assert frame.where("whole > 3999999999").count() == frame.where("amount = 1.5").count() == 1
