"""What cards are made of: style, frame, tables with headers, parts that fold, engines and commands."""

from __future__ import annotations

import re
import shlex
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.html import Child, Markup, tag
from geolake_nb.jupyter.magic_words import quoted_word
from geolake_nb.model.table_format import Answer
from geolake_nb.text.messages import SECRET_NAME, plural, shortened, url_without_secrets, value_without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from geolake_nb.model.table_format import EngineFact
    from geolake_nb.scan.next_step import NextStep

__all__ = [
    "bar",
    "card",
    "card_style",
    "command",
    "command_line",
    "engines",
    "facts",
    "folded",
    "grid",
    "left_out",
    "locked_out",
    "name",
    "next_line",
    "plural",
    "setting",
    "shared_page",
    "stale_line",
    "time",
    "title",
]

# The class twice, where a notebook has rules of its own for cells of tables, which it sets to the right.
# The notebook's own colours where it has them, those of words mixed with that of the text to be readable.
_CSS = """
.geolake-card {
  --geolake-line: var(--jp-border-color2, rgba(128, 128, 128, 0.4));
  --geolake-soft: var(--jp-layout-color2, rgba(128, 128, 128, 0.12));
  --geolake-faint: color-mix(in srgb, currentColor 72%, transparent);
  --geolake-good: color-mix(in srgb, var(--jp-success-color1, #3a8f40) 65%, currentColor);
  --geolake-warn: color-mix(in srgb, var(--jp-warn-color1, #b8730a) 65%, currentColor);
  --geolake-bad: color-mix(in srgb, var(--jp-error-color1, #d9483b) 65%, currentColor);
  --geolake-main: var(--jp-brand-color1, #1976d2);
  font-family: var(--jp-ui-font-family, system-ui, sans-serif);
  font-size: var(--jp-ui-font-size1, 13px);
  line-height: 1.5;
  color: var(--jp-content-font-color1, inherit);
  border: 1px solid var(--geolake-line);
  border-radius: 6px;
  padding: 10px 14px;
  margin: 4px 0;
  max-width: 72em;
  overflow-wrap: break-word;
}
.geolake-card p { margin: 4px 0; }
.geolake-card .title { font-size: 1.1em; }
.geolake-card .faint { color: var(--geolake-faint); }
.geolake-card .scroll { overflow-x: auto; }
.geolake-card table { border-collapse: collapse; margin: 4px 0; font-size: inherit; color: inherit; }
.geolake-card caption { text-align: left; font-weight: 600; padding: 4px 0; color: inherit; }
.geolake-card.geolake-card th, .geolake-card.geolake-card td { text-align: left; vertical-align: top; }
.geolake-card.geolake-card th, .geolake-card.geolake-card td { padding: 2px 14px 2px 0; }
.geolake-card th { font-weight: 600; }
.geolake-card thead th { border-bottom: 1px solid var(--geolake-line); }
.geolake-card.geolake-card td.number, .geolake-card.geolake-card th.number { text-align: right; }
.geolake-card td.number { font-variant-numeric: tabular-nums; }
.geolake-card code { font-family: var(--jp-code-font-family, ui-monospace, monospace); font-size: 0.95em; }
.geolake-card td.number { white-space: nowrap; }
.geolake-card .flag { white-space: nowrap; }
.geolake-card .next { border-top: 1px solid var(--geolake-line); padding-top: 6px; margin-top: 8px; }
.geolake-card .verdict { font-size: 1.1em; font-weight: 600; }
.geolake-card code.command { user-select: all; background: var(--geolake-soft); padding: 1px 6px; border-radius: 4px; }
.geolake-card details { margin: 4px 0; }
.geolake-card summary { cursor: pointer; font-weight: 600; }
.geolake-card summary:focus-visible { outline: 2px solid var(--geolake-main); outline-offset: 2px; }
.geolake-card ul.tree, .geolake-card ul.tree ul { list-style: none; margin: 0; padding-left: 16px; }
.geolake-card ul.tree summary { font-weight: inherit; }
.geolake-card ul.findings { list-style: none; margin: 0; padding-left: 16px; }
.geolake-card li.finding { margin: 8px 0; }
.geolake-card td details { margin: 0; }
.geolake-card ol.actions code { display: block; white-space: pre-wrap; max-height: 12em; overflow: auto; }
.geolake-card .bar { display: flex; height: 10px; border: 1px solid var(--geolake-line); border-radius: 5px; }
.geolake-card .bar { overflow: hidden; max-width: 40em; background: var(--geolake-soft); }
.geolake-card .bar span { display: block; height: 100%; background: var(--geolake-main); }
.geolake-card .error { color: var(--geolake-bad); font-weight: 600; }
.geolake-card .warning { color: var(--geolake-warn); font-weight: 600; }
.geolake-card .info { color: color-mix(in srgb, var(--geolake-main) 65%, currentColor); font-weight: 600; }
.geolake-card .good { color: var(--geolake-good); font-weight: 600; }
.geolake-card .step { border-left: 4px solid var(--geolake-warn); padding-left: 10px; }
@media print { .geolake-card { border-color: #999999; } }
"""


def card_style() -> Markup:
    """The style element that every card brings along: a cell may be copied, cleared or printed alone.

    >>> card_style().startswith("<style>")
    True
    """
    return tag("style", _CSS)


_NAME_LENGTH = 300
_shared_location: ContextVar[str | None] = ContextVar("shared_location", default=None)
_FLAG = re.compile(r"(?<= )(--[a-z-]+)")


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
    return command_line(" ".join(["%geolake", *map(quoted_word, words)]))


def command_line(text: str) -> Markup:
    """A command as it is typed; a line does not break inside of a flag.

    >>> command_line("%geolake check t --deep")
    '<code class="command">%geolake check t <span class="flag">--deep</span></code>'
    """
    location = _shared_location.get()
    if location is not None:
        # A page is read by others, who have neither the notebook nor the path.
        text = text.removeprefix("%")
        for form in (shlex.quote(location), quoted_word(location), location):
            text = text.replace(form, "TABLE")
    parts = _FLAG.split(text)
    marked = [tag("span", part, class_="flag") if index % 2 else part for index, part in enumerate(parts) if part]
    return tag("code", marked, class_="command")


@contextmanager
def shared_page(location: str) -> Iterator[None]:
    """In a page that is read elsewhere, commands are those of a shell, and name the table TABLE.

    >>> with shared_page("/home/me/roads"):
    ...     command("check", "/home/me/roads")
    '<code class="command">geolake check TABLE</code>'
    """
    token = _shared_location.set(location)
    try:
        yield
    finally:
        _shared_location.reset(token)


def next_line(step: NextStep | None) -> Markup | None:
    """The last line of a card: the command of the next step.

    >>> next_line(None) is None
    True
    """
    if step is None:
        return None
    # As a magic; without its first character it runs in a shell as well.
    return tag("p", tag("strong", "Next: "), command_line(f"%{step.command}"), class_="next")


def stale_line(table: object) -> Markup | None:
    """The first line of a card whose table has a newer version by now.

    >>> stale_line(None) is None
    True
    """
    from geolake_nb.api.table import Table

    if not isinstance(table, Table):
        return None
    try:
        newer = table.newer_version
    except GeolakeError:
        return None  # the card is about what was read
    if newer is None:
        return None
    what = f"Version {newer} is newer" if table.snapshot.format.counts_versions else "A newer snapshot exists"
    how = tag("code", "t.refresh()", class_="command")
    return tag("p", f"{what}: refresh the table to see it. In code: ", how, class_="step", role="note")


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
