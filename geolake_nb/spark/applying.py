"""Runs what a change leaves to Spark, and commits the change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from geolake_nb.errors import GeolakeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from geolake_nb.formats.delta.commit import PutIfAbsent
    from geolake_nb.formats.storage import Storage
    from geolake_nb.planning.change import Change

    Progress = Callable[[int, int], None]

__all__ = ["Applied", "JobContext", "apply_change"]


@dataclass(frozen=True, slots=True)
class JobContext:
    """Where a job runs and whom it tells how far it is."""

    spark: SparkSession
    storage: Storage
    """The root of the table that is changed."""
    transaction: str
    """Part of the name of each new file, so that orphans are told from files of others."""
    on_progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a change."""

    version: int | None
    rebased_over: tuple[int, ...] = ()
    metrics: Mapping[str, int] = field(default_factory=dict, hash=False)


def apply_change(
    change: Change,
    storage: Storage,
    *,
    transaction: str,
    spark: SparkSession | None = None,
    single_writer: bool = False,
    on_progress: Progress | None = None,
) -> Applied:
    """Run the job of the change if it has one, then commit; a change that has landed already is not made again."""
    from geolake_nb.formats.delta.commit import DeltaCommit, commit, find_commit
    from geolake_nb.planning.creating import stamped

    if change.is_empty:
        return Applied(None)
    base = -1 if change.base_version is None else change.base_version
    landed = find_commit(storage, transaction, since=base)
    if landed is not None:
        return Applied(landed, metrics=change.metrics)
    if change.base_version is None:
        change = stamped(change, transaction)
    if change.job is not None:
        change = _run(change, storage, transaction, spark, on_progress)
        if change.is_empty:  # the data showed that all was right
            return Applied(None)
    made = commit(
        storage,
        DeltaCommit(
            base_version=base,
            operation=f"GEOLAKE {change.verb.value.upper()}",
            parameters=change.parameters,
            actions=change.actions,
            transaction=transaction,
            metrics={name: str(value) for name, value in change.metrics.items()},
            blind_append=change.blind_append,
            tolerates_appends=change.tolerates_appends,
        ),
        put=_put(storage, spark, single_writer=single_writer),
    )
    return Applied(made.version, made.rebased_over, change.metrics)


def _run(
    change: Change, storage: Storage, transaction: str, spark: SparkSession | None, on_progress: Progress | None
) -> Change:
    """The change with the actions that its job found."""
    from geolake_nb.planning.collate import CollateJob
    from geolake_nb.planning.repair import ScanJob
    from geolake_nb.planning.writing import WriteJob
    from geolake_nb.spark.session import session_for

    context = JobContext(session_for(spark), storage, transaction, on_progress)
    if isinstance(change.job, ScanJob):
        from geolake_nb.spark.scan_bounds import run_scan

        return run_scan(change, change.job, context)
    if isinstance(change.job, CollateJob):
        from geolake_nb.spark.collated_stats import run_collate

        return run_collate(change, change.job, context)
    if isinstance(change.job, WriteJob):
        from geolake_nb.spark.write_files import run_write

        return run_write(change, change.job, context)
    raise GeolakeError(f"no job runs a {type(change.job).__name__}", where=change.location)


def _put(storage: Storage, spark: SparkSession | None, *, single_writer: bool) -> PutIfAbsent | None:
    """How the log entry is written: by the storage itself, or through the store of the session that is given."""
    from geolake_nb.spark.log_store import session_put, storage_put

    if storage.is_local:
        return None
    if spark is not None:
        return session_put(spark, storage.location, single_writer=single_writer)
    return storage_put(storage, single_writer=single_writer)
