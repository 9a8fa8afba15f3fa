"""Rewrite a Delta table: cluster its rows, or compact its files."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from geolake_nb.changes.rewrite_scope import files_to_compact, in_partitions, rewrite_sentences, why_nothing
from geolake_nb.changes.row_sources import DeltaRows
from geolake_nb.changes.write_job import WriteJob, require_writable_types
from geolake_nb.errors import RefusedError
from geolake_nb.formats.delta.raw_adds import raw_adds
from geolake_nb.formats.delta.remove_action import remove_action
from geolake_nb.formats.delta.writability import Doing, require_writable
from geolake_nb.formats.delta.write_target import DeltaTarget
from geolake_nb.model.change import Change, Reads, Verb
from geolake_nb.parquet.footer import read_metadata
from geolake_nb.scan.data_files import data_keys
from geolake_nb.scan.engines import engine_facts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from geolake_nb.changes.packing import Packing
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.storage.storage import Storage

__all__ = ["live_rows", "plan_rewrite", "remove_actions", "require_read_partitions"]


def plan_rewrite(
    storage: Storage,
    snapshot: Snapshot,
    *,
    packing: Packing,
    where: str | None = None,
) -> Change:
    """The files that a rewrite removes, and the job that writes their rows; partitions stay as they are.

    Without columns to cluster by, only files are rewritten that are much smaller or larger than the target, or that
    have many deleted rows. `where` filters partitions.
    """
    location, details = snapshot.location, snapshot.details
    require_writable(snapshot.protocol, details.metadata, doing=Doing.REWRITE, where=location)
    require_writable_types(snapshot.schema, where=location)
    require_read_partitions(snapshot)
    ordering = packing.ordering(snapshot.schema, snapshot.partition_columns)
    chosen = in_partitions(snapshot, where)
    if ordering is None:
        chosen = files_to_compact(snapshot, chosen, packing.target_bytes)
    parameters = packing.parameters(ordering, where)
    if not len(chosen):
        return Change(
            Verb.REWRITE, snapshot.format, location, snapshot.version, notes=(why_nothing(snapshot, where),),
            parameters=parameters,
        )  # fmt: skip
    rows = DeltaRows(snapshot, None if len(chosen) == len(snapshot.files) else tuple(chosen.tolist()))
    job = WriteJob(
        rows=rows,
        schema=snapshot.schema,
        target=DeltaTarget.of(snapshot, data_change=False),
        partition_by=snapshot.partition_columns,
        target_bytes=packing.target_bytes,
        ordering=ordering,
        row_group_rows=packing.row_group_rows,
        expected_rows=_stated_rows(snapshot, chosen),
    )
    size = int(snapshot.files.table["bytes"].to_numpy()[chosen].sum())
    return Change(
        verb=Verb.REWRITE,
        format=snapshot.format,
        location=location,
        base_version=snapshot.version,
        actions=remove_actions(storage, rows),
        job=job,
        notes=tuple(rewrite_sentences(snapshot, job, chosen, size)),
        reads=Reads(len(chosen), size),
        undo="geolake undo reverts it until VACUUM removes the old files",
        engines=engine_facts(snapshot),
        parameters=parameters,
        metrics={"files_removed": len(chosen), "bytes_removed": size},
    )


def require_read_partitions(snapshot: Snapshot) -> None:
    """Raise RefusedError for a partition value that is not of its column's type: Spark would write null for it."""
    for name in snapshot.details.unread_partitions:
        raise RefusedError(
            f"the partition column {name[:60]!r} has a value that is not of its type",
            where=snapshot.location,
            remedy="the column partition."
            + name[:60]
            + " of its files shows it; overwrite those rows with Spark first",
        )


def remove_actions(storage: Storage, rows: DeltaRows, *, data_change: bool = False) -> list[str]:
    """The actions that remove the files of some rows, as the log lists these files."""
    wanted = rows.paths
    adds = raw_adds(storage, rows.snapshot.details.segment, None if rows.files is None else wanted)
    texts = dict(zip(adds["path"].to_pylist(), adds["add"].to_pylist(), strict=True))
    now = int(time.time() * 1000)
    return [remove_action(texts[path], data_change=data_change, deletion_timestamp=now) for path in wanted]


def live_rows(storage: Storage, rows: DeltaRows) -> int | None:
    """How many rows the files have by their footers, without deleted ones; `None` where that is unknown."""
    snapshot = rows.snapshot
    indices = range(len(snapshot.files)) if rows.files is None else rows.files
    keys = data_keys(snapshot)
    deleted = pc.sum(snapshot.files.table["deleted_rows"].take(list(indices)), skip_nulls=False, min_count=0).as_py()
    if deleted is None:
        return None
    total = sum(footer.num_rows for footer in read_metadata(storage, [keys[index] for index in indices]))
    return int(total - deleted)


def _stated_rows(snapshot: Snapshot, chosen: NDArray[np.int64]) -> int | None:
    """How many live rows there are by the log; `None` if some file has no count."""
    rows = pc.sum(snapshot.files.table["rows"].take(chosen), skip_nulls=False, min_count=0).as_py()
    return None if rows is None else int(rows)
