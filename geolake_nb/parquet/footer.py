"""The footer of a Parquet file: read from its last bytes, parsed, and its row groups as one Arrow table."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from geolake_nb.errors import CorruptTableError, GeolakeError, SchemaError, UnsupportedTableError
from geolake_nb.model.crs import CRS84, UNKNOWN_CRS, CrsForm
from geolake_nb.model.file_table import FileTable
from geolake_nb.model.schema import split_path
from geolake_nb.model.table_format import FileField
from geolake_nb.model.types import GeographyType, GeometryType
from geolake_nb.parquet.footer_boxes import (
    BOX_MARK,
    evidence_columns,
    has_box_mark,
    is_own_writer,
    locate,
    without_column,
)
from geolake_nb.parquet.footer_shape import require_readable
from geolake_nb.parquet.geoparquet import from_geo_metadata
from geolake_nb.parquet.schema import from_parquet_schema, note_repeated_types, with_geo_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow.parquet as pq

    from geolake_nb.model.crs import Crs
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.types import DataType, Field
    from geolake_nb.parquet.footer_boxes import GeoEvidence
    from geolake_nb.parquet.geoparquet import GeoColumn, GeoMetadata
    from geolake_nb.storage.storage import Storage

__all__ = [
    "FIRST_READ",
    "MAGIC",
    "FileView",
    "FooterReader",
    "SchemaIndex",
    "footer_bytes",
    "parse_footer",
    "read_footer",
    "read_footers",
    "read_metadata",
    "read_sized_metadata",
    "row_groups",
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


# Properties that differ from file to file and do not affect the schema.
_NOT_SHARED = (b"ARROW:schema", b"geo", BOX_MARK.encode())


@dataclass(frozen=True, slots=True, eq=False)
class SchemaIndex:
    """The fields of a schema by path and by id."""

    by_parts: Mapping[tuple[str, ...], Field]
    by_id: Mapping[int, Field]
    parts_by_id: Mapping[int, tuple[str, ...]]
    folded_names: frozenset[str]
    """The case-folded names of the top-level fields."""

    @classmethod
    def of(cls, schema: Schema) -> SchemaIndex:
        """The index of a schema."""
        parts = dict(schema.walk_parts())
        ids = {field.id: path for path, field in parts.items() if field.id is not None}
        folded = frozenset(field.name.casefold() for field in schema.fields)
        return cls(parts, {id_: parts[path] for id_, path in ids.items()}, ids, folded)


@dataclass(frozen=True, slots=True, eq=False)
class FileView:
    """The parsed footer of one file."""

    metadata: pq.FileMetaData
    parquet_schema: Schema
    """With the types of Parquet only; equal schemas of many files are one object."""
    parquet_fields: Mapping[tuple[str, ...], Field]
    """Its fields by their names from the top down."""
    schema: Schema
    """The same with the geometry columns of GeoParquet metadata."""
    leaves: Mapping[str, int]
    """The index of each leaf column by its path in the file."""
    sorted_leaves: Sequence[str]
    geo: GeoMetadata | None
    geo_problem: str | None
    """Which rule the GeoParquet metadata violates; `geo` is still set if only a CRS violates one."""
    own: bool
    """Whether this package wrote the file, or its boxes."""

    index: SchemaIndex

    def find(self, parts: tuple[str, ...], *, field_id: int | None = None) -> Field | None:
        """The field of the file for a table's column: by its id where both have ids, else by its names."""
        if field_id is not None and self.index.by_id:
            return self.index.by_id.get(field_id)
        return self.index.by_parts.get(parts)

    def parts(self, parts: tuple[str, ...], *, field_id: int | None = None) -> tuple[str, ...] | None:
        """The names that the column of `find` and its parents have in the file."""
        if field_id is not None and self.index.by_id:
            return self.index.parts_by_id.get(field_id)
        return parts if parts in self.index.by_parts else None

    def lacks(self, parts: tuple[str, ...], *, field_id: int | None = None) -> bool:
        """Whether the file certainly lacks the column, so that every row reads as null.

        A table with ids may know the columns of a file without ids by other names.
        """
        if field_id is not None:
            return bool(self.index.by_id) and field_id not in self.index.by_id
        return parts[0].casefold() not in self.index.folded_names

    def geo_of(self, field: Field) -> GeoColumn | None:
        """The GeoParquet metadata of a field of the file; only top-level ones have any."""
        top = self.index.by_parts.get((field.name,)) is field
        return self.geo.columns.get(field.name) if self.geo is not None and top else None

    def leaves_below(self, name: str) -> list[str]:
        """The paths of the leaves inside a top-level field, in the order of the file."""
        start = bisect_left(self.sorted_leaves, f"{name}.")
        inside = takewhile(lambda path: path.startswith(f"{name}."), islice(self.sorted_leaves, start, None))
        return sorted(inside, key=lambda path: self.leaves[path])


class FooterReader:
    """Reads footers into views; what many files share is computed once."""

    def __init__(self) -> None:
        self._plain: list[tuple[pq.ParquetSchema, dict[bytes, bytes], Schema, dict[str, int], list[str]]] = []
        self._indexed: dict[tuple[int, tuple[tuple[str, DataType], ...]], tuple[Schema, SchemaIndex]] = {}
        self._kept: list[Schema] = []

    def view(self, metadata: pq.FileMetaData, *, where: str) -> FileView:
        """The view of one footer; `where` names the file in errors."""
        plain, leaves, in_order = self._read_plain(metadata, where)
        geo, problem = None, None
        schema, unnamed = self._with_index(plain, None)
        index = unnamed
        fields = index.by_parts
        text = (metadata.metadata or {}).get(b"geo")
        if text is not None:
            try:
                geo = from_geo_metadata(text, any_crs=True)
                schema, index = self._with_index(plain, geo)
                if any(_breaks_rules(column.crs) for column in geo.columns.values()):
                    from_geo_metadata(text)
            except SchemaError as error:
                problem = str(error)
                geo = geo if index is not unnamed else None
        own = is_own_writer(metadata.created_by) or has_box_mark(metadata)
        return FileView(metadata, plain, fields, schema, leaves, in_order, geo, problem, own, index)

    def _read_plain(self, metadata: pq.FileMetaData, where: str) -> tuple[Schema, dict[str, int], list[str]]:
        # A CRS may be in a property of the file, so properties are compared too.
        shared = {key: text for key, text in (metadata.metadata or {}).items() if key not in _NOT_SHARED}
        parquet = metadata.schema
        for known, properties, schema, leaves, in_order in self._plain:
            if known.equals(parquet) and properties == shared:
                return schema, leaves, in_order
        try:
            schema = from_parquet_schema(metadata)
        except GeolakeError as error:
            raise CorruptTableError(str(error), where=where) from error
        leaves = {parquet.column(index).path: index for index in range(len(parquet))}
        in_order = sorted(leaves)
        self._plain = [(parquet, shared, schema, leaves, in_order), *self._plain[:50]]
        self._kept.append(schema)  # a freed schema would leave its id() to another one
        return schema, leaves, in_order

    def _with_index(self, plain: Schema, geo: GeoMetadata | None) -> tuple[Schema, SchemaIndex]:
        columns = () if geo is None else tuple([(name, column.type) for name, column in geo.columns.items()])
        key = (id(plain), columns)
        if key not in self._indexed:
            schema = plain if geo is None else with_geo_metadata(plain, geo)
            self._indexed[key] = schema, SchemaIndex.of(schema)
        return self._indexed[key]


def _breaks_rules(crs: Crs) -> bool:
    """Whether a CRS may be one that GeoParquet does not allow: not the default, null or PROJJSON."""
    return crs is not CRS84 and crs is not UNKNOWN_CRS and crs.form is not CrsForm.PROJJSON


def row_groups(
    storage: Storage,
    paths: Sequence[str],
    schema: Schema,
    *,
    columns: Sequence[str] | None = None,
    fields: Mapping[str, FileField] | None = None,
    footers: Iterable[pq.FileMetaData] | None = None,
    workers: int = 64,
    on_progress: Callable[[int, int], None] | None = None,
) -> pa.Table:
    """`path, row_group, rows, bytes`, then `c.xmin … c.mmax, c.null_count, c.types, c.source, c.problem` by geo column.

    `paths` are storage keys, `schema` is the table's, and `fields` specify how the files name its geo columns,
    by path; without it, by their names. `bytes` is the compressed size. `columns` are
    paths of geo columns, all of them by default; `footers` are those of the files, if they were already read.

    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.storage.storage import Storage
    >>> row_groups(Storage.at("/tmp"), [], Schema()).column_names
    ['path', 'row_group', 'rows', 'bytes']
    """
    wanted = _geo_columns(schema, fields, columns)
    reader = FooterReader()
    evidence: dict[str, list[GeoEvidence]] = {path: [] for path in wanted}
    of_file: list[int] = []
    group_index: list[int] = []
    rows: list[int] = []
    sizes: list[int] = []
    if footers is None:
        footers = read_metadata(storage, paths, workers=workers, on_progress=on_progress)
    for file, (path, footer) in enumerate(zip(paths, footers, strict=True)):
        count = footer.num_row_groups
        view = reader.view(footer, where=f"{storage.location}/{path}")
        groups = [footer.row_group(index) for index in range(count)]
        of_file += [file] * count
        group_index += range(count)
        rows += [group.num_rows for group in groups]
        sizes += [
            sum(group.column(index).total_compressed_size for index in range(group.num_columns)) for group in groups
        ]
        for name, (column, type_) in wanted.items():
            here = locate(view, view.find(column.parts, field_id=column.id), type_)
            if here is not None:
                evidence[name] += [here.group(index) for index in range(count)]
            else:
                lacks = view.lacks(column.parts, field_id=column.id)
                evidence[name] += [without_column(group.num_rows, lacks=lacks) for group in groups]
    table = FileTable.of(
        path=pa.array(paths, pa.string()).take(pa.array(np.array(of_file, np.int64))),
        bytes=pa.array(sizes, pa.int64()),
        rows=pa.array(rows, pa.int64()),
        geo={name: evidence_columns(per_group) for name, per_group in evidence.items()},
    ).table
    table = table.add_column(1, "row_group", pa.array(group_index, pa.int32())).drop_columns(["deleted_rows"])
    order = ["path", "row_group", "rows", "bytes"]
    return table.select([*order, *[name for name in table.column_names if name not in order]])


def _geo_columns(
    schema: Schema, fields: Mapping[str, FileField] | None, columns: Sequence[str] | None
) -> dict[str, tuple[FileField, GeometryType | GeographyType]]:
    located: dict[str, tuple[FileField, GeometryType | GeographyType]] = {}
    for path, field in schema.geo_columns():
        if isinstance(field.type, (GeometryType, GeographyType)) and (columns is None or path in columns):
            located[path] = FileField(split_path(path)) if fields is None else fields[path], field.type
    return located
