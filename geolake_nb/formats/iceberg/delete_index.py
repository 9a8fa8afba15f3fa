"""Which delete files take rows away from which data files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.errors import UnsupportedTableError
from geolake_nb.formats.iceberg.partition_values import PREFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geolake_nb.formats.iceberg.details import IcebergDetails
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


def data_file_rows(snapshot: Snapshot, positions: Sequence[int] | None = None) -> tuple[DataFileRows, ...]:
    """The data files at these places of the file table, or all of them, with the delete files that count for each."""
    details: IcebergDetails = snapshot.details
    table = snapshot.files.table
    if positions is not None:
        table = table.take(pa.array(positions, pa.int64()))
    names = [name for name in table.column_names if name.startswith(PREFIX)]
    _refuse_formats(table, snapshot.location)
    index = _Deletes(details, names, snapshot.location)
    wanted = ("path", "bytes", "rows", "deleted_rows", "sequence_number", "first_row_id", "spec_id")
    columns = [table[name].to_pylist() for name in wanted]
    partitions = list(zip(*(table[name].to_pylist() for name in names), strict=True)) if names else [()] * len(table)
    files: list[DataFileRows] = []
    for row, partition in zip(zip(*columns, strict=True), partitions, strict=True):
        path, size, rows, deleted, number, first, spec = row
        deletes = index.of(path, number or 0, spec, partition)
        key = details.paths.key(path)
        files.append(DataFileRows(path, key, size, rows + (deleted or 0), number or 0, first, spec, partition, deletes))
    return tuple(files)


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


class _Deletes:
    """The live delete files of a snapshot."""

    def __init__(self, details: IcebergDetails, names: list[str], where: str) -> None:
        self._vectors: dict[str, tuple[int, DeleteFile]] = {}
        self._by_path: dict[str, list[tuple[int, DeleteFile]]] = {}
        self._by_partition: dict[tuple[int, tuple[Any, ...]], list[tuple[int, DeleteFile]]] = {}
        self._equality: dict[tuple[int, tuple[Any, ...]], list[tuple[int, DeleteFile]]] = {}
        self._everywhere: list[tuple[int, DeleteFile]] = []
        table = details.delete_files
        # Iceberg, Scan Planning: equality deletes of a spec without fields count in every partition.
        unpartitioned = {spec.spec_id for spec in details.specs.values() if not spec.fields}
        for row in table.to_pylist():
            _refuse_delete(row, where)
            key = details.paths.key(row["path"])
            partition = tuple(row.get(name) for name in names)
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
                self._by_partition.setdefault((row["spec_id"], partition), []).append(one)
        else:
            one = number, DeleteFile(key, kind, equality_ids=tuple(row["equality_ids"] or ()))
            if everywhere:
                self._everywhere.append(one)
            else:
                self._equality.setdefault((row["spec_id"], partition), []).append(one)

    def of(self, path: str, number: int, spec: int, partition: tuple[Any, ...]) -> tuple[DeleteFile, ...]:
        """Those that count for a data file, by Iceberg's rules of scan planning."""
        here = spec, partition
        equality = [*self._everywhere, *self._equality.get(here, [])]
        found = [one for later, one in equality if number < later]
        vector = self._vectors.get(path)
        if vector is not None and number <= vector[0]:
            # Iceberg 3, Deletion Vectors: it holds what the position delete files of its data file held.
            return (vector[1], *found)
        position = [*self._by_path.get(path, []), *self._by_partition.get(here, [])]
        return (*(one for later, one in position if number <= later), *found)
