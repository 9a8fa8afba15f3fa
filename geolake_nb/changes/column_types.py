"""Which types the columns of new rows get, how geometries in them are read, and whether they fit a table."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from geolake_nb.changes.write_job import GeoInput
from geolake_nb.errors import CrsError, RefusedError, SchemaError
from geolake_nb.model.crs import CRS84, UNKNOWN_CRS, Crs, CrsForm
from geolake_nb.model.schema import Schema, children, join_path, split_path, type_name
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
    from collections.abc import Collection, Iterator, Mapping

    from geolake_nb.model.types import GeoType

__all__ = [
    "GeoColumns",
    "column_option",
    "geo_encoding",
    "geo_sentences",
    "known_crs",
    "known_geo_type",
    "lenient",
    "match_rows",
    "require_same",
    "table_columns",
    "take_geo_columns",
    "through_structs",
    "with_types",
]

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


_READ_AS = {
    GeometryEncoding.EWKB: "EWKB",
    GeometryEncoding.GEOARROW: "coordinates",
    GeometryEncoding.GEOJSON: "GeoJSON",
    GeometryEncoding.WKB: "WKB or EWKB",
    GeometryEncoding.WKT: "WKT",
}


@dataclass(frozen=True, slots=True, eq=False)
class GeoColumns:
    """The geo columns of rows to write."""

    schema: Schema
    """All columns, with geo types that Delta supports."""
    inputs: Mapping[str, GeoInput]
    """How each is read, by path; those in lists and maps are WKB and are written as they are."""
    properties: Mapping[str, str]
    """Of the table, with the CRSs that have no code."""

    @property
    def paths(self) -> list[tuple[str, ...]]:
        """The paths of those with statistics."""
        return [split_path(path) for path in self.inputs]


def take_geo_columns(
    schema: Schema,
    given_types: Mapping[str, GeoType],
    properties: Mapping[str, str],
    *,
    where: str,
    keeps_crs: Collection[tuple[str, ...]] = (),
) -> GeoColumns:
    """The geo columns of a schema and those of `given_types`, which take precedence.

    Columns in `keeps_crs` keep the text of their CRS; others get the name that most readers know.

    >>> from geolake_nb.model.types import Field
    >>> plain = Schema(StructType((Field("g", PrimitiveType("binary")),)))
    >>> print(take_geo_columns(plain, {"g": GeometryType()}, {}, where="/t").schema)
    g: geometry(OGC:CRS84)
    >>> take_geo_columns(plain, {}, {}, where="/t").inputs
    {}
    """
    wanted = {_spelled(schema, name, where): type_ for name, type_ in given_types.items()}
    table_properties = dict(properties)
    types: dict[tuple[str, ...], DataType] = {}
    inputs: dict[str, GeoInput] = {}
    for path, field in schema.walk_parts():
        name = join_path(path)
        if isinstance(field.type, RasterType):
            raise SchemaError("Delta has no raster type", where=f"{where}, column {name}")
        own_type = field.type if isinstance(field.type, (GeometryType, GeographyType)) else None
        type_ = wanted.get(path, own_type)
        if type_ is None:
            continue
        encoding = (
            geo_encoding(type_, field.type, where=f"{where}, column {name}") if own_type is None else own_type.encoding
        )
        if own_type is not None and path in keeps_crs:
            made = replace(own_type, encoding=GeometryEncoding.WKB)
        else:
            made = known_geo_type(type_, name, table_properties, where=where)
        types[path] = made
        if through_structs(schema, path):
            inputs[name] = GeoInput(made, encoding)
    return GeoColumns(with_types(schema, types), inputs, table_properties)


def geo_encoding(type_: GeoType, stored: DataType, *, where: str) -> GeometryEncoding:
    """How the values of a new geo column are read: bytes are WKB or EWKB, text is WKT.

    >>> geo_encoding(GeometryType(), StringType(), where="g")
    <GeometryEncoding.WKT: 'wkt'>
    >>> geo_encoding(GeometryType(), PrimitiveType("int32"), where="g")
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: g: a column of type int32 cannot hold geometries; use one of: binary (WKB, EWKB), ...
    """
    if type_.encoding is GeometryEncoding.GEOJSON:
        raise SchemaError("GeoJSON is not supported", where=where, remedy="convert the values to WKB or WKT")
    if isinstance(stored, StringType):
        return GeometryEncoding.WKT
    if stored == PrimitiveType("binary") and type_.encoding is not GeometryEncoding.WKT:
        return GeometryEncoding.WKB
    raise SchemaError(
        f"a column of type {type_name(stored)} cannot hold geometries",
        where=where,
        remedy="use one of: binary (WKB, EWKB), string (WKT)",
    )


def column_option(name: str) -> str:
    """How a user declares the type of a column, in a shell and in Python.

    >>> column_option("geom")
    "--column 'geom=geometry(OGC:CRS84)', in Python columns={'geom': 'geometry(OGC:CRS84)'}"
    """
    return f"--column '{name}=geometry(OGC:CRS84)', in Python columns={{{name!r}: 'geometry(OGC:CRS84)'}}"


def lenient(inputs: Mapping[str, GeoInput]) -> dict[str, GeoInput]:
    """The same, but unreadable bytes are written as they are: their file then has no bounds.

    >>> lenient({"g": GeoInput(GeometryType(), GeometryEncoding.WKB)})["g"].keeps_bad
    True
    """
    return {
        path: replace(geo_input, keeps_bad=True) if geo_input.encoding is GeometryEncoding.WKB else geo_input
        for path, geo_input in inputs.items()
    }


def geo_sentences(inputs: Mapping[str, GeoInput]) -> Iterator[str]:
    """A sentence about each column, for a plan.

    >>> list(geo_sentences({"g": GeoInput(GeometryType(), GeometryEncoding.WKT)}))
    ["The column 'g' is read as WKT and becomes a geometry(OGC:CRS84)."]
    """
    for path, input_ in inputs.items():
        yield f"The column {path!r} is read as {_READ_AS[input_.encoding]} and becomes a {type_name(input_.type)}."
        if input_.type.crs.form is CrsForm.OTHER:
            yield f"The CRS of {path!r} cannot be resolved; its text is written as it is."


def through_structs(schema: Schema, path: tuple[str, ...]) -> bool:
    """Whether a path leads through structs alone, so that there is one value per row.

    >>> through_structs(Schema(), ("a",))
    True
    """
    above = (schema.find(join_path(path[:depth])) for depth in range(1, len(path)))
    return all(isinstance(field.type, StructType) for field in above)


def _spelled(schema: Schema, name: str, where: str) -> tuple[str, ...]:
    """The path as the schema spells it."""
    parts = split_path(name)
    spelled = tuple(schema.find(join_path(parts[: depth + 1])).name for depth in range(len(parts)))
    if not through_structs(schema, spelled):
        what = "it is inside a list or a map, and only columns in structs are supported"
        raise RefusedError(what, where=f"{where}, column {name}")
    return spelled


_NOTHING = PrimitiveType("unknown")
_UNKNOWN = "set the CRS of the rows, or declare it with columns="


def match_rows(given: Schema, table: Schema, *, where: str) -> dict[str, GeoInput]:
    """How the geo columns of new rows are read; raises where the rows do not fit the table.

    Names may come in any order and case, types have to be the same. A nullable column may be missing, a field of a
    struct may not.

    >>> table = Schema(StructType((Field("id", PrimitiveType("int32")), Field("g", GeometryType()))))
    >>> match_rows(Schema(StructType((Field("G", StringType()),))), table, where="/t")
    {'g': GeoInput(type=GeometryType(crs=Crs('OGC:CRS84'), ...), encoding=<GeometryEncoding.WKT: 'wkt'>, ...)}
    >>> match_rows(Schema(StructType((Field("id", StringType()),))), table, where="/t")
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: /t, column id: the rows have string, and the table has int32; cast it
    """
    inputs: dict[str, GeoInput] = {}
    _match_fields(given.fields, table.fields, (), inputs, where)
    return inputs


def _match_fields(
    given: tuple[Field, ...], table: tuple[Field, ...], above: tuple[str, ...], inputs: dict[str, GeoInput], where: str
) -> None:
    known = {field.name.casefold(): field for field in table}
    here = {field.name.casefold(): field for field in given}
    for name, given_field in here.items():
        if name not in known:
            names = ", ".join(sorted(join_path((*above, field.name)) for field in table))
            what = f"the table has no column {join_path((*above, given_field.name))!r}"
            raise SchemaError(what, where=where, remedy=f"use one of: {names}")
    if len(here) < len(given):
        raise SchemaError("two columns of the rows have the same name", where=where, remedy="rename one")
    for field in table:
        path = (*above, field.name)
        row_field = here.get(field.name.casefold())
        there = f"{where}, column {join_path(path)}"
        if above and (row_field is None or row_field.name != field.name):
            raise SchemaError("the rows do not have this field of a struct", where=there)
        if row_field is None or row_field.type == _NOTHING:
            if not field.nullable:
                raise SchemaError("the column is required, and the rows do not have it", where=there)
            continue
        _match_types(row_field.type, field.type, path, inputs, where, in_structs=True)


def _match_types(
    given: DataType,
    table: DataType,
    path: tuple[str, ...],
    inputs: dict[str, GeoInput],
    where: str,
    *,
    in_structs: bool,
) -> None:
    there = f"{where}, column {join_path(path)}"
    if isinstance(table, (GeometryType, GeographyType)):
        _match_geo(given, table, path, inputs, where, in_structs=in_structs)
    elif isinstance(table, StructType) and isinstance(given, StructType):
        if in_structs:
            _match_fields(given.fields, table.fields, path, inputs, where)
        elif [field.name for field in given.fields] != [field.name for field in table.fields]:
            raise SchemaError("the fields of the structs in it are not those of the table", where=there)
        else:
            _match_inside(given, table, path, inputs, where)
    elif isinstance(table, (ListType, MapType)) and type(given) is type(table):
        _match_inside(given, table, path, inputs, where)
    elif isinstance(table, StringType) and isinstance(given, StringType):
        return  # collated or not, the values are the same
    elif given != table or isinstance(table, (StructType, ListType, MapType)):
        what = f"the rows have {type_name(given)}, and the table has {type_name(table)}"
        raise SchemaError(what, where=there, remedy="cast it")


def _match_inside(
    given: DataType, table: DataType, path: tuple[str, ...], inputs: dict[str, GeoInput], where: str
) -> None:
    for given_child, table_child in zip(children(given), children(table), strict=True):
        _match_types(given_child.type, table_child.type, (*path, table_child.name), inputs, where, in_structs=False)


def _match_geo(
    given: DataType, table: GeoType, path: tuple[str, ...], inputs: dict[str, GeoInput], where: str, *, in_structs: bool
) -> None:
    there = f"{where}, column {join_path(path)}"
    if not in_structs:
        if given != PrimitiveType("binary"):
            raise SchemaError("in lists and maps only WKB bytes are accepted", where=there, remedy="convert the values")
        return
    if isinstance(given, (GeometryType, GeographyType)):
        if not _same_geo(given, table):
            what = f"the rows have {type_name(given)}, and the table has {type_name(table)}"
            raise SchemaError(what, where=there, remedy=_UNKNOWN if given.crs.is_unknown else None)
        inputs[join_path(path)] = GeoInput(table, given.encoding)
        return
    inputs[join_path(path)] = GeoInput(table, geo_encoding(table, given, where=there))


def require_same(schema: Schema, columns: Mapping[str, GeoType], where: str) -> None:
    """Raise if the geo types that a user declares are not those of the table."""
    for name, type_ in columns.items():
        stored = schema.find(name).type
        if not isinstance(stored, (GeometryType, GeographyType)) or not _same_geo(stored, type_):
            raise SchemaError(
                f"the table has {type_name(stored)}, not {type_name(type_)}",
                where=f"{where}, column {join_path(split_path(name))}",
                remedy="leave it out of columns=: the table declares its type",
            )


def _same_geo(left: GeoType, right: GeoType) -> bool:
    edges = [getattr(type_, "algorithm", None) for type_ in (left, right)]
    return type(left) is type(right) and edges[0] is edges[1] and left.crs.same_as(right.crs)
