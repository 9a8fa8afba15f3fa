"""Parquet files become a Delta table where they lie, and files of a folder again when that is undone."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from geolake_nb.changes.column_types import take_geo_columns
from geolake_nb.errors import RefusedError
from geolake_nb.formats.base import Applied
from geolake_nb.formats.delta.add_action import BOUNDS_TAG, stats_tag
from geolake_nb.formats.delta.commit import commit_info, delta_commit
from geolake_nb.formats.delta.details import ColumnMapping
from geolake_nb.formats.delta.format import DELTA
from geolake_nb.formats.delta.log_actions import decoded_path
from geolake_nb.formats.delta.schema import delta_columns
from geolake_nb.formats.delta.write import FirstCommit, with_indexed_geo, with_table_id
from geolake_nb.formats.delta.write_target import add_action, stats_text
from geolake_nb.formats.parquet_folder.commit import pending_change
from geolake_nb.formats.parquet_folder.journal import FIRST_ENTRY
from geolake_nb.formats.parquet_folder.publish import (
    publish_change,
    published_files,
    require_publishable,
    require_readable,
)
from geolake_nb.formats.parquet_folder.publish_commit import commit_first, is_completed, plan_unpublish
from geolake_nb.model.change import Change, Verb
from geolake_nb.model.schema import join_path, split_path
from geolake_nb.model.types import GeographyType, PrimitiveType
from geolake_nb.parquet.writer import WrittenFile
from geolake_nb.scan.engines import published_facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.formats.base import ColumnTypes, CommitContext
    from geolake_nb.formats.parquet_folder.publish import Entry, PublishedFile
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.statistics import ColumnStats
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

__all__ = ["PUBLISHED", "commit_published", "find_published", "plan_publish", "undo_published"]

PUBLISHED = f"GEOLAKE {Verb.PUBLISH.value.upper()}"
"""The operation of a first version whose files were there before."""

# What Delta readers cannot read in a file as the type of the table: another width, another unit, other bytes.
_COPIED = ("fixed(", "float16", "timestamp_ns", "timestamptz_ns", "uuid")


def plan_publish(
    snapshot: Snapshot, *, columns: ColumnTypes, leave_files: bool, on_progress: Progress | None = None
) -> Change:
    """The first version of a Delta table of these files, after their footers are repaired.

    With `leave_files` no file changes, and the notes name what they lack.
    """
    storage: Storage = snapshot.details.storage
    pending = pending_change(storage, snapshot, Verb.PUBLISH)
    if pending is not None:
        return pending
    where = snapshot.location
    require_publishable(snapshot, columns)
    geo = take_geo_columns(snapshot.schema, columns, {}, where=where)
    require_readable(geo.schema, _COPIED, format_name="Delta", where=where)
    schema, sentences = delta_columns(geo.schema, where=where)
    partitions = snapshot.partition_columns
    first = FirstCommit(where, schema, partitions, with_indexed_geo(schema, geo.properties, partitions, geo.paths))
    declared = {join_path(path) for path in geo.paths if join_path(path) in columns}
    files, lacking = published_files(
        snapshot,
        geo,
        declared=declared,
        measured=sorted(first.indexed),
        leave_files=leave_files,
        on_progress=on_progress,
    )
    return publish_change(
        snapshot,
        DELTA,
        geo,
        files,
        lacking,
        first=first.actions,
        entry=_entry_of(first),
        sentences=sentences,
        notes=_float_notes(schema),
        surplus="VACUUM of the table will delete what its log does not list",
        made="log",
        leave_files=leave_files,
        engines=published_facts(first.snapshot),
    )


def _float_notes(schema: Schema) -> list[str]:
    floats = [
        join_path(path)
        for path, field in schema.walk_parts()
        if field.type in (PrimitiveType("float32"), PrimitiveType("float64")) and len(path) == 1
    ]
    if not floats:
        return []
    named = ", ".join(floats[:5]) + (f" and {len(floats) - 5:,} more" if len(floats) > 5 else "")
    return [f"{named} get no maximum where other writers wrote the file: its footer leaves NaN out."]


def _entry_of(first: FirstCommit) -> Entry:
    """Makes the `add` action of a file."""
    geographies = {
        path: field.type for path, field in first.schema.walk_parts() if isinstance(field.type, GeographyType)
    }

    def entry(file: PublishedFile, size: int, geo: Mapping[str, ColumnStats]) -> str:
        by_path = {split_path(path): stats for path, stats in geo.items()}
        written = WrittenFile(file.path, size, file.rows, by_path, file.scalars)
        stats = stats_text(written, first.schema, ColumnMapping.NONE, first.indexed)
        mark = stats_tag(stats, geographies) if geographies else None
        return add_action(
            written,
            stats=stats,
            partition_values=file.partition,
            modification_time=file.modified,
            data_change=True,
            tags=None if mark is None else {BOUNDS_TAG: mark},
        )

    return entry


def find_published(change: Change, context: CommitContext) -> int | None:
    """The first version, if this transaction made the table; an interrupted one is completed."""
    return 0 if is_completed(change, context) else None


def commit_published(change: Change, context: CommitContext) -> Applied:
    """Repair the footers and create the log; an interrupted change of the files is completed first."""
    change = with_table_id(change, context.transaction)
    lines = [text for text in change.actions if not text.startswith('{"footer"')]

    def made() -> dict[str, bytes]:
        info = commit_info(delta_commit(change, context.transaction), time.time_ns() // 1_000_000)
        return {FIRST_ENTRY: b"\n".join([info, *(line.encode() for line in lines), b""])}

    adds: list[dict[str, Any]] = [json.loads(line)["add"] for line in lines if line.startswith('{"add"')]
    planned = {decoded_path(add["path"]): (add["size"], add["modificationTime"]) for add in adds}
    commit_first(change, context, planned=planned, made=made)
    return Applied(0, metrics=change.metrics)


def undo_published(storage: Storage, snapshot: Snapshot, info: Mapping[str, Any]) -> Change:
    """The folder of files as it was before it became a table, while the table has no other version."""
    if snapshot.version:
        raise RefusedError(
            f"version {snapshot.version} came after version 0, which made the table of its files",
            where=snapshot.location,
            remedy="keep the table: its first version can be undone only while it is the newest",
        )
    remedy = "remove _delta_log, and the files are as they are"
    return plan_unpublish(storage, snapshot, str(info.get("txnId")), remedy=remedy)
