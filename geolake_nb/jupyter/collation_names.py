"""Search in the names of collations."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["matching_names"]


def matching_names(names: Iterable[str], text: str) -> list[str]:
    """The names that have all words of a text, those first in which a part begins with the first word.

    >>> from geolake_nb.model.collation import collation_names
    >>> matching_names(collation_names(), "de ci")[:2], matching_names(["icu.de"], "fr")
    (['icu.de_CI', 'icu.de_CI_AI'], [])
    >>> matching_names(collation_names(), "de_ci")[-1]
    'icu.UNICODE_CI_AI'
    """
    words = text.casefold().split()
    matches = [name for name in names if all(word in name.casefold() for word in words)]
    if not words:
        return matches
    return sorted(matches, key=lambda name: f"_{words[0]}" not in f"_{name.casefold().replace('.', '_')}")
