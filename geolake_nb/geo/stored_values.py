"""Encodes ISO WKB in the geometry encodings of Havasu."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.geo.text import to_text
from geolake_nb.model.crs import CRS84, CrsForm
from geolake_nb.model.types import GeometryEncoding, GeometryType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.model.crs import Crs
    from geolake_nb.model.types import GeographyType

__all__ = ["StoredShapes", "srid_of", "srids_of", "stored_shapes"]

_SRID_FLAG = 0x20000000
_MAX_SRID = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class StoredShapes:
    """A column in an encoding."""

    values: pa.Array
    faults: Mapping[int, str] = field(default_factory=dict)
    """By row why a value is not in the encoding, which cannot hold it; it is null then."""


def stored_shapes(values: pa.Array, type: GeometryType | GeographyType) -> StoredShapes:
    """A column of ISO WKB, every value of which can be read, in the encoding of a type.

    EWKB gets the SRID of the type's CRS, where it has one. Texts hold the same shapes, to the last bit.

    >>> from geolake_nb.model.types import geometry
    >>> point = pa.array([bytes.fromhex("0101000000000000000000F03F0000000000000040"), None])
    >>> stored_shapes(point, geometry("EPSG:3857", encoding="ewkb")).values[0].as_py().hex()[:18]
    '0101000020110f0000'
    >>> stored_shapes(point, geometry(encoding="wkt")).values.to_pylist()
    ['POINT (1 2)', None]
    >>> stored_shapes(point, geometry()).values is point
    True
    """
    encoding = type.encoding
    if encoding is GeometryEncoding.EWKB:
        srid = srid_of(type.crs)
        if srid is None:
            return StoredShapes(values)
        wkb = [None if value is None else _with_srid(value, srid) for value in values.to_pylist()]
        return StoredShapes(pa.array(wkb, values.type))
    if encoding not in (GeometryEncoding.WKT, GeometryEncoding.GEOJSON):
        return StoredShapes(values)
    texts, faults = to_text(values.to_pylist(), encoding)
    return StoredShapes(pa.array(texts, pa.string()), faults)


def srid_of(crs: Crs) -> int | None:
    """The number by which EWKB names a CRS: that of EPSG, `None` where it has none.

    >>> from geolake_nb.model.crs import Crs
    >>> srid_of(CRS84), srid_of(Crs("EPSG:3857")), srid_of(Crs("SRID:0"))
    (4326, 3857, None)
    """
    if crs.is_unknown:
        return None
    if crs == CRS84 or CRS84.same_as(crs):
        return 4326
    authority, _, code = crs.text.partition(":")
    is_epsg = crs.form is CrsForm.AUTHORITY and authority.upper() == "EPSG"
    if (is_epsg or crs.form is CrsForm.SRID) and code.isdigit() and int(code) <= _MAX_SRID:
        return int(code)
    epsg = crs.to_pyproj().to_epsg(min_confidence=100)
    return None if epsg is None else int(epsg)


def srids_of(values: pa.Array | pa.ChunkedArray) -> set[int]:
    """The SRIDs that values of EWKB name, 0 for those without one; a null has none.

    >>> ewkb = bytes.fromhex("0101000020110F0000000000000000F03F0000000000000040")
    >>> srids_of(pa.array([ewkb, None])), srids_of(pa.array([ewkb[:1] + bytes([1, 0, 0, 0]) + ewkb[9:]]))
    ({3857}, {0})
    """
    srids: set[int] = set()
    for start in pc.unique(pc.binary_slice(values, 0, 9).drop_null()).to_pylist():
        order = "<" if start[:1] == b"\1" else ">"
        flagged = len(start) == 9 and struct.unpack_from(f"{order}I", start, 1)[0] & _SRID_FLAG
        srids.add(struct.unpack_from(f"{order}i", start, 5)[0] if flagged else 0)
    return srids


def _with_srid(wkb: bytes, srid: int) -> bytes:
    # Havasu, Geometry: byte order, type with the flag, SRID, and the rest of the WKB.
    order = "<" if wkb[0] else ">"
    (code,) = struct.unpack_from(f"{order}I", wkb, 1)
    return wkb[:1] + struct.pack(f"{order}II", code | _SRID_FLAG, srid) + wkb[5:]
