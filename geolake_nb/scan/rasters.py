"""The rasters in the data files of a table: one by one, their bands, and whether external files match."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import GeolakeError, MissingFileError, RasterError, RefusedError, StorageError
from geolake_nb.model.types import RasterType
from geolake_nb.parquet.opening import Room, open_parquet_file, value_batches
from geolake_nb.raster_data.arrow import metadata_from_arrow, rasters_from_arrow
from geolake_nb.raster_data.out_db import RasterFile, out_db_fault
from geolake_nb.raster_data.raster import PixelType
from geolake_nb.scan.data_files import data_key, inside_structs, parts_in_file, raster_groups
from geolake_nb.text.messages import printable, url_without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow.parquet as pq
    from numpy.typing import NDArray

    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.raster_data.out_db import OutDbRoots
    from geolake_nb.raster_data.raster import Raster, RasterMetadata
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

__all__ = ["OutDbState", "check_out_db", "raster_bands", "read_raster"]

_BAND_BATCH_ROWS = 16_384
_MAX_BYTES = 1 << 28
"""The columns of the table of bands."""
_SLOTS = ("band_1", "band_2", "band_3", "band_4", "bands")
_FACTS = ("pixel_type", "no_data", "out_db_band_no", "out_db_url")
_BAND_SCHEMA = pa.schema(
    [
        ("raster", pa.int64()),
        ("band", pa.int32()),
        ("pixel_type", pa.int32()),
        ("no_data", pa.binary()),
        ("in_db", pa.bool_()),
        ("out_db_band_no", pa.int32()),
        ("out_db_url", pa.string()),
    ]
)


def raster_bands(storage: Storage, snapshot: Snapshot, position: int, column: str) -> pa.Table:
    """One row per band of the file at that row of the file table, valid or not.

    `raster` counts the rasters of the file that are not null, `band` the bands of one, both from 0.
    """
    parts = [_BAND_SCHEMA.empty_table()]
    count = 0
    room = Room(_MAX_BYTES)
    key = data_key(snapshot, position)
    where = f"{storage.location}/{key}"
    with open_parquet_file(storage, key) as file:
        physical = parts_in_file(file, snapshot, column, where=where) or ()
        for group in range(file.num_row_groups if physical else 0):
            for values in _values(file, group, physical):
                parts.append(_bands(values, count))
                room.take(parts[-1].nbytes, what="the bands of the file", where=where)
                count += len(values) - values.null_count
    return pa.concat_tables(parts)


def _values(file: pq.ParquetFile, group: int, physical: tuple[str, ...]) -> Iterator[pa.StructArray]:
    """The rasters of a row group, without pixels unless they are needed to find where the pixels of a band are."""
    prefix = ".".join(physical)
    leaves = [file.metadata.schema.column(number).path for number in range(len(file.metadata.schema))]

    def of_slot(slot: str, *facts: str) -> list[str]:
        # The paths of the lists of `bands` have two more names, or none.
        return [leaf for leaf in leaves if leaf.startswith(f"{prefix}.{slot}.") and leaf.rpartition(".")[2] in facts]

    def has_values(names: list[str]) -> bool:
        chunks = [file.metadata.row_group(group).column(leaves.index(name)) for name in names]
        return any(chunk.statistics is None or chunk.statistics.null_count != chunk.num_values for chunk in chunks)

    wanted = [f"{prefix}.width"] if f"{prefix}.width" in leaves else []
    for slot in _SLOTS:
        # Where some bands have pixels and some have a URL, one may have both.
        both = has_values(of_slot(slot, "data")) and has_values(of_slot(slot, "out_db_url"))
        wanted += of_slot(slot, *_FACTS, *(("data",) if both else ()))
    if wanted:
        for batch in value_batches(file, wanted, rows=_BAND_BATCH_ROWS, groups=[group]):
            yield inside_structs(batch.column(0), physical)


def _bands(values: pa.StructArray, before: int) -> pa.Table:
    """The bands of the non-null rasters, after `before` others."""
    parts = [_flat(values, slot) for slot in _SLOTS if values.type.get_field_index(slot) >= 0]
    if not parts:
        return _BAND_SCHEMA.empty_table()
    rows = np.concatenate([owners for owners, _ in parts])
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    numbers = before - 1 + np.cumsum(_mask(values))
    band_numbers = np.arange(len(rows)) - np.searchsorted(rows, rows)
    facts = pa.concat_tables([bands for _, bands in parts]).take(pa.array(order))
    counted = facts.append_column("raster", pa.array(numbers[rows], pa.int64()))
    return counted.append_column("band", pa.array(band_numbers, pa.int32())).select(_BAND_SCHEMA.names)


def _flat(values: pa.StructArray, slot: str) -> tuple[NDArray[np.int64], pa.Table]:
    """The rows of the bands in one field of the struct, and the facts of each."""
    bands = pc.struct_field(values, slot)
    rows: NDArray[np.int64] = np.arange(len(values), dtype=np.int64)
    if not pa.types.is_struct(bands.type):
        rows = pc.list_parent_indices(bands).to_numpy(zero_copy_only=False).astype(np.int64)
        bands = pc.list_flatten(bands)
    facts = {name: _plain(bands, name) for name in _FACTS}
    # Havasu, Raster: with data the band is in-db; one without data must have a URL.
    has_data = bands.type.get_field_index("data") >= 0
    facts["in_db"] = pc.struct_field(bands, "data").is_valid() if has_data else facts["out_db_url"].is_null()
    there = _mask(bands)
    return rows[there], pa.table(facts).filter(pa.array(there))


def _mask(values: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def _plain(bands: pa.StructArray, name: str) -> pa.Array:
    kind = _BAND_SCHEMA.field(name).type
    if bands.type.get_field_index(name) < 0:
        return pa.nulls(len(bands), kind)
    values = pc.struct_field(bands, name)
    if name != "out_db_url":
        return values.cast(kind)
    raw = values.cast(pa.binary())
    try:
        return raw.cast(kind)
    except pa.ArrowInvalid:  # invalid UTF-8 is shown anyway
        texts = [None if text is None else text.decode("utf-8", "backslashreplace") for text in raw.to_pylist()]
        return pa.array(texts, kind)


_RASTER_BATCH_ROWS = 131_072


def read_raster(storage: Storage, snapshot: Snapshot, path: str, number: int, column: str | None = None) -> Raster:
    """The raster with that number, from 0, of those in the column of a data file that are not null."""
    position = pc.index(snapshot.files.table["path"], path).as_py()
    if position < 0:
        what = f"no file {printable(path, 200)!r}"
        raise GeolakeError(what, where=snapshot.location, remedy="see the paths in t.files")
    name = _raster_column(snapshot, column)
    before = 0
    with open_parquet_file(storage, data_key(snapshot, position)) as file:
        physical = parts_in_file(file, snapshot, name, where=path) or ()
        prefix = ".".join(physical)
        for group in range(file.num_row_groups if physical else 0):
            first = 0
            for batch in value_batches(file, [f"{prefix}.width"], rows=_RASTER_BATCH_ROWS, groups=[group]):
                rows = pc.indices_nonzero(inside_structs(batch.column(0), physical).is_valid())
                if before <= number < before + len(rows):
                    return _at_row(file, physical, group, first + rows[number - before].as_py())
                before += len(rows)
                first += len(batch)
    raise GeolakeError(f"there is no raster {number}", where=path, remedy=f"the file has {before:,}, numbered from 0")


def _at_row(file: pq.ParquetFile, physical: tuple[str, ...], group: int, row: int) -> Raster:
    # One row at a time, so that no other raster is in memory.
    batches = value_batches(file, [".".join(physical)], rows=1, groups=[group])
    batch = next(candidate for index, candidate in enumerate(batches) if index == row)
    raster = rasters_from_arrow(inside_structs(batch.column(0), physical))[0]
    assert raster is not None
    return raster


def _raster_column(snapshot: Snapshot, column: str | None) -> str:
    names = [name for name, field in snapshot.schema.geo_columns() if isinstance(field.type, RasterType)]
    if column in names or (column is None and len(names) == 1):
        return column or names[0]
    if not names:
        raise GeolakeError(
            "the table has no raster column", where=snapshot.location, remedy="only Havasu tables store rasters"
        )
    what = "there are several raster columns" if column is None else f"no raster column {printable(column, 60)!r}"
    raise GeolakeError(what, where=snapshot.location, remedy=f"give column=, one of: {', '.join(sorted(names))}")


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


_CHECK_SCHEMA = pa.schema(
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
    return pa.Table.from_pylist(rows, _CHECK_SCHEMA)


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
