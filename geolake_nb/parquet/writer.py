"""The writer of data files: Parquet with geo types, row-group boxes and the statistics that a table needs."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb import __version__
from geolake_nb.errors import GeolakeError, RasterError, SchemaError, StorageError
from geolake_nb.geo.bounds import column_stats
from geolake_nb.geo.encodings import srids_of
from geolake_nb.model.schema import join_path, type_name
from geolake_nb.model.statistics import ColumnStats, merge
from geolake_nb.model.types import GeographyType, GeometryEncoding, GeometryType, RasterType, StructType
from geolake_nb.parquet.column_ranges import FLOATS, ColumnRange, column_range, has_nan, merge_ranges
from geolake_nb.parquet.file_columns import FileColumns, leaf_values
from geolake_nb.parquet.footer_boxes import OWN_WRITER
from geolake_nb.parquet.footer_edit import ChunkStats, LeafEdit, edit_footer, footer_with_tail
from geolake_nb.parquet.geo_property import GEO, add_coverings, geo_property, with_coverings, with_srids
from geolake_nb.raster_data.footprint import raster_stats

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self

    import pyarrow.parquet as pq

    from geolake_nb.model.schema import Schema
    from geolake_nb.parquet.geo_property import CoveringColumn
    from geolake_nb.parquet.geoparquet import GeoMetadata
    from geolake_nb.storage.storage import Storage

__all__ = ["CREATED_BY", "ColumnRange", "Layout", "ParquetWriter", "WrittenFile"]

CREATED_BY = f"{OWN_WRITER} version {__version__} (build parquet-cpp-arrow {pa.__version__})"
"""The writer of the file, in the form that Parquet readers parse."""

_Path = tuple[str, ...]
_MAX_ROWS = 1 << 20  # pyarrow splits larger row groups
# Of a row group before it is encoded: rows of large geometries must not exceed the memory, nor the 32-bit offsets of
# binary columns.
_MAX_BYTES = 1 << 27
_PIXELS = ("data", "no_data")
_ROW = re.compile(r"^row (\d+)")


@dataclass(frozen=True, slots=True)
class Layout:
    """How files are written; it is sent to other processes.

    >>> from geolake_nb.model.schema import Schema
    >>> Layout(Schema(StructType())).compression
    'zstd'
    """

    schema: Schema
    """The columns in the file, without partition columns."""
    physical_names: bool = False
    """Whether the file's columns carry physical names (Delta's column mapping). Ids are written where there are any."""
    row_group_rows: int = 65_536
    """The maximum; a row group of large values ends before that."""
    compression: str = "zstd"
    measured: frozenset[tuple[str, ...]] = frozenset()
    """Logical paths of columns whose range and null count are collected; they may be nested in structs only.

    Statistics of geo columns and rasters are always collected.
    """
    geoparquet: GeoMetadata | None = None
    """The template of the `geo` property; boxes and types are filled in. `None` for no such property."""
    coverings: tuple[CoveringColumn, ...] = ()
    """Columns with the box of each row, which the writer computes."""
    properties: tuple[tuple[str, str], ...] = ()
    """Additional properties of the files."""
    suffix: str = ".parquet"
    """The extension of file names."""
    geo_types: bool = True
    """Whether geometries have Parquet's geo types and boxes; those of Havasu are binary or string columns."""


@dataclass(frozen=True, slots=True, eq=False)
class WrittenFile:
    """A complete file at its final path."""

    path: str
    bytes: int
    rows: int
    geo: Mapping[tuple[str, ...], ColumnStats]
    """The statistics of every geo or raster column by logical path; in a list or a map, rows are values."""
    scalars: Mapping[tuple[str, ...], ColumnRange]
    """The ranges of the requested columns."""
    metadata: pq.FileMetaData | None = None
    """The footer before geo types and boxes were added: sizes and offsets of the column chunks."""


class ParquetWriter:
    """Writes one file below a storage: batches in, a file with its statistics out.

    The file is complete when `close` returns; `abort`, or an error in the block, leaves nothing. Values of geo
    columns are ISO WKB and are written unchanged, even invalid ones: those make the box unknown.
    At most the rows of one row group are in memory.

    >>> import tempfile
    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.types import Field
    >>> from geolake_nb.storage.storage import Storage
    >>> storage, point = Storage.at(tempfile.mkdtemp()), bytes.fromhex("0101000000000000000000F03F0000000000000040")
    >>> with ParquetWriter(storage, "a.parquet", Layout(Schema(StructType((Field("g", GeometryType()),))))) as writer:
    ...     writer.write(pa.record_batch({"g": pa.array([point, None])}))
    >>> writer.close().rows, writer.close().geo["g",].box.xmin
    (2, 1.0)
    """

    def __init__(self, storage: Storage, key: str, layout: Layout) -> None:
        import pyarrow.parquet as pq

        layout = replace(layout, schema=with_coverings(layout.schema, layout.coverings))
        if not 0 < layout.row_group_rows <= _MAX_ROWS:
            raise SchemaError(f"a row group has 1 to {_MAX_ROWS} rows, not {layout.row_group_rows}", where=key)
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
        # Geometries and pixels have no order, and repeat too rarely for a dictionary.
        repeats = [".".join(leaf.path) for leaf in others if leaf.path[-1] not in _PIXELS or leaf.type != RasterType()]
        self._geo_parts: dict[_Path, list[ColumnStats]] = {leaf.parts: [] for leaf, _ in self._geo}
        self._geo_parts |= {parts: [] for parts in self._columns.rasters}
        self._ranges: dict[_Path, list[ColumnRange]] = {path: [] for path in measured}
        # Havasu's WKB has its CRS as an SRID; Parquet's own geo types have it in the type.
        self._srids: dict[_Path, set[int]] = {}
        if layout.geoparquet is not None and not layout.geo_types:
            self._srids = {leaf.parts: set() for leaf, _ in self._geo if leaf.parts[0] in layout.geoparquet.columns}
        self._floats = [leaf for leaf in others if leaf.type in FLOATS]
        self._groups_with_nan: dict[_Path, list[int]] = {leaf.path: [] for leaf in self._floats}
        self._groups = 0
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._rows = 0
        self._written: WrittenFile | None = None
        self._footers: list[pq.FileMetaData] = []
        self._context: AbstractContextManager[str] | None = storage.new_file(key)
        self._local = self._context.__enter__()
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
        """How many rows have been written."""
        return self._rows + self._waiting_rows

    @property
    def bytes_so_far(self) -> int:
        """The approximate size of the file if it were closed now: buffered rows count as much as those before them."""
        if self._written is not None:
            return self._written.bytes
        on_disk = 0 if self._sink.closed else int(self._sink.tell())
        if not self._waiting_rows:
            return on_disk
        if not self._rows:
            return on_disk + self._waiting_bytes
        return on_disk + on_disk * self._waiting_rows // self._rows

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows: columns by logical name, in any order, of types that are or can be cast to the schema's."""
        if self._context is None:
            raise SchemaError("the file is closed", where=self._key)
        for piece in _pieces(batch):
            fitted = self._columns.fit(add_coverings(piece, self._layout.schema, self._layout.coverings))
            self._waiting.append(fitted)
            self._waiting_rows += len(fitted)
            self._waiting_bytes += piece.nbytes
            while self._waiting_rows >= self._layout.row_group_rows:
                self._flush(self._layout.row_group_rows)
            if self._waiting_bytes >= _MAX_BYTES:
                self._flush(self._waiting_rows)

    def close(self) -> WrittenFile:
        """Complete the file; a second call returns the same result."""
        if self._written is not None:
            return self._written
        if self._context is None:
            raise SchemaError("the file was aborted", where=self._key)
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
        context, self._context = self._context, None
        context.__exit__(None, None, None)
        scalars = {path: merge_ranges(parts) for path, parts in self._ranges.items()}
        self._written = WrittenFile(self._key, size, self._rows, geo, scalars, self._footers[0])
        return self._written

    def abort(self) -> None:
        """Abort the file and remove what was written of it; a complete file stays."""
        self._leave(InterruptedError(f"{self._key} is aborted"))

    def _flush(self, rows: int) -> None:
        table = pa.Table.from_batches(self._waiting)
        group, rest = table.slice(0, rows), table.slice(rows)
        schema = self._layout.schema
        for leaf, kind in self._geo:
            values = leaf_values(group.column(self._tops[leaf.parts[0]]), schema, leaf.parts)
            self._geo_parts[leaf.parts].append(column_stats(values, type=kind))
            if leaf.parts in self._srids:
                self._srids[leaf.parts] |= srids_of(values)
        for path in self._columns.rasters:
            values = leaf_values(group.column(self._tops[path[0]]), schema, path)
            self._geo_parts[path].append(self._raster_stats(values, path))
        for path, parts in self._ranges.items():
            parts.append(column_range(leaf_values(group.column(self._tops[path[0]]), schema, path)))
        # pyarrow excludes NaN from minima and maxima. In Spark NaN is greater than any number, and Spark skips by them.
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
        result = dict(self._layout.properties)
        if self._layout.geoparquet is not None:
            tops = {parts[0]: stats for parts, stats in geo.items() if len(parts) == 1}
            srids = {parts[0]: column_srids for parts, column_srids in self._srids.items() if len(parts) == 1}
            result[GEO] = geo_property(with_srids(self._layout.geoparquet, srids), tops)
        return result

    def _edit_footer(self) -> int:
        """Add what pyarrow cannot write to the footer, and return the size of the file."""
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
        context, self._context = self._context, None
        if context is None:
            return
        self._waiting, self._waiting_rows = [], 0
        for open_file in (getattr(self, "_writer", None), getattr(self, "_sink", None)):
            _close_quietly(open_file)
        # The context manager re-raises the error, which the caller either raises or has caused.
        try:
            context.__exit__(type(problem), problem, problem.__traceback__)
        except BaseException as raised:
            if raised is not problem:
                raise


def _close_quietly(open_file: Any) -> None:
    try:
        if open_file is not None:
            open_file.close()
    except (OSError, RuntimeError, pa.ArrowException):
        pass  # the incomplete file is removed in any case


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= _MAX_BYTES or len(batch) <= 1:
        yield batch
        return
    half = len(batch) // 2
    yield from _pieces(batch.slice(0, half))
    yield from _pieces(batch.slice(half))


def _refuse_havasu(columns: FileColumns) -> None:
    """Raise for what only Havasu stores: rasters, and geometries that are not WKB."""
    for leaf in columns.leaves:
        wkb = not isinstance(leaf.type, (GeometryType, GeographyType)) or leaf.type.encoding is GeometryEncoding.WKB
        if isinstance(leaf.type, RasterType) or not wkb:
            what = f"a column of type {type_name(leaf.type)} cannot be written"
            raise SchemaError(what, where=join_path(leaf.parts), remedy="cast it or leave it out")


def _chunk_stats(stats: ColumnStats) -> ChunkStats:
    return ChunkStats(stats.box, stats.types, stats.rows - stats.null_count)


def _crs_properties(types: Iterable[GeometryType | GeographyType]) -> dict[str, str]:
    """The definitions that `projjson:<property>` refers to: any reader can find them in the file."""
    properties: dict[str, str] = {}
    for kind in types:
        if kind.crs.property_name is not None and kind.crs.resolved is not None:
            properties[kind.crs.property_name] = kind.crs.resolved
    return properties


def _is_plain(schema: Schema, path: _Path) -> bool:
    """Whether a requested column is not a geo column, which always has statistics; one in a list is refused."""
    fields = schema.fields
    for name in path[:-1]:
        type_ = next((field.type for field in fields if field.name == name), None)
        if type_ is not None and not isinstance(type_, StructType):
            raise SchemaError("a column inside a list or map has no range", where=join_path(path))
        fields = () if type_ is None else type_.fields
    kind = schema.find(join_path(path)).type
    if isinstance(kind, StructType):
        raise SchemaError("a struct has no range", where=join_path(path))
    return not isinstance(kind, (GeometryType, GeographyType))
