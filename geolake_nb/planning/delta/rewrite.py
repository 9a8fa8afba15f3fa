"""The rows of a Delta table in new files: near each other, or just in files of a better size."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from geolake_nb.formats.data_files import data_keys
from geolake_nb.formats.delta.raw_adds import raw_adds
from geolake_nb.formats.delta.remove_action import remove_action
from geolake_nb.formats.delta.writability import Doing, require_writable
from geolake_nb.planning.change import Change, Reads, Verb
from geolake_nb.planning.delta.target import DeltaTarget
from geolake_nb.planning.engines import engine_facts
from geolake_nb.planning.writing.job import WriteJob, require_writable_types
from geolake_nb.planning.writing.rewrite_scope import ill_sized, in_partitions, rewrite_sentences, why_nothing
from geolake_nb.planning.writing.row_sources import DeltaRows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage
    from geolake_nb.planning.writing.packing import Packing

__all__ = ["live_rows", "plan_rewrite", "remove_actions"]


def plan_rewrite(
    storage: Storage,
    snapshot: Snapshot,
    *,
    packing: Packing,
    where: str | None = None,
) -> Change:
    """What a rewrite takes away, and the job that writes the same rows again; partitions stay as they are.

    Without columns to cluster by, only files are written again that are much smaller or larger than the target, or of
    which many rows are deleted. `where` chooses partitions.
    """
    location, details = snapshot.location, snapshot.details
    require_writable(snapshot.protocol, details.metadata, doing=Doing.REWRITE, where=location)
    require_writable_types(snapshot.schema, where=location)
    ordering = packing.ordering(snapshot.schema, snapshot.partition_columns)
    chosen = in_partitions(snapshot, where)
    if ordering is None:
        chosen = ill_sized(snapshot, chosen, packing.target_bytes)
    parameters = packing.parameters(ordering, where)
    if not len(chosen):
        return Change(
            Verb.REWRITE, snapshot.format, location, snapshot.version, says=(why_nothing(snapshot, where),),
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
        says=tuple(rewrite_sentences(snapshot, job, chosen, size)),
        reads=Reads(len(chosen), size),
        undo="geolake undo takes it back until VACUUM removes the old files",
        engines=engine_facts(snapshot),
        parameters=parameters,
        metrics={"files_removed": len(chosen), "bytes_removed": size},
    )


def remove_actions(storage: Storage, rows: DeltaRows, *, data_change: bool = False) -> list[str]:
    """The actions that take the files of some rows away, as the log has these files."""
    wanted = rows.paths
    found = raw_adds(storage, rows.snapshot.details.segment, None if rows.files is None else wanted)
    texts = dict(zip(found["path"].to_pylist(), found["add"].to_pylist(), strict=True))
    now = int(time.time() * 1000)
    return [remove_action(texts[path], data_change=data_change, deletion_timestamp=now) for path in wanted]


def live_rows(storage: Storage, rows: DeltaRows) -> int | None:
    """How many rows the files have by their footers, without deleted ones; `None` where that cannot be told."""
    snapshot = rows.snapshot
    places = range(len(snapshot.files)) if rows.files is None else rows.files
    keys = data_keys(snapshot)
    deleted = pc.sum(snapshot.files.table["deleted_rows"].take(list(places)), skip_nulls=False, min_count=0).as_py()
    if deleted is None:
        return None
    total = sum(footer.num_rows for footer in storage.parquet_metadata([keys[place] for place in places]))
    return int(total - deleted)


def _stated_rows(snapshot: Snapshot, chosen: NDArray[np.int64]) -> int | None:
    """How many live rows the log says that there are; `None` if it does not say so of every file."""
    rows = pc.sum(snapshot.files.table["rows"].take(chosen), skip_nulls=False, min_count=0).as_py()
    return None if rows is None else int(rows)
