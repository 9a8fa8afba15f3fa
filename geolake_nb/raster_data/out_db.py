"""Whether an external file has the pixels of an out-db band, and at which offset."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from geolake_nb.errors import CrsError, RasterError
from geolake_nb.model.crs import Crs
from geolake_nb.raster_data.raster import GeoReference, PixelType

if TYPE_CHECKING:
    from rasterio import DatasetReader

    from geolake_nb.raster_data.raster import Raster, RasterMetadata

__all__ = ["RasterFile", "offset_in_file", "out_db_fault"]

_SAME_STEP = 1e-9
"""Pixel sizes are the same when they differ by this part of a pixel at most."""
_SAME_PLACE = 1e-2
"""Pixels are aligned when they differ by this part of a pixel at most: coordinates are rounded more than sizes."""


@dataclass(frozen=True, slots=True)
class RasterFile:
    """The header of a raster file.

    >>> here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    >>> RasterFile(4, 3, ("uint8", "complex64"), None, here).pixel_type(1) is None
    True
    """

    width: int
    height: int
    dtypes: tuple[str, ...]
    """The pixel types of its bands, as GDAL names them."""
    crs_wkt: str | None
    geo_reference: GeoReference

    @classmethod
    def of(cls, dataset: DatasetReader) -> RasterFile:
        """The header of an open dataset."""
        a, b, c, d, e, f = (float(getattr(dataset.transform, name)) for name in "abcdef")
        georeference = GeoReference.from_affine((a, b, c, d, e, f))
        crs_wkt = dataset.crs.to_wkt() if dataset.crs else None
        return cls(dataset.width, dataset.height, tuple(dataset.dtypes), crs_wkt, georeference)

    def pixel_type(self, band: int) -> PixelType | None:
        """The pixel type of the band, counted from 0; `None` where Havasu has no such type."""
        try:
            return PixelType.from_dtype(self.dtypes[band])
        except RasterError:
            return None


def out_db_fault(raster: Raster | RasterMetadata, pixel_type: PixelType, band_no: int, file: RasterFile) -> str | None:
    """Why the file does not match the band, `None` if it does.

    >>> from geolake_nb.raster_data.raster import RasterMetadata
    >>> here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    >>> file = RasterFile(4, 3, ("uint8",), None, here)
    >>> raster = RasterMetadata(2, 2, 1, None, GeoReference.from_affine((1.0, 0.0, 2.0, 0.0, -1.0, -1.0)))
    >>> out_db_fault(raster, PixelType.PT_8BUI, 0, file) is None
    True
    >>> out_db_fault(raster, PixelType.PT_8BUI, 1, file)
    'the file has no band 1 (counted from 0): it has 1'
    """
    # Havasu, Raster data model: the file has the band, with its pixel type, the CRS and the steps of the raster.
    if not 0 <= band_no < len(file.dtypes):
        return f"the file has no band {band_no} (counted from 0): it has {len(file.dtypes)}"
    if file.pixel_type(band_no) is not pixel_type:
        return f"the band has the pixel type {pixel_type.name}, and the band of the file {file.dtypes[band_no]}"
    if not _same_crs(raster.crs_wkt, file.crs_wkt):
        return "the CRS of the file is not that of the raster"
    try:
        offset_in_file(raster, file)
    except RasterError as error:
        return error.what
    return None


def offset_in_file(raster: Raster | RasterMetadata, file: RasterFile) -> tuple[int, int]:
    """The column and row of the file at which the raster begins.

    >>> from geolake_nb.raster_data.raster import RasterMetadata
    >>> file = RasterFile(9, 9, ("uint8",), None, GeoReference.from_affine((2.0, 0.0, 10.0, 0.0, -2.0, 50.0)))
    >>> tile = RasterMetadata(3, 3, 1, None, GeoReference.from_affine((2.0, 0.0, 14.0, 0.0, -2.0, 42.0)))
    >>> offset_in_file(tile, file)
    (2, 4)
    """
    ours, theirs = raster.geo_reference, file.geo_reference
    if not (ours.is_finite and theirs.is_finite):
        raise RasterError("the geo_reference is not finite")
    steps = [(getattr(ours, name), getattr(theirs, name)) for name in ("scale_x", "scale_y", "skew_x", "skew_y")]
    cell = max(abs(step) for _, step in steps)
    if any(abs(wanted - other) > _SAME_STEP * cell for wanted, other in steps):
        raise RasterError("the scale or skew of the file is not that of the raster")
    area = theirs.scale_x * theirs.scale_y - theirs.skew_x * theirs.skew_y
    if area == 0 or not math.isfinite(area):
        raise RasterError("the pixels of the file have no area")
    dx, dy = ours.upperleft_x - theirs.upperleft_x, ours.upperleft_y - theirs.upperleft_y
    column = (dx * theirs.scale_y - dy * theirs.skew_x) / area
    row = (dy * theirs.scale_x - dx * theirs.skew_y) / area
    if not (math.isfinite(column) and math.isfinite(row)):
        raise RasterError("the raster lies outside the file")
    first = round(column), round(row)
    if max(abs(column - first[0]), abs(row - first[1])) > _SAME_PLACE:
        raise RasterError("the pixels of the raster are not aligned with those of the file")
    # The file may be larger than the raster, and no smaller.
    if min(first) < 0 or first[0] + raster.width > file.width or first[1] + raster.height > file.height:
        raise RasterError("the raster extends beyond the file")
    return first


def _same_crs(ours: str | None, theirs: str | None) -> bool:
    if ours is None or theirs is None or ours == theirs:
        return ours == theirs
    try:
        return Crs(ours).same_as(Crs(theirs))
    except CrsError:
        return False
