"""What a user says of geo columns, as types: a text says as much as a type does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from geolake_nb.core.type_text import geo_type
from geolake_nb.errors import SchemaError

if TYPE_CHECKING:
    from geolake_nb.core.types import GeographyType, GeometryType

__all__ = ["SaidTypes", "said_types"]

SaidTypes: TypeAlias = "Mapping[str, GeometryType | GeographyType | str]"
"""The types of columns by name, as values or as Delta writes them, such as `geometry(OGC:CRS84)`."""


def said_types(columns: Any) -> dict[str, GeometryType | GeographyType]:
    """The types of columns by name.

    >>> said_types({"geom": "geometry(EPSG:3857)"})["geom"].crs
    Crs('EPSG:3857')
    >>> said_types(None)
    {}
    >>> said_types(["geom"])
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: columns= is a list and says no types; write {'geom': 'geometry(OGC:CRS84)'}
    """
    if columns is None:
        return {}
    if not isinstance(columns, Mapping):
        what = f"columns= is a {type(columns).__name__} and says no types"
        raise SchemaError(what, remedy="write {'geom': 'geometry(OGC:CRS84)'}")
    return {str(name): geo_type(said, where=f"column {name}") for name, said in columns.items()}
