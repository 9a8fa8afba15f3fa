"""The rows that a job writes, with the columns of the table, shapes as plain bytes."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from geolake_nb.changes.sampling import partition_codes, sample_delta
from geolake_nb.changes.write_job import DeltaRows, IcebergRows, ParquetRows
from geolake_nb.formats.iceberg.live_rows import sample_iceberg, size_iceberg
from geolake_nb.model.types import GeometryEncoding
from geolake_nb.spark.coerce import BadRows, fitted_frame
from geolake_nb.spark.delta_source import delta_frame
from geolake_nb.spark.iceberg_source import LiveRows, iceberg_stream
from geolake_nb.spark.input_source import input_frame, sample_frame, size_frame
from geolake_nb.spark.parquet_source import parquet_stream, sample_parquet, size_parquet
from geolake_nb.spark.partition_keys import keyed_frame
from geolake_nb.spark.row_stream import RowStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from geolake_nb.changes.sampling import Partition, Sample
    from geolake_nb.changes.write_job import GeoInput, InputRows, WriteJob
    from geolake_nb.spark.applying import JobContext
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

__all__ = ["OpenRows", "open_rows", "sample_rows"]


@dataclass(frozen=True, slots=True, eq=False)
class OpenRows:
    """Rows that can be read now, and what is known of them before."""

    stream: RowStream
    """The columns of the job's schema by their names; geo columns as WKB, or in the encoding of their input."""
    sample: Callable[[Sequence[str]], Sample]
    """Some rows of these columns, as in the stream."""
    sizes: Mapping[Partition, int] | None = None
    """About how many bytes each partition will take; `None` if unknown."""
    rows: int | None = None
    """How many there are, where that is known."""
    counted: Callable[[], int | None] = lambda: None
    """How many rows the tasks counted, when they have read them all; `None` if unknown."""
    inputs: Mapping[str, GeoInput] = field(default_factory=dict)
    """Columns that are not yet ISO WKB."""


def sample_rows(storage: Storage, job: WriteJob, columns: Sequence[str], on_progress: Progress | None = None) -> Sample:
    """Some rows of the source of a job, read without Spark."""
    if isinstance(job.rows, IcebergRows):
        return sample_iceberg(storage, job.rows, job.schema, columns, job.partition_by)
    if isinstance(job.rows, ParquetRows):
        return sample_parquet(job.rows, job.schema, columns, job.partition_by, job.geo_input)
    assert isinstance(job.rows, DeltaRows)
    return sample_delta(storage, job.rows, columns, on_progress=on_progress)


@contextlib.contextmanager
def open_rows(job: WriteJob, context: JobContext) -> Iterator[OpenRows]:
    """The rows of a job's source, as long as the block lasts."""
    if isinstance(job.rows, DeltaRows):
        with _delta(job.rows, job, context) as opened:
            yield opened
    elif isinstance(job.rows, IcebergRows):
        yield _iceberg(job.rows, job, context)
    elif isinstance(job.rows, ParquetRows):
        with _parquet(job.rows, job, context) as opened:
            yield opened
    else:
        with _given(job.rows, job, context) as opened:
            yield opened


@contextlib.contextmanager
def _delta(rows: DeltaRows, job: WriteJob, context: JobContext) -> Iterator[OpenRows]:
    import numpy as np

    snapshot, storage = rows.snapshot, context.storage
    table = snapshot.files.table
    indices = np.arange(len(snapshot.files)) if rows.files is None else np.array(rows.files, np.int64)
    partitions, codes = partition_codes(table, snapshot.partition_columns, indices)
    bytes_ = np.bincount(codes, weights=table["bytes"].to_numpy()[indices], minlength=len(partitions))
    sizes = {partition: int(size) for partition, size in zip(partitions, bytes_, strict=True)}
    with delta_frame(context, rows) as frame:
        yield OpenRows(
            stream=RowStream(frame),
            sample=lambda columns: sample_delta(storage, rows, columns),
            sizes=sizes,
            rows=job.expected_rows,
            inputs=job.geo_input,
        )


def _iceberg(rows: IcebergRows, job: WriteJob, context: JobContext) -> OpenRows:
    storage, live = context.storage, LiveRows(context.spark)
    return OpenRows(
        stream=iceberg_stream(context.spark, storage, rows, job.schema, live),
        sample=lambda columns: sample_iceberg(storage, rows, job.schema, columns, job.partition_by),
        sizes=size_iceberg(rows),
        rows=job.expected_rows,
        counted=live.total,
        inputs=job.geo_input,
    )


@contextlib.contextmanager
def _parquet(rows: ParquetRows, job: WriteJob, context: JobContext) -> Iterator[OpenRows]:
    bad = BadRows(context.spark)
    yield OpenRows(
        stream=parquet_stream(context.spark, rows, job.schema, job.geo_input, bad),
        sample=lambda columns: sample_parquet(rows, job.schema, columns, job.partition_by, job.geo_input),
        sizes=size_parquet(rows, job.schema, job.partition_by, job.geo_input),
        rows=rows.rows,
    )
    bad.refuse(context.storage.location)


@contextlib.contextmanager
def _given(rows: InputRows, job: WriteJob, context: JobContext) -> Iterator[OpenRows]:
    schema = job.given_schema
    frame, inputs = input_frame(context.spark, rows, schema, job.geo_input, where=context.storage.location)
    bad = BadRows(context.spark)
    columns = () if job.ordering is None else job.ordering.columns
    if any(path in inputs and inputs[path].encoding is not GeometryEncoding.WKB for path in columns):
        # Keys are made of WKB.
        frame, inputs = fitted_frame(frame, schema, inputs, bad), {}
    if job.keys:
        frame = keyed_frame(frame, job.keys)
    yield OpenRows(
        stream=RowStream(frame),
        sample=lambda columns: sample_frame(frame, columns, job.partition_by),
        # To know it takes a pass over the rows, which only an ordering is worth.
        sizes=None if job.ordering is None else size_frame(frame, job.partition_by),
        inputs=inputs,
    )
    bad.refuse(context.storage.location)
