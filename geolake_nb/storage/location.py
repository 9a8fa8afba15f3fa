"""Locations of tables in normal form, and which paths are below which."""

from __future__ import annotations

import os.path
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from geolake_nb.errors import StorageError
from geolake_nb.text.messages import url_without_secrets

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from datetime import datetime

    from geolake_nb.storage.writing import WriteStep

__all__ = ["PAGE", "Backend", "Entry", "Location", "clean_key", "is_url", "require_utf8", "split_last", "without_query"]

# One letter before the colon is a drive on Windows; Hadoop writes `file:/tmp/x` with one slash.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_NOT_UTF8 = re.compile("[\\ud800-\\udfff]")
PAGE = 1000
"""How many files a store lists per page."""

_SCHEMES = {
    "abfs": "abfss",
    "abfss": "abfss",
    "az": "az",
    "azure": "az",
    "file": "file",
    "gs": "gs",
    "http": "http",
    "https": "https",
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
}


class Entry(NamedTuple):
    """One file of a listing; `path` is relative to the root of the storage."""

    path: str
    bytes: int
    modified: datetime | None


class Backend(Protocol):
    """The operations of a kind of store on keys below its root; a key has no `..` and no leading slash."""

    def read(self, key: str) -> bytes:
        """The whole file."""
        ...

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """Part of the file, shorter at the end of the file."""
        ...

    def iter_chunks(self, key: str, length: int) -> Iterator[bytes | memoryview]:
        """The beginning of the file in chunks, each valid until the next is requested."""
        ...

    def tail(self, key: str, length: int) -> tuple[bytes, int]:
        """The last bytes of the file, and its size."""
        ...

    def size(self, key: str) -> int:
        """The bytes of the file."""
        ...

    def list(self, prefix: str, recursive: bool, after: str = "") -> builtins.list[Entry]:
        """The files in the folder whose names come after `after`, unordered."""
        ...

    def list_first(self, prefix: str, recursive: bool) -> tuple[builtins.list[Entry], bool]:
        """The first page of the files in the folder, unordered, and whether that is all."""
        ...

    def folders(self, prefix: str) -> builtins.list[str]:
        """The direct subfolders, unordered."""
        ...

    def put_if_absent(self, key: str, data: bytes, on_step: Callable[[WriteStep], None] | None = None) -> None:
        """Write a file that must not exist."""
        ...

    def new_file(self, key: str) -> AbstractContextManager[str]:
        """A local path to write, which becomes the file."""
        ...

    def atomic_replace(self, key: str) -> AbstractContextManager[str]:
        """A local path to write, which then replaces the file."""
        ...

    def link(self, key: str, other: str) -> None:
        """Link the file to a second name, which must not exist; a copy where the store has no links."""
        ...

    def rename(self, key: str, other: str) -> None:
        """Rename the file; an existing file is replaced."""
        ...

    def stat(self, key: str) -> Entry:
        """The size and the modification time of the file."""
        ...

    def remove(self, key: str) -> None:
        """Remove a file if it exists."""
        ...


@dataclass(frozen=True, slots=True)
class Location:
    """A location without secrets: user names, passwords and query strings are not part of it.

    >>> Location.of("s3a://bucket/a//b/../c/").text
    's3://bucket/a/c'
    >>> Location.of("https://me:secret@host.org/t?sig=abc").text
    'https://host.org/t'
    """

    scheme: str
    """`file` for the local disk, `catalog` if a catalog will choose the location."""
    host: str
    """The bucket, `container@account`, or the host with its port; empty on the local disk."""
    path: str
    """Absolute on the local disk; no slash at either end elsewhere."""

    @classmethod
    def of(cls, location: str) -> Location:
        """The location of a path or URL; a relative path is relative to the working directory."""
        if "\0" in location or not location.strip():
            raise StorageError(f"expected a path or URL, got {url_without_secrets(location)!r}")
        if not is_url(location):
            require_utf8(location)
            return cls("file", "", os.path.abspath(os.path.expanduser(location)))
        name = location.partition(":")[0].lower()
        if name not in _SCHEMES:
            raise StorageError(
                f"unsupported URL scheme {name}:", remedy=f"use a path or one of: {', '.join(sorted(_SCHEMES))}"
            )
        scheme, rest = _SCHEMES[name], location.partition(":")[2]
        if scheme == "file":
            # file:/a, file:///a and file://localhost/a are the same location.
            host, _, path = rest[2:].partition("/") if rest.startswith("//") else ("", "", rest.lstrip("/"))
            if host not in ("", "localhost"):
                raise StorageError(f"the host {host.rpartition('@')[2]!r} of a file: URL is not the local host")
            require_utf8(path)
            return cls("file", "", os.path.abspath("/" + path))
        # Only http has queries and escapes: `?`, `#` and `%` can be in the key of an object.
        if scheme in ("http", "https"):
            try:
                parts = urlsplit(location)
                _ = parts.port
            except ValueError:
                raise StorageError("not a valid URL", where=f"{scheme}://{_server(location)}"[:200]) from None
            host, path = parts.netloc.rpartition("@")[2], unquote(parts.path)
        else:
            host, _, path = rest.removeprefix("//").partition("/")
            if scheme != "abfss":
                host = host.rpartition("@")[2]
        if not host:
            raise StorageError(f"the {scheme}: URL has no bucket, container or host")
        return cls(scheme, host, clean_key(path, where=f"{scheme}://{host}"))

    @property
    def text(self) -> str:
        """The location as it may be shown."""
        if self.scheme in ("catalog", "file"):
            return self.path
        return f"{self.scheme}://{self.host}/{self.path}".rstrip("/")

    def key_of(self, other: Location) -> str | None:
        """The path of another location relative to this one, `None` if it is not below.

        >>> root = Location.of("s3://bucket/t")
        >>> root.key_of(Location.of("s3://bucket/t/a")), root.key_of(Location.of("s3://bucket/t2/a"))
        ('a', None)
        """
        if (self.scheme, self.host) != (other.scheme, other.host):
            return None
        if self.path == other.path:
            return ""
        above = self.path.rstrip("/") + "/" if self.path else ""
        return other.path[len(above) :] if other.path.startswith(above) else None


def _server(url: str) -> str:
    """The part of an invalid URL that may be shown: neither a password, which may contain slashes, nor a query."""
    return url.partition("://")[2].partition("?")[0].rpartition("@")[2].partition("/")[0]


def is_url(path: str) -> bool:
    """Whether the text starts with a scheme.

    >>> is_url("file:/tmp/a"), is_url("C:/a"), is_url("k=a:b/c")
    (True, False, False)
    """
    return _URL.match(path) is not None


def require_utf8(path: str, *, where: str | None = None) -> None:
    r"""Raise for a local path that is not valid UTF-8: neither Arrow nor JSON can represent it.

    >>> require_utf8("caf\xe9.parquet")
    >>> require_utf8(b"caf\xe9.parquet".decode(errors="surrogateescape"), where="/data")
    Traceback (most recent call last):
    geolake_nb.errors.StorageError: /data: the name 'caf\xe9.parquet' is not valid UTF-8; rename it
    """
    if path.isascii() or not _NOT_UTF8.search(path):
        return
    # Python represents such a byte as a lone surrogate; it is shown as on the disk.
    shown = _NOT_UTF8.sub(lambda match: ascii(match[0])[1:-1].replace("\\udc", "\\x"), path)
    raise StorageError(f"the name '{shown}' is not valid UTF-8", where=where, remedy="rename it")


def split_last(location: str) -> tuple[str, str]:
    """The folder of a location, with a query where a web URL has one, and the last name, which may be empty.

    >>> split_last("https://host/a/b%20c.parquet?sig=1"), split_last("s3://bucket")
    (('https://host/a?sig=1', 'b c.parquet'), ('s3://bucket', ''))
    """
    if not is_url(location) or location.lower().startswith("file:"):
        folder, name = os.path.split(Location.of(location).path)
        return folder, name
    if location.lower().startswith(("http:", "https:")):
        Location.of(location)  # for its errors
        parts = urlsplit(location)
        folder, _, name = parts.path.rstrip("/").rpartition("/")
        return parts._replace(path=folder).geturl(), unquote(name)
    scheme, mark, rest = location.partition("://")
    folder, _, name = rest.rstrip("/").rpartition("/")
    return (f"{scheme}{mark}{folder}", name) if folder else (location, "")


def without_query(location: str) -> str:
    """A web URL without its query, which may be a signature; any other location as it is.

    >>> without_query("https://host/a.parquet?sig=1"), without_query("s3://bucket/a?.parquet")
    ('https://host/a.parquet', 's3://bucket/a?.parquet')
    """
    return location.partition("?")[0] if location.lower().startswith(("http:", "https:")) else location


def clean_key(path: str, *, where: str) -> str:
    """A relative path in normal form; one outside of its root is refused.

    >>> clean_key("./a//b/../c", where="t")
    'a/c'
    >>> clean_key("../secret", where="t")
    Traceback (most recent call last):
    geolake_nb.errors.StorageError: t: the path '../secret' is outside the table
    """
    if "\0" in path:
        raise StorageError(f"the path {url_without_secrets(path)!r} contains a zero byte", where=where)
    # Nearly every path is already in normal form.
    if "//" not in path and "./" not in path and not path.endswith((".", "/")) and not path.startswith("/"):
        return path
    key = posixpath.normpath(path.strip("/"))
    if key == ".." or key.startswith("../"):
        raise StorageError(f"the path {url_without_secrets(path)!r} is outside the table", where=where)
    return "" if key == "." else key
