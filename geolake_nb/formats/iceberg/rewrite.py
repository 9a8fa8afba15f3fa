"""Rewrite an Iceberg or Havasu table: cluster its rows, or compact its files."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from geolake_nb.changes.rewrite import files_to_compact, matching_files, rewrite_sentences, why_nothing
from geolake_nb.changes.write_job import IcebergRows, WriteJob, require_writable_types
from geolake_nb.formats.iceberg.live_rows import LAST_UPDATED, PARTITION, ROW_ID
from geolake_nb.formats.iceberg.partitions import partition_groups
from geolake_nb.formats.iceberg.writability import forgetting_sentences, require_writable
from geolake_nb.formats.iceberg.write_target import IcebergTarget
from geolake_nb.model.change import Change, Reads, Verb
from geolake_nb.model.types import StructType
from geolake_nb.scan.engines import engine_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from geolake_nb.changes.write_job import Packing, Target
    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.formats.iceberg.partitions import PartitionTuple
    from geolake_nb.formats.iceberg.snapshot import IcebergDetails
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import Field
    from geolake_nb.storage.storage import Storage

__all__ = ["plan_rewrite", "plan_snapshot_rewrite"]


def plan_snapshot_rewrite(
    snapshot: Snapshot,
    *,
    packing: Packing,
    where: Predicate | None,
    files: Sequence[int] | None = None,
    target_of: Callable[[tuple[PartitionTuple, ...]], Target],
    first: Sequence[str] = (),
    more: tuple[Field, ...] = (),
) -> Change:
    """The files that a rewrite removes, and the job that writes their rows; files stay in their partitions.

    Values are written as they are stored. Rows that delete files remove are not written. `target_of` makes
    the target for files of these partitions, `first` are actions that come before, `more` columns that rows keep.
    """
    location = snapshot.location
    ordering = packing.ordering(snapshot.schema, snapshot.partition_columns)
    chosen = matching_files(snapshot, where, files)
    groups, codes = partition_groups(snapshot, chosen)
    if ordering is None and files is None:
        chosen = files_to_compact(snapshot, chosen, packing.target_bytes, codes=codes)
        groups, codes = partition_groups(snapshot, chosen)
    parameters = packing.parameters(ordering, where)
    nothing = Change(Verb.REWRITE, snapshot.format, location, snapshot.version, parameters=parameters)
    if not len(chosen):
        return replace(nothing, notes=(why_nothing(snapshot, where),))
    # A single partition needs no column for it.
    apart = len(groups) > 1
    fields = (*snapshot.schema.fields, *more, *((PARTITION,) if apart else ()))
    job = WriteJob(
        rows=IcebergRows(
            snapshot,
            None if len(chosen) == len(snapshot.files) else tuple(chosen.tolist()),
            tuple(codes.tolist()) if apart else None,
        ),
        schema=replace(snapshot.schema, root=StructType(fields)),
        target=target_of(groups),
        partition_by=(PARTITION.name,) if apart else (),
        target_bytes=packing.target_bytes,
        ordering=ordering,
        row_group_rows=packing.row_group_rows,
        expected_rows=_live_rows(snapshot, chosen),
    )
    table = snapshot.files.table
    paths = [table["path"][index].as_py() for index in chosen.tolist()]
    size = int(table["bytes"].to_numpy()[chosen].sum())
    return replace(
        nothing,
        actions=[
            *first,
            *(json.dumps({"remove": {"path": path}}, ensure_ascii=False) for path in paths),
        ],
        job=job,
        notes=tuple(rewrite_sentences(snapshot, job, chosen, size, codes=codes, where=where)),
        reads=Reads(len(chosen), size),
        undo="geolake undo goes back to the previous snapshot, while this one is the current one",
        engines=engine_facts(snapshot),
        metrics={"files_removed": len(chosen), "bytes_removed": size},
    )


def _live_rows(snapshot: Snapshot, chosen: NDArray[np.int64]) -> int | None:
    """How many rows are written; `None` where only the delete files determine it."""
    details: IcebergDetails = snapshot.details
    if details.uncounted_deletes:
        return None
    return int(pc.sum(snapshot.files.table["rows"].take(chosen), min_count=0).as_py())


def plan_rewrite(
    storage: Storage,
    snapshot: Snapshot,
    *,
    packing: Packing,
    where: Predicate | None = None,
    files: Sequence[int] | None = None,
) -> Change:
    """The files that a rewrite removes, and the job that writes their rows; files stay in their partitions.

    Rows of a table of version 3 keep their ids. No deletes are lost: concurrent ones are a conflict, or still apply.
    """
    require_writable(snapshot)
    require_writable_types(snapshot.schema, where=snapshot.location)
    # Iceberg 3, Row Lineage: a row that moves to another file keeps its id and its number.
    more = (ROW_ID, LAST_UPDATED) if snapshot.details.format_version >= 3 else ()
    change = plan_snapshot_rewrite(
        snapshot,
        packing=packing,
        where=where,
        files=files,
        target_of=lambda tuples: IcebergTarget.of(snapshot, {}, tuples=tuples),
        more=more,
    )
    return (
        change
        if change.is_empty
        else replace(change, notes=(*change.notes, *forgetting_sentences(snapshot, entries=True)))
    )
