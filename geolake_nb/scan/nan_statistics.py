"""Which data files have minima and maxima in their footers that exclude NaN values.

Parquet's minima and maxima cannot represent NaN, and many writers write the range of the other values. In Spark NaN is
greater than any number, and Spark skips a row group by that range: the rows with NaN are lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from geolake_nb.parquet.column_ranges import FLOATS, has_nan
from geolake_nb.parquet.footer import FooterReader
from geolake_nb.parquet.opening import open_parquet_file, value_batches
from geolake_nb.parquet.schema import PATH_KEY
from geolake_nb.scan.data_files import data_keys, leaf_values
from geolake_nb.scan.file_fields import file_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.table_format import FileField
    from geolake_nb.storage.storage import Storage

__all__ = ["files_hiding_nan"]

_BATCH_ROWS = 131_072


def files_hiding_nan(
    storage: Storage,
    snapshot: Snapshot,
    positions: Sequence[int],
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> pa.Table:
    """`path, column`: the floating-point columns of data files with a NaN outside of a row group's minimum and maximum.

    Args:
        storage: reads the data files.
        snapshot: the table.
        positions: rows of its file table.
        on_progress: called with the number of files done and of all files.
    """
    fields = file_fields(snapshot, lambda column: column.type in FLOATS)
    keys, stored = data_keys(snapshot), snapshot.files.table["path"]
    paths: list[str] = []
    columns: list[str] = []
    for done, position in enumerate(positions if fields else (), start=1):
        for column in _columns_hiding_nan(storage, keys[position], fields):
            paths.append(stored[position].as_py())
            columns.append(column)
        if on_progress is not None:
            on_progress(done, len(positions))
    return pa.table({"path": pa.array(paths, pa.string()), "column": pa.array(columns, pa.string())})


def _columns_hiding_nan(storage: Storage, key: str, fields: Mapping[str, FileField]) -> Iterator[str]:
    with open_parquet_file(storage, key) as file:
        view = FooterReader().view(file.metadata, where=f"{storage.location}/{key}")
        for name, here in fields.items():
            stored = view.find(here.parts, field_id=here.id)
            leaf = None if stored is None else view.leaves.get(str(stored.metadata.get(PATH_KEY, "")))
            if stored is None or leaf is None or stored.type not in FLOATS:
                continue
            chunks = [file.metadata.row_group(group).column(leaf) for group in range(file.metadata.num_row_groups)]
            bounded = [
                group
                for group, chunk in enumerate(chunks)
                if chunk.statistics is not None and chunk.statistics.has_min_max
            ]
            batches = value_batches(file, [file.metadata.schema.column(leaf).path], rows=_BATCH_ROWS, groups=bounded)
            if bounded and any(has_nan(leaf_values(pa.chunked_array([batch.column(0)]))) for batch in batches):
                yield name
