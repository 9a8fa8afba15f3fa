"""The one way to make HTML: elements and attributes of fixed lists, and every text escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Any

__all__ = ["Child", "Markup", "join", "tag", "visible"]


class Markup(str):
    """HTML that `tag` made; whatever else is a string is text."""

    __slots__ = ()


Child = str | int | None | Iterable[Any]
"""Markup, a text, a number, nothing, or many of these."""

_ELEMENTS = """
    b br caption code dd details div dl dt em li ol p pre small span strong style summary table tbody td th thead
    time tr ul
"""
_VOID = frozenset({"br"})
# Attributes with words of our own, which are never a text of a table.
_WORDS = {
    "class": re.compile(r"[a-z][a-z0-9_-]*(?: [a-z][a-z0-9_-]*)*"),
    "colspan": re.compile(r"[1-9][0-9]*"),
    "role": re.compile(r"alert|group|img|list|note|region|status"),
    "scope": re.compile(r"col|row"),
    "tabindex": re.compile(r"0"),
}
_TEXTS = frozenset({"aria-label", "datetime", "title"})
_PLAIN_CSS = re.compile(r"[^<>&]*")


def tag(name: str, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """One element; a child that is not `Markup` is text, an attribute that is `None` or false is left out.

    `class_` is `class` and `aria_label` is `aria-label`; `share` is the width of a part of a bar, from 0 to 1.

    >>> tag("td", "<script>", tag("b", "a & b"), None, class_="path", title='"x"')
    '<td class="path" title="&quot;x&quot;">&lt;script&gt;<b>a &amp; b</b></td>'
    >>> tag("ul", (tag("li", number) for number in (1, 2)))
    '<ul><li>1</li><li>2</li></ul>'
    >>> tag("script", "1")
    Traceback (most recent call last):
    ValueError: unknown element 'script'
    """
    if name not in _ELEMENTS.split():
        raise ValueError(f"unknown element {name!r}")
    head = "".join([name, *(_attribute(key, value) for key, value in attributes.items())])
    if name in _VOID:
        return Markup(f"<{head}>")
    if name == "style" and not all(isinstance(child, str) and _PLAIN_CSS.fullmatch(child) for child in children):
        # A browser does not read escapes in a style sheet: one that needs them is not ours.
        raise ValueError("a style sheet has none of < > &")
    inside = "".join(children) if name == "style" else join(*children)  # type: ignore[arg-type]
    return Markup(f"<{head}>{inside}</{name}>")


def join(*children: Child) -> Markup:
    """The children after each other, the texts among them escaped.

    >>> join("a < b", tag("b", "c"), [1, None])
    'a &lt; b<b>c</b>1'
    """
    return Markup("".join(map(_inside, children)))


def visible(text: str) -> str:
    r"""The text with what has no shape on a screen, or reverses its neighbours, escaped.

    >>> visible("été\n\x1b[31m"), visible("")
    ('été\\n\\x1b[31m', '')
    """
    return (
        text
        if text.isprintable()
        else "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)
    )


def _inside(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str):
        return html.escape(visible(child), quote=False)
    if isinstance(child, int):
        return f"{child:,}"
    return "".join(map(_inside, child))


def _attribute(key: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    if key == "share":
        share = min(max(float(value), 0.0), 1.0)
        return f' style="width:{share * 100:.2f}%"'
    if key == "open":
        return " open"
    name = key.removesuffix("_").replace("_", "-")
    text = str(value)
    if name in _WORDS:
        if not _WORDS[name].fullmatch(text):
            raise ValueError(f"unknown {name} {text!r}")
    elif name not in _TEXTS:
        raise ValueError(f"unknown attribute {name!r}")
    return f' {name}="{html.escape(visible(text))}"'
