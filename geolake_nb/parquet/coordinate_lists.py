"""Geometries as GeoParquet's native encodings have them, nested lists of coordinates, made into WKB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from geolake_nb.errors import SchemaError

if TYPE_CHECKING:
    from geolake_nb.parquet.geoparquet import GeoEncoding

__all__ = ["wkb_of_coordinates"]


def wkb_of_coordinates(array: pa.Array, encoding: GeoEncoding | None, *, where: str) -> pa.Array:
    """The geometries of an array of coordinates as ISO WKB; `encoding` names the geometry type of the coordinates.

    >>> from geolake_nb.parquet.geoparquet import GeoEncoding
    >>> points = pa.array([{"x": 1.0, "y": 2.0}, None])
    >>> wkb_of_coordinates(points, GeoEncoding.POINT, where="geom").to_pylist()[0].hex()
    '0101000000000000000000f03f0000000000000040'
    """
    import geoarrow.pyarrow as ga
    import geoarrow.types as gt

    if encoding is None:
        raise SchemaError("the geometry type of the coordinates is unknown", where=where)
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    inner = array.type
    while hasattr(inner, "value_type"):
        inner = inner.value_type
    axes = "".join(field.name for field in inner).upper() if pa.types.is_struct(inner) else ""
    if axes not in ("XY", "XYZ", "XYM", "XYZM"):
        raise SchemaError(f"expected coordinates, got values of type {array.type}", where=where)
    make = getattr(gt, encoding.value)
    kind = make(dimensions=gt.Dimensions.create(axes), coord_type=gt.CoordType.SEPARATED).to_pyarrow()
    return ga.as_wkb(kind.wrap_array(array.cast(kind.storage_type))).storage
