"""Undo the newest change of an Iceberg or Havasu table: its parent becomes the current snapshot again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from geolake_nb.errors import ConflictError, RefusedError, VersionError
from geolake_nb.formats.iceberg.metadata import TRANSACTION
from geolake_nb.formats.iceberg.publish import is_published, undo_published
from geolake_nb.formats.iceberg.writability import forgetting_sentences, require_writable
from geolake_nb.model.change import Change, Verb
from geolake_nb.model.schema import join_path
from geolake_nb.scan.engines import engine_facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geolake_nb.formats.iceberg.metadata import StoredSnapshot
    from geolake_nb.formats.iceberg.snapshot import IcebergDetails
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.storage.storage import Storage

__all__ = ["newly_required", "plan_rollback", "plan_undo"]


def plan_rollback(snapshot: Snapshot, version: int | None = None, *, first: Sequence[str] = ()) -> Change:
    """Go back to the parent of a snapshot, which has to be the current one; by default of this toolkit's newest.

    No file is touched: the reverted snapshot stays in the table until it expires. `first` are actions
    that come before.
    """
    undone = _chosen(snapshot, version)
    parent = _parent(snapshot, undone)
    operation = undone.summary.get("geolake.verb") or undone.operation or "a commit"
    rollback = {"rollback": {"from": undone.snapshot_id, "to": parent.snapshot_id}}
    return Change(
        verb=Verb.UNDO,
        format=snapshot.format,
        location=snapshot.location,
        base_version=snapshot.version,
        actions=[*first, json.dumps(rollback)],
        notes=(
            f"The snapshot {undone.snapshot_id} ({operation[:60]}) will be reverted.",
            f"The snapshot {parent.snapshot_id} becomes current again.",
        ),
        undo="an undo cannot be undone: the snapshot stays in the table's history until it expires",
        engines=engine_facts(snapshot),
        parameters={"version": str(undone.snapshot_id)},
        tolerates_appends=False,
    )


def _chosen(snapshot: Snapshot, version: int | None) -> StoredSnapshot:
    details: IcebergDetails = snapshot.details
    current, where = details.snapshot, snapshot.location
    known = details.metadata.snapshots
    if current is None:
        raise RefusedError("the table has no snapshot to undo", where=where)
    if version is not None and version not in known:
        raise VersionError(f"no snapshot {version}", where=where, remedy="t.history() lists them")
    if version is None:
        chain = _ancestors(snapshot, current)
        wanted = next((entry for entry in chain if TRANSACTION in entry.summary), None)
        if wanted is None:
            raise RefusedError(
                "geolake_nb wrote none of the table's remaining snapshots",
                where=where,
                remedy="name the snapshot to undo",
            )
    else:
        wanted = known[version]
    if wanted.snapshot_id != current.snapshot_id:
        raise ConflictError(
            f"the snapshot {wanted.snapshot_id} cannot be undone: {current.snapshot_id}"
            f" ({current.operation}) is the current one",
            where=where,
            remedy=f"undo {current.snapshot_id} first",
        )
    return wanted


def _ancestors(snapshot: Snapshot, current: StoredSnapshot) -> list[StoredSnapshot]:
    """The snapshot and those before it that the table still lists."""
    known = snapshot.details.metadata.snapshots
    ancestors, at = [current], current.parent_id
    while at in known and known[at] not in ancestors:
        ancestors.append(known[at])
        at = known[at].parent_id
    return ancestors


def _parent(snapshot: Snapshot, undone: StoredSnapshot) -> StoredSnapshot:
    if undone.parent_id is None:
        raise RefusedError(
            f"the snapshot {undone.snapshot_id} is the first of the table: there is nothing to go back to",
            where=snapshot.location,
            remedy="delete its folder to undo it",
        )
    known = snapshot.details.metadata.snapshots
    if undone.parent_id not in known:
        raise RefusedError(
            f"the snapshot {undone.parent_id} to go back to has expired",
            where=snapshot.location,
        )
    parent: StoredSnapshot = known[undone.parent_id]
    metadata = snapshot.details.metadata
    if parent.schema_id is not None and parent.schema_id in metadata.schemas:
        column = newly_required(metadata.schema(parent.schema_id), metadata.schema())
        if column is not None:
            raise RefusedError(
                f"the column {column!r} was made required after the snapshot {parent.snapshot_id}, and its rows may"
                " lack it",
                where=snapshot.location,
                remedy="make the column optional first",
            )
    return parent


def newly_required(old: Schema, new: Schema) -> str | None:
    """The first column of the new schema that must have a value, and may be null or missing under the old one.

    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.types import Field, PrimitiveType, StructType
    >>> free, bound = (
    ...     Schema(StructType((Field("a", PrimitiveType("int64"), nullable=nullable, id=1),)))
    ...     for nullable in (True, False)
    ... )
    >>> newly_required(free, bound), newly_required(bound, free), newly_required(bound, bound)
    ('a', None, None)
    """
    old_fields = {field.id: field for _, field in old.walk_parts()}
    for path, field in new.walk_parts():
        # Iceberg, Default values: rows from before a column was added have its initial default.
        if field.nullable or field.metadata.get("initial-default") is not None:
            continue
        before = old_fields.get(field.id)
        parents = [new.find(join_path(path[:depth])) for depth in range(1, len(path))]
        inside_new = any(parent.id not in old_fields for parent in parents)
        if not inside_new and (before is None or before.nullable):
            return join_path(path)
    return None


def plan_undo(storage: Storage, snapshot: Snapshot, version: int | None = None) -> Change:
    """Go back to the parent of a snapshot, which has to be the current one; by default of this toolkit's newest.

    A folder of files that became a table is a folder of files again.
    """
    if is_published(snapshot, version):
        return undo_published(storage, snapshot, version)
    require_writable(snapshot)
    change = plan_rollback(snapshot, version)
    return replace(change, notes=(*change.notes, *forgetting_sentences(snapshot, new_list=False)))
