"""What is made of the pixels of a raster: statistics of a band, and a small picture."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.errors import RasterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from geolake_nb.raster_data.raster import Band, Raster, RasterMetadata

__all__ = ["BandStatistics", "band_statistics", "has_data", "in_db_picture", "picture", "picture_bands", "picture_size"]


@dataclass(frozen=True, slots=True)
class BandStatistics:
    """The statistics of one band; `None` where no pixel has data."""

    band: int
    """Counted from 0."""
    min: float | None
    max: float | None
    mean: float | None
    count: int
    """The pixels with data."""
    no_data: int
    """The pixels without: those with the band's no-data value, and NaN."""


def band_statistics(raster: Raster) -> list[BandStatistics]:
    """The statistics of each band of an in-db raster.

    >>> from geolake_nb.raster_data.raster import Band, GeoReference, PixelType, Raster
    >>> here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    >>> band = Band(PixelType.PT_8BUI, no_data=bytes([0]), data=bytes([0, 1, 2, 0]))
    >>> band_statistics(Raster(2, 2, (band,), None, here))
    [BandStatistics(band=0, min=1.0, max=2.0, mean=1.5, count=2, no_data=2)]
    >>> band_statistics(Raster(2, 2, (), None, here))
    []
    """
    return [_statistics(index, band, raster.array(index)) for index, band in enumerate(raster.bands)]


def has_data(band: Band, cells: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which pixels have data: neither NaN nor the no-data value of the band."""
    there: npt.NDArray[np.bool_] = ~np.isnan(cells) if cells.dtype.kind == "f" else np.ones(cells.shape, np.bool_)
    if band.no_data is not None:
        there &= cells != np.frombuffer(band.no_data, band.pixel_type.dtype)[0]
    return there


def _statistics(index: int, band: Band, cells: npt.NDArray[Any]) -> BandStatistics:
    valid = cells[has_data(band, cells)]
    missing = cells.size - valid.size
    if not valid.size:
        return BandStatistics(index, None, None, None, 0, missing)
    # Whole numbers of 32 bits are summed without rounding; infinite cells have an infinite mean, or none.
    wide = np.float64 if valid.dtype.kind == "f" else np.int64
    with np.errstate(invalid="ignore", over="ignore"):
        mean = float(valid.sum(dtype=wide)) / valid.size
    return BandStatistics(index, float(valid.min()), float(valid.max()), mean, int(valid.size), missing)


_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_RGBA = 6
_MAX_SIZE = 4096


def picture_size(raster: Raster | RasterMetadata, size: int) -> tuple[int, int]:
    """Width and height of a picture whose longer side is `size` at most; a raster is never blown up.

    >>> from geolake_nb.raster_data.raster import GeoReference, RasterMetadata
    >>> here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    >>> picture_size(RasterMetadata(1000, 500, 1, None, here), 256)
    (256, 128)
    >>> picture_size(RasterMetadata(100_000, 2, 1, None, here), 256)
    (256, 1)
    """
    if not 1 <= size <= _MAX_SIZE:
        raise RasterError(f"a picture cannot be {size} wide", remedy=f"use 1 to {_MAX_SIZE}")
    if raster.width == 0 or raster.height == 0:
        raise RasterError("the raster has no pixels")
    scale = min(1.0, size / max(raster.width, raster.height))
    return max(1, round(raster.width * scale)), max(1, round(raster.height * scale))


def picture_bands(raster: Raster) -> range:
    """The bands that are shown: the first three as red, green and blue, or the first one alone in grey."""
    if not raster.bands:
        raise RasterError("the raster has no bands")
    return range(3 if raster.num_bands >= 3 else 1)


def in_db_picture(raster: Raster, *, size: int = 256) -> bytes:
    """The PNG of a raster that has its cells in it.

    >>> from geolake_nb.raster_data.raster import Band, GeoReference, PixelType, Raster
    >>> here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    >>> in_db_picture(Raster(2, 1, (Band(PixelType.PT_8BUI, data=b"ab"),), None, here))[1:4]
    b'PNG'
    """
    width, height = picture_size(raster, size)
    columns = _centres(raster.width, width)
    rows = _centres(raster.height, height)
    cells = [raster.array(index)[np.ix_(rows, columns)] for index in picture_bands(raster)]
    return picture(raster, cells)


def picture(raster: Raster, cells: Sequence[npt.NDArray[Any]]) -> bytes:
    """The PNG of cells that were picked from the bands which are shown."""
    shown = [_shades(raster.bands[index], some) for index, some in zip(picture_bands(raster), cells, strict=True)]
    colours = shown if len(shown) == 3 else shown * 3
    opaque = np.logical_or.reduce([has_data(raster.bands[index], some) for index, some in enumerate(cells)])
    pixels = np.dstack([*colours, np.where(opaque, 255, 0).astype(np.uint8)])
    geo = raster.geo_reference
    # Rows that run to the north are turned, so that north is up as on a map.
    if geo.scale_y > 0 and geo.skew_x == geo.skew_y == 0:
        pixels = pixels[::-1]
    return _png(pixels)


def _centres(cells: int, pixels: int) -> npt.NDArray[np.int64]:
    """The cell below the middle of each pixel."""
    return ((np.arange(pixels) + 0.5) * cells / pixels).astype(np.int64)


def _shades(band: Band, cells: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Cells as 0 to 255: bytes as they are, others stretched between their outer percentiles."""
    if cells.dtype == np.uint8:
        return cells
    values = cells.astype(np.float64)
    known = values[has_data(band, cells) & np.isfinite(values)]
    if not known.size:
        return np.zeros(cells.shape, np.uint8)
    low, high = np.percentile(known, (2, 98)).tolist()
    if low == high:
        low, high = float(known.min()), float(known.max())
    # Halves, so that the span of the largest doubles is still one.
    span = (high / 2 - low / 2) or 1.0
    with np.errstate(invalid="ignore", over="ignore"):
        shades = np.nan_to_num((values / 2 - low / 2) / span * 255.0, nan=0.0, posinf=255.0, neginf=0.0)
    pixels: npt.NDArray[np.uint8] = np.clip(shades, 0, 255).astype(np.uint8)
    return pixels


def _png(pixels: npt.NDArray[np.uint8]) -> bytes:
    height, width, _ = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _RGBA, 0, 0, 0)
    # Each row begins with the number of its filter: 0 is none.
    rows = np.zeros((height, 1 + 4 * width), np.uint8)
    rows[:, 1:] = pixels.reshape(height, 4 * width)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(name, data) for name, data in parts)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
