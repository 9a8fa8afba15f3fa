"""The type strings of geometry and geography, as Delta and Iceberg write them into a schema."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from geolake_nb.errors import GeolakeError, SchemaError
from geolake_nb.model.crs import CRS84, MAX_TEXT, Crs, CrsForm
from geolake_nb.model.types import EdgeAlgorithm, GeographyType, GeometryEncoding, GeometryType, RasterType
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "from_delta_text",
    "from_iceberg_text",
    "geo_type",
    "is_geo_text",
    "is_quoted_text",
    "to_delta_text",
    "to_iceberg_text",
]

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
