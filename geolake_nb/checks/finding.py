"""The results of a check: findings with their scope, their source in a specification and their fix."""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from geolake_nb.model.display import LiveDisplayable
from geolake_nb.scan.next_step import NextStep
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geolake_nb.model.table_format import SpecReference

__all__ = ["Finding", "Findings", "Scope", "Severity", "SkippedCheck"]

_WIDTH = 100


class Severity(enum.Enum):
    """How bad a finding is. The order of the members is the order in which findings are shown."""

    ERROR = "error"
    """The table breaks its specification, or a reader that trusts it loses rows or cannot open it."""
    WARNING = "warning"
    """The table is correct, but reads more than it must, or relies on a preview feature."""
    INFO = "info"
    """Worth knowing; nothing has to be done."""

    @property
    def rank(self) -> int:
        """0 for the worst.

        >>> Severity.ERROR.rank < Severity.INFO.rank
        True
        """
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Scope:
    """Where something was found: a table, a column of it, or a number of files, of which the first few are named.

    >>> print(Scope(column="geom", paths=("a.parquet", "b.parquet"), count=12))
    geom, 12 files
    >>> print(Scope())
    table
    >>> print(Scope(column="geom"))
    geom
    """

    column: str | None = None
    paths: tuple[str, ...] = ()
    """The first few of the files, as the table names them."""
    count: int = 0
    """How many files, or what `unit` names, are affected."""
    unit: str = "files"

    def __str__(self) -> str:
        number = f"{self.count:,} {self.unit.removesuffix('s') if self.count == 1 else self.unit}" if self.count else ""
        column = "" if self.column is None else printable(self.column)
        return ", ".join(part for part in (column, number) if part) or "table"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a table, with everything that it affects."""

    rule: str
    """Such as `bounds.missing`."""
    severity: Severity
    scope: Scope
    what: str
    """One sentence."""
    spec: SpecReference
    fix: str | None = None
    """The command that fixes it; `None` where no command does."""
    no_command: str | None = None
    """Why no command does."""

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain values with stable keys, ready for JSON.

        >>> from geolake_nb.model.table_format import SpecReference
        >>> spec = SpecReference("Parquet geospatial", "Bounding Box")
        >>> Finding("bounds.missing", Severity.WARNING, Scope("geom"), "no box", spec).to_dict()["scope"]
        {'column': 'geom', 'paths': [], 'count': 0, 'unit': 'files'}
        """
        scope = self.scope
        return {
            "rule": self.rule,
            "severity": self.severity.value,
            "scope": {
                "column": scope.column,
                "paths": list(scope.paths),
                "count": scope.count,
                "unit": scope.unit,
            },
            "what": self.what,
            "spec": {"document": self.spec.document, "section": self.spec.section},
            "fix": self.fix,
            "no_command": self.no_command,
        }

    def __str__(self) -> str:
        lines = [f"{self.rule}  {self.scope}", *_wrapped(printable(self.what))]
        if self.scope.paths:
            shown = [_shortened(printable(path), _WIDTH - 6) for path in self.scope.paths]
            more = self.scope.count - len(shown) if self.scope.unit == "files" else 0
            lines += [f"    {path}" for path in shown]
            lines += [f"    … and {more:,} more"] if more > 0 else []
        lines += _wrapped(f"spec: {self.spec}")
        lines += [] if self.fix is None else [f"  fix: {printable(self.fix)}"]
        lines += [] if self.no_command is None else _wrapped(printable(f"no command: {self.no_command}"))
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class SkippedCheck:
    """A rule that was not checked on this table, and why."""

    rule: str
    why: str


@dataclass(frozen=True, slots=True)
class Findings(LiveDisplayable, Sequence[Finding]):
    """The findings of one check, the worst first.

    Example:
        >>> good = Findings("/data/roads", ())
        >>> print(good)
        /data/roads: no findings
        >>> len(good), good.exit_code(), good.counts[Severity.ERROR]
        (0, 0, 0)
    """

    table: str
    findings: tuple[Finding, ...]
    skipped_checks: tuple[SkippedCheck, ...] = ()
    origin: object | None = field(default=None, repr=False, compare=False)
    """The table that was checked, where it was an open one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "findings", tuple(sorted(self.findings, key=lambda finding: finding.severity.rank)))

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Finding, ...]: ...
    def __getitem__(self, index: int | slice) -> Finding | tuple[Finding, ...]:
        return self.findings[index]

    def __len__(self) -> int:
        return len(self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    @property
    def counts(self) -> dict[Severity, int]:
        """How many findings there are of each severity."""
        return {severity: sum(finding.severity is severity for finding in self.findings) for severity in Severity}

    @property
    def next_step(self) -> NextStep | None:
        """The fix of the worst finding that a command fixes; `None` where there is none."""
        fixes = (finding.fix for finding in self.findings if finding.fix is not None)
        return next(map(NextStep.of_command, fixes), None)

    def of(self, rule: str) -> tuple[Finding, ...]:
        """The findings of one rule, or of a group of rules such as `bounds`.

        Args:
            rule: the id of a rule, or what comes before its dot.

        Returns:
            The findings, the worst first.

        Example:
            >>> [finding.rule for finding in t.check().of("bounds")]
            ['bounds.missing']
        """
        return tuple(
            finding for finding in self.findings if finding.rule == rule or finding.rule.startswith(f"{rule}.")
        )

    def exit_code(self, *, at_least: Severity = Severity.INFO) -> int:
        """What the shell command returns: 0 good, 1 findings, 2 errors in the table.

        Args:
            at_least: the lowest severity that counts, so that a script can ignore information.

        Returns:
            0, 1 or 2.

        Example:
            >>> t.check().exit_code(), t.check().exit_code(at_least=Severity.ERROR)
            (1, 0)
        """
        ranks = [finding.severity.rank for finding in self.findings if finding.severity.rank <= at_least.rank]
        if not ranks:
            return 0
        return 2 if Severity.ERROR.rank in ranks else 1

    def to_dict(self) -> dict[str, Any]:
        """The findings as plain values with stable keys, ready for JSON.

        Returns:
            A dict with the keys `table, counts, findings, skipped_checks`.

        Example:
            >>> t.check().to_dict()["counts"]
            {'error': 0, 'warning': 1, 'info': 0}
        """
        return {
            "table": self.table,
            "counts": {severity.value: count for severity, count in self.counts.items()},
            "findings": [finding.to_dict() for finding in self.findings],
            "skipped_checks": [{"rule": check.rule, "why": check.why} for check in self.skipped_checks],
        }

    def __str__(self) -> str:
        counts = [
            f"{count} {severity.value}{'s' if count != 1 and severity is not Severity.INFO else ''}"
            for severity, count in self.counts.items()
            if count
        ]
        head = f"{printable(self.table)}: {', '.join(counts) or 'no findings'}"
        lines = [_shortened(head, _WIDTH)] if len(head) > _WIDTH and not counts else [head]
        for severity in Severity:
            group = [finding for finding in self.findings if finding.severity is severity]
            if group:
                lines += ["", severity.name]
                lines += [textwrap.indent(str(finding), "  ") for finding in group]
        if self.skipped_checks:
            lines += ["", "NOT CHECKED"]
            reasons = dict.fromkeys(check.why for check in self.skipped_checks)
            for why in reasons:
                rules = ", ".join(check.rule for check in self.skipped_checks if check.why == why)
                lines += [f"  {line}" for line in _wrapped(printable(f"{why}: {rules}"), indent="")]
        if self.findings:
            lines += ["", f"why it matters: geolake help {printable(self.findings[0].rule)}"]
        return "\n".join(lines)


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    width = _WIDTH - 2
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False)


def _shortened(text: str, width: int) -> str:
    """The text without its middle: both ends of a path identify it."""
    if len(text) <= width:
        return text
    half = (width - 1) // 2
    return f"{text[:half]}…{text[-half:]}"
