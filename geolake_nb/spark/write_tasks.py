"""What executors do for a job that writes files: they put rows in order, write them, and report each file."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from geolake_nb.changes.clustering import UNREADABLE
from geolake_nb.changes.write_job import InputRows
from geolake_nb.formats.delta.constraints import bound_columns, require_rules
from geolake_nb.formats.delta.write_target import DeltaTarget
from geolake_nb.model.schema import split_path
from geolake_nb.model.types import GeographyType, GeometryType, ListType, MapType, StructType
from geolake_nb.spark.shuffle import SortedRows, partitions_of, plain_shapes
from geolake_nb.storage.hive_paths import job_file_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Self

    from geolake_nb.changes.sampling import Partition
    from geolake_nb.changes.write_job import GeoInput, Target, WriteJob
    from geolake_nb.model.types import DataType, Field
    from geolake_nb.parquet.writer import Layout, ParquetWriter
    from geolake_nb.spark.applying import JobContext
    from geolake_nb.spark.row_sources import OpenRows
    from geolake_nb.storage.storage import Storage

__all__ = ["RESULT", "SortTask", "WriteTask"]

RESULT = "path string, rows long, bytes long, entry string, bad binary"
"""One row for each file that is written, and one for the invalid values of a task."""


@dataclass(frozen=True, slots=True, eq=False)
class WriteTask:
    """Writes the batches of a task to files, one after the other, and reports each."""

    storage: Storage
    layout: Layout
    target: Target
    partition_by: tuple[str, ...]
    transaction: str
    max_bytes: int
    max_rows: int | None
    key: str | None
    inputs: Mapping[str, GeoInput] = field(default_factory=dict)
    bound: tuple[Field, ...] = ()
    """The columns of new rows that do not take every value of their type."""
    null_structs: bool = True
    """Whether a struct may be null that has fields which may not."""

    @classmethod
    def of(
        cls, job: WriteJob, rows: OpenRows, context: JobContext, *, key: str | None, limits: tuple[int, int | None]
    ) -> Self:
        """The task of a job; `key` is the column with the keys, `limits` the most bytes and rows of a file."""
        return cls(
            storage=context.storage,
            layout=job.target.layout(job),
            target=job.target,
            partition_by=job.partition_by,
            transaction=context.transaction,
            max_bytes=limits[0],
            max_rows=limits[1],
            key=key,
            inputs=rows.inputs,
            # Rows that are in a table already are written as they are.
            bound=bound_columns(job.schema) if isinstance(job.rows, InputRows) else (),
            null_structs=not isinstance(job.target, DeltaTarget),
        )

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The files of the task, as rows of `RESULT`."""
        from geolake_nb.spark.coerce import GeoReader

        reader = GeoReader(self.inputs) if self.inputs else None
        files = _Files(self)
        try:
            for batch in batches:
                for column in self.bound:
                    require_rules(batch.column(column.name), column, null_structs=self.null_structs)
                for partition, readable, piece in self._runs(batch):
                    plain = self._plain(piece)
                    yield from files.write(partition, readable, plain if reader is None else reader.read(plain))
            yield from files.end()
        except BaseException:
            files.give_up()
            raise
        if reader is not None and reader.bad:
            yield _result(bad=pickle.dumps(reader.bad))

    def _runs(self, batch: pa.RecordBatch) -> Iterator[tuple[Partition, bool, pa.RecordBatch]]:
        """The batch cut where the partition changes, and before shapes that would leave others without bounds."""
        if not len(batch):
            return
        partitions, codes = partitions_of([batch.column(name) for name in self.partition_by], len(batch))
        readable = np.ones(len(batch), np.bool_)
        if self.key is not None:
            readable = np.asarray(batch.column(self.key)) != UNREADABLE
        changes = np.flatnonzero((codes[1:] != codes[:-1]) | (readable[1:] != readable[:-1])) + 1
        for start, end in zip([0, *changes.tolist()], [*changes.tolist(), len(batch)], strict=True):
            yield partitions[codes[start]], bool(readable[start]), batch.slice(start, end - start)

    def _plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of the file, shapes as bytes."""
        fields = self.layout.schema.fields
        # What is read before it is written comes with its SRID, which is checked then.
        read = {split_path(path)[0] for path in self.inputs}
        columns = [(batch.column(field.name), field) for field in fields]
        arrays = [column if field.name in read else _unwrapped(column, field.type) for column, field in columns]
        return pa.RecordBatch.from_arrays(arrays, [field.name for field in fields])


@dataclass(frozen=True, slots=True, eq=False)
class SortTask:
    """Puts the rows of the messages to a task in order, and has them written."""

    write: WriteTask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The files of the task, as rows of `RESULT`."""
        with SortedRows() as rows:
            for batch in batches:
                for message in batch.column("rows"):
                    rows.add(message.as_buffer())
            yield from self.write(rows.batches())


class _Files:
    """The files of one task, of which one is open."""

    def __init__(self, task: WriteTask) -> None:
        self._task = task
        number, attempt = _task_attempt()
        self._name = job_file_name(task.transaction, task=number, attempt=attempt)
        self._count = 0
        self._open: tuple[Partition, bool] | None = None
        self._writer: ParquetWriter | None = None

    def write(self, partition: Partition, readable: bool, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take in rows; gives the file that they did not fit in, if it has ended."""
        if self._open != (partition, readable) or self._is_full():
            yield from self.end()
            self._begin(partition)
            self._open = partition, readable
        assert self._writer is not None
        self._writer.write(batch)

    def end(self) -> Iterator[pa.RecordBatch]:
        """Close the file that is open, if there is one, and report it."""
        writer, self._writer = self._writer, None
        if writer is None or self._open is None:
            return
        partition, _ = self._open
        file = writer.close()
        yield _result(file.path, file.rows, file.bytes, self._task.target.entry(file, partition))

    def give_up(self) -> None:
        """Remove the file that is open."""
        if self._writer is not None:
            self._writer.abort()

    def _begin(self, partition: Partition) -> None:
        from geolake_nb.parquet.writer import ParquetWriter

        task = self._task
        folder = task.target.folder(partition)
        name = f"{self._name}-c{self._count:03}.{task.layout.compression}{task.layout.suffix}"
        self._count += 1
        self._writer = ParquetWriter(task.storage, f"{folder}/{name}" if folder else name, task.layout)

    def _is_full(self) -> bool:
        writer, task = self._writer, self._task
        if writer is None:
            return False
        if task.max_rows is not None and writer.rows >= task.max_rows:
            return True
        # Before the first row group is packed, its compressed size is unknown.
        return writer.rows >= task.layout.row_group_rows and writer.bytes_so_far >= task.max_bytes


def _task_attempt() -> tuple[int, int]:
    """The number of the task and of its attempt; zeros outside of Spark, which need not be installed."""
    try:
        from pyspark import TaskContext
    except ImportError:
        return 0, 0
    context = TaskContext.get()
    return (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())


def _unwrapped(column: pa.Array, type_: DataType) -> pa.Array:
    """The column with the WKB of shapes, nested ones too, from Spark's representation."""
    kind = column.type
    if isinstance(type_, GeometryType | GeographyType):
        return plain_shapes(column)
    if not _holds_shapes(kind):
        return column
    if isinstance(type_, StructType):
        children = [_unwrapped(column.field(index), field.type) for index, field in enumerate(type_.fields)]
        fields = [kind.field(index).with_type(child.type) for index, child in enumerate(children)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null())
    if isinstance(type_, ListType):
        inside = _unwrapped(column.values, type_.element.type)
        new = pa.list_(kind.value_field.with_type(inside.type))
    elif isinstance(type_, MapType):
        keys, items = _unwrapped(column.keys, type_.key.type), _unwrapped(column.items, type_.value.type)
        new = pa.map_(kind.key_field.with_type(keys.type), kind.item_field.with_type(items.type))
        inside = pa.StructArray.from_arrays([keys, items], fields=[new.key_field, new.item_field])
    else:
        return column
    buffers = column.buffers()[:2]
    return pa.Array.from_buffers(new, len(column), buffers, column.null_count, column.offset, [inside])


def _holds_shapes(kind: pa.DataType) -> bool:
    """Whether somewhere in it is what Spark makes of a GEOMETRY or GEOGRAPHY."""
    inner = [kind.field(index) for index in range(kind.num_fields)]
    return [field.name for field in inner] == ["srid", "wkb"] or any(_holds_shapes(field.type) for field in inner)


_RESULT_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("entry", pa.string()),
        ("bad", pa.binary()),
    ]
)


def _result(
    path: str | None = None, rows: int = 0, bytes_: int = 0, entry: str | None = None, *, bad: bytes | None = None
) -> pa.RecordBatch:
    row = {"path": path, "rows": rows, "bytes": bytes_, "entry": entry, "bad": bad}
    return pa.RecordBatch.from_pylist([row], _RESULT_SCHEMA)
