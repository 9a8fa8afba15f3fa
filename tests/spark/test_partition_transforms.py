"""Rows that are added to tables partitioned by transforms lie where Spark itself puts them, and Spark finds them."""

from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.errors import RefusedError
from tests.formats.iceberg_tables import HAVASU_FIELDS, FileEntry, PartitionFieldSpec, column, make_iceberg_table
from tests.spark.named_iceberg import named

__all__ = ["named"]

pytestmark = pytest.mark.spark


def rows(count):
    moment = dt.datetime(1969, 12, 30, 22, 59, 59, 999_999)
    times = [moment + n * dt.timedelta(hours=7, microseconds=1) for n in range(count)]
    texts = ["", "a", "aé\U0001f600z", "aé\U0001f600y", "bcd", None]
    return pa.table(
        {
            "id": pa.array([None if n == 5 else (n - 6) * 2**33 + n for n in range(count)], pa.int64()),
            "n": pa.array([n - 15 for n in range(count)], pa.int32()),
            "s": [texts[n % len(texts)] for n in range(count)],
            "d": [None if n == 3 else moment.date() + dt.timedelta(days=11 * n) for n in range(count)],
            "t": pa.array(times, pa.timestamp("us", "UTC")),
            "u": pa.array(times, pa.timestamp("us")),
            "m": pa.array([decimal.Decimal(n - 9) / 4 for n in range(count)], pa.decimal128(9, 2)),
            "b": [bytes([n % 3, n % 2, n]) for n in range(count)],
            "f": pa.array([(n % 4) / 8 for n in range(count)], pa.float32()),
            "l": pa.array([None if n == 7 else n % 5 - 2 for n in range(count)], pa.int64()),
            "w": pa.array([dt.datetime(1970, 1, 1, 0, 0, n % 3) for n in range(count)], pa.timestamp("us", "UTC")),
            "g": [shapely.to_wkb(shapely.Point(n, -n), output_dimension=4, flavor="iso") for n in range(count)],
        }
    )


COLUMNS = (
    "id BIGINT, n INT, s STRING, d DATE, t TIMESTAMP, u TIMESTAMP_NTZ, m DECIMAL(9, 2), b BINARY, f FLOAT,"
    " l BIGINT, w TIMESTAMP, g GEOMETRY(4326)"
)
SPECS = {
    "texts": "truncate(3, s), bucket(3, s)",
    "numbers": "bucket(4, id), truncate(10, n)",
    "times": "years(d), months(u)",
    "days": "days(t), bucket(2, d)",
    "hours": "hours(u)",
    "others": "truncate(50, m), truncate(2, b), bucket(2, m)",
    "mixed": "s, bucket(2, b)",
    "small": "l, f",
    "near": "w, truncate(2, l)",
}
FILTERS = {
    "texts": "s LIKE 'aé%'",
    "numbers": "id = 5 OR n BETWEEN -15 AND -11",
    "times": "d < DATE'1970-01-01' OR u >= TIMESTAMP_NTZ'1970-02-01 00:00:00'",
    "days": "t < TIMESTAMP'1970-01-01 00:00:00'",
    "hours": "u BETWEEN TIMESTAMP_NTZ'1969-12-31 00:00:00' AND TIMESTAMP_NTZ'1970-01-02 00:00:00'",
    "others": "m < -0.5 AND b >= X'01'",
    "mixed": "s = ''",
    "small": "l < 0 AND f > 0.1",
    "near": "w > TIMESTAMP'1970-01-01 00:00:01' AND l >= 0",
}


@pytest.mark.parametrize("name", list(SPECS))
def test_rows_lie_where_spark_puts_them(named, spark, name):
    ours, theirs = f"ice.db.ours_{name}", f"ice.db.theirs_{name}"
    for table in (ours, theirs):
        named.sql(f"CREATE TABLE {table} ({COLUMNS}) USING iceberg PARTITIONED BY ({SPECS[name]})"
                  " TBLPROPERTIES('format-version'='3')")  # fmt: skip
    path = str(named.warehouse / "db" / f"ours_{name}")
    given = rows(24)
    if name == "mixed":  # in one write a text that is empty cannot be told from none
        given = given.filter(pa.compute.is_valid(given["s"]))
    gl.write(given, path, format="iceberg", mode="append", spark=spark)
    assert named.sql(f"SELECT count(*) AS n FROM {ours}") == [{"n": len(given)}]
    named.sql(f"INSERT INTO {theirs} SELECT * FROM {ours}")
    placed = "SELECT n, _partition AS p FROM {} ORDER BY n"
    assert named.sql(placed.format(ours)) == named.sql(placed.format(theirs))
    stored = f"SELECT n FROM {{}} WHERE {FILTERS[name]} ORDER BY n"
    matches = named.sql(stored.format(ours))
    assert matches == named.sql(stored.format(theirs))
    assert 0 < len(matches) < len(given)
    files = named.sql(f"SELECT record_count AS n, partition AS p, lower_bounds AS b FROM {ours}.files")
    assert sum(file["n"] for file in files) == len(given)
    assert all("12" in file["b"] for file in files)
    assert len(files) == len({str(file["p"]) for file in files})


def test_added_rows_are_clustered_in_their_partitions(named, spark):
    table = "ice.db.clustered_buckets"
    named.sql(f"CREATE TABLE {table} ({COLUMNS}) USING iceberg PARTITIONED BY (bucket(2, n))"
              " TBLPROPERTIES('format-version'='3')")  # fmt: skip
    path = str(named.warehouse / "db" / "clustered_buckets")
    frame = spark.createDataFrame(rows(24).drop_columns(["u"]))
    report = gl.write(frame, path, format="iceberg", mode="append", cluster_by="g", spark=spark)
    assert (report.metrics["rows_written"], report.metrics["files_added"]) == (24, 2)
    assert named.sql(f"SELECT count(*) AS n, sum(n) AS s FROM {table} WHERE n = 3") == [{"n": 1, "s": 3}]


def test_a_havasu_table_is_partitioned_alike(spark, tmp_path):
    ids = pa.table({"id": pa.array([7], pa.int64())}).cast(
        pa.schema([pa.field("id", pa.int64(), metadata={b"PARQUET:field_id": b"1"})])
    )
    first = FileEntry("data/a.parquet", rows=1, table=ids, partition={"id_bucket": 1})
    columns = [column(1, "id", "long"), column(2, "geom", "BINARY", **{"havasu.geometry-encoding": "EWKB"})]
    spec = PartitionFieldSpec("id_bucket", 1, "bucket[4]", ["null", "int"])
    make_iceberg_table(tmp_path, columns, [first], partition=[spec], extra_file_fields=HAVASU_FIELDS)
    points = [shapely.to_wkb(shapely.Point(n, n)) for n in range(8)]
    gl.write(
        pa.table({"id": list(range(8)), "geom": points}), str(tmp_path), format="havasu", mode="append", spark=spark
    )
    from pyiceberg.transforms import BucketTransform
    from pyiceberg.types import LongType

    bucket = BucketTransform(4).transform(LongType())
    listed = gl.open(str(tmp_path)).files.table
    import pyarrow.parquet as pq

    for path, value in zip(listed["path"].to_pylist(), listed["partition.id_bucket"].to_pylist(), strict=True):
        if not path.endswith("data/a.parquet"):
            assert {bucket(id_) for id_ in pq.read_table(path)["id"].to_pylist()} == {value}
    assert sum(listed["rows"].to_pylist()) == 9


def test_a_transform_that_nobody_knows_is_refused(tmp_path):
    columns = [column(1, "id", "long")]
    spec = PartitionFieldSpec("z", 1, "zorder[2]", ["null", "int"])
    make_iceberg_table(tmp_path, columns, [FileEntry("data/a.parquet", partition={"z": 1})], partition=[spec])
    with pytest.raises(RefusedError, match=r"partitioned by zorder\(2, z\), which is not supported"):
        gl.write(pa.table({"id": [1]}), str(tmp_path), format="iceberg", mode="append")
