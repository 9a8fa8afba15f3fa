"""The rows of an Iceberg table in new files: near each other, or just in files of a better size."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from geolake_nb.formats.iceberg.live_rows import LAST_UPDATED, ROW_ID
from geolake_nb.planning.iceberg.forgetting import forgetting_sentences
from geolake_nb.planning.iceberg.target import IcebergTarget
from geolake_nb.planning.iceberg.writability import require_writable
from geolake_nb.planning.manifests.rewrite import plan_snapshot_rewrite
from geolake_nb.planning.writing.job import require_writable_types

if TYPE_CHECKING:
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage
    from geolake_nb.planning.change import Change
    from geolake_nb.planning.writing.packing import Packing

__all__ = ["plan_rewrite"]


def plan_rewrite(
    storage: Storage,
    snapshot: Snapshot,
    *,
    packing: Packing,
    where: str | None = None,
) -> Change:
    """What a rewrite takes away, and the job that writes the same rows again; files stay in their partitions.

    Rows of a table of version 3 keep their ids. Nobody's deletes are lost: those that come in between are a conflict,
    or still apply.
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
        else replace(change, says=(*change.says, *forgetting_sentences(snapshot, entries=True)))
    )
