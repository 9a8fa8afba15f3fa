"""The few parts of Markdown that the pages are made of, and how a terminal shows them."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["anchor", "block", "index", "page", "plain_text", "table"]

_WIDTH = 100
_WIDEST = 90
"""How wide all columns but the last may be together."""
_LINK = re.compile(r"!?\[([^\]]+)\]\([^)]+\)")
_COMMENT = re.compile(r"<!--.*?-->\n?")
_EMPHASIS = re.compile(r"\*+([^*\s][^*]*)\*+")
_BLOCK = re.compile(r"```.*?\n```|\S.*?(?=\n\n|$)", re.DOTALL)
"""Code, in which lines may be blank, or whatever ends with a blank line."""
_RULER = re.compile(r"[|\-]+")


def plain_text(markdown: str) -> str:
    """The text without its marks.

    >>> print(plain_text("## geolake open\\n\\nSee [files](#files), `--json`.\\n\\n```sh\\ngeolake open t\\n```\\n"))
    geolake open
    <BLANKLINE>
    See files, --json.
    <BLANKLINE>
      geolake open t
    >>> print(plain_text("| a | b |\\n|---|---|\\n| `--json` | JSON |"))
    a       b
    --json  JSON
    """
    return "\n\n".join(_block(match.group()) for match in _BLOCK.finditer(_COMMENT.sub("", markdown).strip()))


def _block(block: str) -> str:
    lines = block.split("\n")
    if lines[0].startswith("```"):
        return "\n".join(f"  {line}".rstrip() for line in lines[1:-1])
    if lines[0].startswith("|"):
        return _columns(lines)
    return textwrap.fill(_bare(" ".join(lines).lstrip("# ")), _WIDTH, break_long_words=False, break_on_hyphens=False)


def _columns(lines: list[str]) -> str:
    rows = [_cells(line) for line in lines if not _RULER.fullmatch(line)]
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)][:-1]
    if sum(widths) > _WIDEST:
        return "\n\n".join(_record(rows[0], row) for row in rows[1:])
    shown = []
    for row in rows:
        start = "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        indent = " " * len(start)
        shown.append(textwrap.fill(row[-1], _WIDTH, initial_indent=start, subsequent_indent=indent) or start.rstrip())
    return "\n".join(shown)


def _cells(line: str) -> list[str]:
    return [_bare(cell.strip()) for cell in line.removeprefix("|").removesuffix("|").split("|")]


def _record(head: list[str], row: list[str]) -> str:
    """A row of a table that is too wide for columns: its first cell, then a line for each other cell."""
    named = [f"{name}: {cell}" for name, cell in zip(head[1:], row[1:], strict=True) if cell]
    lines = [textwrap.fill(line, _WIDTH, initial_indent="  ", subsequent_indent="    ") for line in named]
    return "\n".join([row[0], *lines])


def _bare(text: str) -> str:
    return _EMPHASIS.sub(r"\1", _LINK.sub(r"\1", text)).replace("`", "")


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
