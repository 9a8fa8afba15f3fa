"""The Spark jobs of a repair: every value of the geo columns of some files, for bounds or new footers."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from geolake_nb.errors import GeolakeError, JobError
from geolake_nb.formats.delta.repair import finish_repair
from geolake_nb.formats.parquet_folder.publish import finish_publish
from geolake_nb.formats.parquet_folder.repair import finish_repair as finish_footer_repair
from geolake_nb.model.statistics import merge
from geolake_nb.parquet.footer import FooterReader
from geolake_nb.scan.value_scan import scan_groups
from geolake_nb.spark.jobs import cause, cores, run_with_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from geolake_nb.changes.repair.bound_sources import ScanJob
    from geolake_nb.formats.parquet_folder.publish import PublishJob
    from geolake_nb.formats.parquet_folder.repair import FooterScanJob
    from geolake_nb.model.change import Change
    from geolake_nb.model.statistics import ColumnStats
    from geolake_nb.scan.value_scan import GroupStats, ScanColumn
    from geolake_nb.spark.applying import JobContext
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

    FileUnit = tuple[int, str, list[ScanColumn]]

__all__ = ["Unit", "bundled", "run_footer_scan", "run_publish", "run_scan"]

_WORTH_A_JOB = 1 << 28
"""Bytes of files from which on a Spark job is faster than threads of this process."""
_TASKS = 200
_FILE_SCHEMA = "file long, stats binary"


def run_footer_scan(
    change: Change, job: FooterScanJob, storage: Storage, spark: SparkSession | None, on_progress: Progress | None
) -> Change:
    """Read the values and complete the change with the boxes that they have."""
    units = [
        (index, file.state.path, [column.column for column in file.columns if column.scan])
        for index, file in enumerate(job.files)
    ]
    size = sum(file.state.bytes for file in job.files)
    if spark is None or len(units) == 1 or size < _WORTH_A_JOB:
        return finish_footer_repair(change, job, _here(storage, units, on_progress))
    return finish_footer_repair(change, job, _on_spark(spark, storage, units, change.location, on_progress))


def run_publish(
    change: Change, job: PublishJob, storage: Storage, spark: SparkSession | None, on_progress: Progress | None
) -> Change:
    """Read the values and complete the change with the entries of the files."""
    units = job.units
    if spark is None or len(units) == 1 or sum(file.bytes for file in job.files) < _WORTH_A_JOB:
        return finish_publish(change, job, storage, _here(storage, units, on_progress))
    return finish_publish(change, job, storage, _on_spark(spark, storage, units, change.location, on_progress))


def _here(storage: Storage, units: list[FileUnit], on_progress: Progress | None) -> dict[int, list[list[GroupStats]]]:
    # A reader keeps what it has seen, and is not made for threads.
    def scan(unit: FileUnit) -> list[list[GroupStats]]:
        return scan_groups(storage, unit[1], unit[2], reader=FooterReader())

    scanned: dict[int, list[list[GroupStats]]] = {}
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for unit, stats in zip(units, pool.map(scan, units), strict=True):
            scanned[unit[0]] = stats
            if on_progress is not None:
                on_progress(len(scanned), len(units))
    return scanned


def _on_spark(
    spark: SparkSession, storage: Storage, units: list[FileUnit], location: str, on_progress: Progress | None
) -> dict[int, list[list[GroupStats]]]:
    bundles = [units[start::_TASKS] for start in range(min(_TASKS, len(units)))]
    blobs = [pickle.dumps(bundle) for bundle in bundles]

    def scan(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        reader = FooterReader()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for index, key, columns in pickle.loads(blobs[number]):
                    stats = pickle.dumps(scan_groups(storage, key, columns, reader=reader))
                    yield pa.record_batch({"file": pa.array([index], pa.int64()), "stats": pa.array([stats])})

    rows = spark.range(0, len(blobs), 1, len(blobs)).mapInArrow(scan, _FILE_SCHEMA)
    try:
        table = run_with_progress(spark, rows.toArrow, on_progress)
    except GeolakeError:
        raise
    except Exception as problem:  # whatever Spark or py4j raises
        what = f"the scan failed: {cause(problem)}"
        raise JobError(what, where=location, remedy="no changes were made") from problem
    return {row["file"]: pickle.loads(row["stats"]) for row in table.to_pylist()}


_PART_BYTES = 64 * 2**20
"""A larger file is read in several parts, at about so many bytes each."""
_OPENING_BYTES = 2**20
"""What opening a file costs, as if so many more bytes were read."""
_TASKS_A_CORE = 4
_PART_SCHEMA = "file long, part int, stats binary"


class Unit(NamedTuple):
    """A part of a file, and which of the columns are read in it."""

    file: int
    key: str
    part: int
    parts: int
    columns: tuple[int, ...]


def run_scan(change: Change, job: ScanJob, context: JobContext) -> Change:
    """Read the values and complete the change with the bounds that they have."""
    spark = context.spark
    bundles = bundled(job, tasks=_TASKS_A_CORE * cores(spark))
    blobs = [pickle.dumps(bundle) for bundle in bundles]
    scan = _scanner(context.storage, job.columns, blobs)
    rows = spark.range(0, len(blobs), 1, len(blobs)).mapInArrow(scan, _PART_SCHEMA)
    try:
        table = run_with_progress(spark, rows.toArrow, context.on_progress)
    except GeolakeError:
        raise
    except Exception as problem:  # whatever Spark or py4j raises
        raise JobError(
            f"the scan failed: {cause(problem)}", where=change.location, remedy="no changes were made"
        ) from problem
    return (job.finish or finish_repair)(change, job, _merged(job, table))


def bundled(job: ScanJob, *, tasks: int) -> list[list[Unit]]:
    """The units of a job in so many lists at most that take about equally long.

    >>> from geolake_nb.changes.repair.bound_sources import ScanFile, ScanJob
    >>> files = tuple(ScanFile(name, name, 10, "{}", False, ()) for name in "abc")
    >>> [[unit.key for unit in bundle] for bundle in bundled(ScanJob((), files), tasks=2)]
    [['a', 'c'], ['b']]
    """
    units: list[tuple[int, Unit]] = []
    for number, file in enumerate(job.files):
        parts = max(1, -(-file.bytes // _PART_BYTES))
        columns = tuple(scan.column for scan in file.scanned)
        cost = file.bytes // parts + _OPENING_BYTES
        units += [(cost, Unit(number, file.key, part, parts, columns)) for part in range(parts)]
    # The longest first, each to the one that has the least to do: with units that are alike, in turns.
    import heapq

    bundles: list[list[Unit]] = [[] for _ in range(min(tasks, len(units)))]
    loads = [(0, index) for index in range(len(bundles))]
    for cost, unit in sorted(units, key=lambda pair: -pair[0]):
        load, index = heapq.heappop(loads)
        bundles[index].append(unit)
        heapq.heappush(loads, (load + cost, index))
    return bundles


def _scanner(
    storage: Storage, columns: Sequence[ScanColumn], blobs: list[bytes]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that executors run: the ids that it gets select which of the bundles it reads."""

    def scan(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from geolake_nb.parquet.footer import FooterReader
        from geolake_nb.scan.value_scan import scan_part

        reader = FooterReader()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                units: list[Unit] = pickle.loads(blobs[number])
                scanned = [
                    scan_part(
                        storage,
                        unit.key,
                        [columns[index] for index in unit.columns],
                        part=unit.part,
                        parts=unit.parts,
                        reader=reader,
                    )
                    for unit in units
                ]
                yield pa.record_batch(
                    {
                        "file": pa.array([unit.file for unit in units], pa.int64()),
                        "part": pa.array([unit.part for unit in units], pa.int32()),
                        "stats": pa.array([pickle.dumps(stats) for stats in scanned], pa.binary()),
                    }
                )

    return scan


def _merged(job: ScanJob, table: pa.Table) -> dict[int, list[ColumnStats]]:
    parts: dict[int, list[tuple[int, list[ColumnStats]]]] = {}
    for row in table.to_pylist():
        parts.setdefault(row["file"], []).append((row["part"], pickle.loads(row["stats"])))
    merged: dict[int, list[ColumnStats]] = {}
    for file, some in parts.items():
        scanned = job.files[file].scanned
        ordered = [stats for _, stats in sorted(some, key=lambda pair: pair[0])]
        merged[file] = [
            merge([stats[index] for stats in ordered], type=job.columns[scan.column].type)
            for index, scan in enumerate(scanned)
        ]
    return merged
