"""The rows that a job writes, with the columns of the table, shapes as plain bytes."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.changes.cell_columns import with_cells
from geolake_nb.changes.sampling import SAMPLE_ROWS, partition_codes, sample_delta, sample_of
from geolake_nb.changes.write_job import DeltaRows, IcebergRows, ParquetRows
from geolake_nb.formats.iceberg.live_rows import sample_iceberg, size_iceberg
from geolake_nb.model.schema import Schema, split_path
from geolake_nb.model.types import GeographyType, GeometryEncoding, GeometryType, PrimitiveType, StructType
from geolake_nb.spark.coerce import BadRows, RowFitter, fitted_frame, refuse_bad, spark_schema
from geolake_nb.spark.jobs import RowStream
from geolake_nb.spark.live_rows import (
    LiveRows,
    converted_stream,
    delta_frame,
    iceberg_stream,
    parquet_stream,
    sample_parquet,
    size_parquet,
)
from geolake_nb.storage.hive_paths import partition_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType as SparkType

    from geolake_nb.changes.cell_columns import CellColumn
    from geolake_nb.changes.sampling import Partition, Sample
    from geolake_nb.changes.write_job import GeoInput, InputRows, KeyColumn, WriteJob
    from geolake_nb.model.types import Field
    from geolake_nb.spark.applying import JobContext
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

__all__ = [
    "OpenRows",
    "cell_frame",
    "input_frame",
    "keyed_frame",
    "open_rows",
    "sample_frame",
    "sample_rows",
    "size_frame",
]


def keyed_frame(frame: DataFrame, keys: Mapping[str, KeyColumn]) -> DataFrame:
    """The rows with these additional columns."""

    def function(key: KeyColumn) -> Callable[[Any], Any]:
        def keys_of(values: Any) -> Any:
            from geolake_nb.formats.iceberg.partitions import partition_keys

            return partition_keys(key.transform, key.type, values)

        return keys_of

    return frame.select("*", *[_strings(function(key), (key.source,)).alias(name) for name, key in keys.items()])


def cell_frame(frame: DataFrame, cells: Mapping[str, CellColumn]) -> DataFrame:
    """The rows with the cells of their geometries, which are WKB, as more columns."""
    columns = [_strings(column.values, split_path(column.cell.column)).alias(name) for name, column in cells.items()]
    return frame.select("*", *columns)


def _strings(values_of: Callable[[Any], Any], path: Sequence[str]) -> Column:
    """The strings that a function makes of the arrays of a column."""
    from pyspark.sql import functions as sf
    from pyspark.sql.pandas.functions import arrow_udf

    def strings(values: Any) -> Any:
        return values_of(values)

    # Spark looks at the types themselves to tell what kind of function it is.
    strings.__annotations__ = {"values": pa.Array, "return": pa.Array}
    make: Any = arrow_udf
    column: Column = make(strings, "string")(sf.col(".".join(map(_quoted, path))))
    return column


_SEED = 20_240_607
_DRAW = "__geolake_draw"
_WEIGHED_ROWS = 1000
_NOTHING = PrimitiveType("unknown")


def input_frame(
    spark: SparkSession, rows: InputRows, schema: Schema, inputs: Mapping[str, GeoInput], *, where: str
) -> tuple[DataFrame, Mapping[str, GeoInput]]:
    """The rows with the columns of the schema, and how those are read that are not yet ISO WKB."""
    if isinstance(rows.frame, pa.Table):
        fitter = RowFitter(schema, inputs)
        renamed = rows.frame.rename_columns(_names(rows.frame.column_names, schema))
        batches = [fitter.fit(batch) for batch in renamed.to_batches()]
        refuse_bad(fitter.bad, where=where)  # it is all here: no job has to start for it
        # With its schema: on its own Spark takes a time without a zone for an instant of the session's zone.
        return spark.createDataFrame(pa.Table.from_batches(batches, fitter.arrow), spark_schema(schema)), {}
    given = dict(zip(_names_of(rows.schema, schema), rows.schema.fields, strict=True))
    types = {field.name: field.dataType for field in spark_schema(schema)}
    columns = [_column(field.name, given.get(field.name), types[field.name]) for field in schema.fields]
    return rows.frame.select(*columns), inputs


def sample_frame(frame: DataFrame, columns: Sequence[str], partition_by: Sequence[str]) -> Sample:
    """About 100,000 rows of these columns, each as likely as any other, in one pass over the DataFrame."""
    from pyspark.sql import functions as f

    tops = dict.fromkeys([*(split_path(column)[0] for column in columns), *partition_by])
    narrow = frame.select(*[f.col(_quoted(name)) for name in tops])
    drawn = narrow.withColumn(_DRAW, f.rand(_SEED)).orderBy(_DRAW).limit(SAMPLE_ROWS).drop(_DRAW)
    return sample_of(drawn.toArrow(), columns, partition_by)


def size_frame(frame: DataFrame, partition_by: Sequence[str]) -> dict[Partition, int]:
    """About how many bytes of a file the rows of each partition take: their number, and the size of some of them."""
    some = frame.limit(_WEIGHED_ROWS).toArrow()
    if not some.num_rows:
        return {}
    # In Parquet, values take about half of what they do in memory.
    each = max(1, some.nbytes // (2 * some.num_rows))
    if not partition_by:
        return {(): frame.count() * each}
    counted = frame.groupBy(*[_quoted(name) for name in partition_by]).count().toArrow()
    names = zip(*[[partition_text(value) for value in counted[name]] for name in partition_by], strict=True)
    return {name: count * each for name, count in zip(names, counted.column(-1).to_pylist(), strict=True)}


def _names_of(given: Schema, schema: Schema) -> list[str]:
    return _names([field.name for field in given.fields], schema)


def _names(given: Sequence[str], schema: Schema) -> list[str]:
    """The names as the table spells them."""
    spelled = {field.name.casefold(): field.name for field in schema.fields}
    return [spelled.get(name.casefold(), name) for name in given]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _column(name: str, given: Field | None, kind: SparkType) -> Column:
    from pyspark.sql import functions as f

    if given is None or given.type == _NOTHING:
        return f.lit(None).cast(kind).alias(name)
    if isinstance(given.type, (GeometryType, GeographyType)):
        # Python's Spark knows few of the CRSs that the JVM does, and cannot pass on columns of others.
        return f.expr(f"st_asbinary({_quoted(given.name)})").alias(name)
    return f.col(_quoted(given.name)).alias(name)


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
    if isinstance(job.rows, IcebergRows) and job.rows.storage is not None:
        return _sample_converted(job.rows, job.rows.storage, job, columns)
    if isinstance(job.rows, IcebergRows):
        return sample_iceberg(storage, job.rows, job.schema, columns, job.partition_by)
    if isinstance(job.rows, ParquetRows):
        return sample_parquet(job, job.rows, columns)
    assert isinstance(job.rows, DeltaRows)
    return sample_delta(storage, job.rows, columns, on_progress=on_progress)


@contextlib.contextmanager
def open_rows(job: WriteJob, context: JobContext) -> Iterator[OpenRows]:
    """The rows of a job's source, as long as the block lasts."""
    if isinstance(job.rows, DeltaRows):
        with _delta(job.rows, job, context) as opened:
            yield opened
    elif isinstance(job.rows, IcebergRows) and job.rows.storage is not None:
        with _converted(job.rows, job.rows.storage, job, context) as opened:
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
def _converted(rows: IcebergRows, storage: Storage, job: WriteJob, context: JobContext) -> Iterator[OpenRows]:
    bad, live = BadRows(context.spark), LiveRows(context.spark)
    stream = converted_stream(context.spark, storage, rows, job.schema, live, inputs=job.geo_input, bad=bad)
    sizes = size_iceberg(rows)
    if job.partition_by:
        # To know it takes a pass over the rows, which only an ordering is worth.
        sizes = {} if job.ordering is None else size_frame(stream.frame, job.partition_by)
    yield OpenRows(
        stream=stream,
        sizes=sizes or None,
        sample=lambda columns: _sample_converted(rows, storage, job, columns),
        rows=job.expected_rows,
        counted=live.total,
    )
    bad.refuse(context.storage.location)


def _sample_converted(rows: IcebergRows, storage: Storage, job: WriteJob, columns: Sequence[str]) -> Sample:
    tops = {split_path(column)[0] for column in (*columns, *job.partition_by)}
    wanted = {path: given for path, given in job.geo_input.items() if split_path(path)[0] in tops}
    schema = Schema(StructType(tuple([field for field in job.schema.fields if field.name in tops])))
    fitter = RowFitter(schema, wanted)
    return sample_iceberg(
        storage, rows, rows.snapshot.schema, columns, job.partition_by, fit=(fitter.fit, fitter.arrow)
    )


@contextlib.contextmanager
def _parquet(rows: ParquetRows, job: WriteJob, context: JobContext) -> Iterator[OpenRows]:
    bad = BadRows(context.spark)
    stream = parquet_stream(context.spark, rows, job.given_schema, job.geo_input, bad)
    if job.cells:
        cells, names = job.cells, [field.name for field in job.schema.fields]
        stream = stream.extended(lambda batch: with_cells(batch, cells).select(names), spark_schema(job.schema))
    yield OpenRows(
        stream=stream,
        sample=lambda columns: sample_parquet(job, rows, columns),
        sizes=size_parquet(job, rows),
        rows=rows.rows,
    )
    bad.refuse(context.storage.location)


@contextlib.contextmanager
def _given(rows: InputRows, job: WriteJob, context: JobContext) -> Iterator[OpenRows]:
    schema = job.given_schema
    frame, inputs = input_frame(context.spark, rows, schema, job.geo_input, where=context.storage.location)
    bad = BadRows(context.spark)
    columns = () if job.ordering is None else job.ordering.columns
    if any(column.cell.column in inputs for column in job.cells.values()) or any(
        path in inputs and inputs[path].encoding is not GeometryEncoding.WKB for path in columns
    ):
        # Keys and cells are made of WKB.
        frame, inputs = fitted_frame(frame, schema, inputs, bad), {}
    if job.cells:
        frame = cell_frame(frame, job.cells)
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
