"""Batches of any source as the rows that are written: all columns, of the right types, shapes as ISO WKB."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa

from geolake_nb.errors import JobError
from geolake_nb.formats.delta.plain_actions import plain_schema
from geolake_nb.formats.delta.schema import to_delta_schema
from geolake_nb.formats.iceberg.live_rows import carried_schema
from geolake_nb.model.types import PrimitiveType, StringType
from geolake_nb.parquet.file_columns import FileColumns
from geolake_nb.spark.geo_input import BadValues, GeoReader, merge_bad
from geolake_nb.spark.row_stream import map_in_arrow
from geolake_nb.spark.task_accumulator import keyed_accumulator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType as SparkStruct

    from geolake_nb.changes.write_job import GeoInput
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.types import Field
    from geolake_nb.parquet.geoparquet import GeoEncoding

    RowNamer = Callable[[int], str]

__all__ = ["BadRows", "RowFitter", "fitted_frame", "refuse_bad", "spark_schema"]

_INSTANT = PrimitiveType("timestamptz")


class RowFitter:
    """Makes batches of what a source gives; lives as long as a task.

    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.types import Field, StructType
    >>> fields = Field("a", PrimitiveType("int64")), Field("k", StringType()), Field("b", PrimitiveType("binary"))
    >>> schema = Schema(StructType(fields))
    >>> RowFitter(schema, {}).fit(pa.record_batch({"a": pa.array([7], pa.int8())}), {"k": "x"}).to_pylist()
    [{'a': 7, 'k': 'x', 'b': None}]
    """

    def __init__(
        self, schema: Schema, inputs: Mapping[str, GeoInput], *, native: Mapping[str, GeoEncoding] | None = None
    ) -> None:
        self._fields = schema.fields
        self._columns = FileColumns.of(carried_schema(schema))
        self._reader = GeoReader(inputs, native=native)

    @property
    def arrow(self) -> pa.Schema:
        """The columns of the batches that it makes."""
        return self._columns.arrow

    @property
    def bad(self) -> list[BadValues]:
        """The invalid values so far; they are null in the rows."""
        return self._reader.bad

    def fit(
        self, batch: pa.RecordBatch, constants: Mapping[str, object] | None = None, *, row_name: RowNamer | None = None
    ) -> pa.RecordBatch:
        """The batch with all columns; `constants` hold in all rows of it where it does not have them itself."""
        arrays: list[pa.Array] = []
        for field, kind in zip(self._fields, self._columns.arrow.types, strict=True):
            value = (constants or {}).get(field.name)
            if field.name in batch.schema.names:
                arrays.append(_as_meant(batch.column(field.name), field))
            elif value is not None:
                arrays.append(pa.repeat(pa.scalar(value), len(batch)))
            else:
                arrays.append(pa.nulls(len(batch), kind))
        whole = pa.RecordBatch.from_arrays(arrays, [field.name for field in self._fields])
        return self._columns.fit(self._reader.read(whole, row_name=row_name))


def _as_meant(array: pa.Array, field: Field) -> pa.Array:
    """The column with what Arrow leaves out when it reads Parquet."""
    kind = array.type
    if field.type == _INSTANT and pa.types.is_timestamp(kind) and kind.tz is None:
        return array.cast(pa.timestamp(kind.unit, "UTC"))  # INT96 are instants
    if isinstance(field.type, StringType) and pa.types.is_binary(kind):
        return array.cast(pa.string())  # ENUM and JSON are texts
    return array


class BadRows:
    """The invalid values of the tasks of a job, collected at the driver.

    A task that runs twice reports the same, and counts once.
    """

    def __init__(self, spark: SparkSession) -> None:
        # Where the driver is another process, a task has to fail by itself.
        self._reported = keyed_accumulator(spark)

    def report(self, bad: Iterable[BadValues]) -> None:
        """Called in a task, when it has read all of its rows."""
        from pyspark import TaskContext

        merged = merge_bad(bad)
        if not merged:
            return
        if self._reported is None:
            refuse_bad(merged, where=None)
            return
        task = TaskContext.get()
        self._reported.add({0 if task is None else task.partitionId(): merged})

    def refuse(self, where: str) -> None:
        """Raise if there are any."""
        if self._reported is not None and self._reported.value:
            refuse_bad(
                merge_bad(values for _, some in sorted(self._reported.value.items()) for values in some), where=where
            )


def refuse_bad(bad: list[BadValues], *, where: str | None) -> None:
    """Raise, naming the values.

    >>> refuse_bad([], where="/t")
    """
    if bad:
        raise JobError(
            f"invalid values: {'; '.join(map(str, bad))}",
            where=where,
            remedy="fix or remove these rows; nothing was committed",
        )


def fitted_frame(frame: DataFrame, schema: Schema, inputs: Mapping[str, GeoInput], bad: BadRows) -> DataFrame:
    """The frame, whose columns have names of the schema, with all columns and with shapes as ISO WKB."""

    def fit(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fitter = RowFitter(schema, inputs)
        for batch in batches:
            yield fitter.fit(batch)
        bad.report(fitter.bad)

    return map_in_arrow(frame, fit, spark_schema(schema))


def spark_schema(schema: Schema) -> SparkStruct:
    """The columns as a job passes them on: shapes are bytes or text, strings have no collation, all may be null."""
    from pyspark.sql.types import StructType as SparkStruct

    return SparkStruct.fromJson(json.loads(plain_schema(to_delta_schema(carried_schema(schema)))))
