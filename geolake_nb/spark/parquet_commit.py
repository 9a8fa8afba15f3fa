"""Commits a change to a set of Parquet files; no JVM is needed for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from geolake_nb.formats.parquet.journal import HIDDEN
from geolake_nb.formats.parquet.replace import SetChange, commit_set, end_pending, find_change
from geolake_nb.spark.applying import Applied
from geolake_nb.spark.log_store import require_exclusion

if TYPE_CHECKING:
    from geolake_nb.planning.change import Change
    from geolake_nb.spark.applying import Place

__all__ = ["commit_change", "find_landed", "require_store"]


def find_landed(change: Change, place: Place) -> int | None:
    """The number of the change that was made under this transaction, `None` if there is none.

    One that was cut short is ended first.
    """
    found = find_change(place.storage, place.transaction)
    if found is None:
        return None
    if found.outcome is None:
        end_pending(place.storage)
        found = find_change(place.storage, place.transaction)
    return None if found is None or (found.outcome is not None and found.outcome.abandoned) else found.version


def require_store(place: Place) -> None:
    """Raise where the store of the set does not keep two writers apart: the journal decides which of them is first."""
    require_exclusion(place.storage, single_writer=place.single_writer, folder=HIDDEN)


def commit_change(change: Change, place: Place) -> Applied:
    """Make the steps of the change, written down beforehand so that they can be ended and taken back."""
    from geolake_nb.spark.iceberg_files import warn_of_problems

    puts = [json.loads(text).get("put", {}) for text in change.actions if '"problems"' in text]
    unbounded = warn_of_problems(puts)
    metrics = {**change.metrics, **({"files_without_bound": unbounded} if unbounded else {})}
    made = SetChange(place.transaction, change.verb.value, change.actions, change.parameters, metrics)
    return Applied(commit_set(place.storage, made), metrics=metrics)
