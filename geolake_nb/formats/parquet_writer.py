"""The one writer of data files: Parquet with geo types, row-group boxes and the statistics that a table wants."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb import __version__
from geolake_nb.core.bounds import column_stats
from geolake_nb.core.schema import join_path
from geolake_nb.core.statistics import ColumnStats, merge
from geolake_nb.core.types import GeographyType, GeometryType, StructType
from geolake_nb.errors import GeolakeError, SchemaError, StorageError
from geolake_nb.formats.column_ranges import ColumnRange, column_range, merge_ranges
from geolake_nb.formats.file_columns import FileColumns, leaf_values
from geolake_nb.formats.footer_edit import ChunkStats, LeafEdit, edit_footer, footer_with_tail
from geolake_nb.formats.foreign_boxes import OWN_WRITER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self

    import pyarrow.parquet as pq

    from geolake_nb.core.schema import Schema
    from geolake_nb.formats.storage import Storage

__all__ = ["CREATED_BY", "ColumnRange", "Layout", "ParquetWriter", "WrittenFile"]

CREATED_BY = f"{OWN_WRITER} version {__version__} (build parquet-cpp-arrow {pa.__version__})"
"""Who wrote the file, in the form that readers of Parquet take apart."""

_Path = tuple[str, ...]
_MOST_ROWS = 1 << 20  # pyarrow cuts larger row groups by itself
# Of a row group before it is encoded: rows of large shapes must not fill the memory, nor the 32 bits in which
# binary columns count their bytes.
_MOST_BYTES = 1 << 27


@dataclass(frozen=True, slots=True)
class Layout:
    """How files are written; it goes to other processes.

    >>> from geolake_nb.core.schema import Schema
    >>> Layout(Schema(StructType())).compression
    'zstd'
    """

    schema: Schema
    """The columns in the file, without partition columns."""
    physical_names: bool = False
    """Whether the file's columns carry physical names (Delta's column mapping). Ids are written where there are any."""
    row_group_rows: int = 65_536
    """At most; a row group of large values is cut before that."""
    compression: str = "zstd"
    measured: frozenset[tuple[str, ...]] = frozenset()
    """Logical paths of columns whose range and null count are wanted; they are reached through structs only.

    Geo columns are measured in any case.
    """


@dataclass(frozen=True, slots=True, eq=False)
class WrittenFile:
    """A file that is in its place."""

    path: str
    bytes: int
    rows: int
    geo: Mapping[tuple[str, ...], ColumnStats]
    """Of every geo column by its logical path; in a list or a map the rows are the values."""
    scalars: Mapping[tuple[str, ...], ColumnRange]
    """Of the columns that were to be measured."""


class ParquetWriter:
    """Writes one file below a storage: batches in, a file with its statistics out.

    It is whole when `close` has returned; `abort`, or leaving the block with an error, leaves nothing. Values of geo
    columns are ISO WKB and go into the file as they are, those that cannot be read too: they take the box away.
    No more than the rows of one row group are held.

    >>> import tempfile
    >>> from geolake_nb.core.schema import Schema
    >>> from geolake_nb.core.types import Field
    >>> from geolake_nb.formats.storage import Storage
    >>> storage, point = Storage.at(tempfile.mkdtemp()), bytes.fromhex("0101000000000000000000F03F0000000000000040")
    >>> with ParquetWriter(storage, "a.parquet", Layout(Schema(StructType((Field("g", GeometryType()),))))) as writer:
    ...     writer.write(pa.record_batch({"g": pa.array([point, None])}))
    >>> writer.close().rows, writer.close().geo["g",].box.xmin
    (2, 1.0)
    """

    def __init__(self, storage: Storage, key: str, layout: Layout) -> None:
        import pyarrow.parquet as pq

        if not 0 < layout.row_group_rows <= _MOST_ROWS:
            raise SchemaError(f"a row group has 1 to {_MOST_ROWS} rows, not {layout.row_group_rows}", where=key)
        self._key = key
        self._layout = layout
        self._columns = FileColumns.of(layout.schema, physical_names=layout.physical_names)
        self._geo = self._columns.geo
        geo_paths = {leaf.path for leaf, _ in self._geo}
        self._tops = {field.name: index for index, field in enumerate(layout.schema.fields)}
        measured = sorted(path for path in layout.measured if _is_plain(layout.schema, path))
        plain = [".".join(leaf.path) for leaf in self._columns.leaves if leaf.path not in geo_paths]
        self._geo_parts: dict[_Path, list[ColumnStats]] = {leaf.parts: [] for leaf, _ in self._geo}
        self._ranges: dict[_Path, list[ColumnRange]] = {path: [] for path in measured}
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._rows = 0
        self._written: WrittenFile | None = None
        self._place: AbstractContextManager[str] | None = storage.new_file(key)
        self._local = self._place.__enter__()
        try:
            self._sink = pa.OSFile(self._local, "wb")
            # Bytes of geometries have no order, and repeat too rarely for a dictionary.
            self._writer: pq.ParquetWriter = pq.ParquetWriter(
                self._sink,
                self._columns.arrow,
                compression=layout.compression,
                store_decimal_as_integer=True,
                store_schema=False,
                use_dictionary=plain or False,
                write_page_index=True,
                write_statistics=plain or False,
            )
        except BaseException as problem:
            self._leave(problem)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is None:
            self.close()
        else:
            self.abort()

    @property
    def rows(self) -> int:
        """How many rows have been given."""
        return self._rows + self._waiting_rows

    @property
    def bytes_so_far(self) -> int:
        """About how large the file would be if it were closed now: rows that wait count as those before them did."""
        if self._written is not None:
            return self._written.bytes
        on_disk = 0 if self._sink.closed else int(self._sink.tell())
        if not self._waiting_rows:
            return on_disk
        if not self._rows:
            return on_disk + self._waiting_bytes
        return on_disk + on_disk * self._waiting_rows // self._rows

    def write(self, batch: pa.RecordBatch) -> None:
        """Take in rows: columns by their logical names, in any order, of types that are or can be the schema's."""
        if self._place is None:
            raise SchemaError("the file is closed", where=self._key)
        for piece in _pieces(batch):
            fitted = self._columns.fit(piece)
            self._waiting.append(fitted)
            self._waiting_rows += len(fitted)
            self._waiting_bytes += piece.nbytes
            while self._waiting_rows >= self._layout.row_group_rows:
                self._flush(self._layout.row_group_rows)
            if self._waiting_bytes >= _MOST_BYTES:
                self._flush(self._waiting_rows)

    def close(self) -> WrittenFile:
        """Put the file in its place; asked again, it says the same again."""
        if self._written is not None:
            return self._written
        if self._place is None:
            raise SchemaError("the file was given up", where=self._key)
        try:
            if self._waiting_rows:
                self._flush(self._waiting_rows)
            with self._errors():
                self._writer.add_key_value_metadata(_crs_properties([kind for _, kind in self._geo]))
                self._writer.close()
                self._sink.close()
                size = self._edit_footer()
            geo = {leaf.parts: merge(self._geo_parts[leaf.parts], type=kind) for leaf, kind in self._geo}
        except BaseException as problem:
            self._leave(problem)
            raise
        place, self._place = self._place, None
        place.__exit__(None, None, None)
        scalars = {path: merge_ranges(parts) for path, parts in self._ranges.items()}
        self._written = WrittenFile(self._key, size, self._rows, geo, scalars)
        return self._written

    def abort(self) -> None:
        """Give the file up and remove what was written of it; a file in its place stays."""
        self._leave(InterruptedError(f"{self._key} is given up"))

    def _flush(self, rows: int) -> None:
        table = pa.Table.from_batches(self._waiting)
        group, rest = table.slice(0, rows), table.slice(rows)
        schema = self._layout.schema
        for leaf, kind in self._geo:
            values = leaf_values(group.column(self._tops[leaf.parts[0]]), schema, leaf.parts)
            self._geo_parts[leaf.parts].append(column_stats(values, type=kind))
        for path, parts in self._ranges.items():
            parts.append(column_range(leaf_values(group.column(self._tops[path[0]]), schema, path)))
        with self._errors():
            self._writer.write_table(group, row_group_size=rows)
        self._rows += rows
        self._waiting = rest.to_batches() if rest.num_rows else []
        self._waiting_rows = rest.num_rows
        self._waiting_bytes = int(rest.nbytes) if rest.num_rows else 0

    def _edit_footer(self) -> int:
        """Put what pyarrow cannot write into the footer, and give the size of the file."""
        edits = {
            leaf.path: LeafEdit(kind, [_chunk_stats(part) for part in self._geo_parts[leaf.parts]])
            for leaf, kind in self._geo
        }
        with open(self._local, "r+b") as file:
            end = file.seek(-8, os.SEEK_END)
            length = int.from_bytes(file.read(4), "little")
            start = file.seek(end - length)
            footer = edit_footer(file.read(length), edits, created_by=CREATED_BY, where=self._key)
            file.seek(start)
            file.truncate()
            file.write(footer_with_tail(footer))
            return file.tell()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as problem:
            if isinstance(problem, GeolakeError):
                raise
            reason = (str(problem).splitlines() or ["unknown"])[0][:200]
            raise StorageError(f"the file cannot be written: {reason}", where=self._key) from problem

    def _leave(self, problem: BaseException) -> None:
        place, self._place = self._place, None
        if place is None:
            return
        self._waiting, self._waiting_rows = [], 0
        for open_file in (getattr(self, "_writer", None), getattr(self, "_sink", None)):
            _close_quietly(open_file)
        # The manager raises again what it was given, which the caller either raises or has asked for.
        try:
            place.__exit__(type(problem), problem, problem.__traceback__)
        except BaseException as raised:
            if raised is not problem:
                raise


def _close_quietly(open_file: Any) -> None:
    try:
        if open_file is not None:
            open_file.close()
    except (OSError, pa.ArrowException):
        pass  # what could not be written goes away in any case


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= _MOST_BYTES or len(batch) <= 1:
        yield batch
        return
    half = len(batch) // 2
    yield from _pieces(batch.slice(0, half))
    yield from _pieces(batch.slice(half))


def _chunk_stats(stats: ColumnStats) -> ChunkStats:
    return ChunkStats(stats.box, stats.types, stats.rows - stats.null_count)


def _crs_properties(types: Iterable[GeometryType | GeographyType]) -> dict[str, str]:
    """The definitions that `projjson:<property>` stands for: in the file they can be found by any reader."""
    found: dict[str, str] = {}
    for kind in types:
        if kind.crs.property_name is not None and kind.crs.resolved is not None:
            found[kind.crs.property_name] = kind.crs.resolved
    return found


def _is_plain(schema: Schema, path: _Path) -> bool:
    """Whether a column to be measured is no geo column, which is measured in any case; one in a list is refused."""
    fields = schema.fields
    for name in path[:-1]:
        found = next((one.type for one in fields if one.name == name), None)
        if found is not None and not isinstance(found, StructType):
            raise SchemaError("a column that is not reached through structs has no range", where=join_path(path))
        fields = () if found is None else found.fields
    kind = schema.find(join_path(path)).type
    if isinstance(kind, StructType):
        raise SchemaError("a struct has no range", where=join_path(path))
    return not isinstance(kind, (GeometryType, GeographyType))
