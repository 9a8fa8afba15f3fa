"""The rows of Parquet files: read with Arrow in the tasks, whatever types their writers chose.

Spark's own reader knows neither GeoParquet's nested coordinates nor most CRSs of Parquet's geo types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from geolake_nb.changes.sampling import SAMPLE_ROWS, ThinnedRows, chosen_parts, sample_of, some_rows
from geolake_nb.errors import GeolakeError, SchemaError
from geolake_nb.model.schema import Schema, split_path
from geolake_nb.model.types import GeometryEncoding, StructType
from geolake_nb.parquet.column_ranges import LegacyCalendar
from geolake_nb.parquet.file_columns import FileColumns
from geolake_nb.parquet.opening import open_parquet_file, value_batches
from geolake_nb.scan.data_files import native_encodings
from geolake_nb.spark.coerce import RowFitter, spark_schema
from geolake_nb.spark.cores import cores
from geolake_nb.spark.row_stream import RowStream

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    import pyarrow.parquet as pq
    from pyspark.sql import SparkSession

    from geolake_nb.changes.sampling import Partition, Sample
    from geolake_nb.changes.write_job import GeoInput, ParquetFileRows, ParquetRows
    from geolake_nb.parquet.geoparquet import GeoEncoding
    from geolake_nb.spark.coerce import BadRows
    from geolake_nb.spark.geo_input import BadValues
    from geolake_nb.storage.storage import Storage

__all__ = ["Part", "parquet_stream", "parts_of", "sample_parquet", "size_parquet"]

_BATCH_BYTES = 1 << 24
_MAX_BATCH_ROWS = 16_384
_MAX_PART_BYTES = 1 << 27
_SAMPLED_PARTS = 200
_TASKS_A_CORE = 3


@dataclass(frozen=True, slots=True)
class Part:
    """Some row groups of a file, which one task reads."""

    file: ParquetFileRows
    first: int
    end: int

    @property
    def first_row(self) -> int:
        """How many rows of the file come before."""
        return sum(self.file.groups[: self.first])

    @property
    def bytes(self) -> int:
        """About how large it is."""
        rows = sum(self.file.groups)
        return self.file.bytes * sum(self.file.groups[self.first : self.end]) // rows if rows else 0


def parts_of(rows: ParquetRows, tasks: int) -> list[list[Part]]:
    """The files cut and packed for about as many tasks, in order; row groups are never cut.

    >>> from geolake_nb.storage.storage import Storage
    >>> from geolake_nb.changes.write_job import ParquetFileRows, ParquetRows
    >>> files = ParquetFileRows("a", 100, (5, 5)), ParquetFileRows("b", 10, (1,)), ParquetFileRows("c", 10, ())
    >>> packed = parts_of(ParquetRows(Storage.at("/t"), "/t", files), 2)
    >>> [[(part.file.path, part.first, part.end) for part in task] for task in packed]
    [[('a', 0, 1)], [('a', 1, 2), ('b', 0, 1)]]
    >>> parts_of(ParquetRows(Storage.at("/t"), "/t", ()), 2)
    []
    """
    total = sum(file.bytes for file in rows.files)
    wanted = min(_MAX_PART_BYTES, max(1, total // max(1, tasks)))
    packed: list[list[Part]] = []
    room = 0
    for file in rows.files:
        for group in range(len(file.groups)):
            part = Part(file, group, group + 1)
            last = packed[-1][-1] if packed else part
            if not packed or room < part.bytes:
                packed.append([part])
                room = wanted
            elif last.file is file and last.end == group:
                packed[-1][-1] = Part(file, last.first, group + 1)
            else:
                packed[-1].append(part)
            room -= part.bytes
    return packed


def parquet_stream(
    spark: SparkSession, rows: ParquetRows, schema: Schema, inputs: Mapping[str, GeoInput], bad: BadRows
) -> RowStream:
    """The rows with the columns of the schema, shapes as ISO WKB."""
    tasks = parts_of(rows, _TASKS_A_CORE * cores(spark))
    storage = rows.storage

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                faults: list[BadValues] = []
                for part in tasks[number]:
                    fitter = yield from _read(storage, part, schema, inputs)
                    faults += fitter.bad
                bad.report(faults)

    return RowStream(spark.range(0, len(tasks), 1, max(1, len(tasks))), read, spark_schema(schema))


def sample_parquet(
    rows: ParquetRows,
    schema: Schema,
    columns: Sequence[str],
    partition_by: Sequence[str],
    inputs: Mapping[str, GeoInput],
) -> Sample:
    """About 100,000 rows of these columns, from row groups spread over the set, read in this process."""
    tops = dict.fromkeys([*(split_path(column)[0] for column in columns), *partition_by])
    narrow = Schema(StructType(tuple([field for field in schema.fields if field.name in tops])))
    wanted = {path: geo_input for path, geo_input in inputs.items() if split_path(path)[0] in tops}
    draw = np.random.default_rng(0)
    weights = np.array([file.bytes if file.groups else 0 for file in rows.files], np.int64)
    kept = ThinnedRows()
    chosen = chosen_parts(weights, _SAMPLED_PARTS)
    total = max(1, sum(sum(rows.files[index].groups) for index, _ in chosen))
    for index, groups in chosen:
        file = rows.files[index]
        share = SAMPLE_ROWS * sum(file.groups) / total
        some = sorted(draw.permutation(len(file.groups))[:groups].tolist())
        there = max(1, sum(file.groups[group] for group in some))
        for group in some:
            for batch in _read(rows.storage, Part(file, group, group + 1), narrow, wanted):
                kept.add(batch.take(pa.array(some_rows(len(batch), share * len(batch) / there, draw))))
    # What is read may be null as far as Arrow knows, whatever the files promise.
    arrow_schema = kept.batches[0].schema if kept.batches else FileColumns.of(narrow).arrow
    return sample_of(pa.Table.from_batches(kept.batches, arrow_schema), columns, partition_by)


def size_parquet(
    rows: ParquetRows, schema: Schema, partition_by: Sequence[str], inputs: Mapping[str, GeoInput]
) -> dict[Partition, int]:
    """About how many bytes each partition takes, from the sizes of the files and a sample."""
    total = sum(file.bytes for file in rows.files)
    if not partition_by:
        return {(): total}
    sample = sample_parquet(rows, schema, (), partition_by, inputs)
    counts = np.bincount(sample.codes, minlength=len(sample.partitions))
    each = total / max(1, len(sample))
    return {name: int(count * each) for name, count in zip(sample.partitions, counts.tolist(), strict=True)}


def _read(
    storage: Storage, part: Part, schema: Schema, inputs: Mapping[str, GeoInput]
) -> Generator[pa.RecordBatch, None, RowFitter]:
    """The rows of a part as the schema has them; returns the converter, which has the invalid values."""
    path = part.file.path
    with open_parquet_file(
        storage,
        path,
        pre_buffer=not storage.is_local,
    ) as file:
        there = [field.name for field in schema.fields if field.name in file.schema_arrow.names]
        fitter = RowFitter(schema, inputs, native=_native(file, inputs))
        calendar = LegacyCalendar.of(file.metadata)
        row = part.first_row
        groups = list(range(part.first, part.end))
        for batch in value_batches(file, there, rows=_batch_rows(part), groups=groups):
            try:
                if calendar is not None:
                    batch = calendar.rebased(batch, file.metadata.schema)  # noqa: PLW2901
                yield fitter.fit(batch, part.file.partition, row_name=_Origin(path, row))
            except GeolakeError as problem:
                where = path if problem.where is None else f"{path}, column {problem.where}"
                raise SchemaError(problem.what, where=where, remedy=problem.remedy) from problem
            row += batch.num_rows
    return fitter


@dataclass(frozen=True, slots=True)
class _Origin:
    """Names rows of a batch."""

    path: str
    before: int

    def __call__(self, row: int) -> str:
        return f"{self.path}, row {self.before + row}"


def _batch_rows(part: Part) -> int:
    rows = sum(part.file.groups[part.first : part.end])
    # What is packed to a tenth of its size is still no more than some hundred megabytes.
    return max(1, min(_MAX_BATCH_ROWS, rows * _BATCH_BYTES // max(1, part.bytes)))


def _native(file: pq.ParquetFile, inputs: Mapping[str, GeoInput]) -> dict[str, GeoEncoding]:
    """The geometry types of the coordinates of this file, by its own metadata."""
    wanted = [path for path, geo_input in inputs.items() if geo_input.encoding is GeometryEncoding.GEOARROW]
    known = native_encodings(file.metadata) if wanted else {}
    return {path: known[split_path(path)[0]] for path in wanted if split_path(path)[0] in known}
