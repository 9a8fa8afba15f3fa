"""Which engines can read and write a table: a part of the cards of tables, plans and explanations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.jupyter.card_parts import folded, grid
from geolake_nb.jupyter.html import tag
from geolake_nb.model.table_format import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geolake_nb.jupyter.html import Markup
    from geolake_nb.model.table_format import EngineFact

__all__ = ["engines", "locked_out"]

_CLASSES = {Answer.YES: "good", Answer.NO: "error", Answer.UNKNOWN: "faint"}


def engines(facts: Sequence[EngineFact], *, unfolded: bool = False) -> Markup | None:
    """What each engine does with the table; nothing for a table on which engines do not differ.

    >>> engines(()) is None
    True
    """
    if not facts:
        return None
    headers = ["engine", "reads", "writes", "skips on geometry", "on geography", "note", "source"]
    rows = [
        [
            fact.engine,
            *map(_answer, (fact.reads, fact.writes, fact.skips_geometry, fact.skips_geography)),
            fact.note,
            fact.source,
        ]
        for fact in facts
    ]
    reading = sum(fact.reads is Answer.YES for fact in facts)
    writing = sum(fact.writes is Answer.YES for fact in facts)
    summary = f"Engines ({facts[0].as_of}): {reading} of {len(facts)} known to read it, {writing} to write it"
    return folded(summary, grid(headers, rows), unfolded=unfolded)


def locked_out(facts: Sequence[EngineFact]) -> list[str]:
    """Who cannot read or cannot write the table, one sentence each.

    >>> locked_out(())
    []
    """
    lines = []
    for what, answers in (("read", [fact.reads for fact in facts]), ("write", [fact.writes for fact in facts])):
        names = [fact.engine for fact, answer in zip(facts, answers, strict=True) if answer is Answer.NO]
        if names:
            lines.append(f"Cannot {what} it: {', '.join(names)}.")
    return lines


def _answer(answer: Answer) -> Markup:
    return tag("span", answer.value, class_=_CLASSES[answer])
