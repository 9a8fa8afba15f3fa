"""The geo type and the CRS that every file declares for a column, as one Arrow table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from geolake_nb.model.schema import split_path
from geolake_nb.model.table_format import FileField
from geolake_nb.model.types import DataType, GeographyType, GeometryType
from geolake_nb.parquet.repeated_types import repeated_types
from geolake_nb.parquet.schema import PATH_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from geolake_nb.model.crs import Crs
    from geolake_nb.model.schema import Schema
    from geolake_nb.parquet.footer_view import FileView

__all__ = ["FOOTER_FACTS", "footer_facts"]

FOOTER_FACTS = pa.schema(
    [
        (name, pa.string())
        for name in (
            "path",
            "column",
            "logical_type",
            "crs",
            "algorithm",
            "geoparquet_crs",
            "created_by",
            "repeated_types",
        )
    ]
)
"""A row for each file and geo column of the table.

`logical_type` is `GEOMETRY`, `GEOGRAPHY` or null; `crs` and `algorithm` are those of that type. `geoparquet_crs` is
null without GeoParquet metadata, and `SRID:0` where it declares that the CRS is unknown. `repeated_types` has the type
codes that the statistics of a row group list more than once, null where there are none.
"""


def footer_facts(
    files: Iterable[tuple[str, FileView]], schema: Schema, fields: Mapping[str, FileField] | None = None
) -> pa.Table:
    """The types of the geo columns of a table in the footers of these files; a file without the column has no row.

    The path of each file is as stored in the table, so that it can be found in the file table; `fields` specify how the
    files name the columns, by path; without it, by their names.

    >>> from geolake_nb.model.schema import Schema
    >>> footer_facts([], Schema()).num_rows
    0
    """
    wanted = [
        (path, FileField(split_path(path)) if fields is None else fields[path])
        for path, field in schema.geo_columns()
        if isinstance(field.type, (GeometryType, GeographyType))
    ]
    leaves: dict[int, dict[str, DataType]] = {}
    rows: list[tuple[str | None, ...]] = []
    for file, view in files:
        stored = view.parquet_schema
        if id(stored) not in leaves:
            leaves[id(stored)] = {
                field.metadata[PATH_KEY]: field.type for _, field in stored.walk_parts() if PATH_KEY in field.metadata
            }
        repeated = repeated_types(view.metadata)
        for path, here in wanted:
            file_column = view.find(here.parts, field_id=here.id)
            if file_column is None:
                continue
            native = leaves[id(stored)].get(file_column.metadata.get(PATH_KEY, ""))
            geo = view.geo_of(file_column)
            crs = None if geo is None else _text(geo.crs)
            twice = repeated.get(file_column.metadata.get(PATH_KEY, ""), ())
            codes = ", ".join(map(str, twice)) or None
            rows.append((file, path, *_native(native), crs, view.metadata.created_by, codes))
    columns = list(zip(*rows, strict=True)) or [()] * len(FOOTER_FACTS)
    return pa.Table.from_arrays([pa.array(column, pa.string()) for column in columns], schema=FOOTER_FACTS)


def _native(type_: DataType | None) -> tuple[str | None, str | None, str | None]:
    if isinstance(type_, GeometryType):
        return "GEOMETRY", _text(type_.crs), None
    if isinstance(type_, GeographyType):
        return "GEOGRAPHY", _text(type_.crs), type_.algorithm.value
    return None, None, None


def _text(crs: Crs) -> str:
    # A reference to a property of the file is meaningless outside of it.
    return crs.text if crs.resolved is None else crs.resolved
