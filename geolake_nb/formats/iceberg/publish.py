"""Parquet files become an Iceberg table of version 3 where they lie, and a folder of files again by undo."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.changes.column_types import take_geo_columns
from geolake_nb.errors import RefusedError, SchemaError
from geolake_nb.formats.base import Applied, warn_of_problems
from geolake_nb.formats.iceberg.first_version import (
    VERB,
    FirstVersion,
    added_manifests,
    name_mapping_text,
    new_metadata,
)
from geolake_nb.formats.iceberg.format import ICEBERG
from geolake_nb.formats.iceberg.metadata import TRANSACTION
from geolake_nb.formats.iceberg.partitions import partition_fields, partition_ids, partition_list
from geolake_nb.formats.iceberg.schema import (
    NAME_MAPPING,
    iceberg_columns,
    to_iceberg_schema,
    with_fresh_ids,
    with_ids,
)
from geolake_nb.formats.iceberg.write_target import IcebergTarget
from geolake_nb.formats.parquet_folder.commit import pending_change
from geolake_nb.formats.parquet_folder.publish import (
    declares_types,
    publish_change,
    published_files,
    reconciled,
    require_publishable,
    require_readable,
)
from geolake_nb.formats.parquet_folder.publish_commit import commit_first, is_completed, plan_unpublish
from geolake_nb.model.change import Change, Verb
from geolake_nb.model.file_table import FileTable
from geolake_nb.model.schema import join_path, split_path
from geolake_nb.model.snapshot import Protocol, Snapshot
from geolake_nb.model.types import PrimitiveType
from geolake_nb.parquet.column_ranges import ColumnRange
from geolake_nb.parquet.schema import PATH_KEY
from geolake_nb.parquet.writer import WrittenFile
from geolake_nb.scan.engines import published_facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.formats.base import ColumnTypes, CommitContext
    from geolake_nb.formats.parquet_folder.publish import Entry, PublishedFile
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.statistics import ColumnStats
    from geolake_nb.model.table_format import EngineFact
    from geolake_nb.model.types import DataType
    from geolake_nb.parquet.footer import FileView
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

__all__ = ["commit_published", "find_published", "is_published", "plan_publish", "undo_published"]

# What Iceberg readers cannot read in a file as the type of the table: another width, another unit, other bytes. Spark
# with Iceberg 1.12 stops at unsigned integers.
_COPIED = ("fixed(", "float16", "timestamp_ns", "timestamptz_ns", "uint", "uuid")
_MILLISECONDS = ("timestamp_ms", "timestamptz_ms")
_IN_NO_CATALOG = (
    "A catalog knows the table once its metadata file is registered there; without one, only one writer at a time is"
    " safe."
)
_BATCHES = "read.parquet.vectorization.enabled"
# Iceberg, Schema Evolution: the promotions of a column whose older files keep their type. Short integers of Parquet are
# stored as int32.
_FAMILIES: tuple[tuple[tuple[str, ...], ...], ...] = (
    (("int8", "int16", "int32"), ("int64",)),
    (("float32",), ("float64",)),
    (("timestamp_ms", "timestamp"),),
    (("timestamp_int96", "timestamptz_ms", "timestamptz"),),
)


def promoted(left: DataType, right: DataType) -> DataType | None:
    """The type as which Iceberg readers read both in files, `None` if there is none.

    >>> promoted(PrimitiveType("int64"), PrimitiveType("int8")), promoted(PrimitiveType("int8"), PrimitiveType("date"))
    (PrimitiveType(name='int64'), None)
    >>> promoted(PrimitiveType("decimal(9, 2)"), PrimitiveType("decimal(12, 2)"))
    PrimitiveType(name='decimal(12, 2)')
    """
    if not isinstance(left, PrimitiveType) or not isinstance(right, PrimitiveType):
        return None
    for family in _FAMILIES:
        ranks = [
            next((rank for rank, names in enumerate(family) if type_.name in names), None) for type_ in (left, right)
        ]
        if None not in ranks:
            return PrimitiveType(family[max(rank for rank in ranks if rank is not None)][-1])
    sizes = [type_.name.removeprefix("decimal(").rstrip(")").split(", ") for type_ in (left, right)]
    if all(type_.name.startswith("decimal(") for type_ in (left, right)) and sizes[0][1] == sizes[1][1]:
        return max((left, right), key=lambda type_: int(type_.name[8:].partition(",")[0]))
    return None


def plan_publish(
    snapshot: Snapshot, *, columns: ColumnTypes, leave_files: bool, on_progress: Progress | None = None
) -> Change:
    """The first version of an Iceberg table of these files, after their footers are repaired.

    With `leave_files` no file changes, and the notes name what they lack.
    """
    storage: Storage = snapshot.details.storage
    pending = pending_change(storage, snapshot, Verb.PUBLISH)
    if pending is not None:
        return pending
    where = snapshot.location
    if any(entry.bytes >= 0 for entry in storage.list("metadata")):
        raise RefusedError("the folder 'metadata' has files, and a table has its own there", where=where,
                           remedy="move them")  # fmt: skip
    snapshot, widened = reconciled(snapshot, promoted)
    require_publishable(snapshot, columns)
    geo = take_geo_columns(snapshot.schema, columns, {}, where=where)
    require_readable(geo.schema, _COPIED, format_name="Iceberg", where=where)
    schema, sentences = iceberg_columns(geo.schema, where=where)
    schema = _numbered(schema, snapshot)
    declared = {join_path(path) for path in geo.paths if join_path(path) in columns}
    properties = {**geo.properties, NAME_MAPPING: name_mapping_text(schema)}
    batches = _batch_notes(snapshot)
    if batches:
        properties[_BATCHES] = "false"
    fields = partition_fields(schema, snapshot.partition_columns, where=where)
    target = IcebergTarget(schema, partition_ids(snapshot.partition_columns), 0, properties)
    files, lacking = published_files(
        snapshot,
        geo,
        declared=declared,
        measured=[path for path, _ in target.plain_columns() if path[0] not in snapshot.partition_columns],
        leave_files=leave_files,
        on_progress=on_progress,
    )
    metadata = new_metadata(
        to_iceberg_schema(schema),
        version=3,
        last_column_id=max(field.id or 0 for _, field in schema.walk_parts()),
        fields=fields,
    )
    return publish_change(
        snapshot,
        ICEBERG,
        geo,
        files,
        lacking,
        first=[_dumped({"create": metadata | {"properties": properties}})],
        entry=_entry_of(snapshot, target),
        sentences=sentences,
        notes=[*widened, *_id_notes(snapshot), *_int96_notes(geo.schema), *batches, _IN_NO_CATALOG],
        surplus="a removal of orphan files will delete what no manifest lists",
        made="metadata",
        leave_files=leave_files,
        engines=_engines(where, schema, typed=not leave_files or declares_types(snapshot, geo)),
    )


def _engines(where: str, schema: Schema, *, typed: bool) -> tuple[EngineFact, ...]:
    none = pa.array([], pa.int64())
    files = FileTable.of(path=pa.array([], pa.string()), bytes=none, rows=none)
    return published_facts(
        Snapshot(ICEBERG, where, None, None, schema, Protocol("format version 3"), files), typed=typed
    )


def _dumped(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _numbered(schema: Schema, snapshot: Snapshot) -> Schema:
    """The schema with the ids that the files have, or with new ones: readers go by the ids of a file if it has any."""
    ids: dict[tuple[str, ...], int] = {}
    for path, view in _views(snapshot):
        if not view.index.by_id:
            continue
        where = f"{snapshot.location}, {path}"
        for parts, field in view.index.by_parts.items():
            shown = join_path(parts)
            if field.id is None:
                what = f"the file has field ids, and none for the column {shown!r}"
                raise SchemaError(what, where=where, remedy="run geolake convert, which copies the rows")
            if ids.setdefault(parts, field.id) != field.id:
                what = f"the column {shown!r} has the field id {field.id}, and {ids[parts]} in another file"
                raise SchemaError(what, where=where, remedy="run geolake convert, which copies the rows")
        if len(set(ids.values())) < len(ids):
            what = "a field id is that of another column in another file"
            raise SchemaError(what, where=where, remedy="run geolake convert, which copies the rows")
    return with_ids(schema, ids) if ids else with_fresh_ids(schema)


def _views(snapshot: Snapshot) -> list[tuple[str, FileView]]:
    """A file for each schema that files have."""
    seen: dict[int, tuple[str, FileView]] = {}
    for path, view in zip(snapshot.files.table["path"].to_pylist(), snapshot.details.views, strict=True):
        seen.setdefault(id(view.index), (path, view))
    return list(seen.values())


def _id_notes(snapshot: Snapshot) -> list[str]:
    if all(view.index.by_id for _, view in _views(snapshot)):
        return []
    return [f"Files have no field ids: readers find columns by name, through the property {NAME_MAPPING}."]


def _batch_notes(snapshot: Snapshot) -> list[str]:
    """A sentence on columns of milliseconds, in whatever file they are."""
    names = [
        join_path(parts)
        for _, view in _views(snapshot)
        for parts, field in view.index.by_parts.items()
        if isinstance(field.type, PrimitiveType) and field.type.name in _MILLISECONDS
    ]
    if not names:
        return []
    listed = ", ".join(sorted(set(names))[:5])
    # Tried: a column of which all pages have a dictionary comes out as if it were of microseconds.
    why = "Spark with Iceberg 1.12 misreads milliseconds where it reads batches"
    return [f"{listed}: {why}, so the table has the property {_BATCHES}=false, which a session must not override."]


def _int96_notes(schema: Schema) -> list[str]:
    int96 = PrimitiveType("timestamp_int96")
    names = [join_path(path) for path, field in schema.walk_parts() if field.type == int96]
    return [f"PyIceberg does not read INT96 times: {', '.join(names[:5])}."] if names else []


def _entry_of(snapshot: Snapshot, target: IcebergTarget) -> Entry:
    """Makes the `add` action of a file, with the time of the file, which is compared before the commit."""
    table, views = snapshot.files.table, snapshot.details.views
    values = {name: partition_list(table[f"partition.{name}"]) for name in target.partition_by}
    leaf_ids: dict[int, dict[int, str]] = {}

    def entry(file: PublishedFile, size: int, geo: Mapping[str, ColumnStats]) -> str:
        view = views[file.index]
        if id(view.index) not in leaf_ids:
            leaf_ids[id(view.index)] = _leaf_ids(view, target.schema)
        own: dict[tuple[str, ...], ColumnRange] = {
            (name,): _range_of(column[file.index], file.rows) for name, column in values.items()
        }
        written = WrittenFile(
            file.path,
            size,
            file.rows,
            {split_path(path): stats for path, stats in geo.items()},
            {**file.scalars, **own},
            view.metadata,
        )
        partition = tuple(file.partition[name] for name in target.partition_by)
        add = json.loads(target.entry(written, partition, leaf_ids=leaf_ids[id(view.index)]))
        add["add"]["modified"] = file.modified
        return _dumped(add)

    return entry


def _range_of(value: Any, rows: int) -> ColumnRange:
    """The range of a partition column in a file."""
    return ColumnRange(value, value, rows if value is None else 0, rows)


def _leaf_ids(view: FileView, schema: Schema) -> dict[int, str]:
    """The ids of the leaves of a file, by their indices."""
    known = {path: field.id for path, field in schema.walk_parts()}
    ids = {
        view.leaves.get(field.metadata.get(PATH_KEY, "")): known.get(parts)
        for parts, field in view.parquet_fields.items()
    }
    return {index: str(id_) for index, id_ in ids.items() if index is not None and id_ is not None}


def find_published(change: Change, context: CommitContext) -> int | None:
    """The first snapshot, if this transaction made the table; an interrupted one is completed."""
    if not is_completed(change, context):
        return None
    return FirstVersion.id_of(context.transaction)


def commit_published(change: Change, context: CommitContext) -> Applied:
    """Repair the footers and create the metadata; an interrupted change of the files is completed first."""
    lines = [json.loads(text) for text in change.actions if not text.startswith('{"footer"')]
    adds: list[dict[str, Any]] = [line["add"] for line in lines if "add" in line]
    unbounded = warn_of_problems(adds)
    if unbounded:
        change = replace(change, metrics={**change.metrics, "files_without_bound": unbounded})
    (metadata,) = (line["create"] for line in lines if "create" in line)
    moment = time.time_ns() // 1_000_000
    first = FirstVersion(metadata, location=context.storage.location, transaction=context.transaction, moment=moment)

    def made() -> dict[str, bytes]:
        manifests = added_manifests(adds, first.table, snapshot_id=first.snapshot_id)
        return first.files(manifests, verb=change.verb.value)

    planned = {add["path"]: (add["file-size-in-bytes"], add["modified"]) for add in adds}
    commit_first(change, context, planned=planned, made=made)
    return Applied(first.snapshot_id, metrics=change.metrics)


def is_published(snapshot: Snapshot, version: int | None) -> bool:
    """Whether that snapshot, or else the current one, made the table of files that were there before."""
    details = snapshot.details
    stored = details.metadata.snapshots.get(version) if version is not None else details.snapshot
    return stored is not None and stored.parent_id is None and stored.summary.get(VERB) == Verb.PUBLISH.value


def undo_published(storage: Storage, snapshot: Snapshot, version: int | None) -> Change:
    """The folder of files as it was before it became a table, while the table has no other version."""
    metadata = snapshot.details.metadata
    chosen = metadata.snapshots[version] if version is not None else snapshot.details.snapshot
    if len(metadata.snapshots) > 1:
        raise RefusedError(
            f"snapshots came after {chosen.snapshot_id}, which made the table of its files",
            where=snapshot.location,
            remedy="keep the table: its first snapshot can be undone only while it is the only one",
        )
    remedy = "remove the folder metadata, and the files are as they are"
    return plan_unpublish(storage, snapshot, str(chosen.summary.get(TRANSACTION)), remedy=remedy)
