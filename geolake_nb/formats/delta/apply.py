"""Commits a change to a Delta table, through the store of the session where the table is not on a local disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.changes.commit import Applied
from geolake_nb.formats.delta.commit import DeltaCommit, commit, find_commit
from geolake_nb.formats.delta.create import with_table_id
from geolake_nb.formats.delta.log_segment import LOG

if TYPE_CHECKING:
    from geolake_nb.changes.commit import CommitContext
    from geolake_nb.formats.delta.commit import PutIfAbsent
    from geolake_nb.model.change import Change

__all__ = ["commit_change", "find_transaction", "require_atomic_put"]


def find_transaction(change: Change, context: CommitContext) -> int | None:
    """The version that already has the transaction, `None` if there is none."""
    return find_commit(context.storage, context.transaction, since=_base(change))


def require_atomic_put(context: CommitContext) -> None:
    """Raise if the store of the table has no atomic put."""
    from geolake_nb.storage.exclusion import require_exclusion

    if context.spark is None:
        require_exclusion(context.storage, single_writer=context.single_writer, folder=LOG)
    else:
        _put(context)


def commit_change(change: Change, context: CommitContext) -> Applied:
    """Write the log entry; appends of other writers are accepted, their other changes are conflicts."""
    if change.base_version is None:
        change = with_table_id(change, context.transaction)
    made = commit(
        context.storage,
        DeltaCommit(
            base_version=_base(change),
            operation=f"GEOLAKE {change.verb.value.upper()}",
            parameters=change.parameters,
            actions=change.actions,
            transaction=context.transaction,
            metrics={name: str(value) for name, value in change.metrics.items()},
            blind_append=change.blind_append,
            tolerates_appends=change.tolerates_appends,
            table_id=change.table_id,
        ),
        put=_put(context),
    )
    return Applied(made.version, made.rebased_over, change.metrics)


def _base(change: Change) -> int:
    return -1 if change.base_version is None else change.base_version


def _put(context: CommitContext) -> PutIfAbsent | None:
    """How the log entry is written: by the storage itself, or through the store of the session that is given."""
    from geolake_nb.formats.delta.log_store import session_put
    from geolake_nb.storage.exclusion import storage_put

    if context.storage.is_local:
        return None
    if context.spark is not None:
        return session_put(context.spark, context.storage.location, single_writer=context.single_writer)
    return storage_put(context.storage, single_writer=context.single_writer)
