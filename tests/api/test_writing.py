"""Arguments of `gl.write` besides the rows: columns, partitions and properties, accepted or refused."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.api.writing import plan_write
from geolake_nb.errors import GeolakeError, SchemaError
from tests import small_tables

ROWS = pa.table({"id": [1, 2], "g": [shapely.to_wkb(shapely.Point(1, 2))] * 2})


def metadata_of(plan):
    return next(json.loads(action)["metaData"] for action in plan.change.actions if "metaData" in action)


@pytest.mark.parametrize("form", ["delta", "havasu", "iceberg"])
def test_no_table_is_partitioned_by_its_only_shapes(tmp_path, form):
    with pytest.raises(SchemaError, match="cannot be partitioned by the column 'g': it is not a plain value"):
        plan_write(ROWS, tmp_path / "t", format=form, columns={"g": gl.geometry()}, partition_by="g")


@pytest.mark.parametrize("text", ["geometry", "geometry(OGC:CRS84)", "Geometry (OGC:CRS84)"])
@pytest.mark.parametrize("form", ["delta", "havasu", "iceberg", "parquet"])
def test_a_type_may_be_a_text(tmp_path, form, text):
    plan = plan_write(ROWS, tmp_path / "t", format=form, columns={"g": text})
    # Havasu stores a column whose CRS is named in another encoding.
    value = gl.geometry("OGC:CRS84") if "(" in text else gl.geometry()
    assert plan.hash == plan_write(ROWS, tmp_path / "t", format=form, columns={"g": value}).hash


def test_every_plan_takes_texts(tmp_path):
    folder = tmp_path / "p"
    folder.mkdir()
    pq.write_table(ROWS, folder / "a.parquet")
    files = gl.open(folder)
    geo = gl.geometry("EPSG:3857")
    texts = {"g": "geometry(EPSG:3857)"}
    assert files.plan_repair(columns=texts).hash == files.plan_repair(columns={"g": geo}).hash
    target = str(tmp_path / "new")
    assert files.plan_convert(target, columns=texts).hash == files.plan_convert(target, columns={"g": geo}).hash
    delta = gl.open(small_tables.make_delta(tmp_path / "t"))
    with pytest.raises(GeolakeError, match="geom"):
        delta.plan_enable({"geom": "geometry(EPSG:3857)"})
    with pytest.raises(
        SchemaError, match="column geom: expected a geometry or geography type, got 'box'; write geometry"
    ):
        delta.plan_enable({"geom": "box"})


def test_bounds_take_a_text():
    assert gl.bounds(ROWS["g"], type="geometry") == gl.bounds(ROWS["g"], type=gl.geometry())
    karney = gl.bounds(ROWS["g"], type="geography(OGC:CRS84, karney)")
    assert karney == gl.bounds(ROWS["g"], type=gl.geography(algorithm="karney"))
    with pytest.raises(SchemaError, match="column: expected a geometry or geography type, got 'point'; write geometry"):
        gl.bounds(ROWS["g"], type="point")


@pytest.mark.parametrize("text", ["geom", "EPSG:4326", None, 4326, gl.geometry])
def test_an_invalid_type_is_refused(tmp_path, text):
    with pytest.raises(SchemaError, match=r"column g: expected a geometry or geography type, got .*; write geometry"):
        plan_write(ROWS, tmp_path / "t", columns={"g": text})
    with pytest.raises(SchemaError, match="expected columns= to map names to types, got a list"):
        plan_write(ROWS, tmp_path / "t", columns=["g"])


def test_properties_are_texts_and_what_is_plainly_meant_as_one(tmp_path):
    given = {"delta.appendOnly": True, "x": False, "n": 3, "a": "b"}
    plan = plan_write(ROWS, tmp_path / "t", properties=given)
    assert metadata_of(plan)["configuration"] == {"delta.appendOnly": "true", "x": "false", "n": "3", "a": "b"}


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"x": None}, "expected the property 'x' to be a string, got None; give a string, or leave it out"),
        ({"x": 1.5}, "expected the property 'x' to be a string, got a float"),
        ({"x": {"y": 1}}, "expected the property 'x' to be a string, got a dict"),
        ({1: "x"}, "expected the name of a property to be a string, got a int"),
    ],
)
@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_other_properties_are_refused(tmp_path, form, properties, message):
    with pytest.raises(GeolakeError, match=message):
        plan_write(ROWS, tmp_path / "t", format=form, properties=properties)
