"""A file of a storage of which only the parts are fetched that are asked for."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    from geolake_nb.formats.storage import Storage

__all__ = ["RangeFile", "open_ranges"]


def open_ranges(storage: Storage, path: str) -> pa.NativeFile:
    """The file as Arrow's readers want it, in a bucket too without the rest of it.

    >>> import tempfile, pathlib
    >>> from geolake_nb.formats.storage import Storage
    >>> folder = tempfile.mkdtemp()
    >>> _ = pathlib.Path(folder, "a").write_bytes(b"abcdef")
    >>> open_ranges(Storage.at(folder), "a").read(2)
    b'ab'
    """
    if storage.is_local:
        return storage.open(path)
    return pa.PythonFile(
        RangeFile(storage.size(path), lambda start, length: storage.read_range(path, start, length)), mode="r"
    )


class RangeFile(io.RawIOBase):
    """A file of that size whose bytes are fetched by `fetch(start, length)`, once for each read.

    >>> RangeFile(3, lambda start, length: b"abc"[start : start + length]).read(2)
    b'ab'
    """

    def __init__(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        self._size = size
        self._fetch = fetch
        self._place = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """The place of the next byte."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place, which may lie behind the end."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = max(0, start + offset)
        return self._place

    def read(self, size: int | None = -1) -> bytes:
        """So many bytes, or all that are left."""
        left = max(0, self._size - self._place)
        wanted = left if size is None or size < 0 else min(size, left)
        data = self._fetch(self._place, wanted) if wanted else b""
        self._place += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as there are bytes."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)
