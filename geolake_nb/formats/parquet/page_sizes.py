"""How much memory the values of column chunks take at most, from the headers of their pages, before any is unpacked.

A footer may say anything of sizes, and one value that is stored once stands in any number of rows. What a page unpacks
to is in its header, which Arrow holds it to, and the values of a dictionary are no longer than the dictionary says.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from geolake_nb.errors import CorruptTableError, UnsupportedTableError
from geolake_nb.formats.parquet.page_kernel import BROKEN, longest_value, page_header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow.parquet as pq

    Read = Callable[[int, int], bytes]

__all__ = [
    "MOST_BYTES",
    "Page",
    "Proportion",
    "Room",
    "chunk_pages",
    "chunk_range",
    "most_bytes",
    "require_apart",
    "rows_at_a_time",
]

MOST_BYTES = 1 << 26
"""What the values of one batch may take, if it has more than one."""
_MOST_PAGE = 1 << 28
"""What one page, and so one value, may take."""

_MOST_HELD = 1 << 30
"""What is gathered from many batches."""
_MOST_AT_ONCE, _STEEPEST = 1 << 29, 100
"""What is read as a whole may unpack to so many bytes, or to so many times those that it has."""

_FIRST_HEADER, _LONGEST_HEADER = 256, 1 << 24
# Parquet, PageType and Encoding.
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_DICTIONARIES, _DELTA_BYTE_ARRAY = (2, 8), 7
_OFFSET = 5
"""Where a value of any length starts, and whether there is one: a null takes as much, too, and so does a list."""
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
# Those that Arrow unpacks without a frame; of others the dictionary is taken for one value.
_CODECS = {"BROTLI": "brotli", "GZIP": "gzip", "LZ4_RAW": "lz4_raw", "SNAPPY": "snappy", "ZSTD": "zstd"}


@dataclass(frozen=True, slots=True)
class Page:
    """What the values of a data page take in memory: so many bytes in all, or each at most so many."""

    values: int
    bytes: int
    each: int

    def most(self, values: int) -> int:
        """The bytes of some of its values."""
        return (self.bytes + self.each * min(values, self.values)) if self.values else 0


class Room:
    """The memory for what is gathered from many batches, and has to be held at once."""

    def __init__(self, most: int = _MOST_HELD) -> None:
        self._most = self._left = most

    def take(self, size: int, *, what: str, where: str) -> None:
        """Have so many bytes less, or refuse what asks for them.

        >>> Room().take(1 << 40, what="the rasters", where="t")
        Traceback (most recent call last):
        geolake_nb.errors.UnsupportedTableError: t: the rasters take more than 1,073,741,824 bytes, ...
        """
        self._left -= size
        if self._left < 0:
            raise UnsupportedTableError(f"{what} take more than {self._most:,} bytes, as many as are held", where=where)


class Proportion:
    """Refuses columns that are to be read as a whole, of one file or of several that are held at once.

    Few bytes may stand for more than memory holds; many may stand for as many as they do in a table of many files.
    """

    def __init__(self) -> None:
        self._packed = self._unpacked = 0

    def add(self, read: Read, metadata: pq.FileMetaData, columns: Sequence[str], *, where: str) -> None:
        """Count these columns of a file."""
        chunks = list(_chunks(metadata, columns))
        require_apart((chunk for _, chunk in chunks), where=where)
        for column, chunk in chunks:
            self._unpacked += most_bytes(chunk_pages(read, chunk, column=column, where=where))
            self._packed += chunk.total_compressed_size
        if self._unpacked > max(_MOST_AT_ONCE, _STEEPEST * self._packed):
            what = f"{self._packed:,} bytes of {', '.join(columns)} unpack to {self._unpacked:,}, more than are read"
            raise UnsupportedTableError(what, where=where)


def _chunks(
    metadata: pq.FileMetaData, columns: Sequence[str]
) -> Iterator[tuple[pq.ColumnSchema, pq.ColumnChunkMetaData]]:
    for leaf in range(metadata.num_columns):
        column = metadata.schema.column(leaf)
        if any(column.path == name or column.path.startswith(f"{name}.") for name in columns):
            for group in range(metadata.num_row_groups):
                yield column, metadata.row_group(group).column(leaf)


def chunk_range(chunk: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """Where the pages of a chunk start and end."""
    start, dictionary = chunk.data_page_offset, chunk.dictionary_page_offset
    if dictionary is not None and 0 < dictionary < start:
        start = dictionary
    return start, start + chunk.total_compressed_size


def require_apart(chunks: Iterable[pq.ColumnChunkMetaData], *, where: str) -> None:
    """Refuse chunks that share bytes: a few would stand for any number of values."""
    # A chunk without values has no pages, and writers put any place for them.
    ranges = [chunk_range(chunk) for chunk in chunks if chunk.num_values]
    found = np.array([one for one in ranges if one[0] < one[1] < 1 << 63], np.int64).reshape(-1, 2)
    starts, ends = found[np.argsort(found[:, 0])].T
    if (starts[1:] < ends[:-1]).any():
        raise CorruptTableError("two column chunks of its footer share bytes", where=where)


def chunk_pages(
    read: Read, chunk: pq.ColumnChunkMetaData, *, column: pq.ColumnSchema, where: str, closely: bool = False
) -> list[Page]:
    """The data pages of a chunk of a column.

    The dictionary is looked into where all its values together are too long, or to look `closely`.
    """
    place, end = chunk_range(chunk)
    where = f"{where}, column {chunk.path_in_schema}"
    if place < 0 or end < place:
        raise CorruptTableError("its pages are where no file has any", where=where)
    has_lengths = chunk.physical_type == "BYTE_ARRAY"
    beside = _OFFSET * (has_lengths + column.max_repetition_level)
    each = beside + (0 if has_lengths else _WIDTHS.get(chunk.physical_type, column.length))
    found: list[Page] = []
    dictionary: _Dictionary | None = None
    left = chunk.num_values
    while place < end and left > 0:
        length, kind, size, packed, values, encoding = _header(read, place, end, where)
        place += length
        if size < 0 or packed < 0:
            raise CorruptTableError("a page has no size", where=where)
        if size > _MOST_PAGE:
            what = f"a page unpacks to {size:,} bytes, more than the {_MOST_PAGE:,} that are read at a time"
            raise UnsupportedTableError(what, where=where)
        if kind == _DICTIONARY:
            dictionary = _Dictionary(place, packed, size)
        elif kind in (_DATA, _DATA_V2):
            if values < 0:
                raise CorruptTableError("a page has no count of its values", where=where)
            left -= values
            if not has_lengths:
                found.append(Page(values, 0, each))
            elif encoding in _DICTIONARIES:
                found.append(Page(values, 0, each + (0 if dictionary is None else dictionary.size)))
            elif encoding == _DELTA_BYTE_ARRAY:  # each value may begin with all of the one before
                found.append(Page(values, 0, each + size))
            else:
                found.append(Page(values, size, each))
        place += packed
    if has_lengths and dictionary is not None and (closely or most_bytes(found) > MOST_BYTES):
        longest = dictionary.longest(read, chunk.compression)
        found = [Page(one.values, one.bytes, min(one.each, beside + longest)) for one in found]
    return found


def most_bytes(pages: Sequence[Page]) -> int:
    """What all the values take at most."""
    return sum(page.most(page.values) for page in pages)


def rows_at_a_time(pages: Sequence[Page], rows: int) -> int:
    """How many values in a row, at most `rows`, never take more than `MOST_BYTES`.

    >>> rows_at_a_time([Page(1000, 0, 1 << 20)], 16_384), rows_at_a_time([Page(1000, 5000, 0)], 16_384)
    (64, 16384)
    """
    if most_bytes(pages) <= MOST_BYTES:
        return rows
    while rows > 1 and _worst(pages, rows) > MOST_BYTES:
        rows //= 2
    return rows


def _worst(pages: Sequence[Page], rows: int) -> int:
    """The most bytes that so many values take, wherever they begin."""
    values = [0, *accumulate(page.values for page in pages)]
    sizes = [0, *accumulate(page.most(rows) for page in pages)]
    worst = first = 0
    for last in range(len(pages)):
        # A batch has a value of its first and of its last page, and all of those between.
        while first < last and values[last] - values[first + 1] + 2 > rows:
            first += 1
        worst = max(worst, sizes[last + 1] - sizes[first])
    return worst


@dataclass(frozen=True, slots=True)
class _Dictionary:
    place: int
    packed: int
    size: int

    def longest(self, read: Read, codec: str) -> int:
        """How long its longest value is at most."""
        data: bytes | pa.Buffer = read(self.place, self.packed)
        if codec in _CODECS:
            try:
                data = pa.decompress(data, decompressed_size=self.size, codec=_CODECS[codec])
            except (pa.ArrowException, OSError):
                return self.size
        elif codec != "UNCOMPRESSED":
            return self.size
        return longest_value(data)


def _header(read: Read, place: int, end: int, where: str) -> tuple[int, int, int, int, int, int]:
    length = _FIRST_HEADER
    while True:
        data = read(place, min(length, end - place))
        found = page_header(data)
        if found[0] >= 0 and found[0] <= len(data):
            return found
        if found[0] == BROKEN or length >= _LONGEST_HEADER or len(data) < length:
            raise CorruptTableError("the header of a page cannot be read", where=where)
        length *= 16
