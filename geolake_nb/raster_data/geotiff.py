"""GeoTIFF files: found, and opened such that GDAL reads no other file; raster values from and to them."""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote

import numpy as np

from geolake_nb.errors import GeolakeError, MissingDependencyError, MissingFileError, RasterError
from geolake_nb.raster_data.raster import Band, GeoReference, PixelType, Raster
from geolake_nb.storage.hive_paths import glob_pattern, has_glob, is_hidden
from geolake_nb.storage.location import Location
from geolake_nb.storage.ranges import open_ranges
from geolake_nb.storage.storage import Storage
from geolake_nb.text.messages import url_without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt
    from rasterio import DatasetReader
    from rasterio.windows import Window

__all__ = [
    "RasterSource",
    "find_geotiffs",
    "in_db_from_dataset",
    "open_geotiff",
    "open_geotiff_at",
    "open_raster",
    "out_db_from_dataset",
    "raster_profile",
]

# The name of the file in GDAL: it has no folder, so there are no sidecar files.
_NAME = "raster.tif"
_ENDINGS = (".tif", ".tiff")
_READ_AHEAD = 1 << 16

# GDAL gets its bytes only from us. Should a driver try to open more: no listing, no sidecar
# files, no georeferencing except the internal one, and no name that a network reader accepts.
_SETTINGS = {
    "CPL_VSIL_CURL_ALLOWED_EXTENSIONS": "{none}",
    "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
    "GDAL_GEOREF_SOURCES": "INTERNAL",
    "GDAL_HTTP_MAX_RETRY": "0",
    "GDAL_PAM_ENABLED": "NO",
}


@dataclass(frozen=True, slots=True)
class RasterSource:
    """A file and the storage that reads it; it is sent to executors."""

    storage: Storage
    key: str

    @property
    def url(self) -> str:
        """The URL of the file, without secrets.

        >>> RasterSource(Storage.at("/data"), "a b.tif").url
        'file:///data/a%20b.tif'
        """
        address = f"{self.storage.location}/{self.key}"
        if self.storage.is_local:
            return Path(address).as_uri()
        scheme, _, rest = address.partition("://")
        # Of the other schemes only http has escapes.
        return f"{scheme}://{quote(rest, safe='/:@')}" if scheme in ("http", "https") else address


def find_geotiffs(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, options: Mapping[str, str] | None = None
) -> list[RasterSource]:
    """The files of paths or URLs: in a folder all that end in .tif or .tiff, for a pattern those that match.

    >>> import tempfile, pathlib
    >>> folder = tempfile.mkdtemp()
    >>> for name in ("b.tif", "a.TIFF", "c.txt"):
    ...     _ = pathlib.Path(folder, name).write_bytes(b"")
    >>> [source.key for source in find_geotiffs(folder)]
    ['a.TIFF', 'b.tif']
    >>> find_geotiffs([])
    []
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    sources = [source for path in given for source in _find(os.fspath(path), options)]
    return list({source.url: source for source in sources}.values())


def _find(location: str, options: Mapping[str, str] | None) -> list[RasterSource]:
    if has_glob(location) and not os.path.exists(location):
        folders, names = location.split("/"), list[str]()
        while any(map(has_glob, folders)):
            names.insert(0, folders.pop())
        storage = Storage.at("/".join(folders) or ("/" if location.startswith("/") else "."), options=options)
        pattern = glob_pattern("/".join(names))
        keys = [entry.path for entry in storage.list(recursive=True) if pattern.fullmatch(entry.path)]
    else:
        storage, name = Storage.with_file(location, options=options)
        if name and storage.exists(name):
            return [RasterSource(storage, name)]
        storage = Storage.at(location, options=options)
        names = [entry.path for entry in storage.list(recursive=True)]
        keys = [name for name in names if name.lower().endswith(_ENDINGS) and not any(map(is_hidden, name.split("/")))]
    if not keys:
        raise MissingFileError(
            "no GeoTIFF found", where=Location.of(location).text, remedy="give files, a folder of .tif or a pattern"
        )
    return [RasterSource(storage, key) for key in sorted(keys)]


@contextmanager
def open_geotiff(source: RasterSource) -> Iterator[DatasetReader]:
    """The file as a rasterio dataset; sidecar files, such as world files, are not read.

    >>> import tempfile, pathlib
    >>> folder = tempfile.mkdtemp()
    >>> _ = pathlib.Path(folder, "a.tif").write_text('<VRTDataset rasterXSize="1" rasterYSize="1"/>')
    >>> with open_geotiff(RasterSource(Storage.at(folder), "a.tif")) as dataset:
    ...     pass
    Traceback (most recent call last):
    geolake_nb.errors.RasterError: file:///...a.tif: not a valid GeoTIFF; ...
    """
    storage, key = source.storage, source.key
    if storage.is_local and not storage.exists(key):  # nor a pipe or a device, which would block
        raise MissingFileError("there is no such file", where=url_without_secrets(source.url))

    def open_file() -> BinaryIO:
        file: Any = open_ranges(storage, key)
        # A header is read in many small chunks: in a bucket each of them would be a request.
        return file if storage.is_local else io.BufferedReader(file, _READ_AHEAD)

    with open_geotiff_at(source.url, open_file) as dataset:
        yield dataset


@contextmanager
def open_geotiff_at(shown: str, open_file: Callable[[], BinaryIO]) -> Iterator[DatasetReader]:
    """The dataset in the bytes of a file, by the GeoTIFF driver only."""
    try:
        import rasterio
        from rasterio.errors import NotGeoreferencedWarning, RasterioError
    except ImportError as error:
        remedy = "run: pip install 'geolake-nb[raster]'"
        raise MissingDependencyError("rasterio is not installed", remedy=remedy) from error

    failed: list[GeolakeError] = []

    def opener(name: str, mode: str = "rb") -> BinaryIO:
        if name != _NAME or not mode.startswith("r") or "+" in mode:
            raise FileNotFoundError(name)
        try:
            return open_file()
        except GeolakeError as problem:  # GDAL would lose the reason
            failed.append(problem)
            raise FileNotFoundError(name) from problem

    with rasterio.Env(**_SETTINGS):
        try:
            with warnings.catch_warnings():
                # Havasu supports rasters without georeferencing.
                warnings.simplefilter("ignore", NotGeoreferencedWarning)
                dataset = rasterio.open(_NAME, driver="GTiff", opener=opener)
            with dataset:
                yield dataset
        except RasterioError as error:
            if failed:
                raise failed[0] from None
            detail = " ".join(str(error).split())[:200]
            raise RasterError(
                "not a valid GeoTIFF",
                where=url_without_secrets(shown),
                remedy=f"rasterio reports: {detail}",
            ) from error


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
