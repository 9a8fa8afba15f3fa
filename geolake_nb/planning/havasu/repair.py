"""Which bounds of a Havasu table are mended: those of geometries from their values, of rasters from their metadata."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from geolake_nb.core.bound_codec import to_havasu_wkb
from geolake_nb.planning.havasu.new import base_action, require_writable
from geolake_nb.planning.iceberg.repair import mended
from geolake_nb.planning.mending.columns import bounded_columns
from geolake_nb.planning.mending.scan_job import ScanJob

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from geolake_nb.core.statistics import ColumnStats
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage
    from geolake_nb.planning.change import Change
    from geolake_nb.planning.mending.scan_job import Finish

    Progress = Callable[[int, int], None]

__all__ = ["plan_repair"]


def plan_repair(
    storage: Storage,
    snapshot: Snapshot,
    *,
    columns: Sequence[str] | None = None,
    verify: bool = False,
    on_progress: Progress | None = None,
) -> Change:
    """Bounds that are missing or cannot be read; with `verify`, those too which the data shows to be wrong.

    Havasu's Parquet files have no boxes, so that values are read; of rasters their metadata, and never a pixel.
    """
    require_writable(snapshot)
    chosen, says = bounded_columns(snapshot, columns)
    change = mended(
        storage, snapshot, chosen, says, encode=to_havasu_wkb, verify=verify, footers=False, on_progress=on_progress
    )
    if not isinstance(change.job, ScanJob) or change.job.finish is None:
        return change
    finish = functools.partial(_finish, change.job.finish, base_action(snapshot))
    return replace(change, job=replace(change.job, finish=finish))


def _finish(
    finish: Finish, base: str, change: Change, job: ScanJob, found: Mapping[int, Sequence[ColumnStats]]
) -> Change:
    """The change with what the scan found; where all was right, nothing is left to commit."""
    done = finish(change, job, found)
    return replace(done, actions=[base, *done.actions]) if done.actions else done
