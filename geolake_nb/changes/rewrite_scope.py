"""Which files a rewrite takes, and the sentences of its plan."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from geolake_nb.changes.sampling import partition_codes
from geolake_nb.errors import PredicateError
from geolake_nb.expressions.binding import bind, leaves
from geolake_nb.expressions.predicate_sql import parse_predicate
from geolake_nb.model.file_table import physical_rows
from geolake_nb.scan.explanation import bytes_text
from geolake_nb.scan.file_statistics import known_files
from geolake_nb.scan.prune import prune
from geolake_nb.text.messages import plural

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geolake_nb.changes.write_job import WriteJob
    from geolake_nb.model.snapshot import Snapshot

__all__ = ["files_to_compact", "in_partitions", "rewrite_sentences", "why_nothing"]

# A file within these shares of the target is left alone when rows are not sorted.
_SMALL, _LARGE = 0.75, 1.8
_DELETED = 0.05


def in_partitions(snapshot: Snapshot, where: str | None) -> NDArray[np.int64]:
    """The indices of the files in partitions that may match the filter."""
    if where is None:
        return np.arange(len(snapshot.files))
    predicate = bind(parse_predicate(where), snapshot.schema)
    for leaf in leaves(predicate):
        if leaf.column[0] not in snapshot.partition_columns:
            names = ", ".join(sorted(snapshot.partition_columns)) or "none"
            raise PredicateError(
                f"{leaf.column[0]!r} is not a partition column: a rewrite takes whole partitions",
                where=snapshot.location,
                remedy=f"partition columns are: {names}",
            )
    return np.flatnonzero(prune(predicate, known_files(snapshot, predicate)).kept)


def files_to_compact(
    snapshot: Snapshot, chosen: NDArray[np.int64], target: int, *, codes: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Those of the files that are worth rewriting for their size or their deleted rows alone.

    `codes` say which partition each file is in, where the columns do not.
    """
    table = snapshot.files.table
    if codes is None:
        _, codes = partition_codes(table, snapshot.partition_columns, chosen)
    size = table["bytes"].to_numpy()[chosen]
    deleted = np.nan_to_num(table["deleted_rows"].to_numpy()[chosen].astype(np.float64))
    rows = np.nan_to_num(physical_rows(table).to_numpy()[chosen].astype(np.float64))
    wanted = (size > _LARGE * target) | (deleted > _DELETED * np.maximum(rows, deleted))
    small = size < _SMALL * target
    # A small file needs another one of its partition to merge with.
    joined = np.bincount(codes[small | wanted], minlength=codes.max(initial=0) + 1)
    kept: NDArray[np.int64] = chosen[wanted | (small & (joined[codes] > 1))]
    return kept


def why_nothing(snapshot: Snapshot, where: str | None) -> str:
    """Why there is nothing to rewrite, in a sentence."""
    if not len(snapshot.files):
        return "The table has no files."
    if where is not None:
        return "No partition that matches the filter has files to rewrite."
    return "Every file is close to the target size."


def rewrite_sentences(
    snapshot: Snapshot, job: WriteJob, chosen: NDArray[np.int64], size: int, *, codes: NDArray[np.int64] | None = None
) -> list[str]:
    """What a rewrite of these files does, for a plan; `codes` say which partition each file is in."""
    if codes is None:
        _, codes = partition_codes(snapshot.files.table, snapshot.partition_columns, chosen)
    bytes_ = np.bincount(codes, weights=snapshot.files.table["bytes"].to_numpy()[chosen])
    files = sum(max(1, math.ceil(partition_bytes / job.target_bytes)) for partition_bytes in bytes_.tolist())
    sentences = [
        f"{len(chosen):,} of {len(snapshot.files):,} files ({bytes_text(size)}) are rewritten into about"
        f" {plural(files, 'file')} (target {bytes_text(job.target_bytes)}, row groups of {job.row_group_rows:,} rows)."
    ]
    if job.ordering is None:
        sentences.append("Row order is kept.")
    else:
        names = " and ".join(job.ordering.columns)
        curve = {"hilbert": "a Hilbert curve", "zorder": "a Z-order curve"}[job.ordering.curve.value]
        sentences.append(f"Rows are sorted by {names} along {curve}.")
    if snapshot.partition_columns:
        sentences.append(f"The partitions by {' and '.join(snapshot.partition_columns)} are kept.")
    return sentences
