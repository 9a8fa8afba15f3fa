"""The outline of a raster in its own CRS, its bounds in WGS84, and those of a column of rasters."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.errors import CrsError, RasterError
from geolake_nb.geo.box_transform import MAX_STEP, patch_box, plane_box
from geolake_nb.model.box import Box, union_all
from geolake_nb.model.crs import Crs, CrsForm
from geolake_nb.model.statistics import ColumnStats, Problem
from geolake_nb.raster_data.arrow import metadata_from_arrow, rasters_from_arrow
from geolake_nb.text.messages import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt
    import pyarrow as pa
    from pyproj import Transformer
    from shapely import MultiPolygon, Polygon

    from geolake_nb.raster_data.raster import Raster, RasterMetadata

    _Array = npt.NDArray[np.float64]

__all__ = [
    "RasterBounds",
    "RasterFootprint",
    "corner_ring",
    "file_bounds",
    "footprint",
    "raster_stats",
    "wgs84_bounds",
    "wgs84_footprint",
]

_GRIDS = (16, 32, 64, 128)
"""Cells per side of the sampling grid, tried in turn until the box is tight enough."""

_TIGHT = 1e-4
"""A box is tight enough when its margins are this small a part of its extent."""

_PROJ_PAD = 1e-9
"""Degrees (a tenth of a millimetre) that cover the rounding and the iteration limits of a projection."""


@dataclass(frozen=True, slots=True)
class RasterBounds:
    """The WGS84 box of one raster or of many, or the reason why there is none.

    >>> RasterBounds(None, "crs_wkt is absent").box is None
    True
    """

    box: Box | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RasterFootprint:
    """The outline of a raster, or the reason why there is none."""

    shape: Polygon | MultiPolygon | None
    reason: str | None = None


def corner_ring(raster: Raster | RasterMetadata) -> tuple[tuple[float, float], ...]:
    """The outer corners of the outer pixels: upper left, upper right, lower right, lower left of the grid.

    >>> from geolake_nb.raster_data.raster import GeoReference, RasterMetadata
    >>> here = GeoReference.from_affine((10.0, 0.0, 100.0, 0.0, -10.0, 200.0))
    >>> corner_ring(RasterMetadata(4, 3, 1, None, here))
    ((100.0, 200.0), (140.0, 200.0), (140.0, 170.0), (100.0, 170.0))
    """
    width, height = float(raster.width), float(raster.height)
    columns, rows = np.array([0.0, width, width, 0.0]), np.array([0.0, 0.0, height, height])
    x, y = _native(raster, columns, rows)
    return tuple(zip(x.tolist(), y.tolist(), strict=True))


def footprint(raster: Raster | RasterMetadata) -> RasterFootprint:
    """The true outline in the raster's own CRS, with rotation and skew; it needs no CRS.

    >>> from geolake_nb.raster_data.raster import GeoReference, RasterMetadata
    >>> turned = GeoReference.from_affine((1.0, 1.0, 0.0, 1.0, -1.0, 0.0))
    >>> footprint(RasterMetadata(2, 1, 1, None, turned)).shape.wkt
    'POLYGON ((0 0, 2 2, 3 1, 1 -1, 0 0))'
    >>> footprint(RasterMetadata(0, 0, 0, None, turned)).reason
    'the raster has no pixels'
    """
    reason = _nowhere(raster)
    if reason is not None:
        return RasterFootprint(None, reason)
    from shapely import Polygon

    return RasterFootprint(Polygon(corner_ring(raster)))


def wgs84_bounds(raster: Raster | RasterMetadata) -> RasterBounds:
    """A WGS84 box that holds every point of every pixel, or none and the reason; xmin > xmax crosses 180.

    Edges and interior are sampled and the margin between samples is bounded: see `patch_bounds`. A raster
    that is in degrees already may run past longitude 180, and past latitude 90 by less than one pixel.

    >>> from pyproj import CRS
    >>> from geolake_nb.raster_data.raster import GeoReference, RasterMetadata
    >>> here = GeoReference.from_affine((0.25, 0.0, 170.0, 0.0, -0.25, -10.0))
    >>> box = wgs84_bounds(RasterMetadata(80, 60, 1, CRS("EPSG:4326").to_wkt(), here)).box
    >>> [round(side, 9) for side in (box.xmin, box.ymin, box.xmax, box.ymax)]
    [170.0, -25.0, -170.0, -10.0]
    >>> wgs84_bounds(RasterMetadata(80, 60, 1, None, here))
    RasterBounds(box=None, reason='crs_wkt is absent')
    """
    reason = _nowhere(raster)
    if reason is not None:
        return RasterBounds(None, reason)
    try:
        transformer = _to_wgs84(raster.crs_wkt)
    except CrsError as error:
        return RasterBounds(None, error.what)
    for cells in _GRIDS:
        columns, rows = np.meshgrid(np.linspace(0, raster.width, cells + 1), np.linspace(0, raster.height, cells + 1))
        x, y = _native(raster, columns, rows)
        lon, lat = transformer.transform(x, y, errcheck=False)
        if not (np.isfinite(lon).all() and np.isfinite(lat).all()):
            return RasterBounds(None, "part of the raster lies where its CRS has no WGS84 coordinates")
        if np.array_equal(lon, x) and np.array_equal(lat, y):
            return _bounds_in_degrees(raster)
        if np.abs(lat).max() > 90.0 + _PROJ_PAD:
            return RasterBounds(None, "the raster has latitudes outside [-90, 90]")
        patch = patch_box(lon, np.clip(lat, -90.0, 90.0), pad=_PROJ_PAD)
        if patch is not None and patch.looseness <= _TIGHT * patch.extent + 8 * _PROJ_PAD:
            break
    if patch is None:
        step = f"{math.degrees(MAX_STEP):.1f} degrees"
        return RasterBounds(None, f"{_GRIDS[-1]} samples per side still leave steps above {step}: check its CRS")
    return RasterBounds(patch.box)


def file_bounds(rasters: Iterable[Raster | RasterMetadata | None]) -> RasterBounds:
    """The smallest box that holds all rasters of a file; a null adds nothing, one without a box makes it `None`.

    >>> file_bounds([None])
    RasterBounds(box=None, reason='no raster')
    """
    boxes = []
    for row, raster in enumerate(rasters):
        if raster is None:
            continue
        bounds = wgs84_bounds(raster)
        if bounds.box is None:
            return RasterBounds(None, f"row {row}: {bounds.reason}")
        boxes.append(bounds.box)
    # Havasu, Raster bounds: the boxes of all rasters in a data file are unioned as one, on the circle.
    whole = union_all(boxes, circular=True)
    return RasterBounds(whole, None if whole is not None else "no raster")


def wgs84_footprint(raster: Raster | RasterMetadata, *, points_per_edge: int = 64) -> RasterFootprint:
    """The outline in WGS84 for a map, cut at the antimeridian and closed over a pole; bounds use more samples.

    >>> from pyproj import CRS
    >>> from geolake_nb.raster_data.raster import GeoReference, RasterMetadata
    >>> here = GeoReference.from_affine((10.0, 0.0, 170.0, 0.0, -10.0, 10.0))
    >>> shape = wgs84_footprint(RasterMetadata(2, 1, 1, CRS("EPSG:4326").to_wkt(), here)).shape
    >>> sorted(list(part.bounds) for part in shape.geoms)
    [[-180.0, 0.0, -170.0, 10.0], [170.0, 0.0, 180.0, 10.0]]
    """
    if points_per_edge < 2:
        raise RasterError(f"points_per_edge is {points_per_edge}", remedy="use 2 or more")
    bounds = wgs84_bounds(raster)
    if bounds.box is None:
        return RasterFootprint(None, bounds.reason)
    along = np.linspace(0.0, 1.0, points_per_edge, endpoint=False)
    still, full = np.zeros_like(along), np.ones_like(along)
    columns = np.concatenate([along, full, 1.0 - along, still]) * raster.width
    rows = np.concatenate([still, along, full, 1.0 - along]) * raster.height
    x, y = _native(raster, columns, rows)
    lon, lat = _to_wgs84(raster.crs_wkt).transform(x, y, errcheck=False)
    if np.array_equal(lon, x) and np.array_equal(lat, y):
        ring = np.column_stack([lon, np.clip(lat, -90.0, 90.0)])
        return RasterFootprint(_cut_at_antimeridian(ring))
    return RasterFootprint(_closed_over_pole(lon, lat, bounds.box))


def _nowhere(raster: Raster | RasterMetadata) -> str | None:
    """Why the raster cannot be located, or `None` if it can."""
    if raster.width == 0 or raster.height == 0:
        return "the raster has no pixels"
    if not raster.geo_reference.is_finite or not np.isfinite(corner_ring(raster)).all():
        return "geo_reference is not finite"
    return None


def _native(raster: Raster | RasterMetadata, columns: _Array, rows: _Array) -> tuple[_Array, _Array]:
    """Coordinates in the raster's CRS; column and row are 0 at the outer corner of the first pixel."""
    a, b, c, d, e, f = raster.geo_reference.to_affine()
    with np.errstate(over="ignore", invalid="ignore"):
        return c + columns * a + rows * b, f + columns * d + rows * e


def _bounds_in_degrees(raster: Raster | RasterMetadata) -> RasterBounds:
    """The box of a raster that has the coordinates of WGS84: straight edges need no samples."""
    ring = np.array(corner_ring(raster))
    (west, south), (east, north) = ring.min(axis=0).tolist(), ring.max(axis=0).tolist()
    geo = raster.geo_reference
    last_column, last_row = raster.width - 1, raster.height - 1
    centres = [
        geo.upperleft_y + column * geo.skew_y + row * geo.scale_y
        for column in (0, last_column)
        for row in (0, last_row)
    ]
    # Grids whose first cell is centred on a pole reach half a cell beyond it; more is not a latitude.
    if max(map(abs, centres)) > 90.0:
        return RasterBounds(None, "the raster has latitudes outside [-90, 90]")
    if max(abs(west), abs(east)) > 540.0:
        return RasterBounds(None, "the raster has longitudes outside [-540, 540]")
    # Half-pixel shifts and products round: a few units in the last place of the largest term.
    terms = (west, east, south, north, geo.scale_x * raster.width, geo.skew_x * raster.height)
    pad = 4.0 * float(np.spacing(max(map(abs, terms))))
    return RasterBounds(plane_box(west, south, east, north, pad=pad))


@functools.lru_cache(maxsize=64)
def _to_wgs84(crs_wkt: str | None) -> Transformer:
    """The transformation to longitude and latitude on WGS84; a column repeats few CRSs, so they are kept."""
    if crs_wkt is None:
        raise CrsError("crs_wkt is absent")
    from pyproj import Transformer
    from pyproj.exceptions import ProjError

    try:
        named = Crs(crs_wkt)
        if named.form not in (CrsForm.WKT, CrsForm.OTHER):
            raise CrsError("not valid WKT")
        crs = named.to_pyproj()
    except CrsError as error:
        raise CrsError(f"crs_wkt cannot be transformed to WGS84 ({error.what})") from None
    if not (crs.is_geographic or crs.is_projected):
        raise CrsError(f"crs_wkt is a {crs.type_name}, which has no longitude and latitude")
    try:
        return Transformer.from_crs(crs, "OGC:CRS84", always_xy=True)
    except ProjError as error:
        detail = " ".join(str(error).split())
        raise CrsError(f"crs_wkt cannot be transformed to WGS84 ({shortened(detail, 120)})") from error


def _closed_over_pole(lon: _Array, lat: _Array, box: Box) -> Any:
    """The shape of an outline; one that runs around a pole gets the edge of the map along that pole."""
    unrolled = np.unwrap(np.append(lon, lon[0]), period=360.0)
    ring = np.column_stack([unrolled, np.append(lat, lat[0])])
    both_poles = box.ymin <= -90.0 and box.ymax >= 90.0
    if both_poles or np.abs(np.diff(unrolled)).max() > 120.0:
        # An edge through a pole has no side there: the box shows more than the raster, but all of it.
        east = box.xmax + 360.0 if box.wraps else box.xmax
        west, south, north = box.xmin, box.ymin, box.ymax
        ring = np.array([(west, south), (east, south), (east, north), (west, north)])
    elif abs(unrolled[-1] - unrolled[0]) > 180.0:
        pole = 90.0 if box.ymax >= 90.0 else -90.0
        ring = np.concatenate([ring, [[unrolled[-1], pole], [unrolled[0], pole]]])
    return _cut_at_antimeridian(ring)


def _cut_at_antimeridian(ring: _Array) -> Any:
    """A ring with continuous longitudes as shapes within [-180, 180]."""
    import shapely
    from shapely import affinity

    shape = shapely.make_valid(shapely.Polygon(ring))
    west, east = float(ring[:, 0].min()), float(ring[:, 0].max())
    parts: list[Any] = []
    for lap in range(math.floor((west + 180.0) / 360.0), math.floor((east + 180.0) / 360.0) + 1):
        moved = affinity.translate(shape, xoff=-360.0 * lap) if lap else shape
        inside = shapely.get_parts(shapely.intersection(moved, shapely.box(-180.0, -90.0, 180.0, 90.0)))
        parts += [part for part in inside if part.geom_type == "Polygon"]
    # A raster without area has no polygon; its line or point is the best there is.
    return shapely.union_all(parts) if parts else shape


def raster_stats(column: pa.Array | pa.ChunkedArray, *, bands: bool = True) -> ColumnStats:
    """The box and the counts of a column of Havasu's groups; an invalid group is an error.

    Without `bands` the groups may have none, and only their metadata is checked. A raster that has no
    box, such as one without `crs_wkt`, leaves the column without one.

    >>> from geolake_nb.raster_data.raster import GeoReference, Raster
    >>> from geolake_nb.raster_data.arrow import rasters_to_arrow
    >>> here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    >>> stats = raster_stats(rasters_to_arrow([Raster(2, 1, (), None, here), None]))
    >>> stats.box, stats.null_count, str(stats.first_unbounded)
    (None, 1, 'row 0: crs_wkt is absent')
    >>> raster_stats(rasters_to_arrow([])).only_null_or_empty
    True
    """
    read = rasters_from_arrow if bands else metadata_from_arrow
    rasters: Sequence[Raster | RasterMetadata | None] = read(column)
    boxes: list[Box] = []
    unbounded, first = 0, None
    for row, raster in enumerate(rasters):
        if raster is None:
            continue
        bounds = wgs84_bounds(raster)
        if bounds.box is None:
            unbounded += 1
            first = first or Problem(row, bounds.reason or "it has no bounds")
        else:
            boxes.append(bounds.box)
    return ColumnStats(
        # Havasu, Raster bounds: the boxes of all rasters in a data file are unioned as one, on the circle.
        box=None if unbounded else union_all(boxes, circular=True),
        types=(),
        rows=len(rasters),
        null_count=sum(raster is None for raster in rasters),
        empty_count=0,
        unbounded=unbounded,
        first_unbounded=first,
    )
