import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geolake_nb.errors import CollationError
from geolake_nb.model.collation import Collation, attach_collations, detach_collations, stray_collations
from geolake_nb.model.types import Field, ListType, MapType, PrimitiveType, StringType, StructType

GERMAN = Collation("icu", "de_DE")

# The example of Delta's text on collations, as it stands there.
EXAMPLE = json.loads("""
{
   "type":"struct",
   "fields":[
      {
         "name":"col1",
         "type":"string",
         "metadata":{
            "__COLLATIONS":{
               "col1":"ICU.de_DE"
            }
         }
      },
      {
         "name":"col2",
         "type":{
            "type":"array",
            "elementType":{
               "type":"map",
               "keyType":"string",
               "valueType":{
                  "type":"struct",
                  "fields":[
                     {
                        "name":"f1",
                        "type":"string",
                        "metadata":{
                           "__COLLATIONS":{
                              "f1":"ICU.de_DE"
                           }
                        }
                     }
                  ]
               }
            }
         },
         "metadata":{
            "__COLLATIONS":{
               "col2.element.key":"ICU.en_US"
            }
         }
      }
   ]
}
""")


def from_delta(node):
    """Just enough of a Delta schema for these tests: plain strings, metadata as it stands."""
    if node == "string":
        return StringType()
    if isinstance(node, str):
        return PrimitiveType(node)
    if node["type"] == "array":
        return ListType(Field("element", from_delta(node["elementType"])))
    if node["type"] == "map":
        return MapType(Field("key", from_delta(node["keyType"])), Field("value", from_delta(node["valueType"])))
    return StructType(
        tuple(Field(each["name"], from_delta(each["type"]), metadata=each["metadata"]) for each in node["fields"])
    )


def string(name, identifier=None, **others):
    metadata = {} if identifier is None else {"__COLLATIONS": {name: identifier}}
    return Field(name, StringType(), metadata=metadata, **others)


def only(field):
    return StructType((field,))


def collations(field):
    return detach_collations(only(field)).fields[0].metadata.get("__COLLATIONS")


class TestIdentifiers:
    @pytest.mark.parametrize(
        ("text", "parts"),
        [
            ("ICU.en_US.72", ("icu", "en_US", "72")),
            ("icu.UNICODE_CI", ("icu", "UNICODE_CI", None)),
            ("spark.UTF8_LCASE.75.1", ("spark", "UTF8_LCASE", "75.1")),
            ("SPARK.UTF8_LCASE", ("spark", "UTF8_LCASE", None)),
            ("ICU.sr_Cyrl_SRB.75.1", ("icu", "sr_Cyrl_SRB", "75.1")),
            ("glibc.de_DE.2.39", ("glibc", "de_DE", "2.39")),
            ("Glibc.de_DE", ("Glibc", "de_DE", None)),
        ],
    )
    def test_dots_separate_two_parts_and_stay_in_the_version(self, text, parts):
        collation = Collation.parse(text)
        assert (collation.provider, collation.name, collation.version) == parts

    @pytest.mark.parametrize("text", ["", "icu", "SPARK_sr_Cyrl_SRB", ".", "icu.", ".de", "icu..72", "icu.de."])
    def test_what_has_no_provider_or_name_is_refused(self, text):
        with pytest.raises(
            CollationError, match=r"expected a collation identifier, got .*; write it like icu\.UNICODE_CI"
        ):
            Collation.parse(text)

    @pytest.mark.parametrize("parts", [("", "de"), ("icu", ""), ("i.cu", "de"), ("icu", "d.e"), ("icu", "de", "")])
    def test_parts_are_checked_too(self, parts):
        with pytest.raises(CollationError):
            Collation(*parts)

    @given(*[st.text(min_size=1).filter(lambda text: "." not in text)] * 2, st.none() | st.text(min_size=1))
    @settings(max_examples=200)
    def test_print_and_parse_are_inverse(self, provider, name, version):
        collation = Collation(provider, name, version)
        assert Collation.parse(str(collation)) == collation

    def test_the_case_of_a_provider_that_spark_knows_does_not_matter(self):
        assert Collation.parse("ICU.de.72") == Collation.parse("icu.de.72")
        assert Collation.parse("Glibc.de") != Collation.parse("glibc.de")

    def test_provider_name_and_version_all_count(self):
        different = ["icu.de.72", "icu.de.73", "icu.de", "icu.DE.72", "spark.de.72"]
        assert len({Collation.parse(text) for text in different}) == len(different)

    @pytest.mark.parametrize(
        ("text", "default"),
        [
            ("spark.UTF8_BINARY", True),
            ("SPARK.utf8_binary", True),
            ("spark.UTF8_BINARY.75.1", True),
            ("spark.UTF8_BINARY_RTRIM", False),
            ("spark.UTF8_LCASE", False),
            ("icu.UTF8_BINARY", False),
            ("icu.UNICODE", False),
        ],
    )
    def test_only_the_binary_collation_is_the_default(self, text, default):
        assert Collation.parse(text).is_default is default


class TestAttach:
    def test_the_example_of_the_text(self):
        attached = attach_collations(from_delta(EXAMPLE))
        col1, col2 = attached.fields
        assert col1.type == StringType(GERMAN)
        mapping = col2.type.element.type
        assert mapping.key.type == StringType(Collation("icu", "en_US"))
        assert mapping.value.type.fields[0].type == StringType(GERMAN)
        assert stray_collations(attached) == ()

    def test_metadata_stays(self):
        tree = from_delta(EXAMPLE)
        assert [field.metadata for field in attach_collations(tree).fields] == [field.metadata for field in tree.fields]

    @pytest.mark.parametrize("table", ["collations-table", "collations-preview-table"])
    def test_the_tables_of_delta(self, corpus: Path, table):
        log = corpus / f"delta/delta-golden/{table}/_delta_log/00000000000000000000.json"
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        text = next(action["metaData"]["schemaString"] for action in actions if "metaData" in action)
        tree = from_delta(json.loads(text))
        attached = attach_collations(tree)
        assert {
            field.name: field.type.collation and str(field.type.collation)
            for field in attached.fields
            if isinstance(field.type, StringType)
        } == {
            "utf8_binary_col": None,
            "utf8_lcase_col": "spark.UTF8_LCASE",
            "unicode_col": "icu.UNICODE",
        }
        assert detach_collations(attached) == tree

    def test_the_default_collation_in_a_schema_is_no_collation(self):
        attached = attach_collations(only(string("a", "SPARK.UTF8_BINARY")))
        assert attached.fields[0].type == StringType()
        assert detach_collations(attached).fields[0].metadata == {}

    def test_a_version_in_a_schema_means_nothing_and_is_not_written_back(self):
        attached = attach_collations(only(string("a", "icu.de.72")))
        assert attached.fields[0].type == StringType(Collation("icu", "de"))
        assert collations(attached.fields[0]) == {"a": "icu.de"}

    def test_what_is_no_identifier_is_kept_as_it_is(self):
        inner = Field("b", ListType(string("element")), metadata={"__COLLATIONS": {"b.element": "UNICODE"}})
        outer = Field("a", ListType(Field("element", only(inner))))
        attached = attach_collations(only(outer))
        result = attached.fields[0].type.element.type.fields[0].type.element.type.collation
        assert (result.provider, str(result), result.opens_in_spark) == ("", "UNICODE", False)
        assert detach_collations(attached) == only(outer)

    # Spark ignores these as well.
    @pytest.mark.parametrize("stored", [None, [], "icu.de", 7, {"a": 7}, {"a": None}, {}])
    def test_what_is_no_object_of_texts_counts_for_nothing_and_stays(self, stored):
        tree = only(Field("a", StringType(), metadata={"__COLLATIONS": stored, "comment": "x"}))
        attached = attach_collations(tree)
        assert attached == tree
        assert detach_collations(attached) == tree

    def test_a_field_name_may_contain_dots(self):
        tags = Field("a.b.element", ListType(string("element")))
        tree = only(replace(tags, metadata={"__COLLATIONS": {"a.b.element.element": "icu.de"}}))
        attached = attach_collations(tree)
        assert attached.fields[0].type.element.type == StringType(Collation("icu", "de"))
        assert detach_collations(attached) == tree

    def test_keys_are_logical_names_and_physical_ones_are_read_too(self):
        mapped = string("a", "icu.de", physical_name="col-1")
        assert attach_collations(only(mapped)).fields[0].type.collation == Collation("icu", "de")
        by_physical = replace(mapped, metadata={"__COLLATIONS": {"col-1": "icu.de"}})
        attached = attach_collations(only(by_physical))
        assert attached.fields[0].type.collation == Collation("icu", "de")
        assert stray_collations(attached) == ()
        assert collations(attached.fields[0]) == {"a": "icu.de"}


class TestDetach:
    def test_the_example_of_the_text_comes_back_as_it_was(self):
        tree = from_delta(EXAMPLE)
        assert detach_collations(attach_collations(tree)) == tree

    def test_new_collations_are_spelled_as_spark_spells_them_and_have_no_version(self):
        field = Field("a", StringType(Collation.parse("ICU.UNICODE_CI.76.1")), metadata={"comment": "x"})
        assert detach_collations(only(field)).fields[0] == Field(
            "a", StringType(), metadata={"comment": "x", "__COLLATIONS": {"a": "icu.UNICODE_CI"}}
        )

    @pytest.mark.parametrize("collation", [None, Collation("spark", "UTF8_BINARY")])
    def test_a_collation_that_was_taken_away_leaves_nothing(self, collation):
        field = replace(string("a", "icu.de"), type=StringType(collation))
        assert detach_collations(only(field)).fields[0].metadata == {}

    def test_a_change_of_collation_replaces_the_key(self):
        assert collations(replace(string("a", "ICU.de"), type=StringType(Collation("icu", "da")))) == {"a": "icu.da"}

    def test_a_rename_takes_the_key_along(self):
        renamed = replace(attach_collations(only(string("a", "ICU.de"))).fields[0], name="b")
        assert collations(renamed) == {"b": "ICU.de"}

    def test_a_rename_of_a_nested_column_takes_its_keys_along(self):
        stored = {"m.key": "icu.de", "m.value.element": "icu.da"}
        kind = MapType(Field("key", StringType()), Field("value", ListType(string("element"))))
        field = attach_collations(only(Field("m", kind, metadata={"__COLLATIONS": stored}))).fields[0]
        assert collations(replace(field, name="n")) == {"n.key": "icu.de", "n.value.element": "icu.da"}

    def test_a_change_elsewhere_keeps_collations(self):
        tree = attach_collations(from_delta(EXAMPLE))
        wider = StructType((*tree.fields, Field("new", PrimitiveType("int32"))))
        assert detach_collations(wider).fields[:2] == from_delta(EXAMPLE).fields

    def test_keys_that_match_no_string_are_kept(self):
        stored = {"zz": "icu.da", "a.key": "no identifier", "a": "icu.da", "a.element": 7}
        tree = only(Field("a", StringType(), metadata={"__COLLATIONS": stored}))
        attached = attach_collations(tree)
        assert attached.fields[0].type.collation == Collation("icu", "da")
        assert detach_collations(attached) == tree
        assert stray_collations(attached) == (("a", "zz"), ("a", "a.key"), ("a", "a.element"))

    def test_a_key_of_a_field_that_is_no_string_is_kept_and_reported(self):
        tree = only(Field("a", PrimitiveType("int32"), metadata={"__COLLATIONS": {"a": "icu.de"}}))
        assert attach_collations(tree) == tree
        assert detach_collations(tree) == tree
        assert stray_collations(tree) == (("a", "a"),)

    def test_stray_keys_are_found_at_any_depth(self):
        inner = Field("b", PrimitiveType("int32"), metadata={"__COLLATIONS": {"b": "icu.de"}})
        kind = MapType(Field("key", StringType()), Field("value", ListType(Field("element", only(inner)))))
        assert stray_collations(only(Field("a", kind))) == (("a.value.element.b", "b"),)

    def test_a_provider_that_spark_does_not_know_is_kept_but_not_written_anew(self):
        tree = only(string("a", "glibc.de_DE"))
        assert detach_collations(attach_collations(tree)) == tree
        versioned = attach_collations(only(string("a", "glibc.de_DE.2.39")))
        assert collations(versioned.fields[0]) == {"a": "glibc.de_DE"}
        new = Field("tags", ListType(Field("element", StringType(Collation("glibc", "de_DE")))))
        with pytest.raises(CollationError, match=r"^tags\.element: Spark cannot open .* providers: icu, spark$"):
            detach_collations(only(new))


names = st.text(alphabet="ab.k", min_size=1, max_size=4)
strings = st.builds(
    StringType,
    st.none() | st.sampled_from([Collation("icu", "de"), Collation("icu", "da"), Collation("spark", "UTF8_LCASE")]),
)
leaves = strings | st.just(PrimitiveType("int32"))


def structs(kinds):
    fields = st.lists(st.builds(Field, names, kinds), max_size=3, unique_by=lambda field: field.name)
    return fields.map(lambda each: StructType(tuple(each)))


def nested(kinds):
    return (
        kinds.map(lambda kind: ListType(Field("element", kind)))
        | st.builds(lambda key, value: MapType(Field("key", key), Field("value", value)), strings, kinds)
        | structs(kinds)
    )


def without_metadata(kind):
    def bare(field):
        return replace(field, type=without_metadata(field.type), metadata={})

    if isinstance(kind, StructType):
        return StructType(tuple(bare(field) for field in kind.fields))
    if isinstance(kind, ListType):
        return ListType(bare(kind.element))
    if isinstance(kind, MapType):
        return MapType(bare(kind.key), bare(kind.value))
    return kind


@given(structs(st.recursive(leaves, nested, max_leaves=6)))
@settings(max_examples=300)
def test_what_is_detached_attaches_again(tree):
    stored = detach_collations(tree)
    again = attach_collations(stored)
    assert without_metadata(again) == tree
    assert stray_collations(again) == ()
    assert detach_collations(again) == stored
