"""Which bounds of a Havasu table are repaired: of geometries from their values, of rasters from their metadata."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from geolake_nb.changes.repair.scan_job import ScanJob
from geolake_nb.formats.havasu.write import base_action, require_writable
from geolake_nb.formats.iceberg.bounded_columns import bounded_columns
from geolake_nb.formats.iceberg.repair import repair_change
from geolake_nb.geo.bound_codec import to_havasu_wkb

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.changes.repair.scan_job import Finish
    from geolake_nb.model.change import Change
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.statistics import ColumnStats
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

__all__ = ["plan_repair"]


def plan_repair(
    storage: Storage,
    snapshot: Snapshot,
    *,
    columns: Sequence[str] | None = None,
    verify: bool = False,
    on_progress: Progress | None = None,
) -> Change:
    """Repair bounds that are missing or cannot be read; with `verify`, also those that contradict the data.

    Havasu's Parquet files have no boxes, so values are read; of rasters only the metadata, never pixels.
    """
    require_writable(snapshot)
    chosen, notes = bounded_columns(snapshot, columns)
    change = repair_change(
        storage, snapshot, chosen, notes, encode=to_havasu_wkb, verify=verify, footers=False, on_progress=on_progress
    )
    if not isinstance(change.job, ScanJob) or change.job.finish is None:
        return change
    finish = functools.partial(_finish, change.job.finish, base_action(snapshot))
    return replace(change, job=replace(change.job, finish=finish))


def _finish(
    finish: Finish, base: str, change: Change, job: ScanJob, scanned_stats: Mapping[int, Sequence[ColumnStats]]
) -> Change:
    """The change with the results of the scan; where all bounds are correct, there is nothing to commit."""
    done = finish(change, job, scanned_stats)
    return replace(done, actions=[base, *done.actions]) if done.actions else done
