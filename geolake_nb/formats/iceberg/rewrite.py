"""Rewrite an Iceberg table: cluster its rows, or compact its files."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from geolake_nb.changes.write_job import require_writable_types
from geolake_nb.formats.iceberg.live_rows import LAST_UPDATED, ROW_ID
from geolake_nb.formats.iceberg.lost_fields import forgetting_sentences
from geolake_nb.formats.iceberg.snapshot_rewrite import plan_snapshot_rewrite
from geolake_nb.formats.iceberg.writability import require_writable
from geolake_nb.formats.iceberg.write_target import IcebergTarget

if TYPE_CHECKING:
    from geolake_nb.changes.packing import Packing
    from geolake_nb.model.change import Change
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.storage.storage import Storage

__all__ = ["plan_rewrite"]


def plan_rewrite(
    storage: Storage,
    snapshot: Snapshot,
    *,
    packing: Packing,
    where: str | None = None,
) -> Change:
    """The files that a rewrite removes, and the job that writes their rows; files stay in their partitions.

    Rows of a table of version 3 keep their ids. No deletes are lost: concurrent ones are a conflict, or still apply.
    """
    require_writable(snapshot)
    require_writable_types(snapshot.schema, where=snapshot.location)
    # Iceberg 3, Row Lineage: a row that moves to another file keeps its id and its number.
    more = (ROW_ID, LAST_UPDATED) if snapshot.details.format_version >= 3 else ()
    change = plan_snapshot_rewrite(
        snapshot,
        packing=packing,
        where=where,
        target_of=lambda tuples: IcebergTarget.of(snapshot, {}, tuples=tuples),
        more=more,
    )
    return (
        change
        if change.is_empty
        else replace(change, notes=(*change.notes, *forgetting_sentences(snapshot, entries=True)))
    )
