"""The live rows of Iceberg and Havasu data files: read with Arrow in the tasks, deletes applied.

Spark 4.2 has no runtime of Iceberg, and none reads Havasu's rasters.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from geolake_nb.formats.delta.schema import to_delta_schema
from geolake_nb.formats.iceberg.deleted_rows import data_file_rows
from geolake_nb.formats.iceberg.live_rows import RowReader, carried_schema
from geolake_nb.formats.iceberg.schema import name_mapping
from geolake_nb.spark.cores import cores
from geolake_nb.spark.row_stream import RowStream
from geolake_nb.spark.task_accumulator import keyed_accumulator

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from geolake_nb.changes.write_job import IcebergRows
    from geolake_nb.formats.iceberg.deleted_rows import DataFileRows
    from geolake_nb.model.schema import Schema
    from geolake_nb.storage.storage import Storage

__all__ = ["LiveRows", "iceberg_stream"]

_PART_BYTES = 1 << 27
_OPENING_BYTES = 1 << 20
_TASKS_A_CORE = 3


@dataclass(frozen=True, slots=True)
class _Part:
    """One of `parts` equal runs of the row groups of a file."""

    file: DataFileRows
    part: int
    parts: int
    partition: int


class LiveRows:
    """How many rows the tasks found that no delete file removes: delete files may name a row twice."""

    def __init__(self, spark: SparkSession) -> None:
        self._reported = keyed_accumulator(spark)

    def report(self, part: int, rows: int) -> None:
        """Called in a task, when it has read all rows of a part."""
        if self._reported is not None:
            self._reported.add({part: rows})

    def total(self) -> int | None:
        """All of them, when the job is done; `None` where tasks cannot report to the driver."""
        return None if self._reported is None else sum(self._reported.value.values())


def iceberg_stream(
    spark: SparkSession, storage: Storage, rows: IcebergRows, schema: Schema, live: LiveRows
) -> RowStream:
    """The rows with the columns of the schema, which go by their field ids; `live` counts them.

    Shapes are as they are stored, bytes or text by the encoding of their type; rasters are the Havasu group.
    """
    from pyspark.sql.types import StructType as SparkStruct

    tasks = _tasks(rows, _TASKS_A_CORE * cores(spark))
    names = name_mapping(rows.snapshot)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = RowReader(storage, schema, names)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                count = 0
                for task in tasks[number]:
                    for some in reader.read(task.file, part=task.part, parts=task.parts, partition=task.partition):
                        count += len(some)
                        yield some
                live.report(number, count)

    columns = SparkStruct.fromJson(json.loads(to_delta_schema(carried_schema(schema))))
    return RowStream(spark.range(0, len(tasks), 1, max(1, len(tasks))), read, columns)


def _tasks(rows: IcebergRows, tasks: int) -> list[list[_Part]]:
    """The files cut and packed for about as many tasks, in order."""
    files = data_file_rows(rows.snapshot, rows.files)
    numbers = rows.partitions or (0,) * len(files)
    total = sum(file.bytes + _OPENING_BYTES for file in files)
    wanted = max(1, min(_PART_BYTES, -(-total // max(1, tasks))))
    packed: list[list[_Part]] = []
    room = 0
    for file, partition in zip(files, numbers, strict=True):
        parts = max(1, -(-file.bytes // wanted))
        for part in range(parts):
            cost = file.bytes // parts + _OPENING_BYTES
            if not packed or room < cost:
                packed.append([])
                room = wanted
            packed[-1].append(_Part(file, part, parts, partition))
            room -= cost
    return packed
