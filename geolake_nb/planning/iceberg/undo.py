"""What takes the newest change of an Iceberg table back: its parent becomes the current snapshot again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from geolake_nb.planning.iceberg.forgetting import forgetting_sentences
from geolake_nb.planning.iceberg.writability import require_writable
from geolake_nb.planning.manifests.undo import plan_rollback

if TYPE_CHECKING:
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage
    from geolake_nb.planning.change import Change

__all__ = ["plan_undo"]


def plan_undo(storage: Storage, snapshot: Snapshot, version: int | None = None) -> Change:
    """Go back to the parent of a snapshot, which has to be the current one; by default of this toolkit's newest."""
    require_writable(snapshot)
    change = plan_rollback(snapshot, version)
    return replace(change, says=(*change.says, *forgetting_sentences(snapshot, new_list=False)))
