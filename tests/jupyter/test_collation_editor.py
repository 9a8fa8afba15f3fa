"""The collation editor, driven as a user drives it: by its controls, up to the log of the table."""

from __future__ import annotations

import json

import ipywidgets
import pytest

import geolake_nb as gl
from geolake_nb.errors import CollationError, RefusedError
from geolake_nb.jupyter.collation_editor import CollationEditor
from geolake_nb.jupyter.completion import offers
from geolake_nb.jupyter.drafts import draft_of, schema_diff
from tests import small_tables
from tests.formats.delta.test_collate import V, collated, stats, string, table
from tests.jupyter.html_reading import read, text_of
from tests.jupyter.named_tables import Names, make_named
from tests.jupyter.shell import notebook
from tests.jupyter.test_html import HOSTILE

ARRAY = {"type": "array", "elementType": "string", "containsNull": True}
MAP = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
ADDRESS = {"type": "struct", "fields": [string("town"), string("street", "icu.de"), {**string("no"), "type": "long"}]}
NESTED = [
    string("name", "icu.de_CI"),
    {**string("tags"), "type": ARRAY},
    {**string("words"), "type": MAP},
    {**string("address"), "type": ADDRESS},
    {**string("id"), "type": "long"},
]
FEATURES = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["collations", "domainMetadata"]}


@pytest.fixture
def nested(tmp_path):
    stored = {f"icu.de_CI.{V}": ["name"]}
    return table(
        tmp_path / "t", stats("a", stored), stats("b"), fields=NESTED, protocol=FEATURES, hints={"icu.de_CI": [V]}
    )


def labels(editor):
    return {path: label for label, path in editor.fields.options}


def choose(editor, *paths):
    editor.fields.value = paths


def test_the_tree_has_every_string_and_what_it_lies_in(nested):
    result = [(row.name, row.is_string, str(row.collation or "")) for row in draft_of(nested.snapshot).rows]
    assert result == [
        ("name", True, "icu.de_CI"),
        ("tags", False, ""),
        ("tags.element", True, ""),
        ("words", False, ""),
        ("words.key", True, ""),
        ("words.value", True, ""),
        ("address", False, ""),
        ("address.town", True, ""),
        ("address.street", True, "icu.de"),
    ]


def test_a_line_has_the_collation_and_the_statistics_by_version(nested):
    shown = labels(nested.edit_collations())
    # The log has two files with values, and one of them has statistics of the version that the domain asks for.
    assert shown["name",] == f"name  icu.de_CI  wants {V}: 1 of 2 files have {V}; 1 stale"
    assert shown["tags", "element"].strip() == "element  binary"
    assert shown["address",] == "address  (struct, 2 strings)"
    assert shown["address", "street"].startswith("\N{NO-BREAK SPACE}")


def test_a_filter_keeps_what_matches_with_its_parents(nested):
    editor = nested.edit_collations()
    editor.filter.value = "STREET"
    assert list(labels(editor)) == [("address",), ("address", "street")]
    editor.filter.value = "icu.de_ci"
    assert list(labels(editor)) == [("name",)]
    editor.filter.value = "nothing"
    assert labels(editor) == {}


def test_a_search_finds_names_by_words(nested):
    editor = nested.edit_collations()
    editor.search.value = "de ci"
    assert editor.offers.options[:2] == ("icu.de_CI", "icu.de_CI_AI")
    assert editor.offers.value == "icu.de_CI"
    editor.search.value = "nobody"
    assert editor.offers.options == ()
    choose(editor, ("name",))
    editor.set_button.click()
    assert "no collation is selected" in editor.status.value


def test_many_strings_are_set_and_dropped_at_once_and_the_diff_follows(nested):
    editor = nested.edit_collations()
    assert "does not change" in editor.diff.value
    choose(editor, ("address",), ("words", "key"))
    editor.search.value, editor.offers.value = "unicode", "icu.UNICODE_CI"
    editor.set_button.click()
    assert editor.draft.changes == dict.fromkeys(["address.town", "address.street", "words.key"], "icu.UNICODE_CI")
    choose(editor, ("name",))
    editor.drop_button.click()
    assert [str(line) for line in schema_diff(nested.snapshot, editor.draft)] == [
        "- name: string collate icu.de_CI",
        "+ name: string",
        "  words: map",
        "-   key: string",
        "+   key: string collate icu.UNICODE_CI",
        "  address: struct",
        "-   town: string",
        "+   town: string collate icu.UNICODE_CI",
        "-   street: string collate icu.de",
        "+   street: string collate icu.UNICODE_CI",
    ]
    assert "+   key: string collate icu.UNICODE_CI" in text_of(editor.diff.value)
    assert labels(editor)["address", "street"].strip() == "street  icu.de -> icu.UNICODE_CI  no statistics in 2 files"
    assert editor.fields.value == (("name",),)
    choose(editor, ("address",))
    editor.keep_button.click()
    assert editor.draft.changes == {"words.key": "icu.UNICODE_CI", "name": None}


def test_an_edit_that_changes_nothing_is_none(nested):
    draft = draft_of(nested.snapshot)
    assert draft.setting([("name",)], "icu.de_CI").changes == {}
    assert draft.setting([("name",)], "icu.de").setting([("name",)], "ICU.de_CI").changes == {}
    assert draft.setting([("tags",)], "spark.UTF8_BINARY").changes == {}
    with pytest.raises(CollationError, match="has a version, which a schema must not have"):
        draft.setting([("name",)], "icu.de.78")
    with pytest.raises(CollationError, match="no string is selected"):
        draft.setting([], "icu.de")


def test_a_plan_is_that_of_python_with_a_typed_consent(tmp_path):
    opened = table(tmp_path / "t", stats("a"))
    editor = opened.edit_collations()
    editor.plan_button.click()
    assert "no change to plan" in editor.status.value
    choose(editor, ("name",), ("other",))
    editor.search.value = "de_CI"
    editor.set_button.click()
    editor.plan_button.click()
    assert editor.status.value == ""
    assert editor.plan.hash == opened.plan_collations({"name": "icu.de_CI", "other": "icu.de_CI"}).hash
    view = editor.plan_area.view
    assert view.apply_button.disabled
    view.consents["collations"].value = "collations"
    assert not view.apply_button.disabled
    # Another edit takes the plan away: it is not what is asked for any more.
    choose(editor, ("other",))
    editor.keep_button.click()
    assert editor.plan is None
    assert editor.plan_area.box.children == ()


def test_dropping_is_applied_without_spark_and_the_editor_goes_on(tmp_path):
    stored = {f"icu.de_CI.{V}": ["name"]}
    opened = collated(tmp_path / "t", stats("a", stored), hints={"icu.de_CI": [V]})
    editor = opened.edit_collations()
    choose(editor, ("name",))
    editor.drop_button.click()
    editor.plan_button.click()
    view = editor.plan_area.view
    view.apply_button.click()
    view.wait(30)
    assert view.report.version == 1
    written = (tmp_path / "t/_delta_log" / f"{1:020}.json").read_text().splitlines()
    schema = next(json.loads(line)["metaData"]["schemaString"] for line in written if "metaData" in line)
    assert json.loads(schema)["fields"][0]["metadata"] == {}
    assert (editor.table.version, editor.draft.changes) == (1, {})
    assert labels(editor)["name",] == "name  binary"


def test_a_plan_is_made_of_the_table_as_it_is_now(tmp_path):
    opened = collated(tmp_path / "t", stats("a"))
    editor = opened.edit_collations()
    choose(editor, ("other",))
    editor.search.value = "fr_ci"
    editor.set_button.click()
    opened.plan_collations({"name": None}).apply()
    editor.plan_button.click()
    assert editor.plan.change.base_version == 1
    assert labels(editor)["name",] == "name  binary"


def test_refresh_and_upgrade_are_planned(tmp_path):
    opened = collated(tmp_path / "t", stats("a"), hints={"icu.de_CI": [V]})
    editor = opened.edit_collations()
    editor.refresh.value = True
    editor.plan_button.click()
    assert editor.plan.hash == opened.plan_collations(refresh=True).hash
    editor.upgrade.value = True
    assert editor.plan is None


def test_other_formats_and_a_table_without_strings(tmp_path):
    with pytest.raises(RefusedError, match="only Delta tables have collations, and this table is parquet"):
        gl.open(small_tables.make_parquet(tmp_path / "p")).edit_collations()
    editor = gl.open(small_tables.make_delta(tmp_path / "d")).edit_collations()
    assert editor.fields.options == ()
    assert "0 strings" in editor.note.value


@pytest.mark.parametrize("text", [text for text in HOSTILE if text and "\ud800" not in text])
def test_a_hostile_text_stays_text(tmp_path, text):
    editor = gl.open(make_named(tmp_path, Names(text))).edit_collations()
    choose(editor, *labels(editor))
    editor.drop_button.click()
    result = [(name, dict(marks)) for name, marks in read(editor.diff.value).elements]
    assert {name for name, _ in result} <= {"div", "p", "pre", "span", "br"}
    assert {key for _, marks in result for key in marks} <= {"class"}
    assert all(label.replace("\N{NO-BREAK SPACE}", " ").isprintable() for label in labels(editor).values())


def test_every_control_has_a_label_and_a_name(nested):
    editor = nested.edit_collations()
    controls = [widget for widget in every_widget(editor.box) if hasattr(widget, "description") and labelled(widget)]
    assert controls
    assert all(control.description for control in controls)
    assert all(any(name.startswith("geolake-") for name in control._dom_classes) for control in controls)


def every_widget(box):
    for child in box.children:
        yield child
        if hasattr(child, "children"):
            yield from every_widget(child)


def labelled(widget):
    return not isinstance(widget, ipywidgets.HTML | ipywidgets.IntProgress)


def test_a_terminal_gets_a_text_and_a_notebook_a_widget(nested):
    editor = nested.edit_collations()
    shown = editor._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in shown
    assert shown["text/plain"].startswith(f"CollationEditor({nested.location!r}, 6 strings, 0 edits)")
    assert "t.plan_collations" in shown["text/plain"]


def test_the_magic_opens_it_with_the_edits_of_the_line(nested, capsys):
    with notebook(capsys) as book:
        book.shell.user_ns["t"] = nested
        editor = book.value("%geolake collations t address.TOWN=icu.fr name=none --edit --refresh")
        assert isinstance(editor, CollationEditor)
        assert editor.draft.changes == {"address.town": "icu.fr", "name": None}
        assert (editor.refresh.value, editor.upgrade.value) == (True, False)
        assert "leave one of them out" in book.complaint("%geolake collations t --edit --apply")
        assert "no column 'nam'" in book.complaint("%geolake collations t nam=icu.fr --edit")
        assert "--edit" in book.run("%geolake help collations").out
        assert offers("%geolake collations t --ed", 0, {}) == ("--ed", ["--edit"])


@pytest.mark.spark
def test_spark_says_what_it_has(nested, spark):
    editor = nested.edit_collations(spark=spark)
    editor.from_spark.click()
    rows = spark.sql("SELECT NAME FROM collations() WHERE NAME <> 'UTF8_BINARY'").collect()
    assert {name.partition(".")[2] for name in editor.names} == {row["NAME"] for row in rows}
    assert f"ICU {V}" in editor.source.value
