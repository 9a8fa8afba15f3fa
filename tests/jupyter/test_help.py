"""`%geolake help`, and what the card of a check says about a rule."""

from __future__ import annotations

import pytest

import geolake_nb as gl
from geolake_nb.checks.finding import Finding, Findings, Scope, Severity
from geolake_nb.formats.rules import RULES
from geolake_nb.jupyter.cards import render
from geolake_nb.model.table_format import SpecReference
from geolake_nb.reference import section
from tests import small_tables
from tests.jupyter.html_reading import read, text_of
from tests.jupyter.shell import notebook


@pytest.fixture
def book(capsys):
    with notebook(capsys) as opened:
        yield opened


@pytest.mark.parametrize("topic", ["bounds.missing", "ConflictError", "findings", "magics"])
def test_help_prints_the_section(book, topic):
    assert book.run(f"%geolake help {topic}").out == section(topic) + "\n"


def test_the_name_of_a_rule_opens_what_it_means(tmp_path):
    markup = render(gl.open(small_tables.make_delta(tmp_path / "t", bounds=False)).check())
    [rule] = [rule for rule in RULES if rule.id == "bounds.missing"]
    assert "<details><summary>bounds.missing</summary>" in markup
    assert all(text in text_of(markup) for text in rule.about)
    assert text_of(markup).count("%geolake help bounds.missing") == 1
    assert not {"a", "script"} & {name for name, _ in read(markup).elements}


def test_a_finding_of_no_rule_of_ours_is_shown_as_text():
    spec = SpecReference("a", "b")
    markup = render(Findings("t", (Finding("<b>", Severity.INFO, Scope(), "what", spec),)))
    assert "<strong>&lt;b&gt;</strong>" in markup


def test_a_card_without_findings_has_no_hint():
    assert "help" not in text_of(render(Findings("t", ())))
