"""The card of a check: findings by severity, each with the command that fixes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.checks.finding import Severity
from geolake_nb.formats.rules import RULES
from geolake_nb.jupyter.card_parts import card, command, folded, name, plural, title
from geolake_nb.jupyter.html import tag

if TYPE_CHECKING:
    from geolake_nb.checks.finding import Finding, Findings
    from geolake_nb.jupyter.html import Markup

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
        _skipped_checks(findings),
        tag("p", "More about a finding: ", command("help", findings[0].rule), class_="faint") if findings else None,
    )


def counts(findings: Findings) -> str:
    """How many findings there are of each severity."""
    parts = [
        plural(count, severity.value) if severity is not Severity.INFO else f"{count:,} info"
        for severity, count in findings.counts.items()
        if count
    ]
    return ", ".join(parts) if parts else tag("span", "no findings", class_="good")


def _group(findings: Findings, severity: Severity) -> Markup | None:
    group = [finding for finding in findings if finding.severity is severity]
    if not group:
        return None
    heading = tag("span", f"{_HEADINGS[severity]}: {len(group):,}", class_=severity.value)
    items = tag("ul", [tag("li", _finding(finding), class_="finding") for finding in group[:_SHOWN]], class_="findings")
    return folded(heading, items, unfolded=severity is not Severity.INFO)


def _finding(finding: Finding) -> list[Markup | None]:
    scope = finding.scope
    return [
        _rule(finding.rule),
        tag("p", tag("span", str(scope), class_="faint")),
        tag("p", finding.what),
        None if finding.fix is None else tag("p", "Fix: ", _command(finding.fix)),
        None if finding.no_command is None else tag("p", "No command: ", finding.no_command),
        _paths(finding) if scope.paths else None,
        tag("p", tag("small", f"Reference: {finding.spec}"), class_="faint"),
    ]


def _rule(rule: str) -> Markup:
    """The name of the rule, which expands to its section of the reference."""
    known = _RULES.get(rule)
    return tag("p", tag("strong", rule)) if known is None else folded(rule, [tag("p", text) for text in known.about])


def _command(fix: str) -> Markup:
    """The command as a magic; without its first character it runs in a shell as well."""
    return tag("code", f"%{fix}", class_="command")


def _paths(finding: Finding) -> Markup:
    scope = finding.scope
    more = scope.count - len(scope.paths) if scope.unit == "files" else 0
    items = [tag("li", name(path)) for path in scope.paths]
    return folded("Files", tag("ul", items), tag("p", f"and {more:,} more") if more > 0 else None)


def _skipped_checks(findings: Findings) -> Markup | None:
    if not findings.skipped_checks:
        return None
    reasons = dict.fromkeys(check.why for check in findings.skipped_checks)
    rules = {why: ", ".join(check.rule for check in findings.skipped_checks if check.why == why) for why in reasons}
    items = tag("ul", [tag("li", f"{why}: {names}") for why, names in rules.items()])
    return folded(f"Not checked: {plural(len(findings.skipped_checks), 'rule')}", items)
