"""JSON over HTTP from the server of a catalog: requests, their errors without secrets, and answers that are checked."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from geolake_nb.errors import CorruptTableError, NotATableError, OpenError, StorageError
from geolake_nb.text.json_text import load_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from requests import Response, Session

__all__ = ["CatalogServer", "shown_uri", "text_values"]

_TIMEOUT = (10, 60)
_MAX_RESPONSE_BYTES = 256 * 1024 * 1024
_MAX_PAGES = 100_000
_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,60}")
_BUSY = (429, 500, 502, 503, 504)
_PAUSES = (0.1, 0.4, 1.6)
"""Seconds before a request is repeated."""
IN_FLIGHT = 16
"""So many requests may be under way at once."""


class CatalogServer:
    """A server that answers in JSON; `name` is what its errors call it."""

    def __init__(self, name: str, uri: str) -> None:
        import requests
        from requests.adapters import HTTPAdapter

        self.name = name
        self.uri = uri.rstrip("/")
        self.where = shown_uri(self.uri)
        self.session: Session = requests.Session()
        self.session.headers["Accept"] = "application/json"
        for scheme in ("http://", "https://"):
            self.session.mount(scheme, HTTPAdapter(pool_maxsize=IN_FLIGHT))

    def __enter__(self) -> CatalogServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()

    def get(self, path: str, query: Mapping[str, str], what: str) -> dict[str, Any]:
        """The answer for a path below the address of the server; `what` names it in errors."""
        return self.send("GET", self.uri + path, what, params=query)

    def pages(
        self, path: str, query: Mapping[str, str], what: str, *, ask: str, next_page: str
    ) -> Iterator[dict[str, Any]]:
        """The pages of a list: `ask` is the parameter for a page, `next_page` the key of the next one's token."""
        token, seen = "", set[str]()
        while True:
            page = self.get(path, {**query, **({ask: token} if token else {})}, what)
            yield page
            following = page.get(next_page)
            if not isinstance(following, str) or not following:
                return
            if following in seen or len(seen) >= _MAX_PAGES:
                raise CorruptTableError(f"the {self.name} repeats a page of {what}", where=self.where)
            seen.add(following)
            token = following

    def send(self, method: str, url: str, what: str, **parts: Any) -> dict[str, Any]:
        """The JSON object that the server answers with."""
        import requests

        try:
            with self._answer(method, url, **parts) as answer:
                if not answer.ok:
                    raise self._refused(answer, what)
                content = answer.raw.read(_MAX_RESPONSE_BYTES + 1, decode_content=True)
        except (requests.RequestException, OSError, ValueError) as problem:
            if isinstance(problem, OpenError):
                raise
            # The error text may contain the URL with its credentials.
            raise StorageError(
                f"the {self.name} does not respond to the request for {what}: {type(problem).__name__}",
                where=self.where,
                remedy="check its uri",
            ) from None
        if len(content) > _MAX_RESPONSE_BYTES:
            raise CorruptTableError(f"the catalog's answer for {what} is too large", where=self.where)
        named = f"the catalog's answer for {what}"
        value = load_json(
            content, what=named, where=self.where, error=CorruptTableError, max_length=_MAX_RESPONSE_BYTES
        )
        if not isinstance(value, dict):
            raise CorruptTableError(f"{named} is not a JSON object", where=self.where)
        return value

    def _answer(self, method: str, url: str, **parts: Any) -> Response:
        """The answer of the server; one that is busy or fails is asked again where nothing can happen twice."""
        for pause in _PAUSES if method == "GET" else ():
            answer = self.session.request(method, url, timeout=_TIMEOUT, stream=True, **parts)
            if answer.status_code not in _BUSY:
                return answer
            answer.close()
            time.sleep(pause)
        return self.session.request(method, url, timeout=_TIMEOUT, stream=True, **parts)

    def _refused(self, answer: Response, what: str) -> OpenError:
        status = answer.status_code
        if status in (401, 403):
            remedy = "check its token or credential"
            return StorageError(f"the {self.name} does not permit {what} ({status})", where=self.where, remedy=remedy)
        if status == 404 and what.startswith("the table "):
            return NotATableError(f"the {self.name} has no {what.removeprefix('the ')}", where=self.where)
        kind = _error_kind(answer)
        return StorageError(f"the {self.name} refuses {what}: {status}{f' {kind}' if kind else ''}", where=self.where)


def _error_kind(answer: Response) -> str | None:
    """The error type in the server's answer, if it is a plain name."""
    try:
        error = load_json(answer.raw.read(65536, decode_content=True), what="the error", error=CorruptTableError)
        kind = error["error"]["type"]
    except (OpenError, KeyError, TypeError, OSError):
        return None
    return kind if isinstance(kind, str) and _PLAIN.fullmatch(kind) else None


def text_values(value: Any) -> dict[str, str]:
    """The entries of a JSON object that are texts.

    >>> text_values({"a": "b", "c": 1}), text_values(None)
    ({'a': 'b'}, {})
    """
    mapping = value if isinstance(value, dict) else {}
    return {key: text for key, text in mapping.items() if isinstance(text, str)}


def shown_uri(uri: str) -> str:
    """The URI without user, password and query.

    >>> shown_uri("https://me:secret@host/api?token=1")
    'https://host/api'
    """
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
