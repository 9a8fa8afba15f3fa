"""Which rows of data files are deleted: by position, by deletion vector, or by equality."""

from __future__ import annotations

import zlib
from bisect import bisect_left
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from geolake_nb.errors import CorruptTableError, SchemaError, UnsupportedTableError
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
    "DeletionVector",
    "data_file_rows",
    "equal_rows",
    "read_bitmap",
    "read_vector",
]

_MAGIC = b"\xd1\xd3\x39\x64"
_WITH_RUNS = 12347
_WITHOUT_RUNS = 12346
_FEW_CONTAINERS = 4
"""Roaring, Offset header: a bitmap with runs and fewer containers has none."""
_MAX_IN_ARRAY = 4096
_BITMAP_BYTES = 8192


class DeletionVector:
    """The positions of deleted rows, compressed as stored: a few bytes may represent any number of them."""

    def __init__(self, containers: Sequence[_Container]) -> None:
        """The containers are in the order of their keys."""
        self._containers = containers
        self._keys = [container.key for container in containers]
        self._unpacked: tuple[int, NDArray[np.int64]] | None = None

    def between(self, start: int, end: int) -> NDArray[np.int64]:
        """The positions from `start` to before `end`, sorted.

        >>> DeletionVector([]).between(0, 100)
        array([], dtype=int64)
        """
        first, last = bisect_left(self._keys, start >> 16), bisect_left(self._keys, -(-end >> 16))
        parts = [self._positions(number) for number in range(first, last)]
        parts = [part[np.searchsorted(part, start) : np.searchsorted(part, end)] for part in parts]
        return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.int64), *parts])

    def _positions(self, number: int) -> NDArray[np.int64]:
        # Batches come in order, and many of them fall into one container.
        if self._unpacked is None or self._unpacked[0] != number:
            self._unpacked = number, self._containers[number].positions()
        return self._unpacked[1]


def read_vector(blob: bytes, *, rows: int, where: str) -> DeletionVector:
    """The rows that the blob of a `deletion-vector-v1` deletes from a data file of that many rows.

    >>> read_vector(b"", rows=4, where="a.puffin")
    Traceback (most recent call last):
    geolake_nb.errors.CorruptTableError: a.puffin: the deletion vector is truncated
    """
    # Puffin, deletion-vector-v1: length, magic, the bitmap, and a checksum of the last two; big-endian numbers.
    if len(blob) < 20:
        raise CorruptTableError("the deletion vector is truncated", where=where)
    length = int.from_bytes(blob[:4], "big")
    body, checksum = blob[4 : 4 + length], blob[4 + length : 8 + length]
    if len(body) != length or len(checksum) != 4 or body[:4] != _MAGIC:
        raise CorruptTableError("the deletion vector has a wrong length or magic number", where=where)
    if zlib.crc32(body) != int.from_bytes(checksum, "big"):
        raise CorruptTableError("the checksum of the deletion vector is wrong", where=where)
    return read_bitmap(body, rows=rows, where=where)


def read_bitmap(body: bytes, *, rows: int, where: str) -> DeletionVector:
    """The same for the magic number and the bitmap alone, as in the log of a Delta table.

    >>> read_bitmap(b"abc", rows=4, where="a.parquet")
    Traceback (most recent call last):
    geolake_nb.errors.CorruptTableError: a.parquet: the deletion vector has a wrong length or magic number
    """
    if body[:4] != _MAGIC:
        raise CorruptTableError("the deletion vector has a wrong length or magic number", where=where)
    return DeletionVector(_Bytes(body[4:], rows, where).containers())


class _Kind(Enum):
    ARRAY = "the lowest 16 bits of each position"
    BITS = "a bit for each of 65,536 positions"
    RUNS = "starts, and how many positions follow each"


@dataclass(frozen=True, slots=True, eq=False)
class _Container:
    """The positions that share all but their lowest 16 bits."""

    key: int
    kind: _Kind
    data: NDArray[Any]

    @property
    def last(self) -> int:
        """Its last position, or the first possible one if it is empty."""
        if not len(self.data):
            return self.key << 16
        if self.kind is _Kind.BITS:
            byte = int(np.flatnonzero(self.data)[-1])
            return (self.key << 16) + 8 * byte + int(self.data[byte]).bit_length() - 1
        return (self.key << 16) + int(self.data[-1]) + (int(self.data[-2]) if self.kind is _Kind.RUNS else 0)

    def positions(self) -> NDArray[np.int64]:
        if self.kind is _Kind.ARRAY:
            low = self.data.astype(np.int64)
        elif self.kind is _Kind.BITS:
            low = np.flatnonzero(np.unpackbits(self.data, bitorder="little")).astype(np.int64)
        else:
            starts, sizes = self.data[::2].astype(np.int64), self.data[1::2].astype(np.int64) + 1
            before = np.cumsum(sizes) - sizes
            low = np.repeat(starts - before, sizes) + np.arange(sizes.sum())
        return low + (self.key << 16)


class _Bytes:
    """A 64-bit Roaring bitmap in its portable form; no count is trusted beyond the bytes that are there."""

    def __init__(self, data: bytes, rows: int, where: str) -> None:
        self._data = data
        self._rows = self._rows_left = rows
        self._where = where
        self._position = 0

    def containers(self) -> list[_Container]:
        count = int(self._numbers("<u8", 1)[0])
        result: list[_Container] = []
        if count > len(self._data) // 8:
            raise self._broken()
        for _ in range(count):
            high = int(self._numbers("<u4", 1)[0])
            for container in self._bitmap(high << 16):
                if result and container.key <= result[-1].key:
                    raise self._broken()
                if container.last >= self._rows:
                    raise self._too_many()
                result.append(container)
        return result

    def _bitmap(self, high: int) -> list[_Container]:
        cookie = int(self._numbers("<u4", 1)[0])
        if cookie & 0xFFFF == _WITH_RUNS:
            count = (cookie >> 16) + 1
            bits = np.frombuffer(self._take((count + 7) // 8), np.uint8)
            runs = np.unpackbits(bits, bitorder="little")[:count].astype(np.bool_)
            has_offsets = count >= _FEW_CONTAINERS
        elif cookie == _WITHOUT_RUNS:
            count = int(self._numbers("<u4", 1)[0])
            if count > 1 << 16:
                raise self._broken()
            runs, has_offsets = np.zeros(count, np.bool_), True
        else:
            raise self._broken()
        header = self._numbers("<u2", 2 * count).astype(np.int64)
        if has_offsets:
            self._take(4 * count)
        return [
            self._container(high + key, size + 1, is_run=is_run)
            for key, size, is_run in zip(header[::2].tolist(), header[1::2].tolist(), runs.tolist(), strict=True)
        ]

    def _container(self, key: int, size: int, *, is_run: bool) -> _Container:
        if is_run:
            count = int(self._numbers("<u2", 1)[0])
            pairs = self._numbers("<u2", 2 * count)
            # Roaring, Container storage: the runs are sorted and do not overlap. Overlapping ones expand to any size.
            ends = pairs[::2].astype(np.int64) + pairs[1::2] + 1
            if (pairs[2::2] < ends[:-1]).any() or (ends > 1 << 16).any():
                raise self._broken()
            self._expect_rows(count + int(pairs[1::2].sum(dtype=np.int64)))
            return _Container(key, _Kind.RUNS, pairs)
        self._expect_rows(size)
        if size <= _MAX_IN_ARRAY:
            array = self._numbers("<u2", size)
            if (array[1:] <= array[:-1]).any():
                raise self._broken()
            return _Container(key, _Kind.ARRAY, array)
        bits = np.frombuffer(self._take(_BITMAP_BYTES), np.uint8)
        if int(np.bitwise_count(bits).sum(dtype=np.int64)) != size:
            raise self._broken()
        return _Container(key, _Kind.BITS, bits)

    def _expect_rows(self, count: int) -> None:
        self._rows_left -= count
        if self._rows_left < 0:
            raise self._too_many()

    def _numbers(self, kind: str, count: int) -> NDArray[Any]:
        return np.frombuffer(self._take(np.dtype(kind).itemsize * count), kind)

    def _take(self, count: int) -> bytes:
        taken = self._data[self._position : self._position + count]
        if len(taken) != count:
            raise self._broken()
        self._position += count
        return taken

    def _too_many(self) -> CorruptTableError:
        return CorruptTableError(
            f"the deletion vector deletes rows beyond the {self._rows:,} of its data file",
            where=self._where,
        )

    def _broken(self) -> CorruptTableError:
        return CorruptTableError("the bitmap of the deletion vector cannot be read", where=self._where)


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
