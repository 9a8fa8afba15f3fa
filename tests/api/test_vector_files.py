"""Files of GDAL and frames are not tables: `gl.open` names the call that makes one, and `gl.write` takes them."""

from __future__ import annotations

import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.api.writing import plan_write
from geolake_nb.errors import GeolakeError, NotATableError

POINTS = np.random.default_rng(3).uniform([4e5, 5e6], [6e5, 6e6], (2000, 2))


@pytest.fixture
def frame():
    return gpd.GeoDataFrame({"id": range(len(POINTS))}, geometry=shapely.points(POINTS), crs="EPSG:32633")


@pytest.mark.parametrize(
    ("name", "kind"), [("r.gpkg", "GeoPackage"), ("r.geojson", "GeoJSON"), ("r.FGB", "FlatGeobuf")]
)
def test_a_file_of_gdal_is_opened_by_the_call_that_the_error_names(frame, tmp_path, name, kind):
    path = tmp_path / name
    frame.to_file(path, driver="GeoJSON" if kind == "GeoJSON" else "GPKG" if kind == "GeoPackage" else "FlatGeobuf")
    with pytest.raises(NotATableError) as caught:
        gl.open(path)
    call = f"gl.write('{path}', '{tmp_path / 'r'}')"
    assert str(caught.value) == f"{path}: a {kind} is a file and not a table; make one of it: {call}"
    plan = plan_write(path, tmp_path / "r")
    expected = gpd.read_file(path)
    job = plan.change.job
    assert job.rows.frame.num_rows == len(expected)
    geometry = dict(job.schema.geo_columns())["geometry"].type
    assert geometry.crs.to_pyproj().equals(expected.crs, ignore_axis_order=True)


def test_frames_and_lists_point_to_write(frame, tmp_path):
    for rows in (frame, pd.DataFrame({"id": [1]}), pa.table({"id": [1]})):
        with pytest.raises(NotATableError, match="is not a table; make one of it"):
            gl.open(rows)
    frame[:1000].to_parquet(tmp_path / "a.parquet")
    frame[1000:].to_parquet(tmp_path / "b.parquet")
    files = [tmp_path / "b.parquet", str(tmp_path / "a.parquet")]
    assert gl.open(files).files.table["rows"].to_pylist() == [1000, 1000]
    with pytest.raises(NotATableError, match="only where it is all Parquet files of a folder"):
        gl.open(files[:1])
    with pytest.raises(GeolakeError, match="expected a table, got a list"):
        gl.open([])


def test_a_broken_file_is_one_sentence(tmp_path):
    (tmp_path / "bad.gpkg").write_bytes(b"nothing")
    with pytest.raises(GeolakeError, match=r"bad\.gpkg: the file cannot be read: "):
        plan_write(tmp_path / "bad.gpkg", tmp_path / "t")


def test_rows_for_more_than_one_file_are_clustered_by_their_only_geo_column(frame, tmp_path):
    def clustered(rows, **options):
        ordering = plan_write(rows, tmp_path / "t", **options).change.job.ordering
        return None if ordering is None else ordering.columns

    assert clustered(frame, target_file_size=10_000) == ("geometry",)
    assert clustered(frame) is None, "one file needs no order"
    assert clustered(frame, target_file_size=10_000, cluster_by=()) is None
    assert clustered(frame, target_file_size=10_000, cluster_by="id") == ("id",)
    two = frame.assign(other=frame.geometry.buffer(1))
    assert clustered(two, target_file_size=10_000) is None
    wkt = pa.table({"id": range(2000), "shape": [f"POINT ({x} {y})" for x, y in POINTS]})
    assert clustered(wkt, columns={"shape": gl.geometry("EPSG:32633")}, target_file_size=10_000) == ("shape",)
