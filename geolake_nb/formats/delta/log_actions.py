"""The actions in JSON commits, compacted logs and checkpoints, and the files that they add and remove."""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import CorruptTableError
from geolake_nb.formats.delta.add_action import BOUNDS_TAG, TAGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = [
    "ADD_FIELDS",
    "ALPHABET",
    "DESCRIPTOR",
    "PARTITION",
    "REMOVE_FIELDS",
    "CommitFile",
    "actions_table",
    "add_row",
    "decoded_path",
    "decoded_paths",
    "descriptor_ids",
    "descriptors",
    "empty_files",
    "file_actions",
    "file_keys",
    "file_lines",
    "file_schema",
    "keep_rows",
    "scan_commit",
    "vector_counts",
    "vector_file",
]


def decoded_path(stored: str) -> str:
    """A path as the log stores it, as a path that can be opened; relative to the table or absolute.

    >>> decoded_path("day=2021-09-08%2011%253A11/a.parquet")
    'day=2021-09-08 11%3A11/a.parquet'
    >>> decoded_path("s3://bucket/other%20table/b.parquet")
    's3://bucket/other table/b.parquet'
    """
    # Delta, Add file: the path is a URI as of RFC 2396, which has to be decoded to get the file's path.
    return unquote(stored, errors="strict") if _decodes(stored) else stored


def decoded_paths(stored: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The same for a column; only paths with an escape are decoded.

    >>> decoded_paths(pa.array(["a", "b%20c"])).to_pylist()
    ['a', 'b c']
    """
    whole = pa.chunked_array([stored]) if isinstance(stored, pa.Array) else stored
    marked = pc.match_substring(whole, "%")
    if not pc.any(marked).as_py():
        return pa.concat_arrays(whole.chunks) if whole.num_chunks != 1 else whole.chunk(0)
    return pa.array([decoded_path(path) for path in whole.to_pylist()], pa.string())


def _decodes(stored: str) -> bool:
    if "%" not in stored:
        return False
    try:
        unquote(stored, errors="strict")
    except UnicodeDecodeError:
        return False
    return True


DESCRIPTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int64()),
        ("sizeInBytes", pa.int64()),
        ("cardinality", pa.int64()),
    ]
)
"""The Arrow type of a descriptor, null for a file without a deletion vector."""


def descriptors(values: Sequence[dict[str, object] | None]) -> pa.Array:
    """Descriptors as an Arrow array.

    >>> descriptors([None, {"storageType": "i", "pathOrInlineDv": "wi5b", "cardinality": 2}])[1]["cardinality"].as_py()
    2
    """
    return pa.array(values, DESCRIPTOR)


def descriptor_ids(vectors: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The unique ids of deletion vectors, null where there is none.

    >>> descriptor_ids(descriptors([{"storageType": "u", "pathOrInlineDv": "ab", "offset": 4}, None])).to_pylist()
    ['uab@4', None]
    """
    # Delta, Derived fields: uniqueId is storageType and pathOrInlineDv, with @ and the offset if there is one.
    storage = pc.struct_field(vectors, "storageType")
    path = pc.struct_field(vectors, "pathOrInlineDv")
    offset = pc.struct_field(vectors, "offset").cast(pa.string())
    whole = pc.binary_join_element_wise(storage, path, "")
    return pc.if_else(pc.is_null(offset), whole, pc.binary_join_element_wise(whole, offset, "@"))


def vector_counts(vectors: pa.Array) -> pa.Array:
    """How many rows each deletion vector deletes: 0 without one, null if its descriptor has no count.

    >>> vector_counts(descriptors([None, {"storageType": "u", "cardinality": 3}, {"storageType": "u"}])).to_pylist()
    [0, 3, None]
    """
    cardinality = pc.struct_field(vectors, "cardinality")
    sane = pc.if_else(pc.greater_equal(cardinality, 0), cardinality, pa.scalar(None, pa.int64()))
    return pc.if_else(pc.is_null(vectors), pa.scalar(0, pa.int64()), sane)


# Delta, Deletion vector descriptor: the UUID is in Z85, whose alphabet differs from that of RFC 1924.
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_RFC1924 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
ALPHABET = str.maketrans(_Z85, _RFC1924)
"""From Z85 to what `base64.b85decode` reads."""
_UUID_LETTERS = 20


def vector_file(descriptor: Mapping[str, Any] | None) -> str | None:
    """The file that stores a deletion vector, relative to the table or absolute; `None` if it is inline in the log.

    >>> vector_file({"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^"})
    'ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin'
    >>> vector_file({"storageType": "i", "pathOrInlineDv": "wi5b"}) is None, vector_file(None) is None
    (True, True)
    """
    kind, text = (None, "") if descriptor is None else (descriptor.get("storageType"), descriptor.get("pathOrInlineDv"))
    if kind == "p":
        return str(text)
    if kind != "u" or not isinstance(text, str) or len(text) < _UUID_LETTERS:
        return None
    prefix, letters = text[:-_UUID_LETTERS], text[-_UUID_LETTERS:]
    try:
        name = uuid.UUID(bytes=base64.b85decode(letters.translate(ALPHABET)))
    except ValueError:
        return None
    return f"{prefix}/deletion_vector_{name}.bin" if prefix else f"deletion_vector_{name}.bin"


PARTITION = "partition."
"""Prefix of the physical name of a partition column in the table."""

ADD_FIELDS: Mapping[str, pa.DataType] = {
    "path": pa.string(),
    "size": pa.int64(),
    "modificationTime": pa.int64(),
    "stats": pa.string(),
    "deletionVector": DESCRIPTOR,
    "baseRowId": pa.int64(),
    "defaultRowCommitVersion": pa.int64(),
    "tags": TAGS,
}
"""The fields of an `add` that are kept, by name in the log; partition values are separate columns."""

REMOVE_FIELDS: Mapping[str, pa.DataType] = {"path": pa.string(), "deletionVector": DESCRIPTOR}


def file_schema(partitions: Sequence[str]) -> pa.Schema:
    """The columns of the table of files: those of an `add`, then a string column for each partition column.

    >>> file_schema(["day"]).names[-1]
    'partition.day'
    """
    return pa.schema([*ADD_FIELDS.items(), *((f"{PARTITION}{name}", pa.string()) for name in partitions)])


def empty_files(partitions: Sequence[str]) -> pa.Table:
    """An empty table of files.

    >>> empty_files([]).num_rows
    0
    """
    return file_schema(partitions).empty_table()


def file_keys(files: pa.Table) -> pa.ChunkedArray:
    """The key of each file in the log: its path, and its deletion vector if it has one.

    >>> file_keys(empty_files([])).to_pylist()
    []
    """
    # Delta, Action reconciliation: a logical file is a path and the unique id of a deletion vector, or none.
    paths, vectors = files["path"], files["deletionVector"]
    if vectors.null_count == len(vectors):
        return paths
    ids = descriptor_ids(vectors)
    return pc.if_else(pc.is_null(ids), paths, pc.binary_join_element_wise(paths, ids, "\x00"))


def keep_rows(table: pa.Table, kept: pa.ChunkedArray) -> pa.Table:
    """The rows that are kept, without a copy where they form few runs.

    >>> keep_rows(pa.table({"a": [1, 2, 3]}), pa.chunked_array([[False, True, True]])).to_pylist()
    [{'a': 2}, {'a': 3}]
    """
    flags = np.zeros(table.num_rows + 2, np.int8)
    flags[1:-1] = kept.to_numpy()
    edges = np.flatnonzero(np.diff(flags))
    if len(edges) > 128:
        return table.filter(kept)
    runs = [table.slice(start, end - start) for start, end in edges.reshape(-1, 2).tolist()]
    return pa.concat_tables(runs) if runs else table.slice(0, 0)


def add_row(action: Any, partitions: Sequence[str], where: str) -> dict[str, Any]:
    """The row of a single `add` or `remove` action.

    >>> add_row({"path": "a", "size": 1, "partitionValues": {"p": "x"}}, ["p"], "commit 0")["partition.p"]
    'x'
    >>> add_row({"size": 1}, [], "commit 0, line 2")
    Traceback (most recent call last):
    geolake_nb.errors.CorruptTableError: commit 0, line 2: a file action has no path
    """
    if not isinstance(action, dict) or not isinstance(action.get("path"), str):
        raise CorruptTableError("a file action has no path", where=where)
    row = {name: action.get(name) for name in ADD_FIELDS}
    values = action.get("partitionValues") or {}
    if not isinstance(values, dict):
        raise CorruptTableError("partitionValues is not a JSON object", where=where)
    for name in partitions:
        value = values.get(name)
        if value is not None and not isinstance(value, str):
            raise CorruptTableError(f"the partition value {name!r} is not a string", where=where)
        row[f"{PARTITION}{name}"] = value
    for name in ("size", "modificationTime", "baseRowId", "defaultRowCommitVersion"):
        if row[name] is not None and type(row[name]) is not int:
            raise CorruptTableError(f"{name} is not an integer", where=where)
    if row["stats"] is not None and not isinstance(row["stats"], str):
        raise CorruptTableError("stats is not a string", where=where)
    tags = row["tags"]
    mark = tags.get(BOUNDS_TAG) if isinstance(tags, dict) else None
    row["tags"] = {BOUNDS_TAG: mark} if isinstance(mark, str) else None
    vector = row["deletionVector"]
    if vector is not None and not isinstance(vector, dict):
        raise CorruptTableError("deletionVector is not a JSON object", where=where)
    return row


def actions_table(rows: Sequence[Mapping[str, Any]], partitions: Sequence[str], where: str) -> pa.Table:
    """The table of rows from `add_row`.

    >>> actions_table([], [], "commit 0").num_rows
    0
    """
    try:
        return pa.Table.from_pylist(list(rows), schema=file_schema(partitions))
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as problem:
        raise CorruptTableError(f"a file action cannot be read: {problem}", where=where) from None


_REPLAYED = (b'{"add":', b'{"remove":')
_FILE_ACTIONS = (*_REPLAYED, b'{"cdc":')
_NEWLINE = 10
_PIECE = 2**18
_BATCH = 256 * 2**20
_BLOCK = 4 * 2**20


@dataclass(frozen=True, slots=True, eq=False)
class CommitFile:
    """The bytes of a file of JSON actions; actions that are not about files are already parsed."""

    path: str
    data: bytes
    actions: tuple[dict[str, Any], ...]
    """All actions except `add`, `remove` and `cdc`, in order."""
    plain: bool
    """Whether every `add` and `remove` is at the start of its line, as in all known writers."""
    longest: int
    """Bytes of the longest line."""


def scan_commit(path: str, data: bytes) -> CommitFile:
    """Parse the actions that are not about files; the many file actions are parsed later.

    >>> commit = scan_commit("0.json", b'{"protocol":{}}\\n{"add":{"path":"a"}}\\n')
    >>> commit.actions, scan_commit("1.json", b"").actions
    (({'protocol': {}},), ())
    >>> scan_commit("0.json", b'{"protocol":')
    Traceback (most recent call last):
    geolake_nb.errors.CorruptTableError: 0.json, line 1: the action is not JSON: ...
    """
    _require_utf8(path, data)
    starts, ends = _lines(data)
    about_files = _start_with(data, starts, _FILE_ACTIONS)
    actions: list[dict[str, Any]] = []
    plain = True
    for number in np.flatnonzero(~about_files).tolist():
        line = data[starts[number] : ends[number]]
        if not line.strip():
            continue
        action = _load(line, f"{path}, line {number + 1}")
        if "add" in action or "remove" in action:
            plain = False
        elif "cdc" not in action:
            actions.append(action)
    longest = int((ends - starts).max()) if len(starts) else 0
    return CommitFile(path, data, tuple(actions), plain, longest)


def file_actions(commits: Sequence[CommitFile], partitions: Sequence[str]) -> pa.Table:
    """Every `add` and `remove` in order, with the column `added` to distinguish them.

    >>> commit = scan_commit("0.json", b'{"add":{"path":"a","size":3}}\\n{"remove":{"path":"b"}}\\n')
    >>> file_actions([commit], []).select(["path", "size", "added"]).to_pylist()
    [{'path': 'a', 'size': 3, 'added': True}, {'path': 'b', 'size': None, 'added': False}]
    """
    tables = [table for batch in _batches(commits) for table in _read_batch(batch, partitions)]
    if not tables:
        return _with_added(empty_files(partitions), pa.array([], pa.bool_()))
    return pa.concat_tables(tables)


def file_lines(commit: CommitFile) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The starts and ends of the lines with an `add` or a `remove`; all lines of a commit that is not plain.

    >>> commit = scan_commit("0.json", b'{"protocol":{}}\\n{"add":{"path":"a"}}\\n')
    >>> [bounds.tolist() for bounds in file_lines(commit)]
    [[16], [36]]
    """
    starts, ends = _lines(commit.data)
    if not commit.plain:
        return starts, ends
    replayed = _start_with(commit.data, starts, _REPLAYED)
    return starts[replayed], ends[replayed]


def _batches(commits: Sequence[CommitFile]) -> Iterator[list[CommitFile]]:
    batch: list[CommitFile] = []
    size = 0
    for commit in commits:
        if batch and size + len(commit.data) > _BATCH:
            yield batch
            batch, size = [], 0
        batch.append(commit)
        size += len(commit.data)
    if batch:
        yield batch


def _read_batch(batch: list[CommitFile], partitions: Sequence[str]) -> list[pa.Table]:
    if all(commit.plain for commit in batch):
        table = _read_columns(batch, partitions)
        if table is not None:
            return [table]
    # Some value does not have the type that the protocol specifies; read one by one, the error can name its line.
    return [_read_lines(commit, partitions) for commit in batch]


def _read_columns(batch: list[CommitFile], partitions: Sequence[str]) -> pa.Table | None:
    """The actions of all commits at once, or `None` where a line must be read by itself."""
    import pyarrow.json as pj

    data = batch[0].data if len(batch) == 1 else b"\n".join(commit.data for commit in batch)
    if not data or data.isspace():
        return _with_added(empty_files(partitions), pa.array([], pa.bool_()))
    add = list(ADD_FIELDS.items())
    if partitions:
        add.append(("partitionValues", pa.struct([(name, pa.string()) for name in partitions])))
    schema = pa.schema([("add", pa.struct(add)), ("remove", pa.struct(list(REMOVE_FIELDS.items())))])
    block = max(_BLOCK, max(commit.longest for commit in batch) + 2)
    try:
        rows = pj.read_json(
            pa.BufferReader(data),
            read_options=pj.ReadOptions(block_size=block),
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowException:
        return None
    added, removed = pc.struct_field(rows["add"], "path"), pc.struct_field(rows["remove"], "path")
    if _has_pathless(rows["add"], added) or _has_pathless(rows["remove"], removed):
        return None
    is_add = pc.is_valid(added)
    columns: dict[str, Any] = {name: pc.struct_field(rows["add"], name) for name in ADD_FIELDS}
    for name in partitions:
        columns[f"{PARTITION}{name}"] = pc.struct_field(rows["add"], ["partitionValues", name])
    if removed.null_count < len(removed):
        columns["path"] = pc.coalesce(added, removed)
        vectors = pc.struct_field(rows["remove"], "deletionVector")
        if vectors.null_count < len(vectors):
            columns["deletionVector"] = pc.if_else(is_add, columns["deletionVector"], vectors)
    table = _with_added(pa.table(columns), is_add)
    return keep_rows(table, pc.is_valid(table["path"]))


def _has_pathless(actions: pa.ChunkedArray, paths: pa.ChunkedArray) -> bool:
    return bool(actions.null_count != paths.null_count)


def _with_added(table: pa.Table, added: Any) -> pa.Table:
    return table.append_column("added", added)


def _read_lines(commit: CommitFile, partitions: Sequence[str]) -> pa.Table:
    rows: list[dict[str, Any]] = []
    added: list[bool] = []
    for number, line in enumerate(commit.data.split(b"\n"), 1):
        if not line.strip():
            continue
        where = f"{commit.path}, line {number}"
        action = _load(line, where)
        for kind in ("add", "remove"):
            if action.get(kind) is not None:
                rows.append(add_row(action[kind], partitions, where))
                added.append(kind == "add")
    return _with_added(actions_table(rows, partitions, commit.path), pa.array(added, pa.bool_()))


def _load(line: bytes, where: str) -> dict[str, Any]:
    try:
        action = orjson.loads(line)
    except orjson.JSONDecodeError as problem:
        raise CorruptTableError(f"the action is not JSON: {problem}", where=where) from None
    if not isinstance(action, dict):
        raise CorruptTableError("the action is not a JSON object", where=where)
    return action


def _lines(data: bytes) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The starts and ends of the lines."""
    text = np.frombuffer(data, np.uint8)
    # In chunks the flags stay in the CPU cache, which is several times faster.
    newlines = [
        np.flatnonzero(text[start : start + _PIECE] == _NEWLINE) + start for start in range(0, len(text), _PIECE)
    ]
    ends = np.concatenate(newlines) if newlines else np.empty(0, np.int64)
    if data and not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    return starts, ends


def _start_with(data: bytes, starts: np.ndarray[Any, Any], heads: Sequence[bytes]) -> np.ndarray[Any, Any]:
    """Which lines start with one of the texts; none of them contains a newline, so a short line does not match."""
    matches = np.zeros(len(starts), np.bool_)
    text = np.frombuffer(data, np.uint8)
    for head in heads:
        left = np.flatnonzero(~matches)
        if not len(left):
            break
        fronts = text[np.minimum(starts[left, None] + np.arange(len(head)), len(text) - 1)]
        matches[left] = (fronts == np.frombuffer(head, np.uint8)).all(axis=1)
    return matches


def _require_utf8(path: str, data: bytes) -> None:
    if data.isascii():
        return
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise CorruptTableError(f"the byte {problem.start} is not valid UTF-8", where=path) from None
