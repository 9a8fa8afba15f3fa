"""Line 1: any CRS string opens, stays as it is and is written back unchanged; unknown ones are reported."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pyproj
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.api.writing import plan_write
from geolake_nb.errors import GeolakeError, SchemaError
from geolake_nb.model.crs import Crs
from geolake_nb.model.types import from_delta_text, from_iceberg_text, geo_type, to_delta_text, to_iceberg_text
from geolake_nb.parquet.schema import to_arrow_type
from tests.changes.repair_tables import GeoTable, wkb
from tests.formats.delta import log_maker
from tests.formats.iceberg_tables import column, make_iceberg_table
from tests.small_tables import make_havasu

# Texts that PROJ does not have, or that are not in one of the forms which the documents name.
UNKNOWN = [
    "my local grid",
    "a, b (2)",
    "4326",
    "null",
    "[1]",
    '{"name": "not PROJJSON"}',
    "NOBODY:1",
    "srid:999999",
    "EPSG:4326+5773",
    "+proj=longlat +datum=WGS84",
    "https://example.org/crs.json",
    "urn:ogc:def:crs:NOBODY::7",
]
# What PROJ itself makes of each text is the oracle.
KNOWN = [
    "WGS84",
    "WGS 84",
    "NAD83",
    "urn:ogc:def:crs:EPSG::4326",
    "urn:ogc:def:crs:EPSG:9.8.15:3857",
    "urn:ogc:def:crs:OGC:1.3:CRS84",
    "http://www.opengis.net/def/crs/EPSG/0/32633",
    "https://www.opengis.net/def/crs/OGC/1.3/CRS84",
]
ALBERS = pyproj.CRS.from_proj4("+proj=aea +lat_0=1 +lat_1=3 +lat_2=20").to_json(pretty=True)
POINTS = [shapely.to_wkb(shapely.Point(x, x)) for x in (1.0, 2.0)]


def parquet_file(path, crs, *, properties=None):
    """A file whose GEOMETRY has this CRS, written by pyarrow."""
    values = to_arrow_type(gl.geometry(crs)).wrap_array(pa.array(POINTS, pa.binary()))
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": [1, 2], "geom": values}).replace_schema_metadata(properties), path)
    return path


def stored_crs(path):
    return json.loads(
        pq.read_metadata(path, arrow_extensions_enabled=False).schema.column(1).logical_type.to_json()
    ).get("crs")


def rules(table, **options):
    return {finding.rule for finding in table.check(**options)}


def crs_of(table):
    return table.snapshot.schema.find("geom").type.crs


@pytest.mark.parametrize("text", UNKNOWN)
def test_a_parquet_file_with_an_unknown_crs_opens_and_is_reported(tmp_path, text):
    table = gl.open(parquet_file(tmp_path / "a.parquet", text))
    assert stored_crs(tmp_path / "a.parquet") == text == crs_of(table).text
    assert "crs.unresolved" in rules(table)


@pytest.mark.parametrize("text", KNOWN)
def test_names_of_ogc_and_gdal_mean_what_proj_says_and_keep_their_text(tmp_path, text):
    table = gl.open(parquet_file(tmp_path / "a.parquet", text))
    assert stored_crs(tmp_path / "a.parquet") == text == crs_of(table).text
    assert crs_of(table).to_pyproj().equals(pyproj.CRS(text), ignore_axis_order=True)
    assert "crs.unresolved" not in rules(table)


def test_one_file_with_an_unknown_crs_leaves_its_folder_readable(tmp_path):
    parquet_file(tmp_path / "set" / "a.parquet", "OGC:CRS84")
    parquet_file(tmp_path / "set" / "b.parquet", "my local grid")
    table = gl.open(tmp_path / "set")
    assert table.snapshot.files.table["rows"].to_pylist() == [2, 2]
    findings = [finding for finding in table.check() if "my local grid" in finding.what]
    assert findings
    kept = table.explain(gl.Box(50, 50, 60, 60)).kept["path"].to_pylist()
    assert kept == ["b.parquet"]  # a box in another CRS cannot be compared


@pytest.mark.parametrize(("read", "write"), [(from_delta_text, to_delta_text), (from_iceberg_text, to_iceberg_text)])
@pytest.mark.parametrize("text", UNKNOWN + KNOWN)
def test_type_strings_with_any_crs_are_written_back_unchanged(read, write, text):
    for type_ in (f"geometry({text})", f"geography({text}, karney)"):
        assert read(type_).crs.text == text
        assert write(read(type_)) == type_


@pytest.mark.parametrize("text", UNKNOWN)
def test_a_delta_table_with_an_unknown_crs_opens_and_is_reported(tmp_path, text):
    kind = f"geometry({text})"
    fields = [{"name": "geom", "type": kind, "nullable": True, "metadata": {}}]
    GeoTable(tmp_path, *fields).file("a.parquet", {"geom": wkb("POINT(1 2)")})
    table = gl.open(tmp_path)
    assert crs_of(table).text == text
    assert "crs.unresolved" in rules(table)


@pytest.mark.parametrize("text", ["my local grid", "srid:999999", "a, b (2)"])
def test_an_iceberg_table_with_an_unknown_crs_opens_and_is_reported(tmp_path, text):
    make_iceberg_table(tmp_path, [column(1, "geom", f"geometry({text})")], version=3)
    table = gl.open(tmp_path)
    assert crs_of(table).text == text
    assert "crs.unresolved" in rules(table)


@pytest.mark.parametrize("text", ["my local grid", "EPSG:4326", {"name": "not PROJJSON"}])
def test_geoparquet_with_a_crs_that_breaks_its_rules_opens_and_is_reported(tmp_path, text):
    geo = {"version": "1.1.0", "primary_column": "geom"}
    geo["columns"] = {"geom": {"encoding": "WKB", "geometry_types": [], "crs": text}}
    rows = pa.table({"id": [1, 2], "geom": pa.array(POINTS, pa.binary())})
    pq.write_table(rows.replace_schema_metadata({"geo": json.dumps(geo)}), tmp_path / "a.parquet")
    table = gl.open(tmp_path / "a.parquet")
    kept = crs_of(table).text
    assert (json.loads(kept) if isinstance(text, dict) else kept) == text
    broken = rules(table)
    assert ("crs.unresolved" in broken) == (text != "EPSG:4326")
    assert any("GeoParquet metadata violates a rule" in finding.what for finding in table.check())


def test_a_repair_keeps_a_crs_that_cannot_be_resolved(tmp_path):
    geo = {"version": "1.1.0", "primary_column": "geom"}
    geo["columns"] = {"geom": {"encoding": "WKB", "geometry_types": [], "crs": "my local grid"}}
    rows = pa.table({"id": [1, 2], "geom": pa.array(POINTS, pa.binary())})
    (tmp_path / "set").mkdir()
    pq.write_table(rows.replace_schema_metadata({"geo": json.dumps(geo)}), tmp_path / "set" / "a.parquet")
    gl.open(tmp_path / "set").plan_repair().apply()
    assert stored_crs(tmp_path / "set" / "a.parquet") == "my local grid"
    repaired = json.loads(pq.read_metadata(tmp_path / "set" / "a.parquet").metadata[b"geo"])
    assert repaired["columns"]["geom"]["crs"] == "my local grid"
    assert repaired["columns"]["geom"]["bbox"] == [1.0, 1.0, 2.0, 2.0]


@pytest.mark.parametrize("text", ["my local grid", "epsg:3857", "srid:999999", "urn:ogc:def:crs:EPSG::3857"])
def test_a_rewrite_of_parquet_files_writes_the_crs_back_unchanged(tmp_path, spark, text):
    parquet_file(tmp_path / "set" / "a.parquet", text)
    gl.open(tmp_path / "set").plan_rewrite(cluster_by="geom").apply(spark=spark)
    (written,) = (tmp_path / "set").glob("*.parquet")
    assert stored_crs(written) == text
    assert crs_of(gl.open(tmp_path / "set")).text == text


def test_an_srid_is_a_code_of_epsg_only_where_epsg_has_it():
    assert Crs("srid:3857") == Crs("EPSG:3857")
    assert Crs("srid:999999") != Crs("EPSG:999999")
    plan = plan_write(
        pa.table({"geom": pa.array(POINTS, pa.binary())}), "/tmp/not-there", columns={"geom": "geometry(srid:999999)"}
    )
    assert "geometry(srid:999999)" in str(plan)
    assert "EPSG:999999" not in str(plan)


@pytest.mark.parametrize("format_", ["delta", "iceberg", "parquet"])
def test_columns_can_name_a_property_that_is_given(tmp_path, spark, format_):
    rows = pa.table({"geom": pa.array(POINTS, pa.binary())})
    options = {"columns": {"geom": "geometry(projjson:local)"}, "format": format_, "spark": spark}
    gl.write(rows, tmp_path / "t", properties={"local": ALBERS}, **options)
    crs = crs_of(gl.open(tmp_path / "t"))
    assert crs.text == "projjson:local"
    assert crs.to_pyproj().equals(pyproj.CRS(ALBERS))
    assert not {"crs.property_missing", "crs.unresolved"} & rules(gl.open(tmp_path / "t"))
    gl.write(rows, tmp_path / "t", mode="append", **options)
    assert crs_of(gl.open(tmp_path / "t")).text == "projjson:local"


def test_enable_resolves_a_property_of_the_table(tmp_path):
    fields = [{"name": "geom", "type": "binary", "nullable": True, "metadata": {}}]
    GeoTable(tmp_path, *fields, local=ALBERS).file("a.parquet", {"geom": wkb("POINT(1 2)")})
    plan = gl.open(tmp_path).plan_enable({"geom": "geometry(projjson:local)"})
    assert "geometry(projjson:local)" in str(plan)
    with pytest.raises(SchemaError, match="the property 'gone' is missing"):
        gl.open(tmp_path).plan_enable({"geom": "geometry(projjson:gone)"})


def test_repair_and_convert_resolve_a_property_of_the_files(tmp_path):
    rows = pa.table({"id": [1, 2], "geom": pa.array(POINTS, pa.binary())})
    (tmp_path / "set").mkdir()
    pq.write_table(rows.replace_schema_metadata({"local": ALBERS}), tmp_path / "set" / "a.parquet")
    table = gl.open(tmp_path / "set")
    types = {"geom": "geometry(projjson:local)"}
    assert "geometry(projjson:local)" in str(table.plan_convert(tmp_path / "new", columns=types))
    table.plan_repair(columns=types).apply()
    assert stored_crs(tmp_path / "set" / "a.parquet") == "projjson:local"
    assert crs_of(gl.open(tmp_path / "set")).to_pyproj().equals(pyproj.CRS(ALBERS))


def test_a_property_that_does_not_hold_projjson_leaves_the_table_open(tmp_path):
    fields = [{"name": "geom", "type": "geometry(projjson:local)", "nullable": True, "metadata": {}}]
    GeoTable(tmp_path, *fields, local="nonsense").file("a.parquet", {"geom": wkb("POINT(1 2)")})
    table = gl.open(tmp_path)
    assert crs_of(table).text == "projjson:local"
    assert "crs.unresolved" in rules(table)


def test_the_crs_strings_of_the_corpus_are_shown_as_the_files_hold_them(corpus):
    seen = set()
    for path in sorted((corpus / "parquet_geo").rglob("*.parquet")):
        try:
            table = gl.open(path)
        except gl.GeolakeError:
            continue
        schema = pq.read_metadata(path).schema
        leaves = {schema.column(index).path: schema.column(index).logical_type for index in range(len(schema))}
        for name, field in table.snapshot.schema.geo_columns():
            logical = json.loads(leaves[name].to_json()) if name in leaves else {}
            if logical.get("crs") and logical["Type"] in ("Geometry", "Geography"):
                assert field.type.crs.text == logical["crs"]
                seen.add(logical["crs"])
    assert seen


def test_havasu_metadata_with_any_crs_opens(tmp_path):
    make_havasu(tmp_path / "t")
    geo = {"version": "1.1.0", "primary_column": "geom"}
    geo["columns"] = {"geom": {"encoding": "WKB", "geometry_types": [], "crs": "my local grid"}}
    for path in (tmp_path / "t").rglob("*.parquet"):
        rows = pq.read_table(path)
        pq.write_table(rows.replace_schema_metadata({**(rows.schema.metadata or {}), "geo": json.dumps(geo)}), path)
    table = gl.open(tmp_path / "t")
    assert "crs.differs_in_geoparquet" not in rules(table)


@pytest.mark.parametrize("text", ["my local grid", "srid:999999"])
@pytest.mark.parametrize("format_", ["delta", "iceberg", "parquet"])
def test_tables_with_an_unknown_crs_are_written_appended_to_and_rewritten(tmp_path, spark, format_, text):
    rows = pa.table({"geom": pa.array(POINTS, pa.binary())})
    options = {"format": format_, "spark": spark}
    gl.write(rows, tmp_path / "t", columns={"geom": f"geometry({text})"}, **options)
    gl.write(rows, tmp_path / "t", mode="append", **options)
    gl.open(tmp_path / "t").plan_rewrite(cluster_by="geom").apply(spark=spark)
    table = gl.open(tmp_path / "t")
    assert crs_of(table).text == text
    files = [path for path in (tmp_path / "t").rglob("*.parquet") if "_delta_log" not in path.parts]
    logical_types = [json.loads(pq.read_metadata(path).schema.column(0).logical_type.to_json()) for path in files]
    assert {kind.get("crs") for kind in logical_types} == {text}
    assert sum(table.snapshot.files.table["rows"].to_pylist()) == 4
    assert {finding.rule for finding in table.check() if finding.severity.value == "error"} == set()


@pytest.mark.parametrize("text", ["geometry()", "geometry( )", "geography()", "geography(, spherical)"])
def test_a_type_with_nothing_between_its_brackets_does_not_close_a_delta_table(tmp_path, text):
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    lists = {"readerFeatures": ["geospatial"], "writerFeatures": ["geospatial"]}
    stats = {"numRecords": 1, "minValues": {"geom": "POINT(1 2)"}, "maxValues": {"geom": "POINT(1 2)"}}
    schema = log_maker.metadata(log_maker.field("geom", text))
    log = log_maker.LogMaker(tmp_path / "t")
    log.commit(0, {"protocol": {**protocol, **lists}}, schema, log_maker.add("a.parquet", stats=stats))
    table = gl.open(str(tmp_path / "t"))
    assert "crs.unresolved" in {finding.rule for finding in table.check(footers=False)}
    name = text.partition("(")[0]
    assert name in str(table)
    assert name in table._repr_html_()
    # A window in a CRS cannot be compared with coordinates in none that is known.
    assert table.explain((50, 50, 60, 60), box_crs="EPSG:4326").read.files == 1
    # The CRS stays empty when the type is rewritten.
    assert to_delta_text(table.schema.find("geom").type) in ("geometry()", "geography(, spherical)")
    with pytest.raises(GeolakeError, match="a CRS is empty; give one such as OGC:CRS84"):
        geo_type(text)
