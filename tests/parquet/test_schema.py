from __future__ import annotations

import io
import json
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import geolake_nb as gl
from geolake_nb.errors import SchemaError
from geolake_nb.model.crs import CRS84, UNKNOWN_CRS, Crs
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import (
    EdgeAlgorithm,
    Field,
    GeographyType,
    GeometryEncoding,
    GeometryType,
    ListType,
    PrimitiveType,
    StringType,
    StructType,
)
from geolake_nb.parquet.geoparquet import GeoColumn, GeoEncoding, GeoMetadata, from_geo_metadata
from geolake_nb.parquet.schema import PATH_KEY, from_parquet_schema, to_arrow_type, with_geo_metadata


def footer_bytes(table, **options):
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return file.getvalue()


def footer(table, **options):
    return pq.read_metadata(io.BytesIO(footer_bytes(table, **options)))


def geo_column(metadata):
    """A WKB column marked as GeoArrow does, so that pyarrow writes Parquet's GEOMETRY or GEOGRAPHY."""
    ga = pytest.importorskip("geoarrow.pyarrow")
    type_ = ga.wkb()
    if metadata.get("crs"):
        type_ = type_.with_crs(metadata["crs"])
    if metadata.get("edges"):
        type_ = type_.with_edge_type(ga.EdgeType.SPHERICAL)
    return pa.table({"g": pa.ExtensionArray.from_storage(type_, pa.array([b""]))})


@pytest.mark.parametrize(
    ("arrow", "expected"),
    [
        (pa.bool_(), "boolean"),
        (pa.int8(), "int8"),
        (pa.int64(), "int64"),
        (pa.uint32(), "uint32"),
        (pa.float16(), "float16"),
        (pa.float32(), "float32"),
        (pa.decimal128(10, 2), "decimal(10, 2)"),
        (pa.date32(), "date"),
        (pa.time32("ms"), "time_ms"),
        (pa.time64("us"), "time"),
        (pa.time64("ns"), "time_ns"),
        (pa.timestamp("us"), "timestamp"),
        (pa.timestamp("ms", "Europe/Berlin"), "timestamptz_ms"),
        (pa.timestamp("ns", "UTC"), "timestamptz_ns"),
        (pa.binary(), "binary"),
        (pa.large_binary(), "binary"),
        (pa.binary(3), "fixed(3)"),
        (pa.null(), "unknown"),
        (pa.uuid(), "uuid"),
        (pa.json_(), "json"),
    ],
)
def test_logical_types_have_one_name_each(arrow, expected):
    schema = from_parquet_schema(footer(pa.schema([("c", arrow)]).empty_table()))
    assert schema.find("c").type == PrimitiveType(expected)


@pytest.mark.parametrize("arrow", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_text_is_text_however_arrow_holds_it(arrow):
    assert from_parquet_schema(footer(pa.schema([("c", arrow)]).empty_table())).find("c").type == StringType()


def test_the_old_timestamp_is_told_apart():
    table = pa.table({"c": pa.array([1], pa.timestamp("us"))})
    read = from_parquet_schema(footer(table, use_deprecated_int96_timestamps=True))
    assert read.find("c").type == PrimitiveType("timestamp_int96")


def with_id(name, type_, number, *, nullable=True):
    return pa.field(name, type_, nullable, {"PARQUET:field_id": str(number)})


def test_nesting_ids_nullability_and_paths_in_the_file():
    inner = pa.struct([with_id("x", pa.float64(), 4, nullable=False), with_id("n", pa.decimal128(9, 3), 5)])
    arrow = pa.schema(
        [
            with_id("id", pa.int64(), 1, nullable=False),
            with_id("l", pa.list_(with_id("element", inner, 3)), 2),
            with_id(
                "m",
                pa.map_(with_id("key", pa.string(), 7, nullable=False), with_id("value", pa.int8(), 8)),
                6,
            ),
            pa.field("f", pa.list_(pa.float32(), 2)),
        ]
    )
    schema = from_parquet_schema(footer(arrow.empty_table()))
    assert str(schema).splitlines() == [
        "id: int64, required, #1",
        "l: list, #2",
        "  element: struct, #3",
        "    x: float64, required, #4",
        "    n: decimal(9, 3), #5",
        "m: map, #6",
        "  key: string, required, #7",
        "  value: int8, #8",
        "f: list",
        "  element: float32",
    ]
    leaves = {path: field.metadata[PATH_KEY] for path, field in schema.walk() if field.metadata}
    assert leaves["l.element.x"] == "l.list.element.x"
    assert leaves["m.key"] == "m.key_value.key"
    columns = footer(arrow.empty_table()).schema
    assert list(leaves.values()) == [columns.column(index).path for index in range(len(columns))]


@pytest.mark.parametrize("crs", ["EPSG:3857", "srid:5070", "projjson:nowhere"])
def test_the_crs_of_a_geometry_is_read(crs):
    assert from_parquet_schema(footer(geo_column({"crs": crs}))).find("g").type.crs.text == crs


def test_inline_projjson_is_read():
    import pyproj

    read = from_parquet_schema(footer(geo_column({"crs": pyproj.CRS("EPSG:5070")})))
    assert read.find("g").type.crs.same_as(Crs("EPSG:5070"))


def test_a_text_that_does_not_name_a_crs_is_kept():
    read = from_parquet_schema(footer(geo_column({"crs": "no CRS at all"})))
    assert read.find("g").type.crs.text == "no CRS at all"


# Parquet, thrift: EdgeInterpolationAlgorithm SPHERICAL 0, VINCENTY 1, THOMAS 2, ANDOYER 3, KARNEY 4.
@pytest.mark.parametrize(("number", "algorithm"), list(enumerate(EdgeAlgorithm)))
def test_every_algorithm_of_a_geography_is_read(number, algorithm):
    content = footer_bytes(geo_column({"crs": "EPSG:4267", "edges": "spherical"}), store_schema=False)
    end = content.index(b"EPSG:4267") + len(b"EPSG:4267")
    (length,) = struct.unpack("<i", content[-8:-4])
    # pyarrow writes spherical only, as no field at all: add field 2, a zigzag i32 of the compact protocol.
    patched = content[:end] + bytes([0x15, 2 * number]) + content[end:-8] + struct.pack("<i", length + 2) + b"PAR1"
    read = from_parquet_schema(pq.read_metadata(io.BytesIO(patched)))
    assert read.find("g").type == GeographyType(Crs("EPSG:4267"), algorithm)


def test_the_schema_alone_looks_definitions_up_in_the_given_properties():
    schema = footer(geo_column({"crs": "projjson:albers"})).schema
    definition = json.dumps(Crs("EPSG:5070").to_projjson())
    assert from_parquet_schema(schema).find("g").type.crs.resolved is None
    read = from_parquet_schema(schema, properties={"albers": definition})
    assert read.find("g").type.crs.same_as(Crs("EPSG:5070"))


ALBERS = Crs("EPSG:5070")
FILES = {
    "parquet-testing/crs-default.parquet": ("geometry", GeometryType, CRS84),
    "parquet-testing/crs-geography.parquet": ("geography", GeographyType, CRS84),
    "parquet-testing/crs-projjson.parquet": ("geometry", GeometryType, ALBERS),
    "parquet-testing/crs-srid.parquet": ("geometry", GeometryType, ALBERS),
    "parquet-testing/geography-points.parquet": ("geometry", GeographyType, CRS84),
    "parquet-testing/geospatial.parquet": ("geometry", GeometryType, CRS84),
    "geoarrow-data/example-crs_vermont-4326.parquet": ("geometry", GeometryType, CRS84),
    "geoarrow-data/example-crs_vermont-crs84.parquet": ("geometry", GeometryType, CRS84),
    "geoarrow-data/example-crs_vermont-utm.parquet": ("geometry", GeometryType, Crs("EPSG:32618")),
    "geoparquet-io/fields_gpq2_crs84_zstd.parquet": ("geometry", GeometryType, CRS84),
    "geoparquet-io/fields_pgo_crs84_bbox_snappy.parquet": ("geometry", GeometryType, CRS84),
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_others_show_type_and_crs(corpus, name):
    column, kind, crs = FILES[name]
    schema = from_parquet_schema(pq.read_metadata(corpus / "parquet_geo" / name))
    ((path, field),) = schema.geo_columns()
    assert path == column
    assert isinstance(field.type, kind)
    assert field.type.crs.same_as(crs)


def test_a_custom_crs_of_the_footer_is_that_of_the_geo_metadata(corpus):
    metadata = pq.read_metadata(corpus / "parquet_geo/geoarrow-data/example-crs_vermont-custom.parquet")
    read = from_parquet_schema(metadata).find("geometry").type.crs
    assert read.same_as(from_geo_metadata(metadata.metadata[b"geo"]).primary.crs)
    assert not read.same_as(CRS84)


@pytest.mark.parametrize("kind", ["linestring", "multilinestring", "multipoint", "multipolygon", "point", "polygon"])
def test_geoparquet_metadata_types_plain_columns(corpus, kind):
    for encoding, expected in (("native", GeometryEncoding.GEOARROW), ("wkb", GeometryEncoding.WKB)):
        metadata = pq.read_metadata(corpus / f"geoparquet/test_data_1.1.0/data-{kind}-encoding_{encoding}.parquet")
        schema = from_parquet_schema(metadata)
        assert schema.geo_columns() == ()
        typed = with_geo_metadata(schema, from_geo_metadata(metadata.metadata[b"geo"]))
        assert typed.find("geometry").type == GeometryType(CRS84, expected)


def test_parquet_types_win_over_geoparquet_metadata():
    own = Schema(StructType((Field("g", GeometryType()),)))
    assert with_geo_metadata(own, GeoMetadata("g", {"g": GeoColumn(crs=UNKNOWN_CRS)})) == own


@pytest.mark.parametrize(
    ("type_", "encoding"),
    [
        (StringType(), GeoEncoding.WKB),
        (PrimitiveType("binary"), GeoEncoding.WKT),
        (PrimitiveType("binary"), GeoEncoding.POINT),
        (ListType(Field("element", StringType())), GeoEncoding.WKB),
    ],
)
def test_metadata_that_does_not_fit_the_column_is_refused(type_, encoding):
    schema = Schema(StructType((Field("g", type_),)))
    with pytest.raises(SchemaError, match=r"^geo, column g: the encoding .* does not go with the type"):
        with_geo_metadata(schema, GeoMetadata("g", {"g": GeoColumn(encoding)}))


def test_metadata_of_a_column_that_is_not_there_is_refused():
    with pytest.raises(SchemaError, match=r"^geo: GeoParquet names columns that are not there: g"):
        with_geo_metadata(Schema(), GeoMetadata("g", {"g": GeoColumn()}))


@pytest.mark.parametrize("crs", ["OGC:CRS84", "EPSG:32633", "srid:5070", "projjson:roads"])
@pytest.mark.parametrize("make", [GeometryType, GeographyType])
def test_a_column_of_the_arrow_type_is_written_with_the_logical_type(crs, make):
    column = to_arrow_type(make(Crs(crs))).wrap_array(pa.array([None], pa.binary()))
    file = io.BytesIO()
    pq.write_table(pa.table({"g": column}), file)
    schema = from_parquet_schema(pq.ParquetFile(file).metadata)
    assert schema.find("g").type == make(Crs(crs))


def test_edges_that_pyarrow_cannot_write_are_refused():
    with pytest.raises(SchemaError, match="karney edges; use spherical"):
        to_arrow_type(gl.geography("OGC:CRS84", "karney"))
