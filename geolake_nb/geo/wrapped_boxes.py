"""Which boxes may run over the antimeridian: those of longitudes, and of nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from geolake_nb.model.types import GeographyType, GeometryType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geolake_nb.model.types import RasterType

__all__ = ["bad_wraps", "may_wrap", "wrap_problem"]


def may_wrap(type_: GeometryType | GeographyType | RasterType) -> bool:
    """Whether xmin > xmax means the antimeridian: x must be known to be a longitude in degrees.

    >>> from geolake_nb.model.crs import Crs
    >>> [may_wrap(GeometryType(Crs(text))) for text in ("OGC:CRS84", "EPSG:3857", "SRID:0", "NOBODY:1")]
    [True, False, False, False]
    """
    if isinstance(type_, GeometryType):
        return type_.crs.is_geographic
    # Havasu, Raster bounds: those of rasters are in WGS 84.
    return not (isinstance(type_, GeographyType) and type_.crs.is_projected)


def wrap_problem(xmin: float, xmax: float, type_: GeometryType | GeographyType | RasterType) -> str | None:
    """Why a box with these sides bounds nothing, `None` where it is not wrapped or may be.

    >>> from geolake_nb.model.crs import Crs
    >>> wrap_problem(10, 5, GeometryType(Crs("SRID:0")))
    'the box runs from x = 10 back to 5, and only longitudes wrap; SRID:0 has none'
    >>> wrap_problem(170, -170, GeometryType()) is None, wrap_problem(5, 10, GeometryType(Crs("SRID:0"))) is None
    (True, True)
    """
    if not xmin > xmax:
        return None
    if not may_wrap(type_):
        crs = type_.crs.name if type_.crs.is_projected else str(type_.crs)  # type: ignore[union-attr]
        return f"the box runs from x = {xmin} back to {xmax}, and only longitudes wrap; {crs} has none"
    if max(abs(xmin), abs(xmax)) > 180.0:
        return f"the box runs from x = {xmin} back to {xmax}, beyond the longitudes from -180 to 180"
    return None


def bad_wraps(
    xmin: NDArray[np.float64], xmax: NDArray[np.float64], type_: GeometryType | GeographyType | RasterType
) -> NDArray[np.bool_]:
    """The boxes with a `wrap_problem`; NaN means no box.

    >>> from geolake_nb.model.crs import Crs
    >>> bad_wraps(np.array([10.0, 5.0, np.nan]), np.array([5.0, 10.0, np.nan]), GeometryType(Crs("SRID:0"))).tolist()
    [True, False, False]
    """
    with np.errstate(invalid="ignore"):
        wraps = xmin > xmax
        # PROJ resolves the CRS only where a box wraps.
        if wraps.any() and may_wrap(type_):
            wraps &= (np.abs(xmin) > 180.0) | (np.abs(xmax) > 180.0)
    return np.asarray(wraps, np.bool_)
