"""The reference pages, read where they are shipped: what a command, a magic, a finding or an error is about.

`python -m geolake_nb.reference` regenerates the pages from the code.
"""

from __future__ import annotations

import difflib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from geolake_nb.errors import GeolakeError
from geolake_nb.reference.markdown import plain_text

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FOLDER", "PAGES", "section", "topics"]

FOLDER = Path(__file__).parent
PAGES = (
    "commands.md",
    "magics.md",
    "findings.md",
    "errors.md",
    "api.md",
    "spatial-sql.md",
    "delta-features.md",
    "json.md",
    "changes.md",
    "guarantees.md",
    "benchmarks.md",
    "comparison.md",
    "pyiceberg.md",
    "architecture.md",
)


def section(topic: str, *, besides: Iterable[str] = ()) -> str:
    """What the pages say about a topic, as plain text; `besides` are words that the caller knows itself.

    >>> print(section("bounds.missing").splitlines()[0])
    bounds.missing
    >>> section("bounds.mising")
    Traceback (most recent call last):
    geolake_nb.errors.GeolakeError: no help about 'bounds.mising'; did you mean bounds.missing?
    """
    match = _sections().get(topic.lower())
    if match is not None:
        return plain_text(match[1])
    known = {name.lower(): name for name in (*topics(), *besides)}
    # A group such as `bounds` is most likely the start of what is meant.
    near = [name for key, name in known.items() if key.startswith(f"{topic.lower()}.")]
    near = near or [known[key] for key in difflib.get_close_matches(topic.lower(), known, n=1)]
    some = f"use a command, or one of: {', '.join(sorted(page.removesuffix('.md') for page in PAGES))}"
    remedy = f"did you mean {' or '.join(sorted(near))}?" if near else some
    raise GeolakeError(f"no help about {topic[:60]!r}", remedy=remedy)


def topics() -> tuple[str, ...]:
    """The names of everything that has a section, the pages first.

    >>> topics()[:4]
    ('commands', 'magics', 'findings', 'errors')
    """
    return tuple(name for name, _ in _sections().values())


@cache
def _sections() -> dict[str, tuple[str, str]]:
    """Each topic in small letters, with its name and its Markdown."""
    pages: dict[str, tuple[str, str]] = {}
    sections: dict[str, tuple[str, str]] = {}
    for page in PAGES:
        head, *parts = (FOLDER / page).read_text(encoding="utf-8").split("\n## ")
        name = page.removesuffix(".md")
        pages[name] = name, head
        for part in parts:
            name = part.partition("\n")[0].removeprefix("%").removeprefix("geolake ")
            if " " in name:
                continue  # about several commands, which lead to it
            # A command takes precedence over the magic of the same name: a cell shows the options of a magic itself.
            sections.setdefault(name.lower(), (name, f"## {part}"))
    # `geolake help findings` prints the page; the class `Findings` has its section on that of the API.
    return pages | {key: part for key, part in sections.items() if key not in pages}
