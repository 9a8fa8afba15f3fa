"""The row groups of a table's data files, of any format, as one Arrow table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from geolake_nb.model.file_table import FileTable
from geolake_nb.model.schema import split_path
from geolake_nb.model.table_format import FileField
from geolake_nb.model.types import GeographyType, GeometryType
from geolake_nb.parquet.footer import read_metadata
from geolake_nb.parquet.footer_boxes import evidence_columns, locate, without_column
from geolake_nb.parquet.footer_view import FooterReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow.parquet as pq

    from geolake_nb.model.schema import Schema
    from geolake_nb.parquet.footer_boxes import GeoEvidence
    from geolake_nb.storage.storage import Storage

__all__ = ["row_groups"]


def row_groups(
    storage: Storage,
    paths: Sequence[str],
    schema: Schema,
    *,
    columns: Sequence[str] | None = None,
    fields: Mapping[str, FileField] | None = None,
    footers: Iterable[pq.FileMetaData] | None = None,
    workers: int = 64,
    on_progress: Callable[[int, int], None] | None = None,
) -> pa.Table:
    """`path, row_group, rows, bytes`, then `c.xmin … c.mmax, c.null_count, c.types, c.source, c.problem` by geo column.

    `paths` are storage keys, `schema` is the table's, and `fields` specify how the files name its geo columns,
    by path; without it, by their names. `bytes` is the compressed size. `columns` are
    paths of geo columns, all of them by default; `footers` are those of the files, if they were already read.

    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.storage.storage import Storage
    >>> row_groups(Storage.at("/tmp"), [], Schema()).column_names
    ['path', 'row_group', 'rows', 'bytes']
    """
    wanted = _geo_columns(schema, fields, columns)
    reader = FooterReader()
    evidence: dict[str, list[GeoEvidence]] = {path: [] for path in wanted}
    of_file: list[int] = []
    group_index: list[int] = []
    rows: list[int] = []
    sizes: list[int] = []
    if footers is None:
        footers = read_metadata(storage, paths, workers=workers, on_progress=on_progress)
    for file, (path, footer) in enumerate(zip(paths, footers, strict=True)):
        count = footer.num_row_groups
        view = reader.view(footer, where=f"{storage.location}/{path}")
        groups = [footer.row_group(index) for index in range(count)]
        of_file += [file] * count
        group_index += range(count)
        rows += [group.num_rows for group in groups]
        sizes += [
            sum(group.column(index).total_compressed_size for index in range(group.num_columns)) for group in groups
        ]
        for name, (column, type_) in wanted.items():
            here = locate(view, view.find(column.parts, field_id=column.id), type_)
            if here is not None:
                evidence[name] += [here.group(index) for index in range(count)]
            else:
                lacks = view.lacks(column.parts, field_id=column.id)
                evidence[name] += [without_column(group.num_rows, lacks=lacks) for group in groups]
    table = FileTable.of(
        path=pa.array(paths, pa.string()).take(pa.array(np.array(of_file, np.int64))),
        bytes=pa.array(sizes, pa.int64()),
        rows=pa.array(rows, pa.int64()),
        geo={name: evidence_columns(per_group) for name, per_group in evidence.items()},
    ).table
    table = table.add_column(1, "row_group", pa.array(group_index, pa.int32())).drop_columns(["deleted_rows"])
    order = ["path", "row_group", "rows", "bytes"]
    return table.select([*order, *[name for name in table.column_names if name not in order]])


def _geo_columns(
    schema: Schema, fields: Mapping[str, FileField] | None, columns: Sequence[str] | None
) -> dict[str, tuple[FileField, GeometryType | GeographyType]]:
    located: dict[str, tuple[FileField, GeometryType | GeographyType]] = {}
    for path, field in schema.geo_columns():
        if isinstance(field.type, (GeometryType, GeographyType)) and (columns is None or path in columns):
            located[path] = FileField(split_path(path)) if fields is None else fields[path], field.type
    return located
