"""The Spark job that writes rows to new data files, and the actions that add those files.

Rows are read once. Each goes to the task that writes its file, and the tasks sort what they get. A task that is run
again writes files of its own, and only the files of successful tasks are committed.
"""

from __future__ import annotations

import dataclasses
import pickle
import time
from typing import TYPE_CHECKING, Any

from geolake_nb.changes.clustering import keying, place_rows
from geolake_nb.changes.write_job import DeltaRows
from geolake_nb.errors import GeolakeError, JobError, SchemaError
from geolake_nb.formats.delta.add_action import with_deletion_time
from geolake_nb.formats.delta.rewrite import live_rows
from geolake_nb.formats.delta.write_target import DeltaTarget
from geolake_nb.spark.collations import with_collated_stats
from geolake_nb.spark.jobs import cause, map_in_arrow, run_with_progress
from geolake_nb.spark.row_sources import open_rows
from geolake_nb.spark.shuffle import MESSAGES, CutTask
from geolake_nb.spark.write_tasks import RESULT, SortTask, WriteTask

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import Column

    from geolake_nb.changes.clustering import Placement
    from geolake_nb.changes.write_job import WriteJob
    from geolake_nb.model.change import Change
    from geolake_nb.spark.applying import JobContext
    from geolake_nb.spark.jobs import RowStream
    from geolake_nb.spark.row_sources import OpenRows
    from geolake_nb.storage.storage import Storage

__all__ = ["run_write"]

_SLACK = 1.5
"""How much larger than planned a file may get before the next one is begun: a sample gives only an estimate."""


def run_write(change: Change, job: WriteJob, context: JobContext) -> Change:
    """Write the files and complete the change with the actions that add them.

    A job that fails, or is cancelled, raises JobError with the files that it left; nothing is committed then.
    """
    try:
        with open_rows(job, context) as rows:
            written = _write(job, rows, context)
        adds: list[str] = written["entry"].drop_null().to_pylist()
        _refuse_bad_values(change, written)
        count = sum(written["rows"].to_pylist())
        expected = _expected_rows(job, count, context.storage, rows)
        if expected is not None and count != expected:
            what = f"{count:,} rows were written, expected {expected:,}"
            raise JobError(what, where=change.location, remedy=_REMEDY)
        files = len(adds)
        if isinstance(job.target, DeltaTarget) and job.target.collated and job.target.hints is not None:
            adds = with_collated_stats(context, adds, job.target.collated, job.target.hints)
    except JobError as problem:
        left = (*problem.orphans, *_orphans(context))
        raise JobError(problem.what, where=problem.where, remedy=problem.remedy, orphans=left) from problem
    except GeolakeError:
        raise
    except KeyboardInterrupt as problem:
        what = "the job was cancelled"
        raise JobError(what, where=change.location, remedy=_REMEDY, orphans=_orphans(context)) from problem
    except Exception as problem:  # whatever Spark or py4j raises
        what = f"the job failed: {cause(problem)}"
        raise JobError(what, where=change.location, remedy=_REMEDY, orphans=_orphans(context)) from problem
    metrics = {
        **change.metrics,
        "files_added": files,
        "rows_written": count,
        "bytes_added": sum(written["bytes"].to_pylist()),
    }
    actions = change.actions
    if isinstance(job.target, DeltaTarget):
        now = int(time.time() * 1000)
        actions = [with_deletion_time(action, now) for action in actions]
    return dataclasses.replace(change, job=None, actions=(*actions, *adds), metrics=metrics)


_REMEDY = "no changes were made"


def _expected_rows(job: WriteJob, count: int, storage: Storage, rows: OpenRows) -> int | None:
    """How many rows there should be: by the plan, else by the files or by the tasks that read them."""
    if job.expected_rows != count and isinstance(job.rows, DeltaRows):
        return live_rows(storage, job.rows)
    return rows.counted() if job.expected_rows is None else job.expected_rows


def _write(job: WriteJob, rows: OpenRows, context: JobContext) -> pa.Table:
    placement = _placement(job, rows)
    names = [field.name for field in job.schema.fields]
    key = _free_name(names)
    task = WriteTask.of(job, rows, context, key=None if job.ordering is None else key, limits=_limits(job, rows))
    if placement is not None:
        messages = rows.stream.through(CutTask(placement, job.partition_by, key), MESSAGES, names)
        result = messages.repartitionById(max(1, placement.tasks), "task").mapInArrow(SortTask(task), RESULT)
    elif job.partition_by:
        # As many files as there are partitions, or more where they are large: Spark balances them as it goes.
        columns = [_column(name) for name in job.partition_by]
        frame = rows.stream.frame.select(*map(_column, names))
        ordered = frame.hint("rebalance", *columns).sortWithinPartitions(*columns)
        result = map_in_arrow(ordered, task, RESULT)
    else:
        result = _unshuffled(rows.stream, job, rows).through(task, RESULT, names)
    return run_with_progress(context.spark, result.toArrow, context.on_progress)


def _placement(job: WriteJob, rows: OpenRows) -> Placement | None:
    """Where rows go; `None` where they stay where they are read, or their number is unknown."""
    if job.ordering is None:
        if not job.partition_by or rows.sizes is None:
            return None
        return place_rows(rows.sizes, job.target_bytes)
    sample = rows.sample(job.ordering.columns)
    types = [
        rows.inputs[path].type if path in rows.inputs else job.schema.find(path).type for path in job.ordering.columns
    ]
    row_keying = keying(job.ordering, types, [sample.columns[path] for path in job.ordering.columns])
    sizes = rows.sizes
    if sizes is None:
        raise SchemaError("the size of the rows is unknown")
    return place_rows(sizes, job.target_bytes, keying=row_keying, sample=sample)


def _unshuffled(stream: RowStream, job: WriteJob, rows: OpenRows) -> RowStream:
    """The rows about as they are read: small files come together in as many tasks as there will be files."""
    if rows.sizes is None:
        return stream
    return stream.coalesced(max(1, -(-sum(rows.sizes.values()) // job.target_bytes)))


def _limits(job: WriteJob, rows: OpenRows) -> tuple[int, int | None]:
    """How many bytes a file may have at most, and how many rows, where that is known beforehand."""
    slack = _SLACK if job.ordering is not None else 1.0
    most = int(job.target_bytes * slack)
    total = 0 if rows.sizes is None else sum(rows.sizes.values())
    if not total or not rows.rows:
        return most, None
    return most, max(1, int(most * rows.rows / total))


def _column(name: str) -> Column:
    from pyspark.sql import functions as sf

    return sf.col("`" + name.replace("`", "``") + "`")


def _free_name(names: Sequence[str]) -> str:
    taken = {name.casefold() for name in names}
    name = "__geolake_key"
    while name in taken:
        name += "_"
    return name


def _refuse_bad_values(change: Change, written: pa.Table) -> None:
    from geolake_nb.spark.coerce import merge_bad

    parts: list[Any] = [part for blob in written["bad"].drop_null().to_pylist() for part in pickle.loads(blob)]
    bad = merge_bad(parts)
    if bad:
        what = f"invalid values: {'; '.join(map(str, bad))}"
        raise JobError(what, where=change.location, remedy="fix or remove these rows; nothing was committed")


def _orphans(context: JobContext) -> list[str]:
    """The leftover files of this job: all with its name, also those of killed tasks."""
    storage: Storage = context.storage
    mark = f"-{context.transaction}-"
    try:
        return [entry.path for entry in storage.list("", recursive=True) if mark in entry.path.rpartition("/")[2]]
    except GeolakeError:
        return []
