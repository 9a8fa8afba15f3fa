"""The bands of the rasters in a data file: what one cell holds, and where the cells are; no cell is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.formats.data_files import data_keys, inside_structs, parts_in_file
from geolake_nb.formats.parquet.opening import open_parquet_file, value_batches
from geolake_nb.formats.parquet.page_sizes import Room

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.parquet as pq

    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage

__all__ = ["raster_bands"]

_BATCH_ROWS = 16_384
_MOST_BYTES, _BAND_BYTES = 1 << 28, 250
"""What is held of a file's bands, and what each of them counts for beside its values."""
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
    parts = [_SCHEMA.empty_table()]
    count = 0
    room = Room(_MOST_BYTES)
    key = data_keys(snapshot)[position]
    where = f"{storage.location}/{key}"
    with open_parquet_file(storage, key) as file:
        physical = parts_in_file(file, snapshot, column, where=where) or ()
        for group in range(file.num_row_groups if physical else 0):
            for values in _values(file, group, physical):
                rows = []
                for bands in _rasters(values):
                    rows += [{"raster": count, "band": place, **band} for place, band in enumerate(bands)]
                    count += 1
                parts.append(pa.Table.from_pylist(rows, _SCHEMA))
                room.take(parts[-1].nbytes + len(rows) * _BAND_BYTES, what="the bands of the file", where=where)
    return pa.concat_tables(parts)


def _values(file: pq.ParquetFile, group: int, physical: tuple[str, ...]) -> Iterator[pa.StructArray]:
    """The rasters of a row group, without cells unless they are needed to tell where the cells of a band are."""
    prefix = ".".join(physical)
    leaves = [file.metadata.schema.column(place).path for place in range(len(file.metadata.schema))]

    def of_slot(slot: str, *facts: str) -> list[str]:
        # The lists of `bands` have two more names in between, or none.
        return [one for one in leaves if one.startswith(f"{prefix}.{slot}.") and one.rpartition(".")[2] in facts]

    def has_values(names: list[str]) -> bool:
        chunks = [file.metadata.row_group(group).column(leaves.index(one)) for one in names]
        return any(one.statistics is None or one.statistics.null_count != one.num_values for one in chunks)

    wanted = [f"{prefix}.width"] if f"{prefix}.width" in leaves else []
    for slot in _SLOTS:
        # Where some bands have cells and some have a URL, one may have both.
        both = has_values(of_slot(slot, "data")) and has_values(of_slot(slot, "out_db_url"))
        wanted += of_slot(slot, *_FACTS, *(("data",) if both else ()))
    if wanted:
        for batch in value_batches(file, wanted, rows=_BATCH_ROWS, groups=[group]):
            yield inside_structs(batch.column(0), physical)


def _rasters(values: pa.StructArray) -> Iterator[list[dict[str, Any]]]:
    """The bands of each raster that is not null."""
    found: list[list[dict[str, Any]]] = [[] for _ in range(len(values))]
    for slot in _SLOTS:
        if values.type.get_field_index(slot) >= 0:
            for owner, band in _flat(values, slot):
                found[owner].append(band)
    yield from (bands for bands, valid in zip(found, values.is_valid().to_pylist(), strict=True) if valid)


def _flat(values: pa.StructArray, slot: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The bands in one field of the group, and the row of each."""
    field = pc.struct_field(values, slot)
    owners: list[int] = list(range(len(values)))
    if not pa.types.is_struct(field.type):
        owners = pc.list_parent_indices(field).to_pylist()
        field = pc.list_flatten(field)
    facts = {name: _plain(field, name) for name in _FACTS}
    # Havasu, Raster: with data the band is in-db; one without data must have a URL.
    told = field.type.get_field_index("data") >= 0
    held = pc.struct_field(field, "data").is_valid() if told else pa.array([url is None for url in facts["out_db_url"]])
    valid = field.is_valid().to_pylist()
    for place, (owner, in_db) in enumerate(zip(owners, held.to_pylist(), strict=True)):
        if valid[place]:
            yield owner, {**{name: facts[name][place] for name in _FACTS}, "in_db": in_db}


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
