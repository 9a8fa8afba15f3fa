"""Which files a rewrite takes, and what its plan says of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from geolake_nb.core.predicate_binding import bind
from geolake_nb.core.predicate_sql import parse_predicate
from geolake_nb.errors import PredicateError
from geolake_nb.planning.scan.explanation_text import bytes_text
from geolake_nb.planning.scan.file_pruning import judge, leaves
from geolake_nb.planning.scan.file_statistics import known_files
from geolake_nb.planning.writing.sampling import partition_codes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.planning.writing.job import WriteJob

__all__ = ["ill_sized", "in_partitions", "rewrite_sentences", "why_nothing"]

# A file within these shares of the target is left alone when nothing is put in order.
_SMALL, _LARGE = 0.75, 1.8
_DELETED = 0.05


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
