"""The first commit of a table, and protocols that get features."""

from __future__ import annotations

import json

import pytest

import geolake_nb as gl
from geolake_nb.changes.column_types import known_crs, known_geo_type
from geolake_nb.errors import RefusedError, SchemaError
from geolake_nb.formats.delta.protocol import read_protocol
from geolake_nb.formats.delta.schema import delta_columns, from_delta_schema, require_delta_names
from geolake_nb.formats.delta.write import FirstCommit, upgraded_protocol, with_indexed_geo, with_table_id
from geolake_nb.model.change import Change, Verb
from geolake_nb.model.crs import Crs
from geolake_nb.model.schema import Schema
from geolake_nb.model.table_format import Answer
from geolake_nb.model.types import Field, GeometryType, ListType, PrimitiveType, StringType, StructType

LONG = PrimitiveType("int64")


def schema(**columns) -> Schema:
    return Schema(StructType(tuple(Field(name, type_) for name, type_ in columns.items())))


def names(protocol, key):
    return set(protocol[key])


# Delta, Table features: the features that each legacy protocol version implies.
LEGACY = {
    2: {"appendOnly", "invariants"},
    3: {"appendOnly", "invariants", "checkConstraints"},
    4: {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"},
}
LEGACY[5] = LEGACY[4] | {"columnMapping"}
LEGACY[6] = LEGACY[5] | {"identityColumns"}


@pytest.mark.parametrize("writer", sorted(LEGACY))
def test_old_versions_become_lists_of_the_features_they_imply(writer):
    reader = 2 if writer >= 5 else 1
    protocol = upgraded_protocol({"minReaderVersion": reader, "minWriterVersion": writer}, ["geospatial"])
    assert (protocol["minReaderVersion"], protocol["minWriterVersion"]) == (3, 7)
    assert names(protocol, "writerFeatures") == LEGACY[writer] | {"geospatial"}
    assert names(protocol, "readerFeatures") == {"geospatial"} | ({"columnMapping"} if reader == 2 else set())


def test_writer_5_alone_does_not_mean_column_mapping():
    protocol = upgraded_protocol({"minReaderVersion": 1, "minWriterVersion": 5}, ["geospatial"])
    assert "columnMapping" not in names(protocol, "writerFeatures")
    mapped = {"delta.columnMapping.mode": "name"}
    protocol = upgraded_protocol({"minReaderVersion": 1, "minWriterVersion": 5}, ["geospatial"], configuration=mapped)
    assert "columnMapping" in names(protocol, "writerFeatures") & names(protocol, "readerFeatures")


def test_features_that_are_there_stay_unknown_ones_included():
    before = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["fromTheFuture", "deletionVectors"],
        "writerFeatures": ["fromTheFuture", "deletionVectors", "rowTracking"],
        "note": "kept",
    }
    protocol = upgraded_protocol(before, ["geospatial"])
    assert names(protocol, "readerFeatures") == {"fromTheFuture", "deletionVectors", "geospatial"}
    assert names(protocol, "writerFeatures") == {"fromTheFuture", "deletionVectors", "rowTracking", "geospatial"}
    assert protocol["note"] == "kept"
    assert upgraded_protocol(protocol, ["geospatial"]) is None


def test_a_writer_feature_leaves_the_readers_alone():
    protocol = upgraded_protocol({"minReaderVersion": 1, "minWriterVersion": 2}, ["collations", "domainMetadata"])
    assert protocol == {
        "minReaderVersion": 1,
        "minWriterVersion": 7,
        "writerFeatures": ["appendOnly", "collations", "domainMetadata", "invariants"],
    }
    read_protocol(protocol)


def test_reader_2_of_a_table_with_writer_features_becomes_a_list():
    before = {"minReaderVersion": 2, "minWriterVersion": 7, "writerFeatures": ["columnMapping", "rowTracking"]}
    protocol = upgraded_protocol(before, ["geospatial"])
    assert names(protocol, "readerFeatures") == {"columnMapping", "geospatial"}


def test_a_new_table_requires_no_more_than_it_needs():
    assert FirstCommit("/t", schema(id=LONG)).protocol == {"minReaderVersion": 1, "minWriterVersion": 2}
    geo = FirstCommit("/t", schema(id=LONG, g=gl.geometry(), t=PrimitiveType("timestamp")))
    assert names(geo.protocol, "readerFeatures") == {"geospatial", "timestampNtz"}
    inside = schema(tags=ListType(Field("element", gl.geography())))
    assert "geospatial" in names(FirstCommit("/t", inside).protocol, "writerFeatures")
    vectors = FirstCommit("/t", schema(id=LONG), properties={"delta.enableDeletionVectors": "true"})
    assert names(vectors.protocol, "readerFeatures") == {"deletionVectors"}


def test_the_metadata_is_the_same_in_each_plan_and_another_in_each_table():
    table = FirstCommit("/t", schema(id=LONG, g=gl.geometry("EPSG:3857")), ("id",), {"owner": "me"})
    change = Change(Verb.WRITE, None, "/t", None, actions=table.actions)
    assert table.actions == FirstCommit("/t", table.schema, ("id",), {"owner": "me"}).actions
    first, again, other = (
        json.loads(with_table_id(change, transaction).actions[1])["metaData"] for transaction in ("a", "a", "b")
    )
    assert first["id"] == again["id"] != other["id"]
    assert first["createdTime"] > 1.7e12
    assert first["partitionColumns"] == ["id"]
    assert first["configuration"] == {"owner": "me"}
    assert from_delta_schema(first["schemaString"]).find("g").type == gl.geometry("EPSG:3857")


@pytest.mark.parametrize(
    "name",
    [
        "delta.columnMapping.mode",
        "delta.constraints.c",
        "delta.enableRowTracking",
        "delta.feature.x",
        "delta.minReaderVersion",
    ],
)
def test_properties_that_need_more_are_refused_by_name(name):
    with pytest.raises(RefusedError, match=name):
        FirstCommit("/t", schema(id=LONG), properties={name: "true"})


@pytest.mark.parametrize("partition_by", [("g",), ("none",), ("id", "id"), ("id", "k"), ("s",)])
def test_what_cannot_be_a_partition_is_refused(partition_by):
    columns = schema(id=LONG, k=LONG, g=gl.geometry(), s=StructType((Field("a", LONG),)))
    if partition_by == ("id", "k"):
        columns = schema(id=LONG, k=LONG)
    with pytest.raises(SchemaError):
        FirstCommit("/t", columns, partition_by)


@pytest.mark.parametrize(("given", "wanted"), [
    ("EPSG:4326", "OGC:CRS84"), ("srid:4326", "OGC:CRS84"), ("epsg:3857", "EPSG:3857"), ("srid:5070", "EPSG:5070"),
    ("srid:0", "SRID:0"), ("OGC:CRS84", "OGC:CRS84"),
])  # fmt: skip
def test_a_crs_gets_the_name_that_most_readers_know(given, wanted):
    assert known_crs(Crs(given), "g", {}).text == wanted


def test_projjson_becomes_a_code_or_a_property():
    properties = {}
    known = Crs.parse(Crs("EPSG:32618").to_projjson())
    assert known_crs(known, "g", properties).text == "EPSG:32618"
    own = known.to_projjson()
    own.pop("id")
    own["name"] = "mine"
    own["conversion"]["parameters"][1]["value"] = -72.5
    crs = known_crs(Crs.parse(own), "my geom", properties)
    assert crs.text == "projjson:geolake.crs.my_geom"
    assert json.loads(properties["geolake.crs.my_geom"]) == own
    assert known_crs(Crs.parse(own), "my geom", properties) == crs
    own["name"] = "another"
    assert known_crs(Crs.parse(own), "my geom", properties).text == "projjson:geolake.crs.my_geom_"


def test_a_property_that_is_missing_is_refused():
    with pytest.raises(SchemaError, match="'gone' is missing"):
        known_geo_type(GeometryType(Crs("projjson:gone")), "g", {})


@pytest.mark.parametrize("name", ["uint64", "time", "timetz_ns", "interval", "variant", "unknown", "decimal(39, 2)"])
def test_types_that_delta_lacks_are_refused_by_name(name):
    with pytest.raises(SchemaError, match=f"'s.a' is of type {name}".replace("(", r"\(").replace(")", r"\)")):
        delta_columns(schema(s=StructType((Field("a", PrimitiveType(name)),))))


def test_types_that_another_holds_are_reported():
    given = schema(
        a=PrimitiveType("uint32"), b=PrimitiveType("fixed(3)"), c=PrimitiveType("timestamp_ns"), d=StringType()
    )
    converted, sentences = delta_columns(given)
    assert [field.type for field in converted.fields] == [
        LONG, PrimitiveType("binary"), PrimitiveType("timestamp"), StringType(),
    ]  # fmt: skip
    assert len(sentences) == 3


@pytest.mark.parametrize("name", ["a b", "a,b", "a=b", "x(y)", ""])
def test_names_that_need_column_mapping_are_refused(name):
    with pytest.raises(SchemaError):
        require_delta_names(schema(s=StructType((Field(name, LONG),))))
    with pytest.raises(SchemaError, match="two columns"):
        require_delta_names(schema(a=LONG, A=LONG))


def test_geo_columns_far_to_the_right_have_statistics_too():
    wide = schema(**{f"c{number}": LONG for number in range(40)}, g=gl.geometry(), more=LONG)
    properties = with_indexed_geo(wide, {}, (), [("g",)])
    assert properties == {"delta.dataSkippingNumIndexedCols": "41"}
    assert with_indexed_geo(wide, {"delta.dataSkippingNumIndexedCols": "-1"}, (), [("g",)]) == {
        "delta.dataSkippingNumIndexedCols": "-1"
    }
    chosen = {"delta.dataSkippingStatsColumns": "c1"}
    assert with_indexed_geo(wide, chosen, (), [("g",)]) == chosen


@pytest.mark.parametrize(
    ("type_", "opens"),
    [
        (gl.geometry(), True),
        (gl.geometry("EPSG:32633"), True),
        (gl.geometry("SRID:0"), True),
        (gl.geometry("projjson:mine"), False),
        (gl.geography(algorithm="karney"), False),
    ],
)
def test_the_plan_says_whether_spark_can_open_the_table(type_, opens):
    facts = [fact for fact in FirstCommit("/t", schema(g=type_)).engines if fact.engine.startswith("Spark")]
    assert [fact.reads is Answer.YES for fact in facts] == [opens]
