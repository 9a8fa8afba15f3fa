"""The data types of a table's columns, one set for all formats, and their text."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from geolake_nb.errors import GeolakeError, SchemaError
from geolake_nb.model.crs import CRS84, MAX_TEXT, Crs, CrsForm
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from geolake_nb.model.collation import Collation
    from geolake_nb.model.crs import CrsLike

__all__ = [
    "ColumnTypesInput",
    "DataType",
    "EdgeAlgorithm",
    "Field",
    "GeoType",
    "GeographyType",
    "GeometryEncoding",
    "GeometryType",
    "ListType",
    "MapType",
    "PrimitiveType",
    "RasterType",
    "StringType",
    "StructType",
    "from_delta_text",
    "from_iceberg_text",
    "geo_type",
    "geography",
    "geometry",
    "is_geo_text",
    "is_quoted_text",
    "parse_column_types",
    "raster",
    "to_delta_text",
    "to_iceberg_text",
]


class EdgeAlgorithm(enum.Enum):
    """How the edge between two vertices of a geography runs over the Earth."""

    SPHERICAL = "spherical"
    """A great circle of a sphere."""
    VINCENTY = "vincenty"
    """A geodesic of the ellipsoid by Vincenty's iteration."""
    THOMAS = "thomas"
    """A geodesic of the ellipsoid by Thomas's second-order series."""
    ANDOYER = "andoyer"
    """A geodesic of the ellipsoid by Andoyer's first-order series."""
    KARNEY = "karney"
    """A geodesic of the ellipsoid to full precision."""

    @classmethod
    def parse(cls, text: str) -> EdgeAlgorithm:
        """The algorithm of that name, in any case.

        >>> EdgeAlgorithm.parse("SPHERICAL")
        <EdgeAlgorithm.SPHERICAL: 'spherical'>
        """
        try:
            return cls(text.strip().lower())
        except ValueError:
            known = ", ".join(sorted(member.value for member in cls))
            raise SchemaError(f"unknown edge algorithm {text!r}", remedy=f"use one of: {known}") from None


class GeometryEncoding(enum.Enum):
    """How the bytes or the text of a geometry value are to be read."""

    WKB = "wkb"
    """Well-known binary, ISO flavour."""
    EWKB = "ewkb"
    """Well-known binary with the SRID flag (Havasu)."""
    WKT = "wkt"
    """Well-known text (Havasu)."""
    GEOJSON = "geojson"
    """One GeoJSON geometry object (Havasu)."""
    GEOARROW = "geoarrow"
    """Coordinates in nested lists and structs (GeoParquet's `point`, `polygon` and the like)."""

    @classmethod
    def parse(cls, text: str) -> GeometryEncoding:
        """The encoding of that name, in any case.

        >>> GeometryEncoding.parse("EWKB")
        <GeometryEncoding.EWKB: 'ewkb'>
        """
        try:
            return cls(text.strip().lower())
        except ValueError:
            known = ", ".join(sorted(member.value for member in cls))
            raise SchemaError(f"unknown geometry encoding {text!r}", remedy=f"use one of: {known}") from None


@dataclass(frozen=True, slots=True)
class GeometryType:
    """Shapes on a plane: edges are straight lines in the coordinates of the CRS."""

    crs: Crs = CRS84
    encoding: GeometryEncoding = GeometryEncoding.WKB
    crs_given: bool = field(default=False, compare=False, repr=False)
    """Whether a user named the CRS, rather than took the default."""
    encoding_given: bool = field(default=False, compare=False, repr=False)
    """Whether a user named the encoding."""


@dataclass(frozen=True, slots=True)
class GeographyType:
    """Shapes on the Earth: x is longitude, y is latitude, edges follow the algorithm."""

    crs: Crs = CRS84
    algorithm: EdgeAlgorithm = EdgeAlgorithm.SPHERICAL
    encoding: GeometryEncoding = GeometryEncoding.WKB


@dataclass(frozen=True, slots=True)
class RasterType:
    """Georeferenced grids of pixels (Havasu)."""

    encoding: str = "v1"


@dataclass(frozen=True, slots=True)
class StringType:
    """Text. Without a collation it compares by its UTF-8 bytes."""

    collation: Collation | None = None


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """Any other scalar, by its name in this package: see `geolake_nb.model.schema`."""

    name: str


@dataclass(frozen=True, slots=True)
class Field:
    """A named field of a schema, with its metadata.

    `metadata` holds every other key of the field as read, so that writing it back loses nothing.
    """

    name: str
    type: DataType
    nullable: bool = True
    id: int | None = None
    physical_name: str | None = None
    doc: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class StructType:
    """Fields in order."""

    fields: tuple[Field, ...] = ()


@dataclass(frozen=True, slots=True)
class ListType:
    """Elements of one type; the element is a field named `element`."""

    element: Field


@dataclass(frozen=True, slots=True)
class MapType:
    """Keys and values; they are fields named `key` and `value`."""

    key: Field
    value: Field


DataType = GeometryType | GeographyType | RasterType | StringType | PrimitiveType | StructType | ListType | MapType


def geometry(crs: str | Crs | CrsLike | None = None, *, encoding: str | GeometryEncoding | None = None) -> GeometryType:
    """The type of shapes on a plane.

    Args:
        crs: the CRS as text, as a `Crs` or as a `pyproj.CRS`; OGC:CRS84 by default.
        encoding: how the values are stored, WKB by default; a Havasu table stores a column with a CRS and no
            encoding as EWKB.

    Returns:
        A type for `columns=` of `gl.write` and of the plans.

    Raises:
        CrsError: a CRS that cannot be read.
        SchemaError: an unknown encoding.

    Example:
        >>> gl.geometry("EPSG:3857").crs
        Crs('EPSG:3857')
        >>> gl.geometry() == gl.geometry("OGC:CRS84")
        True
    """
    return GeometryType(
        CRS84 if crs is None else Crs.parse(crs),
        GeometryEncoding.parse(encoding) if isinstance(encoding, str) else encoding or GeometryEncoding.WKB,
        crs_given=crs is not None,
        encoding_given=encoding is not None,
    )


def geography(
    crs: str | Crs | CrsLike = CRS84, algorithm: str | EdgeAlgorithm = EdgeAlgorithm.SPHERICAL
) -> GeographyType:
    """The type of shapes on the Earth.

    Args:
        crs: the CRS as text, as a `Crs` or as a `pyproj.CRS`; it has longitudes and latitudes.
        algorithm: how an edge runs from one vertex to the next.

    Returns:
        A type for `columns=` of `gl.write` and of the plans.

    Raises:
        CrsError: a CRS that cannot be read.
        SchemaError: a projected CRS, or an unknown algorithm.

    Example:
        >>> gl.geography(algorithm="karney").algorithm
        <EdgeAlgorithm.KARNEY: 'karney'>
        >>> gl.geography("EPSG:3857")
        Traceback (most recent call last):
        geolake_nb.errors.SchemaError: EPSG:3857: a geography has longitudes and latitudes; use ...
    """
    system = Crs.parse(crs)
    if system.is_projected:
        raise SchemaError("a geography has longitudes and latitudes", where=str(system), remedy="use geometry(...)")
    kind = EdgeAlgorithm.parse(algorithm) if isinstance(algorithm, str) else algorithm
    return GeographyType(system, kind)


def raster() -> RasterType:
    """The type of rasters, in the one encoding that Havasu defines.

    Returns:
        A type for `columns=` of `gl.write`.

    Example:
        >>> gl.raster()
        RasterType(encoding='v1')
    """
    return RasterType()


GeoType: TypeAlias = "GeometryType | GeographyType"
"""The type of a column of vector shapes."""


_GEO = re.compile(r"(geometry|geography)\s*(?:\((.*)\))?", re.IGNORECASE | re.DOTALL)
# What Havasu stores; native coordinates are GeoParquet's.
_ENCODED = re.compile(r"geometry\s*\((?:(.*?)\s*,)?\s*(wkb|ewkb|wkt|geojson)\s*\)", re.IGNORECASE | re.DOTALL)
_ALGORITHM = re.compile(r"[A-Za-z_]*")


def is_geo_text(text: str) -> bool:
    """Whether a type string names a geometry or a geography, in any case and spacing.

    >>> is_geo_text("Geometry (OGC:CRS84)"), is_geo_text("geometrycollection"), is_geo_text("")
    (True, False, False)
    """
    return _match(text) is not None


def is_quoted_text(text: str) -> bool:
    """Whether a type string has PyIceberg's quotes, which no other reader of Iceberg takes.

    >>> is_quoted_text("geometry('EPSG:3857')"), is_quoted_text("geometry(EPSG:3857)")
    (True, False)
    """
    match = _match(text)
    return match is not None and (match.group(2) or "").lstrip().startswith(("'", '"'))


def from_delta_text(
    text: str, *, properties: Mapping[str, str] | None = None, where: str | None = None
) -> GeometryType | GeographyType:
    """The geo type of a Delta schema; the table's `properties` resolve `projjson:<property>`.

    >>> from_delta_text("geography(OGC:CRS84, SPHERICAL)").algorithm
    <EdgeAlgorithm.SPHERICAL: 'spherical'>
    >>> from_delta_text("geometry(SRID:0)").crs.is_unknown
    True
    """
    return _parse(text, properties, where, quotes=False)


def geo_type(
    value: Any, *, properties: Mapping[str, str] | None = None, where: str | None = None
) -> GeometryType | GeographyType:
    """The geo type that a user gives as a value or as a text, which may name an encoding of Havasu after the CRS.

    `properties` resolve `projjson:<property>`.

    >>> geo_type("geometry(EPSG:3857, ewkb)").encoding
    <GeometryEncoding.EWKB: 'ewkb'>
    >>> geo_type("geometry"), geo_type(GeographyType()) == geo_type("geography(OGC:CRS84, spherical)")
    (GeometryType(crs=Crs('OGC:CRS84'), encoding=<GeometryEncoding.WKB: 'wkb'>), True)
    >>> geo_type("EPSG:3857", where="geom")
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: geom: expected a geometry or geography type, got 'EPSG:3857'; write ...
    """
    if isinstance(value, RasterType):
        # Havasu alone takes rasters; the others refuse them by name.
        return cast("GeometryType", value)
    if isinstance(value, GeometryType | GeographyType):
        return replace(value, crs=Crs.parse(value.crs, properties=properties))
    if isinstance(value, str) and is_geo_text(value):
        plain, encoding = _without_encoding(value)
        geo = from_delta_text(plain, properties=properties, where=where)
        if not geo.crs.text:
            what = f"type {printable(value, 80)!r}: a CRS is empty"
            raise SchemaError(what, where=where, remedy="give one such as OGC:CRS84")
        if isinstance(geo, GeographyType):
            return geo
        first, comma, last = geo.crs.text.rpartition(",")
        if comma and geo.crs.form is CrsForm.OTHER and Crs(first.strip()).form is not CrsForm.OTHER:
            raise SchemaError(
                f"unknown geometry encoding {printable(last.strip(), 40)!r}",
                where=where,
                remedy="use one of: ewkb, geojson, wkb, wkt",
            )
        given = replace(geo, crs_given="(" in plain)
        return given if encoding is None else replace(given, encoding=encoding, encoding_given=True)
    raise SchemaError(
        f"expected a geometry or geography type, got {printable(repr(value), 80)}",
        where=where,
        remedy="write geometry(OGC:CRS84) or geography(OGC:CRS84), or give gl.geometry()",
    )


def _without_encoding(text: str) -> tuple[str, GeometryEncoding | None]:
    """The text of a geometry without the encoding at its end, and that; the schemas of tables name none."""
    match = _ENCODED.fullmatch(text.strip())
    if match is None:
        return text, None
    return f"geometry({match[1]})" if match[1] else "geometry", GeometryEncoding(match[2].lower())


def to_delta_text(geo: GeometryType | GeographyType) -> str:
    """The type string of a Delta schema.

    >>> to_delta_text(GeographyType())
    'geography(OGC:CRS84, spherical)'
    """
    return _print(geo)


def from_iceberg_text(
    text: str, *, properties: Mapping[str, str] | None = None, where: str | None = None
) -> GeometryType | GeographyType:
    """The geo type of an Iceberg schema, in Java's form, in PyIceberg's quoted form, or by name alone.

    >>> from_iceberg_text("geometry('EPSG:3857')") == from_iceberg_text("geometry(EPSG:3857)")
    True
    >>> from_iceberg_text("geography") == GeographyType()
    True
    """
    return _parse(text, properties, where, quotes=True)


def to_iceberg_text(geo: GeometryType | GeographyType) -> str:
    """The type string of an Iceberg schema, in Java's form.

    >>> to_iceberg_text(GeometryType())
    'geometry(OGC:CRS84)'
    """
    return _print(geo)


def _match(text: str) -> re.Match[str] | None:
    return _GEO.fullmatch(text.strip())


def _parse(
    text: str, properties: Mapping[str, str] | None, where: str | None, *, quotes: bool
) -> GeometryType | GeographyType:
    if len(text) > MAX_TEXT:
        raise SchemaError(f"a type has {len(text)} characters", where=where, remedy=f"use {MAX_TEXT} at most")
    match = _match(text)
    if match is None:
        raise SchemaError(f"expected a geometry or geography type, got {printable(text, 80)!r}", where=where)
    is_geometry = match.group(1).lower() == "geometry"
    crs_text, algorithm_text = _arguments(match.group(2), quotes=quotes)
    try:
        if is_geometry and algorithm_text is not None:
            if _is_algorithm(algorithm_text):
                raise SchemaError("a geometry has a CRS and nothing else")
            crs_text = match.group(2)  # a name with a comma in it
        crs = CRS84 if crs_text is None else Crs.of_table(crs_text.strip(), properties=properties)
        if is_geometry:
            return GeometryType(crs)
        algorithm = EdgeAlgorithm.SPHERICAL if algorithm_text is None else EdgeAlgorithm.parse(algorithm_text)
    except GeolakeError as problem:
        raise SchemaError(
            f"type {printable(text, 80)!r}: {problem.what}", where=where, remedy=problem.remedy
        ) from problem
    return GeographyType(crs, algorithm)


def _arguments(inside: str | None, *, quotes: bool) -> tuple[str | None, str | None]:
    """The CRS and the algorithm between the brackets, `None` for a missing one."""
    if inside is None:
        return None, None
    crs, comma, last = inside.rpartition(",")
    if quotes and comma and (quoted := _quoted(crs)) is not None and _ALGORITHM.fullmatch(_unquoted(last)):
        return quoted, _unquoted(last)
    if quotes and (quoted := _quoted(inside)) is not None:
        return quoted, None
    if comma and _ALGORITHM.fullmatch(last.strip()):
        return crs, last.strip()
    return inside, None


def _is_algorithm(text: str) -> bool:
    return text.lower() in [algorithm.value for algorithm in EdgeAlgorithm]


def _quoted(text: str) -> str | None:
    """The text between the quotes around the whole text, `None` without quotes."""
    text = text.strip()
    return text[1:-1] if len(text) >= 2 and text[0] in "'\"" and text[0] == text[-1] else None


def _unquoted(text: str) -> str:
    quoted = _quoted(text)
    return text.strip() if quoted is None else quoted


def _print(geo: GeometryType | GeographyType) -> str:
    name = "geometry" if isinstance(geo, GeometryType) else "geography"
    if geo.encoding is not GeometryEncoding.WKB:
        raise SchemaError(f"a {name} type holds WKB, not {geo.encoding.value}", remedy="convert the values")
    if geo.crs.form in (CrsForm.PROJJSON, CrsForm.WKT):
        raise SchemaError(
            f"a {name} type cannot store the definition of a CRS",
            where=repr(geo.crs),
            remedy="store it as PROJJSON in a table property and name that: projjson:<property>",
        )
    if isinstance(geo, GeometryType):
        return f"geometry({geo.crs.text})"
    return f"geography({geo.crs.text}, {geo.algorithm.value})"


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
