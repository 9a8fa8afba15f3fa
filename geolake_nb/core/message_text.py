"""How text from outside is shown in a message: not longer than a line."""

from __future__ import annotations

__all__ = ["printable", "shortened"]


def shortened(text: str, length: int) -> str:
    """The text, cut with dots where it is longer.

    >>> shortened("a filter", 60), shortened("a long filter", 9), shortened("", 9)
    ('a filter', 'a long...', '')
    """
    return text if len(text) <= length else f"{text[: length - 3]}..."


def printable(text: str, length: int) -> str:
    r"""The same, with escapes for what has no shape on a screen.

    >>> printable("EPSG:4326", 60), printable("a\0b", 60)
    ('EPSG:4326', 'a\\x00b')
    """
    text = text[: length + 1]  # long before it is cut, a text need not be escaped
    return shortened(text if text.isprintable() else ascii(text)[1:-1], length)
