"""A Delta geo table that Spark itself writes: append, delete with a deletion vector, checkpoint."""

from __future__ import annotations

import pytest

from geolake_nb.formats.delta import delta_history, open_delta
from geolake_nb.model.types import GeographyType, GeometryType
from geolake_nb.storage.storage import Storage

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def folder(spark, tmp_path_factory):
    path = tmp_path_factory.mktemp("delta") / "places"
    table = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {table} (id INT, name STRING, g GEOMETRY(4326), h GEOGRAPHY(4326)) USING delta"
        " TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    point = "X'0101000000000000000000F03F0000000000000040'"  # POINT (1 2)
    row = f"'n' || id, IF(id % 5 = 0, NULL, st_setsrid(st_geomfromwkb({point}), 4326)), st_geogfromwkb({point})"
    for start, end in ((0, 10), (10, 30)):
        spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ CAST(id AS INT), {row} FROM range({start}, {end})")
    spark.sql(f"DELETE FROM {table} WHERE id IN (3, 12)")
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, str(path)).checkpoint()
    spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ CAST(id AS INT), {row} FROM range(30, 31)")
    return path


def test_open_agrees_with_spark(spark, folder):
    snapshot = open_delta(Storage.at(str(folder)))
    frame = spark.read.format("delta").load(str(folder))
    assert sum(snapshot.files.table["rows"].to_pylist()) == frame.count() == 29
    names = {path.rpartition("/")[2] for path in frame.inputFiles()}
    assert set(snapshot.files.table["path"].to_pylist()) == names
    assert sum(snapshot.files.table["deleted_rows"].to_pylist()) == 2
    assert snapshot.details.segment.checkpoint is not None
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{folder}`").collect()[0]
    assert detail.numFiles == len(snapshot.files)
    assert detail.sizeInBytes == sum(snapshot.files.table["bytes"].to_pylist())
    assert snapshot.protocol.numbers["minReaderVersion"] == detail.minReaderVersion
    assert set(detail.tableFeatures) == {feature.name for feature in snapshot.protocol.features}
    assert all(feature.known for feature in snapshot.protocol.features)
    kinds = {field.name: type(field.type) for field in snapshot.schema.fields}
    assert kinds["g"] is GeometryType
    assert kinds["h"] is GeographyType


def test_history_agrees_with_spark(spark, folder):
    theirs = spark.sql(f"DESCRIBE HISTORY delta.`{folder}`").collect()
    ours = delta_history(Storage.at(str(folder)))
    assert [(entry.version, entry.operation) for entry in ours] == [
        (entry.version, entry.operation) for entry in theirs
    ]
    assert [entry.timestamp.timestamp() for entry in ours] == pytest.approx(
        [entry.timestamp.timestamp() for entry in theirs], abs=0.002
    )


def test_spark_writes_null_counts_and_no_boxes(folder):
    table = open_delta(Storage.at(str(folder))).files.table
    for column in ("g", "h"):
        assert table[f"{column}.xmin"].null_count == len(table)
        assert table[f"{column}.problem"].null_count == len(table)
    rows = {row["rows"] + row["deleted_rows"]: row for row in table.to_pylist()}
    assert rows[1]["g.null_count"] == 1
    assert rows[1]["h.null_count"] == 0
    # Under the wide bounds of a file with a deletion vector a count between none and all says nothing.
    assert rows[20]["g.null_count"] is None
    assert rows[20]["h.null_count"] == 0


def test_minima_and_maxima_are_those_that_spark_wrote(folder):
    snapshot = open_delta(Storage.at(str(folder)))
    ids = snapshot.scalars(("id",))
    assert sorted(zip(ids.minimum.to_pylist(), ids.maximum.to_pylist(), strict=True)) == [(0, 9), (10, 29), (30, 30)]


def test_older_versions_open_too(spark, folder):
    for version in (1, 3):
        rows = spark.read.format("delta").option("versionAsOf", version).load(str(folder)).count()
        assert sum(open_delta(Storage.at(str(folder)), version=version).files.table["rows"].to_pylist()) == rows
