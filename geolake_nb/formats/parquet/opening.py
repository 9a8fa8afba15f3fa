"""Opens a Parquet file of a table that nobody vouches for: what is wrong with it is an error of this package."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from geolake_nb.errors import CorruptTableError, GeolakeError, UnsupportedTableError
from geolake_nb.formats.parquet.footer import parse_footer
from geolake_nb.formats.parquet.page_sizes import (
    MOST_BYTES,
    chunk_pages,
    chunk_range,
    most_bytes,
    require_apart,
    rows_at_a_time,
)
from geolake_nb.formats.storage_ranges import Ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.parquet as pq

    from geolake_nb.formats.parquet.page_sizes import Page
    from geolake_nb.formats.storage import Storage

__all__ = ["column_leaves", "most_row_bytes", "open_parquet_file", "opened_parquet", "read_column", "value_batches"]

_MOST_WHOLE = 1 << 31
"""Bytes of a column that is read as a whole."""
_MOST_LISTED = 1 << 30
"""Bytes of a row group's lists, of which one may have all."""
_OPTIONS: dict[str, Any] = {"coerce_int96_timestamp_unit": "us"}
"""How every file is read: Arrow's nanoseconds end in 2262 and wrap there, while Spark's INT96 go on in microseconds."""


_sources: WeakKeyDictionary[pq.ParquetFile, tuple[Ranges, str]] = WeakKeyDictionary()
_paths: WeakKeyDictionary[pq.ParquetFile, tuple[list[str], list[int]]] = WeakKeyDictionary()
"""The paths of all leaves, sorted, and the places of these."""
_apart: WeakKeyDictionary[pq.ParquetFile, set[int]] = WeakKeyDictionary()
"""The leaves whose chunks share no bytes with each other in any row group."""


def value_batches(
    file: pq.ParquetFile, columns: Sequence[str], *, rows: int, groups: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """Batches of an opened file of at most so many rows, and fewer where more would take too much memory."""
    wanted = range(file.metadata.num_row_groups) if groups is None else groups
    source, _ = _sources[file]
    leaves = _leaves_apart(file, columns)
    # What lies in a store comes group by group, so that no byte of it is sent twice; and so do lists and maps, whose
    # rows may take any share of their group.
    together = source.is_local and not any(file.metadata.schema.column(leaf).max_repetition_level for leaf in leaves)
    for some in [list(wanted)] if together else [[group] for group in wanted]:
        size = _rows_at_a_time(file, leaves, some, rows=rows)
        yield from file.iter_batches(size, row_groups=some, columns=list(columns), use_threads=False)


def read_column(file: pq.ParquetFile, columns: Sequence[str]) -> pa.Table:
    """All the rows of some columns that are small; those that are not are refused."""
    source, where = _sources[file]
    groups = range(file.metadata.num_row_groups)
    leaves = _leaves_apart(file, columns)
    source.keep(_ranges(file, leaves, groups))
    for leaf in leaves:
        size = sum(most_bytes(_pages(file, leaf, group)) for group in groups)
        if size > _MOST_WHOLE:
            raise _too_large(file, leaf, size, _MOST_WHOLE, where)
    return file.read(columns=list(columns))


def most_row_bytes(file: pq.ParquetFile, columns: Sequence[str], group: int) -> int:
    """How many bytes a row of a group takes at most in these columns, on average, and at least one."""
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
            # How many values a row has is not in the headers.
            size = most_bytes(pages)
            if size > _MOST_LISTED:
                raise _too_large(file, leaf, size, _MOST_LISTED, where)
            rows = max(1, min(rows, rows * MOST_BYTES // max(1, size)))
        else:
            rows = rows_at_a_time(pages, rows)
    return max(1, rows)


def _pages(file: pq.ParquetFile, leaf: int, group: int, *, closely: bool = False) -> list[Page]:
    source, where = _sources[file]
    chunk = file.metadata.row_group(group).column(leaf)
    column = file.metadata.schema.column(leaf)
    return chunk_pages(source.read, chunk, column=column, where=where, closely=closely)


def _leaves_apart(file: pq.ParquetFile, columns: Sequence[str]) -> list[int]:
    """The leaves below the columns, whose values are not the same bytes again and again."""
    leaves = column_leaves(file, columns)
    known = _apart.setdefault(file, set())
    if not known.issuperset(leaves):
        groups = [file.metadata.row_group(group) for group in range(file.metadata.num_row_groups)]
        require_apart((group.column(leaf) for group in groups for leaf in leaves), where=_sources[file][1])
        known.update(leaves)
    return leaves


def _ranges(file: pq.ParquetFile, leaves: Sequence[int], groups: Sequence[int]) -> Iterator[tuple[int, int]]:
    for group in groups:
        found = file.metadata.row_group(group)
        yield from (chunk_range(found.column(leaf)) for leaf in leaves)


def column_leaves(file: pq.ParquetFile, columns: Sequence[str]) -> list[int]:
    """The places of all leaves below the columns, as Arrow finds them."""
    if file not in _paths:
        leaves = [file.metadata.schema.column(place).path for place in range(len(file.metadata.schema))]
        order = sorted(range(len(leaves)), key=leaves.__getitem__)
        _paths[file] = [leaves[place] for place in order], order
    paths, order = _paths[file]
    found: set[int] = set()
    for name in columns:
        found.update(order[bisect_left(paths, name) : bisect_right(paths, name)])
        # All that begin with a name and a dot come before the name and the sign that follows the dot.
        found.update(order[bisect_left(paths, f"{name}.") : bisect_left(paths, f"{name}/")])
    return sorted(found)


def _too_large(file: pq.ParquetFile, leaf: int, size: int, most: int, where: str) -> UnsupportedTableError:
    name = file.metadata.schema.column(leaf).path
    what = f"the values of the column {name} unpack to {size:,} bytes, more than the {most:,} that are read"
    return UnsupportedTableError(what, where=where)


def opened_parquet(source: pa.NativeFile, *, where: str) -> pq.ParquetFile:
    """The file that is open already and costs nothing to look into; what is wrong with it is an error of Arrow."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(source, **_OPTIONS)
    _sources[file] = Ranges(source), where
    return file


@contextmanager
def open_parquet_file(storage: Storage, path: str, **options: Any) -> Iterator[pq.ParquetFile]:
    """The file to be read in the block, without extension types; `options` are those of Arrow's `ParquetFile`."""
    import pyarrow.parquet as pq

    where = f"{storage.location}/{path}"
    metadata = parse_footer(storage.parquet_footer(path), where=where)
    # Plain binary will do: building an extension type for a CRS such as srid:5070 fails in geoarrow.
    options = {"arrow_extensions_enabled": False, **_OPTIONS, **options}
    try:
        source = Ranges.of(storage, path)
        with pq.ParquetFile(source.file, metadata=metadata, **options) as file:
            _sources[file] = (source, where)
            yield file
    except GeolakeError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        reason = (str(problem).splitlines() or ["it is malformed"])[0][:200]
        raise CorruptTableError(f"the Parquet file cannot be read: {reason}", where=where) from None
