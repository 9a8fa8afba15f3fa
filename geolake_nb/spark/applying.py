"""Runs the Spark job of a change, and commits the change."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from geolake_nb.errors import GeolakeError, JobError
from geolake_nb.formats.base import Applied
from geolake_nb.formats.registry import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from geolake_nb.formats.base import CommitContext
    from geolake_nb.model.change import Change
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

__all__ = ["JobContext", "apply_change"]


@dataclass(frozen=True, slots=True)
class JobContext:
    """The session and the progress callback of a job."""

    spark: SparkSession
    storage: Storage
    """The root of the table that is changed."""
    transaction: str
    """Part of the name of each new file, so that orphans can be recognized."""
    on_progress: Progress | None = None


def apply_change(change: Change, context: CommitContext, *, on_progress: Progress | None = None) -> Applied:
    """Run the job of the change if it has one, then commit; a change that was already applied is not repeated."""
    if change.is_empty:
        return Applied(None)
    format_ = FORMATS[change.format.name]
    format_.require_atomic_put(change, context)  # first: a refusal after the job would leave orphans
    applied_version = format_.find_transaction(change, context)
    if applied_version is not None:
        return Applied(applied_version, already_applied=True)  # the metrics of the plan belong to the earlier apply
    if context.catalog is not None and not context.catalog.has_location:
        from geolake_nb.formats.iceberg.commit import stage_table

        context = stage_table(change, context)
    if change.job is not None:
        with _named_causes(change.location):
            change = _run(change, context, on_progress)
        if change.is_empty:  # the data showed that nothing has to change
            return Applied(None)
    return format_.commit(change, context)


@contextlib.contextmanager
def _named_causes(where: str) -> Iterator[None]:
    """What Spark and py4j raise as an error that names the cause; they name the call that met it."""
    try:
        yield
    except GeolakeError:
        raise
    except Exception as problem:
        if not type(problem).__module__.startswith(("py4j.", "pyspark.")):
            raise
        from geolake_nb.spark.jobs import cause

        raise JobError(f"the job failed: {cause(problem)}", where=where, remedy="no changes were made") from problem


def _run(change: Change, context: CommitContext, on_progress: Progress | None) -> Change:
    """The change with the actions that its job returned."""
    from geolake_nb.changes.repair.bound_sources import ScanJob
    from geolake_nb.changes.write_job import WriteJob
    from geolake_nb.formats.delta.collate import CollateJob
    from geolake_nb.formats.parquet_folder.publish import PublishJob
    from geolake_nb.formats.parquet_folder.repair import FooterScanJob
    from geolake_nb.spark.session import session_for

    if isinstance(change.job, FooterScanJob):
        from geolake_nb.spark.scan_bounds import run_footer_scan

        return run_footer_scan(change, change.job, context.storage, context.spark, on_progress)
    if isinstance(change.job, PublishJob):
        from geolake_nb.spark.scan_bounds import run_publish

        return run_publish(change, change.job, context.storage, context.spark, on_progress)
    job_context = JobContext(session_for(context.spark), context.storage, context.transaction, on_progress)
    if isinstance(change.job, ScanJob):
        from geolake_nb.spark.scan_bounds import run_scan

        return run_scan(change, change.job, job_context)
    if isinstance(change.job, CollateJob):
        from geolake_nb.spark.collations import run_collate

        return run_collate(change, change.job, job_context)
    if isinstance(change.job, WriteJob):
        from geolake_nb.spark.write_files import run_write

        return run_write(change, change.job, job_context)
    raise GeolakeError(f"no job runs a {type(change.job).__name__}", where=change.location)
