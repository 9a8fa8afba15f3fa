"""Line F: a repair gives no geo type to a column with values on which readers of that type fail."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.geo.bounds import BadValueWarning
from tests.formats.parquet_sets import GEO

POINTS = [shapely.to_wkb(shapely.Point(x, 2)) for x in range(3)]


def make_file(path, values):
    table = pa.table({"id": list(range(len(values))), "geom": pa.array(values, pa.binary())})
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(GEO)}), path)


def logical_type(path):
    return pq.ParquetFile(path).schema.column(1).logical_type.type


@pytest.mark.spark
def test_a_folder_with_values_that_break_readers_stays_readable(spark, tmp_path):
    broken = b"no WKB"
    make_file(tmp_path / "a.parquet", POINTS)
    make_file(tmp_path / "b.parquet", [*POINTS, broken, None])
    plan = gl.open(str(tmp_path)).plan_repair()
    assert "stays plain binary" in str(plan)
    with pytest.warns(BadValueWarning, match="geom stays plain binary: b.parquet has 1 value that cannot be read"):
        plan.apply()
    assert [logical_type(tmp_path / name) for name in ("a.parquet", "b.parquet")] == ["NONE", "NONE"]
    rows = spark.read.parquet(str(tmp_path)).orderBy("geom").collect()
    assert sorted(bytes(row.geom) for row in rows if row.geom is not None) == sorted([*POINTS, *POINTS, broken])
    assert len(rows) == 8


@pytest.mark.spark
def test_a_folder_without_such_values_gets_the_geo_type_and_is_readable(spark, tmp_path):
    make_file(tmp_path / "a.parquet", POINTS)
    make_file(tmp_path / "b.parquet", [*POINTS, None])
    gl.open(str(tmp_path)).plan_repair().apply()
    assert [logical_type(tmp_path / name) for name in ("a.parquet", "b.parquet")] == ["GEOMETRY", "GEOMETRY"]
    assert (
        spark.read.parquet(str(tmp_path)).selectExpr("st_asbinary(geom) AS wkb").where("wkb IS NOT NULL").count() == 6
    )
