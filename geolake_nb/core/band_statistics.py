"""What the cells of a band amount to: least, greatest, mean, and how many hold no data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from geolake_nb.core.raster import Band, Raster

__all__ = ["BandStatistics", "band_statistics", "has_data"]


@dataclass(frozen=True, slots=True)
class BandStatistics:
    """The statistics of one band; `None` for what needs a cell with data where there is none."""

    band: int
    """Counted from 0."""
    min: float | None
    max: float | None
    mean: float | None
    count: int
    """The cells with data."""
    no_data: int
    """The cells without: those that hold the band's no-data value, and NaN."""


def band_statistics(raster: Raster) -> list[BandStatistics]:
    """The statistics of each band of an in-db raster.

    >>> from geolake_nb.core.raster import Band, GeoReference, PixelType, Raster
    >>> here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    >>> band = Band(PixelType.PT_8BUI, no_data=bytes([0]), data=bytes([0, 1, 2, 0]))
    >>> band_statistics(Raster(2, 2, (band,), None, here))
    [BandStatistics(band=0, min=1.0, max=2.0, mean=1.5, count=2, no_data=2)]
    >>> band_statistics(Raster(2, 2, (), None, here))
    []
    """
    return [_statistics(index, band, raster.array(index)) for index, band in enumerate(raster.bands)]


def has_data(band: Band, cells: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which cells hold data: neither NaN nor the no-data value of the band."""
    there: npt.NDArray[np.bool_] = ~np.isnan(cells) if cells.dtype.kind == "f" else np.ones(cells.shape, np.bool_)
    if band.no_data is not None:
        there &= cells != np.frombuffer(band.no_data, band.pixel_type.dtype)[0]
    return there


def _statistics(index: int, band: Band, cells: npt.NDArray[Any]) -> BandStatistics:
    held = cells[has_data(band, cells)]
    missing = cells.size - held.size
    if not held.size:
        return BandStatistics(index, None, None, None, 0, missing)
    # Whole numbers of 32 bits are summed without rounding; infinite cells have an infinite mean, or none.
    wide = np.float64 if held.dtype.kind == "f" else np.int64
    with np.errstate(invalid="ignore", over="ignore"):
        mean = float(held.sum(dtype=wide)) / held.size
    return BandStatistics(index, float(held.min()), float(held.max()), mean, int(held.size), missing)
