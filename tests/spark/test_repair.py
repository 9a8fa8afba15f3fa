"""Repair of tables that Spark wrote, with the scan as a Spark job, read back by Spark."""

from __future__ import annotations

import json

import pytest
import shapely

import geolake_nb as gl
from geolake_nb.changes.repair.bound_sources import ScanFile, ScanJob
from geolake_nb.changes.repair.evidence import StoredBound
from geolake_nb.errors import JobError
from geolake_nb.geo.bound_codec import from_delta_wkt
from geolake_nb.model.change import Change, Verb
from geolake_nb.scan.value_scan import ScanColumn
from geolake_nb.spark import scan_bounds
from geolake_nb.spark.applying import JobContext
from geolake_nb.spark.scan_bounds import bundled, run_scan
from geolake_nb.storage.storage import Storage
from tests.changes.repair_tables import GeoTable, wkb
from tests.formats.delta.test_repair import POINTS, ids

pytestmark = pytest.mark.spark


def places(spark, folder, *, properties="", columns="", values=""):
    """Points and lines in three files, the third with nulls and an empty; rows deleted by a deletion vector."""
    table = f"delta.`{folder}`"
    spark.sql(
        f"CREATE TABLE {table} (id INT, g GEOMETRY(4326), h GEOGRAPHY(4326), s STRUCT<p: GEOMETRY(4326)>"
        f"{columns and ', '}{columns}) USING delta"
        f" TBLPROPERTIES ('delta.enableDeletionVectors' = 'true'{properties})"
    )
    shapes = [
        ["POINT (1 2)", "LINESTRING (3 4, 5 9)", "POINT (0 0)"],
        ["POINT (170 10)", "POINT (-170 -10)", "POINT (179 1)"],
        ["POINT (20 20)", "POINT EMPTY", None],
    ]
    for start, texts in enumerate(shapes):
        rows = [
            (start * 10 + number, None if text is None else bytearray(shapely.to_wkb(shapely.from_wkt(text))))
            for number, text in enumerate(texts)
        ]
        frame = spark.createDataFrame(rows, "id int, b binary").coalesce(1)
        frame.createOrReplaceTempView("new_rows")
        spark.sql(
            f"INSERT INTO {table} SELECT id, st_setsrid(st_geomfromwkb(b), 4326), st_geogfromwkb(b),"
            f" named_struct('p', st_setsrid(st_geomfromwkb(b), 4326)){values and ', '}{values} FROM new_rows"
        )
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    return folder


def rows(spark, folder, version=None):
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    frame = reader.load(str(folder))
    return sorted(
        (row.id, None if row.g is None else bytes(row.g), None if row.h is None else bytes(row.h))
        for row in frame.selectExpr("id", "st_asbinary(g) AS g", "st_asbinary(h) AS h").collect()
    )


def stats_in_log(folder):
    snapshot = gl.open(str(folder)).snapshot
    return [snapshot.details.stats.object(row) for row in range(len(snapshot.files))]


def test_spark_reads_the_same_rows_after_a_repair_and_time_travel_works(spark, tmp_path):
    folder = places(spark, tmp_path / "t")
    before = rows(spark, folder)
    table = gl.open(str(folder))
    plan = table.plan_repair()
    assert plan.change.job is not None
    collected = []
    report = plan.apply(spark=spark, on_progress=lambda *counts: collected.append(counts))
    assert report.version == table.version + 1
    assert report.metrics["files_updated"] == 3
    assert collected[-1][0] == collected[-1][1]
    assert rows(spark, folder) == before
    assert rows(spark, folder, table.version) == before
    files = gl.open(str(folder)).files.table
    by_first = {box[0]: box for box in zip(*(files[f"g.{side}"].to_pylist() for side in ("xmin", "xmax")), strict=True)}
    assert len(by_first) == 3
    for stats in stats_in_log(folder):
        low, high = stats["minValues"], stats["maxValues"]
        planar, edges = from_delta_wkt(low["g"], high["g"]), from_delta_wkt(low["h"], high["h"])
        assert not planar.wraps
        assert not edges.wraps
        assert edges.ymin <= planar.ymin + 1e-9
        assert from_delta_wkt(low["s"]["p"], high["s"]["p"]).contains(planar)
    vectors = gl.open(str(folder)).snapshot.details.deletion_vectors.to_pylist()
    marked = next(row for row, vector in enumerate(vectors) if vector is not None)
    assert stats_in_log(folder)[marked]["tightBounds"] is False
    assert gl.open(str(folder)).plan_repair().apply(spark=spark).version is None
    assert gl.open(str(folder)).plan_repair(verify=True).apply(spark=spark).version is None
    assert not [finding for finding in gl.open(str(folder)).check() if finding.rule.startswith("bounds")]


def test_a_checkpoint_of_spark_keeps_the_bounds(spark, tmp_path):
    folder = places(spark, tmp_path / "t")
    gl.open(str(folder)).plan_repair().apply(spark=spark)
    before = sorted(json.dumps(stats, sort_keys=True) for stats in stats_in_log(folder))
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog
    log.clearCache()
    log.forTable(spark._jsparkSession, str(folder)).checkpoint()
    snapshot = gl.open(str(folder)).snapshot
    assert snapshot.details.segment.checkpoint is not None
    assert sorted(json.dumps(stats, sort_keys=True) for stats in stats_in_log(folder)) == before
    assert gl.open(str(folder)).plan_repair().apply(spark=spark).version is None


def test_column_mapping_of_spark(spark, tmp_path):
    folder = places(spark, tmp_path / "t", properties=", 'delta.columnMapping.mode' = 'name'")
    before = rows(spark, folder)
    gl.open(str(folder)).plan_repair().apply(spark=spark)
    assert rows(spark, folder) == before
    assert gl.open(str(folder)).files.table["g.xmin"].null_count == 0
    spark.sql(f"ALTER TABLE delta.`{folder}` RENAME COLUMN g TO geo")
    assert gl.open(str(folder)).files.table["geo.xmin"].null_count == 0
    assert gl.open(str(folder)).plan_repair().apply(spark=spark).version is None


def test_an_undo_of_a_repair_is_read_by_spark(spark, tmp_path):
    folder = places(spark, tmp_path / "t")
    before = stats_in_log(folder)
    report = gl.open(str(folder)).plan_repair().apply(spark=spark)
    undone = report.undo()
    assert undone.version == report.version + 1
    assert sorted(map(str, stats_in_log(folder))) == sorted(map(str, before))
    assert len(rows(spark, folder)) == 8


def test_a_large_file_is_read_in_parts(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(scan_bounds, "_PART_BYTES", 300)
    table = GeoTable(tmp_path)
    shapes = [f"POINT ({number} {-number})" for number in range(20)] + [None, "POINT EMPTY"]
    table.file("a.parquet", {"id": ids(22), "geom": wkb(*shapes)}, {"numRecords": 22}, row_group_size=3)
    table.file("b.parquet", {"id": ids(2), "geom": wkb(POINTS[0], b"bad")}, {"numRecords": 2})
    change = table.plan()
    units = [unit for bundle in bundled(change.job, tasks=4) for unit in bundle]
    assert len([unit for unit in units if unit.file == 0]) > 3
    done = run_scan(change, change.job, JobContext(spark, table.storage, "x"))
    (action,) = map(json.loads, done.actions)
    stats = json.loads(action["add"]["stats"])
    assert (stats["minValues"]["geom"], stats["maxValues"]["geom"]) == ("POINT(0 -19)", "POINT(19 0)")
    assert stats["nullCount"]["geom"] == 1
    assert done.metrics["values_without_bound"] == 1
    assert done.actions == table.scanned(change).actions


def test_a_file_that_is_gone_fails_the_job_and_not_the_table(spark, tmp_path):
    table = GeoTable(tmp_path)
    table.file("a.parquet", {"id": ids(2), "geom": wkb(*POINTS)}, {"numRecords": 2})
    change = table.plan()
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(JobError, match="the scan failed"):
        run_scan(change, change.job, JobContext(spark, table.storage, "x"))
    assert table.open().version == 1


def test_a_bucket_is_scanned_too(spark, tmp_path, s3):
    table = GeoTable(tmp_path)
    table.file("a.parquet", {"id": ids(2), "geom": wkb(*POINTS)}, {"numRecords": 2})
    storage = Storage.at("s3://lake/scan", options=s3.options)
    s3.put("lake", "scan/a.parquet", (tmp_path / "a.parquet").read_bytes())
    column = ScanColumn("geom", ("geom",), None, gl.geometry())
    file = ScanFile("a.parquet", "a.parquet", 1000, '{"path":"a.parquet"}', False, (StoredBound(0, None, False),))
    change = Change(Verb.REPAIR, table.open().format, "s3://lake/scan", 1)
    done = run_scan(change, ScanJob((column,), (file,)), JobContext(spark, storage, "x"))
    assert "POINT(11 52)" in done.actions[0]
