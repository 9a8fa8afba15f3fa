"""Which columns of rows become Havasu's geometries and rasters, in which encoding, and how their values are read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from geolake_nb.core.crs import UNKNOWN_CRS
from geolake_nb.core.geometry_storing import srid_of
from geolake_nb.core.raster_arrow import METADATA_FIELDS, RASTER_V1
from geolake_nb.core.schema import Schema, children, join_path, split_path, type_name
from geolake_nb.core.types import (
    DataType,
    Field,
    GeographyType,
    GeometryEncoding,
    GeometryType,
    PrimitiveType,
    RasterType,
    StringType,
    StructType,
)
from geolake_nb.errors import CrsError, SchemaError
from geolake_nb.formats.iceberg.live_rows import carried_type
from geolake_nb.planning.iceberg.columns import iceberg_columns, with_fresh_ids
from geolake_nb.planning.writing.column_types import with_types
from geolake_nb.planning.writing.geo_columns import through_structs
from geolake_nb.planning.writing.job import GeoInput
from geolake_nb.planning.writing.row_matching import match_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    GeoType = GeometryType | GeographyType | RasterType

__all__ = ["HavasuColumns", "fitting_inputs", "havasu_sentences", "new_columns"]

_Path = tuple[str, ...]
_BYTES = (GeometryEncoding.EWKB, GeometryEncoding.WKB)
_TEXTS = (GeometryEncoding.GEOJSON, GeometryEncoding.WKT)
_BINARY = PrimitiveType("binary")


@dataclass(frozen=True, slots=True, eq=False)
class HavasuColumns:
    """The columns of a table that is made of rows."""

    schema: Schema
    """With the types of Havasu, and an id for every field."""
    inputs: Mapping[str, GeoInput]
    """How those shapes are read that are not yet in the encoding of their column, by path."""
    told: tuple[str, ...] = ()
    """What becomes of columns whose types Iceberg lacks, one sentence each."""


def new_columns(given: Schema, asked: Mapping[str, GeoType], *, where: str) -> HavasuColumns:
    """The columns of a new table; `asked` says which hold shapes or rasters, and in which encoding.

    Columns that have a geo type of their own become EWKB, which keeps their CRS as an SRID; structs with the fields
    of a raster become rasters.

    >>> plain = Schema(StructType((Field("g", StringType()), Field("n", PrimitiveType("int8")))))
    >>> made = new_columns(plain, {"g": GeometryType(encoding=GeometryEncoding.WKT)}, where="/t")
    >>> print(made.schema)
    g: geometry(SRID:0, wkt), #1
    n: int32, #2
    >>> made.inputs, made.told
    ({}, ("'n' is int8, which Havasu does not have, and becomes int32",))
    """
    wanted = {_spelled(given, name): type_ for name, type_ in asked.items()}
    types: dict[_Path, DataType] = {}
    inputs: dict[str, GeoInput] = {}
    for path, field in _outside_rasters(given, wanted):
        held = field.type
        type_ = wanted.get(path, held)
        there = f"{where}, column {join_path(path)}"
        if isinstance(type_, RasterType) or _is_raster(held):
            _require_raster(held, there)
            types[path] = RasterType()
        elif isinstance(type_, (GeometryType, GeographyType)):
            encoding = type_.encoding if path in wanted else GeometryEncoding.EWKB
            types[path] = _stored_type(encoding, there)
            one = _input(type_, encoding, held, there)
            if one is not None:
                inputs[join_path(path)] = _through(given, path, one, there)
    schema, told = iceberg_columns(with_types(given, types), format_name="Havasu", where=where)
    return HavasuColumns(with_fresh_ids(schema), inputs, tuple(told))


def fitting_inputs(given: Schema, table: Schema, asked: Mapping[str, GeoType], *, where: str) -> dict[str, GeoInput]:
    """How the shapes of new rows are read for a table that is there; raises where the rows do not fit it.

    >>> table = Schema(StructType((Field("g", GeometryType(encoding=GeometryEncoding.EWKB)),)))
    >>> fitting_inputs(Schema(StructType((Field("g", PrimitiveType("binary")),))), table, {}, where="/t")
    {}
    >>> fitting_inputs(Schema(StructType((Field("g", PrimitiveType("int32")),))), table, {}, where="/t")
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: /t, column g: a column of type int32 holds no geometries; ...
    """
    known = {tuple(part.casefold() for part in path): field.type for path, field in table.walk_parts()}
    crs = {_spelled(given, name): type_ for name, type_ in asked.items()}
    types: dict[_Path, DataType] = {}
    inputs: dict[str, GeoInput] = {}
    for path, field in _outside_rasters(given, {}):
        there = f"{where}, column {join_path(path)}"
        type_ = known.get(tuple(part.casefold() for part in path))
        if isinstance(type_, RasterType):
            _require_raster(field.type, there)
            types[path] = carried_type(type_)
        elif isinstance(type_, GeometryType):
            wanted = crs.get(path, field.type)
            meant = wanted if isinstance(wanted, (GeometryType, GeographyType)) else type_
            one = _input(meant, type_.encoding, field.type, there)
            types[path] = carried_type(type_)
            if one is not None:
                inputs[_table_path(table, path)] = _through(given, path, one, there)
    schema, _ = iceberg_columns(with_types(given, types), format_name="Havasu", where=where)
    plain = {path: carried_type(field.type) for path, field in table.walk_parts() if _is_geo(field.type)}
    match_rows(schema, with_types(table, plain), where=where)
    return inputs


def havasu_sentences(schema: Schema, inputs: Mapping[str, GeoInput]) -> Iterator[str]:
    """What the geo columns of a new table are, for a plan.

    >>> list(havasu_sentences(Schema(StructType((Field("r", RasterType()),))), {}))
    ["The column 'r' holds rasters; its bounds are in WGS84."]
    """
    for path, field in schema.geo_columns():
        if isinstance(field.type, RasterType):
            yield f"The column {path!r} holds rasters; its bounds are in WGS84."
        elif isinstance(field.type, GeometryType):
            name = field.type.encoding.value.upper()
            made = " as it is" if path not in inputs else ""
            srid = None
            if path in inputs and field.type.encoding is GeometryEncoding.EWKB:
                srid = srid_of(inputs[path].type.crs)
            more = f" with the SRID {srid}" if srid is not None else ""
            yield f"The column {path!r} is stored as {name}{made}{more}."


def _input(
    asked: GeometryType | GeographyType, encoding: GeometryEncoding, held: DataType, where: str
) -> GeoInput | None:
    """How values are turned into the encoding, `None` where they are written as they are."""
    if isinstance(asked, GeographyType) or isinstance(held, GeographyType):
        raise SchemaError("Havasu has no geographies", where=where, remedy="make it a geometry")
    target = replace(asked, encoding=encoding)
    if isinstance(held, GeometryType):
        if held.encoding is encoding and encoding in _TEXTS:
            return None
        if held.encoding in _BYTES and encoding in _BYTES:
            return _with_srid(target) if encoding is GeometryEncoding.EWKB else None
        return GeoInput(target, GeometryEncoding.WKB if held.encoding in _BYTES else held.encoding)
    if held == _BINARY:
        if encoding in _BYTES:
            return None
        return GeoInput(target, GeometryEncoding.WKB)
    if isinstance(held, StringType):
        return None if encoding in _TEXTS else GeoInput(target, GeometryEncoding.WKT)
    raise SchemaError(
        f"a column of type {type_name(held)} holds no geometries",
        where=where,
        remedy="use one of: binary (WKB, EWKB), string (WKT, GeoJSON)",
    )


def _with_srid(target: GeometryType) -> GeoInput | None:
    try:
        known = srid_of(target.crs) is not None
    except CrsError:
        known = False
    return GeoInput(target, GeometryEncoding.WKB, keeps_own=True) if known else None


def _stored_type(encoding: GeometryEncoding, where: str) -> GeometryType:
    if encoding not in (*_BYTES, *_TEXTS):
        options = ", ".join(sorted(one.value for one in (*_BYTES, *_TEXTS)))
        raise SchemaError(f"Havasu has no encoding {encoding.value!r}", where=where, remedy=f"use one of: {options}")
    return GeometryType(UNKNOWN_CRS, encoding)


def _through(schema: Schema, path: _Path, one: GeoInput, where: str) -> GeoInput:
    if not through_structs(schema, path):
        what = "in lists and maps only values are taken that are in the encoding of the column"
        raise SchemaError(what, where=where, remedy="convert them")
    return one


def _is_geo(type_: DataType) -> bool:
    return isinstance(type_, (GeometryType, GeographyType, RasterType))


def _is_raster(type_: DataType) -> bool:
    """Whether a struct has the fields of a raster and no others."""
    if not isinstance(type_, StructType):
        return False
    names = {one.name for one in type_.fields}
    return names >= set(METADATA_FIELDS) and names <= {one.name for one in RASTER_V1}


def _require_raster(type_: DataType, where: str) -> None:
    if not _is_raster(type_) and not isinstance(type_, RasterType):
        known = ", ".join(METADATA_FIELDS)
        raise SchemaError(
            f"a column of type {type_name(type_)} holds no rasters",
            where=where,
            remedy=f"give structs with the fields of Havasu's raster: {known} and the bands",
        )


def _outside_rasters(schema: Schema, wanted: Mapping[_Path, DataType]) -> Iterator[tuple[_Path, Field]]:
    """Every field but those inside of rasters."""
    stack: list[tuple[_Path, Field]] = [((one.name,), one) for one in reversed(schema.fields)]
    while stack:
        path, field = stack.pop()
        yield path, field
        if not _is_raster(field.type) and not isinstance(wanted.get(path), RasterType):
            stack += [((*path, one.name), one) for one in reversed(children(field.type))]


def _spelled(schema: Schema, name: str) -> _Path:
    parts = split_path(name)
    return tuple(schema.find(join_path(parts[: depth + 1])).name for depth in range(len(parts)))


def _table_path(table: Schema, path: _Path) -> str:
    return join_path(_spelled(table, join_path(path)))
