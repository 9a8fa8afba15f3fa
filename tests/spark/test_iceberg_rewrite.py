"""Iceberg tables are written again: the rows, their ids and their partitions stay, deleted rows do not come back."""

from __future__ import annotations

import pytest
import shapely

from geolake_nb.errors import ConflictError
from geolake_nb.formats.iceberg import commit as iceberg_commit
from tests.spark.named_iceberg import doubles, named, points, row

__all__ = ["named"]

pytestmark = pytest.mark.spark

MODES = {1: "copy-on-write", 2: "merge-on-read"}
GEO = "id, name, st_asbinary(g) AS g, st_asbinary(h) AS h, _row_id AS r, _last_updated_sequence_number AS s"


def test_a_clustered_table_keeps_its_rows_and_their_ids(named, spark):
    table = named.make("ice.db.clustered")
    for start in (0, 10, 20):
        named.insert(table, *points(start))
    named.insert(table, row(99, None, None))
    named.sql(f"DELETE FROM {table} WHERE id IN (11, 21)")
    before = named.sql(f"SELECT {GEO} FROM {table} ORDER BY id")
    plan = named.open(table).plan_rewrite(cluster_by="g")
    report = plan.apply(spark=spark)
    assert report.metrics["files_removed"] == 4
    assert report.metrics["rows_written"] == 11
    assert plan.apply(spark=spark).version == report.version
    assert named.sql(f"SELECT {GEO} FROM {table} ORDER BY id") == before
    (file,) = named.sql(f"SELECT content, record_count, lower_bounds, upper_bounds FROM {table}.files")
    assert (file["content"], file["record_count"]) == (0, 11)
    assert (file["lower_bounds"]["3"], file["upper_bounds"]["3"]) == (doubles(0, 0), doubles(23, 3))
    assert (file["lower_bounds"]["4"], file["upper_bounds"]["4"]) == (doubles(0, -3), doubles(23, 0))
    assert file["lower_bounds"]["2"] == b"n0".hex()
    # What comes afterwards gets ids of its own.
    named.insert(table, *points(40))
    ids = [record["r"] for record in named.sql(f"SELECT _row_id AS r FROM {table}")]
    assert len(set(ids)) == len(ids) == 15
    named.sql(f"DELETE FROM {table} WHERE id = 40")
    again = named.sql(f"SELECT {GEO} FROM {table} ORDER BY id")
    named.open(table).plan_rewrite(cluster_by="h").apply(spark=spark)
    assert named.sql(f"SELECT {GEO} FROM {table} ORDER BY id") == again


@pytest.mark.parametrize("version", [1, 2])
def test_a_plain_table_stays_in_its_partitions_through_changes_of_spec(named, spark, version):
    table = f"ice.db.parts_{version}"
    named.sql(
        f"CREATE TABLE {table} (id BIGINT, t TIMESTAMP, s STRING, d DECIMAL(9, 2)) USING iceberg"
        " PARTITIONED BY (days(t), bucket(4, id), truncate(2, s), d)"
        f" TBLPROPERTIES('format-version'='{version}', 'write.delete.mode'='{MODES[version]}')"
    )
    values = ", ".join(
        f"({i}, timestamp'2024-02-2{i % 2} 12:00:00', {'NULL' if i == 3 else repr('é' * i)}, {i % 3 / 2})"
        for i in range(12)
    )
    named.sql(f"INSERT INTO {table} VALUES {values}")
    named.sql(f"INSERT INTO {table} VALUES {values}")
    named.sql(f"ALTER TABLE {table} DROP PARTITION FIELD truncate(2, s)")
    named.sql(f"ALTER TABLE {table} ADD PARTITION FIELD s")
    named.sql(f"INSERT INTO {table} VALUES {values}")
    named.sql(f"DELETE FROM {table} WHERE id IN (5, 6)")
    before = named.sql(f"SELECT * FROM {table} ORDER BY id, t")
    # Those that have rows left; files of others are not written again.
    live = named.sql(f"SELECT DISTINCT _spec_id AS spec_id, _partition AS partition FROM {table} ORDER BY 1, 2")
    report = named.open(table).plan_rewrite(cluster_by="id").apply(spark=spark)
    assert report.metrics["rows_written"] == 30
    assert named.sql(f"SELECT * FROM {table} ORDER BY id, t") == before
    files = f"SELECT DISTINCT spec_id, partition FROM {table}.files WHERE content = 0 ORDER BY 1, 2"
    assert [(row["spec_id"], sorted(map(str, row["partition"]))) for row in named.sql(files)] == [
        (file["spec_id"], sorted(map(str, file["partition"]))) for file in live
    ]
    assert named.sql(f"SELECT count(*) AS n FROM {table} WHERE s = '{'é' * 4}' AND id = 4") == [{"n": 3}]
    assert named.sql(f"SELECT count(*) AS n FROM {table} WHERE t < timestamp'2024-02-21'") == [
        {"n": sum(row["t"] < "2024-02-21" for row in before)}
    ]


def test_large_deletion_vectors_are_read_as_spark_reads_them(named, spark):
    table = "ice.db.vectors"
    named.sql(
        f"CREATE TABLE {table} (id BIGINT) USING iceberg"
        " TBLPROPERTIES('format-version'='3', 'write.delete.mode'='merge-on-read')"
    )
    named.sql(f"INSERT INTO {table} SELECT id FROM range(0, 150000, 1, 1)")
    named.sql(f"DELETE FROM {table} WHERE id % 2 = 0 AND id < 70000 OR id BETWEEN 80000 AND 90000 OR id = 149999")
    expected = named.sql(f"SELECT count(*) AS n, sum(id) AS s, sum(_row_id) AS r FROM {table}")
    report = named.open(table).plan_rewrite(cluster_by="id").apply(spark=spark)
    assert report.metrics["rows_written"] == expected[0]["n"] == 104_998
    assert named.sql(f"SELECT count(*) AS n, sum(id) AS s, sum(_row_id) AS r FROM {table}") == expected
    assert named.sql(f"SELECT content FROM {table}.files") == [{"content": 0}]


def test_rows_that_others_add_meanwhile_stay_and_rows_that_they_delete_are_a_conflict(named, spark, monkeypatch):
    table = named.make("ice.db.meanwhile")
    named.insert(table, *points(0))
    plan = named.open(table).plan_rewrite(cluster_by="g")
    named.insert(table, *points(10))
    assert len(plan.apply(spark=spark).rebased_over) == 1
    assert named.sql(f"SELECT count(*) AS n FROM {table}") == [{"n": 8}]
    make, lost = iceberg_commit.live_files, []

    def delete_first(*arguments, **options):
        result = list(make(*arguments, **options))
        if not lost:
            lost.append(named.sql(f"DELETE FROM {table} WHERE id = 11"))
        return result

    monkeypatch.setattr(iceberg_commit, "live_files", delete_first)
    with pytest.raises(ConflictError, match="the table changed in the meantime"):
        named.open(table).plan_rewrite(cluster_by="g").apply(spark=spark)
    assert [row["id"] for row in named.sql(f"SELECT id FROM {table} ORDER BY id")] == [0, 1, 2, 3, 10, 12, 13]


def test_small_files_come_together_and_undo_takes_it_back(named, spark):
    table = named.make("ice.db.small")
    for start in (0, 10):
        named.insert(table, row(start, shapely.Point(start, 0), None))
    first = named.open(table).version
    report = named.open(table).plan_rewrite().apply(spark=spark)
    assert len(named.open(table).files) == 1
    assert report.undo(spark=spark).version == first
    assert len(named.open(table).files) == 2
    assert len(named.sql(f"SELECT id FROM {table}")) == 2
