"""Line 4: Havasu's encodings and SRIDs, the CRS in GeoParquet metadata, and tables that a catalog keeps."""

from __future__ import annotations

import json

import geopandas
import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import pytest
import shapely
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.metadata import TableMetadataUtil

import geolake_nb as gl
from geolake_nb.api.writing import plan_write
from geolake_nb.cli.options import geo_types
from geolake_nb.errors import GeolakeError, RefusedError
from geolake_nb.formats.base import CommitContext
from geolake_nb.formats.havasu.commit import commit_change
from geolake_nb.formats.havasu.write_target import GEOPARQUET, fitting_inputs, new_columns
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import (
    Field,
    GeometryEncoding,
    GeometryType,
    ListType,
    PrimitiveType,
    StructType,
    geo_type,
    parse_column_types,
)
from geolake_nb.spark.coerce import GeoReader
from geolake_nb.storage.storage import Storage
from tests.formats.havasu_rows import append, create, opened, planned_table

BYTES = Schema(StructType((Field("g", PrimitiveType("binary")),)))
POINT = shapely.Point(1, 2)


def stored(inputs, *values):
    batch = GeoReader(inputs).read(pa.record_batch({"g": pa.array(values, pa.binary())}))
    return [None if value is None else shapely.from_wkb(value) for value in batch["g"].to_pylist()]


@pytest.mark.parametrize("text", ["geometry(EPSG:3857, ewkb)", " GEOMETRY ( EPSG:3857 ,EWKB ) "])
def test_bytes_for_an_ewkb_column_get_the_srid_of_the_named_crs(text):
    made = new_columns(BYTES, {"g": geo_type(text)}, where="/t")
    own = shapely.to_wkb(shapely.set_srid(POINT, 32633), include_srid=True)
    values = stored(made.inputs, shapely.to_wkb(POINT), own, None)
    # The oracle is shapely, that is GEOS, which reads EWKB.
    assert [None if value is None else shapely.get_srid(value) for value in values] == [3857, 32633, None]
    assert all(value is None or value.equals(POINT) for value in values)


def test_bytes_that_are_appended_get_the_srid_too_where_a_crs_is_named():
    table = Schema(StructType((Field("g", geo_type("geometry(srid:0, ewkb)"), id=1),)))
    named = fitting_inputs(BYTES, table, {"g": geo_type("geometry(EPSG:3857)")}, where="/t")
    assert shapely.get_srid(stored(named, shapely.to_wkb(POINT))[0]) == 3857
    assert fitting_inputs(BYTES, table, {}, where="/t") == {}


def test_bytes_in_a_list_are_written_as_they_are():
    inside = Schema(StructType((Field("l", ListType(Field("element", PrimitiveType("binary")))),)))
    assert new_columns(inside, {"l.element": geo_type("geometry(EPSG:3857, ewkb)")}, where="/t").inputs == {}


@pytest.mark.parametrize("name", ["wkb", "ewkb", "wkt", "geojson"])
def test_a_type_text_can_name_an_encoding_of_havasu(name):
    assert geo_type(f"geometry(EPSG:3857, {name})") == GeometryType(
        geo_type("geometry(EPSG:3857)").crs, GeometryEncoding(name)
    )
    assert geo_type(f"geometry({name.upper()})").encoding is GeometryEncoding(name)


def test_the_shell_takes_such_a_text():
    assert geo_types(["g=geometry(EPSG:3857, ewkb)"])["g"].encoding is GeometryEncoding.EWKB


@pytest.mark.parametrize("text", ["geometry(EPSG:3857, geoarrow)", "geography(OGC:CRS84, ewkb)"])
def test_other_words_in_that_place_are_refused(text):
    with pytest.raises(GeolakeError):
        geo_type(text)


def rows(*srids):
    """Rows of EWKB, one for each SRID; 0 for a value without one."""
    shapes = [shapely.to_wkb(shapely.set_srid(POINT, srid), include_srid=srid > 0) for srid in srids]
    return pa.table({"g": pa.array(shapes, pa.binary())})


def files_crs(folder, column="g"):
    """The CRS of each data file of a table in order of writing, as GeoParquet's metadata has it."""
    geo = [json.loads(pq.read_metadata(path).metadata[b"geo"]) for path in sorted(folder.rglob("*.parquet"))]
    return [entry["columns"][column].get("crs", "OGC:CRS84") for entry in geo]


@pytest.mark.parametrize(
    "text", ["geometry(EPSG:3857)", gl.geometry("EPSG:3857"), gl.geometry(pyproj.CRS(3857)), "geometry(OGC:CRS84)"]
)
def test_a_column_whose_crs_is_named_defaults_to_ewkb(text):
    named = parse_column_types({"g": text})
    assert new_columns(BYTES, named, where="/t").schema.find("g").type.encoding is GeometryEncoding.EWKB


@pytest.mark.parametrize(
    "text",
    [
        "geometry(EPSG:3857, wkb)",
        gl.geometry("EPSG:3857", encoding="wkb"),
        gl.geometry("EPSG:3857", encoding=GeometryEncoding.WKB),
        "geometry",
        gl.geometry(),
        "geometry(SRID:0)",
    ],
)
def test_an_encoding_that_is_given_wins_and_without_a_crs_it_is_wkb(text):
    named = parse_column_types({"g": text})
    assert new_columns(BYTES, named, where="/t").schema.find("g").type.encoding is GeometryEncoding.WKB


def test_the_crs_that_all_srids_agree_on_is_in_the_geoparquet_metadata(tmp_path):
    create(tmp_path, rows(3857, 3857), columns={"g": gl.geometry("EPSG:3857")}, properties={GEOPARQUET: "true"})
    (crs,) = files_crs(tmp_path)
    assert pyproj.CRS.from_json_dict(crs) == pyproj.CRS(3857)
    (path,) = tmp_path.rglob("*.parquet")
    assert geopandas.read_parquet(path).crs == pyproj.CRS(3857)


@pytest.mark.parametrize("srids", [(3857, 32633), (0, 3857), (0, 0), (999999,)])
def test_srids_that_differ_lack_or_are_not_of_epsg_leave_the_crs_unknown(tmp_path, srids):
    # GeoParquet 1.1, crs: null says that it is not known; a missing key would say OGC:CRS84.
    create(tmp_path, rows(*srids), columns={"g": gl.geometry(encoding="ewkb")}, properties={GEOPARQUET: "true"})
    assert files_crs(tmp_path) == [None]


@pytest.mark.parametrize("text", ["geometry(EPSG:3857, wkb)", "geometry(ESRI:54009)"])
def test_the_metadata_keeps_a_crs_that_values_cannot_name_and_the_plan_says_so(tmp_path, text):
    type_ = geo_type(text)
    change = planned_table(Storage.at(str(tmp_path)), rows(0), columns={"g": type_}, properties={GEOPARQUET: "true"})
    assert any(type_.crs.text in sentence and "GeoParquet metadata" in sentence for sentence in change.notes)
    commit_change(change, CommitContext(Storage.at(str(tmp_path)), "one"))
    append(tmp_path, rows(0))
    expected = pyproj.CRS.from_user_input(type_.crs.text)
    assert [pyproj.CRS.from_json_dict(crs) for crs in files_crs(tmp_path)] == [expected, expected]
    with pytest.raises(RefusedError, match="transform the rows"):
        fitting_inputs(
            BYTES,
            opened(tmp_path).schema,
            {"g": geo_type("geometry(ESRI:54030)")},
            where="/t",
            properties=opened(tmp_path).properties,
        )


@pytest.mark.parametrize("text", ["geometry(ESRI:54009)", "geometry(ESRI:54009, wkb)", "geometry(my local grid)"])
def test_a_crs_without_an_epsg_code_is_refused_with_the_remedy(text):
    with pytest.raises(RefusedError, match=r"no EPSG code; .*geometry\(SRID:0\)"):
        new_columns(BYTES, {"g": geo_type(text)}, where="/t")
    table = Schema(StructType((Field("g", geo_type("geometry(srid:0, ewkb)"), id=1),)))
    with pytest.raises(RefusedError, match="no EPSG code"):
        fitting_inputs(BYTES, table, {"g": geo_type(text)}, where="/t")
    assert new_columns(BYTES, {"g": geo_type("geometry(SRID:0)")}, where="/t").notes == ()


def test_rows_that_bring_a_crs_without_an_epsg_code_are_refused_too():
    own = Schema(StructType((Field("g", geo_type("geometry(ESRI:54009)")),)))
    with pytest.raises(RefusedError, match="no EPSG code"):
        new_columns(own, {}, where="/t")


def test_the_plan_says_that_wkb_does_not_store_the_named_crs():
    (sentence,) = new_columns(BYTES, {"g": geo_type("geometry(EPSG:3857, wkb)")}, where="/t").notes
    assert "does not store its CRS EPSG:3857" in sentence


@pytest.fixture
def in_catalog(tmp_path, monkeypatch):
    """A Havasu table with metadata files named v1, v2 and so on that a SQL catalog keeps, opened by its name."""
    create(tmp_path / "t", rows(3857), columns={"g": gl.geometry("EPSG:3857")})
    uri = f"sqlite:///{tmp_path / 'catalog.db'}"
    catalog = SqlCatalog("c", uri=uri, warehouse=str(tmp_path))
    catalog.create_namespace("ns")
    catalog.register_table("ns.t", str(tmp_path / "t" / "metadata" / "v1.metadata.json"))
    catalog.close()
    monkeypatch.setenv("PYICEBERG_CATALOG__C__URI", uri)
    return tmp_path / "t"


@pytest.mark.parametrize("verb", ["repair", "rewrite", "undo"])
def test_changes_behind_the_back_of_a_catalog_are_refused_with_the_reason(in_catalog, verb):
    table = gl.open("c.ns.t")
    with pytest.raises(
        RefusedError, match=r"a catalog manages the table: c has it as ns\.t.*types of Havasu; .*folder"
    ):
        getattr(table, f"plan_{verb}")()
    # By its folder it is a table that the file system keeps, whose names say so.
    assert gl.open(str(in_catalog)).plan_repair() is not None


@pytest.mark.parametrize("mode", ["append", "create", "overwrite"])
def test_rows_for_a_name_in_a_catalog_are_refused_and_make_no_folder_of_that_name(in_catalog, mode, monkeypatch):
    monkeypatch.chdir(in_catalog)
    with pytest.raises(RefusedError, match="a catalog manages the table"):
        plan_write(rows(3857), "c.ns.t", format="havasu", mode=mode)
    assert not (in_catalog / "c.ns.t").exists()


def test_the_reason_is_true_of_pyiceberg(in_catalog):
    metadata_text = (in_catalog / "metadata" / "v1.metadata.json").read_text()
    assert "havasu.geometry-encoding" in metadata_text
    assert "havasu.geometry-encoding" not in TableMetadataUtil.parse_raw(metadata_text).model_dump_json(by_alias=True)
