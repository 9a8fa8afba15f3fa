"""Undo the newest change of a Havasu table: its parent becomes the current snapshot again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.formats.havasu.write import base_action, require_writable
from geolake_nb.formats.iceberg.rollback import plan_rollback

if TYPE_CHECKING:
    from geolake_nb.model.change import Change
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.storage.storage import Storage

__all__ = ["plan_undo"]


def plan_undo(storage: Storage, snapshot: Snapshot, version: int | None = None) -> Change:
    """Go back to the parent of a snapshot, which has to be the current one; by default of this toolkit's newest."""
    require_writable(snapshot)
    return plan_rollback(snapshot, version, first=(base_action(snapshot),))
