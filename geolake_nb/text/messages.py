"""How texts and numbers are shown in a message: not longer than a line, without secrets, in good grammar."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote, quote_plus, unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = [
    "SECRET_NAME",
    "Progress",
    "aligned",
    "near_names",
    "part_of",
    "plural",
    "printable",
    "shortened",
    "url_without_secrets",
    "value_without_secrets",
    "with_plain_urls",
    "without_secrets",
]

Progress: TypeAlias = "Callable[[int, int], None]"
"""Called with the number of parts that are done, and of all."""

SECRET_NAME = re.compile(
    r"key(?!error\b)|secret|token|password|passwd|passphrase|pwd"
    r"|\bsig\b|\bsas\b|sas_|signature|credential|\bauth\b|authorization",
    re.IGNORECASE,
)
"""Where it is in the name of an option, a parameter or a header, the value is a secret."""
# A table may give the text, too: each pattern goes on behind what it has looked at.
_USER = re.compile(r"(://)[^\s/@\"']*+@")
_QUERY = re.compile(r"(\bhttps?://[^\s?\"']*+)(?:\?[^\s\"')]*+)?", re.IGNORECASE)
# Most of a million paths have none of these, and need no further checks.
_MAY_HAVE_SECRETS = re.compile(r"[?#@%]|://[^/]*:")
# Parts of a URL that is all of the text; a table gives it, so no pattern takes longer than the URL is long.
_URL_USER = re.compile(r"://([^/?#]*)@")
# What follows a colon and is not a port is a password; it may contain characters that end a host name.
_BROKEN_USER = re.compile(r"://[^/?#@\[]*:(?!\d*(?:[/?#]|$)).*", re.DOTALL)
_WEB_QUERY = re.compile(r"[?#]")
_WEB = re.compile(r"https?://", re.IGNORECASE)
_WITH_CONTAINER = ("abfs", "abfss", "wasb", "wasbs")
_MAX_ESCAPES = 4
_NAMED = re.compile(
    r"(?<![\w.-])([\w.-]++)(\\{0,3}[\"']? ?[=:] ?\\{0,3}[\"']?)((?!\*{3})(?:Bearer |Basic )?[^\s,;&\"'\\]++)"
)
_BEARER = re.compile(r"\b(Bearer|Basic) [^\s,;)\"']+")


def shortened(text: str, length: int) -> str:
    """The text, cut with dots where it is longer.

    >>> shortened("a filter", 60), shortened("a long filter", 9), shortened("", 9)
    ('a filter', 'a long...', '')
    """
    return text if len(text) <= length else f"{text[: length - 3]}..."


def printable(text: str, length: int | None = None) -> str:
    r"""The text with escapes for what has no shape on a screen, shortened where a length is given.

    >>> printable("EPSG:4326", 60), printable("a\0b", 60), printable("a\x1b[2J")
    ('EPSG:4326', 'a\\x00b', 'a\\x1b[2J')
    """
    if length is not None:
        text = text[: length + 1]  # long before it is cut, a text need not be escaped
    escaped = text if text.isprintable() else ascii(text)[1:-1]
    return escaped if length is None else shortened(escaped, length)


def aligned(rows: Sequence[Sequence[str]], *, left: int) -> list[str]:
    """Rows of cells as lines with columns below each other; those after the first `left` ones are right-aligned.

    >>> aligned([["name", "files"], ["a", "12"]], left=1)
    ['name  files', 'a        12']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def near_names(wanted: str, names: Iterable[str], count: int = 3) -> list[str]:
    """The names that are spelled most like the wanted one, the nearest first, whatever their case.

    >>> near_names("Locaton", ["id", "location", "name"]), near_names("x", ["id"])
    (['location'], [])
    """
    folded = {name.casefold(): name for name in reversed(list(names))}
    return [folded[match] for match in difflib.get_close_matches(wanted.casefold(), folded, n=count, cutoff=0.6)]


def plural(count: int, noun: str) -> str:
    """A number and what it counts.

    >>> plural(1, "file"), plural(1200, "file")
    ('1 file', '1,200 files')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def part_of(count: int, total: int, noun: str) -> str:
    """A number and of how many: the noun agrees with the latter.

    >>> part_of(1, 1, "file"), part_of(1, 1200, "file")
    ('1 of 1 file', '1 of 1,200 files')
    """
    return f"{count:,} of {plural(total, noun)}"


def without_secrets(text: str, known: Iterable[str] = ()) -> str:
    """The text without passwords and queries of URLs, without the values of secrets, and without `known`.

    >>> without_secrets("GET https://me:pw@host/a?sig=1 (Authorization: Bearer abc), aws_secret_access_key=x/y")
    'GET https://host/a (Authorization: ***), aws_secret_access_key=***'
    >>> without_secrets("no column 'id', day=1", known=["id"])
    "no column '***', day=1"
    """
    for secret in known:
        for form in (secret, quote(secret, safe=""), quote_plus(secret)):
            text = text.replace(form, "***")
    text = _BEARER.sub("***", with_plain_urls(text))
    return _NAMED.sub(lambda match: f"{match[1]}{match[2]}***" if SECRET_NAME.search(match[1]) else match[0], text)


def with_plain_urls(text: str) -> str:
    """What somebody wrote about a thing, without passwords and queries of the URLs in it.

    >>> with_plain_urls("the key: id, see https://me:pw@host/a?sig=1")
    'the key: id, see https://host/a'
    """
    return _QUERY.sub(r"\1", _USER.sub(r"\1", text))


def value_without_secrets(value: Any, name: str = "") -> Any:
    """A value out of a table as it may be shown: also inside of objects and of JSON, nothing under a secret's name.

    >>> value_without_secrets({"properties": '{"fs.s3a.secret.key": "a b"}', "path": "https://me:pw@host/a?sig=1"})
    {'properties': '{"fs.s3a.secret.key": "***"}', 'path': 'https://host/a'}
    """
    if SECRET_NAME.search(name):
        return "***"
    if isinstance(value, Mapping):
        return {key: value_without_secrets(item, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [value_without_secrets(item) for item in value]
    if not isinstance(value, str):
        return value
    if value.lstrip()[:1] in ("{", "["):
        try:
            parsed = json.loads(value)
            shown = value_without_secrets(parsed)
            return value if shown == parsed else json.dumps(shown, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass
    return without_secrets(value)


def url_without_secrets(url: str) -> str:
    """A URL of any scheme, or a path of GDAL, as it may be shown: without a user, a password and a query.

    >>> url_without_secrets("/vsicurl/https://me:pw@host/a.tif?sig=1"), url_without_secrets("az://c/a.tif?sv=1&sig=2")
    ('/vsicurl/https://host/a.tif?...', 'az://c/a.tif?...')
    >>> url_without_secrets("s3://bucket/what?.tif"), url_without_secrets("abfss://c@me.dfs.core.windows.net/a%20b.tif")
    ('s3://bucket/what?.tif', 'abfss://c@me.dfs.core.windows.net/a%20b.tif')
    """
    if not _MAY_HAVE_SECRETS.search(url):
        return url
    shown = plain = _plain_url_without_secrets(url)
    # A URL inside of another has its marks escaped, and so does one that was escaped once too often.
    for _ in range(_MAX_ESCAPES):
        if "%" not in plain:
            break
        plain = unquote(plain)
        stripped = _plain_url_without_secrets(plain)
        if stripped != plain:
            shown = plain = stripped
    return shown


def _plain_url_without_secrets(url: str) -> str:
    url = _BROKEN_USER.sub("://...", _URL_USER.sub(_without_user, url))
    ends = [len(url)]
    # The name of an object may hold a question mark; with an equals sign behind, it begins a query in any scheme.
    mark = url.find("?")
    if mark >= 0 and "=" in url[mark:]:
        ends.append(mark)
    web = _WEB.search(url)
    if web and (query := _WEB_QUERY.search(url, web.end())):
        ends.append(query.start())
    end = min(ends)
    return url if end == len(url) else f"{url[:end]}?..."


def _without_user(match: re.Match[str]) -> str:
    # The part before the account in these schemes of Azure is the container.
    scheme = match.string[max(match.start() - 5, 0) : match.start()].lower()
    return match[0] if scheme.endswith(_WITH_CONTAINER) and ":" not in match[1] else "://"
