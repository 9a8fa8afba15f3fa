"""The card of a check: findings by severity, each with the command that mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.jupyter.card_parts import card, command, folded, name, plural, title
from geolake_nb.jupyter.html import tag
from geolake_nb.planning.health.finding import Severity
from geolake_nb.planning.health.rules import RULES

if TYPE_CHECKING:
    from geolake_nb.jupyter.html import Markup
    from geolake_nb.planning.health.finding import Finding, Findings

__all__ = ["counts", "show"]

_HEADINGS = {Severity.ERROR: "Errors", Severity.WARNING: "Warnings", Severity.INFO: "Information"}
_SHOWN = 100
_RULES = {rule.id: rule for rule in RULES}


def show(findings: Findings) -> Markup:
    """The card."""
    return card(
        "Check",
        title("Check", findings.table),
        tag("p", counts(findings)),
        [_group(findings, severity) for severity in Severity],
        _not_judged(findings),
        tag("p", "More about a finding: ", command("help", findings[0].rule), class_="faint") if findings else None,
    )


def counts(findings: Findings) -> str:
    """How many findings there are of each severity."""
    told = [
        plural(count, severity.value) if severity is not Severity.INFO else f"{count:,} info"
        for severity, count in findings.counts.items()
        if count
    ]
    return ", ".join(told) if told else tag("span", "no findings", class_="good")


def _group(findings: Findings, severity: Severity) -> Markup | None:
    group = [one for one in findings if one.severity is severity]
    if not group:
        return None
    heading = tag("span", f"{_HEADINGS[severity]}: {len(group):,}", class_=severity.value)
    items = tag("ul", [tag("li", _finding(one), class_="finding") for one in group[:_SHOWN]], class_="findings")
    return folded(heading, items, unfolded=severity is not Severity.INFO)


def _finding(finding: Finding) -> list[Markup | None]:
    place = finding.place
    return [
        _rule(finding.rule),
        tag("p", tag("span", str(place), class_="faint")),
        tag("p", finding.what),
        None if finding.mend is None else tag("p", "Mend it: ", _command(finding.mend)),
        _paths(finding) if place.paths else None,
        tag("p", tag("small", f"By {finding.spec}"), class_="faint"),
    ]


def _rule(rule: str) -> Markup:
    """The name of the rule, which opens what the reference says about it."""
    known = _RULES.get(rule)
    return tag("p", tag("strong", rule)) if known is None else folded(rule, [tag("p", text) for text in known.about])


def _command(mend: str) -> Markup:
    """The command as a cell takes it: it is one of the shell as well, without its first character."""
    return tag("code", f"%{mend}", class_="command")


def _paths(finding: Finding) -> Markup:
    place = finding.place
    more = place.count - len(place.paths) if place.unit == "files" else 0
    items = [tag("li", name(path)) for path in place.paths]
    return folded("Files", tag("ul", items), tag("p", f"and {more:,} more") if more > 0 else None)


def _not_judged(findings: Findings) -> Markup | None:
    if not findings.not_judged:
        return None
    reasons = dict.fromkeys(one.why for one in findings.not_judged)
    rules = {why: ", ".join(one.rule for one in findings.not_judged if one.why == why) for why in reasons}
    items = tag("ul", [tag("li", f"{why}: {told}") for why, told in rules.items()])
    return folded(f"Not judged: {plural(len(findings.not_judged), 'rule')}", items)
