"""The `add` and `remove` actions of a log as one Arrow table, from JSON or Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import CorruptTableError
from geolake_nb.formats.delta.bounds_tag import BOUNDS_TAG, TAGS
from geolake_nb.formats.delta.deletion_vectors import DESCRIPTOR, descriptor_ids

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "ADD_FIELDS",
    "PARTITION",
    "REMOVE_FIELDS",
    "actions_table",
    "add_row",
    "empty_files",
    "file_keys",
    "file_schema",
    "keep_rows",
]

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
