"""The rows of Havasu tables: geometries in four encodings, and rasters with and without their bands."""

from __future__ import annotations

import numpy as np
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.expressions.predicate import Spatial
from geolake_nb.model.operators import SpatialOp
from tests.formats.havasu_tables import geometry_entry, make_havasu_table, raster_at, raster_entry
from tests.scan.row_oracle import RELATIONS
from tests.small_tables import make_rasters

SHAPES = [
    shapely.Point(1, 1),
    None,
    shapely.Point(),
    shapely.LineString([(0, 0), (4, 4)]),
    shapely.Polygon([(0, 0), (4, 0), (4, 4), (0, 4)]),
    shapely.MultiPolygon([shapely.box(0, 0, 1, 1), shapely.box(50, 50, 51, 51)]),
    shapely.GeometryCollection([shapely.Point(2, 2), shapely.LineString([(8, 8), (9, 9)])]),
    shapely.Point(9, 9),
]
ENCODINGS = ("ewkb", "wkb", "wkt", "geojson")


def ids(table, where):
    return sorted(table.scan(where, columns=["id"]).to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_each_relation_in_each_encoding_is_that_of_shapely(tmp_path, encoding):
    make_havasu_table(tmp_path / "t", [geometry_entry("a", SHAPES, encoding=encoding)], encoding=encoding)
    table = gl.open(str(tmp_path / "t"))
    values = np.array(SHAPES, object)
    for op in SpatialOp:
        for query in (shapely.box(0, 0, 4, 4), shapely.LineString([(0, 0), (4, 4)]), shapely.Point(2, 2)):
            true = RELATIONS[op](values, query) & ~shapely.is_missing(values)
            assert ids(table, Spatial.of(op, "geom", query)) == np.flatnonzero(true).tolist(), (op, query)
    assert ids(table, "geom IS NULL") == [1]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_geometries_are_returned_as_geometries(tmp_path, encoding):
    make_havasu_table(tmp_path / "t", [geometry_entry("a", SHAPES, encoding=encoding)], encoding=encoding)
    frame = gl.open(str(tmp_path / "t")).scan().to_geopandas().sort_values("id")
    for answer, shape in zip(frame.geometry, SHAPES, strict=True):
        assert (answer is None) == (shape is None)
        assert shape is None or (answer.is_empty and shape.is_empty) or answer.equals(shape)


@pytest.mark.parametrize("encoding", ["wkt", "geojson"])
def test_texts_that_are_no_geometry_are_reported(tmp_path, encoding):
    import dataclasses

    import pyarrow as pa

    from geolake_nb.api.scan import UnreadableValueWarning

    entry = geometry_entry("a", SHAPES[:1], encoding=encoding)
    good = entry.table["geom"][0].as_py()
    texts = pa.table([[0, 1, 2, 3], [good, "nonsense", "", None]], schema=entry.table.schema)
    entry = dataclasses.replace(entry, rows=4, table=texts, geom_lower={}, geom_upper={})
    make_havasu_table(tmp_path / "t", [entry], encoding=encoding)
    table = gl.open(str(tmp_path / "t"))
    with pytest.warns(UnreadableValueWarning, match="2 of geom"):
        assert ids(table, [0, 0, 2, 2]) == [0]


def test_rasters_come_without_the_bytes_of_their_bands_unless_asked(tmp_path):
    table = gl.open(str(make_rasters(tmp_path / "t")))
    plain, full = table.scan().to_arrow(), table.scan(bands=True).to_arrow()
    assert len(plain) == len(full) == 3
    cells = bytes(range(16))
    assert not any(cells in _bytes(row) for row in plain.to_pylist())
    assert all(cells in _bytes(row) for row in full.to_pylist())


def _bytes(value):
    if isinstance(value, bytes):
        return value
    if isinstance(value, dict):
        return b"".join(_bytes(inner) for inner in value.values())
    if isinstance(value, list | tuple):
        return b"".join(_bytes(inner) for inner in value)
    return b""


def test_rasters_are_found_by_their_outlines(tmp_path):
    # Each has 4 by 4 pixels of half a degree to the south-east of its corner.
    corners = [(10.0, 50.0), (-70.0, -30.0), (175.0, -18.0)]
    boxes = [(x, y - 2, x + 2, y) for x, y in corners]
    entries = [raster_entry(f"r{number}", [raster_at(*corner)], boxes[number]) for number, corner in enumerate(corners)]
    make_havasu_table(tmp_path / "t", entries, encoding=None, rasters=True)
    table = gl.open(str(tmp_path / "t"))
    for window in ([10.5, 49, 11, 49.5], [-71, -33, -67, -29], [0, 0, 1, 1], [170, -20, -170, 0], [12, 48, 13, 50]):
        query = shapely.box(*window) if window[0] < window[2] else shapely.box(170, -20, 180, 0)
        rows = sum(shapely.box(*box).intersects(query) for box in boxes)
        assert table.scan(window).count() == rows, window
        assert len(table.scan(window).to_arrow()) == rows
    within = "ST_Within(rast, ST_MakeEnvelope(9, 47, 13, 51))"
    assert table.scan(within).count() == 1
