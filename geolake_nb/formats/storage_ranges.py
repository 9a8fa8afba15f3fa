"""A file of a storage of which only the parts are fetched that are asked for."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from geolake_nb.formats.storage import Storage

__all__ = ["open_ranges"]


def open_ranges(storage: Storage, path: str) -> pa.NativeFile:
    """The file as Arrow's readers want it, in a bucket too without the rest of it.

    >>> import tempfile, pathlib
    >>> from geolake_nb.formats.storage import Storage
    >>> folder = tempfile.mkdtemp()
    >>> _ = pathlib.Path(folder, "a").write_bytes(b"abcdef")
    >>> open_ranges(Storage.at(folder), "a").read(2)
    b'ab'
    """
    return storage.open(path) if storage.is_local else pa.PythonFile(_Ranges(storage, path), mode="r")


class _Ranges(io.RawIOBase):
    """One request for each read; Arrow joins reads that lie close together before it asks."""

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self._path = path
        self._size = storage.size(path)
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = max(0, start + offset)
        return self._place

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._place)
        wanted = left if size is None or size < 0 else min(size, left)
        data = self._storage.read_range(self._path, self._place, wanted) if wanted else b""
        self._place += len(data)
        return data
