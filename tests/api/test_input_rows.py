"""Frames of pandas and geopandas as rows of a table: nothing of them is lost or guessed without a word."""

from __future__ import annotations

import geoarrow.pyarrow as ga
import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.api.input_rows import arrow_table, input_rows
from geolake_nb.api.writing import plan_write
from geolake_nb.errors import GeolakeError, SchemaError
from tests import small_tables

POINTS = [shapely.Point(1, 2), shapely.Point(3, 4)]


def frame(**options):
    return pd.DataFrame({"a": [1, 2]}, **options)


def geo_frame(crs=None, **options):
    return gpd.GeoDataFrame({"a": [1, 2]}, geometry=POINTS, crs=crs, **options)


def schema_of(rows, columns=None):
    return str(input_rows(rows, columns or {}, "/t").schema)


@pytest.mark.parametrize("made", [frame, geo_frame])
def test_an_index_with_a_name_is_the_first_column(made):
    table = arrow_table(made(index=pd.Index(["x", "y"], name="key")))
    assert table.column_names[:2] == ["key", "a"]
    assert table["key"].to_pylist() == ["x", "y"]


@pytest.mark.parametrize("made", [frame, geo_frame])
def test_the_levels_of_an_index_are_columns_by_their_names(made):
    index = pd.MultiIndex.from_tuples([("x", 1), ("y", 2)], names=["key", "day"])
    table = arrow_table(made(index=index))
    assert table.column_names[:3] == ["key", "day", "a"]
    assert table["day"].to_pylist() == [1, 2]


@pytest.mark.parametrize("made", [frame, geo_frame])
@pytest.mark.parametrize("index", [pd.RangeIndex(2), pd.RangeIndex(5, 7), pd.Index([7, 3])])
def test_an_index_that_only_counts_is_left_out(made, index):
    assert arrow_table(made(index=index)).column_names[0] == "a"


def test_a_counting_index_with_a_name_is_kept():
    assert arrow_table(frame(index=pd.RangeIndex(2, name="row"))).column_names == ["row", "a"]


@pytest.mark.parametrize("made", [frame, geo_frame])
@pytest.mark.parametrize(
    "index", [["x", "y"], pd.Index([0.5, 1.5]), pd.MultiIndex.from_tuples([("x", 1), ("y", 2)], names=["key", None])]
)
def test_an_index_without_a_name_is_not_dropped_in_silence(made, index):
    with pytest.raises(SchemaError, match=r"has no name; keep it with rows\.rename_axis"):
        arrow_table(made(index=index))


def test_an_index_that_has_the_name_of_a_column_is_refused():
    with pytest.raises(SchemaError, match="two columns of the rows are named 'a'; rename one"):
        arrow_table(frame(index=pd.Index([3, 4], name="a")))


TWICE = {
    "pandas": lambda: pd.DataFrame([[1, 2]], columns=["a", "a"]),
    "geopandas": lambda: gpd.GeoDataFrame([[1, 2, POINTS[0]]], columns=["a", "a", "g"]).set_geometry("g"),
    "arrow": lambda: pa.table([[1], [2]], names=["a", "a"]),
}


@pytest.mark.parametrize("kind", TWICE)
def test_two_columns_of_one_name_are_refused(kind):
    with pytest.raises(SchemaError, match="two columns of the rows are named 'a'; rename one"):
        arrow_table(TWICE[kind]())


@pytest.mark.parametrize("made", [frame, geo_frame])
def test_a_column_of_mixed_values_is_named(made):
    rows = made().assign(note=[1, "x"])
    with pytest.raises(
        SchemaError, match=r"/t, column note: its values have mixed types \(int, str\); convert them to one"
    ):
        arrow_table(rows, where="/t")


@pytest.mark.parametrize("made", [frame, geo_frame])
def test_shapes_outside_of_geopandas_are_named(made):
    rows = made().assign(spot=POINTS)
    with pytest.raises(SchemaError, match="column spot: it has shapely geometries in a plain pandas column; make it"):
        arrow_table(rows)


def test_a_plain_frame_with_a_geopandas_column_gets_an_error_with_a_remedy():
    with pytest.raises(SchemaError, match="column geometry: it has shapely geometries in a plain pandas column"):
        arrow_table(pd.DataFrame(geo_frame()))


def test_one_column_is_not_a_frame():
    with pytest.raises(GeolakeError, match="expected rows, got a single column \\(GeoSeries\\); make a frame of it"):
        arrow_table(geo_frame().geometry)
    with pytest.raises(GeolakeError, match="expected rows, got a single column \\(Series\\)"):
        arrow_table(frame()["a"])


def test_shapes_without_a_crs_have_an_unknown_one():
    assert "geometry: geometry(SRID:0)" in schema_of(geo_frame())
    assert "geometry: geometry(WGS 84 / Pseudo-Mercator)" in schema_of(geo_frame(crs="EPSG:3857"))
    assert "geometry: geometry(EPSG:2056)" in schema_of(geo_frame(), {"geometry": gl.geometry("EPSG:2056")})


def test_a_frame_and_its_geoparquet_file_say_the_same_of_the_crs(tmp_path):
    geo_frame().to_parquet(tmp_path / "g.parquet")
    read = gl.open(tmp_path / "g.parquet").schema.find("geometry").type
    assert read.crs.is_unknown
    assert input_rows(geo_frame(), {}, "/t").schema.find("geometry").type.crs == read.crs


def test_plain_arrow_follows_geoarrow_in_any_nesting():
    shapes = ga.wkb().wrap_array(pa.array([shapely.to_wkb(POINTS[0])]))
    edges = ga.wkb().with_edge_type(ga.EdgeType.SPHERICAL).wrap_array(shapes.storage)
    known = ga.wkb().with_crs(ga.OGC_CRS84).wrap_array(shapes.storage)
    table = pa.table({"g": shapes, "e": edges, "s": pa.StructArray.from_arrays([shapes, known], ["g", "k"])})
    schema = input_rows(table, {}, "/t").schema
    assert schema.find("g").type.crs.is_unknown
    assert schema.find("e").type.crs.is_unknown
    assert schema.find("s.g").type.crs.is_unknown
    assert schema.find("s.k").type.crs == gl.geometry().crs


def test_parquet_without_a_crs_still_means_longitude_and_latitude(tmp_path):
    file = small_tables.make_parquet(tmp_path / "p") / "part-0.parquet"
    shapes = pa.array([shapely.to_wkb(POINTS[0])])
    pq.write_table(pa.table({"geom": ga.wkb().wrap_array(shapes)}), file)
    assert gl.open(file).schema.find("geom").type == gl.geometry()
    assert input_rows(pq.read_table(file), {}, "/t").schema.find("geom").type.crs == gl.geometry().crs


def test_shapes_without_a_crs_are_not_added_to_a_table_with_one(tmp_path):
    folder = str(small_tables.make_delta(tmp_path / "t"))
    rows = geo_frame().rename(columns={"a": "id"}).rename_geometry("geom")
    with pytest.raises(SchemaError, match=r"the rows have geometry\(SRID:0\), .* declare it with columns="):
        plan_write(rows, folder, mode="append")
    plan = plan_write(rows, folder, mode="append", columns={"geom": "geometry(OGC:CRS84)"})
    assert not plan.is_empty
    assert not plan_write(rows.set_crs("OGC:CRS84"), folder, mode="append").is_empty
    with pytest.raises(SchemaError, match="Pseudo-Mercator"):
        plan_write(rows.set_crs("EPSG:3857"), folder, mode="append")


def test_an_empty_frame_has_its_columns():
    assert arrow_table(frame().iloc[:0]).num_rows == 0
    assert arrow_table(pd.DataFrame({"a": np.array([], "int64")})).column_names == ["a"]
