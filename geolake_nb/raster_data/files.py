"""GeoTIFF files: how they are found, and opened such that GDAL reads no other file."""

from __future__ import annotations

import io
import os
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote

from geolake_nb.errors import GeolakeError, MissingDependencyError, MissingFileError, RasterError
from geolake_nb.storage.hive_paths import glob_pattern, has_glob, is_hidden
from geolake_nb.storage.location import Location
from geolake_nb.storage.ranges import open_ranges
from geolake_nb.storage.storage import Storage
from geolake_nb.text.messages import url_without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rasterio import DatasetReader

__all__ = ["RasterSource", "find_geotiffs", "open_geotiff", "open_geotiff_at"]

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
