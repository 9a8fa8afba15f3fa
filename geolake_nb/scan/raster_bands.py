"""The bands of the rasters in a data file: pixel type, and where the pixels are; no pixel is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.parquet.opening import Room, open_parquet_file, value_batches
from geolake_nb.scan.data_files import data_key, inside_structs, parts_in_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.parquet as pq
    from numpy.typing import NDArray

    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.storage.storage import Storage

__all__ = ["raster_bands"]

_BATCH_ROWS = 16_384
_MAX_BYTES = 1 << 28
"""The columns of the table of bands."""
_SLOTS = ("band_1", "band_2", "band_3", "band_4", "bands")
_FACTS = ("pixel_type", "no_data", "out_db_band_no", "out_db_url")
_SCHEMA = pa.schema(
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
    parts = [_SCHEMA.empty_table()]
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
        for batch in value_batches(file, wanted, rows=_BATCH_ROWS, groups=[group]):
            yield inside_structs(batch.column(0), physical)


def _bands(values: pa.StructArray, before: int) -> pa.Table:
    """The bands of the non-null rasters, after `before` others."""
    parts = [_flat(values, slot) for slot in _SLOTS if values.type.get_field_index(slot) >= 0]
    if not parts:
        return _SCHEMA.empty_table()
    rows = np.concatenate([owners for owners, _ in parts])
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    numbers = before - 1 + np.cumsum(_mask(values))
    band_numbers = np.arange(len(rows)) - np.searchsorted(rows, rows)
    facts = pa.concat_tables([bands for _, bands in parts]).take(pa.array(order))
    counted = facts.append_column("raster", pa.array(numbers[rows], pa.int64()))
    return counted.append_column("band", pa.array(band_numbers, pa.int32())).select(_SCHEMA.names)


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
    kind = _SCHEMA.field(name).type
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
