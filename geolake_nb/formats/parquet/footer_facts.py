"""Which geo type and which CRS every file states for a column, as one Arrow table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from geolake_nb.core.schema import split_path
from geolake_nb.core.schema_parquet import PATH_KEY
from geolake_nb.core.types import DataType, GeographyType, GeometryType
from geolake_nb.formats.parquet.footer_view import FileField

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from geolake_nb.core.crs import Crs
    from geolake_nb.core.schema import Schema
    from geolake_nb.formats.parquet.footer_view import FileView

__all__ = ["FOOTER_FACTS", "footer_facts"]

FOOTER_FACTS = pa.schema(
    [
        (name, pa.string())
        for name in ("path", "column", "logical_type", "crs", "algorithm", "geoparquet_crs", "created_by")
    ]
)
"""A row for each file and geo column of the table.

`logical_type` is `GEOMETRY`, `GEOGRAPHY` or null; `crs` and `algorithm` are those of that type. `geoparquet_crs` is
null without GeoParquet metadata, and `SRID:0` where that says that the CRS is not known.
"""


def footer_facts(
    files: Iterable[tuple[str, FileView]], schema: Schema, fields: Mapping[str, FileField] | None = None
) -> pa.Table:
    """What the footers of these files say of the geo columns of a table; a file without the column has no row.

    The path of each file is as the table stores it, so that it can be found in the file table; `fields` say how the
    files call the columns by path; without it, by their names.

    >>> from geolake_nb.core.schema import Schema
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
        for path, here in wanted:
            found = view.find(here.parts, field_id=here.id)
            if found is None:
                continue
            native = leaves[id(stored)].get(found.metadata.get(PATH_KEY, ""))
            geo = view.geo_of(found)
            crs = None if geo is None else _text(geo.crs)
            rows.append((file, path, *_native(native), crs, view.metadata.created_by))
    columns = list(zip(*rows, strict=True)) or [()] * len(FOOTER_FACTS)
    return pa.Table.from_arrays([pa.array(column, pa.string()) for column in columns], schema=FOOTER_FACTS)


def _native(type_: DataType | None) -> tuple[str | None, str | None, str | None]:
    if isinstance(type_, GeometryType):
        return "GEOMETRY", _text(type_.crs), None
    if isinstance(type_, GeographyType):
        return "GEOGRAPHY", _text(type_.crs), type_.algorithm.value
    return None, None, None


def _text(crs: Crs) -> str:
    # A reference to a property of the file means nothing outside of it.
    return crs.text if crs.resolved is None else crs.resolved
