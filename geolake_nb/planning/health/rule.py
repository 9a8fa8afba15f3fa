"""What a rule of the check is: its name and source, what it needs to know, and how it finds a fault."""

from __future__ import annotations

import enum
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from geolake_nb.planning.health.finding import Finding, NotJudged, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from geolake_nb.formats.snapshot import TableFormat
    from geolake_nb.planning.health.evidence import Evidence
    from geolake_nb.planning.health.finding import Severity, SpecReference

__all__ = ["Fault", "Needs", "Rule", "Unjudged"]


class Needs(enum.Enum):
    """What a rule needs beside the metadata of the table; the value says what it means that it is not there."""

    MISSING = "the data files were not looked for"
    ROW_GROUPS = "the row groups were not read"
    FOOTERS = "the Parquet footers were not read"
    DEEP = "the data was not scanned (--deep)"
    RASTERS = "the rasters were not read"

    @property
    def seen_in(self) -> str:
        """Where a check finds it.

        >>> Needs.DEEP.seen_in
        'the data, which a check reads with --deep'
        """
        return _SEEN_IN[self]


_FOOTERS = "the Parquet footers, which a check reads unless it has --metadata-only"
_SEEN_IN = {
    Needs.MISSING: "the data files, which a check opens unless it has --metadata-only",
    Needs.ROW_GROUPS: _FOOTERS,
    Needs.FOOTERS: _FOOTERS,
    Needs.DEEP: "the data, which a check reads with --deep",
    Needs.RASTERS: "the raster columns, which a check reads unless it has --metadata-only; their bands with --deep",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """What a rule found at some places; the rule itself supplies the rest of the finding."""

    what: str
    place: Place = field(default_factory=Place)
    spec: SpecReference | None = None
    """Where formats have the rule in different documents; else that of the rule."""
    fix_column: str | None = None
    """The column that the command of the rule names, where it names one."""


@dataclass(frozen=True, slots=True)
class Unjudged:
    """Why a rule cannot tell."""

    why: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: an id such as `bounds.missing`, and a function that yields what breaks it."""

    id: str
    severity: Severity
    summary: str
    """What is wrong with a table that breaks it, in one line."""
    why: str
    """Why that matters, in a sentence for somebody who knows tables and no maps."""
    spec: SpecReference
    find: Callable[[Evidence], Iterable[Fault | Unjudged]]
    mend: str | None = None
    """The command, with `{table}` where the table goes, and `{column}` where a column does."""
    formats: frozenset[TableFormat] | None = None
    """The formats that it is about; `None` for all."""
    needs: Needs | None = None

    @property
    def about(self) -> tuple[str, ...]:
        """What is wrong, why that matters, and where it is seen: a sentence for each."""
        seen = "the metadata of the table" if self.needs is None else self.needs.seen_in
        kinds = sorted(one.value.capitalize() for one in self.formats or ())
        tables = f" of {' and '.join(kinds)} tables" if kinds else ""
        return f"{self.summary[0].upper()}{self.summary[1:]}.", self.why, f"A finding{tables} from {seen}."

    def judge(self, evidence: Evidence) -> Iterator[Finding | NotJudged]:
        """What the rule says about a table; nothing when all is well or the rule is about other tables."""
        if self.formats is not None and evidence.snapshot.format not in self.formats:
            return
        if self.needs is not None and not evidence.has(self.needs):
            # Without a column to judge there is nothing that the evidence could show.
            if evidence.concerns(self.needs):
                yield NotJudged(self.id, self.needs.value)
            return
        for fault in self.find(evidence):
            if isinstance(fault, Unjudged):
                yield NotJudged(self.id, fault.why)
            else:
                yield self._finding(fault, evidence.snapshot.location)

    def _finding(self, fault: Fault, location: str) -> Finding:
        mend = self.mend
        if mend is not None and "{column}" in mend:
            mend = None if fault.fix_column is None else mend.replace("{column}", shlex.quote(fault.fix_column))
        # Only the marker is replaced: braces in a location are part of it.
        mend = None if mend is None else mend.replace("{table}", shlex.quote(location))
        return Finding(self.id, self.severity, fault.place, fault.what, fault.spec or self.spec, mend)
