"""Parts of files below one URL of a web server; redirects are refused."""

from __future__ import annotations

import io
from urllib.parse import quote, urlsplit

from geolake_nb.errors import MissingFileError, StorageError
from geolake_nb.storage.location import Location
from geolake_nb.storage.ranges import RangeFile
from geolake_nb.text.messages import url_without_secrets

__all__ = ["WebFolder"]

_SECONDS = 30.0


class WebFolder:
    """An http(s) root that a user allowed. Unlike object stores, it follows no redirects, which may lead anywhere.

    >>> WebFolder("https://me:secret@host.org/cogs?sig=1")
    WebFolder('https://host.org/cogs')
    """

    def __init__(self, root: str) -> None:
        self.location = Location.of(root)
        self._root = root

    def __repr__(self) -> str:
        return f"WebFolder({self.location.text!r})"

    def open(self, key: str) -> io.BufferedReader:
        """The file, of which only the requested parts are fetched."""
        size = self.read_range(key, 0, 1)[1]
        return io.BufferedReader(RangeFile(size, lambda start, length: self.read_range(key, start, length)[0]), 1 << 16)

    def read_range(self, key: str, start: int, length: int) -> tuple[bytes, int]:
        """Part of the file, and the size of the whole."""
        import requests

        where = url_without_secrets(f"{self.location.text}/{key}")
        parts = urlsplit(self._root)
        url = parts._replace(path=f"{parts.path.rstrip('/')}/{quote(key)}").geturl()
        wanted = {"Range": f"bytes={start}-{start + length - 1}", "Accept-Encoding": "identity"}
        try:
            with requests.get(url, headers=wanted, allow_redirects=False, timeout=_SECONDS, stream=True) as answer:
                if answer.status_code == requests.codes.partial_content:
                    size = answer.headers.get("Content-Range", "").rpartition("/")[2]
                    if not size.isdigit():
                        raise StorageError("the server does not report the size of the file", where=where)
                    return answer.raw.read(length), int(size)
                if answer.status_code == requests.codes.requested_range_not_satisfiable:
                    return b"", start
                if answer.status_code in (requests.codes.not_found, requests.codes.gone):
                    raise MissingFileError("there is no such file", where=where)
                if 300 <= answer.status_code < 400:
                    raise StorageError("redirect refused", where=where)
                answered = "without a range" if answer.status_code == requests.codes.ok else str(answer.status_code)
                raise StorageError(f"it cannot be read: the server responds {answered}", where=where)
        except requests.RequestException as problem:
            raise StorageError(f"the server does not respond ({type(problem).__name__})", where=where) from None
