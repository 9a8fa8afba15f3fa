"""The card of a protocol: required reader and writer features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.jupyter.card_parts import card, grid, name
from geolake_nb.jupyter.html import tag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geolake_nb.jupyter.html import Markup
    from geolake_nb.model.snapshot import Feature, Protocol

__all__ = ["features", "show"]

_SHOWN = 100


def show(protocol: Protocol) -> Markup:
    """The card."""
    return card("Protocol", tag("p", tag("strong", "Protocol "), protocol.summary), features(protocol.features))


def features(listed: Sequence[Feature]) -> Markup | None:
    """The features with what they mean, `None` where there are none.

    >>> features(()) is None
    True
    """
    if not listed:
        return None
    rows = [
        [
            name(feature.name),
            feature.meaning if feature.known else tag("span", feature.meaning, class_="warning"),
            _needed(feature),
        ]
        for feature in listed[:_SHOWN]
    ]
    return grid(["feature", "meaning", "needed to"], rows)


def _needed(feature: Feature) -> str:
    words = [word for word, is_so in (("read", feature.needed_to_read), ("write", feature.needed_to_write)) if is_so]
    return " and ".join(words) or "nothing"
