"""The geometry of a filter: read from shapely, WKB, WKT or a box, and printed as SQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.errors import GeolakeError, PredicateError
from geolake_nb.geo.wkb import may_nest_deeply, read_wkb, readable_geometry_text
from geolake_nb.model.box import Box
from geolake_nb.model.crs import Crs
from geolake_nb.text.messages import shortened

if TYPE_CHECKING:
    import shapely

__all__ = ["Shape", "read_shape", "shape_to_sql", "srid_to_crs"]

Shape = Any
"""A shapely geometry, WKB as bytes, WKT or EWKT as text, or a `Box`."""

_EWKT = re.compile(r"\s*SRID\s*=\s*(\d{1,9})\s*;", re.IGNORECASE)
_EPSG = re.compile(r"EPSG:([1-9]\d{0,8})")


def read_shape(shape: Shape, crs: str | None = None) -> tuple[bytes, str | None]:
    """The shape as little-endian ISO WKB, with its CRS: the one given, else that of its SRID.

    >>> read_shape("SRID=3857;POINT (1 2)")[1], read_shape("POINT (1 2)")[1]
    ('EPSG:3857', None)
    >>> read_shape("POLYGON EMPTY")[0].hex()
    '010300000000000000'
    >>> read_shape("POINT (1)")
    Traceback (most recent call last):
    geolake_nb.errors.PredicateError: 'POINT (1)' is not valid WKT: ParseException: Expected number but \
encountered ')'
    """
    import shapely

    if isinstance(shape, Box):
        geometry = _box_to_shapely(shape)
    elif isinstance(shape, (bytes, bytearray, memoryview)):
        geometry = _from_wkb(bytes(shape))
    elif isinstance(shape, str):
        match = _EWKT.match(shape)
        geometry = _from_wkt(shape[match.end() :] if match else shape)
        if match:
            geometry = shapely.set_srid(geometry, int(match.group(1)))
    elif isinstance(shape, shapely.Geometry):
        geometry = shape
    else:
        kinds = "Box, bytes (WKB), shapely geometry, str (WKT)"
        raise PredicateError(f"expected a geometry, got a {type(shape).__name__}", remedy=f"give one of: {kinds}")
    _check_finite(geometry)
    if crs is None:
        crs = srid_to_crs(int(shapely.get_srid(geometry)))
    return shapely.to_wkb(geometry, flavor="iso", byte_order=1), crs


def srid_to_crs(srid: int) -> str | None:
    """The CRS of an SRID, of EPSG where that has it; `None` for the SRID 0 of a geometry that has none.

    >>> srid_to_crs(4326), srid_to_crs(999999), srid_to_crs(0)
    ('EPSG:4326', 'srid:999999', None)
    """
    if srid == 0:
        return None
    text = f"srid:{srid}"
    return Crs(text).code if Crs(text) == Crs(f"EPSG:{srid}") else text


def shape_to_sql(wkb: bytes, crs: str | None) -> str:
    """The SQL expression of a geometry: by its sides, else as text where that keeps every bit, else as bytes.

    >>> shape_to_sql(read_shape(Box(5, 45.5, 11, 48))[0], None)
    'ST_MakeEnvelope(5, 45.5, 11, 48)'
    >>> wkb, _ = read_shape("POINT (0.1 2)")
    >>> shape_to_sql(wkb, None)
    "ST_GeomFromText('POINT (0.1 2)')"
    >>> shape_to_sql(wkb, "OGC:CRS84")
    "ST_SetCRS(ST_GeomFromText('POINT (0.1 2)'), 'OGC:CRS84')"
    """
    function, argument = _call(wkb)
    if crs is None:
        return f"{function}({argument})"
    if match := _EPSG.fullmatch(crs):
        return f"{function}({argument}, {match.group(1)})"
    quoted = crs.replace("'", "''")
    return f"ST_SetCRS({function}({argument}), '{quoted}')"


def _call(wkb: bytes) -> tuple[str, str]:
    """The function that makes the geometry, and its arguments."""
    import shapely

    geometry = shapely.from_wkb(wkb)
    sides = geometry.bounds
    texts = [repr(side) for side in sides]
    # SQL has no zero with a sign.
    if shapely.to_wkb(shapely.box(*sides), flavor="iso", byte_order=1) == wkb and "-0.0" not in texts:
        return "ST_MakeEnvelope", ", ".join(text.removesuffix(".0") for text in texts)
    # The shortest text of GEOS has 16 digits, which is one too few for some doubles.
    for digits in (-1, 17):
        text = shapely.to_wkt(geometry, rounding_precision=digits)
        if shapely.to_wkb(shapely.from_wkt(text), flavor="iso", byte_order=1) == wkb:
            return "ST_GeomFromText", f"'{text}'"
    return "ST_GeomFromWKB", f"X'{wkb.hex().upper()}'"


def _box_to_shapely(box: Box) -> shapely.Geometry:
    import shapely

    if not box.wraps:
        return shapely.box(*box.values[:4])
    if box.xmin > 180.0 or box.xmax < -180.0:
        raise PredicateError(
            f"a box has xmin {box.xmin} > xmax {box.xmax}",
            remedy="only a box of longitudes may cross the antimeridian",
        )
    east = shapely.box(box.xmin, box.ymin, 180.0, box.ymax)
    west = shapely.box(-180.0, box.ymin, box.xmax, box.ymax)
    return shapely.MultiPolygon([east, west])


def _from_wkb(wkb: bytes) -> shapely.Geometry:
    import shapely

    try:
        if may_nest_deeply(wkb):
            read_wkb(wkb)
        return shapely.from_wkb(wkb)
    except GeolakeError as problem:
        raise PredicateError(f"the geometry of the filter is not valid WKB: {problem.what}") from None
    except (shapely.GEOSException, NotImplementedError, ValueError) as problem:
        raise PredicateError(f"the geometry of the filter is not valid WKB: {_first_line(problem)}") from None


def _from_wkt(text: str) -> shapely.Geometry:
    import shapely

    shown = repr(shortened(text, 60))
    reason = readable_geometry_text(text)
    if reason is not None:
        raise PredicateError(f"{shown} is not valid WKT: {reason}")
    try:
        return shapely.from_wkt(text)
    except (shapely.GEOSException, NotImplementedError, ValueError) as problem:
        raise PredicateError(f"{shown} is not valid WKT: {_first_line(problem)}") from None


def _check_finite(geometry: shapely.Geometry) -> None:
    import shapely

    if not np.isfinite(shapely.get_coordinates(geometry)).all():
        raise PredicateError("the geometry of the filter has a non-finite coordinate")


def _first_line(problem: Exception) -> str:
    lines = str(problem).splitlines()
    return lines[0] if lines else type(problem).__name__
