"""The next step is on the card: as a command, and as a button that makes the plan."""

from __future__ import annotations

import pytest

import geolake_nb as gl
from geolake_nb.api.plan import Plan, Report
from geolake_nb.api.table import Table
from geolake_nb.checks.finding import Findings
from geolake_nb.jupyter.cards import render
from geolake_nb.jupyter.step_view import report_buttons, step_buttons
from geolake_nb.jupyter.views import PlanView
from geolake_nb.scan.explanation import Explanation
from geolake_nb.scan.next_step import NextStep
from tests import small_tables
from tests.jupyter.html_reading import text_of

AREA = (5, 45, 12, 52)


@pytest.fixture
def t(tmp_path):
    """A table without bounds, in a folder whose name needs quotes."""
    return gl.open(small_tables.make_delta(tmp_path / "my roads", bounds=False))


def labels(buttons):
    return None if buttons is None else [button.description for button in buttons.buttons]


def pressed(buttons, label):
    next(button for button in buttons.buttons if button.description == label).click()
    buttons.wait(60)
    return buttons.answer


def applied(plan) -> Report:
    view = PlanView(plan)
    view.apply_button.click()
    view.wait(60)
    assert view.report is not None, view.status.value
    return view.report


def test_every_card_of_a_table_without_bounds_leads_to_the_repair(t):
    fix = f"geolake repair '{t.location}'"
    for value in (t, t.explain(AREA), t.check(), t.layout()):
        assert value.next_step == NextStep(fix, "Plan repair")
        assert text_of(render(value)).endswith(f"Next: %{fix}")
        assert labels(step_buttons(value)) == ["Plan repair"]
        plan = pressed(step_buttons(value), "Plan repair")
        assert isinstance(plan, Plan)
        assert plan.to_dict()["verb"] == "repair"
    assert str(t.explain(AREA)).splitlines()[0] == "reads 3 of 3 files: no file has bounds"
    assert str(t.explain(AREA)).splitlines()[-1] == f"next: {fix}"


def test_the_report_offers_undo_and_the_new_version_with_what_a_query_reads(t):
    report = applied(pressed(step_buttons(t.explain(AREA)), "Plan repair"))
    text = text_of(render(report))
    # One of three files of the same size, and all of them before.
    assert report.reads == pytest.approx((1.0, 1 / 3), abs=0.01)
    assert "% of the bytes, 100.0% before" in text
    buttons = report_buttons(report)
    assert labels(buttons) == ["Undo", "Open new version"]
    opened = pressed(buttons, "Open new version")
    assert isinstance(opened, Table)
    assert opened.version == report.version == 2
    undo = pressed(buttons, "Undo")
    assert isinstance(undo, Plan)
    done = applied(undo)
    assert (done.verb, done.version) == ("undo", 3)
    assert labels(report_buttons(done)) == ["Open new version"]


def test_a_value_of_an_older_version_says_so_and_is_refreshed(t):
    values = [t, t.explain(AREA), t.check(), t.collations]
    gl.open(t.location).plan_repair().apply()
    for value in values:
        text = text_of(render(value))
        assert "Version 2 is newer: refresh the table to see it. In code: t.refresh()" in text
        assert labels(step_buttons(value)) == ["Refresh"]
    answer = pressed(step_buttons(values[1]), "Refresh")
    assert isinstance(answer, Explanation)
    assert (answer.version, answer.read.files, t.version) == (2, 1, 2)
    assert isinstance(pressed(step_buttons(t.at(1).check()), "Refresh"), Findings)
    assert "newer" not in text_of(render(t))


def test_an_error_of_a_step_is_text_under_the_button(t, monkeypatch):
    def fail(self, **_):
        raise gl.GeolakeError("<script>alert(1)</script>")

    buttons = step_buttons(t)
    monkeypatch.setattr(Table, "plan_repair", fail)
    assert pressed(buttons, "Plan repair") is None
    assert "&lt;script&gt;" in buttons.status.value
    assert not buttons.buttons[0].disabled


def test_a_good_table_is_to_be_checked_and_a_good_check_has_no_step(tmp_path):
    good = gl.open(small_tables.make_delta(tmp_path / "roads"))
    assert good.next_step.label == "Check"
    findings = pressed(step_buttons(good), "Check")
    assert isinstance(findings, Findings)
    assert (len(findings), findings.next_step, step_buttons(findings)) == (0, None, None)
    explanation = good.explain(AREA)
    assert explanation.verdict == "reads 1 of 3 files: the others cannot hold a matching row"
    assert explanation.next_step is None
    assert good.explain("id > 100").verdict == "reads 0 of 3 files: no file can hold a matching row"


def test_some_files_without_bounds_are_counted(tmp_path):
    from tests.jupyter.mapped_tables import mapped_table, random_boxes

    boxes = random_boxes(10)
    boxes[3] = boxes[7] = None
    explanation = mapped_table(boxes).explain((-180, -90, 180, 90))
    assert explanation.verdict == "reads 10 of 10 files: 2 of them have no bounds"
    assert explanation.next_step.label == "Plan repair"


def test_a_new_table_has_no_line_about_tables_opened_before():
    new = Report("write", "/t", 0, "x", (), {}, 0.1)
    assert "opened before" not in text_of(render(new))


def test_reading_uses_the_version_of_the_table_and_a_change_the_newest(t):
    gl.open(t.location).plan_repair().apply()
    assert (t.explain(AREA).version, t.collations.origin.version) == (1, 1)
    assert t.plan_undo().change.base_version == 2
    assert t.refresh() is t
    assert t.version == 2


def test_a_following_table_moves_before_each_call(t):
    followed = gl.open(t.location, follow=True)
    assert (followed.version, len(followed.files)) == (1, 3)
    report = t.plan_repair().apply()
    assert followed.explain(AREA).read.files == 1
    assert (followed.version, followed.newer_version, followed.schema) == (2, None, t.schema)
    assert repr(followed).endswith("version 2, follow=True)")
    assert followed.map().snapshot.version == 2
    report.undo()
    assert "version 3" in str(followed)
    assert labels(step_buttons(followed)) == ["Plan repair"]
    with pytest.raises(gl.GeolakeError, match="a version and follow=True are given"):
        gl.open(t.location, follow=True, version=1)
