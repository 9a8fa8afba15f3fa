"""The live rows of Delta, Iceberg and Parquet files, shapes as plain bytes.

Delta reads files by a snapshot, which defines the columns. This one is in no log: nothing is written
for it, and it has only the metadata that reading the files needs.

Spark 4.2 has no runtime of Iceberg, and none reads Havasu's rasters.

Spark's own reader knows neither GeoParquet's nested coordinates nor most CRSs of Parquet's geo types.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from geolake_nb.changes.cell_columns import with_cells
from geolake_nb.changes.sampling import SAMPLE_ROWS, ThinnedRows, chosen_parts, sample_of, some_rows
from geolake_nb.errors import GeolakeError, RefusedError, SchemaError
from geolake_nb.formats.delta.log_actions import decoded_path
from geolake_nb.formats.delta.plain_actions import plain_add, plain_metadata, plain_protocol
from geolake_nb.formats.delta.raw_actions import raw_adds
from geolake_nb.formats.delta.schema import to_delta_schema
from geolake_nb.formats.iceberg.deleted_rows import data_file_rows
from geolake_nb.formats.iceberg.live_rows import RowReader, carried_schema
from geolake_nb.formats.iceberg.schema import name_mapping
from geolake_nb.formats.spark_location import spark_location
from geolake_nb.model.schema import Schema, split_path
from geolake_nb.model.types import GeometryEncoding, StructType
from geolake_nb.parquet.column_ranges import LegacyCalendar
from geolake_nb.parquet.file_columns import FileColumns
from geolake_nb.parquet.opening import open_parquet_file, value_batches
from geolake_nb.scan.data_files import native_encodings
from geolake_nb.spark.coerce import RowFitter, spark_schema
from geolake_nb.spark.jobs import RowStream, cores, keyed_accumulator

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    import pyarrow.parquet as pq
    from pyspark.sql import DataFrame, SparkSession

    from geolake_nb.changes.sampling import Partition, Sample
    from geolake_nb.changes.write_job import DeltaRows, GeoInput, IcebergRows, ParquetFileRows, ParquetRows, WriteJob
    from geolake_nb.formats.iceberg.deleted_rows import DataFileRows
    from geolake_nb.parquet.geoparquet import GeoEncoding
    from geolake_nb.spark.applying import JobContext
    from geolake_nb.spark.coerce import BadRows, BadValues
    from geolake_nb.storage.storage import Storage

__all__ = [
    "LiveRows",
    "Part",
    "converted_stream",
    "delta_frame",
    "iceberg_stream",
    "parquet_stream",
    "parts_of",
    "sample_parquet",
    "size_parquet",
]

_ACTIONS = "org.apache.spark.sql.delta.actions."


@contextlib.contextmanager
def delta_frame(context: JobContext, rows: DeltaRows) -> Iterator[DataFrame]:
    """The rows, as long as the block lasts."""
    from pyspark.sql import DataFrame

    spark, snapshot = context.spark, rows.snapshot
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:
        raise RefusedError(
            "files of a Delta table are read through the session's JVM, which Spark Connect does not expose",
            where=snapshot.location,
            remedy="use a classic session, or none",
        )
    session: Any = spark._jsparkSession
    delta = jvm.org.apache.spark.sql.delta
    none = jvm.scala.Option.empty()
    root = spark_location(spark, context.storage.location)
    # A location in the same store without a table: no log is read, and none is written.
    path = jvm.org.apache.hadoop.fs.Path(f"{root}/_geolake-{context.transaction}")
    log = delta.DeltaLog.forTable(session, path)
    try:
        metadata = _parsed(jvm, plain_metadata(snapshot), "Metadata")
        protocol = _parsed(jvm, plain_protocol(), "Protocol")
        known = delta.DummySnapshot(log.logPath(), log, metadata, none, jvm.scala.Option.apply(protocol))
        base = f"file://{quote(root)}" if context.storage.is_local else root
        files = _parsed(jvm, f"[{','.join(_adds(context, rows, base))}]", "AddFile", many=True)
        chosen = jvm.scala.jdk.javaapi.CollectionConverters.asScala(files).toSeq()
        yield DataFrame(log.createDataFrame(known, chosen, False, none), spark)
    finally:
        delta.DeltaLog.invalidateCache(session, path)


def _parsed(jvm: Any, text: str, name: str, *, many: bool = False) -> Any:
    """What Delta makes of the JSON inside an action; many of them in one call, for each takes a millisecond."""
    load = jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass
    mapper = jvm.org.apache.spark.sql.delta.util.JsonUtils.mapper()
    kind = load(_ACTIONS + name)
    if many:
        kind = mapper.getTypeFactory().constructCollectionType(load("java.util.ArrayList"), kind)
    return mapper.readValue(text, kind)


def _adds(context: JobContext, rows: DeltaRows, root: str) -> Iterator[str]:
    storage, snapshot = context.storage, rows.snapshot
    stored = raw_adds(storage, snapshot.details.segment, None if rows.files is None else rows.paths)
    for path, add in zip(stored["path"].to_pylist(), stored["add"].to_pylist(), strict=True):
        storage.resolve(decoded_path(path))  # a log may name any location: only those below the table are read
        yield plain_add(add, root=root, where=snapshot.location)


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


def converted_stream(
    spark: SparkSession,
    storage: Storage,
    rows: IcebergRows,
    schema: Schema,
    live: LiveRows,
    *,
    inputs: Mapping[str, GeoInput],
    bad: BadRows,
) -> RowStream:
    """The rows with the columns of another table's schema, which go by their names, shapes as ISO WKB."""
    names = {field.name for field in schema.fields}
    stored = Schema(StructType(tuple([field for field in rows.snapshot.schema.fields if field.name in names])))
    plain = iceberg_stream(spark, storage, rows, stored, live)
    read_plain = plain.read
    assert read_plain is not None

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fitter = RowFitter(schema, inputs)
        for batch in read_plain(batches):
            yield fitter.fit(batch)
        bad.report(fitter.bad)

    return RowStream(plain.source, read, spark_schema(schema))


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


_BATCH_BYTES = 1 << 24
_MAX_BATCH_ROWS = 16_384
_MAX_PART_BYTES = 1 << 27
_SAMPLED_PARTS = 200


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


def sample_parquet(job: WriteJob, rows: ParquetRows, columns: Sequence[str]) -> Sample:
    """About 100,000 rows of these columns, from row groups spread over the set, read in this process."""
    sources = [column.cell.column for column in job.cells.values()]
    tops = dict.fromkeys([*(split_path(column)[0] for column in (*columns, *sources)), *job.partition_by])
    narrow = Schema(StructType(tuple([field for field in job.given_schema.fields if field.name in tops])))
    wanted = {path: geo_input for path, geo_input in job.geo_input.items() if split_path(path)[0] in tops}
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
    table = with_cells(pa.Table.from_batches(kept.batches, arrow_schema), job.cells)
    return sample_of(table, columns, job.partition_by)


def size_parquet(job: WriteJob, rows: ParquetRows) -> dict[Partition, int]:
    """About how many bytes each partition takes, from the sizes of the files and a sample."""
    total = sum(file.bytes for file in rows.files)
    if not job.partition_by:
        return {(): total}
    sample = sample_parquet(job, rows, ())
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
