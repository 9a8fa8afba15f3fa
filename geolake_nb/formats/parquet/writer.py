"""The one writer of data files: Parquet with geo types, row-group boxes and the statistics that a table wants."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb import __version__
from geolake_nb.core.bounds import column_stats
from geolake_nb.core.raster_bounds import raster_stats
from geolake_nb.core.schema import join_path, type_name
from geolake_nb.core.statistics import ColumnStats, merge
from geolake_nb.core.types import GeographyType, GeometryEncoding, GeometryType, RasterType, StructType
from geolake_nb.errors import GeolakeError, RasterError, SchemaError, StorageError
from geolake_nb.formats.parquet.column_ranges import FLOATS, ColumnRange, column_range, has_nan, merge_ranges
from geolake_nb.formats.parquet.covering import add_coverings, with_coverings
from geolake_nb.formats.parquet.file_columns import FileColumns, leaf_values
from geolake_nb.formats.parquet.footer_edit import ChunkStats, LeafEdit, edit_footer, footer_with_tail
from geolake_nb.formats.parquet.foreign_boxes import OWN_WRITER
from geolake_nb.formats.parquet.geo_property import GEO, geo_property

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self

    import pyarrow.parquet as pq

    from geolake_nb.core.geoparquet import GeoMetadata
    from geolake_nb.core.schema import Schema
    from geolake_nb.formats.parquet.covering import CoveringColumn
    from geolake_nb.formats.storage import Storage

__all__ = ["CREATED_BY", "ColumnRange", "Layout", "ParquetWriter", "WrittenFile"]

CREATED_BY = f"{OWN_WRITER} version {__version__} (build parquet-cpp-arrow {pa.__version__})"
"""Who wrote the file, in the form that readers of Parquet take apart."""

_Path = tuple[str, ...]
_MOST_ROWS = 1 << 20  # pyarrow cuts larger row groups by itself
# Of a row group before it is encoded: rows of large shapes must not fill the memory, nor the 32 bits in which
# binary columns count their bytes.
_MOST_BYTES = 1 << 27
_PIXELS = ("data", "no_data")
_ROW = re.compile(r"^row (\d+)")


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

    Geo columns and rasters are measured in any case.
    """
    geoparquet: GeoMetadata | None = None
    """What the `geo` property says of the columns; boxes and types are filled in. `None` for no such property."""
    coverings: tuple[CoveringColumn, ...] = ()
    """Columns with the box of each row, which are made here."""
    properties: tuple[tuple[str, str], ...] = ()
    """More properties of the files."""
    suffix: str = ".parquet"
    """How the names of files end."""
    geo_types: bool = True
    """Whether shapes have Parquet's geo types and boxes; those of Havasu are plain bytes or text."""


@dataclass(frozen=True, slots=True, eq=False)
class WrittenFile:
    """A file that is in its place."""

    path: str
    bytes: int
    rows: int
    geo: Mapping[tuple[str, ...], ColumnStats]
    """Of every geo or raster column by its logical path; in a list or a map the rows are the values."""
    scalars: Mapping[tuple[str, ...], ColumnRange]
    """Of the columns that were to be measured."""
    metadata: pq.FileMetaData | None = None
    """The footer before geo types and boxes went in: sizes and places of the column chunks."""


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

        layout = replace(layout, schema=with_coverings(layout.schema, layout.coverings))
        if not 0 < layout.row_group_rows <= _MOST_ROWS:
            raise SchemaError(f"a row group has 1 to {_MOST_ROWS} rows, not {layout.row_group_rows}", where=key)
        self._key = key
        self._layout = layout
        self._columns = FileColumns.of(layout.schema, physical_names=layout.physical_names)
        self._geo = self._columns.geo
        if layout.geo_types:
            _refuse_havasu(self._columns)
        geo_paths = {leaf.path for leaf, _ in self._geo}
        self._tops = {field.name: index for index, field in enumerate(layout.schema.fields)}
        measured = sorted(path for path in layout.measured if _is_plain(layout.schema, path))
        others = [leaf for leaf in self._columns.leaves if leaf.path not in geo_paths]
        plain = [".".join(leaf.path) for leaf in others if not isinstance(leaf.type, RasterType)]
        # Bytes of geometries and pixels have no order, and repeat too rarely for a dictionary.
        repeats = [".".join(leaf.path) for leaf in others if leaf.path[-1] not in _PIXELS or leaf.type != RasterType()]
        self._geo_parts: dict[_Path, list[ColumnStats]] = {leaf.parts: [] for leaf, _ in self._geo}
        self._geo_parts |= {parts: [] for parts in self._columns.rasters}
        self._ranges: dict[_Path, list[ColumnRange]] = {path: [] for path in measured}
        self._floats = [leaf for leaf in others if leaf.type in FLOATS]
        self._groups_with_nan: dict[_Path, list[int]] = {leaf.path: [] for leaf in self._floats}
        self._groups = 0
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._rows = 0
        self._written: WrittenFile | None = None
        self._footers: list[pq.FileMetaData] = []
        self._place: AbstractContextManager[str] | None = storage.new_file(key)
        self._local = self._place.__enter__()
        try:
            self._sink = pa.OSFile(self._local, "wb")
            self._writer: pq.ParquetWriter = pq.ParquetWriter(
                self._sink,
                self._columns.arrow,
                compression=layout.compression,
                metadata_collector=self._footers,
                store_decimal_as_integer=True,
                store_schema=False,
                use_dictionary=repeats or False,
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
            fitted = self._columns.fit(add_coverings(piece, self._layout.schema, self._layout.coverings))
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
            geo = {leaf.parts: merge(self._geo_parts[leaf.parts], type=kind) for leaf, kind in self._geo}
            with self._errors():
                if self._layout.geo_types:
                    self._writer.add_key_value_metadata(_crs_properties([kind for _, kind in self._geo]))
                self._writer.add_key_value_metadata(self._properties(geo))
                self._writer.close()
                self._sink.close()
                size = self._edit_footer()
            geo |= {parts: merge(self._geo_parts[parts], type=RasterType()) for parts in self._columns.rasters}
        except BaseException as problem:
            self._leave(problem)
            raise
        place, self._place = self._place, None
        place.__exit__(None, None, None)
        scalars = {path: merge_ranges(parts) for path, parts in self._ranges.items()}
        self._written = WrittenFile(self._key, size, self._rows, geo, scalars, self._footers[0])
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
        for path in self._columns.rasters:
            values = leaf_values(group.column(self._tops[path[0]]), schema, path)
            self._geo_parts[path].append(self._raster_stats(values, path))
        for path, parts in self._ranges.items():
            parts.append(column_range(leaf_values(group.column(self._tops[path[0]]), schema, path)))
        # pyarrow leaves NaN out of minima and maxima. For Spark it is greater than any number, and Spark skips by them.
        for leaf in self._floats:
            if has_nan(leaf_values(group.column(self._tops[leaf.parts[0]]), schema, leaf.parts)):
                self._groups_with_nan[leaf.path].append(self._groups)
        with self._errors():
            self._writer.write_table(group, row_group_size=rows)
        self._groups += 1
        self._rows += rows
        self._waiting = rest.to_batches() if rest.num_rows else []
        self._waiting_rows = rest.num_rows
        self._waiting_bytes = int(rest.nbytes) if rest.num_rows else 0

    def _raster_stats(self, values: pa.ChunkedArray, path: _Path) -> ColumnStats:
        try:
            return raster_stats(values)
        except RasterError as problem:
            row = _ROW.sub(lambda match: f"row {int(match[1]) + self._rows}", problem.where or "")
            where = f"{self._key}, column {join_path(path)}" + (f", {row}" if row else "")
            raise RasterError(problem.what, where=where, remedy=problem.remedy) from None

    def _properties(self, geo: Mapping[_Path, ColumnStats]) -> dict[str, str]:
        held = dict(self._layout.properties)
        if self._layout.geoparquet is not None:
            tops = {parts[0]: stats for parts, stats in geo.items() if len(parts) == 1}
            held[GEO] = geo_property(self._layout.geoparquet, tops)
        return held

    def _edit_footer(self) -> int:
        """Put what pyarrow cannot write into the footer, and give the size of the file."""
        edits = {
            leaf.path: LeafEdit(kind, [_chunk_stats(part) for part in self._geo_parts[leaf.parts]])
            for leaf, kind in (self._geo if self._layout.geo_types else ())
        }
        with open(self._local, "r+b") as file:
            end = file.seek(-8, os.SEEK_END)
            length = int.from_bytes(file.read(4), "little")
            start = file.seek(end - length)
            footer = edit_footer(
                file.read(length),
                edits,
                unordered=self._groups_with_nan,
                # Spark looks a value up in the dictionary by its bits, where 0.0 and -0.0 differ, and skips the row
                # group; it does so only where these counts say that every page uses the dictionary.
                without_encoding_stats={leaf.path for leaf in self._floats},
                created_by=CREATED_BY,
                where=self._key,
            )
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
    except (OSError, RuntimeError, pa.ArrowException):
        pass  # what could not be written goes away in any case


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= _MOST_BYTES or len(batch) <= 1:
        yield batch
        return
    half = len(batch) // 2
    yield from _pieces(batch.slice(0, half))
    yield from _pieces(batch.slice(half))


def _refuse_havasu(columns: FileColumns) -> None:
    """Raise for what only Havasu stores: rasters, and shapes that are not WKB."""
    for leaf in columns.leaves:
        wkb = not isinstance(leaf.type, (GeometryType, GeographyType)) or leaf.type.encoding is GeometryEncoding.WKB
        if isinstance(leaf.type, RasterType) or not wkb:
            what = f"a column of type {type_name(leaf.type)} cannot be written"
            raise SchemaError(what, where=join_path(leaf.parts), remedy="cast it or leave it out")


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
