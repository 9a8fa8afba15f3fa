"""The external files of out-db bands: below allowed roots only, and whether they have the pixels."""

from __future__ import annotations

import math
import os.path
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

from geolake_nb.errors import CrsError, RasterError, RefusedError, StorageError
from geolake_nb.model.crs import Crs
from geolake_nb.raster_data.geotiff import RasterSource, open_geotiff, open_geotiff_at
from geolake_nb.raster_data.raster import GeoReference, PixelType
from geolake_nb.storage.location import Location, is_url
from geolake_nb.storage.ranges import WebFolder
from geolake_nb.storage.storage import Storage
from geolake_nb.text.messages import printable, url_without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rasterio import DatasetReader
    from rasterio.windows import Window

    from geolake_nb.raster_data.raster import Raster, RasterMetadata

__all__ = ["MAX_BYTES", "OutDbRoots", "RasterFile", "in_db", "offset_in_file", "out_db_fault", "out_db_picture"]

_SAME_STEP = 1e-9
"""Pixel sizes are the same when they differ by this part of a pixel at most."""
_SAME_PLACE = 1e-2
"""Pixels are aligned when they differ by this part of a pixel at most: coordinates are rounded more than sizes."""


@dataclass(frozen=True, slots=True)
class RasterFile:
    """The header of a raster file.

    >>> here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    >>> RasterFile(4, 3, ("uint8", "complex64"), None, here).pixel_type(1) is None
    True
    """

    width: int
    height: int
    dtypes: tuple[str, ...]
    """The pixel types of its bands, as GDAL names them."""
    crs_wkt: str | None
    geo_reference: GeoReference

    @classmethod
    def of(cls, dataset: DatasetReader) -> RasterFile:
        """The header of an open dataset."""
        a, b, c, d, e, f = (float(getattr(dataset.transform, name)) for name in "abcdef")
        georeference = GeoReference.from_affine((a, b, c, d, e, f))
        crs_wkt = dataset.crs.to_wkt() if dataset.crs else None
        return cls(dataset.width, dataset.height, tuple(dataset.dtypes), crs_wkt, georeference)

    def pixel_type(self, band: int) -> PixelType | None:
        """The pixel type of the band, counted from 0; `None` where Havasu has no such type."""
        try:
            return PixelType.from_dtype(self.dtypes[band])
        except RasterError:
            return None


def out_db_fault(raster: Raster | RasterMetadata, pixel_type: PixelType, band_no: int, file: RasterFile) -> str | None:
    """Why the file does not match the band, `None` if it does.

    >>> from geolake_nb.raster_data.raster import RasterMetadata
    >>> here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    >>> file = RasterFile(4, 3, ("uint8",), None, here)
    >>> raster = RasterMetadata(2, 2, 1, None, GeoReference.from_affine((1.0, 0.0, 2.0, 0.0, -1.0, -1.0)))
    >>> out_db_fault(raster, PixelType.PT_8BUI, 0, file) is None
    True
    >>> out_db_fault(raster, PixelType.PT_8BUI, 1, file)
    'the file has no band 1 (counted from 0): it has 1'
    """
    # Havasu, Raster data model: the file has the band, with its pixel type, the CRS and the steps of the raster.
    if not 0 <= band_no < len(file.dtypes):
        return f"the file has no band {band_no} (counted from 0): it has {len(file.dtypes)}"
    if file.pixel_type(band_no) is not pixel_type:
        return f"the band has the pixel type {pixel_type.name}, and the band of the file {file.dtypes[band_no]}"
    if not _same_crs(raster.crs_wkt, file.crs_wkt):
        return "the CRS of the file is not that of the raster"
    try:
        offset_in_file(raster, file)
    except RasterError as error:
        return error.what
    return None


def offset_in_file(raster: Raster | RasterMetadata, file: RasterFile) -> tuple[int, int]:
    """The column and row of the file at which the raster begins.

    >>> from geolake_nb.raster_data.raster import RasterMetadata
    >>> file = RasterFile(9, 9, ("uint8",), None, GeoReference.from_affine((2.0, 0.0, 10.0, 0.0, -2.0, 50.0)))
    >>> tile = RasterMetadata(3, 3, 1, None, GeoReference.from_affine((2.0, 0.0, 14.0, 0.0, -2.0, 42.0)))
    >>> offset_in_file(tile, file)
    (2, 4)
    """
    ours, theirs = raster.geo_reference, file.geo_reference
    if not (ours.is_finite and theirs.is_finite):
        raise RasterError("the geo_reference is not finite")
    steps = [(getattr(ours, name), getattr(theirs, name)) for name in ("scale_x", "scale_y", "skew_x", "skew_y")]
    cell = max(abs(step) for _, step in steps)
    if any(abs(wanted - other) > _SAME_STEP * cell for wanted, other in steps):
        raise RasterError("the scale or skew of the file is not that of the raster")
    area = theirs.scale_x * theirs.scale_y - theirs.skew_x * theirs.skew_y
    if area == 0 or not math.isfinite(area):
        raise RasterError("the pixels of the file have no area")
    dx, dy = ours.upperleft_x - theirs.upperleft_x, ours.upperleft_y - theirs.upperleft_y
    column = (dx * theirs.scale_y - dy * theirs.skew_x) / area
    row = (dy * theirs.scale_x - dx * theirs.skew_y) / area
    if not (math.isfinite(column) and math.isfinite(row)):
        raise RasterError("the raster lies outside the file")
    first = round(column), round(row)
    if max(abs(column - first[0]), abs(row - first[1])) > _SAME_PLACE:
        raise RasterError("the pixels of the raster are not aligned with those of the file")
    # The file may be larger than the raster, and no smaller.
    if min(first) < 0 or first[0] + raster.width > file.width or first[1] + raster.height > file.height:
        raise RasterError("the raster extends beyond the file")
    return first


def _same_crs(ours: str | None, theirs: str | None) -> bool:
    if ours is None or theirs is None or ours == theirs:
        return ours == theirs
    try:
        return Crs(ours).same_as(Crs(theirs))
    except CrsError:
        return False


MAX_BYTES = 2**31 - 2**20
"""The maximum size of the pixels of one raster: a value has less than 2 GiB in Arrow and Spark."""


@dataclass(frozen=True, slots=True)
class OutDbRoots:
    """The locations below which the files of out-db bands may be opened; none by default. It is sent to executors.

    >>> roots = OutDbRoots.of(["/data/cogs"])
    >>> roots.find("file:///data/cogs/a%20b.tif")
    RasterSource(storage=Storage.at('/data/cogs'), key='a b.tif')
    >>> roots.find("file:///data/cogs/%2e%2e/secret.tif")
    Traceback (most recent call last):
    geolake_nb.errors.RefusedError: 'file:///data/cogs/%2e%2e/secret.tif' is not below an allowed root; add its ...
    """

    storages: tuple[Storage, ...] = ()
    web: tuple[str, ...] = field(default=(), repr=False)
    """Roots on web servers, which may contain secrets."""

    @classmethod
    def of(
        cls, roots: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], options: Mapping[str, str] | None = None
    ) -> OutDbRoots:
        """The roots of folders and URLs; `options` are those of their object stores."""
        given = [roots] if isinstance(roots, (str, os.PathLike)) else list(roots)
        texts = [os.fspath(root) for root in given]
        web = tuple([text for text in texts if Location.of(text).scheme in ("http", "https")])
        others = [text for text in texts if text not in web]
        return cls(tuple([Storage.at(text, options=options) for text in others]), web)

    def find(self, url: str) -> RasterSource | tuple[WebFolder, str]:
        """The file of a URL in a table; one that is not below a root is refused before anything is opened."""
        refused = RefusedError(
            f"{printable(url_without_secrets(url), 200)!r} is not below an allowed root",
            remedy="add its folder as a root if the table may read it",
        )
        try:
            if not is_url(url) and not os.path.isabs(url):
                raise refused
            location = Location.of(url)
            # A file: URL has escapes; the decoded path is checked.
            text = unquote(location.path) if location.scheme == "file" and is_url(url) else url
            for folder in map(WebFolder, self.web):
                key = folder.location.key_of(location)
                if key:
                    return folder, key
            for storage in self.storages:
                key = _key(storage, text)
                if key:
                    return RasterSource(storage, key)
        except StorageError as problem:
            raise refused from problem
        raise refused

    @contextmanager
    def open(self, url: str) -> Iterator[DatasetReader]:
        """The file of a URL as a rasterio dataset."""
        source = self.find(url)
        if isinstance(source, RasterSource):
            with open_geotiff(source) as dataset:
                yield dataset
            return
        folder, key = source
        with open_geotiff_at(f"{folder.location.text}/{key}", lambda: folder.open(key)) as dataset:
            yield dataset


def _key(storage: Storage, path: str) -> str | None:
    try:
        key = storage.resolve(path)
    except StorageError:
        return None
    return key if not is_url(key) and not os.path.isabs(key) else None


def in_db(raster: Raster, roots: OutDbRoots) -> Raster:
    """The raster with the pixels of its out-db bands read from their files.

    >>> from geolake_nb.raster_data.raster import Band, GeoReference, PixelType, Raster
    >>> here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    >>> raster = Raster(2, 1, (Band(PixelType.PT_8BUI, data=b"ab"),), None, here)
    >>> in_db(raster, OutDbRoots()) is raster
    True
    """
    outside = [index for index, band in enumerate(raster.bands) if not band.in_db]
    if not outside:
        return raster
    needed = raster.width * raster.height * sum(band.pixel_type.size for band in raster.bands)
    if needed > MAX_BYTES:
        raise RasterError(f"its pixels take {needed:,} bytes, too many for one value", remedy="load it with tile=")
    bands = list(raster.bands)
    for index, dataset, window in _datasets(raster, outside, roots):
        band = bands[index]
        cells = dataset.read(_gdal_number(raster, index), window=window)
        data = cells.astype(band.pixel_type.dtype, copy=False).tobytes()
        bands[index] = replace(band, data=data, out_db_band_no=None, out_db_url=None)
    return replace(raster, bands=tuple(bands))


def out_db_picture(raster: Raster, roots: OutDbRoots, *, size: int) -> bytes:
    """The PNG of a raster, for which only some pixels of its files are read."""
    import numpy as np

    from geolake_nb.raster_data.pixels import in_db_picture, picture, picture_bands, picture_size

    shown = picture_bands(raster)
    outside = [index for index in shown if not raster.bands[index].in_db]
    if not outside:
        return in_db_picture(raster, size=size)
    if len(outside) < len(shown):
        return in_db_picture(in_db(replace(raster, bands=raster.bands[: len(shown)]), roots), size=size)
    width, height = picture_size(raster, size)
    # Nearest pixels, from the overviews of the file if it has some.
    cells = [
        np.asarray(dataset.read(_gdal_number(raster, index), window=window, out_shape=(height, width)))
        for index, dataset, window in _datasets(raster, outside, roots)
    ]
    return picture(raster, cells)


def _datasets(raster: Raster, bands: Sequence[int], roots: OutDbRoots) -> Iterator[tuple[int, DatasetReader, Window]]:
    """Each band with its open file and the window of the raster; consecutive bands of one file share it."""
    from itertools import groupby

    from rasterio.windows import Window

    for url, some in groupby(bands, key=lambda index: raster.bands[index].out_db_url or ""):
        with roots.open(url) as dataset:
            file = RasterFile.of(dataset)
            for index in some:
                band = raster.bands[index]
                fault = out_db_fault(raster, band.pixel_type, band.out_db_band_no or 0, file)
                if fault is not None:
                    raise RasterError(fault, where=f"band {index}, {printable(url_without_secrets(url), 200)}")
                column, row = offset_in_file(raster, file)
                yield index, dataset, Window(column, row, raster.width, raster.height)


def _gdal_number(raster: Raster, index: int) -> int:
    # Havasu counts the bands of a file from 0, GDAL from 1.
    return (raster.bands[index].out_db_band_no or 0) + 1
