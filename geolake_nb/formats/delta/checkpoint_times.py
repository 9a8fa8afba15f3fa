"""Dates and instants in the statistics of a checkpoint: only those that every reader interprets alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.parquet.legacy_calendar import FIRST_GREGORIAN_DAY, LegacyCalendar, first_same_time

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = ["CheckpointTimes"]

_FIRST_DATE = pa.scalar(FIRST_GREGORIAN_DAY, pa.int32())


@dataclass(frozen=True, slots=True)
class CheckpointTimes:
    """How to read the times of one checkpoint file."""

    int96: frozenset[tuple[str, ...]]
    """The paths of the leaves in INT96, which are instants in UTC although their Arrow type has no zone."""
    old_dates: bool
    """Whether dates and timestamps may be in the calendar of Spark 2."""
    old_int96: bool
    """Whether INT96 timestamps may be."""

    @classmethod
    def of(cls, file: pq.ParquetFile) -> CheckpointTimes:
        """What the footer declares."""
        schema = file.schema
        leaves = zip(_leaves(file.schema_arrow), range(len(schema)), strict=True)
        int96 = frozenset(path for path, index in leaves if schema.column(index).physical_type == "INT96")
        calendar = LegacyCalendar.of(file.metadata)
        return cls(int96, calendar is not None and calendar.dates, calendar is not None and calendar.int96)

    def read(self, column: pa.ChunkedArray, *path: str) -> pa.ChunkedArray:
        """The column at that path with INT96 as instants, and null where a value may be in the old calendar.

        >>> import datetime as dt
        >>> days = pa.chunked_array([[{"day": dt.date(1066, 10, 14)}, {"day": dt.date(1970, 1, 1)}]])
        >>> CheckpointTimes(frozenset(), old_dates=True, old_int96=False).read(days).to_pylist()
        [{'day': None}, {'day': datetime.date(1970, 1, 1)}]
        """
        if not (self.int96 or self.old_dates):
            return column
        chunks = [self._read(chunk, path) for chunk in column.chunks]
        return pa.chunked_array(chunks) if chunks else column

    def _read(self, array: pa.Array, path: tuple[str, ...]) -> pa.Array:
        kind = array.type
        if pa.types.is_struct(kind):
            children = [
                self._read(child, (*path, field.name)) for field, child in zip(kind, array.flatten(), strict=True)
            ]
            fields = [field.with_type(child.type) for field, child in zip(kind, children, strict=True)]
            return pa.StructArray.from_arrays(children, fields=fields, mask=pc.is_null(array))
        if pa.types.is_date32(kind) and self.old_dates:
            return _from(_FIRST_DATE, array, pa.int32())
        if not pa.types.is_timestamp(kind):
            return array
        int96 = path in self.int96
        if self.old_int96 if int96 else self.old_dates:
            array = _from(pa.scalar(first_same_time(kind.unit)), array, pa.int64())
        return array.cast(pa.timestamp(kind.unit, "UTC")) if int96 else array


def _from(first: pa.Scalar, array: pa.Array, numbers: pa.DataType) -> pa.Array:
    """The values that are not before `first`, null for others."""
    return pc.if_else(pc.greater_equal(array.cast(numbers), first), array, pa.scalar(None, array.type))


def _leaves(schema: pa.Schema) -> list[tuple[str, ...]]:
    """The paths of all leaves in their order, which is that of the Parquet file."""
    paths: list[tuple[str, ...]] = []

    def walk(kind: pa.DataType, path: tuple[str, ...]) -> None:
        if not pa.types.is_nested(kind):
            paths.append(path)
            return
        for index in range(kind.num_fields):
            field = kind.field(index)
            walk(field.type, (*path, field.name))

    for field in schema:
        walk(field.type, (field.name,))
    return paths
