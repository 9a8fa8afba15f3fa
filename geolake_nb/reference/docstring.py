"""A docstring in its parts: the summary, the text below it, Args, Returns, Raises and the example."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field

__all__ = ["Docstring", "parse_docstring"]

_HEADINGS = ("Args", "Returns", "Raises", "Example")
_ENTRY = re.compile(r"(\*{0,2}\w+): (.+)")


@dataclass(frozen=True, slots=True)
class Docstring:
    """What a docstring says; an absent part is empty."""

    summary: str = ""
    """The first paragraph."""
    text: tuple[str, ...] = ()
    """The paragraphs between the summary and the sections; a table stays as it is."""
    args: dict[str, str] = field(default_factory=dict)
    returns: str = ""
    raises: dict[str, str] = field(default_factory=dict)
    example: str = ""


def parse_docstring(docstring: str | None) -> Docstring:
    """The parts of a docstring whose sections have a heading and an indent, as Google's style has them.

    >>> parsed = parse_docstring("Add.\\n\\nArgs:\\n    a: a number,\\n        or two.\\n\\nReturns:\\n    A sum.")
    >>> parsed.summary, parsed.args, parsed.returns
    ('Add.', {'a': 'a number, or two.'}, 'A sum.')
    """
    head: list[str] = []
    sections: dict[str, list[str]] = {}
    lines = head
    for line in inspect.cleandoc(docstring or "").splitlines():
        name = line.removesuffix(":")
        if line.endswith(":") and name in _HEADINGS:
            lines = sections.setdefault(name, [])
        elif lines is head and line.startswith(">>> "):
            lines = sections.setdefault("Example", [])
            lines.append(line)
        else:
            lines.append(line)
    example = inspect.cleandoc("\n".join(["", *sections.get("Example", [])])).strip("\n")
    summary, *text = _paragraphs(head) or [""]
    return Docstring(
        summary,
        tuple(text),
        _entries(sections.get("Args", [])),
        " ".join(_paragraphs(sections.get("Returns", []))),
        _entries(sections.get("Raises", [])),
        example,
    )


def _paragraphs(lines: list[str]) -> list[str]:
    blocks = re.split(r"\n\s*\n", "\n".join(lines).strip())
    return [block if block.startswith("|") else " ".join(block.split()) for block in blocks if block]


def _entries(lines: list[str]) -> dict[str, str]:
    """The entries `name: text` of a section; a line that is indented further continues the one above."""
    entries: dict[str, str] = {}
    name = ""
    for line in inspect.cleandoc("\n".join(["", *lines])).splitlines():
        match = _ENTRY.fullmatch(line)
        if match is not None:
            name, entries[match[1].lstrip("*")] = match[1].lstrip("*"), match[2]
        elif line.strip():
            entries[name] = f"{entries.get(name, '')} {line.strip()}".strip()
    return entries
