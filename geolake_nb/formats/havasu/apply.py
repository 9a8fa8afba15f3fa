"""Commits a change to a Havasu table; the file system keeps the table, and no JVM is needed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from geolake_nb.changes.commit import Applied, warn_of_problems
from geolake_nb.formats.havasu.commit import HavasuCommit, commit, find_commit
from geolake_nb.model.change import Verb
from geolake_nb.storage.exclusion import require_exclusion, storage_put

if TYPE_CHECKING:
    from geolake_nb.changes.commit import CommitContext
    from geolake_nb.model.change import Change

__all__ = ["commit_change", "find_transaction", "require_atomic_put"]

# Iceberg, Snapshots: new rows, the same rows in other files, and rows in place of others.
_OPERATIONS = {"append": "append", "create": "append", "overwrite": "overwrite"}
_PROBE = "metadata"


def find_transaction(change: Change, context: CommitContext) -> int | None:
    """The snapshot that already has the transaction, `None` if there is none."""
    return find_commit(context.storage, context.transaction)


def require_atomic_put(context: CommitContext) -> None:
    """Raise if the store of the table has no atomic put."""
    require_exclusion(context.storage, single_writer=context.single_writer, folder=_PROBE)


def commit_change(change: Change, context: CommitContext) -> Applied:
    """Write the next metadata file; appends of other writers are accepted, their other changes are conflicts."""
    adds = [json.loads(action).get("add", {}) for action in change.actions if '"problems"' in action]
    unbounded = warn_of_problems(adds)
    made = commit(
        context.storage,
        HavasuCommit(
            base_snapshot=change.base_version,
            operation=_operation(change),
            actions=change.actions,
            transaction=context.transaction,
            summary={
                "geolake.verb": change.verb.value,
                **{f"geolake.{name}": text for name, text in change.parameters.items()},
            },
            blind_append=change.blind_append,
            tolerates_appends=change.tolerates_appends,
        ),
        put=storage_put(context.storage, single_writer=context.single_writer),
    )
    metrics = {**change.metrics, **({"files_without_bound": unbounded} if unbounded else {})}
    return Applied(made.snapshot_id, made.rebased_over, metrics)


def _operation(change: Change) -> str:
    if change.verb in (Verb.CONVERT, Verb.WRITE):
        return _OPERATIONS.get(change.parameters.get("mode", "create"), "append")
    return "replace"
