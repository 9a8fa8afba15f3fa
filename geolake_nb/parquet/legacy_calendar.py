"""Parquet files in which Spark wrote dates and times in the hybrid Julian and Gregorian calendar.

Spark did so before version 3.0, and still does in its rebase mode LEGACY. It marks such files by its version or by a
property, and reads a stored day as the same year, month and day in that calendar.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import UnsupportedTableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.parquet as pq
    from numpy.typing import NDArray

__all__ = ["FIRST_GREGORIAN_DAY", "LegacyCalendar", "first_same_time"]

FIRST_GREGORIAN_DAY = -141_427
"""15 October 1582: from here on a day has the same date in both calendars."""
_VERSION = b"org.apache.spark.version"
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def first_same_time(unit: str) -> int:
    """1 January 1900 in a unit of Arrow: from there on a time is the same in both calendars, in every time zone.

    >>> first_same_time("s")
    -2208988800
    """
    return -2_208_988_800 * _UNITS[unit]


@dataclass(frozen=True, slots=True)
class LegacyCalendar:
    """Which values of a file are in the hybrid calendar."""

    dates: bool
    """Dates, and times that are not INT96."""
    int96: bool
    sure: bool = True
    """Whether the file declares it. Otherwise its writer is unknown and may have been Spark 2."""

    @classmethod
    def of(cls, metadata: pq.FileMetaData) -> LegacyCalendar | None:
        """The calendar by the properties of a file, `None` for a file without values in that calendar."""
        properties = metadata.metadata or {}
        version = properties.get(_VERSION)
        if version is None:
            return cls(True, True, sure=False) if (metadata.created_by or "").startswith("parquet-mr") else None
        # Spark, DataSourceUtils: by its version, or by a property in the mode LEGACY.
        dates = _is_before(version, (3, 0)) or b"org.apache.spark.legacyDateTime" in properties
        int96 = _is_before(version, (3, 1)) or b"org.apache.spark.legacyINT96" in properties
        return cls(dates, int96) if dates or int96 else None

    def bounds_hold(self, low: int, kind: pa.DataType) -> bool:
        """Whether a minimum, as stored in the file, excludes all values that differ in the Gregorian calendar.

        >>> LegacyCalendar(True, True).bounds_hold(-171_650, pa.date32())
        False
        """
        if not self.dates:
            return True
        if pa.types.is_date(kind):
            return low >= FIRST_GREGORIAN_DAY
        return not pa.types.is_timestamp(kind) or low >= first_same_time(kind.unit)

    def rebased(self, batch: pa.RecordBatch, schema: pq.ParquetSchema) -> pa.RecordBatch:
        """The batch in the Gregorian calendar; times and nested dates that differ are refused by name.

        The result for a time depends on the time zone of its writer and on the history of that zone. A file whose
        writer is unknown is read as it is, as in Spark 4.
        """
        if not self.sure:
            return batch
        arrays = [
            self._column(array, name, is_int96=_has_int96(schema, name))
            for name, array in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, batch.schema.names)

    def _column(self, array: pa.Array, name: str, *, is_int96: bool) -> pa.Array:
        if self.dates and pa.types.is_date32(array.type):
            days = pc.fill_null(array.cast(pa.int32()), 0).to_numpy()
            return pa.array(gregorian_days(days), pa.int32(), mask=~array.is_valid().to_numpy(False)).cast(pa.date32())
        for leaf in _leaves(array):
            is_time = pa.types.is_timestamp(leaf.type)
            if not (pa.types.is_date32(leaf.type) or is_time) or not (
                self.int96 if is_int96 and is_time else self.dates
            ):
                continue
            first = pc.min(leaf.cast(pa.int64() if is_time else pa.int32())).as_py()
            cut = first_same_time(leaf.type.unit) if is_time else FIRST_GREGORIAN_DAY
            if first is not None and first < cut:
                values = "times before 1900" if is_time else "dates before 15 October 1582"
                raise UnsupportedTableError(
                    f"{values} are in the legacy calendar of Spark, whose conversion is not supported",
                    where=name,
                    remedy="read the files with spark.read.parquet and rewrite them",
                )
        return array


def gregorian_days(days: NDArray[np.int32]) -> NDArray[np.int32]:
    """Days since 1970 with the Gregorian dates that equal the dates of the given days in the hybrid calendar.

    A date that the Gregorian calendar lacks, such as 29 February 1500, becomes the day after, as in Spark.

    >>> gregorian_days(np.array([-171_650, 0])).tolist()  # 1500-01-01
    [-171659, 0]
    """
    ancient = np.flatnonzero(days < FIRST_GREGORIAN_DAY)
    if not len(ancient):
        return days
    # The Julian date of a Julian day number, in years that begin in March.
    count = days[ancient].astype(np.int64) + 2_440_588 + 32_082
    years = (4 * count + 3) // 1461
    of_year = count - 1461 * years // 4
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5
    year = years - 4800
    # The days before that March in the proleptic Gregorian calendar, and from there on.
    rebased = days.copy()
    first_of_month = 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 - 719_468
    rebased[ancient] = (first_of_month + day).astype(np.int32)
    return rebased


def _is_before(version: bytes, since: tuple[int, int]) -> bool:
    numbers = version.split(b".")[:2]
    known = len(numbers) == 2 and all(number.isdigit() for number in numbers)
    return not known or (int(numbers[0]), int(numbers[1])) < since


def _has_int96(schema: pq.ParquetSchema, name: str) -> bool:
    leaves = (schema.column(index) for index in range(len(schema)))
    return any(leaf.physical_type == "INT96" and leaf.path.split(".")[0] == name for leaf in leaves)


def _leaves(array: pa.Array) -> Iterator[pa.Array]:
    kind = array.type
    if pa.types.is_struct(kind):
        for child in array.flatten():
            yield from _leaves(child)
    elif pa.types.is_map(kind):
        yield from _leaves(array.keys)
        yield from _leaves(array.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _leaves(array.flatten())
    else:
        yield array
