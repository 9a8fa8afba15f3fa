"""The cards: they say what Python says, as HTML that a reader without styles, eyes or a mouse can use."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

import geolake_nb as gl
from geolake_nb.api.plan import Plan, Report
from geolake_nb.checks.finding import Finding, Findings, Scope, Severity, SkippedCheck
from geolake_nb.formats.delta.collations import ColumnCollation, TableCollations
from geolake_nb.formats.registry import DELTA
from geolake_nb.jupyter import card_parts
from geolake_nb.jupyter.cards import render
from geolake_nb.jupyter.cards.results import TableRows
from geolake_nb.jupyter.views import PlanView
from geolake_nb.model.change import Change, IrreversibleStep, Reads, Verb
from geolake_nb.model.collation import Collation
from geolake_nb.model.display import Displayable
from geolake_nb.model.schema import Schema
from geolake_nb.model.snapshot import Feature, History, Protocol, VersionInfo
from geolake_nb.model.table_format import SpecReference
from geolake_nb.model.types import Field, ListType, PrimitiveType, StringType, StructType
from geolake_nb.scan.engines import ENGINE_FACTS
from tests import small_tables
from tests.jupyter.html_reading import read, shape_of, text_of
from tests.jupyter.named_tables import Names, make_named
from tests.jupyter.test_html import HOSTILE

PRINTABLE = [text for text in HOSTILE if text.isprintable() and text]
ATTRIBUTES = {"aria-label", "class", "datetime", "open", "role", "scope", "style", "title"}


@pytest.fixture
def table(tmp_path):
    return gl.open(small_tables.make_delta(tmp_path / "roads"))


@pytest.fixture
def bare(tmp_path):
    return gl.open(small_tables.make_delta(tmp_path / "bare", bounds=False))


def plan(table, change):
    return Plan(change, table._source)


def change(**options):
    return Change(Verb.COLLATIONS, DELTA, "/t", 3, **options)


def values_of(table):
    """One value of every kind that shows itself, from the metadata alone."""
    text = table.schema.fields[0].name
    spec = SpecReference("Delta", "Statistics")
    scope = Scope(table.schema.fields[-1].name, tuple(table.files.table["path"].to_pylist()), 5)
    findings = [
        Finding("bounds.missing", severity, scope, f"it has {text}", spec, f"geolake repair {text}")
        for severity in Severity
    ]
    made = Change(
        Verb.REPAIR,
        DELTA,
        table.location,
        1,
        actions=[f'{{"add": "{text}"}}'],
        notes=(f"It says {text}.",),
        reads=Reads(2, 100),
        irreversible_steps=(IrreversibleStep("collations", f"Nobody reads {text}."),),
        undo=f"undo {text}",
        engines=ENGINE_FACTS[:5],
    )
    collated = ColumnCollation(text, Collation("icu", "x"), True, ("1",), "1", {"1": 1}, (text,))
    return {
        "table": table,
        "schema": table.schema,
        "protocol": Protocol(text, (Feature(text, text), Feature(text, text, known=False))),
        "files": table.files,
        "history": table.history(),
        "explanation": table.explain("`" + text.replace("`", "``") + "` IS NOT NULL"),
        "scan": table.scan("`" + text.replace("`", "``") + "` IS NOT NULL"),
        "findings": Findings(table.location, tuple(findings), (SkippedCheck("rule", text),)),
        "checked": table.check(footers=False),
        "diff": table.diff(0, 1),
        "plan": Plan(made, table._source),
        "report": Report("repair", table.location, 3, text, (1, 2), {text: 3}, 0.5),
        "collations": TableCollations(table.location, 2, (collated,)),
        "own collations": table.collations,
        "rows": TableRows("row groups", pa.table({text: [text, None], "n": [1.5, 2.0], "l": [[1], []]})),
    }  # fmt: skip


@pytest.mark.parametrize("text", PRINTABLE)
def test_a_hostile_text_makes_no_element_and_no_attribute(tmp_path, text):
    plain = "x" * len(text)
    twin = values_of(gl.open(make_named(tmp_path, Names(plain, "plain"))))
    hostile = values_of(gl.open(make_named(tmp_path, Names(text, "a <b onclick=x>'\"&"))))
    for kind, value in hostile.items():
        # The same card with harmless texts is the reference: only the texts differ.
        assert shape_of(render(value)) == shape_of(render(twin[kind])), kind


@pytest.mark.parametrize("text", [text for text in HOSTILE if text not in PRINTABLE and text and "\ud800" not in text])
def test_what_has_no_shape_is_written_out(tmp_path, text):
    for kind, value in values_of(gl.open(make_named(tmp_path, Names(text)))).items():
        parsed = read(render(value))
        assert {name for _, attributes in parsed.elements for name, _ in attributes} <= ATTRIBUTES, kind
        shown = "".join(parsed.texts)
        assert all(character.isprintable() or character == "\n" for character in shown), kind
        assert text not in shown, kind
        if kind not in ("protocol", "report"):  # their texts are ours in a table that was opened
            assert all(character.isprintable() or character == "\n" for character in str(value)), kind
            assert text not in str(value), kind


def test_every_kind_of_value_has_a_card_and_a_text(table):
    for kind, value in values_of(table).items():
        assert isinstance(value, Displayable), kind
        assert value._repr_html_().startswith('<div class="geolake-card'), kind
        assert value._repr_mimebundle_() == {"text/plain": str(value)}


def test_the_card_of_a_table_says_what_the_table_is(table):
    shown = text_of(render(table))
    for fact in ("Delta", table.location, "reader 3, writer 7", "geospatial", "WGS 84 (CRS84)", "12"):
        assert fact in shown
    assert "bounds of geom: 3 of 3 files, 100% of the bytes" in shown
    assert f"%geolake check {table.location}" in shown
    assert "deltalake 1.6" in shown
    assert "WRITE" in shown


def test_the_card_of_each_format_is_made(tmp_path):
    for make in (small_tables.make_parquet, small_tables.make_havasu, small_tables.make_rasters):
        table = gl.open(make(tmp_path / make.__name__))
        assert table.snapshot.format.title in text_of(render(table))


def test_a_table_without_bounds_has_an_empty_bar(bare):
    assert "bounds of geom: 0 of 3 files, 0% of the bytes" in text_of(render(bare))
    assert ("span", (("style", "width:0.00%"),)) in read(render(bare)).elements


def test_a_history_that_cannot_be_read_does_not_take_the_card_with_it(table, monkeypatch):
    def fail(**_):
        raise gl.GeolakeError("the store does not answer")

    monkeypatch.setattr(table, "history", fail)
    assert "The history cannot be read: the store does not answer" in text_of(render(table))


def test_a_secret_among_the_properties_is_not_shown(table):
    object.__setattr__(table.snapshot, "properties", {"fs.s3a.secret.key": "hunter2", "owner": "me"})
    shown = text_of(render(table))
    assert "hunter2" not in shown
    assert "fs.s3a.secret.key" in shown
    assert "me" in shown


def test_an_explanation_counts_files_by_reason(table):
    explanation = table.explain(gl.Box(0, 40, 20, 60))
    shown = text_of(render(explanation))
    assert "reads 1 of 3 files, 4 of 12 rows" in shown
    for reason, amount in explanation.by_reason().items():
        assert re.search(rf"{re.escape(reason.text)}{amount.files}", shown)
    assert "%geolake map" in shown


def test_a_scan_says_what_it_will_read_and_then_what_it_has_read(table):
    scan = table.scan((9, 49, 12, 52), limit=2)
    explanation = table.explain((9, 49, 12, 52))
    text = text_of(render(scan))
    assert f"reads at most 1 of 3 files, 4 of 12 rows, {explanation.read.bytes / 1000:.1f} kB of" in text
    assert "at most 2 rows" in text
    assert "Nothing is read yet: to_geopandas()" in text
    scan.to_arrow()
    assert f"Last read: {scan.metrics}" in text_of(render(scan))
    assert "all rows" in text_of(render(table.scan(columns=["id"])))
    assert "to_geopandas()" not in text_of(render(table.scan(columns=["id"])))


def test_findings_come_by_severity_with_a_command_to_copy(bare):
    findings = bare.check()
    markup = render(findings)
    assert f'<code class="command">%geolake repair {bare.location}</code>' in markup
    assert "Warnings: 1" in text_of(markup)
    assert "no findings" not in text_of(markup)


def test_a_good_table_has_no_findings(table):
    assert "no findings" in text_of(render(table.check()))


def test_a_plan_shows_its_exact_actions_and_whom_it_locks_out(bare):
    planned = bare.plan_repair()
    shown = text_of(render(planned))
    for action in planned.change.actions:
        assert action in shown
    assert planned.hash in shown
    assert "Cannot read it: deltalake 1.6" in shown


def test_a_plan_names_its_irreversible_steps(table):
    step = IrreversibleStep("collations", "Only Delta Kernel can write the table afterwards.")
    shown = text_of(render(plan(table, change(actions=["{}"], irreversible_steps=(step,)))))
    assert "Cannot be undone: Only Delta Kernel can write the table afterwards. Step collations." in shown
    assert "consent=['collations']" in shown


def test_a_plan_with_nothing_to_do_has_no_way_to_apply_it(table):
    shown = text_of(render(table.plan_repair()))
    assert "apply" not in shown
    assert "no bound is missing" in shown


def test_a_report_of_nothing_says_so():
    assert "There was nothing to do." in text_of(render(Report("repair", "/t", None, "", (), {}, 0.0)))


def test_a_schema_folds_and_wide_or_deep_ones_are_cut():
    deep = Field("leaf", PrimitiveType("int64"))
    for _ in range(80):
        deep = Field("s", StructType((deep,)))
    wide = [Field(f"c{number}", StringType()) for number in range(500)]
    elements = Field("l", ListType(Field("element", StringType(Collation("icu", "de")))))
    shown = text_of(render(Schema(StructType((elements, deep, *wide)))))
    assert "c197" in shown
    assert "c198" not in shown
    assert "302 more" in shown
    assert "leaf" not in shown
    assert "string collate icu.de" in shown


def test_an_empty_schema_history_protocol_and_file_list_have_cards(tmp_path):
    assert "0 columns" in text_of(render(Schema()))
    assert "0 versions" in text_of(render(History()))
    assert "reader 1" in text_of(render(Protocol("reader 1")))
    assert "0" in text_of(render(TableRows("rasters", pa.table({"path": pa.array([], pa.string())}))))


def test_a_long_history_is_cut():
    shown = text_of(render(History([VersionInfo(number, None, None) for number in range(250)])))
    assert "150 more: t.history()" in shown


def test_a_value_of_no_card_is_left_to_the_notebook():
    assert render(object()) is None


def test_tables_have_headers_and_pictures_have_words(table):
    for value in values_of(table).values():
        parsed = read(render(value))
        for tag, attributes in parsed.elements:
            known = dict(attributes)
            if tag == "th":
                assert known.get("scope") in ("col", "row")
            if known.get("role") in ("img", "region"):
                assert known.get("aria-label")
        assert [tag for tag, _ in parsed.elements].count("details") == [tag for tag, _ in parsed.elements].count(
            "summary"
        )


def test_apply_is_disabled_until_every_irreversible_step_is_named(table, monkeypatch):
    irreversible_steps = (IrreversibleStep("collations", "why"), IrreversibleStep("geospatial", "why"))
    planned = plan(table, change(actions=["{}"], irreversible_steps=irreversible_steps))
    calls = {}

    def apply(**options):
        calls.update(options)
        return Report("collations", "/t", 4, "", (), {}, 0.1)

    monkeypatch.setattr(planned, "apply", apply)
    view = PlanView(planned)
    assert view.apply_button.disabled
    view.consents["collations"].value = "collations"
    assert view.apply_button.disabled
    view.apply_button.click()
    view.consents["geospatial"].value = "yes"
    assert view.apply_button.disabled
    view.consents["geospatial"].value = " geospatial "
    assert not view.apply_button.disabled
    assert calls == {}
    view.apply_button.click()
    view.wait(10)
    assert view.report.version == 4
    assert (calls["consent"], calls["expect"]) == (["collations", "geospatial"], planned.hash)
    assert "Done." in view.status.value
    assert view.apply_button.disabled
    view.apply_button.click()


def test_a_plan_without_irreversible_steps_is_applied_by_one_click(bare):
    view = PlanView(bare.plan_repair())
    view.apply_button.click()
    view.wait(30)
    assert view.report.version == 2
    assert gl.open(bare.location).files.table["geom.xmin"].null_count == 0


def test_cancel_before_apply_changes_nothing(bare):
    view = PlanView(bare.plan_repair())
    view.cancel_button.click()
    assert "no changes were made" in view.status.value
    assert gl.open(bare.location).version == 1
    # The plan can still be applied.
    view.apply_button.click()
    view.wait(30)
    assert view.report.version == 2


def test_cancel_while_it_runs_is_an_interrupt_of_the_work(table, monkeypatch):
    planned = plan(table, change(actions=["{}"]))
    view = PlanView(planned)

    def apply(*, on_progress, **_):
        assert view.bar.description == "starting"
        for done, total in ((3, 6), (6, 25), (12, 121)):
            on_progress(done, total)
            # Spark plans more stages as it goes: the bar stays, and shows no total that would grow.
            assert (view.bar.value, view.bar.max, view.bar.description) == (500, 1000, f"{done} tasks done")
        view.cancel_button.click()
        on_progress(13, 121)

    monkeypatch.setattr(planned, "apply", apply)
    view.apply_button.click()
    view.wait(10)
    assert view.report is None
    assert "nothing was committed" in view.status.value
    assert (view.apply_button.disabled, view.cancel_button.disabled) == (False, False)
    monkeypatch.undo()
    view.apply_button.click()
    view.wait(30)
    assert "nothing was committed" not in view.status.value


def test_the_number_and_unit_of_a_size_and_the_dashes_of_a_flag_stay_together():
    style = card_parts.card_style()
    assert ".geolake-card td.number { white-space: nowrap; }" in style
    assert ".geolake-card .flag { white-space: nowrap; }" in style
    command = card_parts.command("map", "t", "--where", "id > 3 -- not a --flag")
    assert command.count('<span class="flag">') == 1 + 1
    assert text_of(command) == '%geolake map t --where "id > 3 -- not a --flag"'


def test_an_error_of_the_work_is_shown_as_text(table, monkeypatch):
    planned = plan(table, change(actions=["{}"]))

    def apply(**_):
        raise gl.GeolakeError("<script>alert(1)</script>")

    monkeypatch.setattr(planned, "apply", apply)
    view = PlanView(planned)
    view.apply_button.click()
    view.wait(10)
    assert read(view.status.value).elements == [("p", (("class", "error"), ("role", "status")))]
