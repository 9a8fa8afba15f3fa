"""What several engines returned for one query: whose rows are right, as text, as a table and as JSON."""

from __future__ import annotations

import shlex
import textwrap
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from geolake_nb.model.display import Displayable
from geolake_nb.model.table_format import Answer
from geolake_nb.text.messages import aligned, plural, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd

    from geolake_nb.model.table_format import EngineFact

__all__ = ["HEADS", "EngineComparison", "EngineRun", "cells_of", "fact_of", "recorded_text"]

_MAX_WHERE = 85
HEADS = ("engine", "skipping", "returned", "rows", "lost", "extra", "seconds", "files", "row groups")
"""What `cells_of` shows of a run."""


@dataclass(frozen=True, slots=True)
class EngineRun:
    """What one engine returned, with its skipping or without."""

    engine: str
    """Its name and version."""
    skipping: bool | None = None
    """Whether it could skip; `None` where that cannot be switched off, or where it did not run."""
    rows: int | None = None
    """The rows of the answer, after the whole filter was tested on what the engine returned."""
    returned: int | None = None
    """What the engine returned: more, where it knows only boxes."""
    lost: int | None = None
    """Rows of the full read that are not in the answer."""
    extra: int | None = None
    """Rows of the answer that are not in the full read."""
    seconds: float | None = None
    """How long it took until the engine had returned its rows."""
    files: int | None = None
    """Data files that were read, `None` where the engine does not say."""
    row_groups: int | None = None
    not_compared: tuple[str, ...] = ()
    """Columns that the engine does not return, or with values of another type."""
    problem: str | None = None
    """Why it gave no answer."""
    recorded: str | None = None
    """What the engine table says about it; see `EngineComparison.facts`."""

    @property
    def agrees(self) -> bool | None:
        """Whether the answer is that of the full read; `None` without an answer."""
        return None if self.problem is not None else self.lost == self.extra == 0

    def to_dict(self) -> dict[str, Any]:
        """The fields and `agrees` with plain values, for JSON."""
        return {**asdict(self), "not_compared": list(self.not_compared), "agrees": self.agrees}


@dataclass(frozen=True, eq=False)
class EngineComparison(Displayable):
    """The answers of several engines to one query, compared with a full read that shapely tested.

    Example:
        >>> answer = t.compare_engines((5, 45, 12, 52), engines=["geolake", "sedonadb"])
        >>> answer.agree, [(run.rows, run.lost) for run in answer]
        (True, [(3, 0), (3, 0), (3, 0)])
    """

    location: str
    where: str | None
    rows: int
    """The rows of the full read that satisfy the filter."""
    rows_read: int
    """All rows of the table."""
    seconds: float
    """How long the full read took."""
    files: int
    row_groups: int
    unreadable: dict[str, int]
    """Values of geo columns that cannot be read; their rows are not in the answer."""
    by_bounds: bool
    """Whether the filter has a spatial condition by which an engine could skip."""
    runs: tuple[EngineRun, ...]
    facts: tuple[EngineFact, ...] = field(repr=False, default=())
    """What the engine table says about the engines that were asked."""

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[EngineRun]:
        return iter(self.runs)

    @property
    def agree(self) -> bool:
        """Whether every engine that gave an answer gave that of the full read."""
        return all(run.agrees is not False for run in self.runs)

    @property
    def faults(self) -> tuple[str, ...]:
        """Who loses rows and when, and who has rows too many."""
        answered = self._answered
        wrong = dict.fromkeys(run.engine for run in answered if not run.agrees)
        lines = (
            self._fault(engine, [run for run in answered if run.engine == engine], count)
            for engine in wrong
            for count in ("lost", "extra")
        )
        return tuple(line for line in lines if line is not None)

    @property
    def notes(self) -> tuple[str, ...]:
        """That the engines agree, what was not compared, and what the engine table has otherwise."""
        return tuple(self._notes())

    @property
    def verdicts(self) -> tuple[str, ...]:
        """The faults, how to fix their cause, and the notes."""
        command = shlex.join(["geolake", "repair", self.location, "--verify"])
        fix = [f"Bounds are wrong: `{command}` corrects all but those of a bbox column."] if self.bounds_lie else []
        return (*self.faults, *fix, *self.notes)

    @property
    def bounds_lie(self) -> bool:
        """Whether an engine loses rows that it has without skipping, by a spatial filter."""
        whole = {run.engine for run in self._answered if run.skipping is False and not run.lost}
        return self.by_bounds and any(run.lost and run.skipping and run.engine in whole for run in self.runs)

    def to_dict(self) -> dict[str, Any]:
        """The comparison with plain values, for JSON.

        Returns:
            A dict with `location`, `where`, `rows`, `rows_read`, `seconds`, `files`, `row_groups`, `unreadable`,
            `agree`, `verdicts`, `engines` (a list of `EngineRun.to_dict()`) and `facts`.

        Example:
            >>> t.compare_engines("id = 3", engines=["geolake"]).to_dict()["engines"][0]["agrees"]
            True
        """
        names = ("location", "where", "rows", "rows_read", "seconds", "files", "row_groups", "unreadable", "agree")
        return {
            **{name: getattr(self, name) for name in names},
            "verdicts": list(self.verdicts),
            "engines": [run.to_dict() for run in self.runs],
            "facts": [fact.to_dict() for fact in self.facts],
        }

    def to_pandas(self) -> pd.DataFrame:
        """The runs as a pandas DataFrame.

        Returns:
            A DataFrame with a row for each run and the fields of `EngineRun`.

        Example:
            >>> t.compare_engines("id = 3", engines=["geolake"]).to_pandas()[["skipping", "rows", "lost"]]
               skipping  rows  lost
            0      True     3     0
            1     False     3     0
        """
        import pandas as pd

        return pd.DataFrame([run.to_dict() for run in self.runs])

    def __str__(self) -> str:
        lines = [cells_of(run, self) for run in self._answered]
        table = aligned([HEADS, *lines], left=2)
        silent = [_filled(f"{who}: {why}", "      ") for who, why, _ in self.unanswered]
        recorded = [f"{fact.engine}: {recorded_text(fact)}" for fact in dict.fromkeys(self.facts)]
        parts = [
            [
                f"engines on {self.location}",
                f"  where      {printable(self.where or 'all rows', _MAX_WHERE)}",
                _filled(f"full read  {self.summary}", " " * 13),
            ],
            [f"  {line}" for line in table] if lines else [],
            ["  no answer:", *(f"  {line}" for line in silent)] if silent else [],
            [f"  recorded in {self.facts[0].as_of}:", *(f"    {line}" for line in recorded)] if recorded else [],
            list(self.verdicts),
        ]
        return "\n\n".join("\n".join(part) for part in parts if part)

    @property
    def unanswered(self) -> tuple[tuple[str, str, str], ...]:
        """The engines that gave no answer, why, and what is recorded about them."""
        reasons: dict[tuple[str, str], list[EngineRun]] = {}
        for run in self.runs:
            if run.problem is not None:
                reasons.setdefault((run.engine, run.problem), []).append(run)
        return tuple(
            (
                engine if len(runs) > 1 or runs[0].skipping is None else f"{engine}, {_switch(runs[0])}",
                problem,
                runs[0].recorded or "",
            )
            for (engine, problem), runs in reasons.items()
        )

    @property
    def summary(self) -> str:
        """The full read in words."""
        bad = sum(self.unreadable.values())
        unreadable = f"; {plural(bad, 'geometry') if bad == 1 else f'{bad:,} geometries'} cannot be read" if bad else ""
        return (
            f"{self.rows:,} of {plural(self.rows_read, 'row')}, tested one by one, in {self.seconds:.2f} s; "
            f"{plural(self.files, 'file')}, {plural(self.row_groups, 'row group')}{unreadable}"
        )

    @property
    def _answered(self) -> list[EngineRun]:
        return [run for run in self.runs if run.problem is None]

    def _fault(self, engine: str, runs: Sequence[EngineRun], count: str) -> str | None:
        counts = {run.skipping: getattr(run, count) for run in runs}
        most = max(counts.values())
        if not most:
            return None
        when = ""
        if set(counts) == {True, False}:
            when = ", with its skipping and without"
            if not counts[False]:
                when = f" when it skips by {'bounds' if self.by_bounds else 'statistics'}"
            elif not counts[True]:
                when = " without its skipping"
        if count == "lost":
            return f"{engine} loses {most:,} of {plural(self.rows, 'row')}{when}."
        return f"{engine} has {plural(most, 'row')} that the full read does not have{when}."

    def _notes(self) -> Iterator[str]:
        answered = self._answered
        engines = list(dict.fromkeys(run.engine for run in answered))
        if not engines:
            yield "No engine answered."
        elif self.agree:
            who = f"{len(engines)} engines answered, and each" if len(engines) > 1 else engines[0]
            yield f"{who} returns the {plural(self.rows, 'row')} of the full read."
        for engine, names in {run.engine: run.not_compared for run in answered if run.not_compared}.items():
            without = ", ".join(names)
            yield f"The rows of {engine} are compared without {without}: it leaves that out, or gives it another type."
        for engine in engines:
            fact = fact_of(engine, self.facts)
            if fact is not None and fact.reads is Answer.NO:
                yield (
                    f"The engine table of {fact.as_of} says that {fact.engine} cannot read the table, and {engine} "
                    "reads it."
                )


def cells_of(run: EngineRun, comparison: EngineComparison) -> list[str]:
    """What a table shows of a run, in the order of `HEADS`."""

    def part(count: int | None, total: int) -> str:
        return "" if count is None else f"{count:,} of {total:,}"

    def number(count: int | None) -> str:
        return "" if count is None else f"{count:,}"

    skipping = {True: "on", False: "off", None: ""}[run.skipping]
    seconds = "" if run.seconds is None else f"{run.seconds:.3f}"
    counts = [number(count) for count in (run.returned, run.rows, run.lost, run.extra)]
    read = [part(run.files, comparison.files), part(run.row_groups, comparison.row_groups)]
    return [run.engine, skipping, *counts, seconds, *read]


def _filled(text: str, indent: str) -> str:
    return textwrap.fill(text, 98, initial_indent="  ", subsequent_indent=indent, break_on_hyphens=False)


def _switch(run: EngineRun) -> str:
    return f"skipping {'on' if run.skipping else 'off'}"


def fact_of(engine: str, facts: Sequence[EngineFact]) -> EngineFact | None:
    """What is recorded about an engine: about its version, else about another one."""
    name, _, version = engine.partition(" ")
    known = [fact for fact in facts if fact.engine.partition(" ")[0] == name]
    known = [fact for fact in known if name != "Spark" or fact.engine.startswith(f"Spark {version[:3]}")]
    return next(
        (fact for fact in known if f" {version}".startswith(fact.engine[len(name) :][:4])), next(iter(known), None)
    )


def recorded_text(fact: EngineFact) -> str:
    """Whether an engine is known to read a table, and to skip by bounds."""
    if fact.reads is not Answer.YES:
        return "cannot read it" if fact.reads is Answer.NO else "not known"
    skips = {fact.skips_geometry, fact.skips_geography}
    if Answer.YES in skips:
        return "reads, skips by bounds"
    return "reads" if Answer.UNKNOWN in skips else "reads, no spatial skipping"
