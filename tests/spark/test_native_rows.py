"""Spark's own readers in a comparison of engines."""

from __future__ import annotations

import pytest

import geolake_nb as gl
from geolake_nb.api import engine_runs
from tests import small_tables
from tests.api.lying_tables import IN_WINDOW, WINDOW, shrink_box, shrink_log, write_numbers, write_points


@pytest.fixture(autouse=True)
def _run_once(monkeypatch):
    monkeypatch.setattr(engine_runs, "_TWICE", 0.0)


def compare(spark, folder, where, *engines):
    return gl.open(str(folder)).compare_engines(where, engines=["spark", *engines], spark=spark)


def test_spark_reads_parquet_by_its_own_reader_and_loses_nothing_by_boxes(spark, tmp_path):
    folder = write_points(tmp_path / "100% [a]{b}")
    shrink_box(folder / "part-1.parquet", 2, gl.Box(27.3, 0, 27.375, 9))
    answer = compare(spark, folder, WINDOW, "duckdb")
    assert [(run.skipping, run.rows, run.returned, run.lost) for run in answer] == [
        (None, IN_WINDOW, IN_WINDOW, 0),
        (True, IN_WINDOW - 9, IN_WINDOW - 9, 9),
        (False, IN_WINDOW, IN_WINDOW, 0),
    ]
    single = gl.open(str(folder / "part-0.parquet")).compare_engines("id < 3", engines=["spark"], spark=spark)
    assert [run.rows for run in single] == [3, 3]
    # The command that the comparison prints.
    report = gl.open(str(folder)).plan_repair(verify=True).apply(spark=spark)
    assert gl.open(report.location).compare_engines(WINDOW, engines=["geolake", "duckdb"]).agree


def test_spark_reads_delta_at_its_version_and_skips_by_plain_conditions(spark, tmp_path):
    geo = small_tables.make_delta(tmp_path / "geo")
    assert [run.rows for run in compare(spark, geo, (9, 49, 11.5, 52))] == [2]
    folder = tmp_path / "t"
    shrink_log(write_numbers(folder), 104)
    before = spark.conf.get("spark.sql.parquet.filterPushdown")
    answer = compare(spark, folder, "id > 105")
    assert [(run.skipping, run.rows, run.lost) for run in answer] == [(True, 0, 4), (False, 4, 0)]
    assert spark.conf.get("spark.sql.parquet.filterPushdown") == before
    older = gl.open(str(folder)).at(0).compare_engines("id > 5", engines=["spark"], spark=spark)
    assert [run.rows for run in older] == [4, 4]


def test_what_spark_cannot_read_is_one_sentence(spark, tmp_path):
    [run] = compare(spark, small_tables.make_iceberg(tmp_path / "t"), (9, 49, 11.5, 52))
    assert run.rows is None
    assert run.problem
    assert "\n" not in run.problem


def test_strings_are_compared_by_the_collation_of_the_column(spark, tmp_path):
    folder = str(tmp_path / "t")
    spark.createDataFrame([(1, "a"), (2, "A"), (3, "b")], "id INT, name STRING").coalesce(1).write.format("delta").save(
        folder
    )
    plan = gl.open(folder).plan_collations({"name": "spark.UTF8_LCASE"})
    plan.apply(spark=spark, consent="collations")
    answer = compare(spark, folder, "name = 'A' AND id > 0", "geolake", "sedonadb", "deltalake")
    assert (answer.rows, answer.agree) == (2, True)
    assert len([run for run in answer if run.problem is None]) >= 5
