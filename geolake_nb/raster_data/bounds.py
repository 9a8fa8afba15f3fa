"""The statistics of a column of rasters: how many there are, and the box in WGS84 that holds them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.model.box import union_all
from geolake_nb.model.statistics import ColumnStats, Problem
from geolake_nb.raster_data.arrow import metadata_from_arrow, rasters_from_arrow
from geolake_nb.raster_data.footprint import wgs84_bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from geolake_nb.model.box import Box
    from geolake_nb.raster_data.raster import Raster, RasterMetadata

__all__ = ["raster_stats"]


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
