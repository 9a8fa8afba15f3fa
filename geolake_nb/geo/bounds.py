"""Bounds and statistics of an Arrow column of geometries or geographies.

A geometry's box is that of its coordinates, with circular arcs. A geography's box holds its edges:

- Longitudes are exact, and the shortest interval over all parts; x runs over the antimeridian (xmin > xmax) where
  that is shorter. Columns whose widest gap is below 360 / 4096 degrees get the whole circle.
- Latitudes are rounded outward: by 1e-10 degrees on a sphere, by up to 1e-6 on an ellipsoid with Karney's geodesics,
  and by a stray (see `_STRAY`) with the other algorithms. Edges within 3 degrees of antipodal (0.01 on a sphere) may
  get more, up to all latitudes: their course hangs on the last digits of their ends.
- A pole has every longitude: what touches one, a point there included, spans [-180, 180].
- A ring encloses its smaller side. Where neither side is clearly smaller, both are covered.
- A coordinate outside [-180, 180] or [-90, 90], or an arc, leaves the column without a box.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import CrsError, SchemaError
from geolake_nb.geo.wkb import readable_geometry_text
from geolake_nb.model.crs import CRS84, Crs
from geolake_nb.model.statistics import ColumnStats, Problem
from geolake_nb.model.types import EdgeAlgorithm, GeographyType, GeometryEncoding, GeometryType, geo_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeAlias

    from geolake_nb.geo.wkb_scan import EdgeRules, Scan

    Column: TypeAlias = pa.Array | pa.ChunkedArray

__all__ = ["BadValueWarning", "bounds", "bounds_of_chunks", "column_stats", "row_boxes", "wkb_of_texts"]


class BadValueWarning(UserWarning):
    """A value of the column cannot be read, so that the column has no bound."""


def bounds(
    column: Column,
    *,
    type: GeometryType | GeographyType | str | None = None,
    name: str = "column",
) -> ColumnStats:
    """The box, the type codes and the counts of a column of geometries or geographies.

    Binary columns of any layout are read as WKB or EWKB, `geoarrow` types as what they are, text as the type's
    encoding says. An unreadable value leaves the column without bounds, but is still counted.

    Args:
        column: an Arrow array or chunked array.
        type: the type of the column, also as text such as `geography(OGC:CRS84, karney)`; by default a geometry.
        name: the name of the column in the warning about a value that cannot be read.

    Returns:
        The statistics that a table stores for the column.

    Raises:
        SchemaError: not an Arrow array, or a type that cannot be read.

    Example:
        >>> import pyarrow as pa
        >>> point = bytes.fromhex("0101000000000000000000F03F0000000000000040")
        >>> stats = gl.bounds(pa.array([point, None]))
        >>> stats.box.xmin, stats.types, stats.null_count
        (1.0, (1,), 1)
        >>> gl.bounds(pa.array([], pa.binary())).box is None
        True
    """
    return bounds_of_chunks([column], type=type, name=name)


def bounds_of_chunks(
    pieces: Iterable[Column], *, type: GeometryType | GeographyType | str | None = None, name: str = "column"
) -> ColumnStats:
    """The same for a column that comes in chunks, one of which is in memory at a time."""
    stats = _stats(pieces, None if type is None else geo_type(type, where=name))
    if stats.first_bad is not None:
        message = f"{name} gets no bound: {stats.bad} of {stats.rows} values cannot be read, first {stats.first_bad}"
        warnings.warn(message, BadValueWarning, stacklevel=3)
    return stats


def column_stats(column: Column, *, type: GeometryType | GeographyType | None = None) -> ColumnStats:
    """The same as `bounds` without the warning, for callers that handle bad values.

    >>> column_stats(pa.array([b"no WKB"])).bad
    1
    """
    return _stats([column], type)


def _stats(pieces: Iterable[Column], type: GeometryType | GeographyType | None) -> ColumnStats:
    type = type or GeometryType()
    scan, unread = _start(type), _Unread()
    for piece in pieces:
        for chunk in _wkb_chunks(piece, type, unread):
            scan.add(chunk)
    return _freeze(scan, unread, _why_unbounded(type))


def row_boxes(column: Column, *, type: GeometryType | GeographyType | None = None) -> pa.Array:
    """The box in x and y of each row as a `geoarrow.box` array, null where a row has none.

    >>> point = bytes.fromhex("0101000000000000000000F03F0000000000000040")
    >>> row_boxes(pa.array([point, None])).storage.to_pylist()
    [{'xmin': 1.0, 'ymin': 2.0, 'xmax': 1.0, 'ymax': 2.0}, None]
    """
    import geoarrow.types as ga

    type = type or GeometryType()
    scan, unread = _start(type), _Unread()
    box_type = ga.box().to_pyarrow()
    bounded = _why_unbounded(type) is None
    parts = []
    for chunk in _wkb_chunks(column, type, unread):
        boxes, known = scan.add_with_boxes(chunk)
        known &= bounded
        sides = [pa.array(side) for side in boxes]
        mask = None if known.all() else pa.array(~known)
        parts.append(pa.StructArray.from_arrays(sides, fields=list(box_type.storage_type), mask=mask))
    whole = parts[0] if len(parts) == 1 else pa.chunked_array(parts, box_type.storage_type).combine_chunks()
    return box_type.wrap_array(whole)


# Beyond the rounding that the kernel covers, how far an algorithm's edge may stray from the true geodesic, in
# degrees of latitude for each radian of its length, and the longest edge for which that holds. Andoyer's series
# leaves out f**2 = 1e-5 and Thomas's f**3, both times powers of s / sin(s); Vincenty's iteration is good to
# 0.5 mm where it converges. Longer edges get all latitudes.
_STRAY = {
    EdgeAlgorithm.SPHERICAL: (0.0, 180.0),
    EdgeAlgorithm.KARNEY: (0.0, 180.0),
    EdgeAlgorithm.VINCENTY: (1e-6, 178.0),
    EdgeAlgorithm.THOMAS: (1e-3, 170.0),
    EdgeAlgorithm.ANDOYER: (0.05, 150.0),
}

_WGS84_FLATTENING = 1 / 298.257223563
_ROUNDEST, _FLATTEST = 0.0, 0.1  # real ellipsoids lie between, and the series hold there


def _why_unbounded(type: GeometryType | GeographyType) -> str | None:
    """Why no value of the type can be bounded: its CRS does not define how edges run over the Earth."""
    if isinstance(type, GeometryType) or type.crs == CRS84:
        return None
    try:
        crs = type.crs.to_pyproj()
    except CrsError as error:
        return str(error)
    if not crs.is_geographic or any(axis.unit_name != "degree" for axis in crs.axis_info[:2]):
        return f"{type.crs} has no longitudes and latitudes in degrees"
    if not _ROUNDEST <= _flattening(type.crs) < _FLATTEST:
        return f"the ellipsoid of {type.crs} is not that of a planet"
    return None


def _start(type: GeometryType | GeographyType) -> Scan:
    from geolake_nb.geo.wkb_scan import Scan

    if isinstance(type, GeographyType) and _why_unbounded(type) is None:
        return Scan(_edge_rules(type))
    return Scan()


def _edge_rules(type: GeographyType) -> EdgeRules:
    from geolake_nb.geo.wkb_scan import EdgeRules

    sphere = type.algorithm is EdgeAlgorithm.SPHERICAL
    return EdgeRules(0.0 if sphere else _flattening(type.crs), *_STRAY[type.algorithm])


def _flattening(crs: Crs) -> float:
    if crs == CRS84:
        return _WGS84_FLATTENING
    ellipsoid = crs.to_pyproj().ellipsoid
    return 1 / ellipsoid.inverse_flattening if ellipsoid and ellipsoid.inverse_flattening else 0.0


class _Unread:
    """Text values that could not be turned into WKB: they are null in what the kernel sees."""

    def __init__(self) -> None:
        self.rows = 0
        self.count = 0
        self.first: Problem | None = None


def _wkb_chunks(column: Column, type: GeometryType | GeographyType, unread: _Unread) -> Iterator[pa.Array]:
    if not isinstance(column, pa.Array | pa.ChunkedArray):
        raise SchemaError(
            f"expected an Arrow array, got a {column.__class__.__name__}", remedy="pass a pyarrow Array or ChunkedArray"
        )
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        for piece in _pieces(chunk):
            yield _wkb(piece, type, unread)
            unread.rows += len(piece)


_PIECE_BYTES = 1 << 26


def _pieces(array: pa.Array) -> Iterator[pa.Array]:
    """The array, or a dictionary array row by row of its values but only some of them in memory at a time."""
    if not pa.types.is_dictionary(array.type):
        yield array
        return
    values = _plain(array.dictionary)
    longest = pc.max(pc.binary_length(values)).as_py() if len(values) else 0
    step = max(1, _PIECE_BYTES // max(1, longest or 1))
    for start in range(0, max(1, len(array)), step):
        yield values.take(array.indices.slice(start, step))


def _wkb(array: pa.Array, type: GeometryType | GeographyType, unread: _Unread) -> pa.Array:
    """The array as `binary` or `large_binary` WKB."""
    encoding = type.encoding
    if isinstance(array.type, pa.BaseExtensionType):
        kind = array.type.extension_name
        if kind == "geoarrow.wkt":
            encoding = GeometryEncoding.WKT
        elif kind == "geoarrow.box":
            raise SchemaError("a column of boxes holds no geometries", remedy="join them with geolake_nb.model.box")
        elif kind.startswith("geoarrow.") and kind != "geoarrow.wkb":
            array = _wkb_of_geoarrow(array)
        array = array.storage
    array = _plain(array)
    layout = array.type
    if pa.types.is_binary(layout) or pa.types.is_large_binary(layout):
        return array
    expected = "text" if encoding in (GeometryEncoding.WKT, GeometryEncoding.GEOJSON) else "binary"
    if expected == "text" and (pa.types.is_string(layout) or pa.types.is_large_string(layout)):
        return _wkb_of_text(array, encoding, unread)
    raise SchemaError(
        f"a column of type {layout} holds no geometries in {encoding.value}",
        remedy=f"give a {expected} column, or the type with its encoding",
    )


def _wkb_of_geoarrow(array: pa.Array) -> pa.Array:
    import geoarrow.pyarrow as ga

    return ga.as_wkb(array)


def _plain(array: pa.Array) -> pa.Array:
    """The array in a layout of offsets and data, if it has another one."""
    layout = array.type
    if layout == pa.string_view():
        return array.cast(pa.large_string())
    if layout == pa.binary_view() or pa.types.is_fixed_size_binary(layout) or pa.types.is_null(layout):
        return array.cast(pa.large_binary())
    return array


def _wkb_of_text(array: pa.Array, encoding: GeometryEncoding, unread: _Unread) -> pa.Array:
    import shapely

    read = shapely.from_wkt if encoding is GeometryEncoding.WKT else shapely.from_geojson
    values: list[bytes | None] = []
    # One by one: a text that fails the reader of a whole array must not affect the others.
    for row, text in enumerate(array.cast(_binary_like(array.type)).to_pylist()):
        value, reason = (None, None) if text is None else _wkb_of_one(read, text)
        values.append(value)
        if reason is not None:
            unread.count += 1
            unread.first = unread.first or Problem(unread.rows + row, f"not {encoding.value.upper()}: {reason}")
    return pa.array(values, pa.large_binary())


def wkb_of_texts(array: pa.Array, encoding: GeometryEncoding) -> pa.Array:
    """The WKB of geometries as WKT or GeoJSON; no bytes, which are no WKB either, for a text that cannot be read.

    >>> wkb_of_texts(pa.array(["POINT EMPTY", "POINT", None]), GeometryEncoding.WKT).to_pylist()[1:]
    [b'', None]
    """
    plain = _plain(array)
    values = _wkb_of_text(plain, encoding, _Unread()).cast(pa.binary())
    return pc.if_else(pc.is_valid(plain), pc.fill_null(values, b""), values)


def _binary_like(text: pa.DataType) -> pa.DataType:
    return pa.large_binary() if pa.types.is_large_string(text) else pa.binary()


def _wkb_of_one(read: Callable[[str], Any], value: bytes) -> tuple[bytes | None, str | None]:
    """The WKB of a text, or the reason why it cannot be read."""
    import shapely

    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None, "not valid UTF-8"
    reason = readable_geometry_text(text)
    if reason is not None:
        return None, reason
    try:
        return shapely.to_wkb(read(text), flavor="iso"), None
    except (shapely.errors.GEOSException, NotImplementedError, ValueError) as error:
        return None, str(error).splitlines()[0]


def _freeze(scan: Scan, unread: _Unread, why_unbounded: str | None) -> ColumnStats:
    first_bad, first_open, unbounded = unread.first, None, scan.open_count
    if scan.first_bad is not None and first_bad is None:  # a text that could be read gives WKB that can be too
        row, fault, offset, detail = scan.first_bad
        first_bad = Problem(row, fault.describe(detail), offset)
    if scan.first_open is not None:
        first_open = Problem(scan.first_open.row, scan.first_open.reason)
    bad = scan.bad_count + unread.count
    null_count = scan.null_count - unread.count
    placed = scan.rows - null_count - scan.empty_count - bad
    if why_unbounded is not None and placed:
        first_open, unbounded = Problem(None, why_unbounded), placed
    return ColumnStats(
        box=None if bad or unbounded else scan.box,
        types=None if bad else scan.types,
        rows=scan.rows,
        null_count=null_count,
        empty_count=scan.empty_count,
        bad=bad,
        unbounded=unbounded,
        first_bad=first_bad,
        first_unbounded=first_open,
        srids=scan.srids,
    )
