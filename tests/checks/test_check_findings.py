"""Findings as values: order, counts, text, JSON, exit codes; and the table of rules."""

from __future__ import annotations

import json
import re

import pytest

from geolake_nb.checks.finding import Finding, Findings, Scope, Severity, SkippedCheck
from geolake_nb.formats.rules import RULES
from geolake_nb.model.snapshot import Protocol
from geolake_nb.model.table_format import SpecReference
from tests.checks.check_tables import COUNT, PATHS, delta

SPEC = SpecReference("Parquet geospatial", "Bounding Box")


def finding(severity, rule="a.b", scope=None, what="something is wrong"):
    return Finding(rule, severity, scope or Scope(), what, SPEC, "geolake repair t")


@pytest.mark.parametrize(
    ("severities", "code", "strict"),
    [
        ([], 0, 0),
        ([Severity.INFO], 1, 0),
        ([Severity.WARNING, Severity.INFO], 1, 1),
        ([Severity.INFO, Severity.ERROR], 2, 2),
    ],
)
def test_exit_codes(severities, code, strict):
    findings = Findings("t", tuple(finding(severity) for severity in severities))
    assert findings.exit_code() == code
    assert findings.exit_code(at_least=Severity.WARNING) == strict


def test_findings_are_a_sequence_with_the_worst_first():
    given = [finding(level, rule) for level, rule in zip(Severity, "abc", strict=True)][::-1]
    findings = Findings("t", tuple(given))
    assert [result.rule for result in findings] == ["a", "b", "c"]
    assert findings[0].severity is Severity.ERROR
    assert findings[1:] == tuple(findings)[1:]
    assert len(findings) == 3
    assert findings.counts == dict.fromkeys(Severity, 1)


def test_findings_of_a_group():
    findings = Findings("t", (finding(Severity.INFO, "bounds.a"), finding(Severity.INFO, "bounds_b.a")))
    assert [result.rule for result in findings.of("bounds")] == ["bounds.a"]
    assert findings.of("nothing") == ()


def test_json_has_stable_keys():
    scope = Scope("geom", ("p",), 7)
    findings = Findings("/t", (finding(Severity.ERROR, scope=scope),), (SkippedCheck("x.y", "no time"),))
    assert json.loads(json.dumps(findings.to_dict())) == {
        "table": "/t",
        "counts": {"error": 1, "warning": 0, "info": 0},
        "findings": [
            {
                "rule": "a.b",
                "severity": "error",
                "scope": {"column": "geom", "paths": ["p"], "count": 7, "unit": "files"},
                "what": "something is wrong",
                "spec": {"document": "Parquet geospatial", "section": "Bounding Box"},
                "fix": "geolake repair t",
                "no_command": None,
            }
        ],
        "skipped_checks": [{"rule": "x.y", "why": "no time"}],
    }


def test_the_text_is_grouped_by_severity_and_readable_in_100_columns():
    scope = Scope("geom", tuple(f"{'folder/' * 30}{index}.parquet" for index in range(3)), 1_234_567)
    findings = Findings(
        "/data/roads",
        (
            finding(Severity.WARNING, "w.w", what="word " * 60),
            finding(Severity.ERROR, "e.e", scope),
            finding(Severity.ERROR, "f.f"),
        ),
        tuple(SkippedCheck(f"rule.number_{index}", "the row groups were not read") for index in range(20)),
    )
    lines = str(findings).splitlines()
    assert lines[0] == "/data/roads: 2 errors, 1 warning"
    assert [line for line in lines if line.isupper()] == ["ERROR", "WARNING", "NOT CHECKED"]
    assert "  e.e  geom, 1,234,567 files" in lines
    assert any("and 1,234,564 more" in line for line in lines)
    assert any("0.parquet" in line for line in lines)
    assert max(map(len, lines)) <= 100


def test_what_a_table_holds_cannot_reach_the_terminal():
    evil = "\x1b[2J\n\u202e"
    scope = Scope(evil, (evil,), 1)
    text = str(Findings(evil, (finding(Severity.ERROR, scope=scope, what=evil),)))
    assert not {"\x1b", "\u202e"} & set(text)
    assert text.count("\n") == str(Findings("t", (finding(Severity.ERROR, scope=Scope("c", ("p",), 1)),))).count("\n")


def test_one_finding_covers_all_files():
    table = delta().with_files(geom__xmin=[None] * COUNT)
    [finding] = table.check()
    assert (finding.rule, finding.scope.count, len(finding.scope.paths)) == ("bounds.missing", COUNT, 3)


def test_exit_code_of_a_table_with_an_error():
    table = delta().changed(protocol=Protocol("", (), {"minReaderVersion": 3, "minWriterVersion": 7}))
    assert table.check().exit_code() == 2


def test_every_rule_is_in_one_table_with_all_that_docs_need():
    ids = [rule.id for rule in RULES]
    assert len(set(ids)) == len(ids)
    for rule in RULES:
        assert re.fullmatch(r"(bounds|collation|crs|files|geo|layout|protocol|raster)\.[a-z_]+[0-9]?", rule.id)
        assert isinstance(rule.severity, Severity)
        assert all((rule.spec.document, rule.spec.section, rule.summary))
        assert "\n" not in rule.summary
        assert not rule.summary.endswith(".")
        assert rule.fix or rule.no_command, rule.id
        words = r"(--cluster )?\{column\}|--file-size SIZE|--upgrade|--verify|COLUMN=(TYPE|ID)|[a-z]+"
        assert rule.fix is None or re.fullmatch(rf"geolake [a-z]+ \{{table\}}( ({words}))?", rule.fix)


def test_every_rule_has_a_test_that_breaks_it():
    from pathlib import Path

    tests = Path(__file__).parents[1]
    modules = [*Path(__file__).parent.glob("test_check_*.py"), *tests.glob("*/test_line_*.py")]
    text = "".join(path.read_text() for path in modules)
    assert [rule.id for rule in RULES if f'"{rule.id}"' not in text] == []


def test_paths_are_those_of_the_table():
    [finding] = delta().with_files(geom__xmin=[None, *range(1, COUNT)]).check().of("bounds.missing")
    assert finding.scope.paths == (PATHS[0],)
