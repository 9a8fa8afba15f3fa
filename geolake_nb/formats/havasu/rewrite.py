"""Rewrite a Havasu table: cluster its rows, or compact its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.formats.havasu.write import base_action, require_writable
from geolake_nb.formats.havasu.write_target import HavasuTarget
from geolake_nb.formats.iceberg.snapshot_rewrite import plan_snapshot_rewrite

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
    """The files that a rewrite removes, and the job that writes their rows; files stay in their partitions."""
    require_writable(snapshot)
    return plan_snapshot_rewrite(
        snapshot,
        packing=packing,
        where=where,
        target_of=lambda tuples: HavasuTarget.of(snapshot, {}, tuples=tuples),
        first=(base_action(snapshot),),
    )
