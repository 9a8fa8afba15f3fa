"""The rows of a filter by Spark's own reader of a format, for a comparison of engines."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.formats.spark_location import spark_location
from geolake_nb.scan.row_comparison import with_types
from geolake_nb.scan.shapely_filter import ShapelyFilter
from geolake_nb.spark.jobs import map_in_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from geolake_nb.expressions.predicate import Predicate

__all__ = ["NativeTable", "SparkReader"]

_SWITCHES = ("spark.sql.parquet.filterPushdown", "spark.databricks.delta.stats.skipping")
"""What skips row groups and files by minima and maxima."""
_PATTERN = re.compile(r"([\\*?\[\]{}])")


@dataclass(frozen=True, slots=True)
class NativeTable:
    """A table as Spark opens it: a format with a location, or Parquet files below a folder."""

    format: str
    location: str
    version: int | None = None
    files: tuple[str, ...] = ()


@dataclass(eq=False)
class SparkReader:
    """Spark's own reader of a table; it has no spatial predicates, so that its tasks test the rows with shapely."""

    session: SparkSession
    table: NativeTable
    schema: pa.Schema
    """The columns of the answer."""
    predicate: Predicate | None = None
    conditions: Sequence[tuple[str, Callable[[Column], Column]]] = ()
    """The plain conditions: the name of a column, and what is asked of it."""
    via: str = ""

    def __post_init__(self) -> None:
        self.switchable = bool(self.conditions)

    def rows(self, *, skip: bool) -> pa.Table:
        """The rows, read and tested in the tasks."""
        from pyspark.sql import functions as sf

        with _switched(self.session, skip=skip):
            frame = self._frame()
            for name, condition in self.conditions:
                frame = frame.where(condition(sf.col(_quoted(name))))
            return _tested(frame, self.schema, self.predicate).toArrow()

    def amount(self, *, skip: bool) -> tuple[int | None, int | None]:
        """Spark does not say without its web interface."""
        return None, None

    def _frame(self) -> DataFrame:
        table, reader = self.table, self.session.read
        location = spark_location(self.session, table.location)
        if table.files:
            files = [_PATTERN.sub(r"\\\1", path) for path in table.files]
            return reader.option("basePath", location).parquet(*files)
        if table.version is not None:
            reader = reader.option("versionAsOf", str(table.version))
        return reader.format(table.format).load(location)


def _tested(frame: DataFrame, schema: pa.Schema, predicate: Predicate | None) -> DataFrame:
    from pyspark.sql import functions as sf
    from pyspark.sql.types import BinaryType, StructField, StructType

    columns, fields = [], []
    for given in frame.schema.fields:
        column, kind = sf.col(_quoted(given.name)), given.dataType
        if kind.typeName() in ("geometry", "geography"):
            column, kind = sf.expr(f"st_asbinary({_quoted(given.name)})").alias(given.name), BinaryType()
        columns.append(column)
        fields.append(StructField(given.name, kind))
    plain = frame.select(*columns)
    if predicate is None:
        return plain

    def test(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        exact = ShapelyFilter(predicate)
        for batch in batches:
            known = with_types(pa.Table.from_batches([batch]), schema).combine_chunks()
            if not set(exact.columns) <= set(known.column_names):
                yield batch  # the comparison says which column is missing
                continue
            for part in known.to_batches():
                yield batch.filter(pa.array(exact.keep(part)))

    return map_in_arrow(plain, test, StructType(fields))


@contextmanager
def _switched(session: SparkSession, *, skip: bool) -> Iterator[None]:
    before: dict[str, Any] = {name: session.conf.get(name, None) for name in _SWITCHES}
    try:
        for name in _SWITCHES:
            session.conf.set(name, str(skip).lower())
        yield
    finally:
        for name, value in before.items():
            if value is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
