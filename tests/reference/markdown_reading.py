"""What another reader of Markdown finds in a page: headings, links, code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mistune

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_parse = mistune.create_markdown(renderer="ast", plugins=["table"])


@dataclass(frozen=True)
class Code:
    """A block of code, or code in a line, whose language is empty."""

    language: str
    text: str
    runs: bool = False


@dataclass(frozen=True)
class Page:
    headings: tuple[str, ...]
    links: tuple[str, ...]
    codes: tuple[Code, ...]
    tables: int

    @property
    def anchors(self) -> set[str]:
        """Letters, digits, `_` and `-` of a heading in small letters, as GitHub makes them."""
        made = [re.sub(r"[^a-z0-9_\- ]", "", heading.lower()).replace(" ", "-") for heading in self.headings]
        assert len(set(made)) == len(made)
        return set(made)

    def of(self, *languages: str) -> list[Code]:
        return [code for code in self.codes if code.language in languages]


def read_page(path: Path) -> Page:
    nodes = list(_walk(_parse(path.read_text(encoding="utf-8"))))
    codes = []
    for node in nodes:
        if node["type"] == "block_code":
            language, _, mark = node.get("attrs", {}).get("info", "").partition(" ")
            assert mark in ("", "runs"), path
            codes.append(Code(language, node["raw"], mark == "runs"))
        elif node["type"] == "codespan":
            codes.append(Code("", node["raw"]))
        is_comment = re.fullmatch(r"<!-- /?\w+ -->\s*", node.get("raw", ""))
        assert is_comment or not node["type"].endswith("html"), (path, node)
    return Page(
        tuple(_text(node) for node in nodes if node["type"] == "heading"),
        tuple(node["attrs"]["url"] for node in nodes if node["type"] in ("link", "image")),
        tuple(codes),
        sum(node["type"] == "table" for node in nodes),
    )


def _walk(nodes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for node in nodes:
        yield node
        yield from _walk(node.get("children", []))


def _text(node: dict[str, Any]) -> str:
    return "".join(part["raw"] for part in _walk([node]) if "raw" in part)
