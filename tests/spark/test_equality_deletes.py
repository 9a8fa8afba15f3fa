"""Rows that equality deletes took away stay away when a table is written again, and later deletes still count."""

from __future__ import annotations

import uuid

import pytest

from geolake_nb.formats.iceberg import commit as iceberg_commit
from tests.spark.named_iceberg import named, points

__all__ = ["named"]

pytestmark = pytest.mark.spark

ROWS = "id, name, st_asbinary(g) AS g, st_asbinary(h) AS h, _row_id AS r, _last_updated_sequence_number AS s"


class Deleter:
    """Commits equality deletes with Iceberg's own writer, as Flink does."""

    def __init__(self, spark, path):
        self._jvm = spark._jvm
        self._tables = self._jvm.org.apache.iceberg.hadoop.HadoopTables(spark._jsc.hadoopConfiguration())
        self._path = str(path)

    def delete(self, *rows, partition=None):
        """Take away all earlier rows that are like one of these, each a dict of columns."""
        iceberg = self._jvm.org.apache.iceberg
        table = self._tables.load(self._path)
        names = list(rows[0])
        schema = table.schema().select(names)
        ids = self._jvm.java.lang.reflect.Array.newInstance(self._jvm.java.lang.Integer.TYPE, len(names))
        for index, name in enumerate(names):
            ids[index] = schema.findField(name).fieldId()
        builder = getattr(iceberg.data, "GenericFileWriterFactory$Builder")(table)
        builder.deleteFileFormat(iceberg.FileFormat.PARQUET).equalityFieldIds(ids).equalityDeleteRowSchema(schema)
        index = table.locationProvider().newDataLocation(f"{uuid.uuid4()}-deletes.parquet")
        file = iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(table.io().newOutputFile(index))
        key = None
        if partition is not None:
            key = iceberg.data.GenericRecord.create(table.spec().partitionType())
            for position, value in enumerate(partition):
                key.set(position, value)
        writer = builder.build().newEqualityDeleteWriter(file, table.spec(), key)
        for row in rows:
            record = iceberg.data.GenericRecord.create(schema)
            for name, value in row.items():
                record.setField(name, value)
            writer.write(record)
        writer.close()
        table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


def numbers(named, table):
    """The sequence numbers of live data files."""
    entries = named.sql(f"SELECT sequence_number AS n FROM {table}.entries WHERE status < 2 AND data_file.content = 0")
    return {entry["n"] for entry in entries}


@pytest.mark.parametrize("version", [2, 3])
def test_deleted_rows_stay_away_and_rows_that_came_later_stay(named, spark, version):
    table = f"ice.db.equal_{version}"
    named.sql(
        f"CREATE TABLE {table} (id INT, name STRING, n INT) USING iceberg TBLPROPERTIES('format-version'='{version}')"
    )
    deleter = Deleter(spark, named.warehouse / "db" / f"equal_{version}")
    named.sql(f"INSERT INTO {table} VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, 3), (4, 'd', NULL)")
    deleter.delete({"id": 2})
    deleter.delete({"name": None, "n": 3}, {"name": "d", "n": 9})
    named.sql(f"INSERT INTO {table} VALUES (2, 'again', 2), (3, NULL, 3)")
    before = named.sql(f"SELECT * FROM {table} ORDER BY id")
    assert [(row["id"], row["name"]) for row in before] == [(1, "a"), (2, "again"), (3, None), (4, "d")]
    last = max(numbers(named, table))

    plan = named.open(table).plan_rewrite(cluster_by="id")
    report = plan.apply(spark=spark)
    assert report.metrics["rows_written"] == 4
    assert named.sql(f"SELECT * FROM {table} ORDER BY id") == before
    # The new files are as old as the newest deletes that they have been through, and no older.
    assert numbers(named, table) == {last}
    deleter.delete({"id": 1})
    assert [row["id"] for row in named.sql(f"SELECT id FROM {table} ORDER BY id")] == [2, 3, 4]
    named.open(table).plan_rewrite(cluster_by="name").apply(spark=spark)
    assert [row["id"] for row in named.sql(f"SELECT id FROM {table} ORDER BY id")] == [2, 3, 4]


def test_deletes_that_others_commit_meanwhile_count_for_the_new_files(named, spark, monkeypatch):
    table = named.make("ice.db.equal_meanwhile")
    deleter = Deleter(spark, named.warehouse / "db" / "equal_meanwhile")
    named.insert(table, *points(0))
    deleter.delete({"id": 0})
    named.insert(table, *points(10))
    before = named.sql(f"SELECT {ROWS} FROM {table} ORDER BY id")
    make, done = iceberg_commit.live_files, []

    def delete_first(*arguments, **options):
        result = list(make(*arguments, **options))
        if not done:
            done.append(deleter.delete({"id": 11}, {"id": 2}))
        return result

    monkeypatch.setattr(iceberg_commit, "live_files", delete_first)
    report = named.open(table).plan_rewrite(cluster_by="g").apply(spark=spark)
    assert len(report.rebased_over) == 1
    # Seven were live when they were written; the two that were deleted since are hidden by those deletes.
    assert report.metrics["rows_written"] == 7
    after = named.sql(f"SELECT {ROWS} FROM {table} ORDER BY id")
    assert after == [row for row in before if row["id"] not in (2, 11)]
    assert [row["id"] for row in after] == [1, 3, 10, 12, 13]


def test_deletes_of_one_partition_leave_the_others_alone(named, spark):
    table = "ice.db.equal_parts"
    named.sql(
        f"CREATE TABLE {table} (id INT, k STRING) USING iceberg PARTITIONED BY (k) TBLPROPERTIES('format-version'='2')"
    )
    named.sql(f"INSERT INTO {table} VALUES (1, 'a'), (1, 'b'), (2, 'b'), (1, NULL)")
    Deleter(spark, named.warehouse / "db" / "equal_parts").delete({"id": 1}, partition=["b"])
    before = named.sql(f"SELECT * FROM {table} ORDER BY id, k")
    assert [tuple(row.values()) for row in before] == [(1, None), (1, "a"), (2, "b")]
    # Only one partition is written again: the delete file stays for what it may still take away.
    named.open(table).plan_rewrite(cluster_by="id", where="k = 'b'").apply(spark=spark)
    assert named.sql(f"SELECT * FROM {table} ORDER BY id, k") == before
    named.open(table).plan_rewrite(cluster_by="id").apply(spark=spark)
    assert named.sql(f"SELECT * FROM {table} ORDER BY id, k") == before
