"""Statistics of the pixels of a band: minimum, maximum, mean, and how many have no data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from geolake_nb.raster_data.raster import Band, Raster

__all__ = ["BandStatistics", "band_statistics", "has_data"]


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
