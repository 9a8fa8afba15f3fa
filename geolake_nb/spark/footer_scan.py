"""Reads the values of geo columns for new footers: here in threads, or as a Spark job where a session is given."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from geolake_nb.errors import GeolakeError, JobError
from geolake_nb.formats.parquet_folder.repair import finish_repair
from geolake_nb.parquet.footer import FooterReader
from geolake_nb.scan.value_scan import scan_groups
from geolake_nb.spark.failures import cause
from geolake_nb.spark.progress import run_with_progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from geolake_nb.formats.parquet_folder.repair import FooterScanJob
    from geolake_nb.model.change import Change
    from geolake_nb.scan.value_scan import GroupStats, ScanColumn
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

    Unit = tuple[int, str, list[ScanColumn]]

__all__ = ["run_footer_scan"]

_WORTH_A_JOB = 1 << 28
"""Bytes of files from which on a Spark job is faster than threads of this process."""
_TASKS = 200
_SCHEMA = "file long, stats binary"


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
        return finish_repair(change, job, _here(storage, units, on_progress))
    return finish_repair(change, job, _on_spark(spark, storage, units, change.location, on_progress))


def _here(storage: Storage, units: list[Unit], on_progress: Progress | None) -> dict[int, list[list[GroupStats]]]:
    # A reader keeps what it has seen, and is not made for threads.
    def scan(unit: Unit) -> list[list[GroupStats]]:
        return scan_groups(storage, unit[1], unit[2], reader=FooterReader())

    scanned: dict[int, list[list[GroupStats]]] = {}
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for unit, stats in zip(units, pool.map(scan, units), strict=True):
            scanned[unit[0]] = stats
            if on_progress is not None:
                on_progress(len(scanned), len(units))
    return scanned


def _on_spark(
    spark: SparkSession, storage: Storage, units: list[Unit], location: str, on_progress: Progress | None
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

    rows = spark.range(0, len(blobs), 1, len(blobs)).mapInArrow(scan, _SCHEMA)
    try:
        table = run_with_progress(spark, rows.toArrow, on_progress)
    except GeolakeError:
        raise
    except Exception as problem:  # whatever Spark or py4j raises
        what = f"the scan failed: {cause(problem)}"
        raise JobError(what, where=location, remedy="no changes were made") from problem
    return {row["file"]: pickle.loads(row["stats"]) for row in table.to_pylist()}
