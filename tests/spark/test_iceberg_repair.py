"""Iceberg tables of Spark 4.1 are repaired from Spark 4.2 and read back by the former, in three kinds of catalogs."""

from __future__ import annotations

import struct

import pytest
import shapely

import geolake_nb as gl
from geolake_nb.errors import ConflictError, NotATableError, RefusedError
from geolake_nb.formats.iceberg import commit as iceberg_commit
from geolake_nb.formats.iceberg import jvm_table as iceberg_jvm
from tests.spark.named_iceberg import doubles, named, points, row, shape

__all__ = ["named"]

pytestmark = pytest.mark.spark

CATALOGS = ("ice", "jdbc", "rest")
COLUMNS = "id, name, st_asbinary(g) AS g, st_asbinary(h) AS h, _row_id AS r, _last_updated_sequence_number AS s"
OTHERS = "record_count, file_path, column_sizes, value_counts, null_value_counts, nan_value_counts, first_row_id"


@pytest.mark.parametrize("catalog", CATALOGS)
def test_a_repaired_table_has_the_same_rows_and_bounds(named, spark, catalog):
    table = named.make(f"{catalog}.db.repaired")
    named.insert(table, *points(0))
    named.insert(table, *points(10), row(15, None, None))
    # From Fiji over the antimeridian; the great circle bulges to the north of its ends.
    named.insert(table, row(20, shapely.Point(170, -20), shapely.LineString([(170, 50), (-170, 50)])))
    named.sql(f"DELETE FROM {table} WHERE id = 11")
    rows = named.sql(f"SELECT {COLUMNS} FROM {table} ORDER BY id")
    files = named.sql(f"SELECT content, {OTHERS} FROM {table}.files ORDER BY file_path")
    assert all(
        3 not in map(int, file["lower_bounds"] or {}) for file in named.sql(f"SELECT lower_bounds FROM {table}.files")
    )

    plan = named.open(table).plan_repair(verify=True)
    report = plan.apply(spark=spark)
    assert report.metrics["files_updated"] == 3
    assert plan.apply(spark=spark).version == report.version

    assert named.sql(f"SELECT {COLUMNS} FROM {table} ORDER BY id") == rows
    assert len(rows) == 9
    assert named.sql(f"SELECT content, {OTHERS} FROM {table}.files ORDER BY file_path") == files
    bounds = {
        file["record_count"]: (file["lower_bounds"], file["upper_bounds"])
        for file in named.sql(f"SELECT record_count, lower_bounds, upper_bounds FROM {table}.files WHERE content = 0")
    }
    assert bounds[4][0]["3"] == doubles(0, 0)
    assert bounds[4][1]["3"] == doubles(3, 3)
    assert (bounds[4][0]["4"], bounds[4][1]["4"]) == (doubles(0, -3), doubles(3, 0))
    assert (bounds[5][0]["3"], bounds[5][1]["3"]) == (doubles(10, 0), doubles(13, 3))
    assert bounds[4][0]["1"] == struct.pack("<i", 0).hex()
    low, high = (struct.unpack("<2d", bytes.fromhex(end["4"])) for end in bounds[1])
    assert (low[0], high[0]) == (170, -170)
    assert low[1] == pytest.approx(50)
    assert high[1] > 50.3
    (last,) = named.sql(f"SELECT operation, summary FROM {table}.snapshots WHERE snapshot_id = {report.version}")
    assert last["operation"] == "replace"
    assert last["summary"]["geolake.transaction"] == plan.transaction

    repaired = named.open(table)
    assert repaired.version == report.version
    assert repaired.plan_repair().is_empty
    window = "ST_Intersects(g, 'POLYGON((0 0, 1 0, 1 1, 0 1, 0 0))')"
    assert repaired.explain(window).files["kept"].to_pylist().count(True) == 1


def test_all_dimensions_have_bounds_of_their_own_length(named, spark):
    table = named.make("ice.db.dimensions")
    shapes = {
        16: shapely.Point(1, 2),
        24: shapely.Point(1, 2, 3),
        32: shapely.from_wkt("POINT M (1 2 4)"),
        33: shapely.from_wkt("POINT ZM (1 2 3 4)"),
    }
    for number, geometry in shapes.items():
        named.insert(table, row(number, geometry, None))
    named.open(table).plan_repair(verify=True).apply(spark=spark)
    result = {
        file["lower_bounds"]["1"]: file["lower_bounds"]["3"]
        for file in named.sql(f"SELECT lower_bounds FROM {table}.files WHERE content = 0")
    }
    expected = {16: (1, 2), 24: (1, 2, 3), 32: (1, 2, float("nan"), 4), 33: (1, 2, 3, 4)}
    assert result == {struct.pack("<i", id_).hex(): doubles(*values) for id_, values in expected.items()}


def test_appends_in_between_stay_and_get_no_bounds(named, spark):
    table = named.make("ice.db.appended")
    named.insert(table, *points(0))
    plan = named.open(table).plan_repair(verify=True)
    named.insert(table, *points(10))
    report = plan.apply(spark=spark)
    assert len(report.rebased_over) == 1
    assert named.sql(f"SELECT count(*) AS n FROM {table}") == [{"n": 8}]
    bounded = [3 in map(int, row["lower_bounds"]) for row in named.sql(f"SELECT lower_bounds FROM {table}.files")]
    assert sorted(bounded) == [False, True]


@pytest.mark.parametrize("merging", [False, True], ids=["fast", "merging"])
def test_an_append_while_the_commit_is_made_is_not_lost(named, spark, monkeypatch, merging):
    table = named.make(f"ice.db.raced_{merging}".lower())
    merge = "true" if merging else "false"
    named.sql(f"ALTER TABLE {table} SET TBLPROPERTIES('commit.manifest.min-count-to-merge'='2',"
              f" 'commit.manifest-merge.enabled'='{merge}')")  # fmt: skip
    named.insert(table, *points(0))
    write, others = iceberg_commit.update_manifests, iter([points(10), points(20)])

    def update_and_lose(*arguments):
        made = write(*arguments)
        for rows in others:
            named.insert(table, *rows)
            break
        return made

    monkeypatch.setattr(iceberg_commit, "update_manifests", update_and_lose)
    report = named.open(table).plan_repair(verify=True).apply(spark=spark)
    assert len(report.rebased_over) == (2 if merging else 1)
    ids = [row["id"] for row in named.sql(f"SELECT id FROM {table} ORDER BY id")]
    assert ids == [*range(4), *range(10, 14), *(range(20, 24) if merging else ())]
    boxes = [3 in map(int, row["lower_bounds"]) for row in named.sql(f"SELECT lower_bounds FROM {table}.files")]
    assert boxes.count(True) == 1


def test_a_file_that_others_took_away_is_a_conflict(named, spark):
    table = named.make("ice.db.taken")
    named.insert(table, *points(0))
    plan = named.open(table).plan_repair(verify=True)
    named.sql(f"DELETE FROM {table} WHERE id < 100")
    with pytest.raises(ConflictError, match="was removed in the meantime; plan again"):
        plan.apply(spark=spark)


def test_an_undo_goes_back_and_loses_nothing(named, spark):
    table = named.make("ice.db.undone")
    named.insert(table, *points(0))
    first = named.open(table).version
    report = named.open(table).plan_repair(verify=True).apply(spark=spark)
    late = named.open(table).plan_undo()
    assert report.undo(spark=spark).version == first
    assert named.open(table).version == first
    assert "3" not in named.sql(f"SELECT lower_bounds FROM {table}.files")[0]["lower_bounds"]
    assert late.apply(spark=spark).version == first
    again = named.open(table).plan_repair(verify=True).apply(spark=spark)
    late = named.open(table).plan_undo()
    named.insert(table, *points(10))
    with pytest.raises(ConflictError, match=f"the snapshot {again.version} is not the current one any more"):
        late.apply(spark=spark)
    with pytest.raises(ConflictError, match="cannot be undone"):
        named.open(table).plan_undo()
    assert named.sql(f"SELECT count(*) AS n FROM {table}") == [{"n": 8}]


def test_geo_columns_that_come_and_go_are_read_and_repaired(named, spark):
    table = named.make("ice.db.evolved")
    named.insert(table, *points(0))
    named.sql(f"ALTER TABLE {table} RENAME COLUMN g TO place")
    named.sql(f"ALTER TABLE {table} DROP COLUMN h")
    named.sql(f"ALTER TABLE {table} ADD COLUMN g GEOMETRY(4326)")
    named.insert(table, f"(9, 'n9', st_setsrid({shape(shapely.Point(50, 5))}, 4326), NULL)")
    named.open(table).plan_repair(verify=True).apply(spark=spark)
    result = named.open(table)
    assert result.files.geo_columns == ("place", "g")
    assert sorted(result.files.table["place.xmax"].to_pylist()) == [3, 50]
    assert result.files.table["g.xmin"].null_count == 2
    assert result.plan_repair(verify=True).apply(spark=spark).version is None
    kept = result.explain("ST_Intersects(place, 'POINT(50 5)')").files["kept"].to_pylist()
    assert sorted(kept) == [False, True]
    assert len(named.sql(f"SELECT * FROM {table}")) == 5


def test_what_cannot_be_changed_here_says_so(named, spark, monkeypatch, tmp_path):
    table = named.make("jdbc.db.by_path")
    named.insert(table, *points(0))
    by_path = gl.open(named.open(table).location)
    with pytest.raises(NotATableError, match=r"open it by its name: catalog\.namespace\.table"):
        by_path.plan_repair(verify=True).apply(spark=spark)
    monkeypatch.setattr(iceberg_jvm, "PROBE", "org.apache.nowhere.CatalogUtil")
    with pytest.raises(RefusedError, match=r"no Iceberg on its class path; start it with the package org\.apache"):
        named.open(table).plan_repair(verify=True).apply(spark=spark)


def test_a_table_without_geo_columns_has_nothing_to_repair(named, spark):
    named.sql("CREATE TABLE ice.db.plain_2 (id INT) USING iceberg TBLPROPERTIES('format-version'='2')")
    named.sql("INSERT INTO ice.db.plain_2 VALUES (1)")
    plan = named.open("ice.db.plain_2").plan_repair()
    assert plan.is_empty
    assert "The table has no geo column." in str(plan)
