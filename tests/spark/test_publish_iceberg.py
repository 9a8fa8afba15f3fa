"""Spark and PyIceberg read folders that became Iceberg tables where they lie, and Spark writes to them."""

from __future__ import annotations

import datetime as dt
import decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

import geolake_nb as gl
from geolake_nb.model.table_format import Answer
from geolake_nb.pyiceberg.bridge import enabled
from tests.formats.parquet_sets import GEO, make_set, points
from tests.oracle.wkb_write import point, write

pytestmark = pytest.mark.spark


@pytest.fixture
def places(iceberg_spark):
    """A published folder of points in two partitions, and its name in the catalog of Spark."""
    name = "places"
    folder = iceberg_spark.warehouse / "published" / name
    for day in ("1", "2 ä%"):
        make_set(folder / f"day={day.replace('%', '%25')}", files=1, geo=GEO)
    gl.publish(folder, format="iceberg")
    return folder, f"ice.published.{name}"


def test_spark_reads_and_deletes_rows_and_pyiceberg_and_duckdb_read_them(places, iceberg_spark):
    folder, table = places
    shapes = {(day, n, write(point(float(n), -float(n)))) for day in ("1", "2 ä%") for n in range(10)}
    rows = iceberg_spark.sql(f"SELECT day, id, ST_AsBinary(geom) wkb FROM {table}")
    assert {(row["day"], row["id"], bytes.fromhex(row["wkb"])) for row in rows} == shapes
    assert iceberg_spark.sql(f"SELECT id FROM {table} WHERE id > 8 AND day = '1'") == [{"id": 9}]
    [files] = iceberg_spark.sql(f"SELECT count(*) n, count(DISTINCT partition.day) days FROM {table}.files")
    assert files == {"n": 2, "days": 2}
    with enabled():
        static = StaticTable.from_metadata(str(folder / "metadata" / "v1.metadata.json"))
        read = static.scan().to_arrow().to_pylist()
        assert len(list(static.scan(row_filter="day = '1'").plan_files())) == 1
    assert {(row["day"], row["id"], bytes(row["geom"])) for row in read} == shapes
    core = duckdb.sql(
        f"SELECT day, id FROM read_parquet('{folder}/day=*/*.parquet', hive_partitioning=true)"
    ).fetchall()
    assert sorted(core) == sorted((day, number) for day, number, _ in shapes)
    iceberg_spark.sql(f"DELETE FROM {table} WHERE id < 9")
    lineage = iceberg_spark.sql(f"SELECT id, _row_id FROM {table}")
    assert sorted(row["_row_id"] for row in lineage) == [9, 19], "the ids of the rows that stay"
    assert gl.open(str(folder)).scan().to_arrow()["id"].to_pylist() == [9, 9]
    iceberg_spark.sql(f"INSERT INTO {table} SELECT 99, NULL, 'x'")
    assert sorted(row["id"] for row in iceberg_spark.sql(f"SELECT id FROM {table}")) == [9, 9, 99]


def test_spark_reads_the_types_of_other_writers(iceberg_spark):
    folder = iceberg_spark.warehouse / "published" / "types"
    folder.mkdir(parents=True)
    moment = dt.datetime(2024, 1, 2, 3, 4, 5, 678_000)
    columns = {
        "byte": pa.array([-3, None], pa.int8()),
        "wide": pa.array([7, None], pa.int32()),
        "real": pa.array([0.5, None], pa.float32()),
        "local": pa.array([moment, None], pa.timestamp("us")),
        "at": pa.array([moment, None], pa.timestamp("us", "UTC")),
        "local_ms": pa.array([moment, None], pa.timestamp("ms")),
        "ms": pa.array([moment, None], pa.timestamp("ms", "UTC")),
        "amount": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(10, 2)),
        "deep": pa.array([{"a": [1, 2], "b": "x"}, None]),
        "pairs": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
        "flag": pa.array([True, None]),
        "day": pa.array([dt.date(2024, 1, 2), None]),
    }
    pq.write_table(pa.table(columns), folder / "a.parquet")
    later = {
        "int96": pa.array([moment], pa.timestamp("us")),
        "real": pa.array([0.25], pa.float64()),
        "wide": pa.array([2**40], pa.int64()),
    }
    pq.write_table(pa.table(later), folder / "b.parquet", use_deprecated_int96_timestamps=True)
    plan = gl.open(str(folder)).plan_publish(format="iceberg")
    assert "'wide' is int32, int64 in files, and becomes int64" in " ".join(str(plan).split())
    plan.apply()
    table = "ice.published.types"
    [row] = iceberg_spark.sql(f"SELECT * FROM {table} WHERE byte = -3")
    assert (row["byte"], row["wide"], row["real"]) == (-3, 7, 0.5)
    assert row["amount"] == "1.50"
    assert row["deep"] == [[1, 2], "x"]
    assert row["pairs"] == {"k": 1}
    assert (row["flag"], row["day"], row["local"]) == (True, "2024-01-02", str(moment))
    [same] = iceberg_spark.sql(f"SELECT max(unix_millis(at)) at, max(unix_millis(int96)) b FROM {table}")
    [again] = iceberg_spark.sql(f"SELECT max(unix_millis(ms)) ms, max(local_ms) local FROM {table}")
    assert again == {"ms": same["at"], "local": str(moment)}, "milliseconds, which batches would be misread of"
    assert same["at"] == same["b"] == int(moment.replace(tzinfo=dt.UTC).timestamp() * 1000)
    for where in (
        "wide > 1099511627775",
        "real < 0.3",
        "wide = 7",
        "amount = 1.5",
        "day = DATE '2024-01-02'",
        "byte < 0",
    ):
        assert len(iceberg_spark.sql(f"SELECT 1 FROM {table} WHERE {where}")) == 1, where
        if "DATE" not in where:
            assert gl.open(str(folder)).scan(where).count() == 1, where
    with enabled():
        rows = (
            StaticTable.from_metadata(str(folder / "metadata" / "v1.metadata.json"))
            .scan(selected_fields=("wide",))
            .to_arrow()
        )
    assert sorted(value for value in rows["wide"].to_pylist() if value) == [7, 2**40]


def test_spark_reads_files_left_alone_but_for_the_geo_columns_without_a_geo_type(iceberg_spark):
    folder = make_set(iceberg_spark.warehouse / "published" / "alone", files=2)
    plan = gl.open(str(folder)).plan_publish(format="iceberg", leave_files=True)
    spark = next(fact for fact in plan.change.engines if fact.engine.startswith("Spark 4.1"))
    assert spark.reads is Answer.NO
    assert "geo type" in spark.note
    plan.apply()
    assert len(iceberg_spark.sql("SELECT id FROM ice.published.alone WHERE id > 4")) == 15
    with pytest.raises(AssertionError, match="ClassCastException"):
        iceberg_spark.sql("SELECT ST_AsBinary(geom) FROM ice.published.alone")
    assert gl.open(str(folder)).scan("ST_Intersects(geom, 'POINT(3 -3)')").to_arrow()["id"].to_pylist() == [3]


def test_columns_are_found_by_the_field_ids_that_files_have(iceberg_spark):
    folder = iceberg_spark.warehouse / "published" / "ids"
    folder.mkdir(parents=True)
    rows = points(0, 3)
    ids = [
        field.with_metadata({b"PARQUET:field_id": str(9 - index).encode()}) for index, field in enumerate(rows.schema)
    ]
    pq.write_table(rows.cast(pa.schema(ids)), folder / "a.parquet")
    gl.publish(folder, format="iceberg", columns={"geom": "geometry(EPSG:3857)"})
    assert [field.id for field in gl.open(str(folder)).schema.fields] == [9, 8]
    rows_found = iceberg_spark.sql("SELECT id, ST_Srid(geom) srid FROM ice.published.ids")
    assert sorted(rows_found, key=lambda row: row["id"]) == [{"id": n, "srid": 3857} for n in range(3)]
