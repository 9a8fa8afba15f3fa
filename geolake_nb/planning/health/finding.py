"""What a check of a table says: findings with their place, their source in a specification and their remedy."""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from geolake_nb.core.showing import Shown

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Finding", "Findings", "NotJudged", "Place", "Severity", "SpecReference"]

_WIDTH = 100


class Severity(enum.Enum):
    """How bad a finding is. The order of the members is the order in which findings are shown."""

    ERROR = "error"
    """The table breaks its specification, or a reader that trusts it loses rows or cannot open it."""
    WARNING = "warning"
    """The table is right, yet reads more than it must, or stands on something that will not last."""
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
class SpecReference:
    """The section of a document that has the rule.

    >>> print(SpecReference("Parquet geospatial", "Bounding Box"))
    Parquet geospatial, Bounding Box
    """

    document: str
    section: str

    def __str__(self) -> str:
        return f"{self.document}, {self.section}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was found: a table, a column of it, or a number of files, of which the first few are named.

    >>> print(Place(column="geom", paths=("a.parquet", "b.parquet"), count=12))
    geom, 12 files
    >>> print(Place())
    table
    >>> print(Place(column="geom"))
    geom
    """

    column: str | None = None
    paths: tuple[str, ...] = ()
    """The first few of the files, as the table names them."""
    count: int = 0
    """How many places there are in all: files, or what `unit` says."""
    unit: str = "files"

    def __str__(self) -> str:
        number = f"{self.count:,} {self.unit.removesuffix('s') if self.count == 1 else self.unit}" if self.count else ""
        column = "" if self.column is None else printable(self.column)
        return ", ".join(part for part in (column, number) if part) or "table"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a table, with all the places that share it."""

    rule: str
    """Such as `bounds.missing`."""
    severity: Severity
    place: Place
    what: str
    """One sentence."""
    spec: SpecReference
    mend: str | None = None
    """The command that mends it; `None` where no command does."""

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain values with stable keys, ready for JSON.

        >>> spec = SpecReference("Parquet geospatial", "Bounding Box")
        >>> Finding("bounds.missing", Severity.WARNING, Place("geom"), "no box", spec).to_dict()["place"]
        {'column': 'geom', 'paths': [], 'count': 0, 'unit': 'files'}
        """
        place = self.place
        return {
            "rule": self.rule,
            "severity": self.severity.value,
            "place": {
                "column": place.column,
                "paths": list(place.paths),
                "count": place.count,
                "unit": place.unit,
            },
            "what": self.what,
            "spec": {"document": self.spec.document, "section": self.spec.section},
            "mend": self.mend,
        }

    def __str__(self) -> str:
        lines = [f"{self.rule}  {self.place}", *_wrapped(printable(self.what))]
        if self.place.paths:
            shown = [_shortened(printable(path), _WIDTH - 6) for path in self.place.paths]
            more = self.place.count - len(shown) if self.place.unit == "files" else 0
            lines += [f"    {path}" for path in shown]
            lines += [f"    … and {more:,} more"] if more > 0 else []
        lines += _wrapped(f"spec: {self.spec}")
        lines += [] if self.mend is None else [f"  mend: {printable(self.mend)}"]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class NotJudged:
    """A rule that says nothing about this table, and why."""

    rule: str
    why: str


@dataclass(frozen=True, slots=True)
class Findings(Shown, Sequence[Finding]):
    """The findings of one check, the worst first.

    >>> good = Findings("/data/roads", ())
    >>> print(good)
    /data/roads: no findings
    >>> len(good), good.exit_code(), good.counts[Severity.ERROR]
    (0, 0, 0)
    """

    table: str
    found: tuple[Finding, ...]
    not_judged: tuple[NotJudged, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "found", tuple(sorted(self.found, key=lambda one: one.severity.rank)))

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Finding, ...]: ...
    def __getitem__(self, index: int | slice) -> Finding | tuple[Finding, ...]:
        return self.found[index]

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.found)

    @property
    def counts(self) -> dict[Severity, int]:
        """How many findings there are of each severity."""
        return {severity: sum(one.severity is severity for one in self.found) for severity in Severity}

    def of(self, rule: str) -> tuple[Finding, ...]:
        """The findings of one rule, or of a group of them such as `bounds`.

        >>> Findings("t", ()).of("bounds.missing")
        ()
        """
        return tuple(one for one in self.found if one.rule == rule or one.rule.startswith(f"{rule}."))

    def exit_code(self, *, at_least: Severity = Severity.INFO) -> int:
        """What the shell command returns: 0 good, 1 findings, 2 errors in the table.

        `at_least` leaves out what is less bad, so that a script may pass over information.
        """
        ranks = [one.severity.rank for one in self.found if one.severity.rank <= at_least.rank]
        if not ranks:
            return 0
        return 2 if Severity.ERROR.rank in ranks else 1

    def to_dict(self) -> dict[str, Any]:
        """The findings as plain values with stable keys, ready for JSON.

        >>> Findings("t", ()).to_dict()
        {'table': 't', 'counts': {'error': 0, 'warning': 0, 'info': 0}, 'findings': [], 'not_judged': []}
        """
        return {
            "table": self.table,
            "counts": {severity.value: count for severity, count in self.counts.items()},
            "findings": [one.to_dict() for one in self.found],
            "not_judged": [{"rule": one.rule, "why": one.why} for one in self.not_judged],
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
            group = [one for one in self.found if one.severity is severity]
            if group:
                lines += ["", severity.name]
                lines += [textwrap.indent(str(one), "  ") for one in group]
        if self.not_judged:
            lines += ["", "NOT JUDGED"]
            reasons = dict.fromkeys(one.why for one in self.not_judged)
            for why in reasons:
                rules = ", ".join(one.rule for one in self.not_judged if one.why == why)
                lines += [f"  {line}" for line in _wrapped(printable(f"{why}: {rules}"), indent="")]
        if self.found:
            lines += ["", f"why it matters: geolake help {printable(self.found[0].rule)}"]
        return "\n".join(lines)


def printable(text: str) -> str:
    """The text with what a terminal might act upon written out.

    >>> printable("a\\x1b[2J")
    'a\\\\x1b[2J'
    """
    return text if text.isprintable() else ascii(text)[1:-1]


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    width = _WIDTH - 2
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False)


def _shortened(text: str, width: int) -> str:
    """The text with its middle left out: both ends of a path tell which it is."""
    if len(text) <= width:
        return text
    half = (width - 1) // 2
    return f"{text[:half]}…{text[-half:]}"
