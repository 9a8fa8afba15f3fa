"""Frames of pandas and geopandas as rows of a table: nothing of them is lost or guessed without a word."""

from __future__ import annotations

import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import shapely

from geolake_nb.api.given_rows import arrow_table, given_rows
from geolake_nb.errors import GeolakeError, SchemaError

POINTS = [shapely.Point(1, 2), shapely.Point(3, 4)]


def frame(**options):
    return pd.DataFrame({"a": [1, 2]}, **options)


def geo_frame(crs=None, **options):
    return gpd.GeoDataFrame({"a": [1, 2]}, geometry=POINTS, crs=crs, **options)


def schema_of(rows, columns=None):
    return str(given_rows(rows, columns or {}, "/t").schema)


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
@pytest.mark.parametrize("index", [pd.RangeIndex(2), pd.RangeIndex(5, 7)])
def test_an_index_that_only_counts_is_left_out(made, index):
    assert arrow_table(made(index=index)).column_names[0] == "a"


def test_a_counting_index_with_a_name_is_kept():
    assert arrow_table(frame(index=pd.RangeIndex(2, name="row"))).column_names == ["row", "a"]


@pytest.mark.parametrize("made", [frame, geo_frame])
@pytest.mark.parametrize(
    "index", [["x", "y"], pd.Index([7, 3]), pd.MultiIndex.from_tuples([("x", 1), ("y", 2)], names=["key", None])]
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
    with pytest.raises(SchemaError, match=r"/t, column note: its values \(int, str\) have no one type; give all one"):
        arrow_table(rows, where="/t")


@pytest.mark.parametrize("made", [frame, geo_frame])
def test_shapes_outside_of_geopandas_are_named(made):
    rows = made().assign(spot=POINTS)
    with pytest.raises(SchemaError, match="column spot: it holds shapes of shapely outside of geopandas; make it"):
        arrow_table(rows)


def test_a_plain_frame_with_a_column_of_geopandas_is_told_what_to_do():
    with pytest.raises(SchemaError, match="column geometry: it holds shapes of shapely outside of geopandas"):
        arrow_table(pd.DataFrame(geo_frame()))


def test_one_column_is_no_frame():
    with pytest.raises(GeolakeError, match="a GeoSeries is one column and no rows; make a frame of it"):
        arrow_table(geo_frame().geometry)
    with pytest.raises(GeolakeError, match="a Series is one column and no rows"):
        arrow_table(frame()["a"])


def test_an_empty_frame_has_its_columns():
    assert arrow_table(frame().iloc[:0]).num_rows == 0
    assert arrow_table(pd.DataFrame({"a": np.array([], "int64")})).column_names == ["a"]
