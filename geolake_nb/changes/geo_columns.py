"""Which columns of rows to write hold geometries, of which type, and how their values are read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from geolake_nb.changes.column_types import known_geo_type, with_types
from geolake_nb.changes.write_job import GeoInput
from geolake_nb.errors import RefusedError, SchemaError
from geolake_nb.model.crs import CrsForm
from geolake_nb.model.schema import Schema, join_path, split_path, type_name
from geolake_nb.model.types import (
    GeographyType,
    GeometryEncoding,
    GeometryType,
    PrimitiveType,
    RasterType,
    StringType,
    StructType,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from geolake_nb.model.types import DataType, GeoType

__all__ = [
    "GeoColumns",
    "column_option",
    "geo_encoding",
    "geo_sentences",
    "lenient",
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
