"""What enabling a column plans and what it refuses, on logs that are written by hand."""

from __future__ import annotations

import json

import pytest

import geolake_nb as gl
from geolake_nb.changes.column_types import match_rows
from geolake_nb.errors import GeolakeError, RefusedError, SchemaError
from geolake_nb.formats.delta.rewrite import plan_enable
from geolake_nb.model.table_format import Answer
from geolake_nb.model.types import GeometryEncoding
from tests.formats.delta.log_maker import LogMaker, add, field, metadata

PLAIN = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def table(folder, *fields, partitions=(), protocol=PLAIN, files=1, extra=(), **configuration) -> LogMaker:
    made = LogMaker(folder)
    fields = fields or (field("id", "long"), field("geom", "binary"))
    values = dict.fromkeys(partitions, "1")
    adds = [add(f"{number}.parquet", {"numRecords": 7}, partitionValues=values) for number in range(files)]
    made.commit(0, protocol, metadata(*fields, partitions=partitions, **configuration), *extra, *adds)
    return made


def plan(made: LogMaker, **columns):
    return plan_enable(made.storage, made.open(), columns)


def actions(change, kind):
    return [json.loads(action)[kind] for action in change.actions if kind in json.loads(action)]


def test_the_plan_removes_all_files_and_changes_type_and_protocol(tmp_path):
    made = table(tmp_path, files=3)
    change = plan(made, geom=gl.geometry("EPSG:3857"))
    assert [next(iter(json.loads(action))) for action in change.actions] == ["protocol", "metaData", *["remove"] * 3]
    assert all(removed["dataChange"] is False for removed in actions(change, "remove"))
    (after,) = actions(change, "metaData")
    assert json.loads(after["schemaString"])["fields"][1]["type"] == "geometry(EPSG:3857)"
    assert {key: value for key, value in after.items() if key != "schemaString"} == {
        key: value for key, value in made.open().details.metadata.raw.items() if key != "schemaString"
    }
    assert change.job.expected_rows == 21
    assert change.job.geo_input["geom"].encoding is GeometryEncoding.WKB
    assert not change.tolerates_appends
    assert [step.name for step in change.irreversible_steps] == ["geospatial"]
    assert "deltalake" in change.irreversible_steps[0].why
    assert any(fact.reads is Answer.YES for fact in change.engines)
    assert change.hash == plan(made, geom=gl.geometry("EPSG:3857")).hash != plan(made, geom=gl.geometry()).hash
    with pytest.raises(RefusedError, match="--consent geospatial"):
        change.require_consent(())


def test_text_is_read_as_wkt_and_keeps_no_length(tmp_path):
    made = table(
        tmp_path, field("id", "long"), field("w", "string", comment="c", __CHAR_VARCHAR_TYPE_STRING="varchar(9)")
    )
    change = plan(made, W=gl.geography())
    assert change.job.geo_input["w"].encoding is GeometryEncoding.WKT
    (after,) = actions(change, "metaData")
    changed = json.loads(after["schemaString"])["fields"][1]
    assert changed == {
        "name": "w", "type": "geography(OGC:CRS84, spherical)", "nullable": True, "metadata": {"comment": "c"},
    }  # fmt: skip


def test_a_field_of_a_struct_can_be_enabled(tmp_path):
    inside = {"type": "struct", "fields": [field("g", "binary"), field("n", "long")]}
    change = plan(table(tmp_path, field("s", inside)), **{"s.g": gl.geometry()})
    (after,) = actions(change, "metaData")
    fields = json.loads(after["schemaString"])["fields"][0]["type"]["fields"]
    assert [inner["type"] for inner in fields] == ["geometry(OGC:CRS84)", "long"]
    assert list(change.job.geo_input) == ["s.g"]


def test_the_feature_alone_is_one_action(tmp_path):
    change = plan(table(tmp_path))
    assert change.job is None
    assert [next(iter(json.loads(action))) for action in change.actions] == ["protocol"]
    assert change.tolerates_appends
    assert [step.name for step in change.irreversible_steps] == ["geospatial"]


def test_what_is_there_already_is_not_done_again(tmp_path):
    lists = {"readerFeatures": ["geospatial"], "writerFeatures": ["geospatial"]}
    there = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **lists}}
    made = table(tmp_path / "a", protocol=there)
    assert plan(made).is_empty
    assert plan(made, geom=gl.geometry()).irreversible_steps == ()
    assert actions(plan(made, geom=gl.geometry()), "protocol") == []


def test_an_empty_table_needs_no_job(tmp_path):
    change = plan(table(tmp_path, files=0), geom=gl.geometry())
    assert change.job is None
    assert len(change.actions) == 2


def test_a_definition_without_a_code_becomes_a_property(tmp_path):
    own = gl.geometry("EPSG:32618").crs.to_projjson()
    own.pop("id")
    own["name"] = "mine"
    own["conversion"]["parameters"][1]["value"] = -72.5
    change = plan(table(tmp_path), geom=gl.geometry(json.dumps(own)))
    (after,) = actions(change, "metaData")
    assert "geometry(projjson:geolake.crs.geom)" in after["schemaString"]
    assert json.loads(after["configuration"]["geolake.crs.geom"]) == own


@pytest.mark.parametrize(
    ("fields", "options", "match"),
    [
        ([field("g", "long")], {}, "cannot hold geometries"),
        ([field("g", "geometry(OGC:CRS84)"), field("a", "long")], {}, "already"),
        ([field("g", "binary"), field("a", "long")], {"partitions": ("g",)}, "partition column"),
        ([field("g", "binary", CURRENT_DEFAULT="X''")], {}, "default value"),
        ([field("g", "string", __COLLATIONS={"g": "icu.de"})], {}, "collation"),
        (
            [field("g", "binary"), field("n", "integer", **{"delta.generationExpression": "length(G)"})],
            {},
            "column 'n' uses it",
        ),
        ([field("g", "binary")], {"delta.constraints.small": "octet_length(g) < 99"}, "constraint 'small' uses it"),
        ([field("g", "binary")], {"delta.constraints.odd": "(("}, "constraint 'odd'"),
        ([field("h", "binary")], {}, "no column 'g'"),
        ([field("g", {"type": "array", "elementType": "binary", "containsNull": True})], {}, "cannot hold geometries"),
    ],
)
def test_what_cannot_be_a_geo_column_is_refused_by_name(tmp_path, fields, options, match):
    with pytest.raises(GeolakeError, match=match):
        plan(table(tmp_path, *fields, **options), g=gl.geometry())


def test_a_column_in_a_list_is_refused(tmp_path):
    made = table(tmp_path, field("g", {"type": "array", "elementType": "binary", "containsNull": True}))
    with pytest.raises(RefusedError, match="is inside a list"):
        plan(made, **{"g.element": gl.geometry()})


def test_a_clustered_column_is_refused(tmp_path):
    domain = {
        "domain": "delta.clustering",
        "configuration": json.dumps({"clusteringColumns": [["g"]]}),
        "removed": False,
    }
    made = table(tmp_path, field("g", "string"), extra=[{"domainMetadata": domain}])
    with pytest.raises(RefusedError, match="clustered"):
        plan(made, g=gl.geometry())


def test_a_constraint_on_another_column_does_not_matter(tmp_path):
    made = table(tmp_path, **{"delta.constraints.positive": "id > 0"})
    assert plan(made, geom=gl.geometry()).job is not None


# New rows for a table


def matched(given, table_fields):
    from geolake_nb.formats.delta.schema import from_delta_schema
    from tests.formats.delta.log_maker import schema_string

    return match_rows(
        from_delta_schema(schema_string(*given)), from_delta_schema(schema_string(*table_fields)), where="/t"
    )


HELD = [
    field("id", "long"),
    field("g", "geometry(EPSG:3857)"),
    field("s", {"type": "struct", "fields": [field("a", "long")]}),
]


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ([field("id", "integer")], "column id: the rows have int32, and the table has int64"),
        ([field("x", "long")], "no column 'x'"),
        ([field("g", "geometry(OGC:CRS84)")], "column g: the rows have geometry"),
        ([field("g", "geography(OGC:CRS84, spherical)")], "column g"),
        ([field("g", "long")], "column g: a column of type int64 cannot hold geometries"),
        ([field("s", {"type": "struct", "fields": [field("b", "long")]})], "no column 's.b'"),
        ([field("s", {"type": "struct", "fields": []})], "column s.a"),
        ([field("id", "long"), field("ID", "long")], "two columns"),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_the_column(given, match):
    with pytest.raises(SchemaError, match=match):
        matched(given, HELD)


def test_rows_fit_in_any_order_and_without_what_may_be_null():
    assert matched([field("g", "binary"), field("ID", "long")], HELD)["g"].encoding is GeometryEncoding.WKB
    assert matched([field("g", "geometry(EPSG:3857)"), field("id", "void")], HELD)["g"].type == gl.geometry("EPSG:3857")
    required = [{**field("id", "long"), "nullable": False}]
    with pytest.raises(SchemaError, match="the column is required, and the rows do not have it"):
        matched([], required)
