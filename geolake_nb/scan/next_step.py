"""Why a query reads what it reads, in one sentence, and the one step that would change it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from geolake_nb.scan.coverage import coverage
from geolake_nb.scan.layout import cheap_layout
from geolake_nb.scan.layout_model import has_one_value
from geolake_nb.scan.prune import ScanReason
from geolake_nb.text.messages import plural

if TYPE_CHECKING:
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.scan.explanation import Explanation

__all__ = ["NextStep", "explanation_step", "table_step", "verdict_text"]

_LABELS = {
    "check": "Check",
    "collations": "Plan statistics",
    "enable": "Plan geo type",
    "maintain": "Plan maintenance",
    "repair": "Plan repair",
    "rewrite": "Plan rewrite",
    "undo": "Undo",
}


@dataclass(frozen=True, slots=True)
class NextStep:
    """What to do next: a command, and the label of the button that runs it; plans change nothing by themselves.

    >>> NextStep.of("repair", "/data/my roads")
    NextStep(command="geolake repair '/data/my roads'", label='Plan repair')
    """

    command: str
    label: str | None
    """`None` where there is only the command: it needs a word of the user."""

    @classmethod
    def of(cls, verb: str, location: str, *options: str) -> NextStep:
        """The step of a subcommand on a table."""
        return cls.of_command(shlex.join(["geolake", verb, location, *options]))

    @classmethod
    def of_command(cls, command: str) -> NextStep:
        """The step of a command, such as the fix of a finding.

        >>> NextStep.of_command("geolake publish /t").label is None
        True
        """
        try:
            verb = shlex.split(command)[1]
        except (IndexError, ValueError):
            return cls(command, None)
        return cls(command, _LABELS.get(verb))

    @property
    def words(self) -> list[str]:
        """The words after `geolake`."""
        return shlex.split(self.command)[1:]


# What is said of all files of a table, and of some.
_CAUSES = {
    ScanReason.NO_BOUNDS: ("no file has bounds", "has no bounds", "have no bounds"),
    ScanReason.UNUSABLE_BOUNDS: ("no file has usable bounds", "has no usable bounds", "have no usable bounds"),
    ScanReason.NO_STATISTICS: (
        "no file has statistics for the column",
        "has no statistics for the column",
        "have no statistics for the column",
    ),
    ScanReason.NOT_INDEXED: ("the column is not indexed for statistics", "is not indexed", "are not indexed"),
    ScanReason.NO_COLLATED_STATISTICS: (
        "no file has statistics of this collation",
        "has no statistics of this collation",
        "have no statistics of this collation",
    ),
    ScanReason.COLLATION_VERSION_DIFFERS: (
        "all statistics are of another collation version",
        "has statistics of another collation version",
        "have statistics of another collation version",
    ),
    ScanReason.CRS_DIFFERS: (
        "the query cannot be transformed to the CRS of the column",
        "cannot be compared in the CRS of the query",
        "cannot be compared in the CRS of the query",
    ),
}
_TO_REPAIR = (ScanReason.NO_BOUNDS, ScanReason.UNUSABLE_BOUNDS)
_OTHER_CAUSES = {
    ScanReason.OVERLAPS: "the bounds of every file overlap the query",
    ScanReason.QUERY_UNBOUNDED: "the query geometry has no usable bounds",
    ScanReason.NO_COLLATOR: "no collator of that version is available",
    ScanReason.IN_RANGE: "every file may match by its minimum and maximum",
    ScanReason.NEGATED: "bounds cannot exclude a negated filter",
}


def verdict_text(explanation: Explanation) -> str:
    """How many files are read, and why not fewer."""
    read, total = explanation.read.files, explanation.total.files
    if not total:
        return "reads nothing: the table has no files"
    head = f"reads {read:,} of {plural(total, 'file')}"
    if not read:
        return f"{head}: no file can hold a matching row"
    kept = {reason: amount.files for reason, amount in explanation.by_reason().items() if reason.kept}
    doubtful = {reason: files for reason, files in kept.items() if reason in _CAUSES}
    if doubtful:
        worst = max(doubtful, key=lambda reason: doubtful[reason])
        every, single, some = _CAUSES[worst]
        files = doubtful[worst]
        which = f"{files:,} of them" if files < read else plural(files, "file")
        return f"{head}: {every if files == total else f'{which} {single if files == 1 else some}'}"
    if read < total:
        return f"{head}: the others cannot hold a matching row"
    only = next(iter(kept)) if len(kept) == 1 else None
    return f"{head}: {_OTHER_CAUSES.get(only, 'every file may hold a matching row') if only else 'each may match'}"


def explanation_step(explanation: Explanation) -> NextStep | None:
    """The step after which the query would read less; `None` where there is none to suggest."""
    location = explanation.location
    kept = {reason for reason in explanation.by_reason() if reason.kept}
    if any(reason in kept for reason in _TO_REPAIR):
        return NextStep.of("repair", location)
    if ScanReason.COLLATION_VERSION_DIFFERS in kept or ScanReason.NO_COLLATED_STATISTICS in kept:
        return NextStep.of("collations", location, "--upgrade")
    if explanation.read.files < 2 or ScanReason.OVERLAPS not in kept:
        return None
    return _layout_step(explanation.snapshot)


def table_step(snapshot: Snapshot) -> NextStep | None:
    """The step that lets queries of a table read less: bounds first, then the layout."""
    repairable = [column for column in coverage(snapshot) if has_one_value(snapshot.schema, column.column)]
    if any(not column.complete for column in repairable):
        return NextStep.of("repair", snapshot.location)
    return _layout_step(snapshot)


def _layout_step(snapshot: Snapshot) -> NextStep | None:
    layout = cheap_layout(snapshot)
    return NextStep.of("maintain", snapshot.location) if layout is not None and layout.decayed else None
