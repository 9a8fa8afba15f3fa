"""Commits a change to a set of Parquet files; no JVM is needed for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from geolake_nb.changes.commit import Applied, warn_of_problems
from geolake_nb.formats.parquet_folder.journal import HIDDEN
from geolake_nb.formats.parquet_folder.replace import SetChange, commit_set, end_pending, find_change
from geolake_nb.storage.exclusion import require_exclusion

if TYPE_CHECKING:
    from geolake_nb.changes.commit import CommitContext
    from geolake_nb.model.change import Change

__all__ = ["commit_change", "find_transaction", "require_atomic_put"]


def find_transaction(change: Change, context: CommitContext) -> int | None:
    """The number of the change that was made under this transaction, `None` if there is none.

    An interrupted one is finished first.
    """
    stored = find_change(context.storage, context.transaction)
    if stored is None:
        return None
    if stored.outcome is None:
        end_pending(context.storage)
        stored = find_change(context.storage, context.transaction)
    return None if stored is None or (stored.outcome is not None and stored.outcome.abandoned) else stored.version


def require_atomic_put(context: CommitContext) -> None:
    """Raise if the store of the set has no atomic put: the journal decides which writer is first."""
    require_exclusion(context.storage, single_writer=context.single_writer, folder=HIDDEN)


def commit_change(change: Change, context: CommitContext) -> Applied:
    """Run the steps of the change; a journal is written first, so that they can be finished or undone."""
    puts = [json.loads(text).get("put", {}) for text in change.actions if '"problems"' in text]
    unbounded = warn_of_problems(puts)
    metrics = {**change.metrics, **({"files_without_bound": unbounded} if unbounded else {})}
    made = SetChange(context.transaction, change.verb.value, change.actions, change.parameters, metrics)
    return Applied(commit_set(context.storage, made), metrics=metrics)
