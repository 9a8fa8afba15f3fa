"""The data types of a table's columns, one set for all formats."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from geolake_nb.errors import SchemaError
from geolake_nb.model.crs import CRS84, Crs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.model.collation import Collation
    from geolake_nb.model.crs import CrsLike

__all__ = [
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
    "geography",
    "geometry",
    "raster",
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
