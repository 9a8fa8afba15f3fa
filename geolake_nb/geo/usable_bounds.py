"""Which bounds of a log or of manifests a scan may rely on, many at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.geo.wrapped_boxes import bad_wraps, wrap_problem
from geolake_nb.model.types import GeographyType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geolake_nb.model.file_table import GeoStatsColumns
    from geolake_nb.model.types import GeometryType, RasterType

__all__ = ["VERTICES_ONLY", "usable_bounds"]

VERTICES_ONLY = "a geography box of another writer may cover only the vertices, not the edges"
"""Why a box of a geography is not used: it is not known to cover the edges."""


def usable_bounds(
    stats: GeoStatsColumns,
    type_: GeometryType | GeographyType | RasterType,
    *,
    covers_edges: NDArray[np.bool_] | None = None,
) -> GeoStatsColumns:
    """The same without the boxes that a scan cannot rely on, each with its reason.

    `covers_edges` marks the files whose boxes of a geography are known to cover the edges: our own.

    >>> from geolake_nb.model.box import Box
    >>> from geolake_nb.model.types import geometry
    >>> from geolake_nb.model.file_table import GeoStatsColumns, sides_of
    >>> stats = GeoStatsColumns(sides_of([Box(0, 0, 1, 1), Box(10, 2, 5, 9)]))
    >>> usable_bounds(stats, geometry("EPSG:3857")).problem.to_pylist()[1][:36]
    'the box runs from x = 10.0 back to 5'
    """
    xmin, xmax = (stats.sides[side].to_numpy(zero_copy_only=False) for side in ("xmin", "xmax"))
    wraps = bad_wraps(xmin, xmax, type_)
    if wraps.any():
        stats = _without(stats, wraps, _reasons(xmin, xmax, wraps, type_))
    if isinstance(type_, GeographyType):
        known = ~np.isnan(xmin) & ~wraps
        doubtful = known if covers_edges is None else known & ~covers_edges
        if doubtful.any():
            stats = _without(stats, doubtful, VERTICES_ONLY)
    return stats


def _reasons(
    xmin: NDArray[np.float64],
    xmax: NDArray[np.float64],
    wraps: NDArray[np.bool_],
    type_: GeometryType | GeographyType | RasterType,
) -> pa.Array:
    rows = np.flatnonzero(wraps)
    texts = np.full(len(wraps), None, object)
    texts[rows] = [wrap_problem(float(xmin[row]), float(xmax[row]), type_) for row in rows.tolist()]
    return pa.array(texts, pa.string())


def _without(stats: GeoStatsColumns, rows: NDArray[np.bool_], reason: pa.Array | str) -> GeoStatsColumns:
    """The statistics with a reason instead of a box in these rows."""
    unusable = pa.array(rows)
    sides = {
        axis: pc.if_else(unusable, pa.scalar(None, pa.float64()), values.cast(pa.float64()))
        for axis, values in stats.sides.items()
    }
    problem = pc.if_else(unusable, reason, pa.scalar(None, pa.string()))
    return replace(
        stats, sides=sides, problem=problem if stats.problem is None else pc.coalesce(stats.problem, problem)
    )
