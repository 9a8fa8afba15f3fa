"""A file of a storage, or below a URL of a web server, of which only the requested parts are fetched."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import pyarrow as pa

from geolake_nb.errors import MissingFileError, StorageError
from geolake_nb.storage.location import Location
from geolake_nb.text.messages import url_without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from geolake_nb.storage.storage import Storage

__all__ = ["RangeFile", "Ranges", "WebFolder", "open_ranges"]

_HOLE, _LARGEST = 8192, 32 << 20
"""Arrow, CacheOptions: ranges with a smaller gap are merged, up to the second limit."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """A file for Arrow's readers, and its bytes for checks before that."""

    file: pa.NativeFile
    fetched: RangeFile | None = None

    @classmethod
    def of(cls, storage: Storage, path: str, size: int | None = None) -> Ranges:
        """The file at a path, and of that size, if it is known."""
        if storage.is_local:
            return cls(storage.open(path))
        size = storage.size(path) if size is None else size
        fetched = RangeFile(
            size,
            lambda start, length: storage.read_range(path, start, length),
            lambda ranges: storage.read_ranges(path, ranges),
        )
        return cls(pa.PythonFile(fetched, mode="r"), fetched)

    @property
    def is_local(self) -> bool:
        """Whether reading some bytes costs nothing."""
        return self.fetched is None

    def keep(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Fetch these ranges, if the file is in a store: Arrow reads the same next."""
        if self.fetched is None:
            return
        merged: list[tuple[int, int]] = []
        for start, end in sorted(ranges):
            if merged and start - merged[-1][1] <= _HOLE and end - merged[-1][0] <= _LARGEST:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((start, end))
        self.fetched.keep((start, end - start) for start, end in merged)

    def read(self, start: int, length: int) -> bytes:
        """Some bytes, fewer at the end of the file."""
        if self.fetched is None:
            return bytes(self.file.read_at(length, start))
        return self.fetched.at(start, length)


def open_ranges(storage: Storage, path: str) -> pa.NativeFile:
    """The file for Arrow's readers, without fetching all of it, also in a bucket.

    >>> import tempfile, pathlib
    >>> from geolake_nb.storage.storage import Storage
    >>> folder = tempfile.mkdtemp()
    >>> _ = pathlib.Path(folder, "a").write_bytes(b"abcdef")
    >>> open_ranges(Storage.at(folder), "a").read(2)
    b'ab'
    """
    return Ranges.of(storage, path).file


class RangeFile(io.RawIOBase):
    """A file of that size whose bytes are fetched by `fetch(start, length)`, once for each read.

    >>> RangeFile(3, lambda start, length: b"abc"[start : start + length]).read(2)
    b'ab'
    """

    def __init__(
        self,
        size: int,
        fetch: Callable[[int, int], bytes],
        fetch_many: Callable[[Sequence[tuple[int, int]]], Sequence[bytes]] | None = None,
    ) -> None:
        """`fetch_many` fetches several ranges at a time."""
        self._size = size
        self._fetch = fetch
        self._fetch_many = fetch_many or (lambda ranges: [fetch(*some) for some in ranges])
        self._place = 0
        self._kept: dict[int, bytes] = {}

    def keep(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Fetch some ranges, by start and length, that are going to be read more than once; drop others."""
        before, self._kept = self._kept, {}
        wanted: list[tuple[int, int]] = []
        for start, length in ranges:
            inside = min(length, self._size - start)
            offset = next((at for at, data in before.items() if at <= start and start + inside <= at + len(data)), None)
            if offset is not None:
                self._kept[offset] = before[offset]
            elif inside > 0:
                wanted.append((start, inside))
        for (start, _), data in zip(wanted, self._fetch_many(wanted), strict=True):
            self._kept[start] = data

    def at(self, start: int, length: int) -> bytes:
        """Some bytes, from the kept ranges if they contain them."""
        for first, data in self._kept.items():
            if first <= start and start + length <= first + len(data):
                return data[start - first : start - first + length]
        return self._fetch(start, length)

    def readable(self) -> bool:
        """Always `True`."""
        return True

    def seekable(self) -> bool:
        """Always `True`."""
        return True

    def tell(self) -> int:
        """The position of the next byte."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position, which may be behind the end."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = max(0, start + offset)
        return self._place

    def read(self, size: int | None = -1) -> bytes:
        """That many bytes, or all that are left."""
        left = max(0, self._size - self._place)
        wanted = left if size is None or size < 0 else min(size, left)
        data = self.at(self._place, wanted) if wanted else b""
        self._place += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as there are bytes."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)


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
