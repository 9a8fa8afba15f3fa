"""The rows that a job goes over in Python tasks: those that Spark holds, or that the tasks read themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType as SparkStruct

    Batches = Iterator[pa.RecordBatch]

__all__ = ["RowStream", "map_in_arrow"]


def map_in_arrow(frame: DataFrame, function: Callable[[Batches], Batches], schema: SparkStruct | str) -> DataFrame:
    """`frame.mapInArrow`, which takes a dot in the name of a column for a path, with names that may have dots."""
    names = frame.columns
    if not any("." in name or "`" in name for name in names):
        return frame.mapInArrow(function, schema)

    def renamed(batches: Batches) -> Batches:
        return function(batch.rename_columns(names) for batch in batches)

    return frame.toDF(*[f"c{index}" for index in range(len(names))]).mapInArrow(renamed, schema)


@dataclass(frozen=True, slots=True, eq=False)
class RowStream:
    """A DataFrame, and what makes the rows of what it holds, if it does not hold the rows themselves."""

    source: DataFrame
    read: Callable[[Batches], Batches] | None = None
    """Makes rows of the batches of `source`, which then are the numbers of parts to read."""
    columns: SparkStruct | None = None
    """What `read` makes."""

    @property
    def frame(self) -> DataFrame:
        """The rows as Spark's own."""
        if self.read is None or self.columns is None:
            return self.source
        return map_in_arrow(self.source, self.read, self.columns)

    def coalesced(self, tasks: int) -> RowStream:
        """The same rows in at most so many tasks."""
        return RowStream(self.source.coalesce(tasks), self.read, self.columns)

    def through(self, function: Callable[[Batches], Batches], schema: str, names: Sequence[str]) -> DataFrame:
        """What a function makes of these columns of the rows; rows that tasks read do not pass through the JVM."""
        read = self.read
        if read is None:
            frame = self.source.select(*[f"`{name.replace('`', '``')}`" for name in names])
            return map_in_arrow(frame, function, schema)
        return self.source.mapInArrow(
            lambda batches: function(batch.select(list(names)) for batch in read(batches)), schema
        )
