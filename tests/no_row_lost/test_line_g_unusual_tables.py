"""Line G: dots in column names, times beyond 2262 in INT96, dates beyond four digits of a year, durations."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.formats.delta.file_stats import typed_partition
from geolake_nb.model.types import PrimitiveType
from geolake_nb.storage.hive_paths import partition_text

POINT = bytearray(shapely.to_wkb(shapely.Point(1, 2)))
# As java.time writes them: a sign where a year has more than four digits or is below 0.
DATES = {"-0044-03-15": -735_525, "0000-01-01": -719_528, "1970-01-01": 0, "+10000-01-01": 2_932_897}


def geo_frame(spark, rows, schema):
    return spark.createDataFrame(rows, schema).selectExpr("*", "st_geomfromwkb(wkb, 4326) AS geom").drop("wkb")


@pytest.mark.parametrize("text", DATES)
def test_partition_dates_of_any_year_are_read_and_written(text):
    values = typed_partition(pa.array([text, None]), PrimitiveType("date"))
    assert values.cast(pa.int32()).to_pylist() == [DATES[text], None]
    assert partition_text(values[0]) == text


@pytest.mark.parametrize(
    ("text", "micros", "back"),
    [
        ("+10000-01-01T00:00:00.000001Z", 253_402_300_800_000_001, "+10000-01-01T00:00:00.000001Z"),
        ("1969-12-31 23:59:59.5", -500_000, "1969-12-31T23:59:59.500000Z"),
        ("2000-01-01T00:00:00.000-08:00", 946_713_600_000_000, "2000-01-01T08:00:00.000000Z"),
        ("-0001-12-31 00:00:00", -62_167_305_600_000_000, "-0001-12-31T00:00:00.000000Z"),
    ],
)
def test_partition_times_of_any_year_are_read_and_written(text, micros, back):
    values = typed_partition(pa.array([text]), PrimitiveType("timestamptz"))
    assert values.cast(pa.int64()).to_pylist() == [micros]
    assert partition_text(values[0]) == back


@pytest.mark.parametrize("text", ["2023-02-30", "soon", "10000000-01-01", "2023-1-1"])
def test_partition_dates_that_are_not_dates_are_not_read(text):
    assert typed_partition(pa.array([text]), PrimitiveType("date")).to_pylist() == [None]


@pytest.mark.spark
def test_a_table_partitioned_by_dates_of_any_year_is_shown_and_rewritten(spark, tmp_path):
    path = str(tmp_path / "t")
    rows = [(number, day, POINT) for number, day in enumerate(DATES.values())]
    frame = geo_frame(spark, rows, "id int, day int, wkb binary")
    frame = frame.selectExpr("id", "date_from_unix_date(day) AS day", "geom")
    frame.write.format("delta").partitionBy("day").save(path)
    table = gl.open(path)
    assert sorted(table.files.table["partition.day"].cast(pa.int32()).to_pylist()) == sorted(DATES.values())
    assert "10000-01-01" in table.files._repr_html_()
    assert len(table.files.to_pandas()) == 4
    table.plan_repair().apply(spark=spark)
    gl.open(path).plan_rewrite(cluster_by="geom").apply(spark=spark)
    collected = spark.read.format("delta").load(path).selectExpr("id", "unix_date(day) AS day").orderBy("id").collect()
    assert [tuple(row) for row in collected] == [(number, day) for number, day in enumerate(DATES.values())]
    assert spark.read.format("delta").load(path).where("day > DATE '9999-12-31'").count() == 1
    assert gl.open(path).explain("day = DATE '1970-01-01'").read.files == 1
    gl.open(path).export(tmp_path / "boxes.geojson")


@pytest.mark.spark
def test_a_dot_in_a_column_name_is_part_of_the_name(spark, tmp_path):
    rows = [(number, f"name {number}", "x", POINT) for number in range(10)]
    frame = geo_frame(spark, rows, "id int, `a.b` string, `p.q` string, wkb binary")
    path = str(tmp_path / "t")
    frame.repartition(2).write.format("delta").save(path)
    gl.open(path).plan_rewrite(cluster_by="geom").apply(spark=spark)
    gl.open(path).plan_rewrite(cluster_by="`a.b`").apply(spark=spark)
    assert spark.read.format("delta").load(path).where("`a.b` = 'name 7'").count() == 1
    for number, options in enumerate(({}, {"cluster_by": "geom"}, {"partition_by": ["p.q"]})):
        written = tmp_path / str(number)
        gl.write(frame, written, columns={"geom": gl.geometry()}, **options)
        gl.write(frame, written, mode="append")
        assert spark.read.format("delta").load(str(written)).where("`a.b` = 'name 7' AND `p.q` = 'x'").count() == 2


@pytest.mark.spark
def test_times_beyond_2262_in_int96_can_be_clustered_by(spark, tmp_path):
    path = str(tmp_path / "t")
    days = ["0001-01-01", "1500-06-01", "1970-01-01", "2262-04-12", "9999-12-31"]
    values = ", ".join(f"({number}, TIMESTAMP '{day} 00:00:00')" for number, day in enumerate(days))
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    spark.conf.set("spark.sql.parquet.int96RebaseModeInWrite", "CORRECTED")
    try:
        frame = spark.sql(f"SELECT * FROM VALUES {values} AS t(id, ts)").selectExpr(
            "id", "ts", "st_geomfromwkb(unhex('0101000000000000000000F03F0000000000000040'), 4326) AS geom"
        )
        frame.coalesce(1).write.format("delta").save(path)
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
        spark.conf.unset("spark.sql.parquet.int96RebaseModeInWrite")
    gl.open(path).plan_rewrite(cluster_by="ts").apply(spark=spark)
    rows = spark.read.format("delta").load(path).selectExpr("id", "string(ts) AS ts").orderBy("id").collect()
    assert [row.ts for row in rows] == [f"{day} 00:00:00" for day in days]


@pytest.mark.spark
def test_a_duration_in_parquet_keeps_its_numbers(spark, tmp_path):
    geo = b'{"version":"1.1.0","primary_column":"geom","columns":{"geom":{"encoding":"WKB","geometry_types":[]}}}'
    table = pa.table(
        {
            "id": pa.array([1, 2], pa.int64()),
            "d": pa.array([5, None], pa.duration("us")),
            "s": pa.array([{"d": 7}, None], pa.struct([("d", pa.duration("ms"))])),
            "geom": pa.array([bytes(POINT)] * 2, pa.binary()),
        }
    ).replace_schema_metadata({b"geo": geo})
    folder = tmp_path / "p"
    folder.mkdir()
    pq.write_table(table, folder / "a.parquet")
    gl.open(str(folder)).plan_convert(str(tmp_path / "d")).apply(spark=spark)
    gl.open(str(folder)).plan_rewrite(cluster_by="d").apply(spark=spark)
    for frame in (spark.read.format("delta").load(str(tmp_path / "d")), spark.read.parquet(str(folder))):
        assert [tuple(row) for row in frame.selectExpr("id", "d", "s.d AS e").orderBy("id").collect()] == [
            (1, 5, 7),
            (2, None, None),
        ]
