"""A section of our own Markdown as text for a terminal: no marks, tables in columns, lines of a hundred characters."""

from __future__ import annotations

import re
import textwrap

__all__ = ["plain_text"]

_WIDTH = 100
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
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
    return "\n\n".join(_block(found.group()) for found in _BLOCK.finditer(markdown.strip()))


def _block(block: str) -> str:
    lines = block.split("\n")
    if lines[0].startswith("```"):
        return "\n".join(f"  {line}".rstrip() for line in lines[1:-1])
    if lines[0].startswith("|"):
        return _columns(lines)
    return textwrap.fill(_bare(" ".join(lines).lstrip("# ")), _WIDTH, break_long_words=False, break_on_hyphens=False)


def _columns(lines: list[str]) -> str:
    rows = [
        [_bare(cell.strip()) for cell in line.strip("|").split(" | ")] for line in lines if not _RULER.fullmatch(line)
    ]
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)][:-1]
    shown = []
    for row in rows:
        start = "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        indent = " " * len(start)
        shown.append(textwrap.fill(row[-1], _WIDTH, initial_indent=start, subsequent_indent=indent) or start.rstrip())
    return "\n".join(shown)


def _bare(text: str) -> str:
    return _EMPHASIS.sub(r"\1", _LINK.sub(r"\1", text)).replace("`", "")
