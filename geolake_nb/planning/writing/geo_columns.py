"""Which columns of rows that are to be written hold shapes, of which type, and how their values are read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from geolake_nb.core.schema import Schema, join_path, split_path, type_name
from geolake_nb.core.types import (
    GeographyType,
    GeometryEncoding,
    GeometryType,
    PrimitiveType,
    RasterType,
    StringType,
    StructType,
)
from geolake_nb.errors import RefusedError, SchemaError
from geolake_nb.planning.writing.column_types import known_geo_type, with_types
from geolake_nb.planning.writing.job import GeoInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from geolake_nb.core.types import DataType

    GeoType = GeometryType | GeographyType

__all__ = [
    "GeoColumns",
    "geo_encoding",
    "geo_sentences",
    "lenient",
    "said_column",
    "take_geo_columns",
    "through_structs",
]

_READ_AS = {
    GeometryEncoding.GEOARROW: "coordinates",
    GeometryEncoding.WKB: "WKB or EWKB",
    GeometryEncoding.WKT: "WKT",
}


@dataclass(frozen=True, slots=True, eq=False)
class GeoColumns:
    """The geo columns of rows that are to be written."""

    schema: Schema
    """All columns; the geo types are such as Delta can have them."""
    inputs: Mapping[str, GeoInput]
    """How each is read, by path; those in lists and maps are WKB and are written as they are."""
    properties: Mapping[str, str]
    """Of the table, with the CRSs that have no code."""

    @property
    def paths(self) -> list[tuple[str, ...]]:
        """Where those are that have statistics."""
        return [split_path(path) for path in self.inputs]


def take_geo_columns(
    schema: Schema, asked: Mapping[str, GeoType], properties: Mapping[str, str], *, where: str
) -> GeoColumns:
    """The geo columns of a schema, and those that are asked for, which may say otherwise.

    >>> from geolake_nb.core.types import Field
    >>> plain = Schema(StructType((Field("g", PrimitiveType("binary")),)))
    >>> print(take_geo_columns(plain, {"g": GeometryType()}, {}, where="/t").schema)
    g: geometry(OGC:CRS84)
    >>> take_geo_columns(plain, {}, {}, where="/t").inputs
    {}
    """
    wanted = {_spelled(schema, name, where): type_ for name, type_ in asked.items()}
    held_properties = dict(properties)
    types: dict[tuple[str, ...], DataType] = {}
    inputs: dict[str, GeoInput] = {}
    for path, field in schema.walk_parts():
        name = join_path(path)
        if isinstance(field.type, RasterType):
            raise SchemaError("a raster has no type in Delta", where=f"{where}, column {name}")
        held = field.type if isinstance(field.type, (GeometryType, GeographyType)) else None
        type_ = wanted.get(path, held)
        if type_ is None:
            continue
        encoding = geo_encoding(type_, field.type, where=f"{where}, column {name}") if held is None else held.encoding
        made = known_geo_type(type_, name, held_properties, where=where)
        types[path] = made
        if through_structs(schema, path):
            inputs[name] = GeoInput(made, encoding)
    return GeoColumns(with_types(schema, types), inputs, held_properties)


def geo_encoding(asked: GeoType, held: DataType, *, where: str) -> GeometryEncoding:
    """How the values of a column are read that becomes a geo column: bytes are WKB or EWKB, text is WKT.

    >>> geo_encoding(GeometryType(), StringType(), where="g")
    <GeometryEncoding.WKT: 'wkt'>
    >>> geo_encoding(GeometryType(), PrimitiveType("int32"), where="g")
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: g: a column of type int32 holds no geometries; use one of: binary (WKB, EWKB), ...
    """
    if asked.encoding is GeometryEncoding.GEOJSON:
        raise SchemaError("GeoJSON is not read here", where=where, remedy="convert the values to WKB or WKT")
    if isinstance(held, StringType):
        return GeometryEncoding.WKT
    if held == PrimitiveType("binary") and asked.encoding is not GeometryEncoding.WKT:
        return GeometryEncoding.WKB
    raise SchemaError(
        f"a column of type {type_name(held)} holds no geometries",
        where=where,
        remedy="use one of: binary (WKB, EWKB), string (WKT)",
    )


def said_column(name: str) -> str:
    """How a user says the type of a column, in a shell and in Python.

    >>> said_column("geom")
    "--column 'geom=geometry(OGC:CRS84)', in Python columns={'geom': 'geometry(OGC:CRS84)'}"
    """
    return f"--column '{name}=geometry(OGC:CRS84)', in Python columns={{{name!r}: 'geometry(OGC:CRS84)'}}"


def lenient(inputs: Mapping[str, GeoInput]) -> dict[str, GeoInput]:
    """The same, but bytes that cannot be read are written as they are: their file has no bounds then.

    >>> lenient({"g": GeoInput(GeometryType(), GeometryEncoding.WKB)})["g"].keeps_bad
    True
    """
    return {
        path: replace(one, keeps_bad=True) if one.encoding is GeometryEncoding.WKB else one
        for path, one in inputs.items()
    }


def geo_sentences(inputs: Mapping[str, GeoInput]) -> Iterator[str]:
    """What becomes of each column, for a plan.

    >>> list(geo_sentences({"g": GeoInput(GeometryType(), GeometryEncoding.WKT)}))
    ["The column 'g' is read as WKT and becomes a geometry(OGC:CRS84)."]
    """
    for path, one in inputs.items():
        yield f"The column {path!r} is read as {_READ_AS[one.encoding]} and becomes a {type_name(one.type)}."


def through_structs(schema: Schema, path: tuple[str, ...]) -> bool:
    """Whether a path leads through structs alone, so that there is one value a row.

    >>> through_structs(Schema(), ("a",))
    True
    """
    above = (schema.find(join_path(path[:depth])) for depth in range(1, len(path)))
    return all(isinstance(one.type, StructType) for one in above)


def _spelled(schema: Schema, name: str, where: str) -> tuple[str, ...]:
    """The path as the schema spells it."""
    parts = split_path(name)
    spelled = tuple(schema.find(join_path(parts[: depth + 1])).name for depth in range(len(parts)))
    if not through_structs(schema, spelled):
        what = "it lies in a list or a map, and only structs are followed"
        raise RefusedError(what, where=f"{where}, column {name}")
    return spelled
