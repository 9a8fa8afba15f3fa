"""A Delta table at one version as the snapshot model of all formats."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import CorruptTableError, SchemaError, VersionError
from geolake_nb.formats.delta.details import ColumnMapping, DeltaDetails, DeltaMetadata, indexed_columns
from geolake_nb.formats.delta.file_stats import (
    FileStats,
    has_unread_values,
    partition_scalars,
    read_stats,
    typed_partition,
)
from geolake_nb.formats.delta.format import DELTA
from geolake_nb.formats.delta.history import commit_time, version_at
from geolake_nb.formats.delta.log_actions import PARTITION, vector_counts
from geolake_nb.formats.delta.log_replay import LogState, SmallActions, replay
from geolake_nb.formats.delta.log_segment import LogListing, list_log, newest_log
from geolake_nb.formats.delta.protocol import read_protocol, refuse_unreadable
from geolake_nb.formats.delta.schema import from_delta_schema
from geolake_nb.geo.box_comparison import usable_bounds
from geolake_nb.model.file_table import FileTable
from geolake_nb.model.schema import Schema, join_path
from geolake_nb.model.snapshot import Snapshot
from geolake_nb.model.types import GeographyType, GeometryType, PrimitiveType, RasterType, StructType

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from geolake_nb.expressions.predicate import ColumnPath
    from geolake_nb.model.statistics import ScalarColumn
    from geolake_nb.model.types import Field
    from geolake_nb.storage.storage import Storage

__all__ = ["is_delta", "open_delta"]


def is_delta(storage: Storage) -> bool:
    """Whether a Delta log is at the root, even a corrupt one.

    >>> import tempfile
    >>> from geolake_nb.storage.storage import Storage
    >>> is_delta(Storage.at(tempfile.mkdtemp()))
    False
    """
    return newest_log(storage) is not None


def open_delta(
    storage: Storage,
    *,
    version: int | None = None,
    timestamp: datetime | None = None,
    allow_unknown_features: bool = False,
    log: LogListing | None = None,
) -> Snapshot:
    """The newest version, the one of that number, or the one that was newest at that time.

    A table with an unknown reader feature is refused unless `allow_unknown_features`. `log` is the result of
    `newest_log`, if the caller has it already.
    """
    if version is not None and timestamp is not None:
        raise VersionError("version and timestamp are both given", where=storage.location, remedy="give one of them")
    listing = _listing(storage, log, newest=version is None and timestamp is None)
    if timestamp is not None:
        version = version_at(storage, listing, timestamp)
    segment = listing.segment(version)
    where = f"{storage.location}, version {segment.version}"
    read: list[tuple[DeltaMetadata, Schema, ColumnMapping]] = []

    def partitions(small: SmallActions) -> list[str]:
        # Reader features are checked first: a feature may change how everything after is read.
        protocol = read_protocol(small.protocol or {}, where=where)
        if not allow_unknown_features:
            refuse_unreadable(protocol, where=where)
        metadata = DeltaMetadata.of(small.metadata or {}, where=where)
        schema = _schema(metadata, where)
        mapping = ColumnMapping.of(metadata.configuration)
        read.append((metadata, schema, mapping))
        return [_partition_name(mapping, schema, name, where) for name in metadata.partition_columns]

    state = replay(storage, segment, partitions)
    metadata, schema, mapping = read[0]
    types = _geo_types(schema)
    geo = {path: mapping.physical(schema, path) for path in types}
    deleted = vector_counts(_single_array(state.files["deletionVector"]))
    parsed = state.files["stats_parsed"] if "stats_parsed" in state.files.column_names else None
    geographies = {geo[path]: type_ for path, type_ in types.items() if isinstance(type_, GeographyType)}
    tags = _single_array(pc.struct_field(state.files["tags"], [0])) if geographies else None
    stats = read_stats(state.files["stats"], parsed, deleted, list(geo.values()), geographies=geographies, tags=tags)
    protocol = read_protocol(state.small.protocol or {}, where=where)
    tracks_rows = any(feature.name == "rowTracking" for feature in protocol.features)
    texts, values = _partitions(state, metadata, schema, mapping, where)
    unread = tuple(name for name in texts if has_unread_values(texts[name], values[name]))
    details = DeltaDetails(
        metadata=metadata,
        protocol=state.small.protocol or {},
        column_mapping=mapping,
        domains=state.small.domains,
        transactions=state.small.transactions,
        commit_info=state.commit_info,
        segment=segment,
        checkpoint_hint=listing.hint,
        stats=stats,
        deletion_vectors=state.files["deletionVector"],
        unreconciled=state.unreconciled,
        indexed=indexed_columns(schema, metadata.configuration, metadata.partition_columns),
        unread_partitions=unread,
    )
    return Snapshot(
        format=DELTA,
        location=storage.location,
        version=segment.version,
        timestamp=commit_time(state.commit_info, listing.commits.get(segment.version)),
        schema=schema,
        protocol=protocol,
        files=FileTable.of(
            path=state.files["path"],
            bytes=state.files["size"],
            rows=stats.rows,
            deleted_rows=deleted,
            # A value that does not parse as its type is shown as a string.
            partitions=values | {name: texts[name] for name in unread},
            extra=_extra(state, tracks_rows=tracks_rows),
            geo={
                join_path(path): usable_bounds(
                    stats.geo[physical], types[path], covers_edges=stats.marked.get(physical)
                )
                for path, physical in geo.items()
            },
        ),
        properties=metadata.configuration,
        partition_columns=metadata.partition_columns,
        details=details,
        scalars=_scalars(schema, mapping, stats, texts, values),
    )


def _listing(storage: Storage, log: LogListing | None, *, newest: bool) -> LogListing:
    if log is None and newest:
        log = newest_log(storage)
    return list_log(storage) if log is None or (log.since and not newest) else log.checked()


def _schema(metadata: DeltaMetadata, where: str) -> Schema:
    try:
        return from_delta_schema(metadata.schema_string, properties=metadata.configuration)
    except SchemaError as problem:
        raise CorruptTableError(f"the schema cannot be read: {problem}", where=where) from None


def _geo_types(schema: Schema) -> dict[ColumnPath, GeometryType | GeographyType | RasterType]:
    geo = (GeometryType, GeographyType, RasterType)
    return {path: field.type for path, field in schema.walk_parts() if isinstance(field.type, geo)}


def _partition_name(mapping: ColumnMapping, schema: Schema, name: str, where: str) -> str:
    try:
        return mapping.physical(schema, (name,))[0]
    except SchemaError:
        raise CorruptTableError(f"the partition column {name!r} is not in the schema", where=where) from None


def _partitions(
    state: LogState, metadata: DeltaMetadata, schema: Schema, mapping: ColumnMapping, where: str
) -> tuple[dict[str, pa.Array], dict[str, pa.Array]]:
    """The values of the partition columns by logical name, as strings and as typed values."""
    types = {field.name: field.type for field in schema.fields}
    texts: dict[str, pa.Array] = {}
    values: dict[str, pa.Array] = {}
    for name in metadata.partition_columns:
        if name not in types:
            raise CorruptTableError(f"the partition column {name!r} is not in the schema", where=where)
        physical = _partition_name(mapping, schema, name, where)
        texts[name] = _single_array(state.files[f"{PARTITION}{physical}"])
        values[name] = typed_partition(texts[name], types[name])
    return texts, values


def _extra(state: LogState, *, tracks_rows: bool) -> dict[str, pa.Array]:
    extra = {"modified": state.files["modificationTime"].cast(pa.timestamp("ms", "UTC"))}
    if tracks_rows:
        extra["base_row_id"] = state.files["baseRowId"]
        extra["default_row_commit_version"] = state.files["defaultRowCommitVersion"]
    return extra


def _scalars(
    schema: Schema,
    mapping: ColumnMapping,
    stats: FileStats,
    texts: dict[str, pa.Array],
    values: dict[str, pa.Array],
) -> Callable[[ColumnPath], ScalarColumn | None]:
    known: dict[ColumnPath, ScalarColumn | None] = {}

    def scalars(path: ColumnPath) -> ScalarColumn | None:
        if path not in known:
            known[path] = read(path)
        return known[path]

    def read(path: ColumnPath) -> ScalarColumn | None:
        field = _plain_field(schema, path)
        if field is None:
            return None
        if len(path) == 1 and path[0] in values:
            column: ScalarColumn | None = partition_scalars(texts[path[0]], values[path[0]], stats.records)
            doubtful = _is_padded(field)
        else:
            column = stats.scalar(mapping.physical(schema, path), field.type)
            doubtful = _is_padded(field) or _was_float(field)
        return replace(column, minimum=_unknown(column), maximum=_unknown(column)) if column and doubtful else column

    return scalars


def _plain_field(schema: Schema, path: ColumnPath) -> Field | None:
    """The field of a column that is not in a list or map and not a struct itself."""
    fields = schema.fields
    for depth, name in enumerate(path):
        field = next((candidate for candidate in fields if candidate.name == name), None)
        if field is None:
            return None
        if depth == len(path) - 1:
            return None if isinstance(field.type, StructType) else field
        if not isinstance(field.type, StructType):
            return None
        fields = field.type.fields
    return None


def _is_padded(field: Field) -> bool:
    """Whether Spark pads the values of the column and of literals compared with it: a CHAR."""
    return str(field.metadata.get("__CHAR_VARCHAR_TYPE_STRING", "")).lower().startswith("char")


def _was_float(field: Field) -> bool:
    """Whether older files have it as a float: its shortest decimal form differs from that of the widened double."""
    return (
        isinstance(field.type, PrimitiveType) and field.type.name == "float64" and "delta.typeChanges" in field.metadata
    )


def _unknown(column: ScalarColumn) -> pa.Array:
    return pa.nulls(len(column), column.minimum.type)


def _single_array(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
