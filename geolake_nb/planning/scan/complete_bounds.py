"""What a filter would read of a table if every file had bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.planning.scan.explanation import Amount, IfComplete, amounts_by_reason
from geolake_nb.planning.scan.file_pruning import KnownParts, judge
from geolake_nb.planning.scan.reason import ScanReason
from geolake_nb.planning.scan.row_group_pruning import with_row_group_boxes

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from geolake_nb.core.predicate import Predicate
    from geolake_nb.formats.snapshot import Snapshot

__all__ = ["if_bounds_were_complete"]

_MISSING = (
    ScanReason.NO_BOUNDS,
    ScanReason.UNUSABLE_BOUNDS,
    ScanReason.NOT_INDEXED,
    ScanReason.NO_STATISTICS,
)
_JUDGED = (
    ScanReason.OVERLAPS,
    ScanReason.WRAPPED,
    ScanReason.IN_RANGE,
    ScanReason.OUTSIDE_WINDOW,
    ScanReason.TOO_SMALL_TO_HOLD,
    ScanReason.SCALAR_STATISTICS,
)


def if_bounds_were_complete(
    predicate: Predicate,
    snapshot: Snapshot,
    known: KnownParts,
    amounts: Mapping[ScanReason, Amount],
    row_groups: pa.Table | None,
) -> IfComplete:
    """What the filter would read if every file had bounds as those that have some.

    `amounts` is what it reads now. Row groups give their files the bounds that those lack.
    """
    if row_groups is not None and any(reason in amounts for reason in _MISSING):
        judged = judge(predicate, with_row_group_boxes(predicate, snapshot, known, row_groups))
        amounts = amounts_by_reason(snapshot.files.table, judged)
    sure = Amount.sum(amount for reason, amount in amounts.items() if reason.kept and reason not in _MISSING)
    if not any(reason in amounts for reason in _MISSING):
        return IfComplete(sure, exact=True, basis="every file that counts has bounds")
    with_bounds = {reason: amount.bytes for reason, amount in amounts.items() if reason in _JUDGED}
    of_bytes = sum(with_bounds.values())
    if not of_bytes:
        return IfComplete(None, exact=False, basis="not known, for no file has bounds to judge by")
    share = sum(size for reason, size in with_bounds.items() if reason.kept) / of_bytes
    guessed = Amount.sum(amount for reason, amount in amounts.items() if reason in _MISSING).part(share)
    basis = f"files without bounds are taken to be hit like those with bounds: {share:.1%} of the bytes"
    return IfComplete(Amount.sum([sure, guessed]), exact=False, basis=basis)
