"""Small snapshots for tests of decisions, made by hand."""

from __future__ import annotations

import pyarrow as pa

from geolake_nb.formats.registry import DELTA
from geolake_nb.model.file_table import BoundSource, FileTable, GeoStatsColumns, sides_of
from geolake_nb.model.schema import Schema
from geolake_nb.model.snapshot import Protocol, Snapshot
from geolake_nb.model.types import Field, GeometryType, StructType

GEOM = (Field("geom", GeometryType()),)


def geo(boxes, *, nulls=None, types=None, source=BoundSource.LOG, problem=None, sides=None):
    """The statistics of a geo column from a list of boxes."""
    return GeoStatsColumns(
        sides or sides_of(boxes),
        null_count=None if nulls is None else pa.array(nulls, pa.int64()),
        types=None if types is None else pa.array(types, pa.list_(pa.int32())),
        source=source,
        problem=None if problem is None else pa.array(problem, pa.string()),
    )


def files(paths, *, rows=None, sizes=None, deleted=None, partitions=None, extra=None, **columns):
    count = len(paths)
    return FileTable.of(
        path=pa.array(paths, pa.string()),
        bytes=pa.array(sizes or [100] * count, pa.int64()),
        rows=pa.array(rows or [10] * count, pa.int64()),
        deleted_rows=None if deleted is None else pa.array(deleted, pa.int64()),
        partitions=partitions,
        extra=extra,
        geo={name: stats if isinstance(stats, GeoStatsColumns) else geo(stats) for name, stats in columns.items()},
    )


def snapshot(table, *, fields=GEOM, format=DELTA, version=1, scalars=None, **options):  # noqa: A002
    """A snapshot of these files; `scalars` are statistics of plain columns by name."""
    known = {(name,): column for name, column in (scalars or {}).items()}
    return Snapshot(
        format, "/lake/roads", version, None, Schema(StructType(tuple(fields))),
        options.pop("protocol", Protocol("reader 3, writer 7")), table,
        scalars=known.get, **options,
    )  # fmt: skip
