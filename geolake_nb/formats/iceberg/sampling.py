"""A sample of the live rows of an Iceberg or Havasu table, read without Spark, and the sizes of its partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from geolake_nb.changes.sampling import SAMPLE_ROWS, ThinnedRows, chosen_parts, sample_of, some_rows
from geolake_nb.formats.iceberg.delete_index import data_file_rows
from geolake_nb.formats.iceberg.live_rows import RowReader, carried_schema
from geolake_nb.formats.iceberg.name_mapping import name_mapping
from geolake_nb.model.schema import Schema, split_path
from geolake_nb.model.types import StructType
from geolake_nb.parquet.file_columns import FileColumns
from geolake_nb.parquet.footer import read_metadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geolake_nb.changes.row_sources import IcebergRows
    from geolake_nb.changes.sampling import Partition, Sample
    from geolake_nb.storage.storage import Storage

__all__ = ["sample_iceberg", "size_iceberg"]

_SAMPLED_PARTS = 200


def sample_iceberg(
    storage: Storage, rows: IcebergRows, schema: Schema, columns: Sequence[str], partition_by: Sequence[str]
) -> Sample:
    """About 100,000 rows of these columns, from row groups spread over the files, read in this process."""
    tops = dict.fromkeys([*(split_path(column)[0] for column in columns), *partition_by])
    narrow = Schema(StructType(tuple([field for field in schema.fields if field.name in tops])))
    files = data_file_rows(rows.snapshot, rows.files)
    chosen = chosen_parts(np.array([file.bytes for file in files], np.int64), _SAMPLED_PARTS)
    total = max(1, sum(files[index].rows for index, _ in chosen))
    counts = [footer.num_row_groups for footer in read_metadata(storage, [files[index].key for index, _ in chosen])]
    reader = RowReader(storage, narrow, name_mapping(rows.snapshot))
    draw = np.random.default_rng(0)
    kept = ThinnedRows()
    for (index, wanted), count in zip(chosen, counts, strict=True):
        share = SAMPLE_ROWS * files[index].rows / total
        some = np.sort(draw.permutation(count)[:wanted]).tolist()
        there = max(1, files[index].rows * len(some) // max(1, count))
        partition = 0 if rows.partitions is None else rows.partitions[index]
        for batch in reader.read(files[index], groups=some, partition=partition):
            kept.add(batch.take(pa.array(some_rows(len(batch), share * len(batch) / there, draw))))
    return sample_of(
        pa.Table.from_batches(kept.batches, FileColumns.of(carried_schema(narrow)).arrow), columns, partition_by
    )


def size_iceberg(rows: IcebergRows) -> dict[Partition, int]:
    """About how many bytes each partition takes, by the numbers of `rows.partitions`."""
    files = data_file_rows(rows.snapshot, rows.files)
    if rows.partitions is None:
        return {(): sum(file.bytes for file in files)}
    sizes: dict[Partition, int] = {}
    for file, partition in zip(files, rows.partitions, strict=True):
        sizes[(str(partition),)] = sizes.get((str(partition),), 0) + file.bytes
    return sizes
