"""The few parts of Markdown that the pages are made of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["anchor", "block", "index", "page", "table"]


def page(*parts: str) -> str:
    """The parts with a blank line between them; empty ones are left out."""
    return "\n\n".join(part for part in parts if part) + "\n"


def block(text: str, language: str = "sh") -> str:
    """Lines of code.

    >>> block("geolake demo").splitlines()
    ['```sh', 'geolake demo', '```']
    """
    return f"```{language}\n{text}\n```"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, or nothing where it has no rows.

    >>> print(table(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [f"| {' | '.join(row)} |" for row in rows]
    head = [f"| {' | '.join(headers)} |", f"|{'---|' * len(headers)}"]
    return "\n".join([*head, *lines]) if lines else ""


def index(header: str, entries: Iterable[tuple[str, str]]) -> str:
    """A table of headings that lead to their sections, with a word about each."""
    rows = [(f"[{heading}](#{anchor(heading)})", text) for heading, text in entries]
    return table([header, "what it is about"], rows)


def anchor(heading: str) -> str:
    """The anchor that a heading gets where Markdown is shown.

    >>> anchor("%geolake row-groups"), anchor("bounds.types_differ")
    ('geolake-row-groups', 'boundstypes_differ')
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
