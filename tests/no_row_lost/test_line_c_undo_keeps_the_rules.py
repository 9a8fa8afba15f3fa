"""Undo restores nothing that the table no longer allows: Spark makes the tables and tests the rows afterwards."""

from __future__ import annotations

import json

import pytest

import geolake_nb as gl
from geolake_nb.errors import ConflictError, RefusedError

pytestmark = pytest.mark.spark


class Table:
    """A Delta table of Spark."""

    def __init__(self, spark, path, columns, **properties):
        self.spark, self.path = spark, path
        listed = ", ".join(f"'delta.{name}' = '{value}'" for name, value in properties.items())
        self.sql(f"CREATE TABLE {{}} ({columns}) USING delta" + (f" TBLPROPERTIES ({listed})" if listed else ""))

    def sql(self, text):
        return self.spark.sql(text.replace("{}", f"delta.`{self.path}`")).collect()

    def rows(self):
        return sorted(map(tuple, self.sql("SELECT * FROM {}")), key=str)

    @property
    def version(self):
        return gl.open(str(self.path)).snapshot.version

    def log(self):
        return {file.name: file.read_bytes() for file in sorted((self.path / "_delta_log").glob("*.json"))}

    def live(self):
        """The newest metadata and the adds that count, from the plain commits."""
        metadata, adds = {}, {}
        for text in self.log().values():
            for line in text.decode().splitlines():
                action = json.loads(line)
                metadata = action.get("metaData", metadata)
                if "remove" in action:
                    adds.pop(action["remove"]["path"], None)
                if "add" in action:
                    adds[action["add"]["path"]] = action["add"]
        return metadata, adds

    def undo(self, version):
        return gl.open(str(self.path)).plan_undo(version).apply(spark=self.spark)

    def refuses(self, version, match, error=RefusedError):
        before, rows = self.log(), self.rows()
        with pytest.raises(error, match=match):
            self.undo(version)
        assert self.log() == before
        assert self.rows() == rows


def test_not_null_does_not_come_back_over_nulls(spark, tmp_path):
    table = Table(spark, tmp_path / "t", "id INT NOT NULL")
    table.sql("INSERT INTO {} VALUES (1)")
    table.sql("ALTER TABLE {} ALTER COLUMN id DROP NOT NULL")
    dropped = table.version
    plan = gl.open(str(table.path)).plan_undo(dropped)
    table.sql("INSERT INTO {} VALUES (NULL)")
    table.refuses(dropped, "the column 'id' allows no nulls", ConflictError)
    # The row came between the plan and its application.
    before = table.log()
    with pytest.raises(ConflictError, match="added files"):
        plan.apply(spark=spark)
    assert table.log() == before
    assert table.rows() == [(1,), (None,)]


def test_files_with_deletion_vectors_do_not_come_back_without_the_feature(spark, tmp_path):
    table = Table(spark, tmp_path / "t", "id INT", enableDeletionVectors="true")
    table.sql("INSERT INTO {} SELECT /*+ COALESCE(1) */ CAST(id AS INT) FROM range(5)")
    table.sql("DELETE FROM {} WHERE id = 3")
    report = gl.open(str(table.path)).plan_rewrite(cluster_by=["id"]).apply(spark=spark)
    table.sql("ALTER TABLE {} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")
    table.sql("ALTER TABLE {} DROP FEATURE deletionVectors")
    table.refuses(report.version, "the feature 'deletionVectors'")
    assert table.rows() == [(0,), (1,), (2,), (4,)]


def test_an_undo_does_not_leave_an_old_symlink_manifest(spark, tmp_path):
    table = Table(spark, tmp_path / "t", "id INT", **{"compatibility.symlinkFormatManifest.enabled": "true"})
    table.sql("INSERT INTO {} VALUES (1)")
    table.refuses(table.version, "symlink manifest")
    table.sql("DELETE FROM {}")
    table.refuses(table.version, "symlink manifest")


def test_rows_do_not_come_back_that_a_later_constraint_forbids(spark, tmp_path):
    table = Table(spark, tmp_path / "t", "id INT")
    table.sql("INSERT INTO {} VALUES (-1), (5)")
    table.sql("DELETE FROM {} WHERE id < 0")
    deleted = table.version
    table.sql("ALTER TABLE {} ADD CONSTRAINT pos CHECK (id > 0)")
    table.refuses(deleted, "the constraint 'pos' requires id > 0")
    table.sql("ALTER TABLE {} DROP CONSTRAINT pos")
    table.undo(deleted)
    assert table.rows() == [(-1,), (5,)]


def test_a_constraint_and_a_length_do_not_come_back_over_rows_that_break_them(spark, tmp_path):
    table = Table(spark, tmp_path / "t", "id INT, name VARCHAR(5)")
    table.sql("ALTER TABLE {} ADD CONSTRAINT pos CHECK (id > 0)")
    table.sql("INSERT INTO {} VALUES (1, 'a')")
    table.sql("ALTER TABLE {} DROP CONSTRAINT pos")
    constraint = table.version
    plan = gl.open(str(table.path)).plan_undo(constraint)
    assert plan.change.tolerates_appends is False
    table.sql("INSERT INTO {} VALUES (-1, 'b')")
    table.refuses(constraint, "the constraint 'pos' requires id > 0", ConflictError)
    table.sql("ALTER TABLE {} ALTER COLUMN name TYPE STRING")
    length = table.version
    plan = gl.open(str(table.path)).plan_undo(length)
    table.sql("INSERT INTO {} VALUES (2, 'longer than five')")
    table.refuses(length, r"the column 'name' is of type varchar\(5\)", ConflictError)
    with pytest.raises(ConflictError, match="added files"):
        plan.apply(spark=spark)
    # Nothing was added after the last change of the metadata: it is undone.
    table.sql("ALTER TABLE {} ADD CONSTRAINT pos CHECK (id > -9)")
    table.sql("INSERT INTO {} VALUES (3, 'c')")
    table.undo(table.version - 1)
    assert not [key for key in table.live()[0]["configuration"] if "constraints" in key]
    assert len(table.rows()) == 4


def test_values_of_identity_columns_are_not_drawn_twice(spark, tmp_path):
    from delta.tables import DeltaTable, IdentityGenerator

    path = tmp_path / "t"
    (
        DeltaTable.create(spark)
        .location(str(path))
        .addColumn("id", "BIGINT", generatedAlwaysAs=IdentityGenerator(1, 1))
        .addColumn("v", "INT")
        .execute()
    )
    table = Table.__new__(Table)
    table.spark, table.path = spark, path
    table.sql("INSERT INTO {} (v) SELECT /*+ COALESCE(1) */ CAST(id AS INT) FROM range(3)")
    table.sql("INSERT INTO {} (v) SELECT /*+ COALESCE(1) */ CAST(id AS INT) FROM range(3)")
    drawn = max(row[0] for row in table.rows())
    table.undo(table.version)
    assert len(table.rows()) == 3
    table.sql("INSERT INTO {} (v) VALUES (9)")
    assert max(row[0] for row in table.rows()) > drawn


def test_row_ids_stay_when_row_tracking_was_switched_on(spark, tmp_path):
    table = Table(spark, tmp_path / "t", "id INT")
    table.sql("INSERT INTO {} VALUES (1), (2)")
    table.sql("ALTER TABLE {} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    _, adds = table.live()
    assert all("baseRowId" in add for add in adds.values())
    given = [
        version
        for version, text in enumerate(table.log().values())
        if version > 1 and any("baseRowId" in line and line.startswith('{"add"') for line in text.decode().splitlines())
    ]
    for version in given:
        table.refuses(version, "the table tracks rows")
    # Only the switch can be undone, and the ids are still there.
    table.undo(table.version)
    _, adds = table.live()
    assert all("baseRowId" in add for add in adds.values())
    assert table.rows() == [(1,), (2,)]
    table.sql("ALTER TABLE {} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    ids = [row[0] for row in table.sql("SELECT _metadata.row_id FROM {}")]
    assert len(set(ids)) == 2
    assert None not in ids


def test_the_change_data_feed_reports_what_an_undo_did(spark, tmp_path):
    table = Table(spark, tmp_path / "t", "id INT", enableDeletionVectors="true", enableChangeDataFeed="true")
    table.sql("INSERT INTO {} SELECT /*+ COALESCE(1) */ CAST(id AS INT) FROM range(4)")
    table.sql("DELETE FROM {} WHERE id = 3")
    report = table.undo(table.version)
    assert table.rows() == [(0,), (1,), (2,), (3,)]
    reader = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", report.version)
    counts = {}
    for row in reader.load(str(table.path)).collect():
        counts[row.id] = counts.get(row.id, 0) + {"insert": 1, "delete": -1}[row._change_type]
    assert {key: count for key, count in counts.items() if count} == {3: 1}
