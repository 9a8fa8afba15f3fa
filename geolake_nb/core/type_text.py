"""The type strings of geometry and geography, as Delta and Iceberg write them into a schema."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from geolake_nb.core.crs import CRS84, MAX_TEXT, Crs, CrsForm
from geolake_nb.core.message_text import printable
from geolake_nb.core.types import EdgeAlgorithm, GeographyType, GeometryEncoding, GeometryType, RasterType
from geolake_nb.errors import GeolakeError, SchemaError

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


def geo_type(said: Any, *, where: str | None = None) -> GeometryType | GeographyType:
    """The geo type that a user gives as a value or as a text.

    >>> geo_type("geometry"), geo_type(GeographyType()) == geo_type("geography(OGC:CRS84, spherical)")
    (GeometryType(crs=Crs('OGC:CRS84'), encoding=<GeometryEncoding.WKB: 'wkb'>), True)
    >>> geo_type("EPSG:3857", where="geom")
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: geom: 'EPSG:3857' is no geometry or geography type; write geometry(OGC:CRS84) ...
    """
    if isinstance(said, GeometryType | GeographyType | RasterType):
        # Havasu alone takes rasters; the others refuse them by name.
        return cast("GeometryType | GeographyType", said)
    if isinstance(said, str) and is_geo_text(said):
        return from_delta_text(said, where=where)
    raise SchemaError(
        f"{printable(repr(said), 80)} is no geometry or geography type",
        where=where,
        remedy="write geometry(OGC:CRS84) or geography(OGC:CRS84), or give gl.geometry()",
    )


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
        raise SchemaError(f"{printable(text, 80)!r} is no geometry or geography type", where=where)
    is_geometry = match.group(1).lower() == "geometry"
    crs_text, algorithm_text = _arguments(match.group(2), quotes=quotes)
    try:
        if is_geometry and algorithm_text is not None:
            raise SchemaError("a geometry has a CRS and nothing else")
        crs = CRS84 if crs_text is None else Crs.parse(crs_text, properties=properties)
        if is_geometry:
            return GeometryType(crs)
        algorithm = EdgeAlgorithm.SPHERICAL if algorithm_text is None else EdgeAlgorithm.parse(algorithm_text)
    except GeolakeError as problem:
        raise SchemaError(
            f"type {printable(text, 80)!r}: {problem.what}", where=where, remedy=problem.remedy
        ) from problem
    return GeographyType(crs, algorithm)


def _arguments(inside: str | None, *, quotes: bool) -> tuple[str | None, str | None]:
    """The CRS and the algorithm of what stands between the brackets, `None` for what is not there."""
    if inside is None:
        return None, None
    crs, comma, last = inside.rpartition(",")
    if quotes and comma and (found := _quoted(crs)) is not None and _ALGORITHM.fullmatch(_unquoted(last)):
        return found, _unquoted(last)
    if quotes and (found := _quoted(inside)) is not None:
        return found, None
    if comma and _ALGORITHM.fullmatch(last.strip()):
        return crs, last.strip()
    return inside, None


def _quoted(text: str) -> str | None:
    """What stands between the quotes around the whole text, `None` where it has none."""
    text = text.strip()
    return text[1:-1] if len(text) >= 2 and text[0] in "'\"" and text[0] == text[-1] else None


def _unquoted(text: str) -> str:
    found = _quoted(text)
    return text.strip() if found is None else found


def _print(geo: GeometryType | GeographyType) -> str:
    name = "geometry" if isinstance(geo, GeometryType) else "geography"
    if geo.encoding is not GeometryEncoding.WKB:
        raise SchemaError(f"a {name} type holds WKB, not {geo.encoding.value}", remedy="convert the values")
    if geo.crs.form in (CrsForm.PROJJSON, CrsForm.WKT):
        raise SchemaError(
            f"a {name} type has no room for the definition of a CRS",
            where=repr(geo.crs),
            remedy="store it as PROJJSON in a table property and name that: projjson:<property>",
        )
    if isinstance(geo, GeometryType):
        return f"geometry({geo.crs.text})"
    return f"geography({geo.crs.text}, {geo.algorithm.value})"
