"""The live rows of Delta data files: column mapping, partition values, deletion vectors."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.errors import CorruptTableError
from geolake_nb.formats.delta.details import ColumnMapping
from geolake_nb.formats.delta.log_actions import ALPHABET, decoded_path, vector_file
from geolake_nb.scan.data_file import DataFile, RecentlyDeleted, child_by_id, child_by_physical_name
from geolake_nb.scan.deletion_vector import DeletionVector, read_bitmap, read_vector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow.parquet as pq

    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import Field
    from geolake_nb.scan.data_file import DeletedRows, EqualityDelete
    from geolake_nb.storage.storage import Storage

__all__ = ["DeltaRowSource"]

_LENGTH_BYTES, _CHECKSUM_BYTES = 4, 4


class DeltaRowSource:
    """The rows of a Delta table at one version."""

    def __init__(self, storage: Storage, snapshot: Snapshot) -> None:
        self._storage = storage
        self._snapshot = snapshot
        self._recent = RecentlyDeleted()
        # Delta, Column Mapping: ids count in the mode `id` alone; in the mode `name` files may have others.
        self.child = child_by_id if snapshot.details.column_mapping is ColumnMapping.ID else child_by_physical_name

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get their files from the driver, and need no file list.
        return {**self.__dict__, "_snapshot": None}

    def files(self, positions: Sequence[int]) -> list[DataFile]:
        """The data files at these rows of the file table."""
        table, indices = self._snapshot.files.table, pa.array(positions, pa.int64())
        paths = table["path"].take(indices).to_pylist()
        partitions = {name: table[f"partition.{name}"].take(indices) for name in self._snapshot.partition_columns}
        vectors = self._snapshot.details.deletion_vectors.take(indices).to_pylist()
        return [
            DataFile(
                path,
                self._storage.resolve(decoded_path(path)),
                {name: values[number] for name, values in partitions.items()},
                details=vector,
            )
            for number, (path, vector) in enumerate(zip(paths, vectors, strict=True))
        ]

    def arrow_schema(self, schema: pa.Schema, file: DataFile, *, where: str) -> pa.Schema:
        """The schema of a data file: its fields have what is needed."""
        return schema

    def absent(self, wanted: Field, file: DataFile) -> pa.Scalar | None:
        """Delta: a column that a file lacks is null there."""
        return None

    def deleted(self, file: DataFile, metadata: pq.FileMetaData) -> Sequence[DeletedRows]:
        """The rows that a deletion vector deletes."""
        if file.details is None:
            return []
        where = f"{self._storage.location}/{file.key}"
        return self._recent.of(
            file, lambda: [_vector(self._storage, file.details, rows=metadata.num_rows, where=where)]
        )

    def equality_deletes(self, file: DataFile) -> Sequence[EqualityDelete]:
        """None: Delta deletes by position."""
        return []


def _vector(storage: Storage, descriptor: Mapping[str, Any], *, rows: int, where: str) -> DeletionVector:
    # Delta, Deletion Vector Format: inline ones have neither a length nor a checksum.
    if descriptor["storageType"] == "i":
        try:
            packed = base64.b85decode(str(descriptor["pathOrInlineDv"]).translate(ALPHABET))
        except ValueError:
            raise CorruptTableError("the inline deletion vector cannot be decoded", where=where) from None
        return read_bitmap(packed[: descriptor["sizeInBytes"]], rows=rows, where=where)
    path = vector_file(descriptor)
    if path is None:
        raise CorruptTableError("the deletion vector has no file", where=where)
    key = storage.resolve(decoded_path(path) if descriptor["storageType"] == "p" else path)
    size = (descriptor["sizeInBytes"] or 0) + _LENGTH_BYTES + _CHECKSUM_BYTES
    blob = storage.read_range(key, descriptor["offset"] or 0, size)
    return read_vector(blob, rows=rows, where=f"{storage.location}/{key}")
