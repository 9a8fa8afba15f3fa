"""A planned change as text and as JSON."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from geolake_nb.scan.explanation import bytes_text
from geolake_nb.text.messages import plural, printable, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geolake_nb.model.change import Change

__all__ = ["base_text", "change_dict", "change_text"]

_WIDTH = 100
_SHOWN_ACTIONS = 5
_ENGINE_WIDTH = 27


def change_text(change: Change, *, actions: int = _SHOWN_ACTIONS) -> str:
    """The plan in 100 columns, with the first few of its actions."""
    return "\n".join(_lines(change, actions))


def change_dict(change: Change) -> dict[str, Any]:
    """The change as JSON.

    Keys: `verb, location, format, base_version, hash, notes, reads, actions, job, irreversible_steps, undo, engines,
    parameters`.
    """
    return {
        "verb": change.verb.value,
        "location": change.location,
        "format": change.format.name,
        "base_version": change.base_version,
        "hash": change.hash,
        "notes": list(change.notes),
        "reads": {"files": change.reads.files, "bytes": change.reads.bytes},
        "actions": list(change.actions),
        "job": None if change.job is None else change.job.to_dict(),
        "irreversible_steps": [{"name": step.name, "why": step.why} for step in change.irreversible_steps],
        "undo": change.undo,
        "engines": [fact.to_dict() for fact in change.engines],
        "parameters": dict(change.parameters),
    }


def base_text(change: Change) -> str:
    """What the change was planned on, in words."""
    if not change.format.has_versions:
        return "a set of files"
    return "a new table" if change.base_version is None else f"version {change.base_version}"


def _lines(change: Change, shown: int) -> Iterator[str]:
    yield printable(f"{change.verb.value} {change.location}: plan {change.hash} on {base_text(change)}")
    if change.is_empty:
        yield from _sentences(change.notes or ("There is nothing to do.",))
        return
    yield from _sentences(change.notes)
    read = change.reads
    amount = f"{plural(read.files, 'file')}, {bytes_text(read.bytes)}" if read.files else "no data file"
    yield f"reads      {amount}"
    yield printable(f"undo       {change.undo}")
    for step in change.irreversible_steps:
        yield from _wrapped("cannot be undone: ", printable(f"{step.why} Confirm with --consent {step.name}."))
    if change.engines:
        width = max(_ENGINE_WIDTH, *(len(fact.engine) + 1 for fact in change.engines))
        yield f"{'afterwards':{width + 2}}{'reads':11}writes"
        for fact in change.engines:
            yield f"  {fact.engine:{width}}{fact.reads.value:11}{fact.writes.value}"
    if change.actions:
        count = len(change.actions)
        yield f"actions    {count:,}" + (f", the first {shown}:" if count > shown else ":")
        for action in change.actions[:shown]:
            # Cut where it ends, not between words: an action may be one word.
            yield shortened(f"  {printable(action)}", 4 * _WIDTH)


def _sentences(sentences: tuple[str, ...]) -> Iterator[str]:
    for sentence in sentences:
        yield from _wrapped("", printable(sentence))


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=label, subsequent_indent=" " * len(label)) or [label]
