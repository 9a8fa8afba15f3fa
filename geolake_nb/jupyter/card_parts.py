"""What cards are made of: a frame, tables with headers, parts that fold, bars and commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.jupyter.card_style import card_style
from geolake_nb.jupyter.html import Child, Markup, tag
from geolake_nb.jupyter.magic_words import quoted_word
from geolake_nb.text.messages import (
    SECRET_NAME,
    plural,
    shortened,
    url_without_secrets,
    value_without_secrets,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

__all__ = [
    "bar",
    "card",
    "command",
    "facts",
    "folded",
    "grid",
    "left_out",
    "name",
    "plural",
    "setting",
    "time",
    "title",
]

_NAME_LENGTH = 300


def card(kind: str, *parts: Child) -> Markup:
    """The frame of a card; `kind` names its subject.

    >>> "<style>" in card("Plan", "nothing"), card("Plan").endswith("</div>")
    (True, True)
    """
    # The two ignored classes keep a notebook from reading `$` in a name as a formula.
    classes = "geolake-card mathjax_ignore tex2jax_ignore"
    return tag("div", card_style(), *parts, class_=classes, role="region", aria_label=kind)


def title(kind: str, subject: str, *rest: Child) -> Markup:
    """The first line of a card: what it is, and of which table.

    >>> title("Plan", "/t")
    '<p class="title"><strong>Plan</strong> <code>/t</code></p>'
    """
    return tag("p", tag("strong", kind), " ", name(subject), *rest, class_="title")


def name(text: str, length: int = _NAME_LENGTH) -> Markup:
    """A name or a path out of a table, not longer than can be read; a URL without its secrets.

    >>> name("a" * 9, 5)
    '<code>aa...</code>'
    """
    return tag("code", shortened(url_without_secrets(text) if "://" in text else text, length))


def setting(key: str, value: object) -> Markup:
    """The value of a property; one that may be a secret is not shown.

    >>> setting("fs.s3a.secret.key", "abc"), setting("owner", "me")
    ('<em>hidden</em>', '<code>me</code>')
    """
    return tag("em", "hidden") if SECRET_NAME.search(key) else name(str(value_without_secrets(value)), 200)


def facts(pairs: Iterable[tuple[str, Child]]) -> Markup:
    """A table of two columns: what, and its value; pairs without a value are left out.

    >>> facts([("rows", 1000), ("version", None)])
    '<table><tbody><tr><th scope="row">rows</th><td>1,000</td></tr></tbody></table>'
    """
    rows = (tag("tr", tag("th", key, scope="row"), tag("td", value)) for key, value in pairs if value is not None)
    return tag("table", tag("tbody", rows))


def grid(
    headers: Sequence[str], rows: Iterable[Sequence[Child]], *, caption: str | None = None, numbers: Iterable[int] = ()
) -> Markup:
    """A table with a header for each column; `numbers` are the right-aligned columns.

    >>> grid(["a"], [[1]], numbers=[0]).count('class="number"')
    2
    """
    right = frozenset(numbers)

    def kind(index: int) -> str | None:
        return "number" if index in right else None

    head = (tag("th", text, scope="col", class_=kind(index)) for index, text in enumerate(headers))
    body = (tag("tr", (tag("td", cell, class_=kind(index)) for index, cell in enumerate(row))) for row in rows)
    label = None if caption is None else tag("caption", caption)
    return tag("div", tag("table", label, tag("thead", tag("tr", head)), tag("tbody", body)), class_="scroll")


def folded(summary: Child, *parts: Child, unfolded: bool = False) -> Markup:
    """A part that opens with a click or a key.

    >>> folded("more", "text")
    '<details><summary>more</summary>text</details>'
    """
    return tag("details", tag("summary", summary), *parts, open=unfolded)


def bar(share: float | None, text: str) -> Markup:
    """A share as a bar, with the same in words for screen readers and plain pages.

    >>> bar(None, "no files")
    '<p>no files</p>'
    """
    if share is None:
        return tag("p", text)
    drawn = tag("div", tag("span", share=share), class_="bar", role="img", aria_label=text)
    return tag("div", tag("p", text), drawn)


def command(*words: str) -> Markup:
    """A command that a click selects, to paste into a cell; words are quoted where needed.

    >>> command("check", "my table")
    '<code class="command">%geolake check "my table"</code>'
    """
    return tag("code", " ".join(["%geolake", *map(quoted_word, words)]), class_="command")


def left_out(shown: int, total: int, how: str) -> Markup | None:
    """The line under a truncated list, with the way to all of it.

    >>> left_out(20, 25, "t.files"), left_out(20, 20, "t.files")
    ('<p class="faint">5 more: t.files</p>', None)
    """
    return tag("p", f"{total - shown:,} more: {how}", class_="faint") if total > shown else None


def time(when: datetime | None) -> Markup | None:
    """A time to the second in UTC.

    >>> time(None) is None
    True
    """
    if when is None:
        return None
    return tag("time", f"{when:%Y-%m-%d %H:%M:%S} UTC", datetime=when.isoformat())
