"""The rows of a Havasu table in new files: near each other, or just in files of a better size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.planning.havasu.new import base_action, require_writable
from geolake_nb.planning.havasu.target import HavasuTarget
from geolake_nb.planning.manifests.rewrite import plan_snapshot_rewrite

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
    """What a rewrite takes away, and the job that writes the same rows again; files stay in their partitions."""
    require_writable(snapshot)
    return plan_snapshot_rewrite(
        snapshot,
        packing=packing,
        where=where,
        target_of=lambda tuples: HavasuTarget.of(snapshot, {}, tuples=tuples),
        first=(base_action(snapshot),),
    )
