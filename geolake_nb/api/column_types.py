"""Types of geo columns that a user declares, as type objects or as strings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from geolake_nb.errors import SchemaError
from geolake_nb.model.type_text import geo_type

if TYPE_CHECKING:
    from geolake_nb.model.types import GeographyType, GeometryType

__all__ = ["ColumnTypesInput", "parse_column_types"]

ColumnTypesInput: TypeAlias = "Mapping[str, GeometryType | GeographyType | str]"
"""The types of columns by name, as values or as Delta writes them, such as `geometry(OGC:CRS84)`."""


def parse_column_types(
    columns: Any, properties: Mapping[str, str] | None = None
) -> dict[str, GeometryType | GeographyType]:
    """The types of columns by name; `projjson:<property>` is looked up in `properties`.

    >>> parse_column_types({"geom": "geometry(EPSG:3857)"})["geom"].crs
    Crs('EPSG:3857')
    >>> parse_column_types(None)
    {}
    >>> parse_column_types(["geom"])
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: expected columns= to map names to types, got a list; ...
    """
    if columns is None:
        return {}
    if not isinstance(columns, Mapping):
        what = f"expected columns= to map names to types, got a {type(columns).__name__}"
        raise SchemaError(what, remedy="write {'geom': 'geometry(OGC:CRS84)'}")
    return {
        str(name): geo_type(type_, properties=properties, where=f"column {name}") for name, type_ in columns.items()
    }
