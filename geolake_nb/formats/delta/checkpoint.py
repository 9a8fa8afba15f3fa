"""The actions in a checkpoint: classic, multi-part or UUID-named, with or without sidecar files."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import CorruptTableError, MissingFileError
from geolake_nb.formats.delta.add_action import BOUNDS_TAG, TAGS
from geolake_nb.formats.delta.log_actions import (
    ADD_FIELDS,
    DESCRIPTOR,
    PARTITION,
    empty_files,
    file_actions,
    keep_rows,
    scan_commit,
)
from geolake_nb.formats.delta.log_segment import LOG
from geolake_nb.parquet.column_ranges import FIRST_GREGORIAN_DAY, LegacyCalendar, first_same_time
from geolake_nb.parquet.opening import Proportion, Room, opened_parquet, value_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow.parquet as pq

    from geolake_nb.formats.delta.log_actions import CommitFile
    from geolake_nb.formats.delta.log_segment import Checkpoint
    from geolake_nb.storage.storage import Storage

__all__ = ["CheckpointFiles", "CheckpointTimes", "add_keys", "open_checkpoint", "read_checkpoint_files", "whole_adds"]

_FIRST_DATE = pa.scalar(FIRST_GREGORIAN_DAY, pa.int32())


@dataclass(frozen=True, slots=True)
class CheckpointTimes:
    """How to read the times of one checkpoint file."""

    int96: frozenset[tuple[str, ...]]
    """The paths of the leaves in INT96, which are instants in UTC although their Arrow type has no zone."""
    old_dates: bool
    """Whether dates and timestamps may be in the calendar of Spark 2."""
    old_int96: bool
    """Whether INT96 timestamps may be."""

    @classmethod
    def of(cls, file: pq.ParquetFile) -> CheckpointTimes:
        """What the footer declares."""
        schema = file.schema
        leaves = zip(_leaves(file.schema_arrow), range(len(schema)), strict=True)
        int96 = frozenset(path for path, index in leaves if schema.column(index).physical_type == "INT96")
        calendar = LegacyCalendar.of(file.metadata)
        return cls(int96, calendar is not None and calendar.dates, calendar is not None and calendar.int96)

    def read(self, column: pa.ChunkedArray, *path: str) -> pa.ChunkedArray:
        """The column at that path with INT96 as instants, and null where a value may be in the old calendar.

        >>> import datetime as dt
        >>> days = pa.chunked_array([[{"day": dt.date(1066, 10, 14)}, {"day": dt.date(1970, 1, 1)}]])
        >>> CheckpointTimes(frozenset(), old_dates=True, old_int96=False).read(days).to_pylist()
        [{'day': None}, {'day': datetime.date(1970, 1, 1)}]
        """
        if not (self.int96 or self.old_dates):
            return column
        chunks = [self._read(chunk, path) for chunk in column.chunks]
        return pa.chunked_array(chunks) if chunks else column

    def _read(self, array: pa.Array, path: tuple[str, ...]) -> pa.Array:
        kind = array.type
        if pa.types.is_struct(kind):
            children = [
                self._read(child, (*path, field.name)) for field, child in zip(kind, array.flatten(), strict=True)
            ]
            fields = [field.with_type(child.type) for field, child in zip(kind, children, strict=True)]
            return pa.StructArray.from_arrays(children, fields=fields, mask=pc.is_null(array))
        if pa.types.is_date32(kind) and self.old_dates:
            return _from(_FIRST_DATE, array, pa.int32())
        if not pa.types.is_timestamp(kind):
            return array
        int96 = path in self.int96
        if self.old_int96 if int96 else self.old_dates:
            array = _from(pa.scalar(first_same_time(kind.unit)), array, pa.int64())
        return array.cast(pa.timestamp(kind.unit, "UTC")) if int96 else array


def _from(first: pa.Scalar, array: pa.Array, numbers: pa.DataType) -> pa.Array:
    """The values that are not before `first`, null for others."""
    return pc.if_else(pc.greater_equal(array.cast(numbers), first), array, pa.scalar(None, array.type))


def _leaves(schema: pa.Schema) -> list[tuple[str, ...]]:
    """The paths of all leaves in their order, which is that of the Parquet file."""
    paths: list[tuple[str, ...]] = []

    def walk(kind: pa.DataType, path: tuple[str, ...]) -> None:
        if not pa.types.is_nested(kind):
            paths.append(path)
            return
        for index in range(kind.num_fields):
            field = kind.field(index)
            walk(field.type, (*path, field.name))

    for field in schema:
        walk(field.type, (field.name,))
    return paths


_PARSED = "stats_parsed"
_PARSED_PARTITIONS = "partitionValues_parsed"
_OTHERS = ("protocol", "metaData", "txn", "domainMetadata", "sidecar", "checkpointMetadata")
_MAPS = {"configuration", "options", "tags"}
_BATCH_ROWS = 65_536
_MANY_ROWS = 4_000_000
"""Above this count each row has a path or an id, which takes more than a byte of the file."""
_MAX_SMALL = 1 << 29
"""Memory limit for the small actions of a checkpoint as Python objects, enough for a million transactions."""
_OBJECT_BYTES, _LETTER_BYTES = 128, 4
"""Approximate overhead per value, and maximum size of a character of a string, in bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class CheckpointFiles:
    """A checkpoint whose small actions were read, but not yet its files."""

    actions: tuple[dict[str, Any], ...]
    tops: tuple[_Opened | CommitFile, ...]
    """The files of the checkpoint itself."""
    sidecars: tuple[str, ...]


def open_checkpoint(storage: Storage, checkpoint: Checkpoint) -> CheckpointFiles:
    """Read the protocol, the metadata and the other small actions of a checkpoint."""
    tops: list[_Opened | CommitFile] = []
    actions: list[dict[str, Any]] = []
    room = Room(_MAX_SMALL)
    sizes = dict(zip(checkpoint.paths, checkpoint.sizes, strict=False))
    parts = [path for path in checkpoint.paths if not path.endswith(".json")]
    for path in checkpoint.paths:
        if path.endswith(".json"):
            commit = scan_commit(f"{storage.location}/{path}", _read(storage, path, "the checkpoint"))
            actions += commit.actions
            tops.append(commit)
    for file in _open_parquets(storage, parts, "the checkpoint", [sizes.get(path) for path in parts]):
        actions += _small_actions(file, room)
        tops.append(file)
    sidecars = tuple(_sidecar_path(action["sidecar"], storage) for action in actions if "sidecar" in action)
    return CheckpointFiles(tuple(actions), tuple(tops), sidecars)


def read_checkpoint_files(storage: Storage, checkpoint: CheckpointFiles, partitions: Sequence[str]) -> pa.Table:
    """Every file of the checkpoint, with `stats_parsed` for the files without `stats`."""
    tables: list[pa.Table] = []
    for top in checkpoint.tops:
        if isinstance(top, _Opened):
            tables.append(_read_adds(top, partitions))
        else:
            actions = file_actions([top], partitions)
            tables.append(actions.filter(actions["added"]).drop_columns(["added"]))
    sidecars = _open_parquets(storage, checkpoint.sidecars, "the sidecar file of the checkpoint")
    tables += [_read_adds(file, partitions) for file in sidecars]
    tables = [table for table in tables if table.num_rows]
    if not tables:
        return empty_files(partitions)
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as problem:
        raise CorruptTableError(
            f"the parts of the checkpoint do not fit together: {problem}", where=storage.location
        ) from None


def whole_adds(
    storage: Storage, checkpoint: CheckpointFiles, kept: Callable[[pa.Table], pa.Array | pa.ChunkedArray]
) -> Iterator[tuple[pa.ChunkedArray, str]]:
    """The `add` structs of the Parquet files with all fields, row group by row group, with the file's path.

    `kept` returns which rows to keep, given a table of their paths and deletion vectors.
    """
    sidecars = _open_parquets(storage, checkpoint.sidecars, "the sidecar file of the checkpoint")
    tops = (top for top in checkpoint.tops if isinstance(top, _Opened))
    for file in chain(tops, sidecars):
        if "add" not in file.schema.names:
            continue
        there = [child.name for child in file.schema.field("add").type]
        for group in range(file.file.num_row_groups):
            keys = _group_keys(file, group, there)
            rows = pc.and_(pc.is_valid(keys["path"]), kept(keys))
            if not pc.any(rows).as_py():
                continue
            names = [name for name in there if name not in (_PARSED, _PARSED_PARTITIONS)]
            lacks_stats = "stats" not in there or _stats_are_missing(file, group, rows)
            if lacks_stats and _PARSED in there:
                names.append(_PARSED)
            if "partitionValues" not in there and _PARSED_PARTITIONS in there:
                # Written as strings by us these could differ from the format that readers expect.
                raise CorruptTableError(
                    "the files of the checkpoint have partitionValues_parsed but no partitionValues",
                    where=file.where,
                    remedy="write a new checkpoint with Spark",
                )
            adds = file.adds_of(group, names).filter(rows)
            yield (file.times.read(adds, "add") if _PARSED in names else adds), file.where


def add_keys(adds: pa.ChunkedArray, where: str) -> pa.Table:
    """What identifies the files of `add` structs: `path` and `deletionVector`.

    >>> add_keys(pa.chunked_array([[{"path": "a"}]]), "checkpoint").to_pylist()
    [{'path': 'a', 'deletionVector': None}]
    """
    kind = ADD_FIELDS["deletionVector"]
    vectors = pa.chunked_array([pa.nulls(len(adds), kind)])
    if adds.type.get_field_index("deletionVector") >= 0:
        vectors = _as_type(pc.struct_field(adds, "deletionVector"), kind, "deletionVector", where)
    return pa.table(
        {"path": _as_type(pc.struct_field(adds, "path"), pa.string(), "path", where), "deletionVector": vectors}
    )


def _group_keys(file: _Opened, group: int, there: Sequence[str]) -> pa.Table:
    vectors = "deletionVector" in there
    return add_keys(file.adds_of(group, ["path", *(["deletionVector"] if vectors else [])]), file.where)


def _stats_are_missing(file: _Opened, group: int, rows: pa.ChunkedArray) -> bool:
    stats = pc.struct_field(file.adds_of(group, ["stats"]), "stats")
    return bool(pc.any(pc.and_(rows, pc.is_null(stats))).as_py())


@dataclass(frozen=True, slots=True, eq=False)
class _Opened:
    """A Parquet file of a checkpoint, with its full path."""

    file: pq.ParquetFile
    source: pa.NativeFile
    where: str
    _proportion: Proportion
    _measured: set[str] = dataclasses.field(default_factory=set)
    """The columns whose pages were checked, in all row groups."""

    @property
    def schema(self) -> pa.Schema:
        return self.file.schema_arrow

    @property
    def times(self) -> CheckpointTimes:
        """How to read its dates and timestamps."""
        return CheckpointTimes.of(self.file)

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """All rows of some columns, in batches."""
        try:
            yield from value_batches(self.file, columns, rows=_BATCH_ROWS)
        except (pa.ArrowException, OSError) as problem:
            raise _broken("the checkpoint", problem, self.where) from None

    def read(self, columns: list[str]) -> pa.Table:
        """All rows of some columns."""
        return self._read(columns, lambda: self.file.read(columns=columns))

    def adds_of(self, group: int, names: Sequence[str]) -> pa.ChunkedArray:
        """Some fields of the `add` structs of a row group."""
        columns = [f"add.{name}" for name in names]
        return self._read(columns, lambda: self.file.read_row_group(group, columns=columns))["add"]

    def _read(self, columns: list[str], read: Callable[[], pa.Table]) -> pa.Table:
        try:
            if not self._measured.issuperset(columns):
                self._proportion.add(
                    lambda start, length: self.source.read_at(length, start),
                    self.file.metadata,
                    columns,
                    where=self.where,
                )
                self._measured.update(columns)
            return read()
        except (pa.ArrowException, OSError) as problem:
            raise _broken("the checkpoint", problem, self.where) from None


def _open_parquets(
    storage: Storage, paths: Sequence[str], what: str, sizes: Sequence[int | None] | None = None
) -> Iterator[_Opened]:
    """The Parquet files in order; object stores fetch several in parallel."""
    sources, proportion = storage.open_many(paths, sizes), Proportion()
    for path in paths:
        where = f"{storage.location}/{path}"
        try:
            source = next(sources)
        except MissingFileError as problem:
            raise CorruptTableError(f"{what} is missing", where=problem.where) from None
        try:
            file = opened_parquet(source, where=where)
        except (pa.ArrowException, OSError) as problem:
            raise _broken(what, problem, where) from None
        rows = sum(file.metadata.row_group(group).num_rows for group in range(file.num_row_groups))
        if rows > max(_MANY_ROWS, source.size()):
            raise CorruptTableError(f"{what} has {rows:,} rows in {source.size():,} bytes", where=where)
        yield _Opened(file, source, where, proportion)


def _read(storage: Storage, path: str, what: str) -> bytes:
    try:
        return storage.read(path)
    except MissingFileError:
        raise CorruptTableError(f"{what} is missing", where=f"{storage.location}/{path}") from None


def _broken(what: str, problem: Exception, where: str) -> CorruptTableError:
    reason = str(problem).strip().splitlines()[0][:200] if str(problem).strip() else type(problem).__name__
    return CorruptTableError(
        f"{what} is truncated or not a Parquet file: {reason}",
        where=where,
        remedy="restore it, or delete it if an older checkpoint or all commits exist",
    )


def _small_actions(file: _Opened, room: Room) -> list[dict[str, Any]]:
    there = [name for name in _OTHERS if pa.types.is_struct(_type_of(file.schema, name))]
    chunks: dict[str, list[pa.StructArray]] = {name: [] for name in there}
    # Nearly all rows are file actions, and there may be millions of them.
    for batch in file.batches(there) if there else ():
        for name in there:
            filled = _filled(batch.column(batch.schema.get_field_index(name)))
            if len(filled):
                size = _OBJECT_BYTES * _count_values(filled) + _LETTER_BYTES * filled.nbytes
                room.take(size, what="the small actions of the checkpoint", where=file.where)
                chunks[name].append(filled)
    actions: list[dict[str, Any]] = []
    for name, arrays in chunks.items():
        try:
            values = [value for array in arrays for value in array.to_pylist()]
        except UnicodeDecodeError:
            raise CorruptTableError(f"the column {name!r} is not valid UTF-8", where=file.where) from None
        actions += [
            {name: {key: _plain(key, item) for key, item in value.items() if item is not None}} for value in values
        ]
    return actions


def _type_of(schema: pa.Schema, name: str) -> pa.DataType:
    index = schema.get_field_index(name)
    return pa.null() if index < 0 else schema.field(index).type


def _filled(structs: pa.StructArray) -> pa.StructArray:
    """The non-empty structs: some writers declare the children as required, and write an empty struct for null."""
    rows = pa.array(np.zeros(len(structs), np.bool_))
    for child in structs.flatten():
        if child.null_count < len(child):
            rows = pc.or_(rows, pc.is_valid(child))
    return structs.filter(rows)


def _count_values(array: pa.Array) -> int:
    """How many values there are in total, including nested ones."""
    inside: list[pa.Array] = []
    if pa.types.is_struct(array.type):
        inside = array.flatten()
    elif pa.types.is_map(array.type):
        inside = [array.keys, array.items]
    elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        inside = [array.flatten()]
    return len(array) + sum(_count_values(child) for child in inside)


def _plain(key: str, value: Any) -> Any:
    """Maps, which Arrow returns as lists of pairs, as JSON objects."""
    if isinstance(value, dict):
        return {name: _plain(name, item) for name, item in value.items()}
    return dict(value) if key in _MAPS and isinstance(value, list) else value


def _read_adds(file: _Opened, partitions: Sequence[str]) -> pa.Table:
    schema, where = file.schema, file.where
    if "add" not in schema.names:
        return empty_files(partitions)
    kind = schema.field("add").type
    if not pa.types.is_struct(kind) or kind.get_field_index("path") < 0:
        raise CorruptTableError("the column 'add' has no paths", where=where)
    there = {child.name for child in kind}
    wanted = [name for name in ADD_FIELDS if name in there]
    values = next((name for name in ("partitionValues", _PARSED_PARTITIONS) if partitions and name in there), None)
    table = file.read([f"add.{name}" for name in [*wanted, *([values] if values else [])]])
    # Rows of other actions are dropped first: a column that the file lacks takes memory for each remaining row.
    kept = pc.is_valid(pc.struct_field(table["add"], "path"))
    adds = keep_rows(table, kept)["add"]
    columns = {name: _as_type(pc.struct_field(adds, name), ADD_FIELDS[name], name, where) for name in wanted}
    for name, type_ in ADD_FIELDS.items():
        if name not in columns:
            columns[name] = pa.chunked_array([pa.nulls(len(adds), type_)])
    ordered: dict[str, pa.ChunkedArray] = {name: columns[name] for name in ADD_FIELDS}
    for name in partitions:
        try:
            ordered[f"{PARTITION}{name}"] = _partition(adds, values, name)
        except pa.ArrowException as problem:
            raise CorruptTableError(f"add.{values} cannot be read: {problem}", where=where) from None
    files = pa.table(ordered)
    _require_texts(files, where)
    if _PARSED in there and files["stats"].null_count:
        parsed = keep_rows(file.read([f"add.{_PARSED}"]), kept)["add"]
        files = files.append_column(_PARSED, file.times.read(pc.struct_field(parsed, _PARSED), "add", _PARSED))
    return files


def _require_texts(files: pa.Table, where: str) -> None:
    for name, column in zip(files.column_names, files.columns, strict=True):
        if pa.types.is_string(column.type) or column.type == TAGS:
            try:
                column.validate(full=True)
            except pa.ArrowInvalid:
                raise CorruptTableError(f"add.{name} is not valid UTF-8", where=where) from None


def _as_type(column: pa.ChunkedArray, wanted: pa.DataType, name: str, where: str) -> pa.ChunkedArray:
    if column.type == wanted:
        return column
    try:
        if wanted == DESCRIPTOR and pa.types.is_struct(column.type):
            return _descriptors(column)
        if wanted == TAGS:
            return _tags(column)
        return column.cast(wanted)
    except pa.ArrowException as problem:
        raise CorruptTableError(f"add.{name} has the type {column.type}: {problem}", where=where) from None


def _tags(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The only tag that is read; null where the tags are not a map."""
    if not pa.types.is_map(column.type) or column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column), TAGS)])
    tags = pc.map_lookup(column, pa.scalar(BOUNDS_TAG, column.type.key_type), "first").cast(pa.string())
    return pa.chunked_array([pa.StructArray.from_arrays([chunk], fields=list(TAGS)) for chunk in tags.chunks], TAGS)


def _descriptors(column: pa.ChunkedArray) -> pa.ChunkedArray:
    chunks = []
    for chunk in column.chunks:
        there = {child.name for child in chunk.type}
        parts = [
            pc.struct_field(chunk, child.name).cast(child.type)
            if child.name in there
            else pa.nulls(len(chunk), child.type)
            for child in DESCRIPTOR
        ]
        # Some writers write a struct of nulls for a missing deletion vector.
        chunks.append(pa.StructArray.from_arrays(parts, fields=list(DESCRIPTOR), mask=pc.is_null(parts[0])))
    return pa.chunked_array(chunks, DESCRIPTOR)


def _partition(adds: pa.ChunkedArray, values: str | None, name: str) -> pa.ChunkedArray:
    nothing = pa.chunked_array([pa.nulls(len(adds), pa.string())])
    if values is None:
        return nothing
    column = pc.struct_field(adds, values)
    if pa.types.is_map(column.type):
        return pc.map_lookup(column, pa.scalar(name, column.type.key_type), "first").cast(pa.string())
    if pa.types.is_struct(column.type) and column.type.get_field_index(name) >= 0:
        return pc.struct_field(column, name).cast(pa.string())
    return nothing


def _sidecar_path(action: Any, storage: Storage) -> str:
    path = action.get("path") if isinstance(action, dict) else None
    if not isinstance(path, str) or not path:
        raise CorruptTableError("a sidecar action has no path", where=f"{storage.location}/{LOG}")
    # Delta, Sidecar files: a name in the folder _sidecars, or an absolute URI.
    return path if "://" in path or path.startswith("/") else f"{LOG}/_sidecars/{path}"
