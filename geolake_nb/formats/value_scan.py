"""The statistics of geo columns in one data file or a part of its row groups, from every value in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from geolake_nb.core.bounds import column_stats
from geolake_nb.core.statistics import ColumnStats, Problem, merge
from geolake_nb.errors import GeolakeError
from geolake_nb.formats.data_files import leaf_values
from geolake_nb.formats.footer_boxes import locate
from geolake_nb.formats.storage_ranges import open_ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.parquet as pq

    from geolake_nb.core.types import GeographyType, GeometryType
    from geolake_nb.formats.footer_view import FileView, FooterReader
    from geolake_nb.formats.storage import Storage

__all__ = ["ScanColumn", "scan_part"]

_BATCH_ROWS = 131_072


@dataclass(frozen=True, slots=True)
class ScanColumn:
    """A geo column of a table as data files have it."""

    path: str
    """Its logical path."""
    physical: tuple[str, ...]
    field_id: int | None
    type: GeometryType | GeographyType


def scan_part(
    storage: Storage,
    key: str,
    columns: Sequence[ScanColumn],
    *,
    part: int = 0,
    parts: int = 1,
    reader: FooterReader,
) -> list[ColumnStats]:
    """The statistics of each column in one of `parts` equal runs of row groups; only these columns are read.

    What stands in the way of a bound is told in the statistics and never raised: a value that cannot be read, a
    column that is not found. A file that cannot be read raises.
    """
    import pyarrow.parquet as pq

    # Plain binary will do: building an extension type for a CRS such as srid:5070 fails in geoarrow.
    with pq.ParquetFile(open_ranges(storage, key), arrow_extensions_enabled=False, pre_buffer=True) as file:
        view = reader.view(file.metadata, where=f"{storage.location}/{key}")
        count = file.metadata.num_row_groups
        groups = list(range(part * count // parts, (part + 1) * count // parts))
        return [_column(file, view, column, groups) for column in columns]


def _column(file: pq.ParquetFile, view: FileView, column: ScanColumn, groups: list[int]) -> ColumnStats:
    rows = sum(file.metadata.row_group(group).num_rows for group in groups)
    found = view.find(column.physical, field_id=column.field_id)
    here = locate(view, found, column.type)
    if here is None or here.leaf is None:
        if found is None and view.lacks(column.physical, field_id=column.field_id):
            return ColumnStats(None, (), rows, null_count=rows, empty_count=0)
        return _unbounded(rows, "the column is not found in the file")
    name = file.metadata.schema.column(here.leaf).path
    if not groups:
        return merge([])
    batches = file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=[name], use_threads=False)
    try:
        return merge((_values(batch, here.type) for batch in batches), type=here.type)
    except GeolakeError as problem:
        return _unbounded(rows, problem.what)


def _values(batch: pa.RecordBatch, type_: GeometryType | GeographyType) -> ColumnStats:
    return column_stats(leaf_values(pa.chunked_array([batch.column(0)])), type=type_)


def _unbounded(rows: int, reason: str) -> ColumnStats:
    """Of a column of which nothing is known."""
    return ColumnStats(None, None, rows, 0, 0, unbounded=rows, first_unbounded=Problem(None, reason))
