"""Columns of bytes and text become geo columns of real tables that Spark made."""

from __future__ import annotations

import json
from collections import Counter

import pytest

import geolake_nb as gl
from geolake_nb.errors import JobError, RefusedError
from tests.kernel_reader import kernel_rows
from tests.spark.geo_rows import SHAPES, assert_bounds_are_sound, iso, logical_types, rows_of, wkb

pytestmark = pytest.mark.spark


def enable(path, spark, **columns):
    plan = gl.open(str(path)).plan_enable(columns)
    return plan.apply(spark=spark, consent="geospatial")


def save(spark, path, rows, schema, *, partition_by=(), **properties):
    writer = spark.createDataFrame(rows, schema).repartition(2).write.format("delta").partitionBy(*partition_by)
    for name, value in properties.items():
        writer = writer.option(name, value)
    writer.save(str(path))


def test_wkb_ewkb_and_wkt_become_geometries_and_geographies(spark, tmp_path):
    rows = [
        (number, wkb(text), wkb(text, srid=4326 if number % 2 else 0), text, number % 2)
        for number, text in enumerate(SHAPES)
    ]
    save(spark, tmp_path / "t", rows, "id long, geom binary, e binary, w string, p int", partition_by=["p"])
    report = enable(tmp_path / "t", spark, geom=gl.geometry(), e=gl.geometry("EPSG:4326"), w=gl.geography())
    assert report.version == 1
    result = rows_of(spark, tmp_path / "t", "id", "geom", "e", "w", "p", geo=("geom", "e", "w"))
    assert result == Counter((number, *[iso(text)] * 3, number % 2) for number, text in enumerate(SHAPES))
    table = gl.open(str(tmp_path / "t"))
    assert str(table.schema).splitlines()[1:4] == [
        "geom: geometry(OGC:CRS84)", "e: geometry(OGC:CRS84)", "w: geography(OGC:CRS84, spherical)",
    ]  # fmt: skip
    assert table.snapshot.partition_columns == ("p",)
    assert logical_types(tmp_path / "t") == {json.dumps({"Type": "Geometry"})}
    assert {json.loads(text)["Type"] for text in logical_types(tmp_path / "t", "w")} == {"Geography"}
    for column in ("geom", "e"):
        assert_bounds_are_sound(tmp_path / "t", column)
    assert_bounds_are_sound(tmp_path / "t", "w", windows=0)
    assert not [finding for finding in table.check(deep=True) if finding.severity.name == "ERROR"]
    before = rows_of(spark, tmp_path / "t", "id", "w", "p", geo=(), version=0)
    assert before == Counter((number, text, number % 2) for number, text in enumerate(SHAPES))
    history = spark.sql(f"DESCRIBE HISTORY delta.`{tmp_path / 't'}`").orderBy("version").collect()
    assert [row.operation for row in history] == ["WRITE", "GEOLAKE ENABLE"]
    assert "geography(OGC:CRS84, spherical)" in history[1].operationParameters["columns"]
    assert len(kernel_rows(spark, str(tmp_path / "t"))) == len(SHAPES)
    # Spark goes on writing, and the report takes it all back.
    spark.sql(f"DELETE FROM delta.`{tmp_path / 't'}` WHERE id = 0")
    assert sum(rows_of(spark, tmp_path / "t", "id").values()) == len(SHAPES) - 1


def test_bad_rows_are_named_and_nothing_is_committed(spark, tmp_path):
    rows = [(1, wkb("POINT (1 2)")), (2, bytearray(b"\x01\x01")), (3, wkb("POINT (3 4)", srid=3857)), (4, None)]
    save(spark, tmp_path / "t", rows, "id long, geom binary")
    with pytest.raises(JobError) as caught:
        enable(tmp_path / "t", spark, geom=gl.geometry())
    assert "geom: 2 values" in caught.value.what
    assert "not valid WKB: the value ends inside a geometry: X'0101'" in caught.value.what
    assert "SRID 3857 is not the column's OGC:CRS84: X'0101000020110f0000" in caught.value.what
    table = gl.open(str(tmp_path / "t"))
    assert (table.version, str(table.schema).splitlines()[1]) == (0, "geom: binary")
    assert set(caught.value.orphans).isdisjoint(table.files.table["path"].to_pylist())
    assert rows_of(spark, tmp_path / "t", "id") == Counter({(1,): 1, (2,): 1, (3,): 1, (4,): 1})


def test_column_mapping_and_deleted_rows_are_kept_out_and_in(spark, tmp_path):
    path = tmp_path / "t"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id LONG, old BINARY, s STRUCT<w: STRING, n: INT>) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')"
    )
    rows = [(number, wkb(text), (text, number)) for number, text in enumerate(SHAPES)]
    frame = spark.createDataFrame(rows, "id long, old binary, s struct<w: string, n: int>").coalesce(1)
    frame.write.format("delta").mode("append").save(str(path))
    spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN old TO geom")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 3")
    assert gl.open(str(path)).files.table["deleted_rows"].to_pylist() == [1]
    enable(path, spark, geom=gl.geometry(), **{"s.w": gl.geometry("EPSG:3857")})
    table = gl.open(str(path))
    assert table.files.table["deleted_rows"].to_pylist() == [0] * len(table.files)
    read_back = (
        spark.read.format("delta").load(str(path)).selectExpr("id", "st_asbinary(geom)", "st_asbinary(s.w)", "s.n")
    )
    wanted = [(number, iso(text), iso(text), number) for number, text in enumerate(SHAPES) if number != 3]
    assert Counter(
        tuple(bytes(value) if isinstance(value, bytearray) else value for value in row) for row in read_back.collect()
    ) == (Counter(wanted))
    facts = table.files.table
    for column in ("geom", "s.w"):
        assert (min(facts[f"{column}.xmin"].to_pylist()), max(facts[f"{column}.xmax"].to_pylist())) == (-170, 110)
    names = {feature.name for feature in table.protocol.features}
    assert {"columnMapping", "deletionVectors", "geospatial"} <= names


def test_it_needs_a_consent_and_can_be_undone(spark, tmp_path):
    save(spark, tmp_path / "t", [(1, wkb("POINT (1 2)"))], "id long, geom binary")
    plan = gl.open(str(tmp_path / "t")).plan_enable({"geom": gl.geometry()})
    with pytest.raises(RefusedError, match="geospatial"):
        plan.apply(spark=spark)
    report = plan.apply(spark=spark, consent="geospatial", expect=plan.hash)
    assert report.undo(spark=spark).version == 2
    assert str(gl.open(str(tmp_path / "t")).schema).splitlines()[1] == "geom: binary"
    assert rows_of(spark, tmp_path / "t", "id", "geom", geo=()) == Counter({(1, iso("POINT (1 2)")): 1})


def test_the_feature_alone_lets_spark_add_a_geo_column(spark, tmp_path):
    save(spark, tmp_path / "t", [(1,)], "id long")
    gl.open(str(tmp_path / "t")).plan_enable({}).apply(consent="geospatial")
    spark.sql(f"ALTER TABLE delta.`{tmp_path / 't'}` ADD COLUMN g GEOMETRY(4326)")
    assert rows_of(spark, tmp_path / "t", "id", "g", geo=("g",)) == Counter({(1, None): 1})


def test_an_append_in_between_makes_it_fail(spark, tmp_path):
    from geolake_nb.errors import ConflictError

    save(spark, tmp_path / "t", [(1, wkb("POINT (1 2)"))], "id long, geom binary")
    plan = gl.open(str(tmp_path / "t")).plan_enable({"geom": gl.geometry()})
    more = spark.createDataFrame([(2, wkb("POINT (3 4)"))], "id long, geom binary")
    more.write.format("delta").mode("append").save(str(tmp_path / "t"))
    with pytest.raises(ConflictError):
        plan.apply(spark=spark, consent="geospatial")
    assert gl.open(str(tmp_path / "t")).version == 1
