"""Opens a Parquet file of an untrusted table: an invalid or too large one raises an error of this package.

The sizes in a footer are not reliable, and one value that is stored once may be in any number of rows. The decompressed
size of a page is in its header, which Arrow enforces, and dictionary values are no longer than the dictionary.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from geolake_nb.errors import CorruptTableError, GeolakeError, UnsupportedTableError
from geolake_nb.parquet.footer import parse_footer, read_footer
from geolake_nb.parquet.page_kernel import BROKEN, longest_value, page_header
from geolake_nb.storage.ranges import Ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow.parquet as pq

    from geolake_nb.storage.storage import Storage

    Read = Callable[[int, int], bytes]

__all__ = [
    "MAX_BYTES",
    "Page",
    "Proportion",
    "Room",
    "chunk_pages",
    "chunk_range",
    "column_leaves",
    "first_values",
    "most_bytes",
    "most_row_bytes",
    "open_parquet_file",
    "opened_parquet",
    "read_column",
    "require_apart",
    "rows_at_a_time",
    "value_batches",
]

MAX_BYTES = 1 << 26
"""Limit for the values of one batch of more than one row."""
_MAX_PAGE = 1 << 28
"""Limit for one page, and so for one value."""

_MAX_COLLECTED = 1 << 30
"""Limit for what is collected from many batches."""
_MAX_AT_ONCE, _STEEPEST = 1 << 29, 100
"""What is read in full may decompress to this many bytes, or to this many times its compressed size."""

_FIRST_HEADER, _LONGEST_HEADER = 256, 1 << 24
# Parquet, PageType and Encoding.
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_DICTIONARIES, _DELTA_BYTE_ARRAY = (2, 8), 7
_OFFSET = 5
"""The offset and validity of a variable-length value; nulls and lists take as much."""
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
# Codecs that Arrow decompresses without a frame; for others the dictionary counts as one value.
_CODECS = {"BROTLI": "brotli", "GZIP": "gzip", "LZ4_RAW": "lz4_raw", "SNAPPY": "snappy", "ZSTD": "zstd"}


@dataclass(frozen=True, slots=True)
class Page:
    """The memory of the values of a data page: a total in bytes, or a maximum for each."""

    values: int
    bytes: int
    each: int

    def most(self, values: int) -> int:
        """The bytes of some of its values."""
        return (self.bytes + self.each * min(values, self.values)) if self.values else 0


class Room:
    """The memory limit for what is collected from many batches and must be in memory at once."""

    def __init__(self, most: int = _MAX_COLLECTED) -> None:
        self._most = self._left = most

    def take(self, size: int, *, what: str, where: str) -> None:
        """Reserve that many bytes, or refuse.

        >>> Room().take(1 << 40, what="the rasters", where="t")
        Traceback (most recent call last):
        geolake_nb.errors.UnsupportedTableError: t: the rasters take more than 1,073,741,824 bytes, ...
        """
        self._left -= size
        if self._left < 0:
            raise UnsupportedTableError(f"{what} take more than {self._most:,} bytes, the memory limit", where=where)


class Proportion:
    """Refuses columns that are too large to be read in full, of one file or of several that are in memory at once.

    Few compressed bytes may decompress to more than the memory; many bytes may be large legitimately.
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
        if self._unpacked > max(_MAX_AT_ONCE, _STEEPEST * self._packed):
            what = f"{self._packed:,} bytes of {', '.join(columns)} decompress to {self._unpacked:,}, over the limit"
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
    """Refuse chunks that share bytes: a few bytes would represent any number of values."""
    # A chunk without values has no pages, and writers write any offset for them.
    ranges = [chunk_range(chunk) for chunk in chunks if chunk.num_values]
    spans = np.array([span for span in ranges if span[0] < span[1] < 1 << 63], np.int64).reshape(-1, 2)
    starts, ends = spans[np.argsort(spans[:, 0])].T
    if (starts[1:] < ends[:-1]).any():
        raise CorruptTableError("two column chunks of its footer share bytes", where=where)


def chunk_pages(
    read: Read,
    chunk: pq.ColumnChunkMetaData,
    *,
    column: pq.ColumnSchema,
    where: str,
    closely: bool = False,
    values: int | None = None,
) -> list[Page]:
    """The data pages of a column chunk, or those with its first `values`.

    The dictionary is read if all its values together are too large, or if `closely` is set.
    """
    position, end = chunk_range(chunk)
    where = f"{where}, column {chunk.path_in_schema}"
    if position < 0 or end < position:
        raise CorruptTableError("its pages have an invalid offset", where=where)
    has_lengths = chunk.physical_type == "BYTE_ARRAY"
    overhead = _OFFSET * (has_lengths + column.max_repetition_level)
    each = overhead + (0 if has_lengths else _WIDTHS.get(chunk.physical_type, column.length))
    pages: list[Page] = []
    dictionary: _Dictionary | None = None
    left = chunk.num_values if values is None else min(values, chunk.num_values)
    while position < end and left > 0:
        length, kind, size, packed, count, encoding = _header(read, position, end, where)
        position += length
        if size < 0 or packed < 0:
            raise CorruptTableError("a page has no size", where=where)
        if size > _MAX_PAGE:
            what = f"a page decompresses to {size:,} bytes, more than the limit of {_MAX_PAGE:,}"
            raise UnsupportedTableError(what, where=where)
        if kind == _DICTIONARY:
            dictionary = _Dictionary(position, packed, size)
        elif kind in (_DATA, _DATA_V2):
            if count < 0:
                raise CorruptTableError("a page has no count of its values", where=where)
            left -= count
            if not has_lengths:
                pages.append(Page(count, 0, each))
            elif encoding in _DICTIONARIES:
                pages.append(Page(count, 0, each + (0 if dictionary is None else dictionary.size)))
            elif encoding == _DELTA_BYTE_ARRAY:  # each value may start with the whole previous one
                pages.append(Page(count, 0, each + size))
            else:
                pages.append(Page(count, size, each))
        position += packed
    if has_lengths and dictionary is not None and (closely or most_bytes(pages) > MAX_BYTES):
        longest = dictionary.longest(read, chunk.compression)
        pages = [Page(page.values, page.bytes, min(page.each, overhead + longest)) for page in pages]
    return pages


def most_bytes(pages: Sequence[Page]) -> int:
    """The maximum size of all values."""
    return sum(page.most(page.values) for page in pages)


def rows_at_a_time(pages: Sequence[Page], rows: int) -> int:
    """How many values in a row, at most `rows`, never take more than `MAX_BYTES`.

    >>> rows_at_a_time([Page(1000, 0, 1 << 20)], 16_384), rows_at_a_time([Page(1000, 5000, 0)], 16_384)
    (64, 16384)
    """
    if most_bytes(pages) <= MAX_BYTES:
        return rows
    while rows > 1 and _worst(pages, rows) > MAX_BYTES:
        rows //= 2
    return rows


def _worst(pages: Sequence[Page], rows: int) -> int:
    """The maximum size of that many consecutive values."""
    values = [0, *accumulate(page.values for page in pages)]
    sizes = [0, *accumulate(page.most(rows) for page in pages)]
    worst = first = 0
    for last in range(len(pages)):
        # A batch has at least a value of its first and of its last page, and all of those between.
        while first < last and values[last] - values[first + 1] + 2 > rows:
            first += 1
        worst = max(worst, sizes[last + 1] - sizes[first])
    return worst


@dataclass(frozen=True, slots=True)
class _Dictionary:
    position: int
    packed: int
    size: int

    def longest(self, read: Read, codec: str) -> int:
        """The maximum length of its values."""
        data: bytes | pa.Buffer = read(self.position, self.packed)
        if codec in _CODECS:
            try:
                data = pa.decompress(data, decompressed_size=self.size, codec=_CODECS[codec])
            except (pa.ArrowException, OSError):
                return self.size
        elif codec != "UNCOMPRESSED":
            return self.size
        return longest_value(data)


def _header(read: Read, position: int, end: int, where: str) -> tuple[int, int, int, int, int, int]:
    length = _FIRST_HEADER
    while True:
        data = read(position, min(length, end - position))
        header = page_header(data)
        if header[0] >= 0 and header[0] <= len(data):
            return header
        if header[0] == BROKEN or length >= _LONGEST_HEADER or len(data) < length:
            raise CorruptTableError("the header of a page cannot be read", where=where)
        length *= 16


_MAX_WHOLE = 1 << 31
"""Maximum bytes of a column that is read in full."""
_FIRST_GROUPS = 4
_MAX_LISTED = 1 << 30
"""Maximum bytes of the lists of a row group, which may all be in one row."""
_OPTIONS: dict[str, Any] = {"coerce_int96_timestamp_unit": "us"}
"""How every file is read: Arrow's nanoseconds wrap around in 2262, while Spark's INT96 are microseconds."""


_sources: WeakKeyDictionary[pq.ParquetFile, tuple[Ranges, str]] = WeakKeyDictionary()
_paths: WeakKeyDictionary[pq.ParquetFile, tuple[list[str], list[int]]] = WeakKeyDictionary()
"""The paths of all leaves, sorted, and their indices."""
_apart: WeakKeyDictionary[pq.ParquetFile, set[int]] = WeakKeyDictionary()
"""The leaves whose chunks share no bytes with each other in any row group."""


def value_batches(
    file: pq.ParquetFile, columns: Sequence[str], *, rows: int, groups: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Batches of an opened file of at most `rows` rows, fewer where more would take too much memory."""
    wanted = range(file.metadata.num_row_groups) if groups is None else groups
    source, _ = _sources[file]
    leaves = _leaves_apart(file, columns)
    # Files in a store are read group by group, so that no byte is fetched twice; so are lists and maps, whose
    # rows may take any share of their group.
    together = source.is_local and not any(file.metadata.schema.column(leaf).max_repetition_level for leaf in leaves)
    for some in [list(wanted)] if together else [[group] for group in wanted]:
        size = _rows_at_a_time(file, leaves, some, rows=rows)
        yield from file.iter_batches(size, row_groups=some, columns=list(columns), use_threads=False)


def first_values(file: pq.ParquetFile, column: str, *, rows: int) -> list[pa.Array]:
    """At most `rows` first values of a column, from its first few row groups; none of pages that are too large.

    Only the pages that contain them are decompressed, and only those are fetched of a file that was opened with a
    `buffer_size`.
    """
    leaves = _leaves_apart(file, [column])
    arrays: list[pa.Array] = []
    for group in range(min(_FIRST_GROUPS, file.metadata.num_row_groups)):
        left = rows - sum(map(len, arrays))
        if left <= 0:
            break
        pages = [page for leaf in leaves for page in _pages(file, leaf, group, values=left)]
        if sum(page.most(left) for page in pages) <= MAX_BYTES:
            batches = file.iter_batches(left, row_groups=[group], columns=[column], use_threads=False)
            arrays += [batch.column(0) for batch in islice(batches, 1)]
    return arrays


def read_column(file: pq.ParquetFile, columns: Sequence[str]) -> pa.Table:
    """All rows of some small columns; large ones are refused."""
    source, where = _sources[file]
    groups = range(file.metadata.num_row_groups)
    leaves = _leaves_apart(file, columns)
    source.keep(_ranges(file, leaves, groups))
    for leaf in leaves:
        size = sum(most_bytes(_pages(file, leaf, group)) for group in groups)
        if size > _MAX_WHOLE:
            raise _too_large(file, leaf, size, _MAX_WHOLE, where)
    return file.read(columns=list(columns))


def most_row_bytes(file: pq.ParquetFile, columns: Sequence[str], group: int) -> int:
    """The maximum average size of a row of a group in these columns, at least one byte."""
    source, _ = _sources[file]
    leaves = _leaves_apart(file, columns)
    source.keep(_ranges(file, leaves, [group]))
    pages = [page for leaf in leaves for page in _pages(file, leaf, group, closely=True)]
    rows: int = file.metadata.row_group(group).num_rows
    return 1 + most_bytes(pages) // max(1, rows)


def _rows_at_a_time(file: pq.ParquetFile, leaves: Sequence[int], groups: Sequence[int], *, rows: int) -> int:
    source, where = _sources[file]
    source.keep(_ranges(file, leaves, groups))
    for leaf in leaves:
        pages = [page for group in groups for page in _pages(file, leaf, group)]
        if file.metadata.schema.column(leaf).max_repetition_level:
            # The headers do not have the number of values per row.
            size = most_bytes(pages)
            if size > _MAX_LISTED:
                raise _too_large(file, leaf, size, _MAX_LISTED, where)
            rows = max(1, min(rows, rows * MAX_BYTES // max(1, size)))
        else:
            rows = rows_at_a_time(pages, rows)
    return max(1, rows)


def _pages(
    file: pq.ParquetFile, leaf: int, group: int, *, closely: bool = False, values: int | None = None
) -> list[Page]:
    source, where = _sources[file]
    chunk = file.metadata.row_group(group).column(leaf)
    column = file.metadata.schema.column(leaf)
    return chunk_pages(source.read, chunk, column=column, where=where, closely=closely, values=values)


def _leaves_apart(file: pq.ParquetFile, columns: Sequence[str]) -> list[int]:
    """The leaves below the columns; their chunks may not share bytes."""
    leaves = column_leaves(file, columns)
    known = _apart.setdefault(file, set())
    if not known.issuperset(leaves):
        groups = [file.metadata.row_group(group) for group in range(file.metadata.num_row_groups)]
        require_apart((group.column(leaf) for group in groups for leaf in leaves), where=_sources[file][1])
        known.update(leaves)
    return leaves


def _ranges(file: pq.ParquetFile, leaves: Sequence[int], groups: Sequence[int]) -> Iterator[tuple[int, int]]:
    for group in groups:
        group_metadata = file.metadata.row_group(group)
        yield from (chunk_range(group_metadata.column(leaf)) for leaf in leaves)


def column_leaves(file: pq.ParquetFile, columns: Sequence[str]) -> list[int]:
    """The indices of all leaves below the columns, as Arrow resolves them."""
    if file not in _paths:
        leaves = [file.metadata.schema.column(index).path for index in range(len(file.metadata.schema))]
        order = sorted(range(len(leaves)), key=leaves.__getitem__)
        _paths[file] = [leaves[index] for index in order], order
    paths, order = _paths[file]
    leaves_: set[int] = set()
    for name in columns:
        leaves_.update(order[bisect_left(paths, name) : bisect_right(paths, name)])
        # All paths that start with a name and a dot sort before the name and the character after the dot.
        leaves_.update(order[bisect_left(paths, f"{name}.") : bisect_left(paths, f"{name}/")])
    return sorted(leaves_)


def _too_large(file: pq.ParquetFile, leaf: int, size: int, most: int, where: str) -> UnsupportedTableError:
    name = file.metadata.schema.column(leaf).path
    what = f"the values of the column {name} decompress to {size:,} bytes, more than the limit of {most:,}"
    return UnsupportedTableError(what, where=where)


def opened_parquet(source: pa.NativeFile, *, where: str) -> pq.ParquetFile:
    """A Parquet file from an open source; an invalid file raises an error of Arrow."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(source, **_OPTIONS)
    _sources[file] = Ranges(source), where
    return file


@contextmanager
def open_parquet_file(
    storage: Storage, path: str, *, footer: pq.FileMetaData | None = None, size: int | None = None, **options: Any
) -> Iterator[pq.ParquetFile]:
    """Open the file for the block, without extension types; `options` are those of Arrow's `ParquetFile`.

    `footer` and `size` are those of the file, where they are known already.
    """
    import pyarrow.parquet as pq

    where = f"{storage.location}/{path}"
    metadata = parse_footer(read_footer(storage, path), where=where) if footer is None else footer
    # Plain binary suffices: building an extension type for a CRS such as srid:5070 fails in geoarrow.
    options = {"arrow_extensions_enabled": False, **_OPTIONS, **options}
    try:
        source = Ranges.of(storage, path, size)
        with pq.ParquetFile(source.file, metadata=metadata, **options) as file:
            _sources[file] = (source, where)
            yield file
    except GeolakeError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        reason = (str(problem).splitlines() or ["it is malformed"])[0][:200]
        raise CorruptTableError(f"the Parquet file cannot be read: {reason}", where=where) from None
