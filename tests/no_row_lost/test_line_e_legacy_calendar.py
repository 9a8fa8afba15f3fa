"""Line E: Parquet files that Spark wrote in its legacy calendar keep their dates, or are refused by name."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import geolake_nb as gl
from geolake_nb.errors import GeolakeError
from geolake_nb.parquet.column_ranges import gregorian_days

DATES = [
    "0001-01-01",
    "0004-02-29",
    "0100-02-28",
    "0900-12-31",
    "1000-03-01",
    "1500-01-01",
    "1500-02-28",
    "1582-10-04",
    "1582-10-15",
    "1970-01-01",
    "9999-12-31",
]
LEGACY = {
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
}


def rows(spark, times=("1900-01-01 00:00:00", "2020-02-03 04:05:06.789")):
    values = ", ".join(f"({number}, DATE '{text}')" for number, text in enumerate(DATES))
    frame = spark.sql(f"SELECT * FROM VALUES {values} AS t(id, day)")
    stamps = ", ".join(f"TIMESTAMP '{text}'" for text in times)
    geom = "unhex('0101000000000000000000F03F0000000000000040')"
    return frame.selectExpr("id", "day", f"array({stamps})[id % {len(times)}] AS ts", f"{geom} AS geom")


@pytest.fixture
def write_legacy(spark, tmp_path):
    """Writes a frame in the legacy calendar, with times of the given Parquet type."""

    def write(frame, name, times="TIMESTAMP_MICROS"):
        settings = {**LEGACY, "spark.sql.parquet.outputTimestampType": times}
        for key, value in settings.items():
            spark.conf.set(key, value)
        try:
            frame.coalesce(1).write.parquet(str(tmp_path / name))
        finally:
            for key in settings:
                spark.conf.unset(key)
        return tmp_path / name

    return write


def read(spark, path):
    frame = spark.read.parquet(str(path))
    return [tuple(row) for row in frame.selectExpr("id", "string(day)", "string(ts)").orderBy("id").collect()]


def first_file(path):
    return next(Path(path).glob("*.parquet"))


@pytest.mark.spark
def test_dates_are_the_same_after_rewrite_append_and_convert(spark, tmp_path, write_legacy):
    path = write_legacy(rows(spark), "t")
    assert b"org.apache.spark.legacyDateTime" in pq.read_metadata(first_file(path)).metadata
    before = read(spark, path)
    assert [day for _, day, _ in before] == DATES
    columns = {"geom": gl.geometry()}
    gl.open(str(path)).plan_convert(str(tmp_path / "delta"), columns=columns).apply(spark=spark)
    delta = spark.read.format("delta").load(str(tmp_path / "delta"))
    collected = delta.selectExpr("id", "string(day)", "string(ts)").orderBy("id").collect()
    assert [tuple(row) for row in collected] == before
    # Rows that we add to a folder of legacy files are not in that calendar, and their files must not say so.
    gl.write(
        rows(spark).where("id = 5").selectExpr("id + 100 AS id", "day", "ts", "geom"),
        path,
        format="parquet",
        mode="append",
    )
    assert [day for number, day, _ in read(spark, path) if number == 105] == ["1500-01-01"]
    gl.open(str(path)).plan_rewrite(cluster_by="id").apply(spark=spark)
    assert read(spark, path)[:-1] == before


@pytest.mark.spark
@pytest.mark.parametrize("times", ["TIMESTAMP_MICROS", "INT96"])
def test_ancient_times_are_refused_by_name_and_nothing_changes(spark, tmp_path, write_legacy, times):
    path = write_legacy(rows(spark, ("0001-01-01 00:00:00", "2020-01-01 00:00:00")), "t", times)
    listed = sorted(file.name for file in path.iterdir())
    with pytest.raises(
        GeolakeError, match=r"times before 1900 are in the legacy calendar of Spark.*spark\.read\.parquet"
    ):
        gl.open(str(path)).plan_rewrite(cluster_by="id").apply(spark=spark)
    assert sorted(file.name for file in path.iterdir() if file.name in listed) == listed
    assert len(read(spark, path)) == len(DATES)


@pytest.mark.spark
def test_nested_ancient_dates_are_refused_by_name(spark, tmp_path, write_legacy):
    path = write_legacy(rows(spark).selectExpr("id", "struct(day) AS s", "geom"), "t")
    with pytest.raises(GeolakeError, match="dates before 15 October 1582 are in the legacy calendar"):
        gl.open(str(path)).plan_convert(str(tmp_path / "d"), columns={"geom": gl.geometry()}).apply(spark=spark)


@pytest.mark.spark
def test_no_filter_skips_a_legacy_file_that_holds_a_match(spark, write_legacy):
    path = str(write_legacy(rows(spark), "t"))
    for text in DATES:
        where = f"day = DATE '{text}'"
        assert spark.read.parquet(path).where(where).count() == 1
        assert gl.open(path).explain(where).read.files == 1, where
    recent = str(write_legacy(rows(spark).where("id >= 8"), "recent"))
    assert gl.open(recent).explain("day < DATE '1582-10-15'").read.files == 0  # the calendars agree from there on


@pytest.mark.spark
def test_days_are_those_of_spark(spark):
    """Spark's own table of days, over all years from 1 to 1600 and some before."""
    rebase = spark._jvm.org.apache.spark.sql.catalyst.util.RebaseDateTime
    days = np.arange(-800_000, -130_000, 997, np.int32)
    assert gregorian_days(days).tolist() == [rebase.rebaseJulianToGregorianDays(day) for day in days.tolist()]


def test_a_file_of_spark_2_is_legacy_without_the_property(tmp_path):
    day = -171_650  # 1 January 1500 in the Julian calendar
    table = pa.table({"day": pa.array([day], pa.int32()).cast(pa.date32())})
    for version, read_files in ((b"2.4.8", 1), (b"3.5.0", 0)):
        folder = tmp_path / version.decode()
        folder.mkdir()
        pq.write_table(table.replace_schema_metadata({b"org.apache.spark.version": version}), folder / "a.parquet")
        explanation = gl.open(str(folder)).explain(f"day = DATE '{dt.date(1500, 1, 1)}'")
        assert explanation.read.files == read_files
