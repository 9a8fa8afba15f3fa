"""How texts and numbers are shown in a message: not longer than a line, without secrets, in good grammar."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["SECRET_NAME", "plural", "printable", "shortened", "without_secrets"]

SECRET_NAME = re.compile(r"key|secret|token|password|passwd|\bsig\b|\bsas\b|sas_|signature|credential", re.IGNORECASE)
"""Where it is in the name of an option, a parameter or a header, the value is a secret."""
_USER = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^\s/@\"']*@", re.IGNORECASE)
_QUERY = re.compile(r"(\bhttps?://[^\s?\"']*)\?[^\s\"')]*", re.IGNORECASE)
_NAMED = re.compile(r"([\w.-]+)( ?[=:] ?)((?:Bearer |Basic )?[^\s,;&\"']+)")
_BEARER = re.compile(r"\b(Bearer|Basic) [^\s,;)\"']+")


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


def plural(count: int, noun: str) -> str:
    """A number and what it counts.

    >>> plural(1, "file"), plural(1200, "file")
    ('1 file', '1,200 files')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def without_secrets(text: str, known: Iterable[str] = ()) -> str:
    """The text without passwords and queries of URLs, without what stands behind the name of a secret, and `known`.

    >>> without_secrets("GET https://me:pw@host/a?sig=1 (Authorization: Bearer abc), aws_secret_access_key=x/y")
    'GET https://host/a (Authorization: ***), aws_secret_access_key=***'
    >>> without_secrets("no column 'id', day=1", known=["id"])
    "no column '***', day=1"
    """
    for secret in known:
        for form in (secret, quote(secret, safe=""), quote_plus(secret)):
            text = text.replace(form, "***")
    text = _QUERY.sub(r"\1", _USER.sub(r"\1", text))
    text = _BEARER.sub("***", text)
    return _NAMED.sub(lambda one: f"{one[1]}{one[2]}***" if SECRET_NAME.search(one[1]) else one[0], text)
