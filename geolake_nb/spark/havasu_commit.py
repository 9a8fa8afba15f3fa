"""Commits a change to a Havasu table; the file system keeps the table, and no JVM is needed."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING

from geolake_nb.core.bounds import BadValueWarning
from geolake_nb.formats.havasu.commit import HavasuCommit, commit, find_commit
from geolake_nb.planning.change import Verb
from geolake_nb.spark.applying import Applied
from geolake_nb.spark.log_store import require_exclusion, storage_put

if TYPE_CHECKING:
    from geolake_nb.planning.change import Change
    from geolake_nb.spark.applying import Place

__all__ = ["commit_change", "find_landed", "require_store"]

# Iceberg, Snapshots: new rows, the same rows in other files, and rows in the place of others.
_OPERATIONS = {"append": "append", "create": "append", "overwrite": "overwrite"}
_PROBE = "metadata"


def find_landed(change: Change, place: Place) -> int | None:
    """The snapshot that holds the transaction already, `None` if there is none."""
    return find_commit(place.storage, place.transaction)


def require_store(place: Place) -> None:
    """Raise where the store of the table does not keep two writers apart."""
    require_exclusion(place.storage, single_writer=place.single_writer, folder=_PROBE)


def commit_change(change: Change, place: Place) -> Applied:
    """Write the next metadata file; other writers' appends are stepped over, what else they did is a conflict."""
    unbounded = _warn(change)
    made = commit(
        place.storage,
        HavasuCommit(
            base_snapshot=change.base_version,
            operation=_operation(change),
            actions=change.actions,
            transaction=place.transaction,
            summary={
                "geolake.verb": change.verb.value,
                **{f"geolake.{name}": text for name, text in change.parameters.items()},
            },
            blind_append=change.blind_append,
            tolerates_appends=change.tolerates_appends,
        ),
        put=storage_put(place.storage, single_writer=place.single_writer),
    )
    metrics = {**change.metrics, **({"files_without_bound": unbounded} if unbounded else {})}
    return Applied(made.snapshot_id, made.rebased_over, metrics)


def _operation(change: Change) -> str:
    if change.verb in (Verb.CONVERT, Verb.WRITE):
        return _OPERATIONS.get(change.parameters.get("mode", "create"), "append")
    return "replace"


def _warn(change: Change) -> int:
    """Name the files that have values without bounds; how many there are."""
    count = 0
    for action in change.actions:
        if '"problems"' not in action:
            continue
        add = json.loads(action).get("add", {})
        for column, problem in add.get("problems", {}).items():
            message = f"{add['path']}: {column} gets no bounds, first {problem}"
            warnings.warn(message, BadValueWarning, stacklevel=4)
        count += bool(add.get("problems"))
    return count
