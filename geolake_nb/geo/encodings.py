"""WKB in other encodings: EWKB to ISO WKB, WKT, GeoJSON, and Havasu's geometry encodings."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.model.crs import CRS84, CrsForm
from geolake_nb.model.types import GeometryEncoding, GeometryType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import shapely
    from numpy.typing import NDArray

    from geolake_nb.model.crs import Crs
    from geolake_nb.model.types import GeographyType

__all__ = ["IsoWkb", "StoredShapes", "may_be_ewkb", "srid_of", "srids_of", "stored_shapes", "to_iso_wkb", "to_text"]


class IsoWkb(NamedTuple):
    """A column as ISO WKB, with the SRIDs of its values."""

    values: pa.Array
    """`binary` or `large_binary` as it came; the same array if no value had to be changed."""
    srids: dict[int | None, NDArray[np.intp]]
    """The rows of each SRID in EWKB values; `None` is for values whose parts have different ones."""


def to_iso_wkb(array: pa.Array) -> IsoWkb:
    """The column without flags and SRIDs; every value has to be readable, see `Scan`, or null.

    Type numbers get ISO's thousands for Z and M, at every depth; byte orders and coordinates stay as they are. An SRID
    of 0 counts as none.

    >>> ewkb = bytes.fromhex("01010000A0E6100000000000000000F03F00000000000000400000000000000840")
    >>> iso = to_iso_wkb(pa.array([ewkb, None]))
    >>> iso.values[0].as_py().hex(), iso.srids
    ('01e9030000000000000000f03f00000000000000400000000000000840', {4326: array([0])})
    >>> to_iso_wkb(pa.array([], pa.binary())).values
    <pyarrow.lib.BinaryArray object at ...>
    []
    """
    from geolake_nb.geo import wkb_iso_kernel as kernel

    rows = len(array)
    if rows == 0:
        return IsoWkb(array, {})
    validity, offsets, data = array.buffers()
    wide = pa.types.is_large_binary(array.type)
    sizes, srids = np.empty(rows, np.int64), np.empty(rows, np.int64)
    buffers_at = (
        0 if data is None else data.address,
        offsets.address,
        wide,
        0 if validity is None else validity.address,
        array.offset,
        rows,
    )
    changed = kernel.measure(*buffers_at, sizes.ctypes.data, srids.ctypes.data)
    if not changed:
        return IsoWkb(array, {})
    rows_by_srid: dict[int | None, NDArray[np.intp]] = {
        None if number == kernel.MIXED_SRIDS else int(number): np.flatnonzero(srids == number)
        for number in np.unique(srids)
        if number != kernel.NO_SRID
    }
    ends = np.zeros(rows + 1, np.int64 if wide else np.int32)
    np.cumsum(sizes, out=ends[1:])
    out = np.empty(int(ends[-1]), np.uint8)
    kernel.rewrite(*buffers_at, out.ctypes.data)
    # The bits of a slice need not start at a byte.
    there = None if not array.null_count else pa.py_buffer(np.packbits(np.asarray(array.is_valid()), bitorder="little"))
    buffers = [there, pa.py_buffer(ends), pa.py_buffer(out)]
    return IsoWkb(pa.Array.from_buffers(array.type, rows, buffers, null_count=array.null_count), rows_by_srid)


def may_be_ewkb(array: pa.Array) -> bool:
    """Whether a value has the flags of EWKB, or may have them inside; values need not be readable.

    >>> point = bytes.fromhex("0101000000000000000000F03F0000000000000040")
    >>> may_be_ewkb(pa.array([point, None])), may_be_ewkb(pa.array([point[:4] + b"\\x80" + point[5:]]))
    (False, True)
    """
    from geolake_nb.geo import wkb_iso_kernel as kernel

    if len(array) == array.null_count:
        return False
    validity, offsets, data = array.buffers()
    return not kernel.simple(
        0 if data is None else data.address,
        offsets.address,
        pa.types.is_large_binary(array.type),
        0 if validity is None else validity.address,
        array.offset,
        len(array),
    )


def to_text(values: Sequence[bytes | None], encoding: GeometryEncoding) -> tuple[list[str | None], dict[int, str]]:
    """The texts of ISO WKB, `None` for null, and by row why a value has no text.

    >>> point = bytes.fromhex("0101000000000000000000F03F0000000000000040")
    >>> to_text([point, None], GeometryEncoding.WKT)
    (['POINT (1 2)', None], {})
    >>> with_m = bytes.fromhex("01D1070000000000000000F03F00000000000000400000000000000840")
    >>> to_text([with_m], GeometryEncoding.GEOJSON)
    ([None], {0: 'GeoJSON cannot store M values'})
    """
    import shapely

    # GEOS raises a flag of the processor where it reads NaN, of which NumPy warns.
    with np.errstate(all="ignore"):
        shapes = _shapes(values)
        if encoding is GeometryEncoding.GEOJSON:
            texts, read = shapely.to_geojson(shapes), shapely.from_geojson
        else:
            texts, read = shapely.to_wkt(shapes, rounding_precision=-1), shapely.from_wkt
        written: list[str | None] = texts.tolist()
        back = read(texts, on_invalid="ignore")
        given, got = (shapely.to_wkb(some, flavor="iso", byte_order=1, output_dimension=4) for some in (shapes, back))
        faults: dict[int, str] = {}
        for row in range(len(values)):
            if values[row] is None or (given[row] is not None and given[row] == got[row]):
                continue
            written[row] = _exact(shapes[row], back[row], written[row], encoding, read)
            if written[row] is None:
                faults[row] = _why(shapes[row], encoding)
    return written, faults


def _shapes(values: Sequence[bytes | None]) -> NDArray[np.object_]:
    """The values as shapely's, `None` for one that it does not take."""
    import shapely

    wkb = np.empty(len(values), object)
    wkb[:] = values
    try:
        return np.asarray(shapely.from_wkb(wkb, on_invalid="ignore"), object)
    except NotImplementedError:  # raised for arcs
        shapes = np.empty(len(values), object)
        for row, value in enumerate(values):
            try:
                shapes[row] = shapely.from_wkb(value, on_invalid="ignore")
            except NotImplementedError:
                shapes[row] = None
        return shapes


def _exact(
    shape: shapely.Geometry | None,
    back: shapely.Geometry | None,
    text: str | None,
    encoding: GeometryEncoding,
    read: Callable[..., shapely.Geometry | None],
) -> str | None:
    """A text with an exact round trip, although the first try was not exact; `None` if there is none."""
    if shape is None:
        return None
    if _same(shape, back):
        return text
    if encoding is not GeometryEncoding.WKT:
        return None
    # The shortest text of GEOS has 16 digits, which is one too few for some doubles, and no sign of a zero.
    longer = _wkt(shape)
    return longer if _same(shape, read(longer, on_invalid="ignore")) else None


def _same(shape: shapely.Geometry, other: shapely.Geometry | None) -> bool:
    """Whether two shapes have the same parts, axes and coordinates; one NaN is as good as another."""
    import shapely

    return other is not None and bool(shapely.equals_identical(shape, other)) and _plain(shape) == _plain(other)


def _plain(shape: shapely.Geometry) -> bytes:
    import shapely

    coordinates = shapely.get_coordinates(shape, include_z=True, include_m=True)
    return np.where(np.isnan(coordinates), np.nan, coordinates).tobytes()


def _why(shape: shapely.Geometry | None, encoding: GeometryEncoding) -> str:
    import shapely

    name = "GeoJSON" if encoding is GeometryEncoding.GEOJSON else "WKT"
    if shape is None:
        return f"this geometry type cannot be written as {name}"
    if encoding is not GeometryEncoding.GEOJSON:
        return "it does not survive a round trip through WKT"
    # RFC 7946, Position: longitude, latitude and altitude; JSON has no number for NaN and infinity.
    if shapely.has_m(shape):
        return "GeoJSON cannot store M values"
    if not np.isfinite(shapely.get_coordinates(shape, include_z=True)[:, : 3 if shapely.has_z(shape) else 2]).all():
        return "GeoJSON cannot store non-finite coordinates"
    return "GeoJSON cannot store such an empty part"


def _wkt(shape: shapely.Geometry) -> str:
    """WKT with numbers as Python writes them, the shortest that come back."""
    axes = ("Z" if shape.has_z else "") + ("M" if shape.has_m else "")
    return " ".join(filter(None, (shape.geom_type.upper(), axes, _inside(shape))))


def _inside(shape: shapely.Geometry) -> str:
    if shape.geom_type == "GeometryCollection":
        parts = [_wkt(part) for part in shape.geoms]
    elif hasattr(shape, "geoms"):
        parts = [_inside(part) for part in shape.geoms]
    elif shape.geom_type == "Polygon":
        parts = [] if shape.is_empty else [_inside(ring) for ring in (shape.exterior, *shape.interiors)]
    else:
        import shapely

        rows = shapely.get_coordinates(shape, include_z=shape.has_z, include_m=shape.has_m).tolist()
        parts = [" ".join(map(repr, row)) for row in rows]
    return f"({', '.join(parts)})" if parts else "EMPTY"


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
