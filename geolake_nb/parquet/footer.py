"""The footer of a Parquet file, from its last bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from geolake_nb.errors import CorruptTableError, UnsupportedTableError
from geolake_nb.parquet.footer_shape import require_readable
from geolake_nb.parquet.repeated_types import note_repeated_types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow.parquet as pq

    from geolake_nb.storage.storage import Storage

__all__ = [
    "FIRST_READ",
    "MAGIC",
    "footer_bytes",
    "parse_footer",
    "read_footer",
    "read_footers",
    "read_metadata",
    "read_sized_metadata",
]

MAGIC = b"PAR1"
FIRST_READ = 64 * 1024
"""Bytes from the end of a file that contain nearly every footer: one request instead of two."""

_MAX_FOOTER = 1 << 30


def read_footer(storage: Storage, path: str) -> bytes:
    """The bytes of the footer of a Parquet file, without its length and the magic bytes."""
    tail, size = storage.tail(path, FIRST_READ)
    where = storage.full_path(path)
    return footer_bytes(tail, size, where=where, more=lambda start, length: storage.read_range(path, start, length))


def read_sized_metadata(storage: Storage, path: str) -> tuple[pq.FileMetaData, int]:
    """The footer of a Parquet file, and the size of the file, with one request."""
    tail, size = storage.tail(path, FIRST_READ)
    where = storage.full_path(path)
    data = footer_bytes(tail, size, where=where, more=lambda start, length: storage.read_range(path, start, length))
    return parse_footer(data, where=where), size


def read_footers(storage: Storage, paths: Sequence[str], *, workers: int = 64) -> Iterator[bytes]:
    """The bytes of the footers of Parquet files, in order and in parallel."""
    return storage.in_parallel(lambda path: read_footer(storage, path), paths, workers)


def read_metadata(
    storage: Storage,
    paths: Sequence[str],
    *,
    workers: int = 64,
    on_progress: Callable[[int, int], None] | None = None,
) -> Iterator[pq.FileMetaData]:
    """The footers of Parquet files, in order and in parallel; `on_progress(done, total)` is called for each."""

    def read(path: str) -> pq.FileMetaData:
        return parse_footer(read_footer(storage, path), where=storage.full_path(path))

    for done, footer in enumerate(storage.in_parallel(read, paths, workers), 1):
        if on_progress is not None:
            on_progress(done, len(paths))
        yield footer


def footer_bytes(tail: bytes, size: int, *, where: str, more: Callable[[int, int], bytes]) -> bytes:
    """The bytes of the footer of a file of `size` bytes that ends with `tail`; `more(start, length)` reads the rest.

    >>> footer_bytes(b"", 0, where="a.parquet", more=lambda start, length: b"")
    Traceback (most recent call last):
    geolake_nb.errors.CorruptTableError: a.parquet: the file is empty, not a Parquet file
    """
    if not size:
        raise CorruptTableError("the file is empty, not a Parquet file", where=where)
    if tail[-4:] == b"PARE":
        raise UnsupportedTableError("the Parquet footer is encrypted", where=where)
    if len(tail) < 12 or tail[-4:] != MAGIC:
        raise CorruptTableError("the file is not Parquet, or it is truncated", where=where)
    length = int.from_bytes(tail[-8:-4], "little") + 8
    if not 8 < length <= min(size - 4, _MAX_FOOTER):
        raise CorruptTableError(f"the Parquet footer claims {length - 8} bytes, of {size} in the file", where=where)
    if length > len(tail):
        tail = more(size - length, length - len(tail)) + tail
    return tail[-length:-8]


def parse_footer(footer: bytes, *, where: str) -> pq.FileMetaData:
    """Parse the bytes of a footer.

    >>> parse_footer(b"no Thrift", where="a.parquet")
    Traceback (most recent call last):
    geolake_nb.errors.CorruptTableError: a.parquet: the Parquet footer ...
    """
    import pyarrow.parquet as pq

    require_readable(footer, where=where)
    try:
        file = pa.BufferReader(MAGIC + footer + len(footer).to_bytes(4, "little") + MAGIC)
        # geoarrow, once it is imported, fails on a CRS such as [1] when it builds the extension type.
        metadata = pq.read_metadata(file, arrow_extensions_enabled=False)
        metadata.created_by  # noqa: B018 - raises here if it is not valid UTF-8, and is needed later
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        reason = (str(problem).splitlines() or ["it is malformed"])[0][:200]
        raise CorruptTableError(f"the Parquet footer cannot be read: {reason}", where=where) from None
    note_repeated_types(metadata, footer)
    return metadata
