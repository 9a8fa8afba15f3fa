"""One raster of a data file with its bands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from geolake_nb.errors import GeolakeError
from geolake_nb.model.types import RasterType
from geolake_nb.parquet.opening import open_parquet_file, value_batches
from geolake_nb.raster_data.arrow import rasters_from_arrow
from geolake_nb.scan.data_files import data_key, inside_structs, parts_in_file
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.raster_data.raster import Raster
    from geolake_nb.storage.storage import Storage

__all__ = ["read_raster"]

_BATCH_ROWS = 131_072


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
            for batch in value_batches(file, [f"{prefix}.width"], rows=_BATCH_ROWS, groups=[group]):
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
