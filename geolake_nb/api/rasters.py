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
    from geolake_nb.text.messages import Progress

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

    World files and other sidecar files of a GeoTIFF are not read.

    Args:
        spark: the session that reads; with `None` the running one, else a new local one.
        paths: files, folders or patterns.
        tile: columns and rows of the rasters into which a file is cut, counted from 0 in `tile_x` and `tile_y`;
            without it a file is one raster.
        out_db: leave the pixels in the files; the rasters point to them.
        roots: the only locations where files may be; any location by default.
        storage_options: options of the store, named as in deltalake.

    Returns:
        A DataFrame of Spark, which `gl.write(..., format="havasu")` takes.

    Raises:
        RasterError: a tile size that is not two positive numbers, or a file that cannot be read.
        RefusedError: a file outside of the `roots`.

    Example:
        >>> gl.rasters.load(None, "scenes", tile=(0, 256))
        Traceback (most recent call last):
        geolake_nb.errors.RasterError: expected a tile size, got (0, 256); give its columns and ...
    """
    from geolake_nb.raster_data.geotiff import find_geotiffs
    from geolake_nb.raster_data.out_db import OutDbRoots
    from geolake_nb.spark.rasters import load_rasters
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
    """Write a raster, or that of a row, as a GeoTIFF file with the same pixels.

    Args:
        raster: a raster, or a row of a DataFrame with one.
        path: the file to write.
        roots: the only locations where the files of out-db bands are read; none by default.
        storage_options: options of the store, named as in deltalake.
        options: creation options of GDAL, such as `tiled=True`.

    Returns:
        The path of the file.

    Raises:
        RasterError: a raster that violates its encoding.
        RefusedError: a file of an out-db band outside of the `roots`.

    Example:
        >>> import tempfile
        >>> from geolake_nb.raster_data.raster import Band, GeoReference, PixelType, Raster
        >>> here = GeoReference.from_affine((9.0, 0.0, 0.0, 0.0, -9.0, 0.0))
        >>> raster = Raster(2, 1, (Band(PixelType.PT_8BUI, data=b"ab"),), None, here)
        >>> gl.rasters.to_geotiff(raster, f"{tempfile.mkdtemp()}/a.tif").name
        'a.tif'
    """
    from geolake_nb.raster_data.geotiff import raster_profile

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

    NaN counts as no data; bands are counted from 0.

    Args:
        rasters: a raster, a row with one, or a DataFrame of Spark.
        column: the raster column of a DataFrame.
        roots: the only locations where the files of out-db bands are read; none by default.
        storage_options: options of the store, named as in deltalake.

    Returns:
        Of a raster: a list with a `BandStatistics` for each band. Of a DataFrame: a DataFrame with its other columns
        and `band, min, max, mean, count, no_data`.

    Raises:
        RefusedError: a file of an out-db band outside of the `roots`.

    Example:
        >>> scenes = gl.open("scenes")
        >>> raster = gl.rasters.read(scenes, scenes.files.table["path"][0].as_py())
        >>> [band.count for band in gl.rasters.statistics(raster)]
        [16]
    """
    from geolake_nb.raster_data.pixels import band_statistics

    if hasattr(rasters, "mapInArrow"):
        from geolake_nb.raster_data.out_db import OutDbRoots
        from geolake_nb.spark.rasters import frame_statistics

        return frame_statistics(rasters, column, OutDbRoots.of(roots, storage_options))
    return band_statistics(_in_db(rasters, roots, storage_options))


def thumbnail(
    raster: Any, *, size: int = 256, roots: Roots = (), storage_options: Mapping[str, str] | None = None
) -> bytes:
    """A picture of a raster, or of that of a row, as PNG.

    The first three bands are red, green and blue; with fewer, the first one is grey. Pixels without data are
    transparent. Bytes are shown as they are, others stretched between their outer percentiles.

    Args:
        raster: a raster, or a row of a DataFrame with one.
        size: how many pixels the longer side has at most.
        roots: the only locations where the files of out-db bands are read; none by default.
        storage_options: options of the store, named as in deltalake.

    Returns:
        The bytes of a PNG file.

    Raises:
        RefusedError: a file of an out-db band outside of the `roots`.

    Example:
        >>> scenes = gl.open("scenes")
        >>> raster = gl.rasters.read(scenes, scenes.files.table["path"][0].as_py())
        >>> gl.rasters.thumbnail(raster, size=64)[:4]
        b'\x89PNG'
    """
    from geolake_nb.raster_data.arrow import raster_from
    from geolake_nb.raster_data.out_db import OutDbRoots, out_db_picture

    return out_db_picture(raster_from(raster), OutDbRoots.of(roots, storage_options), size=size)


def thumbnails(
    table: Table, *, size: int = 256, roots: Roots = (), storage_options: Mapping[str, str] | None = None
) -> Callable[[RasterEntry], bytes | None]:
    """The thumbnails of `t.browse_rasters()`; rasters whose files are not allowed have none.

    Args:
        table: the table of the rasters.
        size: how many pixels the longer side has at most.
        roots: the only locations where the files of out-db bands are read; none by default.
        storage_options: options of the store, named as in deltalake.

    Returns:
        A function that makes the PNG of a raster, or returns `None`.

    Example:
        >>> scenes = gl.open("scenes")
        >>> scenes.browse_rasters(thumbnail=gl.rasters.thumbnails(scenes, size=64))
        RasterBrowser('/.../scenes', 3 rasters)
    """

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
    """A raster of a table with its bands.

    Out-db bands stay as they are: `to_geotiff`, `statistics` and `thumbnail` read their files below `roots`.

    Args:
        table: a table with rasters.
        path: a data file, as the file table names it.
        raster: the number of the raster, from 0, of those in the file that are not null.
        column: the raster column; it may be left out where there is one.

    Returns:
        The raster.

    Raises:
        GeolakeError: the table does not have the file or the raster.

    Example:
        >>> scenes = gl.open("scenes")
        >>> raster = gl.rasters.read(scenes, scenes.files.table["path"][0].as_py())
        >>> raster.width, raster.height, raster.num_bands
        (4, 4, 1)
    """
    from geolake_nb.scan.rasters import read_raster

    return read_raster(table._storage, table.snapshot, path, raster, column)


def check(
    table: Table,
    *,
    roots: Roots = (),
    storage_options: Mapping[str, str] | None = None,
    on_progress: Progress | None = None,
) -> pa.Table:
    """Whether the files of a table's out-db bands exist and match the table.

    The band exists and has the pixel type; CRS, scale and skew match, and the pixels are aligned; the file may be
    larger. Only the headers of GeoTIFF files below `roots` are read.

    Args:
        table: a table with rasters.
        roots: the only locations where files are opened; none by default.
        storage_options: options of the store, named as in deltalake.
        on_progress: called with the number of files that are done and that of all.

    Returns:
        An Arrow table with a row for each out-db band: `state` is `ok, refused, missing, unreadable` or `differs`, and
        `problem` has the reason.

    Raises:
        GeolakeError: the table has no raster column.

    Example:
        >>> gl.rasters.check(gl.open("scenes")).num_rows  # all pixels are in the table
        0
    """
    from geolake_nb.raster_data.out_db import OutDbRoots
    from geolake_nb.scan.rasters import check_out_db

    allowed = OutDbRoots.of(roots, storage_options)
    return check_out_db(table._storage, table.snapshot, allowed, on_progress=on_progress)


def _in_db(raster: Any, roots: Roots, storage_options: Mapping[str, str] | None) -> Raster:
    from geolake_nb.raster_data.arrow import raster_from
    from geolake_nb.raster_data.out_db import OutDbRoots, in_db

    return in_db(raster_from(raster), OutDbRoots.of(roots, storage_options))
