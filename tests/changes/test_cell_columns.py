"""Columns of cells: which geometries have one, and what is refused before anything is written."""

from __future__ import annotations

import pyarrow as pa
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.api.writing import plan_write
from geolake_nb.changes.cell_columns import CellColumn, with_cells
from geolake_nb.errors import GeolakeError, RefusedError, SchemaError
from geolake_nb.model.cells import cells_of_properties
from geolake_nb.model.types import GeographyType

POINTS = pa.table({"id": [1], "geom": pa.array([shapely.Point(1, 2).wkb], pa.binary())})
DEGREES = {"geom": gl.geometry("OGC:CRS84")}


def column(text: str, type_=None) -> CellColumn:
    return CellColumn(gl.cell("g", text), type_ or gl.geometry())


def cells(made: CellColumn, *shapes) -> list[str | None]:
    return made.values(
        pa.array([shape if isinstance(shape, bytes | None) else shape.wkb for shape in shapes])
    ).to_pylist()


def test_a_shape_has_the_cell_of_the_centre_of_its_box():
    square, line = shapely.box(-6, 42, -5.206, 43.21), shapely.LineString([(-6, 42), (-5.206, 43.21)])
    assert cells(column("geohash:5"), square, line, shapely.Point(-5.603, 42.605)) == ["ezs42"] * 3


def test_null_empty_and_infinite_shapes_have_no_cell():
    nan, inf = float("nan"), float("inf")
    nowhere = [None, shapely.Point(), shapely.Polygon(), shapely.Point(nan, nan), shapely.Point(inf, 0)]
    nowhere += [shapely.LineString([(0, 0), (inf, 1)]), shapely.Point(1, nan), shapely.Point(500, 0)]
    for system in ("h3:3", "quadkey:3", "geohash:3"):
        assert cells(column(system), *nowhere) == [None] * len(nowhere)


def test_a_geography_across_the_antimeridian_has_a_cell_there():
    line = shapely.LineString([(179, 10), (-179, 10)])
    (name,) = cells(column("quadkey:4", GeographyType()), line)
    assert name in cells(column("quadkey:4"), shapely.Point(179.9, 10), shapely.Point(-179.9, 10))


def test_coordinates_of_another_crs_are_transformed():
    # 500,000 m east is the central meridian of zone 33N, 15 degrees.
    utm = column("geohash:6", gl.geometry("EPSG:32633"))
    expected = cells(column("geohash:6"), shapely.Point(15.00001, 47.0))
    northing = 5_205_443.0  # of 47 degrees, by the NOAA calculator; a cell is 600 m high
    assert [name[:4] for name in cells(utm, shapely.Point(500_001, northing))] == [expected[0][:4]]
    assert cells(utm, shapely.Point(1e30, 1e30), None) == [None, None]


def test_geometries_inside_structs_have_cells():
    rows = pa.table({"s": pa.array([{"g": shapely.Point(-5.603, 42.605).wkb}, None])})
    made = with_cells(rows, {"c": CellColumn(gl.cell("s.g", "geohash:5"), gl.geometry())})
    assert made["c"].to_pylist() == ["ezs42", None]


def test_the_table_keeps_which_cells_its_column_has(tmp_path):
    cell = gl.cell("geom", "quadkey:7", name="tile")
    plan = plan_write(POINTS, tmp_path / "t", columns=DEGREES, partition_by=["id", cell])
    assert '"geolake.cell.tile":' in plan.change.actions[1]
    assert plan.change.job.partition_by == ("id", "tile")
    assert "The new column 'tile' has the cell (quadkey, level 7) of the centre of each geom." in str(plan)
    (read,) = cells_of_properties({**cell.properties}, where="")
    assert read == cell


@pytest.mark.parametrize(
    "text", ["", "[]", '{"column": 3, "system": "h3", "level": 5}', '{"column": "g", "system": "s2", "level": 1}']
)
def test_a_property_that_cannot_be_read_is_refused_by_name(text):
    with pytest.raises(RefusedError, match=r"/t: the property 'geolake\.cell\.tile' does not say which cells"):
        cells_of_properties({"geolake.cell.tile": text}, where="/t")


@pytest.mark.parametrize(
    ("columns", "cell", "error", "words"),
    [
        (
            {},
            gl.cell("geom", "h3:5"),
            SchemaError,
            "column geom: cells need a geometry or geography, not a binary; declare",
        ),
        (DEGREES, gl.cell("id", "h3:5"), SchemaError, "column id: cells need a geometry or geography, not a int64"),
        (DEGREES, gl.cell("shape", "h3:5"), SchemaError, "no column 'shape'"),
        (DEGREES, gl.cell("geom", "h3:5", name="ID"), SchemaError, "a column 'ID' exists already"),
        ({"geom": gl.geometry("SRID:0")}, gl.cell("geom", "h3:5"), RefusedError, "column geom: its CRS is unknown"),
    ],
)
def test_cells_that_cannot_be_made_are_refused_before_anything_is_written(tmp_path, columns, cell, error, words):
    with pytest.raises(error, match=words):
        plan_write(POINTS, tmp_path / "t", columns=columns, partition_by=cell)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("text", ["h3", "h3:16", "quadkey:0", "geohash:13", "s2:3", "h3:-1", ""])
def test_a_system_or_a_level_that_does_not_exist_is_refused(text):
    with pytest.raises(GeolakeError, match=r"is not a system of cells; write one such as h3:5|has the levels"):
        gl.cell("geom", text)
