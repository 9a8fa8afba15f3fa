"""The names of cells from longitudes and latitudes: quadkeys and geohashes here, H3 by its own library.

Quadkeys follow Bing Maps (Tile System), geohashes the interleaved bits of geohash.org: both halve each axis again
and again, so that the name of a cell begins with those of the cells around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from geolake_nb.errors import MissingDependencyError
from geolake_nb.model.cells import CellSystem

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["cell_names", "require_cells"]

_BASE_32 = np.frombuffer(b"0123456789bcdefghjkmnpqrstuvwxyz", np.uint8)
_BASE_4 = np.frombuffer(b"0123", np.uint8)
_MAX_LATITUDE = 85.05112878
"""Bing Maps, Tile System: there the map of the world is a square."""


def require_cells(system: CellSystem) -> None:
    """Raise where the package for these cells is not installed."""
    if system is CellSystem.H3:
        _h3()


def cell_names(
    system: CellSystem, level: int, longitude: NDArray[np.float64], latitude: NDArray[np.float64]
) -> pa.Array:
    """The cell of each point, null for one that is not on the Earth: not finite, or beyond 180 and 90 degrees.

    >>> where = np.array([-5.603, np.nan]), np.array([42.605, 0.0])
    >>> cell_names(CellSystem.GEOHASH, 5, *where).to_pylist()  # the example of Wikipedia
    ['ezs42', None]
    >>> cell_names(CellSystem.QUADKEY, 3, np.array([-20.0]), np.array([-50.0])).to_pylist()  # its tile is (3, 5)
    ['213']
    """
    with np.errstate(invalid="ignore"):
        known = (np.abs(longitude) <= 180.0) & (np.abs(latitude) <= 90.0)
    names = pa.array(_NAMES[system](level, longitude[known], latitude[known]), pa.string())
    if known.all():
        return names
    rows = np.cumsum(known) - 1
    return names.take(pa.array(np.maximum(rows, 0), mask=~known)) if known.any() else pa.nulls(len(known), pa.string())


def _quadkeys(level: int, longitude: NDArray[np.float64], latitude: NDArray[np.float64]) -> NDArray[np.str_]:
    sine = np.sin(np.radians(np.clip(latitude, -_MAX_LATITUDE, _MAX_LATITUDE)))
    x = _steps(longitude / 360.0 + 0.5, level)
    y = _steps(0.5 - np.log((1.0 + sine) / (1.0 - sine)) / (4.0 * np.pi), level)
    digits = np.empty((len(x), level), np.uint8)
    for place in range(level):
        shift = level - 1 - place
        digits[:, place] = (x >> shift & 1) + 2 * (y >> shift & 1)
    return _texts(_BASE_4[digits])


def _geohashes(level: int, longitude: NDArray[np.float64], latitude: NDArray[np.float64]) -> NDArray[np.str_]:
    bits = 5 * level
    # Longitude comes first, so it has the odd bit.
    of_x, of_y = (bits + 1) // 2, bits // 2
    x = _steps((longitude + 180.0) / 360.0, of_x)
    y = _steps((latitude + 90.0) / 180.0, of_y)
    digits = np.zeros((len(x), level), np.uint8)
    for bit in range(bits):
        values, shift = (x, of_x - 1 - bit // 2) if bit % 2 == 0 else (y, of_y - 1 - bit // 2)
        digits[:, bit // 5] |= ((values >> shift & 1) << (4 - bit % 5)).astype(np.uint8)
    return _texts(_BASE_32[digits])


def _steps(share: NDArray[np.float64], bits: int) -> NDArray[np.int64]:
    """Which of so many equal parts of the axis each share is in; the end belongs to the last one."""
    return np.clip(np.floor(share * 2.0**bits), 0, 2**bits - 1).astype(np.int64)


def _texts(characters: NDArray[np.uint8]) -> NDArray[np.str_]:
    length = characters.shape[1]
    return np.ascontiguousarray(characters).view(f"S{length}").reshape(-1).astype(f"U{length}")


def _h3_cells(level: int, longitude: NDArray[np.float64], latitude: NDArray[np.float64]) -> list[str]:
    name = _h3().latlng_to_cell
    return [name(y, x, level) for x, y in zip(longitude.tolist(), latitude.tolist(), strict=True)]


def _h3() -> Any:
    try:
        import h3
    except ImportError:
        what, remedy = "cells of H3 need the package h3", "pip install 'geolake-nb[h3]'"
        raise MissingDependencyError(what, remedy=remedy) from None
    return h3


_NAMES: dict[CellSystem, Any] = {
    CellSystem.H3: _h3_cells,
    CellSystem.QUADKEY: _quadkeys,
    CellSystem.GEOHASH: _geohashes,
}
