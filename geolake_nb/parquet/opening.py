"""Opens a Parquet file of an untrusted table: an invalid file raises an error of this package."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from geolake_nb.errors import CorruptTableError, GeolakeError, UnsupportedTableError
from geolake_nb.parquet.footer import parse_footer, read_footer
from geolake_nb.parquet.page_sizes import (
    MAX_BYTES,
    chunk_pages,
    chunk_range,
    most_bytes,
    require_apart,
    rows_at_a_time,
)
from geolake_nb.storage.ranges import Ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.parquet as pq

    from geolake_nb.parquet.page_sizes import Page
    from geolake_nb.storage.storage import Storage

__all__ = [
    "column_leaves",
    "first_values",
    "most_row_bytes",
    "open_parquet_file",
    "opened_parquet",
    "read_column",
    "value_batches",
]

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
