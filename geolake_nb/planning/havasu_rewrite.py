"""The rows of a Havasu table in new files: near each other, or just in files of a better size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.planning.havasu_new import base_action, require_writable
from geolake_nb.planning.havasu_target import HavasuTarget
from geolake_nb.planning.snapshot_rewrite import plan_snapshot_rewrite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage
    from geolake_nb.planning.change import Change

__all__ = ["plan_rewrite"]


def plan_rewrite(
    storage: Storage,
    snapshot: Snapshot,
    *,
    cluster_by: Sequence[str] = (),
    curve: str = "hilbert",
    target_file_size: int | str = "128MB",
    row_group_rows: int | None = None,
    where: str | None = None,
) -> Change:
    """What a rewrite takes away, and the job that writes the same rows again; files stay in their partitions."""
    require_writable(snapshot)
    return plan_snapshot_rewrite(
        snapshot,
        cluster_by=cluster_by,
        curve=curve,
        target_file_size=target_file_size,
        row_group_rows=row_group_rows,
        where=where,
        target_of=lambda tuples: HavasuTarget.of(snapshot, {}, tuples=tuples),
        first=(base_action(snapshot),),
    )
