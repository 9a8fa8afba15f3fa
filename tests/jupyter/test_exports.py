"""Files for other tools: valid, whole without a network, and with every name as text."""

from __future__ import annotations

import base64
import json
import re

import duckdb
import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.errors import GeolakeError, RefusedError, StorageError
from geolake_nb.jupyter.export import MAX_FEATURES, _land
from geolake_nb.jupyter.map_widget import BUNDLE, map_page
from geolake_nb.model.crs import Crs
from geolake_nb.model.types import GeometryType
from geolake_nb.parquet.geoparquet import from_geo_metadata
from tests import small_tables
from tests.jupyter.mapped_tables import mapped_table, random_boxes
from tests.jupyter.test_html import HOSTILE

NAN = np.nan
BOXES = [(0, 0, 1, 1), (170, -20, -170, -10), (5, 5, 5, 5), (1, 2, 3, 2), (NAN,) * 4, (170, 0, 190, 1)]


@pytest.fixture
def table():
    return mapped_table(BOXES)


def test_geojson_has_a_feature_for_every_file(table):
    collection = table.to_geojson()
    assert collection["type"] == "FeatureCollection"
    features = collection["features"]
    kinds = [feature["geometry"] and feature["geometry"]["type"] for feature in features]
    assert kinds == ["Polygon", "MultiPolygon", "Point", "LineString", None, "Polygon"]
    assert features[1]["bbox"] == [170, -20, -170, -10]
    assert "bbox" not in features[4]
    stored = table.files.table
    for index, feature in enumerate(features):
        output = feature["properties"]
        assert (output["path"], output["rows"]) == (stored["path"][index].as_py(), stored["rows"][index].as_py())
    assert features[5]["properties"]["problem"] == "a side is beyond 180 or 90 degrees"
    shape = shapely.from_geojson(json.dumps(features[1]["geometry"]))
    assert shape.equals(shapely.union(shapely.box(170, -20, 180, -10), shapely.box(-180, -20, -170, -10)))


def test_geojson_is_read_by_gdal(table, tmp_path):
    path = table.to_geojson(tmp_path / "boxes.geojson")
    frame = geopandas.read_file(path)
    assert len(frame) == 6
    assert frame.crs.to_epsg() == 4326
    assert frame.geometry.isna().tolist() == [False, False, False, False, True, False]


def test_geoparquet_is_valid_and_other_readers_read_it(table, tmp_path):
    path = table.to_geoparquet(tmp_path / "boxes.parquet")
    geo = from_geo_metadata(pq.read_schema(path).metadata[b"geo"])
    assert geo.version == "1.1.0"
    assert geo.primary.geometry_types == ("LineString", "MultiPolygon", "Point", "Polygon")
    assert geo.primary.bbox == (-180.0, -20.0, 190.0, 5.0)
    assert geo.primary.crs == Crs("OGC:CRS84")
    frame = geopandas.read_parquet(path)
    assert frame.geometry.iloc[0].equals(shapely.box(0, 0, 1, 1))
    assert frame.geometry.iloc[1].geom_type == "MultiPolygon"
    assert frame["rows"].tolist() == table.files.table["rows"].to_pylist()
    # The covering column skips rows for other readers.
    assert len(geopandas.read_parquet(path, bbox=(0.5, 0.5, 0.6, 0.6))) == 1
    result = duckdb.sql(f"SELECT count(*), count(geometry), min(bbox.xmin) FROM read_parquet('{path}')").fetchall()
    assert result == [(6, 5, -180.0)]
    opened = gl.open(str(path))
    assert opened.files.geo_columns == ("geometry",)


def test_exports_of_projected_boxes_are_in_degrees(tmp_path):
    table = mapped_table([(4e5, 5e6, 6e5, 5.2e6)], GeometryType(Crs("EPSG:32633")))
    frame = geopandas.read_parquet(table.to_geoparquet(tmp_path / "b.parquet"))
    truth = geopandas.GeoSeries([shapely.segmentize(shapely.box(4e5, 5e6, 6e5, 5.2e6), 1000)], crs=32633).to_crs(4326)
    assert frame.geometry.iloc[0].symmetric_difference(truth.iloc[0]).area < 0.02 * truth.iloc[0].area


def test_a_table_without_files_is_exported_too(tmp_path):
    table = mapped_table(np.empty((0, 4)))
    assert table.to_geojson()["features"] == []
    assert pq.read_table(table.to_geoparquet(tmp_path / "b.parquet")).num_rows == 0
    assert "leaflet" in table.to_folium().get_root().render()


@pytest.mark.parametrize("name", ["m.html", "m.HTM", "b.geojson", "b.json", "b.parquet", "b.geoparquet"])
def test_the_file_extension_sets_the_format(table, tmp_path, name):
    path = table.export(tmp_path / name)
    assert path == tmp_path / name
    start = path.read_bytes()[:16]
    wanted = {"h": b"<!doctype html>", "g": b"PAR1" if name.endswith("parquet") else b'{"type"', "j": b'{"type"'}
    assert start.startswith(wanted.get(name.rpartition(".")[2][0].lower(), b"PAR1"))


@pytest.mark.parametrize("name", ["m.shp", "m"])
def test_another_ending_lists_those_that_are_known(table, tmp_path, name):
    with pytest.raises(GeolakeError, match=r"use one of: \.geojson, \.geoparquet, \.htm, \.html, \.json, \.parquet"):
        table.export(tmp_path / name)


def test_the_magic_and_the_method_write_the_same(tmp_path):
    table = gl.open(str(small_tables.make_delta(tmp_path / "t")))
    first = table.export(tmp_path / "a.geojson", column="geom").read_text()
    assert json.loads(first) == table.to_geojson()


def folium_page(table) -> str:
    return table.to_folium().get_root().render()


def test_folium_asks_no_host(table):
    page = folium_page(table)
    outside = re.sub(r"data:[a-z/]+;base64,[A-Za-z0-9+/=]+", "", page)
    assert not re.search(r"(?:https?:)?//[a-z]", outside.replace("// ", ""))
    inside = [base64.b64decode(text).decode() for text in re.findall(r"data:[a-z/]+;base64,([A-Za-z0-9+/=]+)", page)]
    assert len(inside) == 2
    assert not any(re.search(r"url\((?!#)", text) for text in inside)


def test_the_land_under_folium_lies_where_it_is():
    land = shapely.from_geojson(json.dumps(_land()))
    assert land.is_valid
    assert shapely.total_bounds(land).tolist() == pytest.approx([-180, -90, 180, 83.6], abs=0.2)
    for point, is_land in [
        ((10, 50), True),
        ((-179, 67.5), True),
        ((179, 67.5), True),
        ((0, -85), True),
        ((-150, 0), False),
    ]:
        assert land.covers(shapely.Point(point)) is is_land


def test_leaflet_travels_with_its_licence():
    head = (BUNDLE.parent / "leaflet.js").read_text(encoding="utf-8")[:2000]
    assert "Redistribution and use in source and binary forms" in head


def test_folium_refuses_more_than_it_can_show():
    with pytest.raises(GeolakeError, match=r"10,001 files are too many for folium \(at most 10,000\); use t\.map"):
        mapped_table(random_boxes(MAX_FEATURES + 1)).to_folium()


def names_table(text: str):
    return mapped_table([(0, 0, 30, 30), (40, 0, 70, 30)], name=text.replace("{", "{{").replace("}", "}}") + " {}")


def pages(text: str) -> list[str]:
    table = names_table(text)
    return [folium_page(table), map_page({"names": table.files.table["path"].to_pylist()})]


@pytest.mark.parametrize("text", [text for text in HOSTILE if text and "\ud800" not in text])
def test_a_hostile_name_is_data_in_every_page(text):
    for plain, page in zip(pages("plain"), pages(text), strict=True):
        for mark in ("<script", "</script", "<img", "<iframe", "<!--", "<td"):
            assert page.count(mark) == plain.count(mark), mark
    assert names_table(text).to_geojson()["features"][0]["properties"]["path"] == f"{text} 0"


def test_a_name_is_no_template_that_folium_would_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = folium_page(names_table("{{ cycler.__init__.__globals__.os.mkdir(cycler.__name__) }}"))
    assert "cycler.__init__" in page
    assert [*tmp_path.iterdir()] == []


def test_what_a_table_shows_is_not_written_over_its_own_files(tmp_path):
    """Nor among them, where it would be taken for one."""
    rows = pa.table({"geometry": [shapely.Point(1, 2).wkb]})
    geo = {"version": "1.1.0", "primary_column": "geometry"}
    geo["columns"] = {"geometry": {"encoding": "WKB", "geometry_types": ["Point"]}}
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(rows.replace_schema_metadata({"geo": json.dumps(geo)}), folder / "a.parquet")
    before = (folder / "a.parquet").read_bytes()
    for source in (folder, folder / "a.parquet", folder / "*.parquet"):
        table = gl.open(str(source))
        for write in (table.export, table.report):
            with pytest.raises(RefusedError, match="this is a file of the table; give another path"):
                write(str(folder / "a.parquet"))
    with pytest.raises(RefusedError, match="a file of the table"):
        gl.open(str(folder)).export(str(folder / "new.parquet"))
    assert [path.name for path in folder.iterdir()] == ["a.parquet"]
    assert (folder / "a.parquet").read_bytes() == before
    for _ in range(2):
        gl.open(str(folder / "a.parquet")).export(str(folder / "boxes.geojson"))


def test_a_path_that_cannot_be_written_is_an_error(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    wanted = r"/nowhere/r\.html: cannot be written: No such file or directory; give another path"
    with pytest.raises(StorageError, match=wanted):
        gl.open(str(tmp_path)).report("/nowhere/r.html")
