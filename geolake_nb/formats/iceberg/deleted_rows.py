"""Which rows of data files are deleted: by position, by deletion vector or by equality."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from geolake_nb.errors import SchemaError, UnsupportedTableError
from geolake_nb.formats.iceberg.bounds import arrow_type
from geolake_nb.formats.iceberg.partitions import PREFIX, partition_list
from geolake_nb.model.file_table import has_column, physical_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from geolake_nb.formats.iceberg.metadata import PartitionSpec
    from geolake_nb.formats.iceberg.snapshot import IcebergDetails
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import DataType, Field

__all__ = [
    "DataFileIndex",
    "DataFileRows",
    "DeleteFile",
    "data_file_rows",
    "equal_rows",
]


def equal_rows(columns: Sequence[pa.Array], deleted: pa.Table) -> NDArray[np.bool_]:
    """Which rows equal a row of the deletes in all of the columns; nulls are equal.

    >>> equal_rows([pa.array([1, 2, None])], pa.table({"id": [None, 1]}))
    array([ True, False,  True])
    """
    rows, count = len(columns[0]), len(deleted)
    keys = np.zeros((rows + count, len(columns)), np.int64)
    for index, column in enumerate(columns):
        mine, theirs = _same_type(column, deleted.column(index).combine_chunks())
        encoded = pa.concat_arrays([mine, theirs]).dictionary_encode(null_encoding="encode")
        keys[:, index] = encoded.indices.to_numpy(zero_copy_only=False)
    _, codes = np.unique(keys, axis=0, return_inverse=True)
    codes = codes.reshape(-1)
    return np.isin(codes[:rows], codes[rows:])


def _same_type(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Both as the wider of the two types: a column may have been promoted in between.

    >>> _same_type(pa.array([0.1]), pa.array([0.1], pa.float32()))[1].to_pylist()
    [0.10000000149011612]
    """
    if left.type == right.type:
        return left, right
    # A double or a time would silently become a float or a date, and equal to other values.
    wide = (pa.types.is_float64, pa.types.is_timestamp)
    for kind in sorted((right.type, left.type), key=lambda kind: not any(is_wide(kind) for is_wide in wide)):
        try:
            return left.cast(kind), right.cast(kind)
        except pa.ArrowException:
            continue
    raise SchemaError(f"values of type {left.type} cannot be compared with deletes of type {right.type}")


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A delete file, with what is needed to read its rows."""

    key: str
    """The storage key."""
    kind: str
    """`deletion-vector`, `equality` or `position`."""
    offset: int = 0
    """Where the blob of a deletion vector starts, and how long it is."""
    length: int = 0
    equality_ids: tuple[int, ...] = ()
    equality_fields: Mapping[int, Field] = field(default_factory=dict, hash=False)
    """The columns of these ids, including dropped ones, from the newest schema that has them: files may lack them."""


@dataclass(frozen=True, slots=True)
class DataFileRows:
    """A data file, with what is needed to read its rows; it is sent to other processes."""

    path: str
    """As stored in the table, which is how position deletes refer to it."""
    key: str
    bytes: int
    rows: int
    """Including deleted rows."""
    sequence_number: int
    first_row_id: int | None
    spec_id: int
    partition: tuple[Any, ...]
    """The values of all partition fields of the table, in the order of the file table."""
    deletes: tuple[DeleteFile, ...] = ()
    constants: Mapping[int, pa.Scalar] = field(default_factory=dict, hash=False)
    """The constant values of identity partition columns, by column id."""


def data_file_rows(snapshot: Snapshot, positions: Sequence[int] | None = None) -> tuple[DataFileRows, ...]:
    """The data files at these rows of the file table, or all, with the delete files that apply to each."""
    return DataFileIndex(snapshot).files(positions)


class DataFileIndex:
    """The data files of a snapshot by their rows in the file table; the delete files are indexed once."""

    def __init__(self, snapshot: Snapshot) -> None:
        details: IcebergDetails = snapshot.details
        self._snapshot = snapshot
        self._paths = details.paths
        table = snapshot.files.table
        self._names = [name for name in table.column_names if name.startswith(PREFIX)]
        self._deletes = _Deletes(details, self._names, snapshot)
        types = {field.id: field.type for _, field in snapshot.schema.walk() if field.id is not None}
        self._sources = {id_: _identities(spec, types, table.schema) for id_, spec in details.specs.items()}

    def files(self, positions: Sequence[int] | None = None) -> tuple[DataFileRows, ...]:
        """The data files at these rows of the file table, or all, with the delete files that apply to each."""
        table = self._snapshot.files.table
        if positions is not None:
            table = table.take(pa.array(positions, pa.int64()))
        _refuse_formats(table, self._snapshot.location)
        wanted = ("path", "bytes", "sequence_number", "first_row_id", "spec_id")
        columns = [*(table[name].to_pylist() for name in wanted), physical_rows(table).to_pylist()]
        partitions = _partitions(table, self._names)
        files: list[DataFileRows] = []
        for position, (row, partition) in enumerate(zip(zip(*columns, strict=True), partitions, strict=True)):
            path, size, number, first, spec, rows = row
            files.append(
                DataFileRows(
                    path=path,
                    key=self._paths.key(path),
                    bytes=size,
                    rows=rows,
                    sequence_number=number or 0,
                    first_row_id=first,
                    spec_id=spec,
                    partition=partition,
                    deletes=self._deletes.of(path, number or 0, spec, partition),
                    constants={id_: table[name][position] for id_, name in self._sources[spec].items()},
                )
            )
        return tuple(files)


def _partitions(table: pa.Table, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """The values of these partition fields, one tuple per file."""
    columns = [partition_list(table[name]) if has_column(table, name) else [None] * len(table) for name in names]
    return list(zip(*columns, strict=True)) if names else [()] * len(table)


def _identities(spec: PartitionSpec, types: Mapping[int, DataType], schema: pa.Schema) -> dict[int, str]:
    """The names of the identity partition fields by the ids of their columns; `types` has the types of the columns."""
    names: dict[int, str] = {}
    for part in spec.fields:
        name, type_ = f"{PREFIX}{part.name}", types.get(part.source_id)
        if part.transform == "identity" and type_ is not None and arrow_type(type_) == schema.field(name).type:
            names[part.source_id] = name
    return names


def _refuse_formats(table: pa.Table, where: str) -> None:
    others = sorted({str(format_) for format_ in table["format"].to_pylist()} - {"PARQUET"})
    if others:
        what = f"its data files are {', '.join(others)}; only Parquet is supported"
        raise UnsupportedTableError(what, where=where)
    if any(table["encrypted"].to_pylist()):
        raise UnsupportedTableError("its data files are encrypted", where=where)


def _refuse_delete(row: dict[str, Any], where: str) -> None:
    if row["kind"] != "deletion-vector" and row["format"] != "PARQUET":
        raise UnsupportedTableError(f"a delete file is {row['format']}; only Parquet is supported", where=where)
    if row["encrypted"]:
        raise UnsupportedTableError("a delete file is encrypted", where=where)


def _partition_key(spec: int, partition: tuple[Any, ...]) -> tuple[str, ...]:
    """A partition as a key: NaN does not equal itself, and -0.0 is a different partition from 0.0."""
    return str(spec), *map(repr, partition)


def _all_fields(snapshot: Snapshot) -> dict[int, Field]:
    """Every column that the table has or had, by id, from the newest schema that has it."""
    metadata = snapshot.details.metadata
    schemas = [*(metadata.schema(id_) for id_ in sorted(metadata.schemas)), snapshot.schema]
    return {field.id: field for schema in schemas for _, field in schema.walk() if field.id is not None}


class _Deletes:
    """The live delete files of a snapshot."""

    def __init__(self, details: IcebergDetails, names: list[str], snapshot: Snapshot) -> None:
        self._vectors: dict[str, tuple[int, DeleteFile]] = {}
        self._by_path: dict[str, list[tuple[int, DeleteFile]]] = {}
        self._by_partition: dict[tuple[str, ...], list[tuple[int, DeleteFile]]] = {}
        self._equality: dict[tuple[str, ...], list[tuple[int, DeleteFile]]] = {}
        self._everywhere: list[tuple[int, DeleteFile]] = []
        table = details.delete_files
        # Iceberg, Scan Planning: equality deletes of an unpartitioned spec apply to every partition.
        unpartitioned = {spec.spec_id for spec in details.specs.values() if spec.is_unpartitioned}
        rows = table.select([name for name in table.column_names if not name.startswith(PREFIX)]).to_pylist()
        self._fields = _all_fields(snapshot) if any(row["equality_ids"] for row in rows) else {}
        for row, partition in zip(rows, _partitions(table, names), strict=True):
            _refuse_delete(row, snapshot.location)
            key = details.paths.key(row["path"])
            self._note(row, key, partition, everywhere=row["spec_id"] in unpartitioned)

    def _note(self, row: dict[str, Any], key: str, partition: tuple[Any, ...], *, everywhere: bool) -> None:
        kind, number = row["kind"], row["sequence_number"] or 0
        if kind == "deletion-vector":
            offset, length = row["content_offset"], row["content_bytes"]
            self._vectors[row["referenced_data_file"]] = number, DeleteFile(key, kind, offset or 0, length or 0)
        elif kind == "position":
            entry = number, DeleteFile(key, kind)
            if row["referenced_data_file"] is not None:
                self._by_path.setdefault(row["referenced_data_file"], []).append(entry)
            else:
                self._by_partition.setdefault(_partition_key(row["spec_id"], partition), []).append(entry)
        else:
            ids = tuple(row["equality_ids"] or ())
            fields = {id_: self._fields[id_] for id_ in ids if id_ in self._fields}
            entry = number, DeleteFile(key, kind, equality_ids=ids, equality_fields=fields)
            if everywhere:
                self._everywhere.append(entry)
            else:
                self._equality.setdefault(_partition_key(row["spec_id"], partition), []).append(entry)

    def of(self, path: str, number: int, spec: int, partition: tuple[Any, ...]) -> tuple[DeleteFile, ...]:
        """Those that apply to a data file, by Iceberg's rules of scan planning."""
        here = _partition_key(spec, partition)
        equality = [*self._everywhere, *self._equality.get(here, [])]
        by_value = [file for later, file in equality if number < later]
        vector = self._vectors.get(path)
        if vector is not None and number <= vector[0]:
            # Iceberg 3, Deletion Vectors: it includes the position delete files of its data file.
            return (vector[1], *by_value)
        position = [*self._by_path.get(path, []), *self._by_partition.get(here, [])]
        return (*(file for later, file in position if number <= later), *by_value)
