"""Parts of files below one address of a web server; an answer that sends the reader elsewhere is refused."""

from __future__ import annotations

import io
from urllib.parse import quote, urlsplit

from geolake_nb.core.message_text import url_without_secrets
from geolake_nb.errors import MissingFileError, StorageError
from geolake_nb.formats.storage_place import Place
from geolake_nb.formats.storage_ranges import RangeFile

__all__ = ["WebFolder"]

_SECONDS = 30.0


class WebFolder:
    """An http(s) root that a user allowed. Object stores follow redirects, which may lead to any address: this not.

    >>> WebFolder("https://me:secret@host.org/cogs?sig=1")
    WebFolder('https://host.org/cogs')
    """

    def __init__(self, root: str) -> None:
        self.place = Place.of(root)
        self._root = root

    def __repr__(self) -> str:
        return f"WebFolder({self.place.text!r})"

    def open(self, key: str) -> io.BufferedReader:
        """The file, of which only the parts are fetched that are asked for."""
        size = self.read_range(key, 0, 1)[1]
        return io.BufferedReader(RangeFile(size, lambda start, length: self.read_range(key, start, length)[0]), 1 << 16)

    def read_range(self, key: str, start: int, length: int) -> tuple[bytes, int]:
        """Part of the file, and the size of the whole."""
        import requests

        where = url_without_secrets(f"{self.place.text}/{key}")
        parts = urlsplit(self._root)
        url = parts._replace(path=f"{parts.path.rstrip('/')}/{quote(key)}").geturl()
        wanted = {"Range": f"bytes={start}-{start + length - 1}", "Accept-Encoding": "identity"}
        try:
            with requests.get(url, headers=wanted, allow_redirects=False, timeout=_SECONDS, stream=True) as answer:
                if answer.status_code == requests.codes.partial_content:
                    size = answer.headers.get("Content-Range", "").rpartition("/")[2]
                    if not size.isdigit():
                        raise StorageError("the server does not say how large the file is", where=where)
                    return answer.raw.read(length), int(size)
                if answer.status_code == requests.codes.requested_range_not_satisfiable:
                    return b"", start
                if answer.status_code in (requests.codes.not_found, requests.codes.gone):
                    raise MissingFileError("there is no such file", where=where)
                if 300 <= answer.status_code < 400:
                    raise StorageError("the server sends its readers elsewhere, which is not followed", where=where)
                said = "knows no ranges" if answer.status_code == requests.codes.ok else str(answer.status_code)
                raise StorageError(f"it cannot be read: the server answers {said}", where=where)
        except requests.RequestException as problem:
            raise StorageError(f"the server does not answer ({type(problem).__name__})", where=where) from None
