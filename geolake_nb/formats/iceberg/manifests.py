"""Manifest lists and manifests as Arrow tables, with inherited values of entries filled in."""

from __future__ import annotations

import enum
import io
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import CorruptTableError, UnsupportedTableError
from geolake_nb.formats.iceberg.avro import AVRO_ERRORS, EntryColumns, read_blocks, read_entries, read_header
from geolake_nb.formats.iceberg.avro_program import EntryField, Pool, smallest_size
from geolake_nb.formats.iceberg.bounds import EDGES, marked_ids
from geolake_nb.formats.iceberg.writability import foreign_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from geolake_nb.formats.iceberg.location import PathMap
    from geolake_nb.formats.iceberg.metadata import StoredSnapshot
    from geolake_nb.formats.iceberg.partitions import PartitionColumns
    from geolake_nb.storage.storage import Storage

__all__ = ["MANIFEST_SCHEMA", "Content", "ManifestReader", "Status", "listed_manifests", "read_manifest_list"]


class Status(enum.IntEnum):
    """What the commit that wrote an entry did with the file."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


class Content(enum.IntEnum):
    """The content of a file."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


_SUMMARY = pa.struct(
    [
        pa.field("contains_null", pa.bool_()),
        pa.field("contains_nan", pa.bool_()),
        pa.field("lower_bound", pa.binary()),
        pa.field("upper_bound", pa.binary()),
    ]
)

MANIFEST_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("bytes", pa.int64()),
        pa.field("spec_id", pa.int64()),
        pa.field("is_deletes", pa.bool_()),
        pa.field("sequence_number", pa.int64()),
        pa.field("min_sequence_number", pa.int64()),
        pa.field("added_snapshot", pa.int64()),
        pa.field("added_files", pa.int64()),
        pa.field("existing_files", pa.int64()),
        pa.field("deleted_files", pa.int64()),
        pa.field("added_rows", pa.int64()),
        pa.field("existing_rows", pa.int64()),
        pa.field("deleted_rows", pa.int64()),
        pa.field("partitions", pa.list_(_SUMMARY)),
        pa.field("key_metadata", pa.binary()),
        pa.field("first_row_id", pa.int64()),
    ]
)
"""The columns of `IcebergDetails.manifests`; numbers that a list omits are null."""

# Field ids of the manifest list, in the order of the columns above.
_LIST_IDS = (500, 501, 502, 517, 515, 516, 503, 504, 505, 506, 512, 513, 514, 507, 519, 520)
_SUMMARY_IDS = {509: "contains_null", 518: "contains_nan", 510: "lower_bound", 511: "upper_bound"}
# For writers that omit the ids; the last three are the names of the counts in early version 1.
_LIST_NAMES = {
    "manifest_path": 500,
    "manifest_length": 501,
    "partition_spec_id": 502,
    "content": 517,
    "sequence_number": 515,
    "min_sequence_number": 516,
    "added_snapshot_id": 503,
    "added_data_files_count": 504,
    "existing_data_files_count": 505,
    "deleted_data_files_count": 506,
    "added_files_count": 504,
    "existing_files_count": 505,
    "deleted_files_count": 506,
    "added_rows_count": 512,
    "existing_rows_count": 513,
    "deleted_rows_count": 514,
    "partitions": 507,
    "key_metadata": 519,
    "first_row_id": 520,
}

# How many bytes of compressed manifests are in memory at a time, and cached for the next query.
_AT_ONCE = 64 * 1024 * 1024
_KEPT = 128 * 1024 * 1024
_WORKERS = 2


def read_manifest_list(data: bytes, *, where: str) -> pa.Table:
    """The manifests of a snapshot, in the order of the list."""
    import fastavro

    header = read_header(data, where=where)
    smallest = smallest_size(header.schema, where=where)
    rows: list[Any] = []
    try:
        schema = fastavro.parse_schema(header.schema)
        ids = _ids(header.schema, _LIST_NAMES)
        for block in read_blocks(data, header, where=where):
            if block.records > len(block.data) // max(smallest, 1):
                raise ValueError(f"a block of {len(block.data)} bytes claims {block.records} records")
            stream = io.BytesIO(block.data)
            rows += [fastavro.schemaless_reader(stream, schema, None) for _ in range(block.records)]
        named = [{ids[name]: value for name, value in row.items() if name in ids} for row in rows]
        return _list_table(named, header.schema)
    except AVRO_ERRORS as problem:
        raise CorruptTableError(f"the manifest list cannot be read: {problem}", where=where) from None


def _ids(schema: Any, names: dict[str, int]) -> dict[str, int]:
    fields = schema["fields"]
    return {field["name"]: field.get("field-id", names.get(field["name"], -1)) for field in fields}


def _list_table(rows: list[dict[int, Any]], schema: Any) -> pa.Table:
    columns: dict[str, pa.Array] = {}
    for field, id_ in zip(MANIFEST_SCHEMA, _LIST_IDS, strict=True):
        values = [row.get(id_) for row in rows]
        if field.name == "is_deletes":
            values = [bool(value) for value in values]
        elif field.name == "partitions":
            values = [None if value is None else [_summary(summary) for summary in value] for value in values]
        columns[field.name] = pa.array(values, field.type)
    paths = columns["path"]
    if paths.null_count:
        raise ValueError("a manifest has no path")
    return pa.table(columns, schema=MANIFEST_SCHEMA)


def _summary(raw: Any) -> dict[str, Any]:
    return {name: raw.get(name) for name in _SUMMARY_IDS.values()}


def listed_manifests(snapshot: StoredSnapshot) -> pa.Table:
    """The manifests that a version 1 snapshot lists inline, without a manifest list.

    >>> import datetime as dt
    >>> from geolake_nb.formats.iceberg.metadata import StoredSnapshot
    >>> listed_manifests(StoredSnapshot(1, dt.datetime.now(dt.UTC), None, ("a.avro",)))["path"].to_pylist()
    ['a.avro']
    """
    rows = [{"path": path, "is_deletes": False, "added_snapshot": snapshot.snapshot_id} for path in snapshot.manifests]
    return pa.Table.from_pylist(rows, MANIFEST_SCHEMA)


@dataclass(frozen=True, slots=True)
class _Job:
    index: int
    path: str
    key: str
    spec_id: int | None
    sequence_number: int | None
    added_snapshot: int | None


class ManifestReader:
    """Reads the live entries of manifests, once for the files and again for each column that is queried.

    The compressed bytes are cached between queries if they are small.
    """

    def __init__(self, storage: Storage, paths: PathMap, manifests: pa.Table, partitions: PartitionColumns) -> None:
        self._storage = storage
        self._paths = paths
        self._manifests = manifests
        self._partitions = partitions
        self._kept: dict[str, bytes] = {}
        self.foreign: set[str] = set()
        """Fields of the manifests read so far that Iceberg does not define."""
        self.marked: dict[int, frozenset[int]] = {}
        """The columns whose bounds are marked to cover edges, by the index of the data manifest."""

    def files(self, *, deletes: bool, wanted: Sequence[int], bounds: Sequence[Pool]) -> pa.Table:
        """The live entries of the data manifests or of the delete manifests.

        For each wanted column id `k` there are `k.NULLS` and the requested bounds, such as `k.LOWER`, as bytes.
        """

        def columns(entries: EntryColumns, job: _Job) -> pa.Table:
            self.foreign.update(foreign_fields(entries.header))
            if not deletes and EDGES in entries.header.metadata:
                self.marked[job.index] = marked_ids(entries.header.metadata[EDGES])
            table = _file_columns(entries, job, self._partitions, wanted, bounds)
            return (_with_targets(table, entries) if deletes else table).filter(_is_live(entries))

        tables = list(self._read(columns, deletes=deletes, wanted=wanted))
        if not tables:
            return _no_files(self._partitions, wanted, bounds, deletes=deletes)
        table = pa.concat_tables(tables, promote_options="default").combine_chunks()
        firsts = self._manifests["first_row_id"].fill_null(-1).to_numpy()
        # Only tables of version 3 have row ids.
        return table if deletes or not (firsts >= 0).any() else _with_row_ids(table, firsts)

    def statistics(self, column: int, *, lower: Pool = Pool.LOWER, upper: Pool = Pool.UPPER) -> pa.Table:
        """`nulls, nans, lower, upper` of one column in every live data file, in the order of `files`."""

        def columns(entries: EntryColumns, _: _Job) -> pa.Table:
            arrays = {
                "nulls": entries.count_of(Pool.NULLS, column),
                "nans": entries.count_of(Pool.NANS, column),
                "lower": entries.bytes_of(lower, column),
                "upper": entries.bytes_of(upper, column),
            }
            return pa.table(arrays).filter(_is_live(entries))

        schema = pa.schema(
            [("nulls", pa.int64()), ("nans", pa.int64()), ("lower", pa.binary()), ("upper", pa.binary())]
        )
        tables = list(self._read(columns, deletes=False, wanted=[column]))
        return pa.concat_tables(tables).combine_chunks() if tables else schema.empty_table()

    def _read(self, columns: Any, *, deletes: bool, wanted: Sequence[int]) -> Iterator[pa.Table]:
        def work(job: _Job, data: bytes) -> list[pa.Table]:
            return [columns(entries, job) for entries in read_entries(data, wanted=wanted, where=job.path)]

        jobs = self._jobs(deletes=deletes)
        # Decompression and the walk release the GIL, so that a second thread helps.
        with ThreadPoolExecutor(_WORKERS) as pool:
            for some in self._chunks(jobs):
                chunk = zip(some, self._fetch(some), strict=True)
                for tables in pool.map(lambda pair: work(*pair), chunk):
                    yield from tables

    def _jobs(self, *, deletes: bool) -> list[tuple[_Job, int]]:
        names = ("path", "bytes", "spec_id", "sequence_number", "added_snapshot", "is_deletes", "key_metadata")
        jobs = []
        columns = [self._manifests[name].to_pylist() for name in names]
        for index, (path, size, spec, sequence, added, is_deletes, key_metadata) in enumerate(
            zip(*columns, strict=True)
        ):
            if is_deletes != deletes:
                continue
            if key_metadata is not None:
                raise UnsupportedTableError("the manifest is encrypted", where=path)
            jobs.append((_Job(index, path, self._paths.key(path), spec, sequence, added), size or 0))
        return jobs

    def _chunks(self, jobs: list[tuple[_Job, int]]) -> Iterator[list[_Job]]:
        chunk: list[_Job] = []
        total = 0
        for job, size in jobs:
            chunk.append(job)
            total += size
            if total >= _AT_ONCE:
                yield chunk
                chunk, total = [], 0
        if chunk:
            yield chunk

    def _fetch(self, jobs: list[_Job]) -> list[bytes]:
        missing = [job.key for job in jobs if job.key not in self._kept]
        fetched = dict(zip(missing, self._storage.read_many(missing), strict=True))
        data = [self._kept[job.key] if job.key in self._kept else fetched[job.key] or b"" for job in jobs]
        room = _KEPT - sum(map(len, self._kept.values()))
        if sum(len(blob or b"") for blob in fetched.values()) <= room:
            self._kept |= {key: blob or b"" for key, blob in fetched.items()}
        return data


def _is_live(entries: EntryColumns) -> pa.Array:
    status = entries.longs(EntryField.STATUS)
    known = pc.is_in(status, value_set=pa.array([member.value for member in Status]))
    if not pc.all(known, min_count=0).as_py():
        raise CorruptTableError("an entry has an unknown status", where=entries.where)
    return pc.not_equal(status, Status.DELETED.value)


def _file_columns(
    entries: EntryColumns, job: _Job, partitions: PartitionColumns, wanted: Sequence[int], bounds: Sequence[Pool]
) -> pa.Table:
    count = len(entries)
    status = entries.longs(EntryField.STATUS)
    spec_id = job.spec_id if job.spec_id is not None else _stated_spec(entries)
    path = _required(entries.texts(EntryField.FILE_PATH), "file_path", job)
    rows = _required(entries.longs(EntryField.RECORD_COUNT), "record_count", job)
    if count and pc.min(rows).as_py() < 0:
        raise CorruptTableError("an entry has a negative record_count", where=job.path)
    content = pc.fill_null(entries.longs(EntryField.CONTENT), Content.DATA.value)
    strange = sorted(set(pc.unique(content).to_pylist()) - {member.value for member in Content})
    if strange:  # it may delete rows
        raise UnsupportedTableError(f"an entry has the content {strange[0]}, which is not supported", where=job.path)
    columns: dict[str, pa.Array] = {
        "path": path,
        "bytes": entries.longs(EntryField.FILE_SIZE_IN_BYTES),
        "rows": rows,
        "content": content,
        "format": pc.utf8_upper(entries.texts(EntryField.FILE_FORMAT)),
        "manifest": pa.array(np.full(count, job.index, np.int32)),
        "spec_id": pa.array(np.full(count, spec_id, np.int32)),
        "sequence_number": _inherited(entries.longs(EntryField.SEQUENCE_NUMBER), status, job.sequence_number),
        "added_snapshot": pc.fill_null(
            entries.longs(EntryField.SNAPSHOT_ID), pa.scalar(job.added_snapshot, pa.int64())
        ),
        "sort_order_id": entries.longs(EntryField.SORT_ORDER_ID).cast(pa.int32(), safe=False),
        "encrypted": pa.array(entries.has(EntryField.KEY_METADATA)),
        "first_row_id": entries.longs(EntryField.FIRST_ROW_ID),
    }
    columns |= partitions.read(entries, spec_id)
    for column in wanted:
        columns[f"{column}.{Pool.NULLS.name}"] = entries.count_of(Pool.NULLS, column)
        columns |= {f"{column}.{pool.name}": entries.bytes_of(pool, column) for pool in bounds}
    return pa.table(columns)


_TARGETS = {
    "referenced_data_file": pa.string(),
    "content_offset": pa.int64(),
    "content_bytes": pa.int64(),
    "equality_ids": pa.list_(pa.int32()),
}


def _with_row_ids(table: pa.Table, firsts: NDArray[np.int64]) -> pa.Table:
    """The table with the ids of first rows that files inherit from their manifests."""
    manifest, rows = table["manifest"].to_numpy(), table["rows"].to_numpy()
    stored = table["first_row_id"].combine_chunks()
    # Iceberg 3, First Row ID Inheritance: files without an id get those that follow, in the order of the manifest.
    takes = stored.is_null().to_numpy(zero_copy_only=False)
    counted = np.where(takes, rows, 0)
    before = np.cumsum(counted) - counted
    starts = np.searchsorted(manifest, manifest)
    inherited = firsts[manifest] + before - before[starts]
    ids = np.where(takes, inherited, stored.fill_null(0).to_numpy(zero_copy_only=False))
    position = table.column_names.index("first_row_id")
    return table.set_column(position, "first_row_id", pa.array(ids, pa.int64(), mask=firsts[manifest] < 0))


def _with_targets(table: pa.Table, entries: EntryColumns) -> pa.Table:
    """The columns that only delete files have: what they delete from, and by what."""
    arrays = (
        entries.texts(EntryField.REFERENCED_DATA_FILE),
        entries.longs(EntryField.CONTENT_OFFSET),
        entries.longs(EntryField.CONTENT_SIZE_IN_BYTES),
        entries.list_of(Pool.EQUALITY_IDS),
    )
    for name, array in zip(_TARGETS, arrays, strict=True):
        table = table.append_column(name, array)
    return table


def _no_files(
    partitions: PartitionColumns, wanted: Sequence[int], bounds: Sequence[Pool], *, deletes: bool
) -> pa.Table:
    """The same columns without rows."""
    columns: dict[str, pa.DataType] = dict.fromkeys(("path", "format"), pa.string())
    numbers = ("bytes", "rows", "content", "sequence_number", "added_snapshot", "first_row_id")
    columns |= dict.fromkeys(numbers, pa.int64())
    columns |= dict.fromkeys(("manifest", "spec_id", "sort_order_id"), pa.int32())
    columns |= {"encrypted": pa.bool_(), **partitions.types, **(_TARGETS if deletes else {})}
    for column in wanted:
        columns[f"{column}.{Pool.NULLS.name}"] = pa.int64()
        columns |= {f"{column}.{pool.name}": pa.binary() for pool in bounds}
    return pa.schema(list(columns.items())).empty_table()


def _required(array: pa.Array, name: str, job: _Job) -> pa.Array:
    if array.null_count:
        raise CorruptTableError(f"an entry has no {name}", where=job.path)
    return array


def _inherited(numbers: pa.Array, status: pa.Array, of_manifest: int | None) -> pa.Array:
    # Iceberg, Sequence Number Inheritance: an added file has the number of its manifest; version 1 has 0.
    number = of_manifest or 0
    takes = pc.equal(status, Status.ADDED.value) if number else pa.scalar(True)
    inherits = pc.and_(pc.is_null(numbers), takes)
    return pc.if_else(inherits, pa.scalar(number, pa.int64()), numbers)


def _stated_spec(entries: EntryColumns) -> int:
    try:
        return int(entries.header.metadata.get("partition-spec-id", b"0"))
    except ValueError:
        raise CorruptTableError("the partition-spec-id is not a number", where=entries.where) from None
