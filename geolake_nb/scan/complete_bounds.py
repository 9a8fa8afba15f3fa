"""What a filter would read of a table if every file had bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.scan.explanation import Amount, IfComplete, amounts_by_reason
from geolake_nb.scan.prune import PruneInput, prune
from geolake_nb.scan.prune_row_groups import with_row_group_boxes
from geolake_nb.scan.reason import ScanReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.model.snapshot import Snapshot

__all__ = ["if_bounds_were_complete"]

_MISSING = (
    ScanReason.NO_BOUNDS,
    ScanReason.UNUSABLE_BOUNDS,
    ScanReason.NOT_INDEXED,
    ScanReason.NO_STATISTICS,
)
_BY_BOUNDS = (
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
    known: PruneInput,
    amounts: Mapping[ScanReason, Amount],
    row_groups: pa.Table | None,
) -> IfComplete:
    """What the filter would read if every file had bounds like those that have some.

    `amounts` is what it reads now. Row groups give their files the bounds that those lack.
    """
    if row_groups is not None and any(reason in amounts for reason in _MISSING):
        pruned = prune(predicate, with_row_group_boxes(predicate, snapshot, known, row_groups))
        amounts = amounts_by_reason(snapshot.files.table, pruned)
    sure = Amount.sum(amount for reason, amount in amounts.items() if reason.kept and reason not in _MISSING)
    if not any(reason in amounts for reason in _MISSING):
        return IfComplete(sure, exact=True, basis="every relevant file has bounds")
    with_bounds = {reason: amount.bytes for reason, amount in amounts.items() if reason in _BY_BOUNDS}
    of_bytes = sum(with_bounds.values())
    if not of_bytes:
        return IfComplete(None, exact=False, basis="unknown: no file has bounds")
    share = sum(size for reason, size in with_bounds.items() if reason.kept) / of_bytes
    guessed = Amount.sum(amount for reason, amount in amounts.items() if reason in _MISSING).part(share)
    basis = f"assumes that files without bounds match like those with bounds: {share:.1%} of the bytes"
    return IfComplete(Amount.sum([sure, guessed]), exact=False, basis=basis)
