"""The rows of an Iceberg or Havasu table in new files: near each other, or just in files of a better size."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from geolake_nb.core.types import StructType
from geolake_nb.formats.iceberg.live_rows import PARTITION
from geolake_nb.planning.change import Change, Reads, Verb
from geolake_nb.planning.engines import engine_facts
from geolake_nb.planning.manifests.partition_groups import partition_groups
from geolake_nb.planning.writing.job import WriteJob
from geolake_nb.planning.writing.rewrite_scope import ill_sized, in_partitions, rewrite_sentences, why_nothing
from geolake_nb.planning.writing.row_sources import IcebergRows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from geolake_nb.core.types import Field
    from geolake_nb.formats.iceberg.details import IcebergDetails
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.planning.manifests.partition_groups import PartitionTuple
    from geolake_nb.planning.writing.job import Target
    from geolake_nb.planning.writing.packing import Packing

__all__ = ["plan_snapshot_rewrite"]


def plan_snapshot_rewrite(
    snapshot: Snapshot,
    *,
    packing: Packing,
    where: str | None,
    target_of: Callable[[tuple[PartitionTuple, ...]], Target],
    first: Sequence[str] = (),
    more: tuple[Field, ...] = (),
) -> Change:
    """What a rewrite takes away, and the job that writes the same rows again; files stay in their partitions.

    Values are written as they are stored. Rows that delete files take away are not written again. `target_of` makes
    the target for files of these partitions, `first` are actions that come before, `more` columns that rows keep.
    """
    location = snapshot.location
    ordering = packing.ordering(snapshot.schema, snapshot.partition_columns)
    chosen = in_partitions(snapshot, where)
    groups, codes = partition_groups(snapshot, chosen)
    if ordering is None:
        chosen = ill_sized(snapshot, chosen, packing.target_bytes, codes=codes)
        groups, codes = partition_groups(snapshot, chosen)
    parameters = packing.parameters(ordering, where)
    nothing = Change(Verb.REWRITE, snapshot.format, location, snapshot.version, parameters=parameters)
    if not len(chosen):
        return replace(nothing, says=(why_nothing(snapshot, where),))
    # Where there is one partition, no column has to say so.
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
    paths = [table["path"][place].as_py() for place in chosen.tolist()]
    size = int(table["bytes"].to_numpy()[chosen].sum())
    return replace(
        nothing,
        actions=[
            *first,
            *(json.dumps({"remove": {"path": path}}, ensure_ascii=False) for path in paths),
        ],
        job=job,
        says=tuple(rewrite_sentences(snapshot, job, chosen, size, codes=codes)),
        reads=Reads(len(chosen), size),
        undo="geolake undo goes back to the snapshot before, as long as this one is the current one",
        engines=engine_facts(snapshot),
        metrics={"files_removed": len(chosen), "bytes_removed": size},
    )


def _live_rows(snapshot: Snapshot, chosen: NDArray[np.int64]) -> int | None:
    """How many rows are written; `None` where only the delete files can tell."""
    details: IcebergDetails = snapshot.details
    if details.uncounted_deletes:
        return None
    return int(pc.sum(snapshot.files.table["rows"].take(chosen), min_count=0).as_py())
