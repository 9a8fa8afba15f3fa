"""What the data files of a snapshot hold: their footers' types, the values of their geo columns, their rasters.

Everything here reads data files and gets slower with their number; opening and explaining a table needs none of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import RasterError, UnsupportedTableError
from geolake_nb.geo.wkb import may_nest_deeply, readable_geometry_text
from geolake_nb.model.file_table import has_column
from geolake_nb.model.snapshot import file_field, geo_file_fields
from geolake_nb.model.types import GeographyType, GeometryEncoding, GeometryType, RasterType
from geolake_nb.parquet.footer import FooterReader, read_metadata
from geolake_nb.parquet.geoparquet import wkb_of_coordinates
from geolake_nb.parquet.opening import Room, column_leaves, open_parquet_file, value_batches
from geolake_nb.parquet.schema import PATH_KEY
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow.parquet as pq
    from numpy.typing import NDArray

    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.statistics import ColumnStats
    from geolake_nb.model.types import DataType, Field
    from geolake_nb.parquet.geoparquet import GeoEncoding
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

_SHAPES = (GeometryType, GeographyType)
_LONG_JSON = 1_000_000
_BATCH_ROWS = 131_072
_SPREAD = 1 << 20
"""How many values a sample is drawn from."""
_SAMPLE_BYTES = 1 << 26
_AT_ONCE = 10_000
"""How many footers, or rasters as Python objects, are in memory at a time."""
_RASTER_BYTES = 500
"""Bytes per raster in addition to its values, mostly for its outline."""

__all__ = [
    "OtherFiles",
    "data_key",
    "data_keys",
    "footer_tables",
    "inside_structs",
    "leaf_values",
    "missing_files",
    "native_encodings",
    "other_files",
    "parts_in_file",
    "raster_groups",
    "raster_rows",
    "require_parquet",
    "row_group_table",
    "sample_shapes",
    "scan_values",
]


def data_keys(snapshot: Snapshot) -> list[str]:
    """The paths of the data files as storage keys, in the order of the file table."""
    return list(map(_as_key(snapshot), snapshot.files.table["path"].to_pylist()))


def data_key(snapshot: Snapshot, position: int) -> str:
    """The path of the data file at that row of the file table, as a storage key."""
    return _as_key(snapshot)(snapshot.files.table["path"][position].as_py())


def _as_key(snapshot: Snapshot) -> Callable[[str], str]:
    return snapshot.format.file_key(snapshot)


@dataclass(frozen=True, slots=True)
class OtherFiles:
    """The data files that are not read here: Iceberg tables may have them in Avro or ORC."""

    positions: tuple[int, ...]
    """Rows of the file table."""
    formats: tuple[str, ...]
    """Such as `ORC`."""


def other_files(snapshot: Snapshot) -> OtherFiles:
    """The data files that are not Parquet."""
    table = snapshot.files.table
    if not has_column(table, "format"):
        return OtherFiles((), ())
    formats = pc.utf8_upper(pc.fill_null(table["format"].cast(pa.string()), "null"))
    others = np.flatnonzero(pc.not_equal(formats, "PARQUET").to_numpy())
    names = formats.take(pa.array(others, pa.int64())).unique().to_pylist()
    return OtherFiles(tuple(others.tolist()), tuple(sorted(printable(name, 20) for name in names)))


def require_parquet(snapshot: Snapshot, files: Sequence[int] | None = None) -> None:
    """Raise UnsupportedTableError for data files in Avro or ORC, which Iceberg tables may have and are not read here.

    `files` are rows of the file table, all by default.
    """
    other = other_files(snapshot)
    others = other.positions if files is None or not other.positions else sorted({*other.positions} & {*files})
    if others:
        table = snapshot.files.table
        path, name = table["path"][others[0]].as_py(), table["format"][others[0]].as_py()
        count = f", the first of {len(others):,}" if len(others) > 1 else ""
        raise UnsupportedTableError(
            f"the data file {printable(path, 300)} is in {printable(str(name).upper(), 20)}{count}; only Parquet is"
            " read",
            where=snapshot.location,
            remedy="rewrite it as Parquet; the metadata of the table can be shown, explained and checked without it",
        )


def missing_files(storage: Storage, snapshot: Snapshot) -> list[int]:
    """The rows of the file table whose files do not exist."""
    return [row for row, there in enumerate(storage.exist(data_keys(snapshot))) if not there]


def row_group_table(
    storage: Storage,
    snapshot: Snapshot,
    *,
    files: Sequence[int] | None = None,
    on_progress: Progress | None = None,
) -> pa.Table:
    """The row groups of the data files: see `row_groups`. `files` are rows of the file table, all by default."""
    parts = _footers(storage, snapshot, files, on_progress)
    return pa.concat_tables([_row_groups(storage, snapshot, part) for part in parts])


def footer_tables(
    storage: Storage,
    snapshot: Snapshot,
    *,
    files: Sequence[int] | None = None,
    on_progress: Progress | None = None,
) -> tuple[pa.Table, pa.Table]:
    """The row groups of the data files and the geo types that their footers declare, which are read once for both.

    The latter has one row per file and column: see `footer_facts`. `files` are rows of the file table, all by default.
    """
    from geolake_nb.parquet.schema import footer_facts

    groups, facts = [], []
    for part in _footers(storage, snapshot, files, on_progress):
        groups.append(_row_groups(storage, snapshot, part))
        reader = FooterReader()
        views = (
            (path, reader.view(footer, where=f"{storage.location}/{path}"))
            for path, footer in zip(part.stored.to_pylist(), part.footers, strict=True)
        )
        facts.append(footer_facts(views, snapshot.schema, geo_file_fields(snapshot)))
    return pa.concat_tables(groups), pa.concat_tables(facts)


@dataclass(frozen=True, slots=True, eq=False)
class _Footers:
    """The footers of a batch of files: those of a million would not fit in memory."""

    keys: list[str]
    stored: pa.Array
    footers: Sequence[pq.FileMetaData]


def _footers(
    storage: Storage, snapshot: Snapshot, files: Sequence[int] | None, on_progress: Progress | None
) -> Iterator[_Footers]:
    """The footers of the data files, batch by batch; a Parquet dataset has already read them."""
    require_parquet(snapshot, files)
    keys, stored = data_keys(snapshot), snapshot.files.table["path"].combine_chunks()
    views = snapshot.format.footer_views(snapshot)
    known = None if views is None else [view.metadata for view in views]
    if files is not None:
        keys, stored = [keys[index] for index in files], stored.take(pa.array(files, pa.int64()))
        known = None if known is None else [known[index] for index in files]
    for start in range(0, max(len(keys), 1), _AT_ONCE):
        some = keys[start : start + _AT_ONCE]

        def report(done: int, _: int, start: int = start) -> None:
            if on_progress is not None:
                on_progress(start + done, len(keys))

        footers = known[start : start + _AT_ONCE] if known is not None else None
        if footers is None:
            footers = list(read_metadata(storage, some, on_progress=report))
        yield _Footers(some, stored[start : start + _AT_ONCE], footers)


def _row_groups(storage: Storage, snapshot: Snapshot, part: _Footers) -> pa.Table:
    """The row groups of some files, with the paths of the file table."""
    from geolake_nb.parquet.footer import row_groups

    table = row_groups(storage, part.keys, snapshot.schema, fields=geo_file_fields(snapshot), footers=part.footers)
    positions = pc.index_in(table["path"].combine_chunks(), value_set=pa.array(part.keys, pa.string()))
    return table.set_column(0, "path", part.stored.take(positions))


def scan_values(
    storage: Storage, snapshot: Snapshot, positions: Sequence[int], *, on_progress: Progress | None = None
) -> dict[str, dict[str, ColumnStats]]:
    """The statistics of the geo columns in some files, from every value in them: by path, then by column."""
    from geolake_nb.geo.bounds import bounds_of_chunks

    require_parquet(snapshot, positions)
    keys, stored = data_keys(snapshot), snapshot.files.table["path"]
    stats: dict[str, dict[str, ColumnStats]] = {}
    for done, position in enumerate(positions, start=1):
        path = stored[position].as_py()
        stats[path] = {
            name: bounds_of_chunks(pieces, type=_plain_type(field.type), name=f"{path}: {name}")
            for name, field, pieces in _shape_pieces(storage, snapshot, keys[position])
        }
        if on_progress is not None:
            on_progress(done, len(positions))
    return stats


def sample_shapes(storage: Storage, snapshot: Snapshot, position: int, column: str, limit: int) -> NDArray[np.object_]:
    """At most `limit` shapely geometries of a column in one file, spread over its rows; invalid ones are left out.

    There are fewer where that many would take too much memory.
    """
    key = data_key(snapshot, position)
    for name, field, pieces in _shape_pieces(storage, snapshot, key):
        if name == column:
            chosen = _spread(pieces, limit)
            return _shapes(chosen.to_pylist(), _plain_type(field.type), f"{key}: {name}")
    return np.empty(0, object)


def _spread(pieces: Iterable[pa.ChunkedArray], limit: int) -> pa.ChunkedArray:
    """At most `limit` non-null values, spread as evenly as possible, within a limit of bytes."""
    kept: list[pa.ChunkedArray] = []
    seen, step = 0, 1
    for piece in pieces:
        there = piece.drop_null()
        # A slice would keep its whole chunk in memory.
        kept.append(there.take(pa.array(np.arange(-seen % step, len(there), step))))
        seen += len(there)
        while sum(len(values) for values in kept) > 1 and (
            sum(len(values) for values in kept) > max(_SPREAD, limit)
            or sum(values.nbytes for values in kept) > _SAMPLE_BYTES
        ):
            step *= 2
            whole = pa.chunked_array([chunk for values in kept for chunk in values.chunks], there.type)
            kept = [whole.take(pa.array(np.arange(0, len(whole), 2)))]
    if not kept:
        return pa.chunked_array([], pa.binary())
    whole = pa.chunked_array([chunk for values in kept for chunk in values.chunks], kept[0].type)
    chosen = np.unique(np.linspace(0, max(0, len(whole) - 1), min(limit, len(whole))).astype(np.int64))
    return whole.take(pa.array(chosen))


def _shapes(values: list[Any], type_: GeometryType | GeographyType, where: str) -> NDArray[np.object_]:
    import shapely

    encoding = type_.encoding
    if encoding is GeometryEncoding.WKT:
        texts = [text for text in values if readable_geometry_text(text) is None]
        parsed = shapely.from_wkt(texts, on_invalid="ignore")
    elif encoding is GeometryEncoding.GEOJSON:
        parsed = shapely.from_geojson([text for text in values if len(text) < _LONG_JSON], on_invalid="ignore")
    else:
        # Geometry collections nested thousands deep would crash the process.
        parsed = shapely.from_wkb([wkb for wkb in values if not may_nest_deeply(wkb)], on_invalid="ignore")
    shapes: NDArray[np.object_] = np.asarray(parsed, object)
    return shapes[~(shapely.is_missing(shapes) | shapely.is_empty(shapes))] if len(shapes) else shapes


def raster_groups(
    storage: Storage,
    snapshot: Snapshot,
    *,
    bands: bool = False,
    files: Sequence[int] | None = None,
    on_progress: Progress | None = None,
) -> pa.Table:
    """`path` and each raster column as in `raster_facts`; without its bands no pixel is read.

    `files` are rows of the file table, all by default.
    """
    parts: list[pa.Table] = []
    stored, as_key = snapshot.files.table["path"], _as_key(snapshot)
    positions = range(len(stored)) if files is None else files
    room = Room()
    for done, position in enumerate(positions, start=1):
        path = stored[position].as_py()
        columns = dict(_rasters(storage, snapshot, as_key(path), bands=bands, room=room, row_bytes=len(path)))
        if columns:
            count = len(next(iter(columns.values())))
            parts.append(pa.table({"path": pa.array([path] * count, pa.string()), **columns}))
        if on_progress is not None:
            on_progress(done, len(positions))
    if not parts:
        return pa.table({"path": pa.array([], pa.string())})
    # A column that was added later is null in older files.
    return pa.concat_tables(parts, promote_options="default")


def raster_rows(storage: Storage, snapshot: Snapshot, *, on_progress: Progress | None = None) -> pa.Table:
    """One row per raster: its size, CRS, WGS84 box and outline as WKB, and why one of them is missing."""
    groups = raster_groups(storage, snapshot, on_progress=on_progress)
    names = [name for name, _ in _columns(snapshot, RasterType) if has_column(groups, name)]
    parts = [
        _placed_rasters(groups.slice(start, _AT_ONCE), name)
        for name in names
        for start in range(0, len(groups), _AT_ONCE)
    ]
    return pa.concat_tables([_RASTER_SCHEMA.empty_table(), *parts])


def _placed_rasters(groups: pa.Table, name: str) -> pa.Table:
    import shapely

    from geolake_nb.raster_data.arrow import metadata_from_arrow
    from geolake_nb.raster_data.footprint import wgs84_bounds, wgs84_footprint

    rows: list[dict[str, Any]] = []
    for path, raster in zip(groups["path"].to_pylist(), metadata_from_arrow(groups[name]), strict=True):
        if raster is None:
            continue
        bounds, outline = wgs84_bounds(raster), wgs84_footprint(raster)
        box = bounds.box
        rows.append(
            {
                "path": path,
                "column": name,
                "width": raster.width,
                "height": raster.height,
                "bands": raster.num_bands,
                "crs_wkt": raster.crs_wkt,
                **{side: None if box is None else getattr(box, side) for side in ("xmin", "ymin", "xmax", "ymax")},
                "footprint": None if outline.shape is None else shapely.to_wkb(outline.shape),
                "reason": bounds.reason,
            }
        )
    return pa.Table.from_pylist(rows, _RASTER_SCHEMA)


_RASTER_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("column", pa.string()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("bands", pa.int32()),
        ("crs_wkt", pa.dictionary(pa.int32(), pa.string())),
        *((side, pa.float64()) for side in ("xmin", "ymin", "xmax", "ymax")),
        ("footprint", pa.binary()),
        ("reason", pa.string()),
    ]
)


def _columns(snapshot: Snapshot, *kinds: type[DataType]) -> list[tuple[str, Field]]:
    return [(path, field) for path, field in snapshot.schema.geo_columns() if isinstance(field.type, kinds)]


def _shape_pieces(
    storage: Storage, snapshot: Snapshot, key: str
) -> Iterator[tuple[str, Field, Iterator[pa.ChunkedArray]]]:
    """The values of the geo columns in a file, chunk by chunk; columns that the file lacks are left out."""
    with open_parquet_file(storage, key) as file:
        for name, field, stored, parts in _columns_in_file(storage, snapshot, key, file, GeometryType, GeographyType):
            # A file need not declare that a binary column holds geometries.
            type_ = stored.type
            native = isinstance(type_, _SHAPES) and type_.encoding is GeometryEncoding.GEOARROW
            path = ".".join(parts) if native else str(stored.metadata.get(PATH_KEY, stored.name))
            if not column_leaves(file, [path]):
                continue
            batches = value_batches(file, [path], rows=_BATCH_ROWS)
            if native:
                wkb = replace(field, type=replace(_plain_type(field.type), encoding=GeometryEncoding.WKB))
                encoding, where = native_encodings(file.metadata).get(parts[0]), f"{storage.location}/{key}: {name}"
                yield name, wkb, _coordinates(batches, parts, encoding, where)
            else:
                yield name, field, (leaf_values(pa.chunked_array([batch.column(0)])) for batch in batches)


def _coordinates(
    batches: Iterable[pa.RecordBatch], parts: Sequence[str], encoding: GeoEncoding | None, where: str
) -> Iterator[pa.ChunkedArray]:
    """Native coordinates, batch by batch, as WKB."""
    for batch in batches:
        values = inside_structs(batch.column(0), parts)
        yield pa.chunked_array([wkb_of_coordinates(values, encoding, where=where)])


def native_encodings(footer: pq.FileMetaData) -> dict[str, GeoEncoding]:
    """The GeoArrow encoding of each native column of a Parquet file, from its GeoParquet metadata."""
    from geolake_nb.parquet.geoparquet import from_geo_metadata

    geo = (footer.metadata or {}).get(b"geo")
    if geo is None:
        return {}
    return {name: column.encoding for name, column in from_geo_metadata(geo, any_crs=True).columns.items()}


def _rasters(
    storage: Storage, snapshot: Snapshot, key: str, *, bands: bool, room: Room, row_bytes: int
) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """The raster columns of a file that have rows; each row takes that many bytes in addition to its values."""
    from geolake_nb.raster_data.arrow import metadata_columns, raster_facts

    where = f"{storage.location}/{key}"
    with open_parquet_file(storage, key) as file:
        for name, _, _, parts in _columns_in_file(storage, snapshot, key, file, RasterType):
            columns = [".".join(parts)] if bands else metadata_columns(*parts)
            if not column_leaves(file, columns):
                raise RasterError(f"the column {name!r} does not hold rasters of version 1", where=where)
            chunks = []
            for batch in value_batches(file, columns, rows=_BATCH_ROWS):
                chunks.append(raster_facts(inside_structs(batch.column(0), parts)))
                size = chunks[-1].nbytes + len(batch) * (_RASTER_BYTES + row_bytes)
                room.take(size, what="the rasters of the table", where=where)
            if chunks:
                yield name, pa.chunked_array(chunks)


def _columns_in_file(
    storage: Storage, snapshot: Snapshot, key: str, file: pq.ParquetFile, *kinds: type[DataType]
) -> Iterator[tuple[str, Field, Field, tuple[str, ...]]]:
    """The columns of those types in a file: the fields of the table and of the file, and the names in the file."""
    view = FooterReader().view(file.metadata, where=f"{storage.location}/{key}")
    fields = geo_file_fields(snapshot)
    for name, field in _columns(snapshot, *kinds):
        here = fields[name]
        stored = view.find(here.parts, field_id=here.id)
        # Iceberg, Column Projection: by field id, whatever the name was when the file was written.
        parts = view.parts(here.parts, field_id=here.id)
        if stored is not None and parts is not None:
            yield name, field, stored, parts


def parts_in_file(file: pq.ParquetFile, snapshot: Snapshot, column: str, *, where: str) -> tuple[str, ...] | None:
    """The names of a column and its parents in a data file, by id where both have ids; `None` if the file lacks it."""
    here = file_field(snapshot, column)
    return FooterReader().view(file.metadata, where=where).parts(here.parts, field_id=here.id)


def inside_structs(values: pa.Array | pa.ChunkedArray, parts: Sequence[str]) -> pa.Array | pa.ChunkedArray:
    """The column at the end of a path whose first part was already read; null where a struct is null.

    >>> inside_structs(pa.array([{"b": {"c": 1}}, None]), ["a", "b", "c"]).to_pylist()
    [1, None]
    """
    for part in parts[1:]:
        values = values.flatten()[values.type.get_field_index(part)]
    return values


def leaf_values(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values inside the structs, lists and maps around a leaf that was read alone."""
    while not isinstance(values.type, pa.BaseExtensionType) and pa.types.is_nested(values.type):
        is_struct = pa.types.is_struct(values.type)
        kind = values.type.field(0).type if is_struct else values.type.value_type
        parts = [chunk.flatten()[0] if is_struct else chunk.flatten() for chunk in values.chunks]
        values = pa.chunked_array(parts, kind)
    return values


def _plain_type(type_: DataType) -> GeometryType | GeographyType:
    assert isinstance(type_, GeometryType | GeographyType)
    return type_
