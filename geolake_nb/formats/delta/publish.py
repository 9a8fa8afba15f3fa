"""Parquet files become a Delta table where they lie, and files of a folder again when that is undone.

The journal of the folder records the change: footers are repaired first, and the first entry of the log is created
last, so that a reader finds either files without a log or the whole table.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from geolake_nb.changes.column_types import take_geo_columns
from geolake_nb.errors import ConflictError, RefusedError, SchemaError
from geolake_nb.formats.base import Applied
from geolake_nb.formats.delta.add_action import BOUNDS_TAG, stats_tag
from geolake_nb.formats.delta.commit import commit_info, delta_commit
from geolake_nb.formats.delta.details import ColumnMapping
from geolake_nb.formats.delta.format import DELTA
from geolake_nb.formats.delta.log_actions import decoded_path
from geolake_nb.formats.delta.schema import delta_columns
from geolake_nb.formats.delta.write import FirstCommit, with_indexed_geo, with_table_id
from geolake_nb.formats.delta.write_target import add_action, stats_text
from geolake_nb.formats.parquet_folder.commit import (
    SetChange,
    action,
    commit_set,
    end_pending,
    find_change,
    pending_change,
)
from geolake_nb.formats.parquet_folder.first_log import stage_log
from geolake_nb.formats.parquet_folder.format import PARQUET
from geolake_nb.formats.parquet_folder.journal import FIRST_ENTRY, Outcome, read_journal
from geolake_nb.formats.parquet_folder.publish import (
    PublishJob,
    entry_actions,
    other_files,
    published_files,
    require_publishable,
)
from geolake_nb.formats.parquet_folder.undo import undo_of
from geolake_nb.formats.parquet_folder.write import partial_folders
from geolake_nb.model.change import Change, Reads, Verb
from geolake_nb.model.schema import join_path, split_path, type_name
from geolake_nb.model.types import GeographyType, PrimitiveType, to_delta_text
from geolake_nb.parquet.writer import WrittenFile
from geolake_nb.scan.explanation import bytes_text
from geolake_nb.storage.hive_paths import is_hidden, is_parquet_name
from geolake_nb.text.messages import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.formats.base import ColumnTypes, CommitContext
    from geolake_nb.formats.parquet_folder.publish import Entry, PublishedFile
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.statistics import ColumnStats
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

__all__ = ["PUBLISHED", "commit_published", "find_published", "plan_publish", "plan_unpublish"]

PUBLISHED = f"GEOLAKE {Verb.PUBLISH.value.upper()}"
"""The operation of a first version whose files were there before."""

_FOOTER = '{"footer"'
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
    _require_readable(geo.schema, where)
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
    entry = _entry_of(first)
    scanned = tuple(file for file in files if file.scanned)
    known = [text for file in files if not file.scanned for text in entry_actions(storage, file, {}, entry)]
    types = {path: to_delta_text(input_.type) for path, input_ in geo.inputs.items()}
    return Change(
        Verb.PUBLISH,
        DELTA,
        where,
        None,
        actions=[*first.actions, *known],
        job=PublishJob(scanned, entry) if scanned else None,
        notes=(
            f"{plural(len(files), 'file')} with {sum(file.rows for file in files):,} rows become a Delta table where"
            " they lie: no page is rewritten.",
            *(f"The column {path!r} becomes a {type_name(input_.type)}." for path, input_ in geo.inputs.items()),
            *(f"The column {sentence}." for sentence in sentences),
            *partial_folders(snapshot),
            *_footer_notes(files, lacking, leave_files=leave_files),
            *_float_notes(schema),
            *_foreign_notes(snapshot),
        ),
        reads=Reads(len(scanned), sum(file.bytes for file in scanned)),
        undo="geolake undo removes the log and restores the footers, while the table has no other version",
        engines=first.engines,
        parameters={
            "partitionBy": json.dumps(list(partitions)),
            "columns": json.dumps(types),
            "leaveFiles": json.dumps(leave_files),
        },
        metrics={
            "files_published": len(files),
            "footers_repaired": sum(text.startswith(_FOOTER) for text in known),
        },
        tolerates_appends=False,
    )


def _require_readable(schema: Schema, where: str) -> None:
    for path, field in schema.walk_parts():
        if isinstance(field.type, PrimitiveType) and field.type.name.startswith(_COPIED):
            raise SchemaError(
                f"the column {join_path(path)!r} is {type_name(field.type)}, which Delta readers do not read in files",
                where=where,
                remedy="run geolake convert, which copies the rows with another type",
            )


def _footer_notes(files: Sequence[PublishedFile], lacking: Sequence[str], *, leave_files: bool) -> list[str]:
    scanned = [file for file in files if file.scanned]
    notes: list[str] = []
    if leave_files:
        notes.append("The files stay as they are.")
        notes += [
            f"{sentence.rstrip('.')}: Delta requires the geo type in files, and engines skip no row groups without"
            " boxes."
            for sentence in lacking
        ]
    else:
        notes += lacking
        repaired = [file for file in files if file.repair is not None]
        if repaired:
            copied = sum(file.bytes for file in repaired)
            notes.append(
                f"{plural(len(repaired), 'footer')} replaced: the pages ({bytes_text(copied)}) are copied unchanged,"
                " and the old footers are kept in _geolake for undo."
            )
    if scanned:
        notes.append(f"The values of geo columns are read for bounds in {plural(len(scanned), 'file')}.")
    return notes


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


def _foreign_notes(snapshot: Snapshot) -> list[str]:
    count = other_files(snapshot)
    if not count:
        return []
    return [f"{plural(count, 'other file')} in the folder: VACUUM of the table will delete what its log does not list."]


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
    stored = find_change(context.storage, context.transaction)
    if stored is None:
        return None
    if stored.outcome is None:
        end_pending(context.storage)
        stored = find_change(context.storage, context.transaction)
    if stored is None or stored.outcome is None or stored.outcome.abandoned or FIRST_ENTRY in stored.outcome.skipped:
        raise ConflictError("the change was not completed", where=change.location, remedy="plan it again")
    return 0


def commit_published(change: Change, context: CommitContext) -> Applied:
    """Repair the footers and create the log; an interrupted change of the files is completed first."""
    storage = context.storage
    kinds = [next(iter(json.loads(text))) for text in change.actions]
    change = with_table_id(change, context.transaction)
    footers = [text for text, kind in zip(change.actions, kinds, strict=True) if kind == "footer"]
    lines = [text for text, kind in zip(change.actions, kinds, strict=True) if kind != "footer"]
    _require_unchanged(storage, lines, {json.loads(text)["footer"]["path"] for text in footers})
    if storage.exists(FIRST_ENTRY):
        raise ConflictError("a table was created here meanwhile", where=storage.location, remedy="open it")
    info = commit_info(delta_commit(change, context.transaction), time.time_ns() // 1_000_000)
    log = stage_log(storage, context.transaction, b"\n".join([info, *(line.encode() for line in lines), b""]))
    actions = [*footers, action("create", log)]
    commit_set(
        storage,
        SetChange(context.transaction, change.verb.value, actions, change.parameters, change.metrics),
    )
    return Applied(0, metrics=change.metrics)


def _require_unchanged(storage: Storage, lines: Sequence[str], repaired: set[str]) -> None:
    """Raise where a file was added since the plan was made, or one whose footer stays was changed."""
    adds: list[dict[str, Any]] = [json.loads(line)["add"] for line in lines if line.startswith('{"add"')]
    planned = {decoded_path(add["path"]) for add in adds}
    for entry in storage.list(recursive=True):
        if is_parquet_name(entry.path) and not is_hidden(entry.path) and entry.path not in planned:
            what = "the file was added since the plan was made"
            raise ConflictError(what, where=f"{storage.location}/{entry.path}", remedy="plan again")
    for add in adds:
        path = decoded_path(add["path"])
        if path in repaired:
            continue
        now = storage.stat(path)
        modified = 0 if now.modified is None else int(now.modified.timestamp() * 1000)
        if now.bytes != add["size"] or (now.modified is not None and abs(modified - add["modificationTime"]) > 1):
            raise ConflictError(
                "the file was changed since the plan was made", where=f"{storage.location}/{path}", remedy="plan again"
            )


def plan_unpublish(storage: Storage, snapshot: Snapshot, info: Mapping[str, Any]) -> Change:
    """The folder of files as it was before it became a table, while the table has no other version."""
    if snapshot.version:
        raise RefusedError(
            f"version {snapshot.version} came after version 0, which made the table of its files",
            where=snapshot.location,
            remedy="keep the table: its first version can be undone only while it is the newest",
        )
    made = find_change(storage, str(info.get("txnId")))
    if made is None:
        raise RefusedError("the journal of the files is not here", where=snapshot.location,
                           remedy="remove _delta_log, and the files are as they are")  # fmt: skip
    if any(entry.outcome is None and entry.version > made.version for entry in read_journal(storage)):
        pending = pending_change(storage, snapshot, Verb.UNDO)  # an undo that was interrupted
        assert pending is not None
        return replace(pending, format=PARQUET)
    # It is complete where the log is there: an end that was not recorded is recorded by the next change.
    change = undo_of(storage, snapshot, replace(made, outcome=made.outcome or Outcome()))
    note = "The log is removed, and the files are no longer a table."
    return replace(change, format=PARQUET, engines=(), notes=(*change.notes, note))
