"""The footer of a Parquet file, from its last bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from geolake_nb.errors import CorruptTableError, UnsupportedTableError
from geolake_nb.formats.parquet.footer_shape import require_readable

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow.parquet as pq

__all__ = ["FIRST_READ", "MAGIC", "footer_bytes", "parse_footer"]

MAGIC = b"PAR1"
FIRST_READ = 64 * 1024
"""Bytes from the end of a file that hold nearly every footer: one request instead of two."""

_MAX_FOOTER = 1 << 30


def footer_bytes(tail: bytes, size: int, *, where: str, more: Callable[[int, int], bytes]) -> bytes:
    """The bytes of the footer of a file of `size` bytes that ends with `tail`; `more(start, length)` reads the rest.

    >>> footer_bytes(b"", 0, where="a.parquet", more=lambda start, length: b"")
    Traceback (most recent call last):
    geolake_nb.errors.CorruptTableError: a.parquet: the file is empty, not Parquet
    """
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
    return tail[-length:-8]


def parse_footer(footer: bytes, *, where: str) -> pq.FileMetaData:
    """The footer that the bytes are.

    >>> parse_footer(b"no Thrift", where="a.parquet")
    Traceback (most recent call last):
    geolake_nb.errors.CorruptTableError: a.parquet: the Parquet footer ...
    """
    import pyarrow.parquet as pq

    require_readable(footer, where=where)
    try:
        metadata = pq.read_metadata(pa.BufferReader(MAGIC + footer + len(footer).to_bytes(4, "little") + MAGIC))
        metadata.created_by  # noqa: B018 - what is no text shows here, and is asked for later
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        reason = (str(problem).splitlines() or ["it is malformed"])[0][:200]
        raise CorruptTableError(f"the Parquet footer cannot be read: {reason}", where=where) from None
    return metadata
