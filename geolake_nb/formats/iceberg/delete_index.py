"""Which delete files take rows away from which data files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.errors import UnsupportedTableError
from geolake_nb.formats.file_table import has_column
from geolake_nb.formats.iceberg.bounds import arrow_type
from geolake_nb.formats.iceberg.partition_values import PREFIX, partition_list

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from geolake_nb.core.types import DataType, Field
    from geolake_nb.formats.iceberg.details import IcebergDetails
    from geolake_nb.formats.iceberg.metadata import PartitionSpec
    from geolake_nb.formats.snapshot import Snapshot

__all__ = ["DataFileRows", "DeleteFile", "data_file_rows"]


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A delete file as far as its rows are concerned."""

    key: str
    """As the storage takes it."""
    kind: str
    """`deletion-vector`, `equality` or `position`."""
    offset: int = 0
    """Where the blob of a deletion vector starts, and how long it is."""
    length: int = 0
    equality_ids: tuple[int, ...] = ()
    equality_fields: Mapping[int, Field] = field(default_factory=dict, hash=False)
    """By these ids the columns, dropped ones too, as the newest schema that has them says: files may lack them."""


@dataclass(frozen=True, slots=True)
class DataFileRows:
    """A data file as far as its rows are concerned; it goes to other processes."""

    path: str
    """As the table stores it, which is how position deletes name it."""
    key: str
    bytes: int
    rows: int
    """Deleted ones included."""
    sequence_number: int
    first_row_id: int | None
    spec_id: int
    partition: tuple[Any, ...]
    """The values of all partition fields of the table, in the order of the file table."""
    deletes: tuple[DeleteFile, ...] = ()
    constants: Mapping[int, pa.Scalar] = field(default_factory=dict, hash=False)
    """By the ids of columns what they hold in every row, as the identity transforms of the partition say."""


def data_file_rows(snapshot: Snapshot, positions: Sequence[int] | None = None) -> tuple[DataFileRows, ...]:
    """The data files at these places of the file table, or all of them, with the delete files that count for each."""
    details: IcebergDetails = snapshot.details
    table = snapshot.files.table
    if positions is not None:
        table = table.take(pa.array(positions, pa.int64()))
    names = [name for name in table.column_names if name.startswith(PREFIX)]
    _refuse_formats(table, snapshot.location)
    index = _Deletes(details, names, snapshot)
    types = {one.id: one.type for _, one in snapshot.schema.walk() if one.id is not None}
    sources = {id_: _identities(spec, types, table.schema) for id_, spec in details.specs.items()}
    wanted = ("path", "bytes", "rows", "deleted_rows", "sequence_number", "first_row_id", "spec_id")
    columns = [table[name].to_pylist() for name in wanted]
    partitions = _partitions(table, names)
    files: list[DataFileRows] = []
    for place, (row, partition) in enumerate(zip(zip(*columns, strict=True), partitions, strict=True)):
        path, size, rows, deleted, number, first, spec = row
        files.append(
            DataFileRows(
                path=path,
                key=details.paths.key(path),
                bytes=size,
                rows=rows + (deleted or 0),
                sequence_number=number or 0,
                first_row_id=first,
                spec_id=spec,
                partition=partition,
                deletes=index.of(path, number or 0, spec, partition),
                constants={id_: table[name][place] for id_, name in sources[spec].items()},
            )
        )
    return tuple(files)


def _partitions(table: pa.Table, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """The values of these partition fields, a tuple for each file."""
    columns = [partition_list(table[name]) if has_column(table, name) else [None] * len(table) for name in names]
    return list(zip(*columns, strict=True)) if names else [()] * len(table)


def _identities(spec: PartitionSpec, types: Mapping[int, DataType], held: pa.Schema) -> dict[int, str]:
    """By the ids of columns, of which these are the types, the partition values that are theirs as they are."""
    found: dict[int, str] = {}
    for one in spec.fields:
        name, type_ = f"{PREFIX}{one.name}", types.get(one.source_id)
        if one.transform == "identity" and type_ is not None and arrow_type(type_) == held.field(name).type:
            found[one.source_id] = name
    return found


def _refuse_formats(table: pa.Table, where: str) -> None:
    others = sorted({str(one) for one in table["format"].to_pylist()} - {"PARQUET"})
    if others:
        what = f"its data files are {', '.join(others)}, and only Parquet is read here"
        raise UnsupportedTableError(what, where=where)
    if any(table["encrypted"].to_pylist()):
        raise UnsupportedTableError("its data files are encrypted", where=where)


def _refuse_delete(row: dict[str, Any], where: str) -> None:
    if row["kind"] != "deletion-vector" and row["format"] != "PARQUET":
        raise UnsupportedTableError(f"a delete file is {row['format']}, and only Parquet is read here", where=where)
    if row["encrypted"]:
        raise UnsupportedTableError("a delete file is encrypted", where=where)


def _here(spec: int, partition: tuple[Any, ...]) -> tuple[str, ...]:
    """A partition as a key: NaN is not even itself, and -0.0 is not 0.0 where it partitions."""
    return str(spec), *map(repr, partition)


def _all_fields(snapshot: Snapshot) -> dict[int, Field]:
    """Every column that the table has or had, by its id, as the newest schema that has it says."""
    metadata = snapshot.details.metadata
    schemas = [*(metadata.schema(id_) for id_ in sorted(metadata.schemas)), snapshot.schema]
    return {one.id: one for schema in schemas for _, one in schema.walk() if one.id is not None}


class _Deletes:
    """The live delete files of a snapshot."""

    def __init__(self, details: IcebergDetails, names: list[str], snapshot: Snapshot) -> None:
        self._vectors: dict[str, tuple[int, DeleteFile]] = {}
        self._by_path: dict[str, list[tuple[int, DeleteFile]]] = {}
        self._by_partition: dict[tuple[str, ...], list[tuple[int, DeleteFile]]] = {}
        self._equality: dict[tuple[str, ...], list[tuple[int, DeleteFile]]] = {}
        self._everywhere: list[tuple[int, DeleteFile]] = []
        table = details.delete_files
        # Iceberg, Scan Planning: equality deletes of an unpartitioned spec count in every partition.
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
            one = number, DeleteFile(key, kind)
            if row["referenced_data_file"] is not None:
                self._by_path.setdefault(row["referenced_data_file"], []).append(one)
            else:
                self._by_partition.setdefault(_here(row["spec_id"], partition), []).append(one)
        else:
            ids = tuple(row["equality_ids"] or ())
            fields = {id_: self._fields[id_] for id_ in ids if id_ in self._fields}
            one = number, DeleteFile(key, kind, equality_ids=ids, equality_fields=fields)
            if everywhere:
                self._everywhere.append(one)
            else:
                self._equality.setdefault(_here(row["spec_id"], partition), []).append(one)

    def of(self, path: str, number: int, spec: int, partition: tuple[Any, ...]) -> tuple[DeleteFile, ...]:
        """Those that count for a data file, by Iceberg's rules of scan planning."""
        here = _here(spec, partition)
        equality = [*self._everywhere, *self._equality.get(here, [])]
        found = [one for later, one in equality if number < later]
        vector = self._vectors.get(path)
        if vector is not None and number <= vector[0]:
            # Iceberg 3, Deletion Vectors: it holds what the position delete files of its data file held.
            return (vector[1], *found)
        position = [*self._by_path.get(path, []), *self._by_partition.get(here, [])]
        return (*(one for later, one in position if number <= later), *found)
