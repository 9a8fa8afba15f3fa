"""The card of a comparison of engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.api.engine_comparison import HEADS, cells_of
from geolake_nb.jupyter.card_parts import card, command, engines, facts, grid, title
from geolake_nb.jupyter.html import tag

if TYPE_CHECKING:
    from geolake_nb.api.engine_comparison import EngineComparison, EngineRun
    from geolake_nb.jupyter.html import Child, Markup

__all__ = ["show_engines"]


def show_engines(comparison: EngineComparison) -> Markup:
    """The verdicts, the table of runs, and what is recorded about the engines."""
    about: list[tuple[str, Child]] = [
        ("where", tag("code", comparison.where) if comparison.where is not None else "all rows"),
        ("full read", comparison.summary),
    ]
    answered = [_row(run, comparison) for run in comparison.runs if run.problem is None]
    silent = [[tag("strong", who), why, recorded] for who, why, recorded in comparison.unanswered]
    notes = [
        tag("p", tag("span", note, class_="good" if number == 0 and comparison.agree else None))
        for number, note in enumerate(comparison.notes)
    ]
    return card(
        "Engines",
        title("Engines", comparison.location),
        [tag("p", tag("span", fault, class_="error")) for fault in comparison.faults],
        tag(
            "p",
            "Bounds are wrong: ",
            command("repair", comparison.location, "--verify"),
            " corrects all but those of a bbox column.",
        )
        if comparison.bounds_lie
        else None,
        notes,
        facts(about),
        grid([*HEADS, "recorded"], answered, numbers=range(2, 9)) if answered else None,
        grid(["no answer", "why", "recorded"], silent) if silent else None,
        engines(comparison.facts),
    )


def _row(run: EngineRun, comparison: EngineComparison) -> list[Child]:
    engine, skipping, returned, rows, lost, extra, *rest = cells_of(run, comparison)
    return [
        engine,
        skipping,
        returned,
        rows,
        tag("span", lost, class_="error" if run.lost else None),
        tag("span", extra, class_="error" if run.extra else None),
        *rest,
        run.recorded,
    ]
