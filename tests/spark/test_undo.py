"""Doing and undoing on tables of Spark, with Spark as the other writer and as the reader."""

from __future__ import annotations

import pytest

import geolake_nb as gl
from geolake_nb.errors import ConflictError
from tests.formats.delta.log_maker import LogMaker
from tests.formats.delta.test_undo import state
from tests.spark.test_repair import places, rows

pytestmark = pytest.mark.spark

# Every verb that changes a table that is there, by its name: a plan, and what it needs consent for.
VERBS = {
    "repair": lambda table: (table.plan_repair(), ()),
    "verify": lambda table: (table.plan_repair(verify=True), ()),
    "rewrite": lambda table: (table.plan_rewrite(cluster_by="g"), ()),
    "collations": lambda table: (table.plan_collations({"name": "spark.UTF8_LCASE"}), ("collations",)),
}


@pytest.mark.parametrize("verb", VERBS)
def test_doing_and_undoing_leads_back_to_the_state_before(spark, tmp_path, verb):
    folder = places(spark, tmp_path / "t", columns="name STRING", values="'n' || id")
    log = LogMaker(folder)
    before, read = state(log), rows(spark, folder)
    plan, consent = VERBS[verb](gl.open(str(folder)))
    report = plan.apply(spark=spark, consent=consent)
    assert report.version is not None
    assert state(log) != before
    assert rows(spark, folder) == read
    again = report.undo(spark=spark)
    assert again.version == report.version + 1
    assert state(log) == before
    assert rows(spark, folder) == read
    redone = gl.open(str(folder)).plan_undo(again.version).apply(spark=spark)
    assert state(log) == state(log, report.version)
    assert rows(spark, folder) == read
    assert redone.version == again.version + 1


def test_what_spark_appends_survives_and_what_it_deletes_stands_in_the_way(spark, tmp_path):
    folder = places(spark, tmp_path / "t")
    table = f"delta.`{folder}`"
    report = gl.open(str(folder)).plan_repair().apply(spark=spark)
    spark.sql(f"INSERT INTO {table} SELECT id + 100, g, h, s FROM {table} WHERE id = 0")
    report.undo()
    assert len(rows(spark, folder)) == 9
    report = gl.open(str(folder)).plan_repair().apply(spark=spark)
    spark.sql(f"DELETE FROM {table} WHERE id = 0")
    deleted = gl.open(str(folder)).version
    with pytest.raises(ConflictError, match=rf"undo version {deleted} \(DELETE\) first"):
        report.undo()
    # The commit of another engine is undone by its version, and ours after it.
    gl.open(str(folder)).plan_undo(deleted).apply()
    assert len(rows(spark, folder)) == 9
    report.undo()
    assert len(rows(spark, folder)) == 9


def test_an_append_and_an_alter_of_spark_are_taken_back(spark, tmp_path):
    folder = places(spark, tmp_path / "t")
    table = f"delta.`{folder}`"
    log = LogMaker(folder)
    before, read = state(log), rows(spark, folder)
    spark.sql(f"INSERT INTO {table} SELECT id + 100, g, h, s FROM {table}")
    gl.open(str(folder)).plan_undo(gl.open(str(folder)).version).apply()
    assert rows(spark, folder) == read
    assert state(log) == before
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('team' = 'roads')")
    gl.open(str(folder)).plan_undo(gl.open(str(folder)).version).apply()
    assert state(log) == before
    assert "team" not in {row.key for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}
