"""One raster of a data file with its bands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.core.message_text import printable
from geolake_nb.core.raster_arrow import rasters_from_arrow
from geolake_nb.core.types import RasterType
from geolake_nb.errors import GeolakeError
from geolake_nb.formats.data_files import data_keys, inside_structs, parts_in_file
from geolake_nb.formats.parquet.opening import open_parquet_file

if TYPE_CHECKING:
    from geolake_nb.core.raster import Raster
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage

__all__ = ["read_raster"]


def read_raster(storage: Storage, snapshot: Snapshot, path: str, number: int, column: str | None = None) -> Raster:
    """The raster with that number, from 0, of those in the column of a data file that are not null."""
    position = pc.index(snapshot.files.table["path"], path).as_py()
    if position < 0:
        what = f"no file {printable(path, 200)!r}"
        raise GeolakeError(what, where=snapshot.location, remedy="t.files has their paths")
    name = _raster_column(snapshot, column)
    before = 0
    with open_parquet_file(storage, data_keys(snapshot)[position]) as file:
        physical = parts_in_file(file, snapshot, name, where=path) or ()
        prefix = ".".join(physical)
        for group in range(file.num_row_groups if physical else 0):
            placed = inside_structs(file.read_row_group(group, columns=[f"{prefix}.width"]).column(0), physical)
            rows = pc.indices_nonzero(placed.is_valid())
            if number < before + len(rows) and number >= 0:
                wanted = rows[number - before].as_py()
                # One row at a time, so that no other raster is held.
                batches = file.iter_batches(1, row_groups=[group], columns=[prefix], use_threads=False)
                batch = next(one for row, one in enumerate(batches) if row == wanted)
                raster = rasters_from_arrow(inside_structs(pa.chunked_array([batch.column(0)]), physical))[0]
                assert raster is not None
                return raster
            before += len(rows)
    raise GeolakeError(f"there is no raster {number}", where=path, remedy=f"the file has {before:,}, from 0 on")


def _raster_column(snapshot: Snapshot, column: str | None) -> str:
    names = [name for name, field in snapshot.schema.geo_columns() if isinstance(field.type, RasterType)]
    if column in names or (column is None and len(names) == 1):
        return column or names[0]
    if not names:
        raise GeolakeError("the table has no raster column", where=snapshot.location, remedy="rasters are Havasu's")
    what = "there are several raster columns" if column is None else f"no raster column {printable(column, 60)!r}"
    raise GeolakeError(what, where=snapshot.location, remedy=f"give column=, one of: {', '.join(sorted(names))}")
