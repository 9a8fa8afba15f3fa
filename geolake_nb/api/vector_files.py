"""Files of GDAL's vector formats, which are not tables: read into one by `gl.write`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import GeolakeError, MissingDependencyError, NotATableError
from geolake_nb.text.messages import printable, url_without_secrets

if TYPE_CHECKING:
    import geopandas as gpd

__all__ = ["is_vector_file", "not_a_table", "read_vector_file"]

_FORMATS = {
    ".fgb": "FlatGeobuf",
    ".geojson": "GeoJSON",
    ".geojsonl": "GeoJSON lines",
    ".gpkg": "GeoPackage",
    ".shp": "Shapefile",
}


def is_vector_file(source: Any) -> bool:
    """Whether it is the path of such a file, by its extension.

    >>> is_vector_file("roads.gpkg"), is_vector_file("roads"), is_vector_file(3)
    (True, False, False)
    """
    return isinstance(source, str | os.PathLike) and _extension(source) in _FORMATS and not os.path.isdir(source)


def not_a_table(source: Any) -> NotATableError:
    """What to do with a file or a frame that `gl.open` was given.

    >>> print(not_a_table("data/roads.gpkg"))
    data/roads.gpkg: a GeoPackage is a file and not a table; make one of it: gl.write('data/roads.gpkg', 'data/roads')
    """
    if not is_vector_file(source):
        what = f"a {type(source).__name__} holds rows and is not a table"
        return NotATableError(what, remedy="make one of it: gl.write(frame, 'path/of/a/new/folder')")
    path = os.fspath(source)
    shown = url_without_secrets(path)
    call = f"gl.write({shown!r}, {os.path.splitext(shown)[0]!r})"
    what = f"a {_FORMATS[_extension(path)]} is a file and not a table"
    return NotATableError(what, where=printable(shown), remedy=f"make one of it: {call}")


def read_vector_file(source: str | os.PathLike[str]) -> gpd.GeoDataFrame:
    """The rows of the first layer, with the CRS of the file.

    Raises:
        MissingDependencyError: pyogrio is not installed.
        GeolakeError: the file cannot be read.
    """
    try:
        import geopandas as gpd
        import pyogrio
    except ImportError:
        raise MissingDependencyError(
            f"reading a {_FORMATS[_extension(source)]} needs geopandas with pyogrio",
            remedy="install them: pip install geopandas pyogrio",
        ) from None
    try:
        frame = gpd.read_file(os.fspath(source), engine="pyogrio")
    except (OSError, ValueError, pyogrio.errors.DataSourceError) as problem:
        where = printable(url_without_secrets(os.fspath(source)))
        raise GeolakeError(f"the file cannot be read: {printable(str(problem), 200)}", where=where) from None
    if not isinstance(frame, gpd.GeoDataFrame):
        raise GeolakeError("the file has no geometries", where=printable(os.fspath(source)), remedy="write its rows")
    return frame


def _extension(source: str | os.PathLike[str]) -> str:
    return os.path.splitext(os.fspath(source))[1].lower()
