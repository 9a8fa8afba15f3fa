"""The actions in JSON: commits, compacted logs, and the checkpoints that are written in JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import CorruptTableError
from geolake_nb.formats.delta.file_actions import (
    ADD_FIELDS,
    PARTITION,
    REMOVE_FIELDS,
    actions_table,
    add_row,
    empty_files,
    keep_rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["CommitFile", "file_actions", "file_lines", "scan_commit"]

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
