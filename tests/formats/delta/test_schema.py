from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.errors import GeolakeError, SchemaError
from geolake_nb.formats.delta.schema import from_delta_schema, to_delta_schema
from geolake_nb.model.collation import Collation
from geolake_nb.model.crs import Crs
from geolake_nb.model.schema import Schema
from geolake_nb.model.types import (
    EdgeAlgorithm,
    Field,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    PrimitiveType,
    RasterType,
    StringType,
    StructType,
)


def schema_of(*fields):
    return json.dumps({"type": "struct", "fields": list(fields)}, separators=(",", ":"))


def field(name, type_, **metadata):
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata}


# Delta protocol, Primitive types, and Spark's names for what has no other.
TYPES = [
    ("string", StringType()),
    ("long", PrimitiveType("int64")),
    ("integer", PrimitiveType("int32")),
    ("short", PrimitiveType("int16")),
    ("byte", PrimitiveType("int8")),
    ("float", PrimitiveType("float32")),
    ("double", PrimitiveType("float64")),
    ("decimal(10,2)", PrimitiveType("decimal(10, 2)")),
    ("boolean", PrimitiveType("boolean")),
    ("binary", PrimitiveType("binary")),
    ("date", PrimitiveType("date")),
    ("timestamp", PrimitiveType("timestamptz")),
    ("timestamp_ntz", PrimitiveType("timestamp")),
    ("variant", PrimitiveType("variant")),
    ("void", PrimitiveType("unknown")),
    ("interval day to second", PrimitiveType("interval day to second")),
    ("geometry(EPSG:3857)", GeometryType(Crs("EPSG:3857"))),
    ("geometry(SRID:0)", GeometryType(Crs("SRID:0"))),
    ("geography(OGC:CRS84, karney)", GeographyType(algorithm=EdgeAlgorithm.KARNEY)),
]


@pytest.mark.parametrize(("text", "expected"), TYPES)
def test_every_type_is_read_and_written_back(text, expected):
    stored = schema_of(field("c", text))
    schema = from_delta_schema(stored)
    assert schema.find("c").type == expected
    assert to_delta_schema(schema) == stored


def test_upper_case_of_delta_is_read_and_lower_case_written():
    schema = from_delta_schema(schema_of(field("c", "geography(OGC:CRS84, SPHERICAL)")))
    assert to_delta_schema(schema) == schema_of(field("c", "geography(OGC:CRS84, spherical)"))


def test_nesting_and_nullability_are_kept():
    array = {"type": "array", "elementType": "geometry(OGC:CRS84)", "containsNull": False}
    pairs = {"type": "map", "keyType": "string", "valueType": array, "valueContainsNull": True}
    stored = schema_of(field("s", {"type": "struct", "fields": [field("m", pairs)]}))
    schema = from_delta_schema(stored)
    assert schema.find("s.m.value.element") == Field("element", GeometryType(), nullable=False)
    assert not schema.find("s.m.key").nullable
    assert schema.find("s.m.value").nullable
    assert to_delta_schema(schema) == stored


def test_column_mapping_and_all_other_metadata_are_kept():
    metadata = {
        "delta.columnMapping.id": 7,
        "comment": "wo sie liegt: Straße",
        "delta.columnMapping.physicalName": "col-7",
        "delta.typeChanges": [{"toType": "long", "fromType": "byte", "tableVersion": 2}],
        "x": {"y": [1, 2.5, None, True]},
    }
    stored = json.dumps(
        json.loads(schema_of(field("c", "long", **metadata))), ensure_ascii=False, separators=(",", ":")
    )
    schema = from_delta_schema(stored)
    column = schema.find("c")
    assert (column.id, column.physical_name, column.doc) == (7, "col-7", "wo sie liegt: Straße")
    assert schema.physical_path("c") == ("col-7",)
    assert to_delta_schema(schema) == stored


def test_what_a_field_says_wins_over_what_was_read():
    column = from_delta_schema(schema_of(field("c", "long", comment="old"))).find("c")
    renamed = replace(column, doc="new")
    assert json.loads(to_delta_schema(Schema(StructType((renamed,)))))["fields"][0]["metadata"] == {"comment": "new"}
    bare = replace(column, doc=None)
    assert json.loads(to_delta_schema(Schema(StructType((bare,)))))["fields"][0]["metadata"] == {}


def test_an_id_of_another_format_is_no_column_mapping():
    text = to_delta_schema(Schema(StructType((Field("c", PrimitiveType("int64"), id=4),))))
    assert json.loads(text)["fields"][0]["metadata"] == {}


def test_collations_are_on_the_types_and_go_back_to_the_metadata():
    # Delta collations, Specifying collations in the table schema: the example of the text.
    inner = {"type": "struct", "fields": [field("f1", "string", __COLLATIONS={"f1": "icu.de_DE"})]}
    pairs = {"type": "map", "keyType": "string", "valueType": inner, "valueContainsNull": True}
    array = {"type": "array", "elementType": pairs, "containsNull": True}
    stored = schema_of(
        field("col1", "string", __COLLATIONS={"col1": "icu.de_DE"}),
        field("col2", array, __COLLATIONS={"col2.element.key": "icu.en_US"}),
    )
    schema = from_delta_schema(stored)
    assert schema.find("col1").type == StringType(Collation("icu", "de_DE"))
    assert schema.find("col2.element.key").type == StringType(Collation("icu", "en_US"))
    assert schema.find("col2.element.value.f1").type == StringType(Collation("icu", "de_DE"))
    assert to_delta_schema(schema) == stored


def test_properties_of_the_table_resolve_a_crs():
    definition = json.dumps(Crs("EPSG:5070").to_projjson())
    schema = from_delta_schema(schema_of(field("c", "geometry(projjson:albers)")), properties={"albers": definition})
    assert schema.find("c").type.crs.same_as(Crs("EPSG:5070"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        (
            '{"type":"array","containsNull":true,"elementType":' * 1000 + '"long"' + "}" * 1000,
            "nested too deeply",
        ),
        ("[]", "neither a name nor an array, map or struct"),
        ('"long"', "must be a struct"),
        ('{"type":"struct"}', "'fields' is missing"),
        ('{"type":"struct","fields":{}}', "'fields' is a dict, not a list"),
        ('{"type":"struct","fields":[1]}', "expected a JSON object, got a int"),
        ('{"type":"struct","fields":[{"type":"long"}]}', "'name' is missing"),
        (schema_of({"name": "c", "type": "long"}), "c: 'nullable' is missing"),
        (schema_of({"name": "c", "type": "long", "nullable": "no"}), "c: 'nullable' is a str, not a bool"),
        (schema_of({"name": "c", "type": "long", "nullable": True, "metadata": 1}), "c: 'metadata' is a int"),
        (schema_of(field("c", "bigint")), "c: unknown Delta type 'bigint'; known are: binary, boolean"),
        (schema_of(field("c", {"type": "udt"})), "c: a type is neither"),
        (
            schema_of(field("c", "long", **{"delta.columnMapping.id": True})),
            "'delta.columnMapping.id' is a bool",
        ),
        ('{"type":"struct","fields":[{"name":"\\ud800","type":"long","nullable":true}]}', "is not JSON"),
    ],
)
def test_a_broken_schema_is_a_typed_error_that_names_the_field(text, message):
    with pytest.raises(SchemaError) as caught:
        from_delta_schema(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (PrimitiveType("uuid"), "no type for uuid"),
        (RasterType(), "no type for raster"),
        (PrimitiveType("time"), "time"),
    ],
)
def test_types_that_delta_lacks_are_refused_by_name(type_, message):
    nested = Schema(StructType((Field("a", ListType(Field("element", type_))),)))
    with pytest.raises(SchemaError, match=f"^a.element: Delta has .*{message}"):
        to_delta_schema(nested)


def test_real_tables_are_written_back_byte_for_byte(corpus):
    count = 0
    for path in sorted((corpus / "delta").rglob("*.json")):
        for line in path.read_text(errors="replace").splitlines():
            if '"schemaString"' not in line:
                continue
            action = json.loads(line)
            text = (action.get("metaData") or action["metadata"])["schemaString"]
            assert to_delta_schema(from_delta_schema(text)) == text, path
            count += 1
    assert count >= 38


def test_nested_ids_of_iceberg_compatibility_reach_elements_keys_and_values(corpus):
    log = corpus / "delta/delta-golden/table-with-icebegCompatV2Enabled/_delta_log/00000000000000000000.json"
    action = next(json.loads(line) for line in log.read_text().splitlines() if '"schemaString"' in line)
    schema = from_delta_schema(action["metaData"]["schemaString"])
    assert len(schema.paths_by_id()) == 53
    assert schema.path_of_id(37) == "array_of_map_of_arrays.element.value.element"


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
scalars = st.sampled_from([type_ for _, type_ in TYPES])
types = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.builds(
            lambda fields: StructType(tuple(fields)),
            st.lists(st.builds(Field, names, inner, nullable=st.booleans()), max_size=3, unique_by=lambda f: f.name),
        ),
        st.builds(lambda t, n: ListType(Field("element", t, nullable=n)), inner, st.booleans()),
        st.builds(
            lambda k, v, n: MapType(Field("key", k, nullable=False), Field("value", v, nullable=n)),
            inner,
            inner,
            st.booleans(),
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.builds(Field, names, types, nullable=st.booleans()), max_size=4, unique_by=lambda f: f.name))
def test_any_schema_round_trips(fields):
    schema = Schema(StructType(tuple(fields)))
    assert from_delta_schema(to_delta_schema(schema)) == schema


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["struct", "array", "map"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "fields", "name", "nullable", "elementType", "metadata"]), inner)
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(json_values)
def test_any_json_is_read_or_refused_with_our_error(value):
    with contextlib.suppress(GeolakeError):
        from_delta_schema(json.dumps(value))
