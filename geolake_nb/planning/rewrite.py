"""The same rows in new files: near each other, or just in files of a better size."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from geolake_nb.core.predicate_binding import bind
from geolake_nb.core.predicate_sql import parse_predicate
from geolake_nb.errors import PredicateError
from geolake_nb.formats.data_files import data_keys
from geolake_nb.formats.delta.raw_adds import raw_adds
from geolake_nb.formats.delta.remove_action import remove_action
from geolake_nb.formats.delta.writability import Doing, require_writable
from geolake_nb.planning.change import Change, Reads, Verb
from geolake_nb.planning.delta_target import DeltaTarget
from geolake_nb.planning.engines import engine_facts
from geolake_nb.planning.explanation_text import bytes_text
from geolake_nb.planning.file_pruning import judge, leaves
from geolake_nb.planning.file_statistics import known_files
from geolake_nb.planning.row_sources import DeltaRows
from geolake_nb.planning.sampling import partition_codes
from geolake_nb.planning.writing import WriteJob, require_writable_types

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage
    from geolake_nb.planning.packing import Packing

__all__ = [
    "ill_sized",
    "in_partitions",
    "live_rows",
    "plan_rewrite",
    "remove_actions",
    "rewrite_sentences",
    "why_nothing",
]

# A file within these shares of the target is left alone when nothing is put in order.
_SMALL, _LARGE = 0.75, 1.8
_DELETED = 0.05


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


def in_partitions(snapshot: Snapshot, where: str | None) -> NDArray[np.int64]:
    """The places of the files in partitions that the filter may choose."""
    if where is None:
        return np.arange(len(snapshot.files))
    predicate = bind(parse_predicate(where), snapshot.schema)
    for leaf in leaves(predicate):
        if leaf.column[0] not in snapshot.partition_columns:
            names = ", ".join(sorted(snapshot.partition_columns)) or "none"
            raise PredicateError(
                f"{leaf.column[0]!r} is no partition column: a rewrite takes whole partitions",
                where=snapshot.location,
                remedy=f"partition columns are: {names}",
            )
    return np.flatnonzero(judge(predicate, known_files(snapshot, predicate)).kept)


def ill_sized(
    snapshot: Snapshot, chosen: NDArray[np.int64], target: int, *, codes: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Those of the files that are worth writing again for their size or their deleted rows alone.

    `codes` say which partition each file is in, where the columns do not.
    """
    table = snapshot.files.table
    if codes is None:
        _, codes = partition_codes(table, snapshot.partition_columns, chosen)
    size = table["bytes"].to_numpy()[chosen]
    deleted = np.nan_to_num(table["deleted_rows"].to_numpy()[chosen].astype(np.float64))
    rows = np.nan_to_num(table["rows"].to_numpy()[chosen].astype(np.float64))
    wanted = (size > _LARGE * target) | (deleted > _DELETED * (rows + deleted))
    small = size < _SMALL * target
    # A small file needs another one of its partition to go with.
    joined = np.bincount(codes[small | wanted], minlength=codes.max(initial=0) + 1)
    kept: NDArray[np.int64] = chosen[wanted | (small & (joined[codes] > 1))]
    return kept


def why_nothing(snapshot: Snapshot, where: str | None) -> str:
    """Why there is nothing to write again, in a sentence."""
    if not len(snapshot.files):
        return "The table has no files."
    if where is not None:
        return "No partition that the filter chooses has files to write again."
    return "Every file is of about the right size."


def rewrite_sentences(
    snapshot: Snapshot, job: WriteJob, chosen: NDArray[np.int64], size: int, *, codes: NDArray[np.int64] | None = None
) -> list[str]:
    """What a rewrite of these files does, for a plan; `codes` say which partition each file is in."""
    if codes is None:
        _, codes = partition_codes(snapshot.files.table, snapshot.partition_columns, chosen)
    bytes_ = np.bincount(codes, weights=snapshot.files.table["bytes"].to_numpy()[chosen])
    files = sum(max(1, math.ceil(one / job.target_bytes)) for one in bytes_.tolist())
    said = [
        f"{len(chosen):,} of {len(snapshot.files):,} files ({bytes_text(size)}) are written again as about {files:,}, "
        f"of {bytes_text(job.target_bytes)} each at most and with row groups of {job.row_group_rows:,} rows."
    ]
    if job.ordering is None:
        said.append("The rows stay about in the order in which they are.")
    else:
        names = " and ".join(job.ordering.columns)
        curve = {"hilbert": "a Hilbert curve", "zorder": "a Z-order curve"}[job.ordering.curve.value]
        said.append(f"The rows are put in order by {names} along {curve}.")
    if snapshot.partition_columns:
        said.append(f"The partitions by {' and '.join(snapshot.partition_columns)} stay.")
    return said
