"""Commits a change to a Delta table, through the store of the session where the table is not on a local disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.formats.delta.commit import DeltaCommit, commit, find_commit
from geolake_nb.planning.delta.creating import stamped
from geolake_nb.spark.applying import Applied

if TYPE_CHECKING:
    from geolake_nb.formats.delta.commit import PutIfAbsent
    from geolake_nb.planning.change import Change
    from geolake_nb.spark.applying import Place

__all__ = ["commit_change", "find_landed", "require_store"]


def find_landed(change: Change, place: Place) -> int | None:
    """The version that holds the transaction already, `None` if there is none."""
    return find_commit(place.storage, place.transaction, since=_base(change))


def require_store(place: Place) -> None:
    """Raise where the store of the table does not keep two writers apart."""
    from geolake_nb.spark.log_store import require_exclusion

    if place.spark is None:
        require_exclusion(place.storage, single_writer=place.single_writer)
    else:
        _put(place)


def commit_change(change: Change, place: Place) -> Applied:
    """Write the log entry; other writers' appends are stepped over, what else they did is a conflict."""
    if change.base_version is None:
        change = stamped(change, place.transaction)
    made = commit(
        place.storage,
        DeltaCommit(
            base_version=_base(change),
            operation=f"GEOLAKE {change.verb.value.upper()}",
            parameters=change.parameters,
            actions=change.actions,
            transaction=place.transaction,
            metrics={name: str(value) for name, value in change.metrics.items()},
            blind_append=change.blind_append,
            tolerates_appends=change.tolerates_appends,
            table_id=change.table_id,
        ),
        put=_put(place),
    )
    return Applied(made.version, made.rebased_over, change.metrics)


def _base(change: Change) -> int:
    return -1 if change.base_version is None else change.base_version


def _put(place: Place) -> PutIfAbsent | None:
    """How the log entry is written: by the storage itself, or through the store of the session that is given."""
    from geolake_nb.spark.log_store import session_put, storage_put

    if place.storage.is_local:
        return None
    if place.spark is not None:
        return session_put(place.spark, place.storage.location, single_writer=place.single_writer)
    return storage_put(place.storage, single_writer=place.single_writer)
