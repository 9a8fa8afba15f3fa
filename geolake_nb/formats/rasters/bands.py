"""The bands of the rasters in a data file: what one cell holds, and where the cells are; no cell is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.formats.data_files import data_keys, inside_structs, parts_in_file
from geolake_nb.formats.parquet.opening import open_parquet_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.parquet as pq

    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage

__all__ = ["raster_bands"]

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
    """One row a band, as the file at that place of the file table has it, right or wrong.

    `raster` counts the rasters of the file that are not null, `band` the bands of one, both from 0.
    """
    rows: list[dict[str, Any]] = []
    count = 0
    key = data_keys(snapshot)[position]
    with open_parquet_file(storage, key) as file:
        physical = parts_in_file(file, snapshot, column, where=f"{storage.location}/{key}") or ()
        for group in range(file.num_row_groups if physical else 0):
            for bands in _rasters(file, group, physical):
                rows += [{"raster": count, "band": place, **band} for place, band in enumerate(bands)]
                count += 1
    return pa.Table.from_pylist(rows, _SCHEMA)


def _rasters(file: pq.ParquetFile, group: int, physical: tuple[str, ...]) -> Iterator[list[dict[str, Any]]]:
    """The bands of each raster in a row group that is not null."""
    prefix = ".".join(physical)
    leaves = [file.metadata.schema.column(place).path for place in range(len(file.metadata.schema))]

    def of_slot(slot: str, *facts: str) -> list[str]:
        # The lists of `bands` have two more names in between, or none.
        return [one for one in leaves if one.startswith(f"{prefix}.{slot}.") and one.rpartition(".")[2] in facts]

    wanted = [f"{prefix}.width", *(leaf for slot in _SLOTS for leaf in of_slot(slot, *_FACTS))]
    read = file.read_row_group(group, columns=[one for one in wanted if one in leaves])
    if not read.num_columns:
        return
    values = inside_structs(read.column(0), physical)
    found: list[list[dict[str, Any]]] = [[] for _ in range(len(values))]
    for slot in _SLOTS:
        if values.type.get_field_index(slot) < 0:
            continue
        owners, bands = _flat(values, slot)
        held = _held(file, group, leaves, of_slot(slot, "data"), physical) if _has_url(bands) else None
        for place, (owner, band) in enumerate(zip(owners, bands, strict=True)):
            if band is not None:
                # Havasu, Raster: with data the band is in-db; one without data must have a URL.
                found[owner].append({**band, "in_db": band["out_db_url"] is None if held is None else held[place]})
    yield from (bands for bands, valid in zip(found, values.is_valid().to_pylist(), strict=True) if valid)


def _flat(values: pa.ChunkedArray, slot: str) -> tuple[list[int], list[dict[str, Any] | None]]:
    """The bands in one field of the group, and the row of each."""
    owners: list[int] = []
    bands: list[dict[str, Any] | None] = []
    first = 0
    for chunk in values.chunks:
        field = pc.struct_field(chunk, slot)
        if pa.types.is_struct(field.type):
            owners += range(first, first + len(chunk))
        else:
            owners += [first + row for row in pc.list_parent_indices(field).to_pylist()]
            field = pc.list_flatten(field)
        facts = {name: _plain(field, name) for name in _FACTS}
        valid = field.is_valid().to_pylist()
        bands += [{name: facts[name][row] for name in _FACTS} if valid[row] else None for row in range(len(field))]
        first += len(chunk)
    return owners, bands


def _plain(bands: pa.Array, name: str) -> list[Any]:
    if bands.type.get_field_index(name) < 0:
        return [None] * len(bands)
    values = pc.struct_field(bands, name)
    if name != "out_db_url":
        held: list[Any] = values.to_pylist()
        return held
    # A text that is no UTF-8 is shown all the same.
    raw = values.cast(pa.binary()).to_pylist()
    return [None if one is None else one.decode("utf-8", "backslashreplace") for one in raw]


def _has_url(bands: list[dict[str, Any] | None]) -> bool:
    return any(band is not None and band["out_db_url"] is not None for band in bands)


def _held(
    file: pq.ParquetFile, group: int, leaves: list[str], data: list[str], physical: tuple[str, ...]
) -> list[bool] | None:
    """Which bands of a field have cells in the file; `None` where those without a URL do, and no other."""
    if not data:
        return None
    chunk = file.metadata.row_group(group).column(leaves.index(data[0]))
    if chunk.statistics is not None and chunk.statistics.null_count == chunk.num_values:
        return None
    # Some band may have both: which one is told by the cells alone.
    read = inside_structs(file.read_row_group(group, columns=data).column(0), physical)
    held: list[bool] = []
    for part in read.chunks:
        field = part.flatten()[0]
        bands = field if pa.types.is_struct(field.type) else pc.list_flatten(field)
        held += pc.struct_field(bands, "data").is_valid().to_pylist()
    return held
