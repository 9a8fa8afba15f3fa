"""Which Delta type a column of Parquet, Arrow or Spark becomes, and under which name Delta knows its CRS."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from geolake_nb.core.crs import CRS84, UNKNOWN_CRS, Crs, CrsForm
from geolake_nb.core.schema import Schema, children, join_path, type_name
from geolake_nb.core.types import (
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
from geolake_nb.errors import CrsError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = [
    "crs_for_delta",
    "delta_columns",
    "geo_type_for_delta",
    "require_delta_names",
    "table_columns",
    "with_types",
]

_Path = tuple[str, ...]

# Types that Delta lacks and others of it hold without loss.
_WIDER: dict[str, DataType] = {
    "bson": PrimitiveType("binary"),
    "enum": StringType(),
    "float16": PrimitiveType("float32"),
    "json": StringType(),
    "timestamp_int96": PrimitiveType("timestamptz"),
    "timestamp_ms": PrimitiveType("timestamp"),
    "timestamp_ns": PrimitiveType("timestamp"),
    "timestamptz_ms": PrimitiveType("timestamptz"),
    "timestamptz_ns": PrimitiveType("timestamptz"),
    "uint16": PrimitiveType("int32"),
    "uint32": PrimitiveType("int64"),
    "uint8": PrimitiveType("int16"),
    "uuid": PrimitiveType("binary"),
}
_SAME = frozenset(
    ("binary", "boolean", "date", "float32", "float64", "int16", "int32", "int64", "int8", "timestamp", "timestamptz")
)
_DECIMAL = re.compile(r"decimal\((\d+), (-?\d+)\)")
_FIXED = re.compile(r"fixed\(\d+\)")
# Delta, Column mapping: without it the names of columns are those in Parquet, where Spark refuses these.
_FORBIDDEN = " ,;{}()\n\t="
_NOT_IN_NAMES = re.compile(f"[{_FORBIDDEN}]")
_NOT_IN_PROPERTIES = re.compile(r"[^A-Za-z0-9_.-]")


def delta_columns(schema: Schema, *, where: str | None = None) -> tuple[Schema, list[str]]:
    """The columns with types that Delta has, and a sentence for each that changes; a type that has none is refused.

    Everything may be null, as in every table that Spark makes of rows. Geo types are left alone.

    >>> schema = Schema(StructType((Field("n", PrimitiveType("uint8"), nullable=False, id=3),)))
    >>> delta_columns(schema)
    (Schema(root=StructType(fields=(Field(name='n', type=PrimitiveType(name='int16'), ...), ["'n' is uint8, ... int16"])
    >>> delta_columns(Schema(StructType((Field("n", PrimitiveType("uint64")),))), where="/t")
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: /t: the column 'n' is of type uint64, which Delta does not have; cast it or leave ...
    """
    return table_columns(schema, format_name="Delta", same=_SAME, wider=_WIDER, where=where)


def table_columns(
    schema: Schema,
    *,
    format_name: str,
    same: Collection[str],
    wider: Mapping[str, DataType],
    where: str | None = None,
) -> tuple[Schema, list[str]]:
    """The same for any format: `same` are the types that it has, `wider` what holds others of them without loss."""
    columns = _Columns(format_name, same, wider, where)
    fields = tuple([columns.column(one, ()) for one in schema.fields])
    return Schema(StructType(fields)), columns.told


def require_delta_names(schema: Schema, *, where: str | None = None) -> None:
    """Raise for a name that a table without column mapping cannot have, and for two that differ in case alone.

    >>> require_delta_names(Schema(StructType((Field("a b", StringType()),))))
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: the name of the column 'a b' has a character of ' ,;{}()\\n\\t='; rename it
    """
    level: list[tuple[_Path, tuple[Field, ...]]] = [((), schema.fields)]
    while level:
        above, fields = level.pop()
        seen: set[str] = set()
        for one in fields:
            path = (*above, one.name)
            if not one.name or _NOT_IN_NAMES.search(one.name):
                what = f"the name of the column {join_path(path)!r} has a character of {_FORBIDDEN!r}"
                raise SchemaError(what if one.name else "a column has no name", where=where, remedy="rename it")
            if one.name.casefold() in seen:
                raise SchemaError(f"two columns have the name {join_path(path)!r}", where=where, remedy="rename one")
            seen.add(one.name.casefold())
            level.append((path, children(one.type)))


def geo_type_for_delta(
    type_: GeometryType | GeographyType, column: str, properties: dict[str, str], *, where: str | None = None
) -> GeometryType | GeographyType:
    """The type as a Delta schema can say it; a CRS that has no code is put into `properties`.

    >>> properties = {}
    >>> geo_type_for_delta(GeometryType(Crs("srid:3857")), "g", properties).crs.text, properties
    ('EPSG:3857', {})
    >>> geo_type_for_delta(GeographyType(Crs("EPSG:3857")), "g", {})
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: g: a geography has longitudes and latitudes, and EPSG:3857 is a projection; ...
    """
    shown = column if where is None else f"{where}, column {column}"
    if isinstance(type_, GeographyType) and type_.crs.is_projected:
        name = type_.crs.name if len(type_.crs.text) > 60 else type_.crs.text
        what = f"a geography has longitudes and latitudes, and {name} is a projection"
        raise SchemaError(what, where=shown, remedy="make it a geometry")
    try:
        crs = crs_for_delta(type_.crs, column, properties)
    except CrsError as problem:
        raise SchemaError(problem.what, where=shown, remedy=problem.remedy) from problem
    return replace(type_, crs=crs, encoding=GeometryEncoding.WKB)


def crs_for_delta(crs: Crs, column: str, properties: dict[str, str]) -> Crs:
    """The CRS by the name that most readers of Delta know.

    Longitude and latitude on WGS 84 are `OGC:CRS84` whatever they came as: coordinates are x, y in any case, and
    Python's Spark knows no other name. SRIDs are codes of EPSG. A definition without a code becomes a property.

    >>> crs_for_delta(Crs("epsg:4326"), "g", {}), crs_for_delta(Crs("SRID:0"), "g", {})
    (Crs('OGC:CRS84'), Crs('SRID:0'))
    """
    if crs == CRS84:
        return CRS84
    if crs.is_unknown:
        return UNKNOWN_CRS
    if crs.form is CrsForm.AUTHORITY:
        return Crs(crs.text.upper())
    if crs.form is CrsForm.SRID:
        return Crs(f"EPSG:{int(crs.text.split(':')[1])}")
    system = crs.to_pyproj()
    code = system.to_authority(min_confidence=100)
    if code is not None:
        return crs_for_delta(Crs(":".join(code)), column, properties)
    if CRS84.same_as(crs):
        return CRS84
    definition = json.dumps(crs.to_projjson(), separators=(",", ":"))
    name = crs.property_name or f"geolake.crs.{_NOT_IN_PROPERTIES.sub('_', column)}"
    while properties.get(name, definition) != definition:
        name += "_"
    properties[name] = definition
    return Crs(f"projjson:{name}", definition)


class _Columns:
    """Columns on their way to the types of a format, and what is told of those that change."""

    def __init__(
        self, format_name: str, same: Collection[str], wider: Mapping[str, DataType], where: str | None
    ) -> None:
        self.told: list[str] = []
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
            return StructType(tuple([inner(one) for one in type_.fields]))
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
                    remedy="write it as a plain string, and set the collation of the table's column then",
                )
            return type_
        if isinstance(type_, PrimitiveType):
            if type_.name in self._same or ((match := _DECIMAL.fullmatch(type_.name)) and _is_delta_decimal(match)):
                return type_
            wider = PrimitiveType("binary") if _FIXED.fullmatch(type_.name) else self._wider.get(type_.name)
            if wider is not None:
                what = f"{shown!r} is {type_.name}, which {self._format} does not have"
                self.told.append(f"{what}, and becomes {type_name(wider)}")
                return wider
        raise SchemaError(
            f"the column {shown!r} is of type {type_name(type_)}, which {self._format} does not have",
            where=where,
            remedy="cast it or leave it out",
        )


def _is_delta_decimal(match: re.Match[str]) -> bool:
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
            return StructType(tuple([change(one, path) for one in type_.fields]))
        if isinstance(type_, ListType):
            return ListType(change(type_.element, path))
        if isinstance(type_, MapType):
            return MapType(change(type_.key, path), change(type_.value, path))
        return type_

    return replace(schema, root=StructType(tuple([change(one, ()) for one in schema.fields])))
