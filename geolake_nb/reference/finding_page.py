"""The page about the findings of a check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.planning.health.finding import Severity
from geolake_nb.planning.health.rules import RULES
from geolake_nb.reference.markdown import anchor, block, page, table

if TYPE_CHECKING:
    from geolake_nb.planning.health.rule import Rule

__all__ = ["finding_page"]

_HEAD = """\
`geolake check TABLE` says what is wrong with a table. Each finding has the name of a rule, a place, the section
of a specification, and the command that mends it. `geolake help RULE` prints the section of a rule."""
_WORDS = """\
A file's *bounds* are the smallest box around its shapes: xmin, ymin, xmax, ymax. A query about a place skips
the files whose box lies elsewhere. A *CRS*, coordinate reference system, says what the numbers mean: degrees or metres,
and from where. A *geometry* lies on a plane, a *geography* on the Earth. A *collation* says how strings compare."""
_SPEC = """\
Where formats have a rule in different documents, a finding names the section of the table's own format."""
_SEVERITIES = {
    Severity.ERROR: "rows can be lost, or engines refuse the table",
    Severity.WARNING: "answers are right, yet too much is read, or something will not last",
    Severity.INFO: "worth knowing; nothing has to be done",
}
_PYTHON = """import geolake_nb as gl

for finding in gl.open("roads").check():
    print(finding.rule, finding.severity.value, finding.mend)"""


def finding_page() -> str:
    """The page."""
    return page(
        "# Findings",
        _HEAD,
        block(_PYTHON, "python runs"),
        _WORDS,
        _SPEC,
        table(["severity", "what it means"], [(one.value, text) for one, text in _SEVERITIES.items()]),
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
        *_mending(rule),
        f"{seen} By {rule.spec}.",
    ).rstrip()


def _mending(rule: Rule) -> tuple[str, ...]:
    if rule.mend is None:
        return ("No command mends it: the data or the schema has to be put right where it is made.",)
    name = rule.mend.split()[1]
    link = f"[geolake {name}](commands.md#{anchor(f'geolake {name}')})"
    return f"Mend it with {link}:", block(rule.mend.replace("{table}", "TABLE").replace("{column}", "COLUMN"))
