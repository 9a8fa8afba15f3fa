from __future__ import annotations

import contextlib
import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.errors import GeolakeError, SchemaError
from geolake_nb.formats.iceberg.schema import from_iceberg_schema, to_iceberg_schema
from geolake_nb.model.crs import Crs
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import (
    EdgeAlgorithm,
    Field,
    GeographyType,
    GeometryEncoding,
    GeometryType,
    ListType,
    PrimitiveType,
    RasterType,
    StringType,
    StructType,
)

EMPTY = {"type": "struct", "fields": []}


def schema_of(*fields):
    return {"type": "struct", "schema-id": 3, "fields": list(fields)}


def field(type_, *, name="c", field_id=1, required=False, **others):
    return {"id": field_id, "name": name, "required": required, "type": type_, **others}


# Iceberg, Primitive types, v1 to v3.
TYPES = [
    ("boolean", PrimitiveType("boolean")),
    ("int", PrimitiveType("int32")),
    ("long", PrimitiveType("int64")),
    ("float", PrimitiveType("float32")),
    ("double", PrimitiveType("float64")),
    ("decimal(15, 2)", PrimitiveType("decimal(15, 2)")),
    ("date", PrimitiveType("date")),
    ("time", PrimitiveType("time")),
    ("timestamp", PrimitiveType("timestamp")),
    ("timestamptz", PrimitiveType("timestamptz")),
    ("timestamp_ns", PrimitiveType("timestamp_ns")),
    ("timestamptz_ns", PrimitiveType("timestamptz_ns")),
    ("string", StringType()),
    ("uuid", PrimitiveType("uuid")),
    ("fixed[16]", PrimitiveType("fixed(16)")),
    ("binary", PrimitiveType("binary")),
    ("unknown", PrimitiveType("unknown")),
    ("variant", PrimitiveType("variant")),
    ("geometry(OGC:CRS84)", GeometryType()),
    ("geography(EPSG:4267, karney)", GeographyType(Crs("EPSG:4267"), EdgeAlgorithm.KARNEY)),
]


@pytest.mark.parametrize(("text", "expected"), TYPES)
def test_every_type_is_read_and_written_back(text, expected):
    stored = schema_of(field(text))
    schema = from_iceberg_schema(json.dumps(stored))
    assert schema.find("c").type == expected
    assert to_iceberg_schema(schema) == stored


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("geometry", "geometry(OGC:CRS84)"),
        ("geography", "geography(OGC:CRS84, spherical)"),
        ("geography(srid:4326)", "geography(srid:4326, spherical)"),
        ("geometry('EPSG:3857')", "geometry(EPSG:3857)"),
        ("geography('OGC:CRS84', 'spherical')", "geography(OGC:CRS84, spherical)"),
        ("decimal(9,2)", "decimal(9, 2)"),
        ("BINARY", "binary"),
    ],
)
def test_other_spellings_are_read_and_the_java_form_is_written(text, written):
    assert to_iceberg_schema(from_iceberg_schema(schema_of(field(text)))) == schema_of(field(written))


def test_ids_docs_defaults_and_identifier_fields_are_kept():
    point = {"type": "struct", "fields": [field("double", name="x", field_id=6, required=True)]}
    pairs = {
        "type": "map",
        "key-id": 4,
        "key": "string",
        "value-id": 5,
        "value": point,
        "value-required": False,
    }
    stored = {
        **schema_of(
            field("long", name="id", required=True, doc="the key", **{"initial-default": 7, "write-default": 8}),
            field(
                {"type": "list", "element-id": 3, "element": pairs, "element-required": True},
                name="l",
                field_id=2,
            ),
        ),
        "identifier-field-ids": [1],
    }
    schema = from_iceberg_schema(stored)
    assert schema.schema_id == 3
    assert schema.identifier_field_ids == (1,)
    assert schema.find("id").doc == "the key"
    assert schema.path_of_id(6) == "l.element.value.x"
    assert not schema.find("l.element").nullable
    assert to_iceberg_schema(schema) == stored


def test_unknown_keys_are_kept_wherever_they_stand():
    listed = {"type": "list", "element-id": 2, "element": "int", "element-required": False, "x": 1}
    stored = {**schema_of(field(listed, y={"z": [None]})), "w": True}
    assert to_iceberg_schema(from_iceberg_schema(stored)) == stored


@pytest.mark.parametrize(
    ("encoding", "physical"),
    [("ewkb", "binary"), ("wkb", "binary"), ("wkt", "string"), ("geojson", "string")],
)
def test_havasu_geometries_are_read_and_written_back(encoding, physical):
    stored = schema_of(field(physical, **{"havasu.geometry-encoding": encoding}))
    for spelling in (physical, physical.upper()):
        read = from_iceberg_schema(schema_of(field(spelling, **{"havasu.geometry-encoding": encoding})))
        assert read.find("c").type == GeometryType(Crs("SRID:0"), GeometryEncoding(encoding))
        assert to_iceberg_schema(read, havasu=True) == stored


def test_havasu_rasters_are_read_and_written_back():
    stored = schema_of(field(EMPTY, **{"havasu.raster-encoding": "v1"}))
    schema = from_iceberg_schema(stored)
    assert schema.find("c").type == RasterType()
    assert to_iceberg_schema(schema, havasu=True) == stored


def test_the_two_examples_of_the_havasu_text():
    geom = {"id": 1, "name": "geom", "required": False, "type": "BINARY", "havasu.geometry-encoding": "ewkb"}
    rast = {"id": 1, "name": "rast", "required": False, "type": EMPTY, "havasu.raster-encoding": "v1"}
    for example, expected in ((geom, GeometryType), (rast, RasterType)):
        (column,) = from_iceberg_schema({"type": "struct", "fields": [example]}).fields
        assert isinstance(column.type, expected)
        assert column.nullable


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            field("binary", **{"havasu.geometry-encoding": "geojson"}),
            "geojson does not go with the type binary; use string",
        ),
        (
            field("string", **{"havasu.geometry-encoding": "ewkb"}),
            "ewkb does not go with the type string; use binary",
        ),
        (field("geometry", **{"havasu.geometry-encoding": "wkb"}), "does not go with the type geometry"),
        (field(EMPTY, **{"havasu.geometry-encoding": "wkb"}), "does not go with the type struct"),
        (field("binary", **{"havasu.geometry-encoding": "twkb"}), "use one of: ewkb, geojson, wkb, wkt"),
        (field("binary", **{"havasu.geometry-encoding": None}), "'havasu.geometry-encoding' is a NoneType"),
        (field("binary", **{"havasu.raster-encoding": "v1"}), "not an empty struct"),
        (
            field({"type": "struct", "fields": [field("int", field_id=2)]}, **{"havasu.raster-encoding": "v1"}),
            "empty",
        ),
        (field(EMPTY, **{"havasu.raster-encoding": "v2"}), "unknown raster encoding 'v2'"),
        (field("binary", **{"havasu.geometry-encoding": "wkb", "havasu.raster-encoding": "v1"}), "both"),
        (
            field("binary", **{"havasu.geometry-encoding": "wkb", "write-default": "00"}),
            "'write-default' that is not null",
        ),
        (field("binary", **{"havasu.geometry-encoding": "wkb", "initial-value": "00"}), "'initial-value'"),
        (
            field(EMPTY, **{"havasu.raster-encoding": "v1", "initial-default": {}}),
            "raster has a 'initial-default'",
        ),
        (field("geometry", **{"initial-default": "00"}), "'initial-default' that is not null"),
        (field("variant", **{"write-default": 1}), "variant has a 'write-default'"),
    ],
)
def test_inconsistent_columns_are_refused_with_the_reason(column, message):
    with pytest.raises(SchemaError) as caught:
        from_iceberg_schema(schema_of(column))
    assert str(caught.value).startswith("c: ")
    assert message in str(caught.value)


def test_null_defaults_of_spatial_columns_are_fine():
    stored = schema_of(field("geometry(OGC:CRS84)", **{"initial-default": None, "write-default": None}))
    assert to_iceberg_schema(from_iceberg_schema(stored)) == stored


def test_each_dialect_refuses_the_types_of_the_other():
    ewkb = Schema(StructType((Field("g", GeometryType(encoding=GeometryEncoding.EWKB), id=1),)))
    with pytest.raises(SchemaError, match="holds WKB, not ewkb"):
        to_iceberg_schema(ewkb)
    rast = Schema(StructType((Field("r", RasterType(), id=1),)))
    with pytest.raises(SchemaError, match=r"^r: Iceberg has no type for raster"):
        to_iceberg_schema(rast)
    for type_ in (GeographyType(), ListType(Field("element", GeometryType(), id=2))):
        with pytest.raises(SchemaError, match="Havasu has no type for geo"):
            to_iceberg_schema(Schema(StructType((Field("g", type_, id=1),))), havasu=True)


def test_a_field_without_an_id_cannot_be_written():
    with pytest.raises(SchemaError, match=r"^g: a field has no id"):
        to_iceberg_schema(Schema(StructType((Field("g", GeometryType()),))))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "to be a JSON object, got a list"),
        ('{"fields": []}', "the type of a schema is not 'struct'"),
        ('{"type": "struct"}', "'fields' is missing"),
        (json.dumps(schema_of({"name": "c", "type": "int", "required": True})), "c: 'id' is missing"),
        (json.dumps(schema_of(field("int", field_id=True))), "c: 'id' is a bool"),
        (json.dumps(schema_of(field("integer"))), "c: unknown Iceberg type 'integer'"),
        (json.dumps(schema_of(field("geography(OGC:CRS84, flat)"))), "c: type 'geography(OGC:CRS84, flat)'"),
        (
            json.dumps(schema_of(field({"type": "list", "element": "int"}))),
            "c.element: 'element-required' is missing",
        ),
        (json.dumps(schema_of(field("int"), field("int", name="d"))), "c and d share the id 1"),
        ('{"type": "struct", "fields": [], "identifier-field-ids": ["1"]}', "to be a list of integers"),
    ],
)
def test_a_broken_schema_is_a_typed_error_that_names_the_field(text, message):
    with pytest.raises(SchemaError) as caught:
        from_iceberg_schema(text)
    assert message in str(caught.value)


def test_real_tables_lose_nothing(corpus):
    count = 0
    for path in sorted((corpus / "iceberg").rglob("*.json")):
        content = path.read_bytes()
        content = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
        metadata = json.loads(content)
        for stored in [*metadata.get("schemas", []), *([metadata["schema"]] if "schema" in metadata else [])]:
            if path.name == "TableMetadataV1MissingSchemaType.json":
                with pytest.raises(SchemaError):
                    from_iceberg_schema(stored)
                continue
            written = to_iceberg_schema(from_iceberg_schema(stored))
            assert {"identifier-field-ids": [], **written} == {"identifier-field-ids": [], **stored}, path
            count += 1
    assert count >= 90


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["struct", "list", "map", "int", "wkb", "v1", "binary"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "fields",
                    "id",
                    "name",
                    "required",
                    "element",
                    "havasu.geometry-encoding",
                    "havasu.raster-encoding",
                ]
            ),
            inner,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(json_values)
def test_any_json_is_read_or_refused_with_our_error(value):
    with contextlib.suppress(GeolakeError):
        from_iceberg_schema(json.dumps(value))
