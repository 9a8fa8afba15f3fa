"""Opens Iceberg and Havasu tables: one snapshot as the model of all formats, with their own details."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import StorageError, UnsupportedTableError
from geolake_nb.formats.havasu.format import HAVASU
from geolake_nb.formats.havasu.metadata import havasu_features, havasu_version
from geolake_nb.formats.iceberg.format import ICEBERG
from geolake_nb.formats.iceberg.location import PathMap, has_metadata, require_metadata
from geolake_nb.formats.iceberg.metadata import TableMetadata, read_metadata
from geolake_nb.geo.box_comparison import usable_bounds
from geolake_nb.model.file_table import (
    PHYSICAL_ROWS,
    BoundSource,
    FileTable,
    GeoStatsColumns,
    has_column,
    physical_rows,
)
from geolake_nb.model.schema import children, join_path
from geolake_nb.model.snapshot import Feature, Protocol, Snapshot, VersionInfo
from geolake_nb.model.statistics import ScalarColumn
from geolake_nb.model.types import GeographyType, GeometryType, ListType, MapType, PrimitiveType, RasterType, StringType

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from geolake_nb.expressions.predicate import ColumnPath
    from geolake_nb.formats.iceberg.manifests import ManifestReader
    from geolake_nb.formats.iceberg.metadata import PartitionSpec, StoredSnapshot
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.types import Field
    from geolake_nb.storage.storage import Storage

__all__ = ["IcebergDetails", "iceberg_features", "iceberg_history", "is_iceberg", "open_iceberg"]


@dataclass(frozen=True, slots=True, eq=False)
class IcebergDetails:
    """The metadata of a snapshot that checks and plans need."""

    metadata: TableMetadata
    metadata_path: str
    """The metadata file, relative to the root of the table."""
    snapshot: StoredSnapshot | None
    manifests: pa.Table
    """One row per manifest: see `manifests.MANIFEST_SCHEMA`; the column `manifest` of the files is its row number."""
    delete_files: pa.Table
    """One row per live delete file: path, rows, kind, referenced_data_file, equality_ids, `counted`, ..."""
    paths: PathMap
    """Maps a stored path to a storage key."""
    quoted_types: bool
    """Whether a geo type is in PyIceberg's quoted form."""
    havasu_version: str | None
    foreign_list_fields: tuple[str, ...] = ()
    """Fields of the manifest list that Iceberg does not define."""
    foreign_entry_fields: tuple[str, ...] = ()
    """Fields of the manifests that Iceberg does not define."""

    @property
    def raw(self) -> Mapping[str, Any]:
        """The metadata file as read."""
        return self.metadata.raw

    @property
    def format_version(self) -> int:
        """The Iceberg format version."""
        return self.metadata.format_version

    @property
    def specs(self) -> Mapping[int, PartitionSpec]:
        """The partition specs by their ids."""
        return self.metadata.specs

    @property
    def sort_orders(self) -> tuple[Mapping[str, Any], ...]:
        """The sort orders as read."""
        return self.metadata.sort_orders

    @property
    def uncounted_deletes(self) -> int:
        """How many delete files may delete rows that `rows` still counts."""
        counted: list[bool] = self.delete_files["counted"].to_pylist()
        return counted.count(False)


_NEW_TYPES = {"timestamp_ns", "timestamptz_ns", "unknown", "variant"}


def iceberg_features(metadata: TableMetadata, schema: Schema, delete_files: pa.Table) -> tuple[Feature, ...]:
    """The features that an engine must support to read and write the table."""
    version = metadata.format_version
    features = []
    if version >= 2:
        features.append(
            Feature("sequence-numbers", "Format version 2: commits are numbered, and rows can be deleted by files.")
        )
    if version >= 3:
        features.append(Feature("row-lineage", "Format version 3: every row has an id that survives rewrites."))
    kinds = sorted(set(delete_files["kind"].to_pylist()))
    features += [Feature(*_DELETES[kind], needed_to_read=True) for kind in kinds]
    features += _type_features(schema, version)
    if metadata.raw.get("encryption-keys"):
        meaning = "Files are encrypted with the keys of the table."
        features.append(Feature("encryption", meaning, needed_to_read=True, known=False))
    return tuple(features)


_DELETES = {
    "deletion-vector": ("deletion-vectors", "Bitmaps in Puffin files mark the deleted rows of a data file."),
    "equality": ("equality-deletes", "Delete files identify rows by values of some columns; readers must skip them."),
    "position": ("position-deletes", "Delete files identify rows by file and position; readers must skip them."),
}


def _type_features(schema: Schema, version: int) -> list[Feature]:
    fields = [field for _, field in schema.walk()]
    types = [field.type for field in fields if "havasu.geometry-encoding" not in field.metadata]
    allowed = "" if version >= 3 else f" The type needs format version 3; this table has version {version}."
    meanings = {}
    if any(isinstance(type_, GeometryType) for type_ in types):
        meanings["geometry"] = f"Columns of geometries on a plane, stored as WKB.{allowed}"
    if any(isinstance(type_, GeographyType) for type_ in types):
        meanings["geography"] = f"Columns of geometries on the Earth with geodesic edges, stored as WKB.{allowed}"
    for name in sorted({type_.name for type_ in types if isinstance(type_, PrimitiveType)} & _NEW_TYPES):
        meanings[name] = f"Columns of the type {name}.{allowed}"
    if any(field.metadata.get("initial-default") is not None for field in fields):
        meanings["default-values"] = "Columns that older files lack have a default other than null."
    return [Feature(name, meaning, needed_to_read=True) for name, meaning in meanings.items()]


def is_iceberg(storage: Storage) -> bool:
    """Whether there is an Iceberg or Havasu table at the root."""
    return has_metadata(storage)


def open_iceberg(
    storage: Storage,
    *,
    metadata: str | None = None,
    snapshot_id: int | None = None,
    timestamp: dt.datetime | None = None,
    ref: str | None = None,
) -> Snapshot:
    """The table at the root of the storage, at its current snapshot or at the requested one.

    `metadata` is the path of a metadata file, else the newest is used. A time without a zone is UTC.
    """
    path, table = _load(storage, metadata)
    havasu = havasu_version(table)
    snapshot = table.pick(snapshot_id=snapshot_id, timestamp=timestamp, ref=ref)
    schema = _schema_at(table, snapshot, ref, travels=snapshot_id is not None or timestamp is not None)
    paths = PathMap(table.location, storage.location)
    # The compiled walk takes a moment to load: not before the table is known to exist.
    from geolake_nb.formats.iceberg.deletes import count_deleted, read_deletes, with_uncounted_deletes
    from geolake_nb.formats.iceberg.manifests import ManifestReader
    from geolake_nb.formats.iceberg.partitions import PartitionColumns

    manifests, foreign = _manifests(storage, paths, snapshot)
    reader = ManifestReader(storage, paths, manifests, PartitionColumns(table.specs, schema))
    deletes = read_deletes(reader)
    geo = dict(schema.geo_columns())
    repeated = _repeated(schema)
    entries = _data_entries(reader, geo)
    path_column, rows, numbers = (entries[name].combine_chunks() for name in ("path", "rows", "sequence_number"))
    deleted, counted = count_deleted(path_column, rows, numbers, deletes)
    deletes = deletes.append_column("counted", counted)
    uncertain = with_uncounted_deletes(path_column, numbers, deletes)
    files = _file_table(
        entries, deleted, uncertain, geo=geo, repeated=repeated, edges=_covered_edges(entries, geo, table, reader)
    )
    details = IcebergDetails(
        metadata=table,
        metadata_path=path,
        snapshot=snapshot,
        manifests=manifests,
        delete_files=deletes,
        paths=paths,
        quoted_types=table.has_quoted_types,
        havasu_version=havasu,
        foreign_list_fields=foreign,
        foreign_entry_fields=tuple(sorted(reader.foreign)),
    )
    features = iceberg_features(table, schema, deletes)
    version = f"format version {table.format_version}"
    if havasu is not None:
        features = (*havasu_features(havasu, schema), *features)
        version = f"Havasu {havasu} on Iceberg {table.format_version}"
    return Snapshot(
        format=ICEBERG if havasu is None else HAVASU,
        location=storage.location,
        version=None if snapshot is None else snapshot.snapshot_id,
        timestamp=table.last_updated if snapshot is None else snapshot.timestamp,
        schema=schema,
        protocol=Protocol(version, features, {"format-version": table.format_version}),
        files=files,
        properties=table.properties,
        partition_columns=_partition_columns(table, schema),
        details=details,
        scalars=_scalars(reader, schema, table, files),
    )


def iceberg_history(storage: Storage, *, metadata: str | None = None) -> tuple[VersionInfo, ...]:
    """The snapshots that the metadata still lists, oldest first, with their summaries and refs."""
    _, table = _load(storage, metadata)
    refs: dict[int, list[str]] = {}
    for ref in table.refs.values():
        refs.setdefault(ref.snapshot_id, []).append(ref.name)
    ordered = sorted(table.snapshots.values(), key=lambda snapshot: (snapshot.sequence_number, snapshot.timestamp))
    return tuple(
        VersionInfo(
            version=snapshot.snapshot_id,
            timestamp=snapshot.timestamp,
            operation=snapshot.operation,
            parent=snapshot.parent_id,
            details={
                "summary": dict(snapshot.summary),
                "refs": sorted(refs.get(snapshot.snapshot_id, [])),
                "schema_id": snapshot.schema_id,
                "sequence_number": snapshot.sequence_number,
                "is_current": snapshot.snapshot_id == table.current_snapshot_id,
            },
        )
        for snapshot in ordered
    )


def _load(storage: Storage, metadata: str | None) -> tuple[str, TableMetadata]:
    path = require_metadata(storage) if metadata is None else storage.resolve(metadata)
    return path, read_metadata(storage.read(path), where=f"{storage.location}/{path}")


def _schema_at(table: TableMetadata, snapshot: StoredSnapshot | None, ref: str | None, *, travels: bool) -> Schema:
    # Iceberg, Appendix F: a past snapshot and a tag are read with the schema of their time, a branch with today's.
    tagged = ref is not None and ref in table.refs and not table.refs[ref].is_branch
    past = snapshot is not None and (travels or tagged)
    return table.schema(snapshot.schema_id if past and snapshot is not None else None)


def _manifests(storage: Storage, paths: PathMap, snapshot: StoredSnapshot | None) -> tuple[pa.Table, tuple[str, ...]]:
    """The manifests of a snapshot, and the fields of their list that Iceberg does not define."""
    from geolake_nb.formats.iceberg.avro import read_header
    from geolake_nb.formats.iceberg.manifests import MANIFEST_SCHEMA, listed_manifests, read_manifest_list
    from geolake_nb.formats.iceberg.writability import foreign_fields

    if snapshot is None:
        return MANIFEST_SCHEMA.empty_table(), ()
    if snapshot.manifest_list is None:
        return listed_manifests(snapshot), ()
    if snapshot.key_id is not None:
        raise UnsupportedTableError("the manifest list is encrypted", where=storage.location)
    try:
        data = storage.read(paths.key(snapshot.manifest_list))
    except StorageError as error:
        # The message names the location of the table; without it, a path outside is hard to understand.
        what = f"the manifest list of snapshot {snapshot.snapshot_id} cannot be read: {error.what}"
        raise type(error)(what, where=error.where, remedy=error.remedy) from None
    where = snapshot.manifest_list
    return read_manifest_list(data, where=where), foreign_fields(read_header(data, where=where))


def _data_entries(reader: ManifestReader, geo: Mapping[str, Field]) -> pa.Table:
    from geolake_nb.formats.iceberg.avro_program import Pool

    wanted = [field.id for field in geo.values() if field.id is not None]
    pools: list[Pool] = []
    if any(not _is_havasu(field) for field in geo.values()):
        pools += [Pool.LOWER, Pool.UPPER]
    if any(_is_havasu(field) for field in geo.values()):
        pools += [Pool.GEOM_LOWER, Pool.GEOM_UPPER]
    return reader.files(deletes=False, wanted=wanted, bounds=pools)


def _is_havasu(field: Field) -> bool:
    return any(key.startswith("havasu.") for key in field.metadata)


def _covered_edges(
    entries: pa.Table, geo: Mapping[str, Field], table: TableMetadata, reader: ManifestReader
) -> dict[int, NDArray[np.bool_]]:
    """The files whose bounds are marked to cover the edges, by the id of each geography."""
    from geolake_nb.formats.iceberg.bounds import covers_edges

    ids = [field.id for field in geo.values() if isinstance(field.type, GeographyType) and field.id is not None]
    if not ids:
        return {}
    added_by, manifest = (pc.fill_null(entries[name], -1).to_numpy() for name in ("added_snapshot", "manifest"))
    return {
        id_: covers_edges(id_, added_by=added_by, manifest=manifest, snapshots=table.snapshots, manifests=reader.marked)
        for id_ in ids
    }


def _file_table(
    entries: pa.Table,
    deleted: pa.Array,
    uncertain: NDArray[np.bool_],
    *,
    geo: Mapping[str, Field],
    repeated: set[int],
    edges: Mapping[int, NDArray[np.bool_]],
) -> FileTable:
    from geolake_nb.formats.iceberg.partitions import PREFIX

    columns = {name: entries[name].combine_chunks() for name in entries.column_names}
    numbers = ("manifest", "spec_id", "sequence_number", "added_snapshot", "sort_order_id", "first_row_id")
    extra = {name: columns[name] for name in (*numbers, "encrypted")}
    extra["format"] = columns["format"].dictionary_encode()
    rows = pc.subtract(columns["rows"], deleted)
    # If all rows of a file are certainly deleted, other deletes do not matter.
    uncertain = uncertain & np.asarray(pc.fill_null(pc.not_equal(rows, 0), True))
    if uncertain.any():
        rows = pc.if_else(pa.array(uncertain), pa.scalar(None, rows.type), rows)
        extra[PHYSICAL_ROWS] = columns["rows"]
    return FileTable.of(
        path=columns["path"],
        bytes=columns["bytes"],
        rows=rows,
        deleted_rows=deleted,
        partitions={name.removeprefix(PREFIX): columns[name] for name in columns if name.startswith(PREFIX)},
        extra=extra,
        geo={path: _geo_statistics(columns, field, repeated, edges) for path, field in geo.items()},
    )


def _geo_statistics(
    columns: Mapping[str, pa.Array], field: Field, repeated: set[int], edges: Mapping[int, NDArray[np.bool_]]
) -> GeoStatsColumns:
    from geolake_nb.formats.iceberg.bounds import havasu_boxes, iceberg_boxes

    if _is_havasu(field):
        sides, problem = havasu_boxes(columns[f"{field.id}.GEOM_LOWER"], columns[f"{field.id}.GEOM_UPPER"])
    else:
        sides, problem = iceberg_boxes(columns[f"{field.id}.LOWER"], columns[f"{field.id}.UPPER"])
    # In a list or a map, nulls are counted per element, not per row.
    nulls = None if field.id in repeated else columns[f"{field.id}.NULLS"]
    stats = GeoStatsColumns(sides=sides, null_count=nulls, source=BoundSource.MANIFEST, problem=problem)
    assert isinstance(field.type, (GeometryType, GeographyType, RasterType))
    return usable_bounds(stats, field.type, covers_edges=edges.get(-1 if field.id is None else field.id))


def _repeated(schema: Schema) -> set[int]:
    """The ids of all fields inside lists and maps."""
    stack = [(column, False) for column in schema.fields]
    ids: set[int] = set()
    while stack:
        field, inside = stack.pop()
        if inside and field.id is not None:
            ids.add(field.id)
        below = inside or isinstance(field.type, (ListType, MapType))
        stack += [(child, below) for child in children(field.type)]
    return ids


def _partition_columns(table: TableMetadata, schema: Schema) -> tuple[str, ...]:
    names = schema.paths_by_id()
    fields = table.specs[table.default_spec_id].fields
    return tuple(field.describe(names.get(field.source_id, f"#{field.source_id}")) for field in fields)


def _scalars(
    reader: ManifestReader, schema: Schema, table: TableMetadata, files: FileTable
) -> Callable[[ColumnPath], ScalarColumn | None]:
    """Minima, maxima and null counts of a primitive column, read from the manifests on demand."""
    repeated = _repeated(schema)
    physical = physical_rows(files.table).combine_chunks()

    @functools.lru_cache(maxsize=32)
    def scalars(path: ColumnPath) -> ScalarColumn | None:
        field = schema.find(join_path(path))
        if not isinstance(field.type, (PrimitiveType, StringType)) or field.id is None or field.id in repeated:
            return None
        from geolake_nb.formats.iceberg.bounds import decode_single_values

        statistics = reader.statistics(field.id)
        lower, upper = (
            decode_single_values(statistics[name].combine_chunks(), field.type) for name in ("lower", "upper")
        )
        if lower is None or upper is None:
            return None
        nulls, nans = (statistics[name].combine_chunks() for name in ("nulls", "nans"))
        for name in _identity_partitions(table, field.id, files):
            # Files of an identity partition have its value in every row.
            value = files.table[f"partition.{name}"].combine_chunks()
            if value.type == lower.type:
                lower, upper = pc.coalesce(lower, value), pc.coalesce(upper, value)
        # Iceberg truncates long strings; some writers do not round the upper bound up.
        cut = isinstance(field.type, StringType) or pa.types.is_binary(lower.type)
        return ScalarColumn(lower, upper, nulls, physical, nans, truncated=cut)

    return scalars


def _identity_partitions(table: TableMetadata, column: int, files: FileTable) -> list[str]:
    """The identity partition fields of the column, if they are so in every spec that has their name."""
    fields = [field for spec in table.specs.values() for field in spec.fields]
    names = {field.name for field in fields if field.source_id == column and field.transform == "identity"}
    other = {field.name for field in fields if field.source_id != column or field.transform != "identity"}
    return sorted(name for name in names - other if has_column(files.table, f"partition.{name}"))
