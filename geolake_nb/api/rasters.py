"""Rasters: GeoTIFF files to DataFrames of Havasu rasters and back, statistics, thumbnails and file checks.

No file that a raster points to is opened, unless it is below one of the `roots` that the caller gives.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import RasterError, RefusedError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from geolake_nb.api.table import Table
    from geolake_nb.jupyter.raster_entries import RasterEntry
    from geolake_nb.raster_data.raster import Raster

    Progress = Callable[[int, int], None]
    PathText = str | os.PathLike[str]
    Roots = PathText | Sequence[PathText]

__all__ = ["check", "load", "read", "statistics", "thumbnail", "thumbnails", "to_geotiff"]


def load(
    spark: SparkSession | None,
    paths: PathText | Sequence[PathText],
    *,
    tile: tuple[int, int] | None = None,
    out_db: bool = False,
    roots: Roots | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """GeoTIFF and COG files as a DataFrame `path, tile_x, tile_y, raster`, read by the tasks of Spark.

    `paths` are files, folders or patterns. `tile` cuts them into rasters of so many columns and rows at most, counted
    from 0 in `tile_x` and `tile_y`; without it a file is one raster. With `out_db` the pixels stay in the files, and
    the rasters point to them. `roots` are the only locations where files may be; any location by default. World
    files and other sidecar files of a GeoTIFF are not read.
    """
    from geolake_nb.raster_data.files import find_geotiffs
    from geolake_nb.raster_data.out_db_files import OutDbRoots
    from geolake_nb.spark.raster_load import load_rasters
    from geolake_nb.spark.session import session_for

    if tile is not None and (len(tile) != 2 or not all(isinstance(side, int) and side > 0 for side in tile)):
        raise RasterError(f"expected a tile size, got {tile!r}", remedy="give its columns and rows, such as (256, 256)")
    sources = find_geotiffs(paths, options=storage_options)
    if roots is not None:
        allowed = OutDbRoots.of(roots, storage_options)
        for source in sources:
            allowed.find(source.url)
    return load_rasters(session_for(spark), sources, tile=tile, out_db=out_db)


def to_geotiff(
    raster: Any, path: PathText, *, roots: Roots = (), storage_options: Mapping[str, str] | None = None, **options: Any
) -> Path:
    """Write a raster, or the one of a row, as a GeoTIFF file with the same pixels, and return its path.

    The pixels of out-db bands are read where `roots` allow it. Other options are GDAL's, such as `tiled=True`.

    >>> import tempfile
    >>> from geolake_nb.raster_data.raster import Band, GeoReference, PixelType, Raster
    >>> here = GeoReference.from_affine((9.0, 0.0, 0.0, 0.0, -9.0, 0.0))
    >>> raster = Raster(2, 1, (Band(PixelType.PT_8BUI, data=b"ab"),), None, here)
    >>> to_geotiff(raster, f"{tempfile.mkdtemp()}/a.tif").name
    'a.tif'
    """
    from geolake_nb.raster_data.dataset import raster_profile

    profile, cells = raster_profile(_in_db(raster, roots, storage_options))
    import rasterio

    target = Path(path)
    with rasterio.open(target, "w", **{"driver": "GTiff", "compress": "deflate", **options, **profile}) as dataset:
        dataset.write(cells)
    return target


def statistics(
    rasters: Any, *, column: str = "raster", roots: Roots = (), storage_options: Mapping[str, str] | None = None
) -> Any:
    """Minimum, maximum and mean of each band, and how many pixels have data and no data.

    Of a raster, or a row with one: a list with a `BandStatistics` for each band. Of a DataFrame of Spark: a DataFrame
    with its other columns and `band, min, max, mean, count, no_data`. NaN counts as no data; bands are counted from 0.
    """
    from geolake_nb.raster_data.band_statistics import band_statistics

    if hasattr(rasters, "mapInArrow"):
        from geolake_nb.raster_data.out_db_files import OutDbRoots
        from geolake_nb.spark.raster_statistics import frame_statistics

        return frame_statistics(rasters, column, OutDbRoots.of(roots, storage_options))
    return band_statistics(_in_db(rasters, roots, storage_options))


def thumbnail(
    raster: Any, *, size: int = 256, roots: Roots = (), storage_options: Mapping[str, str] | None = None
) -> bytes:
    """A picture of a raster, or of the one of a row, as PNG, whose longer side has `size` pixels at most.

    The first three bands are red, green and blue; with fewer, the first one is grey. Pixels without data are
    transparent. Bytes are shown as they are, others stretched between their outer percentiles.
    """
    from geolake_nb.raster_data.input import raster_from
    from geolake_nb.raster_data.out_db_files import OutDbRoots, out_db_picture

    return out_db_picture(raster_from(raster), OutDbRoots.of(roots, storage_options), size=size)


def thumbnails(
    table: Table, *, size: int = 256, roots: Roots = (), storage_options: Mapping[str, str] | None = None
) -> Callable[[RasterEntry], bytes | None]:
    """The default of `t.browse_rasters(thumbnail=...)`; rasters whose files are not allowed have no thumbnail."""

    def picture(entry: RasterEntry) -> bytes | None:
        raster = read(table, entry.path, entry.index_in_file, column=entry.column)
        if raster.num_bands == 0 or 0 in (raster.width, raster.height):
            return None
        try:
            return thumbnail(raster, size=size, roots=roots, storage_options=storage_options)
        except RefusedError:
            return None

    return picture


def read(table: Table, path: str, raster: int = 0, *, column: str | None = None) -> Raster:
    """A raster of a table with its bands: the one with that number, from 0, of those in a data file that are not null.

    Out-db bands stay as they are: `to_geotiff`, `statistics` and `thumbnail` read their files below `roots`.
    """
    from geolake_nb.scan.raster_rows import read_raster

    return read_raster(table._storage, table.snapshot, path, raster, column)


def check(
    table: Table,
    *,
    roots: Roots = (),
    storage_options: Mapping[str, str] | None = None,
    on_progress: Progress | None = None,
) -> pa.Table:
    """Whether the files of a table's out-db bands exist and match the table: one row per band.

    The band exists and has the pixel type; CRS, scale and skew match, and the pixels are aligned; the file may be
    larger. `state` is `ok, refused, missing, unreadable` or `differs`, and `problem` has the reason. Only the headers
    of GeoTIFF files below `roots` are read; other URLs are `refused`, unopened.
    """
    from geolake_nb.raster_data.out_db_files import OutDbRoots
    from geolake_nb.scan.raster_files_check import check_out_db

    allowed = OutDbRoots.of(roots, storage_options)
    return check_out_db(table._storage, table.snapshot, allowed, on_progress=on_progress)


def _in_db(raster: Any, roots: Roots, storage_options: Mapping[str, str] | None) -> Raster:
    from geolake_nb.raster_data.input import raster_from
    from geolake_nb.raster_data.out_db_files import OutDbRoots, in_db

    return in_db(raster_from(raster), OutDbRoots.of(roots, storage_options))
