"""Raster values from and to datasets of rasterio. The caller opens and closes; no path is opened here."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.errors import MissingDependencyError, RasterError
from geolake_nb.raster_data.raster import Band, GeoReference, PixelType, Raster

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt
    from rasterio import DatasetReader
    from rasterio.windows import Window

__all__ = ["in_db_from_dataset", "open_raster", "out_db_from_dataset", "raster_profile"]


def in_db_from_dataset(dataset: DatasetReader, *, window: Window | None = None) -> Raster:
    """The raster of an open dataset, or of a window of it, with every pixel in it.

    Band metadata that Havasu cannot store (colour tables, masks, units) is dropped.

    >>> here = GeoReference.from_affine((9.0, 0.0, 0.0, 0.0, -9.0, 0.0))
    >>> raster = Raster(2, 1, (Band(PixelType.PT_8BUI, data=b"ab"),), None, here)
    >>> with open_raster(raster) as dataset:
    ...     in_db_from_dataset(dataset) == raster
    True
    """
    pixel_types = _pixel_types(dataset)
    window, georeference = _grid(dataset, window)
    bands = []
    for index, pixel_type in enumerate(pixel_types):
        cells = dataset.read(index + 1, window=window)
        data = cells.astype(pixel_type.dtype, copy=False).tobytes()
        bands.append(Band(pixel_type, _no_data(dataset.nodatavals[index], pixel_type), data))
    return Raster(window.width, window.height, tuple(bands), _crs_wkt(dataset), georeference)


def out_db_from_dataset(dataset: DatasetReader, *, url: str, window: Window | None = None) -> Raster:
    """The raster of an open dataset, or of a window of it, with its pixels left in the file at `url`.

    >>> here = GeoReference.from_affine((9.0, 0.0, 0.0, 0.0, -9.0, 0.0))
    >>> raster = Raster(2, 1, (Band(PixelType.PT_8BUI, data=b"ab"),), None, here)
    >>> with open_raster(raster) as dataset:
    ...     out_db_from_dataset(dataset, url="s3://bucket/a.tif").bands[0].out_db_band_no
    0
    """
    # Havasu, Raster data model: band_number is the 0-based index of the band in the external file.
    bands = tuple(
        Band(pixel_type, _no_data(no_data, pixel_type), out_db_band_no=index, out_db_url=url)
        for index, (pixel_type, no_data) in enumerate(zip(_pixel_types(dataset), dataset.nodatavals, strict=True))
    )
    window, georeference = _grid(dataset, window)
    return Raster(window.width, window.height, bands, _crs_wkt(dataset), georeference)


def raster_profile(raster: Raster) -> tuple[dict[str, Any], npt.NDArray[Any]]:
    """The profile and the pixels (bands, rows, columns) with which rasterio writes an in-db raster.

    The driver is the caller's choice. Bands must share pixel type and no-data value, as in a GeoTIFF.

    >>> here = GeoReference.from_affine((9.0, 0.0, 0.0, 0.0, -9.0, 0.0))
    >>> profile, cells = raster_profile(Raster(2, 1, (Band(PixelType.PT_8BUI, data=b"ab"),), None, here))
    >>> profile["count"], profile["dtype"], profile["nodata"], cells.tolist()
    (1, 'uint8', None, [[[97, 98]]])
    """
    affine = _rasterio("transform").Affine
    if not raster.bands or raster.width == 0 or raster.height == 0:
        raise RasterError("the raster has no pixels", remedy="rasterio needs at least one pixel")
    pixel_types = sorted({band.pixel_type.name for band in raster.bands})
    if len(pixel_types) > 1:
        remedy = "write bands of one pixel type at a time"
        raise RasterError(f"the bands have the pixel types {', '.join(pixel_types)}", remedy=remedy)
    if len({band.no_data for band in raster.bands}) > 1:
        remedy = "write bands with one no-data value at a time"
        raise RasterError("the bands have different no-data values", remedy=remedy)
    cells = np.stack([raster.array(index) for index in range(raster.num_bands)])
    cells = cells.astype(cells.dtype.newbyteorder("="), copy=False)
    profile = {
        "width": raster.width,
        "height": raster.height,
        "count": raster.num_bands,
        "dtype": cells.dtype.name,
        "crs": _crs(raster.crs_wkt),
        "transform": affine(*raster.geo_reference.to_affine()),
        "nodata": raster.bands[0].no_data_value,
    }
    return profile, cells


@contextlib.contextmanager
def open_raster(raster: Raster, *, driver: str = "GTiff") -> Iterator[DatasetReader]:
    """An in-db raster as a rasterio dataset in memory, for the length of a `with` block.

    >>> here = GeoReference.from_affine((9.0, 0.0, 0.0, 0.0, -9.0, 0.0))
    >>> with open_raster(Raster(2, 1, (Band(PixelType.PT_8BUI, data=b"ab"),), None, here)) as dataset:
    ...     dataset.read(1).tolist()
    [[97, 98]]
    """
    profile, cells = raster_profile(raster)
    with _rasterio("io").MemoryFile() as memory:
        with memory.open(driver=driver, **profile) as writer:
            writer.write(cells)
        with memory.open() as dataset:
            yield dataset


def _rasterio(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(f"rasterio.{module}")
    except ImportError as error:
        remedy = "run: pip install 'geolake-nb[raster]'"
        raise MissingDependencyError("rasterio is not installed", remedy=remedy) from error


def _pixel_types(dataset: DatasetReader) -> list[PixelType]:
    types = []
    for number, dtype in enumerate(dataset.dtypes, start=1):
        try:
            types.append(PixelType.from_dtype(dtype))
        except RasterError as error:
            where = f"band {number} of the dataset"
            raise RasterError(error.what, where=where, remedy=error.remedy) from None
    return types


def _no_data(value: float | None, pixel_type: PixelType) -> bytes | None:
    """The no-data value in the bytes of a pixel; `None` also when no cell of that type can equal it."""
    if value is None:
        return None
    dtype = pixel_type.dtype
    if dtype.kind == "f":
        # GDAL keeps no-data as a double and rounds it to the type of the cells when it compares.
        with np.errstate(over="ignore"):
            return np.array(value, np.float64).astype(dtype).tobytes()
    limits = np.iinfo(dtype)
    if not (value == value // 1 and limits.min <= value <= limits.max):
        return None
    return np.array(int(value), dtype).tobytes()


def _grid(dataset: DatasetReader, window: Window | None) -> tuple[Window, GeoReference]:
    """The pixels of the window, or of the whole dataset, and their georeference."""
    if window is None:
        window = _rasterio("windows").Window(0, 0, dataset.width, dataset.height)
    window = _whole_pixels(dataset, window)
    return window, _geo_reference(dataset, column=window.col_off, row=window.row_off)


def _whole_pixels(dataset: DatasetReader, window: Window) -> Window:
    sides = (window.col_off, window.row_off, window.width, window.height)
    whole = all(side == int(side) for side in sides)
    inside = 0 <= window.col_off <= window.col_off + window.width <= dataset.width
    inside = inside and 0 <= window.row_off <= window.row_off + window.height <= dataset.height
    if not whole or not inside or 0 in sides[2:]:
        grid = f"{dataset.width} x {dataset.height}"
        raise RasterError(
            f"the window (col_off, row_off, width, height) = {sides} is not of whole pixels inside {grid}",
            remedy="intersect it with the dataset and round it",
        )
    return _rasterio("windows").Window(*map(int, sides))


def _crs_wkt(dataset: DatasetReader) -> str | None:
    # WKT 1 where it can express the CRS, which more readers support; GDAL turns to WKT 2 by itself where it cannot.
    return dataset.crs.to_wkt() if dataset.crs else None


def _crs(crs_wkt: str | None) -> Any:
    if crs_wkt is None:
        return None
    try:
        return _rasterio("crs").CRS.from_wkt(crs_wkt)
    except _rasterio("errors").CRSError as error:
        detail = " ".join(str(error).split())[:120]
        raise RasterError(f"crs_wkt cannot be read ({detail})", remedy="store the CRS as WKT") from error


def _geo_reference(dataset: DatasetReader, *, column: int = 0, row: int = 0) -> GeoReference:
    transform = dataset.transform
    a, b, c, d, e, f = (float(getattr(transform, name)) for name in "abcdef")
    return GeoReference.from_affine((a, b, c + column * a + row * b, d, e, f + column * d + row * e))
