"""The page about the findings of a check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.checks.finding import Severity
from geolake_nb.formats.rules import RULES
from geolake_nb.reference.markdown import anchor, block, page, table

if TYPE_CHECKING:
    from geolake_nb.checks.rule import Rule

__all__ = ["finding_page"]

_HEAD = """\
`geolake check TABLE` reports problems of a table. Each finding has the name of a rule, a scope, the section
of a specification, and the command that fixes it. `geolake help RULE` prints the section of a rule."""
_WORDS = """\
A file's *bounds* are the smallest box around its shapes: xmin, ymin, xmax, ymax. A spatial query skips
the files whose bounds do not overlap it. A *CRS*, coordinate reference system, defines what the numbers mean:
degrees or metres, and their origin. A *geometry* lies on a plane, a *geography* on the Earth.
A *collation* defines how strings compare."""
_SPEC = """\
Where several documents have the rule, a finding names the section of the table's own format."""
_SEVERITIES = {
    Severity.ERROR: "queries can miss rows, or engines refuse the table",
    Severity.WARNING: "results are correct, but too much is read, or something will break later",
    Severity.INFO: "for information; no action is needed",
}
_PYTHON = """import geolake_nb as gl

for finding in gl.open("roads").check():
    print(finding.rule, finding.severity.value, finding.fix)"""


def finding_page() -> str:
    """The page."""
    return page(
        "# Findings",
        _HEAD,
        block(_PYTHON, "python runs"),
        _WORDS,
        _SPEC,
        table(["severity", "what it means"], [(severity.value, text) for severity, text in _SEVERITIES.items()]),
        table(
            ["rule", "severity", "what is wrong"],
            [(f"[{rule.id}](#{anchor(rule.id)})", rule.severity.value, rule.summary) for rule in RULES],
        ),
        *map(_section, RULES),
    )


def _section(rule: Rule) -> str:
    what, why, seen = rule.about
    return page(
        f"## {rule.id}",
        f"**{rule.severity.value.capitalize()}**: {what}",
        f"Why it matters: {why}",
        *_fix_lines(rule),
        f"{seen} Reference: {rule.spec}.",
    ).rstrip()


def _fix_lines(rule: Rule) -> tuple[str, ...]:
    if rule.fix is None:
        return (f"No command fixes it: {rule.no_command}.",)
    name = rule.fix.split()[1]
    link = f"[geolake {name}](commands.md#{anchor(f'geolake {name}')})"
    command = block(rule.fix.replace("{table}", "TABLE").replace("{column}", "COLUMN"))
    otherwise = () if rule.no_command is None else (f"Where no command fixes it: {rule.no_command}.",)
    return f"Fix it with {link}:", command, *otherwise
