"""The statistics of the bands in a raster column, computed in the tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from geolake_nb.errors import RasterError
from geolake_nb.raster_data.arrow import rasters_from_arrow
from geolake_nb.raster_data.out_db import in_db
from geolake_nb.raster_data.pixels import band_statistics
from geolake_nb.spark.row_stream import map_in_arrow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from geolake_nb.raster_data.out_db import OutDbRoots
    from geolake_nb.raster_data.pixels import BandStatistics

__all__ = ["frame_statistics"]

_STATISTICS = pa.schema(
    [
        pa.field("band", pa.int32()),
        pa.field("min", pa.float64()),
        pa.field("max", pa.float64()),
        pa.field("mean", pa.float64()),
        pa.field("count", pa.int64()),
        pa.field("no_data", pa.int64()),
    ]
)


def frame_statistics(frame: DataFrame, column: str, roots: OutDbRoots) -> DataFrame:
    """The other columns of the frame with `band, min, max, mean, count, no_data`, one row a band of each raster."""
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    if column not in frame.columns:
        raise RasterError(f"no column {column!r}", remedy=f"give column=, one of: {', '.join(sorted(frame.columns))}")
    others = [field for field in frame.schema.fields if field.name != column]
    clash = sorted({field.name for field in others} & set(_STATISTICS.names))
    if clash:
        raise RasterError(f"the frame already has columns named {', '.join(clash)}", remedy="rename or drop them")
    schema = StructType([*others, *from_arrow_schema(_STATISTICS).fields])
    return map_in_arrow(frame, lambda batches: _measure(batches, column, roots), schema)


def _measure(batches: Iterator[pa.RecordBatch], column: str, roots: OutDbRoots) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        owners: list[int] = []
        statistics: list[BandStatistics] = []
        # One raster at a time: a whole batch of them would hold all pixels twice.
        for row in range(batch.num_rows):
            raster = rasters_from_arrow(batch.column(column).slice(row, 1))[0]
            if raster is not None:
                some = band_statistics(in_db(raster, roots))
                owners += [row] * len(some)
                statistics += some
        kept = batch.drop_columns([column]).take(pa.array(owners, pa.int64()))
        arrays = [pa.array([getattr(band, field.name) for band in statistics], field.type) for field in _STATISTICS]
        yield pa.RecordBatch.from_arrays([*kept.columns, *arrays], [*kept.schema.names, *_STATISTICS.names])
