"""GeoTIFF files as a DataFrame of Havasu's rasters, and the statistics of a raster column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from geolake_nb.errors import GeolakeError, RasterError
from geolake_nb.raster_data.arrow import RASTER_V1, rasters_from_arrow, rasters_to_arrow
from geolake_nb.raster_data.geotiff import open_geotiff
from geolake_nb.raster_data.out_db import MAX_BYTES, in_db
from geolake_nb.raster_data.pixels import band_statistics
from geolake_nb.raster_data.raster import PixelType
from geolake_nb.spark.jobs import cores, map_in_arrow
from geolake_nb.text.messages import url_without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from rasterio import DatasetReader
    from rasterio.windows import Window

    from geolake_nb.raster_data.geotiff import RasterSource
    from geolake_nb.raster_data.out_db import OutDbRoots
    from geolake_nb.raster_data.pixels import BandStatistics
    from geolake_nb.raster_data.raster import Raster

    Tile = tuple[int, int]

__all__ = ["frame_statistics", "load_rasters"]

_TASKS_A_CORE = 3
_BATCH_BYTES = 1 << 24
_COLUMNS = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("tile_x", pa.int32(), nullable=False),
        pa.field("tile_y", pa.int32(), nullable=False),
        pa.field("raster", RASTER_V1, nullable=False),
    ]
)


def load_rasters(
    spark: SparkSession, sources: Sequence[RasterSource], *, tile: Tile | None = None, out_db: bool = False
) -> DataFrame:
    """One row a file, or a tile of it: `path, tile_x, tile_y, raster`; tiles are counted from 0."""
    from pyspark.sql.pandas.types import from_arrow_schema

    files = list(sources)
    tasks = max(1, _TASKS_A_CORE * cores(spark))
    units = spark.range(0, len(files), 1, max(1, min(len(files), tasks)))
    if tile is None:
        units = units.selectExpr("id AS file", "0 AS tile_y")
    else:
        size = tile
        # A file may be of any size: who knows how many rows of tiles there are shares them out again.
        units = units.mapInArrow(lambda ids: _tile_rows(files, size, ids), "file long, tile_y int").repartition(tasks)
    return units.mapInArrow(lambda rows: _read(files, tile, out_db, rows), from_arrow_schema(_nullable(_COLUMNS)))


def _nullable(schema: pa.Schema) -> pa.Schema:
    """The same columns, none required: to Arrow, a null band has nulls in the fields that every band has."""

    def relaxed(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(kind):
            return pa.struct([pa.field(field.name, relaxed(field.type)) for field in kind])
        return pa.list_(relaxed(kind.value_type)) if pa.types.is_list(kind) else kind

    return pa.schema([pa.field(field.name, relaxed(field.type)) for field in schema])


def _tile_rows(
    files: Sequence[RasterSource], tile: Tile, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            with open_geotiff(files[number]) as dataset:
                rows = -(-dataset.height // tile[1])
            yield pa.record_batch(
                {"file": pa.array([number] * rows, pa.int64()), "tile_y": pa.array(range(rows), pa.int32())}
            )


def _read(
    files: Sequence[RasterSource], tile: Tile | None, out_db: bool, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    rows: list[tuple[str, int, int, Raster]] = []
    waiting = 0
    for batch in batches:
        for number, tile_y in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            source = files[number]
            for tile_x, raster in _rasters(source, tile, tile_y, out_db=out_db):
                size = sum(len(band.data or b"") for band in raster.bands)
                if rows and waiting + size > _BATCH_BYTES:
                    yield _batch(rows)
                    rows, waiting = [], 0
                rows.append((source.url, tile_x, tile_y, raster))
                waiting += size
    if rows:
        yield _batch(rows)


def _rasters(source: RasterSource, tile: Tile | None, tile_y: int, *, out_db: bool) -> Iterator[tuple[int, Raster]]:
    from geolake_nb.raster_data.geotiff import in_db_from_dataset, out_db_from_dataset

    with open_geotiff(source) as dataset:
        for tile_x, window in enumerate(_windows(dataset, tile, tile_y)):
            try:
                if out_db:
                    yield tile_x, out_db_from_dataset(dataset, url=source.url, window=window)
                else:
                    _require_room(dataset, window)
                    yield tile_x, in_db_from_dataset(dataset, window=window)
            except GeolakeError as problem:
                shown = url_without_secrets(source.url)
                where = shown if problem.where is None else f"{shown}, {problem.where}"
                raise RasterError(problem.what, where=where, remedy=problem.remedy) from problem


def _windows(dataset: DatasetReader, tile: Tile | None, tile_y: int) -> Iterator[Window]:
    """The tiles of one row of them; those at the far edges are smaller."""
    from rasterio.windows import Window

    width, height = tile or (dataset.width, dataset.height)
    top = tile_y * height
    for left in range(0, dataset.width, width):
        yield Window(left, top, min(width, dataset.width - left), min(height, dataset.height - top))


def _require_room(dataset: DatasetReader, window: Window) -> None:
    types = [PixelType.from_dtype(dtype) for dtype in dataset.dtypes]
    needed = window.width * window.height * sum(type_.size for type_ in types)
    if needed > MAX_BYTES:
        raise RasterError(
            f"its pixels need {needed:,} bytes, too many for one row", remedy="load it with a smaller tile="
        )


def _batch(rows: list[tuple[str, int, int, Raster]]) -> pa.RecordBatch:
    paths, xs, ys, rasters = zip(*rows, strict=True)
    return pa.record_batch(
        [pa.array(paths), pa.array(xs, pa.int32()), pa.array(ys, pa.int32()), rasters_to_arrow(rasters)],
        schema=_COLUMNS,
    )


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
