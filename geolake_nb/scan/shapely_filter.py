"""Tests every row with shapely alone: the answer that pruned scans and other engines are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.expressions.binding import BoundSpatial
from geolake_nb.geo.wkb import may_nest_deeply
from geolake_nb.model.types import GeometryType
from geolake_nb.scan.row_filter import RowFilter, RowTest
from geolake_nb.scan.spatial_filter import query_geometry

if TYPE_CHECKING:
    import pyarrow as pa

    from geolake_nb.expressions.predicate import Predicate

__all__ = ["ShapelyFilter"]


class ShapelyFilter(RowFilter):
    """A bound filter that makes a shapely geometry of every row, without its box and without statistics.

    Values that shapely cannot read or GEOS cannot relate, and geographies, are tested as in a scan.

    >>> import pyarrow as pa
    >>> import shapely
    >>> from geolake_nb.model.crs import CRS84
    >>> from geolake_nb.model.operators import SpatialOp
    >>> query = shapely.to_wkb(shapely.box(0, 0, 1, 1))
    >>> inside = ShapelyFilter(BoundSpatial(SpatialOp.WITHIN, ("g",), GeometryType(), query, CRS84))
    >>> inside.keep(pa.record_batch({"g": shapely.to_wkb([shapely.Point(0.5, 0.5), shapely.Point(1, 1)])})).tolist()
    [True, False]
    """

    def _test(self, predicate: Predicate, batch: pa.RecordBatch) -> RowTest:
        if isinstance(predicate, BoundSpatial) and isinstance(predicate.type, GeometryType):
            test = _by_shapely(predicate, batch)
            if test is not None:
                return test
        return super()._test(predicate, batch)


def _by_shapely(predicate: BoundSpatial, batch: pa.RecordBatch) -> RowTest | None:
    """Which rows match; `None` if shapely has no answer for some of them."""
    import shapely

    if len(predicate.column) > 1:
        return None
    values: list[Any] = batch.column(predicate.column[0]).to_pylist()
    if any(value is not None and may_nest_deeply(value) for value in values):
        return None
    relation = getattr(shapely, predicate.op.name.lower())
    try:
        with np.errstate(invalid="ignore"):
            shapes = shapely.from_wkb(values, on_invalid="raise")
            true = np.asarray(relation(shapes, query_geometry(predicate)), np.bool_)
    except (NotImplementedError, shapely.errors.ShapelyError):
        return None
    return RowTest(true, ~true & ~shapely.is_missing(shapes))
