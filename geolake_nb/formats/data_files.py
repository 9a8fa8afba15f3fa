"""What the data files of a snapshot hold: their footers' types, the values of their geo columns, their rasters.

Everything here reads files and takes time with their number: nothing of it is needed to open or to explain a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.core.nesting import may_nest_deeply, readable_geometry_text
from geolake_nb.core.schema_parquet import PATH_KEY
from geolake_nb.core.types import GeographyType, GeometryEncoding, GeometryType, RasterType
from geolake_nb.errors import GeolakeError, RasterError
from geolake_nb.formats.file_fields import file_field, geo_file_fields
from geolake_nb.formats.file_table import has_column
from geolake_nb.formats.parquet.footer_view import FooterReader
from geolake_nb.formats.parquet.opening import column_leaves, open_parquet_file, value_batches
from geolake_nb.formats.parquet.page_sizes import Room
from geolake_nb.formats.snapshot import TableFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow.parquet as pq
    from numpy.typing import NDArray

    from geolake_nb.core.statistics import ColumnStats
    from geolake_nb.core.types import DataType, Field
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage

    Progress = Callable[[int, int], None]

_LONG_JSON = 1_000_000
_BATCH_ROWS = 131_072
_SPREAD = 1 << 20
"""From how many values a sample is drawn."""
_SAMPLE_BYTES = 1 << 26
_AT_ONCE = 10_000
"""How many footers are held at a time, and how many rasters as objects of Python."""
_RASTER_BYTES = 500
"""What a raster takes beside its own values: its outline, mostly."""

__all__ = [
    "data_key",
    "data_keys",
    "footer_tables",
    "inside_structs",
    "leaf_values",
    "missing_files",
    "parts_in_file",
    "raster_groups",
    "raster_rows",
    "row_group_table",
    "sample_shapes",
    "scan_values",
]


def data_keys(snapshot: Snapshot) -> list[str]:
    """The paths of the data files as the storage takes them, in the order of the file table."""
    return list(map(_as_key(snapshot), snapshot.files.table["path"].to_pylist()))


def data_key(snapshot: Snapshot, position: int) -> str:
    """The path of the data file at that place of the file table, as the storage takes it."""
    return _as_key(snapshot)(snapshot.files.table["path"][position].as_py())


def _as_key(snapshot: Snapshot) -> Callable[[str], str]:
    if snapshot.format is TableFormat.DELTA:
        from geolake_nb.formats.delta.data_paths import decoded_path

        return decoded_path
    if snapshot.format is TableFormat.PARQUET:
        return str
    key: Callable[[str], str] = snapshot.details.paths.key
    return key


def missing_files(storage: Storage, snapshot: Snapshot) -> list[int]:
    """The rows of the file table whose files are not there."""
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

    The latter has a row a file and column: see `footer_facts`. `files` are rows of the file table, all by default.
    """
    from geolake_nb.formats.parquet.footer_facts import footer_facts

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
    """The footers of some files: those of a million would not fit."""

    keys: list[str]
    stored: pa.Array
    footers: Sequence[pq.FileMetaData]


def _footers(
    storage: Storage, snapshot: Snapshot, files: Sequence[int] | None, on_progress: Progress | None
) -> Iterator[_Footers]:
    """The footers of the data files, part by part; a set of Parquet files has them already."""
    keys, stored = data_keys(snapshot), snapshot.files.table["path"].combine_chunks()
    held = snapshot.details.metadata if snapshot.format is TableFormat.PARQUET else None
    if files is not None:
        keys, stored = [keys[place] for place in files], stored.take(pa.array(files, pa.int64()))
        held = None if held is None else [held[place] for place in files]
    for start in range(0, max(len(keys), 1), _AT_ONCE):
        some = keys[start : start + _AT_ONCE]

        def told(done: int, _: int, start: int = start) -> None:
            if on_progress is not None:
                on_progress(start + done, len(keys))

        footers = held[start : start + _AT_ONCE] if held is not None else None
        if footers is None:
            footers = list(storage.parquet_metadata(some, on_progress=told))
        yield _Footers(some, stored[start : start + _AT_ONCE], footers)


def _row_groups(storage: Storage, snapshot: Snapshot, part: _Footers) -> pa.Table:
    """The row groups of some files, with paths as the file table has them."""
    from geolake_nb.formats.parquet.row_groups import row_groups

    table = row_groups(storage, part.keys, snapshot.schema, fields=geo_file_fields(snapshot), footers=part.footers)
    places = pc.index_in(table["path"].combine_chunks(), value_set=pa.array(part.keys, pa.string()))
    return table.set_column(0, "path", part.stored.take(places))


def scan_values(
    storage: Storage, snapshot: Snapshot, positions: Sequence[int], *, on_progress: Progress | None = None
) -> dict[str, dict[str, ColumnStats]]:
    """The statistics of the geo columns in some files, from every value in them: by path, then by column."""
    from geolake_nb.core.bounds import bounds_of_pieces

    keys, stored = data_keys(snapshot), snapshot.files.table["path"]
    found: dict[str, dict[str, ColumnStats]] = {}
    for done, position in enumerate(positions, start=1):
        path = stored[position].as_py()
        found[path] = {
            name: bounds_of_pieces(pieces, type=_plain_type(field.type), name=f"{path}: {name}")
            for name, field, pieces in _shape_pieces(storage, snapshot, keys[position])
        }
        if on_progress is not None:
            on_progress(done, len(positions))
    return found


def sample_shapes(storage: Storage, snapshot: Snapshot, position: int, column: str, limit: int) -> NDArray[np.object_]:
    """At most so many geometries of a column in one file, as shapely's, spread over its rows; bad ones are left out.

    They are fewer where so many would take too much memory.
    """
    key = data_key(snapshot, position)
    for name, field, pieces in _shape_pieces(storage, snapshot, key):
        if name == column:
            chosen = _spread(pieces, limit)
            return _shapes(chosen.to_pylist(), _plain_type(field.type), f"{key}: {name}")
    return np.empty(0, object)


def _spread(pieces: Iterable[pa.ChunkedArray], limit: int) -> pa.ChunkedArray:
    """At most so many values that are not null, as far from each other as can be, and of not too many bytes."""
    kept: list[pa.ChunkedArray] = []
    seen, step = 0, 1
    for piece in pieces:
        there = piece.drop_null()
        # A slice would hold all of its piece.
        kept.append(there.take(pa.array(np.arange(-seen % step, len(there), step))))
        seen += len(there)
        while sum(len(one) for one in kept) > 1 and (
            sum(len(one) for one in kept) > max(_SPREAD, limit) or sum(one.nbytes for one in kept) > _SAMPLE_BYTES
        ):
            step *= 2
            whole = pa.chunked_array([chunk for one in kept for chunk in one.chunks], there.type)
            kept = [whole.take(pa.array(np.arange(0, len(whole), 2)))]
    if not kept:
        return pa.chunked_array([], pa.binary())
    whole = pa.chunked_array([chunk for one in kept for chunk in one.chunks], kept[0].type)
    chosen = np.unique(np.linspace(0, max(0, len(whole) - 1), min(limit, len(whole))).astype(np.int64))
    return whole.take(pa.array(chosen))


def _shapes(values: list[Any], type_: GeometryType | GeographyType, where: str) -> NDArray[np.object_]:
    import shapely

    encoding = type_.encoding
    if encoding is GeometryEncoding.GEOARROW:
        raise GeolakeError("its coordinates are in nested lists, of which no sample is drawn", where=where)
    if encoding is GeometryEncoding.WKT:
        held = [text for text in values if readable_geometry_text(text) is None]
        found = shapely.from_wkt(held, on_invalid="ignore")
    elif encoding is GeometryEncoding.GEOJSON:
        found = shapely.from_geojson([text for text in values if len(text) < _LONG_JSON], on_invalid="ignore")
    else:
        # Collections within collections, thousands deep, would end the process.
        found = shapely.from_wkb([wkb for wkb in values if not may_nest_deeply(wkb)], on_invalid="ignore")
    shapes: NDArray[np.object_] = np.asarray(found, object)
    return shapes[~(shapely.is_missing(shapes) | shapely.is_empty(shapes))] if len(shapes) else shapes


def raster_groups(
    storage: Storage,
    snapshot: Snapshot,
    *,
    bands: bool = False,
    files: Sequence[int] | None = None,
    on_progress: Progress | None = None,
) -> pa.Table:
    """`path` and each raster column as `raster_facts` has it; without its bands no byte of a pixel is read.

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
    # A column that came later is null in the files before it.
    return pa.concat_tables(parts, promote_options="default")


def raster_rows(storage: Storage, snapshot: Snapshot, *, on_progress: Progress | None = None) -> pa.Table:
    """One row a raster: its size, its CRS, its WGS84 box, its true outline as WKB, and why one of them is missing."""
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

    from geolake_nb.core.raster_arrow import metadata_from_arrow
    from geolake_nb.core.raster_footprint import wgs84_bounds, wgs84_footprint

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
    """The values of the geo columns in a file, piece by piece; a column that the file does not have is left out."""
    with open_parquet_file(storage, key) as file:
        for name, field, found, _ in _found(storage, snapshot, key, file, GeometryType, GeographyType):
            path = str(found.metadata.get(PATH_KEY, found.name))
            if column_leaves(file, [path]):
                batches = value_batches(file, [path], rows=_BATCH_ROWS)
                yield name, field, (leaf_values(pa.chunked_array([one.column(0)])) for one in batches)


def _rasters(
    storage: Storage, snapshot: Snapshot, key: str, *, bands: bool, room: Room, row_bytes: int
) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """The raster columns in a file that it has rows of; each row takes so many bytes beside its values."""
    from geolake_nb.core.raster_arrow import metadata_columns, raster_facts

    where = f"{storage.location}/{key}"
    with open_parquet_file(storage, key) as file:
        for name, _, _, parts in _found(storage, snapshot, key, file, RasterType):
            columns = [".".join(parts)] if bands else metadata_columns(*parts)
            if not column_leaves(file, columns):
                raise RasterError(f"the column {name!r} holds no rasters of version 1", where=where)
            chunks = []
            for batch in value_batches(file, columns, rows=_BATCH_ROWS):
                chunks.append(raster_facts(inside_structs(batch.column(0), parts)))
                size = chunks[-1].nbytes + len(batch) * (_RASTER_BYTES + row_bytes)
                room.take(size, what="the rasters of the table", where=where)
            if chunks:
                yield name, pa.chunked_array(chunks)


def _found(
    storage: Storage, snapshot: Snapshot, key: str, file: pq.ParquetFile, *kinds: type[DataType]
) -> Iterator[tuple[str, Field, Field, tuple[str, ...]]]:
    """The columns of those types that a file has: as the table and as the file has them, and their names in it."""
    view = FooterReader().view(file.metadata, where=f"{storage.location}/{key}")
    fields = geo_file_fields(snapshot)
    for name, field in _columns(snapshot, *kinds):
        here = fields[name]
        found = view.find(here.parts, field_id=here.id)
        # Iceberg, Column Projection: by the id, whatever the name was when the file was written.
        parts = view.parts(here.parts, field_id=here.id)
        if found is not None and parts is not None:
            yield name, field, found, parts


def parts_in_file(file: pq.ParquetFile, snapshot: Snapshot, column: str, *, where: str) -> tuple[str, ...] | None:
    """The names of a column and its parents in a data file, by its id where both have ids; `None` if it has none."""
    here = file_field(snapshot, column)
    return FooterReader().view(file.metadata, where=where).parts(here.parts, field_id=here.id)


def inside_structs(values: pa.Array | pa.ChunkedArray, parts: Sequence[str]) -> pa.Array | pa.ChunkedArray:
    """The column at the end of a path, of which the first part is read already; null where a struct is.

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
