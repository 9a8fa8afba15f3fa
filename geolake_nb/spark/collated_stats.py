"""The Spark job that computes the minimum and maximum string of columns in every file, by their collations."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING

from geolake_nb.errors import GeolakeError, JobError
from geolake_nb.formats.delta.add_action import StatsEdit, collated_add, lacks
from geolake_nb.formats.delta.collate import finish_collations, hints_action, with_versions
from geolake_nb.formats.delta.log_actions import decoded_path
from geolake_nb.formats.delta.raw_actions import raw_adds
from geolake_nb.spark.collation_check import check_schema, known_collations, spark_collations
from geolake_nb.spark.cores import cores
from geolake_nb.spark.failures import cause
from geolake_nb.spark.progress import run_with_progress
from geolake_nb.text.json_text import member

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from geolake_nb.formats.delta.add_action import Ranges
    from geolake_nb.formats.delta.collate import CollateJob
    from geolake_nb.model.change import Change
    from geolake_nb.model.collation_stats import CollationHints
    from geolake_nb.scan.value_scan import CollatedString
    from geolake_nb.spark.applying import JobContext
    from geolake_nb.storage.storage import Storage

__all__ = ["collated_ranges", "run_collate", "with_collated_stats"]

_TASKS_A_CORE = 4
_BATCH = 10_000


def run_collate(change: Change, job: CollateJob, context: JobContext) -> Change:
    """Check the schema with Spark, compute the statistics that files lack, and complete the change with them."""
    if job.collations:
        known_collations(context.spark, job.collations)
        check_schema(context.spark, job.schema, job.collations)
    versions = known_collations(context.spark, {column.path: column.collation for column in job.columns})
    job = with_versions(job, versions, where=change.location)
    need: set[str] = set()
    for batch in raw_adds(context.storage, job.segment, job.files).to_batches(_BATCH) if job.files else ():
        need |= {row["path"] for row in batch.to_pylist() if lacks(row["add"], job.edit)}
    ranges = collated_ranges(context, sorted(need), job.columns)
    return finish_collations(context.storage, change, job, ranges)


def with_collated_stats(
    context: JobContext, adds: Sequence[str], columns: Sequence[CollatedString], hints: CollationHints
) -> list[str]:
    """The `add` actions of new, uncommitted files, with statistics of these columns.

    A `domainMetadata` action comes first where the hints do not name Spark's version yet. A column whose collation
    Spark does not have gets none: rows can be added without.
    """
    known = spark_collations(context.spark) if columns and adds else {}
    columns = [column for column in columns if column.collation in known]
    if not columns:
        return list(adds)
    edit = StatsEdit(tuple(columns), tuple({column.collation: known[column.collation] for column in columns}.items()))
    objects = [member(action, ("add",)) or "{}" for action in adds]
    stored = [json.loads(object_) for object_ in objects]
    ranges = collated_ranges(context, [add["path"] for add in stored], columns)
    wanted = hints
    for column in columns:
        wanted = wanted.adding(edit.version_of(column.collation))
    actions = [] if wanted is hints else [hints_action(wanted)]
    for action, text, add in zip(adds, objects, stored, strict=True):
        made = collated_add(text, edit, ranges.get(add["path"], {}), data_change=bool(add["dataChange"]))
        actions.append(action if made is None else made)
    return actions


def collated_ranges(context: JobContext, paths: Sequence[str], columns: Sequence[CollatedString]) -> dict[str, Ranges]:
    """For each file, by its path as the log stores it, the least and the greatest string of each column.

    Whole strings, by Spark's own comparison: of several that are equal under the collation any one. A column
    without values, and a side that is not valid UTF-8, is left out.
    """
    if not paths or not columns:
        return {}
    rows = _ranges(_strings(context, paths, columns), columns)
    try:
        table = run_with_progress(context.spark, rows.toArrow, context.on_progress)
    except GeolakeError:
        raise
    except Exception as problem:  # whatever Spark or py4j raises
        raise JobError(
            f"the collated statistics could not be computed: {cause(problem)}",
            where=context.storage.location,
            remedy="no changes were made",
        ) from problem
    ranges: dict[str, Ranges] = {path: {} for path in paths}
    for row in table.to_pylist():
        for index, column in enumerate(columns):
            low, high = row[f"low{index}"], row[f"high{index}"]
            if low is not None or high is not None:
                ranges[paths[row["file"]]][column.path] = low, high
    return ranges


def _strings(context: JobContext, paths: Sequence[str], columns: Sequence[CollatedString]) -> DataFrame:
    """Each string of each file once or a few times: `file`, its index in the paths, and a column for each column."""
    tasks = min(len(paths), _TASKS_A_CORE * cores(context.spark))
    blobs = [
        pickle.dumps([(index, decoded_path(paths[index])) for index in range(task, len(paths), tasks)])
        for task in range(tasks)
    ]
    schema = ", ".join(["file int", *(f"c{index} string" for index in range(len(columns)))])
    reader = _reader(context.storage, tuple(columns), blobs)
    return context.spark.range(0, tasks, 1, tasks).mapInArrow(reader, schema)


def _reader(
    storage: Storage, columns: tuple[CollatedString, ...], blobs: list[bytes]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that executors run: the ids that it gets select which of the lists of files it reads."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from geolake_nb.parquet.footer import FooterReader
        from geolake_nb.scan.value_scan import distinct_strings

        reader = FooterReader()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                files: list[tuple[int, str]] = pickle.loads(blobs[number])
                for file, key in files:
                    for index, values in distinct_strings(storage, key, columns, reader=reader):
                        others = pa.nulls(len(values), pa.string())
                        arrays = {
                            f"c{position}": values if position == index else others for position in range(len(columns))
                        }
                        yield pa.record_batch({"file": pa.repeat(pa.scalar(file, pa.int32()), len(values)), **arrays})

    return read


def _ranges(strings: DataFrame, columns: Sequence[CollatedString]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    sides = []
    for index, column in enumerate(columns):
        # The name is one of Spark's own list: a name of a table's text has been looked up there.
        text = F.collate(F.col(f"c{index}"), column.collation.name)
        for name, side in (("low", F.min(text)), ("high", F.max(text))):
            plain = F.collate(side, "UTF8_BINARY")
            sides.append(F.when(F.is_valid_utf8(plain), plain).alias(f"{name}{index}"))
    return strings.groupBy("file").agg(*sides)
