"""Runs what a change leaves to Spark, and commits the change."""

from __future__ import annotations

import contextlib
import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from geolake_nb.errors import GeolakeError, JobError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from geolake_nb.formats.iceberg.catalogs import CatalogTable
    from geolake_nb.formats.snapshot import TableFormat
    from geolake_nb.formats.storage import Storage
    from geolake_nb.planning.change import Change

    Progress = Callable[[int, int], None]

__all__ = ["Applied", "Committing", "JobContext", "Place", "apply_change"]


@dataclass(frozen=True, slots=True)
class Place:
    """The table that is changed, and by whom."""

    storage: Storage
    """The root of the table."""
    transaction: str
    """Under which the change is known: in the history of the table, and in the name of each new file."""
    spark: SparkSession | None = None
    """The session that a user gave."""
    catalog: CatalogTable | None = None
    """The catalog that knows the table, where it was found in one or is to be made in one."""
    staged: Any = None
    """The transaction that makes a table in its catalog, which has said where the table will lie."""
    single_writer: bool = False
    """Whether nobody else writes to a store that cannot exclude other writers."""


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
    was_there: bool = False
    """Whether the table had the change already, so that nothing was done."""


class Committing(Protocol):
    """How the changes of a format are committed: the module `geolake_nb.spark.<format>_commit`."""

    def find_landed(self, change: Change, place: Place) -> int | None:
        """The version that holds the transaction already, `None` if there is none."""
        ...

    def require_store(self, place: Place) -> None:
        """Raise where the store of the table does not keep two writers apart."""
        ...

    def commit_change(self, change: Change, place: Place) -> Applied:
        """Commit a change whose actions are all known, in a store that `require_store` lets pass."""
        ...


def apply_change(change: Change, place: Place, *, on_progress: Progress | None = None) -> Applied:
    """Run the job of the change if it has one, then commit; a change that has landed already is not made again."""
    if change.is_empty:
        return Applied(None)
    committing = _committing(change.format)
    committing.require_store(place)  # first: the files of a job that is refused afterwards would be left over
    landed = committing.find_landed(change, place)
    if landed is not None:
        return Applied(landed, was_there=True)  # what the plan counted was done by whoever applied it before
    if place.catalog is not None and not place.catalog.is_placed:
        from geolake_nb.spark.iceberg_commit import stage_table

        place = stage_table(change, place)
    if change.job is not None:
        with _named_causes(change.location):
            change = _run(change, place, on_progress)
        if change.is_empty:  # the data showed that all was right
            return Applied(None)
    return committing.commit_change(change, place)


def _committing(format_: TableFormat) -> Committing:
    return cast("Committing", importlib.import_module(f"geolake_nb.spark.{format_.value}_commit"))


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
        from geolake_nb.spark.failures import cause

        raise JobError(f"the job failed: {cause(problem)}", where=where, remedy="the table is as it was") from problem


def _run(change: Change, place: Place, on_progress: Progress | None) -> Change:
    """The change with the actions that its job found."""
    from geolake_nb.planning.delta.collate import CollateJob
    from geolake_nb.planning.mending.scan_job import ScanJob
    from geolake_nb.planning.parquet.repair import FooterScanJob
    from geolake_nb.planning.writing.job import WriteJob
    from geolake_nb.spark.session import session_for

    if isinstance(change.job, FooterScanJob):
        from geolake_nb.spark.footer_scan import run_footer_scan

        return run_footer_scan(change, change.job, place.storage, place.spark, on_progress)
    context = JobContext(session_for(place.spark), place.storage, place.transaction, on_progress)
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
