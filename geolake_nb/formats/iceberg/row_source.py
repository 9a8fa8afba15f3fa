"""The live rows of Iceberg and Havasu data files: columns by field id, defaults, deletes of every kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from geolake_nb.errors import CorruptTableError, SchemaError
from geolake_nb.formats.iceberg.deleted_rows import DataFileIndex, equal_rows
from geolake_nb.formats.iceberg.live_rows import DeleteReader, default_value
from geolake_nb.formats.iceberg.schema import name_mapping, with_field_ids
from geolake_nb.scan.data_file import FIELD_ID, DataFile, RecentlyDeleted, child_by_id
from geolake_nb.scan.result_schema import ResultTypes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.parquet as pq
    from numpy.typing import NDArray

    from geolake_nb.formats.iceberg.deleted_rows import DataFileRows
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import Field
    from geolake_nb.scan.data_file import DeletedRows, EqualityDelete
    from geolake_nb.storage.storage import Storage

__all__ = ["IcebergRowSource"]


class IcebergRowSource:
    """The rows of an Iceberg or Havasu table at one snapshot."""

    child = staticmethod(child_by_id)

    def __init__(self, storage: Storage, snapshot: Snapshot) -> None:
        self._location = storage.location
        self._index = DataFileIndex(snapshot)
        self._names = name_mapping(snapshot)
        self._deletes = DeleteReader(storage)
        self._recent = RecentlyDeleted()

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get their files from the driver, and need no file list.
        return {**self.__dict__, "_index": None}

    def files(self, positions: Sequence[int]) -> list[DataFile]:
        """The data files at these rows of the file table."""
        return [DataFile(file.path, file.key, details=file) for file in self._index.files(positions)]

    def arrow_schema(self, schema: pa.Schema, file: DataFile, *, where: str) -> pa.Schema:
        """The schema of a data file with field ids, by the name mapping if it has none."""
        if _has_ids(schema):
            return schema
        if self._names is None:
            raise SchemaError(
                "the file has no field ids, and the columns of the table may have had other names",
                where=where,
                remedy="set the property schema.name-mapping.default",
            )
        return with_field_ids(schema, self._names)

    def absent(self, wanted: Field, file: DataFile) -> pa.Scalar | None:
        """Iceberg, Column Projection: the value of an identity partition, else the initial default."""
        rows: DataFileRows = file.details
        constant = None if wanted.id is None else rows.constants.get(wanted.id)
        if constant is not None:
            return constant
        default = wanted.metadata.get("initial-default")
        if default is None:
            return None
        return default_value(default, wanted.type, ResultTypes().kind(wanted.type, (wanted.name,)))

    def deleted(self, file: DataFile, metadata: pq.FileMetaData) -> Sequence[DeletedRows]:
        """The rows that deletion vectors and position deletes delete."""
        return self._recent.of(file, lambda: self._read_deleted(file.details, metadata.num_rows))

    def _read_deleted(self, file: DataFileRows, rows: int) -> Sequence[DeletedRows]:
        positions = self._deletes.positions(file)
        listed: list[DeletedRows] = [_Positions(positions)] if len(positions) else []
        return [*self._deletes.vectors(file, rows), *listed]

    def equality_deletes(self, file: DataFile) -> Sequence[EqualityDelete]:
        """The rows that equality deletes delete."""
        return list(self._equality(file.details))

    def _equality(self, rows: DataFileRows) -> Iterator[_EqualityDelete]:
        for delete in rows.deletes:
            if delete.kind != "equality":
                continue
            fields = [delete.equality_fields.get(id_) for id_ in delete.equality_ids]
            known = [field for field in fields if field is not None]
            if len(known) < len(fields):
                where = f"{self._location}/{delete.key}"
                raise CorruptTableError("the delete file compares a column that the table never had", where=where)
            yield _EqualityDelete(tuple(known), self._deletes.equality_table(delete))


@dataclass(frozen=True, slots=True, eq=False)
class _Positions:
    rows: NDArray[np.int64]

    def between(self, start: int, end: int) -> NDArray[np.int64]:
        """The positions from `start` to before `end`."""
        return self.rows[np.searchsorted(self.rows, start) : np.searchsorted(self.rows, end)]


@dataclass(frozen=True, slots=True, eq=False)
class _EqualityDelete:
    fields: tuple[Field, ...]
    table: pa.Table

    def matches(self, columns: Sequence[pa.Array]) -> NDArray[np.bool_]:
        """Which rows equal one of the deleted rows."""
        return equal_rows(columns, self.table)


def _has_ids(schema: pa.Schema) -> bool:
    stack = list(schema)
    while stack:
        field = stack.pop()
        if FIELD_ID in (field.metadata or {}):
            return True
        if pa.types.is_struct(field.type):
            stack += list(field.type)
    return False
