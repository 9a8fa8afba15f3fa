"""What the values in a data file show: statistics of geo columns, strings, and where NaN is.

Parquet's minima and maxima cannot represent NaN, and many writers write the range of the other values. In Spark NaN is
greater than any number, and Spark skips a row group by that range: the rows with NaN are lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import GeolakeError
from geolake_nb.geo.bounds import column_stats
from geolake_nb.geo.box_comparison import EDGE_SLACK, BoxSides, misses
from geolake_nb.model.file_table import sides_of
from geolake_nb.model.snapshot import file_fields, geo_file_fields
from geolake_nb.model.statistics import ColumnStats, Problem, merge
from geolake_nb.model.types import GeographyType, GeometryType, PrimitiveType, RasterType, StringType, StructType
from geolake_nb.parquet.column_ranges import FLOATS, has_nan
from geolake_nb.parquet.footer import FooterReader
from geolake_nb.parquet.footer_boxes import locate
from geolake_nb.parquet.opening import open_parquet_file, value_batches
from geolake_nb.parquet.schema import PATH_KEY
from geolake_nb.raster_data.arrow import METADATA_FIELDS, metadata_columns
from geolake_nb.raster_data.footprint import raster_stats
from geolake_nb.scan.data_files import data_keys, inside_structs, leaf_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow.parquet as pq

    from geolake_nb.model.collation import Collation
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.table_format import FileField
    from geolake_nb.model.types import Field
    from geolake_nb.parquet.footer import FileView
    from geolake_nb.storage.storage import Storage

__all__ = [
    "CollatedString",
    "GroupStats",
    "ScanColumn",
    "distinct_strings",
    "files_hiding_nan",
    "narrow_row_groups",
    "scan_groups",
    "scan_part",
]

_BATCH_ROWS = 131_072


@dataclass(frozen=True, slots=True)
class CollatedString:
    """A string column of a table that compares by a collation, as in data files and statistics."""

    path: tuple[str, ...]
    """Its logical names."""
    physical: tuple[str, ...]
    field_id: int | None
    collation: Collation
    """Without a version, as in the schema."""


def distinct_strings(
    storage: Storage, key: str, columns: Sequence[CollatedString], *, reader: FooterReader
) -> Iterator[tuple[int, pa.Array]]:
    """The strings of each column, by its index, in chunks without duplicates and nulls; rows that a deletion vector
    deletes count too. There are none for a column that the file lacks or has with another type."""
    with open_parquet_file(storage, key, pre_buffer=True) as file:
        view = reader.view(file.metadata, where=f"{storage.location}/{key}")
        for index, column in enumerate(columns):
            for values in _strings(file, view, column):
                yield index, values


def _strings(file: pq.ParquetFile, view: FileView, column: CollatedString) -> Iterator[pa.Array]:
    from geolake_nb.parquet.schema import PATH_KEY

    field = view.find(column.physical, field_id=column.field_id)
    # Some writers do not mark strings, and engines read their binary columns as strings.
    is_bytes = field is not None and isinstance(field.type, PrimitiveType) and field.type.name == "binary"
    if field is None or not (isinstance(field.type, StringType) or is_bytes):
        return
    name = str(field.metadata.get(PATH_KEY, ".".join(column.physical)))
    for batch in value_batches(file, [name], rows=_BATCH_ROWS):
        if not _is_one_leaf(batch.schema):
            return  # a name with a dot is ambiguous with the path of another column
        values = leaf_values(pa.chunked_array([batch.column(0)])).unique().drop_null()
        # UTF-8 is not checked here: the engine orders the strings as they are.
        yield values.cast(pa.string(), safe=False)


def _is_one_leaf(schema: pa.Schema) -> bool:
    fields = list(schema)
    while len(fields) == 1 and pa.types.is_struct(fields[0].type):
        fields = list(fields[0].type)
    return len(fields) == 1 and not pa.types.is_nested(fields[0].type)


def files_hiding_nan(
    storage: Storage,
    snapshot: Snapshot,
    positions: Sequence[int],
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> pa.Table:
    """`path, column`: the floating-point columns of data files with a NaN outside of a row group's minimum and maximum.

    Args:
        storage: reads the data files.
        snapshot: the table.
        positions: rows of its file table.
        on_progress: called with the number of files done and of all files.
    """
    fields = file_fields(snapshot, lambda column: column.type in FLOATS)
    keys, stored = data_keys(snapshot), snapshot.files.table["path"]
    paths: list[str] = []
    columns: list[str] = []
    for done, position in enumerate(positions if fields else (), start=1):
        for column in _columns_hiding_nan(storage, keys[position], fields):
            paths.append(stored[position].as_py())
            columns.append(column)
        if on_progress is not None:
            on_progress(done, len(positions))
    return pa.table({"path": pa.array(paths, pa.string()), "column": pa.array(columns, pa.string())})


def _columns_hiding_nan(storage: Storage, key: str, fields: Mapping[str, FileField]) -> Iterator[str]:
    with open_parquet_file(storage, key) as file:
        view = FooterReader().view(file.metadata, where=f"{storage.location}/{key}")
        for name, here in fields.items():
            stored = view.find(here.parts, field_id=here.id)
            leaf = None if stored is None else view.leaves.get(str(stored.metadata.get(PATH_KEY, "")))
            if stored is None or leaf is None or stored.type not in FLOATS:
                continue
            chunks = [file.metadata.row_group(group).column(leaf) for group in range(file.metadata.num_row_groups)]
            bounded = [
                group
                for group, chunk in enumerate(chunks)
                if chunk.statistics is not None and chunk.statistics.has_min_max
            ]
            batches = value_batches(file, [file.metadata.schema.column(leaf).path], rows=_BATCH_ROWS, groups=bounded)
            if bounded and any(has_nan(leaf_values(pa.chunked_array([batch.column(0)]))) for batch in batches):
                yield name


def narrow_row_groups(
    storage: Storage,
    snapshot: Snapshot,
    positions: Sequence[int],
    row_groups: pa.Table,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> pa.Table:
    """`path, column, row_group`: the row groups whose box in their file leaves out a part of their values.

    Args:
        storage: reads the data files.
        snapshot: the table.
        positions: rows of its file table.
        row_groups: the boxes as the files state them, in footers or in a column of boxes: see `footer.row_groups`.
        on_progress: called with the number of files done and of all files.
    """
    types = {path: field.type for path, field in snapshot.schema.geo_columns()}
    columns = [
        ScanColumn(path, here.parts, here.id, type_)
        for path, here in geo_file_fields(snapshot).items()
        if isinstance(type_ := types[path], GeometryType | GeographyType)
    ]
    keys = data_keys(snapshot)
    chosen = snapshot.files.table["path"].take(pa.array(positions, pa.int64())).combine_chunks()
    of_file = pc.fill_null(pc.index_in(row_groups["path"], value_set=chosen), len(chosen)).to_numpy()
    order = np.argsort(of_file, kind="stable")
    starts = np.searchsorted(of_file[order], np.arange(len(chosen) + 1))
    narrow: dict[str, list[Any]] = {"path": [], "column": [], "row_group": []}
    for done, position in enumerate(positions if columns else (), start=1):
        stated = row_groups.take(pa.array(order[starts[done - 1] : starts[done]]))
        boxed = [column for column in columns if BoxSides.of(stated, column.path).known.any()]
        groups = scan_groups(storage, keys[position], boxed, reader=FooterReader()) if boxed else []
        for column, stats in zip(boxed, groups, strict=True):
            sides = sides_of([group.stats.box for group in stats])
            values = BoxSides({axis: np.asarray(side.to_numpy(zero_copy_only=False)) for axis, side in sides.items()})
            slack = EDGE_SLACK[column.type.algorithm] if isinstance(column.type, GeographyType) else 0.0
            missed = misses(BoxSides.of(stated, column.path), values, slack=slack)
            for group in np.flatnonzero(missed.smaller).tolist():
                narrow["path"].append(chosen[done - 1].as_py())
                narrow["column"].append(column.path)
                narrow["row_group"].append(group)
        if on_progress is not None:
            on_progress(done, len(positions))
    kinds = {"path": pa.string(), "column": pa.string(), "row_group": pa.int64()}
    return pa.table({name: pa.array(narrow[name], kind) for name, kind in kinds.items()})


@dataclass(frozen=True, slots=True)
class ScanColumn:
    """A geo column of a table in data files."""

    path: str
    """Its logical path."""
    physical: tuple[str, ...]
    field_id: int | None
    type: GeometryType | GeographyType
    """A geography for rasters: their boxes are in WGS84 and may also cross the antimeridian."""
    is_raster: bool = False


def scan_part(
    storage: Storage,
    key: str,
    columns: Sequence[ScanColumn],
    *,
    part: int = 0,
    parts: int = 1,
    reader: FooterReader,
) -> list[ColumnStats]:
    """The statistics of each column in one of `parts` equal runs of row groups; only these columns are read.

    What prevents a bound is reported in the statistics and never raised: a value that cannot be read, a
    column that is not found. A file that cannot be read raises.
    """
    with open_parquet_file(storage, key, pre_buffer=True) as file:
        view = reader.view(file.metadata, where=f"{storage.location}/{key}")
        count = file.metadata.num_row_groups
        groups = list(range(part * count // parts, (part + 1) * count // parts))
        return [_column(file, view, column, groups) for column in columns]


@dataclass(frozen=True, slots=True)
class GroupStats:
    """The statistics of a column in one row group."""

    stats: ColumnStats
    is_iso: bool
    """Whether every value is ISO WKB, not EWKB."""


def scan_groups(
    storage: Storage, key: str, columns: Sequence[ScanColumn], *, reader: FooterReader
) -> list[list[GroupStats]]:
    """The statistics of each column in each row group of a file, in order; only these columns are read."""
    with open_parquet_file(storage, key, pre_buffer=True) as file:
        view = reader.view(file.metadata, where=f"{storage.location}/{key}")
        groups = range(file.metadata.num_row_groups)
        return [[_group(file, view, column, group) for group in groups] for column in columns]


def _group(file: pq.ParquetFile, view: FileView, column: ScanColumn, group: int) -> GroupStats:
    from geolake_nb.geo.encodings import to_iso_wkb

    iso = True

    def look(values: pa.ChunkedArray) -> None:
        nonlocal iso
        iso = iso and all(to_iso_wkb(chunk).values is chunk for chunk in values.chunks)

    stats = _column(file, view, column, [group])
    if stats.bad or stats.types is None:
        return GroupStats(stats, not stats.srids)
    # EWKB without an SRID is visible only in the flags of values with Z or M.
    if stats.srids or any(code >= 1000 for code in stats.types):
        here = locate(view, view.find(column.physical, field_id=column.field_id), column.type)
        if here is not None and here.leaf is not None:
            name = file.metadata.schema.column(here.leaf).path
            for batch in value_batches(file, [name], rows=_BATCH_ROWS, groups=[group]):
                look(leaf_values(pa.chunked_array([batch.column(0)])))
    return GroupStats(stats, iso)


def _column(file: pq.ParquetFile, view: FileView, column: ScanColumn, groups: list[int]) -> ColumnStats:
    rows = sum(file.metadata.row_group(group).num_rows for group in groups)
    field = view.find(column.physical, field_id=column.field_id)
    if field is None and view.lacks(column.physical, field_id=column.field_id):
        return ColumnStats(None, (), rows, null_count=rows, empty_count=0)
    if column.is_raster:
        return _rasters(file, field, groups, rows)
    here = locate(view, field, column.type)
    if here is None or here.leaf is None:
        return _unbounded(rows, "the column is not found in the file")
    name = file.metadata.schema.column(here.leaf).path
    if not groups:
        return merge([])
    batches = value_batches(file, [name], rows=_BATCH_ROWS, groups=groups)
    try:
        return merge((_values(batch, here.type) for batch in batches), type=here.type)
    except GeolakeError as problem:
        return _unbounded(rows, problem.what)


def _rasters(file: pq.ParquetFile, field: Field | None, groups: list[int], rows: int) -> ColumnStats:
    """The same for rasters: only their metadata is read, no pixel."""
    inside = field.type.fields if field is not None and isinstance(field.type, StructType) else ()
    # The path of the struct in the file is the prefix of the paths of its leaves.
    tops = [
        str(field.metadata.get(PATH_KEY, "")).rpartition(".")[0] for field in inside if field.name == METADATA_FIELDS[0]
    ]
    if not tops:
        return _unbounded(rows, "the column does not hold rasters of version 1")
    parts = tops[0].split(".")
    batches = value_batches(file, metadata_columns(*parts), rows=_BATCH_ROWS, groups=groups)
    try:
        parted = (inside_structs(pa.chunked_array([batch.column(0)]), tuple(parts)) for batch in batches)
        return merge((raster_stats(values, bands=False) for values in parted), type=RasterType())
    except GeolakeError as problem:
        return _unbounded(rows, problem.what if problem.where is None else f"{problem.where}: {problem.what}")


def _values(batch: pa.RecordBatch, type_: GeometryType | GeographyType) -> ColumnStats:
    return column_stats(leaf_values(pa.chunked_array([batch.column(0)])), type=type_)


def _unbounded(rows: int, reason: str) -> ColumnStats:
    """The statistics of a column without known bounds."""
    return ColumnStats(None, None, rows, 0, 0, unbounded=rows, first_unbounded=Problem(None, reason))
