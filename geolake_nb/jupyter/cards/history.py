"""The card of a history: versions, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.jupyter.card_parts import card, folded, grid, left_out, plural, setting, time
from geolake_nb.jupyter.html import tag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from geolake_nb.jupyter.html import Markup
    from geolake_nb.model.snapshot import History, VersionInfo

__all__ = ["show", "versions"]

_SHOWN = 100
_SHOWN_DETAILS = 30


def show(history: History) -> Markup:
    """The card."""
    head = tag("p", tag("strong", "History "), plural(len(history), "version"))
    return card("History", head, versions(history[:_SHOWN]), left_out(_SHOWN, len(history), "t.history()"))


def versions(entries: Sequence[VersionInfo]) -> Markup:
    """The versions as a table."""
    rows = [
        [str(entry.version), time(entry.timestamp), (entry.operation or "unknown")[:200], _details(entry.details)]
        for entry in entries
    ]
    return grid(["version", "time", "operation", "details"], rows, numbers=[0])


def _details(details: Mapping[str, Any]) -> Markup | None:
    if not details:
        return None
    pairs = list(details.items())[:_SHOWN_DETAILS]
    items = (tag("li", f"{str(key)[:100]}: ", setting(str(key), value)) for key, value in pairs)
    return folded(plural(len(details), "entry").replace("entrys", "entries"), tag("ul", items))
