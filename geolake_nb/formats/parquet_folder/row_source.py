"""The rows of Parquet files, with the partition values of their folders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.scan.data_file import DataFile, child_by_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.parquet as pq

    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import Field
    from geolake_nb.scan.data_file import DeletedRows, EqualityDelete

__all__ = ["ParquetRowSource"]


class ParquetRowSource:
    """The rows of a set of Parquet files."""

    child = staticmethod(child_by_name)

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get their files from the driver, and need no file list.
        return {**self.__dict__, "_snapshot": None}

    def files(self, positions: Sequence[int]) -> list[DataFile]:
        """The data files at these rows of the file table."""
        table, indices = self._snapshot.files.table, pa.array(positions, pa.int64())
        # As in Spark and DuckDB, the value of a folder takes the place of a column in the file.
        partitions = {name: table[f"partition.{name}"].take(indices) for name in self._snapshot.partition_columns}
        return [
            DataFile(path, path, {name: values[number] for name, values in partitions.items()})
            for number, path in enumerate(table["path"].take(indices).to_pylist())
        ]

    def arrow_schema(self, schema: pa.Schema, file: DataFile, *, where: str) -> pa.Schema:
        """The schema of a data file."""
        return schema

    def absent(self, wanted: Field, file: DataFile) -> pa.Scalar | None:
        """Null: a column that only other files have."""
        return None

    def deleted(self, file: DataFile, metadata: pq.FileMetaData) -> Sequence[DeletedRows]:
        """None."""
        return []

    def equality_deletes(self, file: DataFile) -> Sequence[EqualityDelete]:
        """None."""
        return []
