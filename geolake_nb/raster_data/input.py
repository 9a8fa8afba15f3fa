"""Reads a raster from user input: a `Raster`, a row of Spark or Arrow, or the group as a dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from geolake_nb.errors import RasterError
from geolake_nb.raster_data.arrow import METADATA_FIELDS, RASTER_V1, rasters_from_arrow
from geolake_nb.raster_data.raster import Raster

__all__ = ["raster_from"]


def raster_from(value: Any) -> Raster:
    """The one raster of a value; a row may have other columns.

    >>> from geolake_nb.raster_data.raster import GeoReference
    >>> from geolake_nb.raster_data.arrow import rasters_to_arrow
    >>> here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    >>> raster = Raster(2, 1, (), None, here)
    >>> group = rasters_to_arrow([raster])[0]
    >>> raster_from(raster) == raster_from(group) == raster_from({"path": "a", "raster": group.as_py()}) == raster
    True
    >>> raster_from({"path": "a"})
    Traceback (most recent call last):
    geolake_nb.errors.RasterError: there is no raster in the row; its fields are: path
    """
    if isinstance(value, Raster):
        return value
    plain = _plain(value)
    if not isinstance(plain, dict):
        raise RasterError(
            f"expected a raster, got a {type(value).__name__}", remedy="give a raster, or a row that has one"
        )
    groups = [plain] if _is_group(plain) else [member for member in plain.values() if _is_group(member)]
    if len(groups) != 1:
        how_many = "no raster" if not groups else f"{len(groups)} rasters"
        names = ", ".join(sorted(map(str, plain)))
        raise RasterError(f"there is {how_many} in the row", remedy=f"its fields are: {names}")
    try:
        column = pa.array(groups, RASTER_V1)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as problem:
        raise RasterError(f"the raster has fields of other types than Havasu's ({problem})") from None
    raster = rasters_from_arrow(column)[0]
    assert raster is not None
    return raster


def _is_group(value: Any) -> bool:
    return isinstance(value, dict) and all(name in value for name in METADATA_FIELDS)


def _plain(value: Any) -> Any:
    """Dictionaries all through, with bytes in them."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if hasattr(value, "asDict"):  # a row of Spark
        value = value.asDict()
    if isinstance(value, Mapping):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return bytes(value) if isinstance(value, bytearray) else value
