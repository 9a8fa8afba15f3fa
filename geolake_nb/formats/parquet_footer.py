"""The footer of a Parquet file, from its last bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from geolake_nb.errors import CorruptTableError, UnsupportedTableError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow.parquet as pq

__all__ = ["FIRST_READ", "MAGIC", "read_footer"]

MAGIC = b"PAR1"
FIRST_READ = 64 * 1024
"""Bytes from the end of a file that hold nearly every footer: one request instead of two."""

_MAX_FOOTER = 1 << 30


def read_footer(tail: bytes, size: int, *, where: str, more: Callable[[int, int], bytes]) -> pq.FileMetaData:
    """The footer of a file of `size` bytes that ends with `tail`; `more(start, length)` reads what is missing.

    >>> read_footer(b"", 0, where="a.parquet", more=lambda start, length: b"")
    Traceback (most recent call last):
    geolake_nb.errors.CorruptTableError: a.parquet: the file is empty, not Parquet
    """
    import pyarrow.parquet as pq

    if not size:
        raise CorruptTableError("the file is empty, not Parquet", where=where)
    if tail[-4:] == b"PARE":
        raise UnsupportedTableError("the Parquet footer is encrypted", where=where)
    if len(tail) < 12 or tail[-4:] != MAGIC:
        raise CorruptTableError("the file is not Parquet, or it is cut off", where=where)
    length = int.from_bytes(tail[-8:-4], "little") + 8
    if not 8 < length <= min(size - 4, _MAX_FOOTER):
        raise CorruptTableError(f"the Parquet footer claims {length - 8} bytes, of {size} in the file", where=where)
    if length > len(tail):
        tail = more(size - length, length - len(tail)) + tail
    try:
        return pq.read_metadata(pa.BufferReader(MAGIC + tail[-length:]))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        reason = (str(problem).splitlines() or ["it is malformed"])[0][:200]
        raise CorruptTableError(f"the Parquet footer cannot be read: {reason}", where=where) from None
