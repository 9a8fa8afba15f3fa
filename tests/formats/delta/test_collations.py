"""Collations in the text of a schema: what is asked for changes, and nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.errors import SchemaError
from geolake_nb.formats.delta.collations import with_collations
from geolake_nb.formats.delta.schema import from_delta_schema
from geolake_nb.model.collation import Collation
from geolake_nb.model.types import StringType

DE, CI = Collation("icu", "de"), Collation("spark", "UTF8_LCASE")


def field(name, type_, metadata=None):
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata or {}}


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def array(element):
    return {"type": "array", "elementType": element, "containsNull": True}


def map_(key, value):
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


# Delta collations, Specifying collations in the table schema: the example of the text.
EXAMPLE = struct(
    field("col1", "string"),
    field("col2", array(map_("string", struct(field("f1", "string"))))),
)


def test_the_example_of_the_specification():
    after = with_collations(
        json.dumps(EXAMPLE),
        {
            ("col1",): Collation.parse("ICU.de_DE"),
            ("col2", "element", "key"): Collation.parse("ICU.en_US"),
            ("col2", "element", "value", "f1"): Collation.parse("ICU.de_DE"),
        },
    )
    inner = struct(field("f1", "string", {"__COLLATIONS": {"f1": "icu.de_DE"}}))
    assert json.loads(after) == struct(
        field("col1", "string", {"__COLLATIONS": {"col1": "icu.de_DE"}}),
        field("col2", array(map_("string", inner)), {"__COLLATIONS": {"col2.element.key": "icu.en_US"}}),
    )


def test_everything_else_keeps_its_text():
    text = (
        '{ "type" : "struct",\n "fields":[ {"name":"a\\u00e9","type":"string","nullable":true,"metadata":{"x":1E5}} ]}'
    )
    after = with_collations(text, {("aé",): DE})
    assert after == text.replace("1E5", '1E5,"__COLLATIONS":{"aé":"icu.de"}')
    assert with_collations(after, {("aé",): None}) == text


def test_other_collations_of_the_field_stay():
    stored = {"m.key": "ICU.sv", "m.value": "icu.de", "stray": "icu.x"}
    text = json.dumps(struct(field("m", map_("string", "string"), {"__COLLATIONS": stored})))
    after = with_collations(text, {("m", "value"): CI})
    wanted = {"m.key": "ICU.sv", "m.value": "spark.UTF8_LCASE", "stray": "icu.x"}
    assert json.loads(after)["fields"][0]["metadata"]["__COLLATIONS"] == wanted


def test_the_same_collation_keeps_its_spelling():
    text = json.dumps(struct(field("a", "string", {"__COLLATIONS": {"a": "ICU.de"}})))
    assert with_collations(text, {("a",): DE}) == text


@pytest.mark.parametrize("stored", ["icu.de.72", "spark.UTF8_BINARY", "nonsense"])
def test_what_should_not_be_in_a_schema_is_replaced(stored):
    text = json.dumps(struct(field("a", "string", {"__COLLATIONS": {"a": stored}})))
    after = json.loads(with_collations(text, {("a",): DE}))
    assert after["fields"][0]["metadata"] == {"__COLLATIONS": {"a": "icu.de"}}
    assert json.loads(with_collations(text, {("a",): None}))["fields"][0]["metadata"] == {}


def test_the_default_collation_is_dropped_and_never_written():
    text = json.dumps(struct(field("a", "string", {"__COLLATIONS": {"a": "icu.de"}})))
    after = json.loads(with_collations(text, {("a",): Collation.parse("spark.UTF8_BINARY")}))
    assert after["fields"][0]["metadata"] == {}


def test_a_key_with_the_physical_name_goes():
    metadata = {"delta.columnMapping.physicalName": "col-1", "__COLLATIONS": {"col-1": "icu.de"}}
    text = json.dumps(struct(field("a", "string", metadata)))
    assert "__COLLATIONS" not in with_collations(text, {("a",): None})
    after = json.loads(with_collations(text, {("a",): CI}))
    assert after["fields"][0]["metadata"]["__COLLATIONS"] == {"a": "spark.UTF8_LCASE"}


def test_what_holds_no_object_is_replaced():
    text = json.dumps(struct(field("a", "string", {"__COLLATIONS": 7})))
    after = json.loads(with_collations(text, {("a",): DE}))
    assert after["fields"][0]["metadata"] == {"__COLLATIONS": {"a": "icu.de"}}


@pytest.mark.parametrize("path", [("b",), ("col2", "key"), ("col2", "element", "value"), ("col1", "element")])
def test_what_is_no_string(path):
    with pytest.raises(SchemaError, match="no string"):
        with_collations(json.dumps(EXAMPLE), {path: DE})


types = st.recursive(
    st.sampled_from(["string", "long", "geometry(OGC:CRS84)"]),
    lambda inner: st.one_of(
        inner.map(array),
        st.tuples(inner, inner).map(lambda pair: map_(*pair)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda some: struct(*(field(f"f.{n}", t) for n, t in enumerate(some)))
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=80)
@given(st.lists(types, min_size=1, max_size=3), st.data())
def test_the_schema_reads_back_with_just_these_collations(columns, data):
    text = json.dumps(struct(*(field(f"c{number}", type_) for number, type_ in enumerate(columns))))
    strings = [path for path, column in from_delta_schema(text).walk_parts() if isinstance(column.type, StringType)]
    chosen = data.draw(st.dictionaries(st.sampled_from(strings), st.sampled_from([DE, CI, None]))) if strings else {}
    after = with_collations(text, chosen)
    result = {path: row.type for path, row in from_delta_schema(after).walk_parts()}
    assert [result[path].collation for path in strings] == [chosen.get(path) for path in strings]
    assert with_collations(after, dict.fromkeys(chosen)) == text
