"""Undo the newest change of an Iceberg table: its parent becomes the current snapshot again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from geolake_nb.formats.iceberg.lost_fields import forgetting_sentences
from geolake_nb.formats.iceberg.rollback import plan_rollback
from geolake_nb.formats.iceberg.writability import require_writable

if TYPE_CHECKING:
    from geolake_nb.model.change import Change
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.storage.storage import Storage

__all__ = ["plan_undo"]


def plan_undo(storage: Storage, snapshot: Snapshot, version: int | None = None) -> Change:
    """Go back to the parent of a snapshot, which has to be the current one; by default of this toolkit's newest."""
    require_writable(snapshot)
    change = plan_rollback(snapshot, version)
    return replace(change, notes=(*change.notes, *forgetting_sentences(snapshot, new_list=False)))
