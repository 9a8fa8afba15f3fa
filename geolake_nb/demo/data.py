"""The data sets as Arrow tables: one Parquet file each, next to this module."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["airports", "countries", "earthquakes", "storms"]


def airports() -> pa.Table:
    """Airports and airfields of the whole world: ICAO code, elevation in feet, WKB points of longitude and latitude.

    Returns:
        An Arrow table.

    Example:
        >>> gl.demo.airports().schema.names
        ['code', 'name', 'city', 'country', 'elevation', 'location']
    """
    return _shipped("airports")


def countries() -> pa.Table:
    """Countries with their outlines, coarse: WKB polygons that are cut at the antimeridian.

    Returns:
        An Arrow table.

    Example:
        >>> gl.demo.countries().schema.names
        ['name', 'continent', 'population', 'shape']
    """
    return _shipped("countries")


def earthquakes() -> pa.Table:
    """Earthquakes of one week, 31 January to 7 February 2018: depth in kilometres, WKB points.

    Returns:
        An Arrow table.

    Example:
        >>> gl.demo.earthquakes().schema.names
        ['place', 'magnitude', 'time', 'depth', 'location']
    """
    return _shipped("earthquakes")


def storms() -> pa.Table:
    """Tracks of the tropical storms of 2010 to 2024: WKB lines with M, the hours since the storm began.

    Returns:
        An Arrow table.

    Example:
        >>> gl.demo.storms().schema.names
        ['storm', 'season', 'basin', 'began', 'wind', 'track']
    """
    return _shipped("storms")


def _shipped(name: str) -> pa.Table:
    import pyarrow.parquet as pq

    with resources.as_file(resources.files("geolake_nb.demo") / f"{name}.parquet") as path:
        return pq.read_table(path)
