"""Whether the files of a table's out-db bands match the table."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import GeolakeError, MissingFileError, RasterError, RefusedError, StorageError
from geolake_nb.model.types import RasterType
from geolake_nb.raster_data.arrow import metadata_from_arrow
from geolake_nb.raster_data.out_db import RasterFile, out_db_fault
from geolake_nb.raster_data.raster import PixelType
from geolake_nb.scan.data_files import raster_groups
from geolake_nb.scan.raster_bands import raster_bands
from geolake_nb.text.messages import url_without_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.raster_data.out_db import OutDbRoots
    from geolake_nb.raster_data.raster import RasterMetadata
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

__all__ = ["OutDbState", "check_out_db"]


class OutDbState(enum.Enum):
    """The result of the check of the file of a band."""

    OK = "ok"
    """The file contains the band."""
    REFUSED = "refused"
    """Its URL is not below an allowed root: it was not opened."""
    MISSING = "missing"
    """The file does not exist."""
    UNREADABLE = "unreadable"
    """The file exists, but cannot be read as a GeoTIFF."""
    DIFFERS = "differs"
    """The file differs from the metadata of the band."""


_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("column", pa.string()),
        ("raster", pa.int64()),
        ("band", pa.int32()),
        ("out_db_url", pa.string()),
        ("out_db_band_no", pa.int32()),
        ("state", pa.string()),
        ("problem", pa.string()),
    ]
)


def check_out_db(
    storage: Storage, snapshot: Snapshot, roots: OutDbRoots, *, on_progress: Progress | None = None
) -> pa.Table:
    """One row per out-db band, with what is wrong with its file; each file is opened once, for its header.

    `raster` counts the rasters of a data file that are not null, `band` the bands of one, both from 0.
    `out_db_url` is without secrets; `raster_bands` has the full URL.
    """
    columns = [name for name, field in snapshot.schema.geo_columns() if isinstance(field.type, RasterType)]
    if not columns:
        raise GeolakeError(
            "the table has no raster column", where=snapshot.location, remedy="only Havasu tables store rasters"
        )
    paths = snapshot.files.table["path"].to_pylist()
    headers = _Headers(roots)
    rows: list[dict[str, Any]] = []
    for position, path in enumerate(paths):
        here = raster_groups(storage, snapshot, files=[position])
        for column in columns:
            if column not in here.column_names:
                continue
            rasters = [raster for raster in metadata_from_arrow(here[column]) if raster is not None]
            bands = raster_bands(storage, snapshot, position, column)
            for band in bands.filter(pc.invert(bands["in_db"])).to_pylist():
                state, problem = _check(rasters[band["raster"]], band, headers)
                url = None if band["out_db_url"] is None else url_without_secrets(band["out_db_url"])
                result = {"out_db_url": url, "state": state.value, "problem": problem}
                rows.append({"path": path, "column": column, **band, **result})
        if on_progress is not None:
            on_progress(position + 1, len(paths))
    return pa.Table.from_pylist(rows, _SCHEMA)


class _Headers:
    """The headers of opened files, and why others were not opened."""

    def __init__(self, roots: OutDbRoots) -> None:
        self._roots = roots
        self._known: dict[str, RasterFile | tuple[OutDbState, str]] = {}

    def of(self, url: str) -> RasterFile | tuple[OutDbState, str]:
        if url not in self._known:
            self._known[url] = self._read(url)
        return self._known[url]

    def _read(self, url: str) -> RasterFile | tuple[OutDbState, str]:
        try:
            with self._roots.open(url) as dataset:
                return RasterFile.of(dataset)
        except RefusedError as problem:
            return OutDbState.REFUSED, str(problem)
        except MissingFileError as problem:
            return OutDbState.MISSING, str(problem)
        except (RasterError, StorageError) as problem:
            return OutDbState.UNREADABLE, str(problem)


def _check(raster: RasterMetadata, band: Mapping[str, Any], headers: _Headers) -> tuple[OutDbState, str | None]:
    url, number = band["out_db_url"], band["out_db_band_no"]
    if url is None or number is None:
        return OutDbState.DIFFERS, "the band has neither data nor both out_db_url and out_db_band_no"
    header = headers.of(url)
    if not isinstance(header, RasterFile):
        return header
    try:
        fault = out_db_fault(raster, PixelType.parse(band["pixel_type"]), number, header)
    except RasterError as problem:
        fault = problem.what
    return (OutDbState.OK, None) if fault is None else (OutDbState.DIFFERS, fault)
