"""Which type a column of Parquet, Arrow or Spark becomes in a table, and the name of its CRS that readers know."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from geolake_nb.errors import CrsError, SchemaError
from geolake_nb.model.crs import CRS84, UNKNOWN_CRS, Crs, CrsForm
from geolake_nb.model.schema import Schema, join_path, type_name
from geolake_nb.model.types import (
    DataType,
    Field,
    GeographyType,
    GeometryEncoding,
    GeometryType,
    ListType,
    MapType,
    PrimitiveType,
    RasterType,
    StringType,
    StructType,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["known_crs", "known_geo_type", "table_columns", "with_types"]

_Path = tuple[str, ...]

_DECIMAL = re.compile(r"decimal\((\d+), (-?\d+)\)")
_FIXED = re.compile(r"fixed\(\d+\)")
_NOT_IN_PROPERTIES = re.compile(r"[^A-Za-z0-9_.-]")


def table_columns(
    schema: Schema,
    *,
    format_name: str,
    same: Collection[str],
    wider: Mapping[str, DataType],
    where: str | None = None,
) -> tuple[Schema, list[str]]:
    """The columns with types that a format has, and a sentence for each that changes; other types are refused.

    `same` are the types of the format, `wider` those that hold others without loss. Every column is nullable.
    """
    columns = _Columns(format_name, same, wider, where)
    fields = tuple([columns.column(field, ()) for field in schema.fields])
    return Schema(StructType(fields)), columns.notes


def known_geo_type(
    type_: GeometryType | GeographyType, column: str, properties: dict[str, str], *, where: str | None = None
) -> GeometryType | GeographyType:
    """The type as a table's schema can declare it; a CRS without a code is added to `properties`.

    >>> properties = {}
    >>> known_geo_type(GeometryType(Crs("srid:3857")), "g", properties).crs.text, properties
    ('EPSG:3857', {})
    >>> known_geo_type(GeographyType(Crs("EPSG:3857")), "g", {})
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: g: a geography needs longitudes and latitudes, but EPSG:3857 is a projection; ...
    """
    shown = column if where is None else f"{where}, column {column}"
    if isinstance(type_, GeographyType) and type_.crs.is_projected:
        name = type_.crs.name if len(type_.crs.text) > 60 else type_.crs.text
        what = f"a geography needs longitudes and latitudes, but {name} is a projection"
        raise SchemaError(what, where=shown, remedy="make it a geometry")
    try:
        crs = known_crs(type_.crs, column, properties)
    except CrsError as problem:
        raise SchemaError(problem.what, where=shown, remedy=problem.remedy) from problem
    return replace(type_, crs=crs, encoding=GeometryEncoding.WKB)


def known_crs(crs: Crs, column: str, properties: dict[str, str]) -> Crs:
    """The CRS by the name that most readers know.

    Longitude and latitude on WGS 84 are `OGC:CRS84` whatever they came as: coordinates are x, y in any case, and
    PySpark knows no other name. SRIDs are EPSG codes where they exist. A definition without a code becomes
    a property. What cannot be resolved stays as it is, and so does a reference to one of the table's own properties.

    >>> known_crs(Crs("epsg:4326"), "g", {}), known_crs(Crs("SRID:0"), "g", {})
    (Crs('OGC:CRS84'), Crs('SRID:0'))
    >>> known_crs(Crs("srid:3857"), "g", {}), known_crs(Crs("srid:999999"), "g", {}), known_crs(Crs("grid 7"), "g", {})
    (Crs('EPSG:3857'), Crs('srid:999999'), Crs('grid 7'))
    """
    if crs == CRS84:
        return CRS84
    if crs.is_unknown:
        return UNKNOWN_CRS
    if crs.form is CrsForm.OTHER:
        return crs
    if crs.resolved is not None and properties.get(crs.property_name or "") == crs.resolved:
        return crs
    if crs.code is not None:
        return Crs(crs.code) if crs.is_resolvable else crs
    system = crs.to_pyproj()
    code = system.to_authority(min_confidence=100)
    if code is not None:
        return known_crs(Crs(":".join(code)), column, properties)
    if CRS84.same_as(crs):
        return CRS84
    definition = json.dumps(crs.to_projjson(), separators=(",", ":"))
    name = crs.property_name or f"geolake.crs.{_NOT_IN_PROPERTIES.sub('_', column)}"
    while properties.get(name, definition) != definition:
        name += "_"
    properties[name] = definition
    return Crs(f"projjson:{name}", definition)


class _Columns:
    """Converts columns to the types of a format, with a note for each that changes."""

    def __init__(
        self, format_name: str, same: Collection[str], wider: Mapping[str, DataType], where: str | None
    ) -> None:
        self.notes: list[str] = []
        self._format, self._same, self._wider, self._where = format_name, same, wider, where

    def column(self, field: Field, above: _Path) -> Field:
        path = (*above, field.name)
        return Field(field.name, self._type(field.type, path), doc=field.doc)

    def _type(self, type_: DataType, path: _Path) -> DataType:
        def inner(field: Field) -> Field:
            return self.column(field, path)

        shown, where = join_path(path), self._where
        if isinstance(type_, StructType):
            if not type_.fields:
                what = f"the column {shown!r} is a struct without fields"
                raise SchemaError(what, where=where, remedy="leave it out")
            return StructType(tuple([inner(field) for field in type_.fields]))
        if isinstance(type_, ListType):
            return ListType(inner(type_.element))
        if isinstance(type_, MapType):
            return MapType(replace(inner(type_.key), nullable=False), inner(type_.value))
        if isinstance(type_, (GeometryType, GeographyType, RasterType)):
            return type_
        if isinstance(type_, StringType):
            if type_.collation is not None:
                raise SchemaError(
                    f"the column {shown!r} has the collation {type_.collation}",
                    where=where,
                    remedy="write it as a plain string, then set the collation of the table's column",
                )
            return type_
        if isinstance(type_, PrimitiveType):
            if type_.name in self._same or ((match := _DECIMAL.fullmatch(type_.name)) and _is_decimal(match)):
                return type_
            wider = PrimitiveType("binary") if _FIXED.fullmatch(type_.name) else self._wider.get(type_.name)
            if wider is not None:
                what = f"{shown!r} is {type_.name}, which {self._format} does not have"
                self.notes.append(f"{what}, and becomes {type_name(wider)}")
                return wider
        raise SchemaError(
            f"the column {shown!r} is of type {type_name(type_)}, which {self._format} does not have",
            where=where,
            remedy="cast it or leave it out",
        )


def _is_decimal(match: re.Match[str]) -> bool:
    precision, scale = int(match[1]), int(match[2])
    return precision <= 38 and 0 <= scale <= precision


def with_types(schema: Schema, types: Mapping[_Path, DataType]) -> Schema:
    """The schema with other types at these paths.

    >>> schema = Schema(StructType((Field("g", PrimitiveType("binary")),)))
    >>> print(with_types(schema, {("g",): GeometryType()}))
    g: geometry(OGC:CRS84)
    >>> with_types(schema, {}) == schema
    True
    """

    def change(field: Field, above: _Path) -> Field:
        path = (*above, field.name)
        return replace(field, type=types[path] if path in types else inside(field.type, path))

    def inside(type_: DataType, path: _Path) -> DataType:
        if isinstance(type_, StructType):
            return StructType(tuple([change(field, path) for field in type_.fields]))
        if isinstance(type_, ListType):
            return ListType(change(type_.element, path))
        if isinstance(type_, MapType):
            return MapType(change(type_.key, path), change(type_.value, path))
        return type_

    return replace(schema, root=StructType(tuple([change(field, ()) for field in schema.fields])))
