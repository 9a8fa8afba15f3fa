"""The card of a history: versions, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.jupyter.card_parts import card, folded, grid, left_out, plural, setting, time
from geolake_nb.jupyter.html import tag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from geolake_nb.formats.snapshot import History, VersionInfo
    from geolake_nb.jupyter.html import Markup

__all__ = ["show", "versions"]

_SHOWN = 100
_SHOWN_DETAILS = 30


def show(history: History) -> Markup:
    """The card."""
    head = tag("p", tag("strong", "History "), plural(len(history), "version"))
    return card("History", head, versions(history[:_SHOWN]), left_out(_SHOWN, len(history), "t.history()"))


def versions(found: Sequence[VersionInfo]) -> Markup:
    """The versions as a table."""
    rows = [
        [str(one.version), time(one.timestamp), (one.operation or "not told")[:200], _details(one.details)]
        for one in found
    ]
    return grid(["version", "time", "operation", "details"], rows, numbers=[0])


def _details(details: Mapping[str, Any]) -> Markup | None:
    if not details:
        return None
    pairs = list(details.items())[:_SHOWN_DETAILS]
    items = (tag("li", f"{str(key)[:100]}: ", setting(str(key), value)) for key, value in pairs)
    return folded(plural(len(details), "entry").replace("entrys", "entries"), tag("ul", items))
