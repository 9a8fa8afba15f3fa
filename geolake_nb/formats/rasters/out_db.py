"""The external files of out-db bands: found below the roots that a user allows, opened nowhere else."""

from __future__ import annotations

import os.path
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

from geolake_nb.core.message_text import printable, url_without_secrets
from geolake_nb.core.raster_out_db import RasterFile, out_db_fault, place_in_file
from geolake_nb.errors import RasterError, RefusedError, StorageError
from geolake_nb.formats.rasters.files import RasterSource, open_geotiff, open_geotiff_at
from geolake_nb.formats.storage import Storage
from geolake_nb.formats.storage_place import Place, is_url
from geolake_nb.formats.web_ranges import WebFolder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rasterio import DatasetReader
    from rasterio.windows import Window

    from geolake_nb.core.raster import Raster

__all__ = ["MOST_BYTES", "OutDbRoots", "in_db", "out_db_picture"]

MOST_BYTES = 2**31 - 2**20
"""No more than this can be the cells of one raster: Arrow and Spark hold less than 2 GiB in a value."""


@dataclass(frozen=True, slots=True)
class OutDbRoots:
    """The places below which the files of out-db bands may be opened; none by default. Goes to executors.

    >>> roots = OutDbRoots.of(["/data/cogs"])
    >>> roots.find("file:///data/cogs/a%20b.tif")
    RasterSource(storage=Storage.at('/data/cogs'), key='a b.tif')
    >>> roots.find("file:///data/cogs/%2e%2e/secret.tif")
    Traceback (most recent call last):
    geolake_nb.errors.RefusedError: 'file:///data/cogs/%2e%2e/secret.tif' is below no allowed root; give its folder ...
    """

    storages: tuple[Storage, ...] = ()
    web: tuple[str, ...] = field(default=(), repr=False)
    """Roots on web servers, which may have secrets in them."""

    @classmethod
    def of(
        cls, roots: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], options: Mapping[str, str] | None = None
    ) -> OutDbRoots:
        """The roots of folders and URLs; `options` are those of their object stores."""
        given = [roots] if isinstance(roots, (str, os.PathLike)) else list(roots)
        texts = [os.fspath(root) for root in given]
        web = tuple([text for text in texts if Place.of(text).scheme in ("http", "https")])
        others = [text for text in texts if text not in web]
        return cls(tuple([Storage.at(text, options=options) for text in others]), web)

    def find(self, url: str) -> RasterSource | tuple[WebFolder, str]:
        """The file that a URL of a table names; one below no root is refused before anything is opened."""
        refused = RefusedError(
            f"{printable(url_without_secrets(url), 200)!r} is below no allowed root",
            remedy="give its folder as a root if the table may read there",
        )
        try:
            if not is_url(url) and not os.path.isabs(url):
                raise refused
            place = Place.of(url)
            # A file: URL has escapes; what they stand for is judged, not how they look.
            text = unquote(place.path) if place.scheme == "file" and is_url(url) else url
            for folder in map(WebFolder, self.web):
                key = folder.place.key_of(place)
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
        """The file of a URL as a dataset of rasterio."""
        found = self.find(url)
        if isinstance(found, RasterSource):
            with open_geotiff(found) as dataset:
                yield dataset
            return
        folder, key = found
        with open_geotiff_at(f"{folder.place.text}/{key}", lambda: folder.open(key)) as dataset:
            yield dataset


def _key(storage: Storage, path: str) -> str | None:
    try:
        key = storage.resolve(path)
    except StorageError:
        return None
    return key if not is_url(key) and not os.path.isabs(key) else None


def in_db(raster: Raster, roots: OutDbRoots) -> Raster:
    """The raster with the cells of its out-db bands read from their files.

    >>> from geolake_nb.core.raster import Band, GeoReference, PixelType, Raster
    >>> here = GeoReference.from_affine((1.0, 0.0, 0.0, 0.0, -1.0, 0.0))
    >>> held = Raster(2, 1, (Band(PixelType.PT_8BUI, data=b"ab"),), None, here)
    >>> in_db(held, OutDbRoots()) is held
    True
    """
    outside = [index for index, band in enumerate(raster.bands) if not band.in_db]
    if not outside:
        return raster
    needed = raster.width * raster.height * sum(band.pixel_type.size for band in raster.bands)
    if needed > MOST_BYTES:
        raise RasterError(f"its cells take {needed:,} bytes, which no value holds", remedy="load it with tile=")
    bands = list(raster.bands)
    for index, dataset, window in _datasets(raster, outside, roots):
        band = bands[index]
        cells = dataset.read(_gdal_number(raster, index), window=window)
        data = cells.astype(band.pixel_type.dtype, copy=False).tobytes()
        bands[index] = replace(band, data=data, out_db_band_no=None, out_db_url=None)
    return replace(raster, bands=tuple(bands))


def out_db_picture(raster: Raster, roots: OutDbRoots, *, size: int) -> bytes:
    """The PNG of a raster, for which only some cells of its files are read."""
    import numpy as np

    from geolake_nb.core.raster_picture import in_db_picture, picture, picture_bands, picture_size

    shown = picture_bands(raster)
    outside = [index for index in shown if not raster.bands[index].in_db]
    if not outside:
        return in_db_picture(raster, size=size)
    if len(outside) < len(shown):
        return in_db_picture(in_db(replace(raster, bands=raster.bands[: len(shown)]), roots), size=size)
    width, height = picture_size(raster, size)
    # Nearest cells, from the overviews of the file where it has some.
    cells = [
        np.asarray(dataset.read(_gdal_number(raster, index), window=window, out_shape=(height, width)))
        for index, dataset, window in _datasets(raster, outside, roots)
    ]
    return picture(raster, cells)


def _datasets(raster: Raster, bands: Sequence[int], roots: OutDbRoots) -> Iterator[tuple[int, DatasetReader, Window]]:
    """Each band with its open file and the part of it that is the raster; bands of one file in a row share it."""
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
                column, row = place_in_file(raster, file)
                yield index, dataset, Window(column, row, raster.width, raster.height)


def _gdal_number(raster: Raster, index: int) -> int:
    # Havasu counts the bands of a file from 0, GDAL from 1.
    return (raster.bands[index].out_db_band_no or 0) + 1
