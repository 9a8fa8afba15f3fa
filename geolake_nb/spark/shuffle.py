"""Rows on their way to the task that writes them: cut by task, moved as Arrow messages, put in order on arrival.

To Spark a message is one value. It brings messages to their tasks and never takes rows apart: that would cost more than
all else that is done with them.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.model.schema import split_path
from geolake_nb.scan.data_files import inside_structs
from geolake_nb.storage.hive_paths import partition_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from numpy.typing import NDArray

    from geolake_nb.changes.clustering import Placement
    from geolake_nb.changes.sampling import Partition

__all__ = ["MESSAGES", "CutTask", "SortedRows", "partitions_of", "plain_shapes"]

MESSAGES = "task int, rows binary"

_CUT_BYTES = 1 << 25
"""How much is cut at a time: enough for messages of some size, however many tasks there are."""
_MESSAGE_BYTES = 1 << 23
_RUN_BYTES = 1 << 26
"""How much is sorted in memory; what is more waits on disk and is merged."""
_SLICE_BYTES = 1 << 24


@dataclass(frozen=True, slots=True, eq=False)
class CutTask:
    """Sends each row to the task that writes it, by its partition values and the columns to cluster by."""

    placement: Placement
    partition_by: tuple[str, ...]
    key: str
    """The name of the column with the keys, which comes after all others but one: a number for the partition."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows as messages, each for one task."""
        turn = _task_number()
        collected: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            collected.append(batch)
            size += batch.nbytes
            if size >= _CUT_BYTES:
                yield from self._messages(collected, turn)
                collected, size = [], 0
        yield from self._messages(collected, turn)

    def _messages(self, batches: Sequence[pa.RecordBatch], turn: int) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(batches).combine_chunks() if batches else None
        for batch in () if table is None else table.to_batches():
            tasks, placed = self.cut(batch, turn=turn)
            starts = np.flatnonzero(np.diff(tasks, prepend=-1))
            step = max(1, len(batch) * _MESSAGE_BYTES // max(1, placed.nbytes))
            pieces = [
                (int(tasks[start]), first, min(step, end - first))
                for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(batch)], strict=True)
                for first in range(start, end, step)
            ]
            messages = [_packed(placed.slice(first, count)) for _, first, count in pieces]
            numbers = pa.array([task for task, _, _ in pieces], pa.int32())
            yield pa.RecordBatch.from_arrays([numbers, pa.array(messages, pa.binary())], ["task", "rows"])

    def cut(self, batch: pa.RecordBatch, *, turn: int) -> tuple[NDArray[np.int32], pa.RecordBatch]:
        """The rows in the order of their tasks, with keys and numbers of partitions, and the task of each."""
        partitions, codes = partitions_of([batch.column(name) for name in self.partition_by], len(batch))
        keying = self.placement.keying
        keys = None
        if keying is not None:
            keys = keying.keys([plain_shapes(_leaf(batch, path)) for path in keying.ordering.columns])
        tasks = self.placement.tasks_of(partitions, codes, keys, turn=turn)
        groups = np.array([_number(partition) for partition in partitions], np.int64)[codes]
        batch = batch.append_column(self.key, pa.array(np.zeros(len(batch), np.int64) if keys is None else keys))
        batch = batch.append_column("", pa.array(groups))
        order = np.argsort(tasks, kind="stable")
        return tasks[order], batch.take(pa.array(order))


class SortedRows:
    """The rows of one task by their last two columns, partition and key; what memory does not hold waits on disk.

    >>> rows = pa.record_batch({"a": ["x", "y", "z"], "key": [3, 1, 2], "": [0, 0, 0]})
    >>> with SortedRows() as held:
    ...     held.add(_packed(rows))
    ...     [batch.column("a").to_pylist() for batch in held.batches()]
    [['y', 'z', 'x']]
    """

    def __init__(self, *, run_bytes: int = _RUN_BYTES, slice_bytes: int = _SLICE_BYTES) -> None:
        self._run_bytes, self._slice_bytes = run_bytes, slice_bytes
        self._batches: list[pa.RecordBatch] = []
        self._size = self._bytes = 0
        self._runs: list[pa.Table] = []
        self._places: list[NDArray[np.int64]] = []
        self._open = ExitStack()
        self._folder: Path | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._batches, self._runs = [], []
        self._open.close()

    def add(self, message: bytes | pa.Buffer) -> None:
        """Take the rows of a message in."""
        with pa.ipc.open_stream(message) as stream:
            batch = stream.read_next_batch()
        self._batches.append(batch)
        self._size += batch.nbytes
        if self._size >= self._run_bytes:
            self._end_run(in_memory=False)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows in order, once."""
        if self._batches:
            self._end_run(in_memory=True)
        if not self._runs:
            return
        rows = sum(run.num_rows for run in self._runs)
        step = max(1, rows * self._slice_bytes // max(1, self._bytes))
        merged = _merged(self._runs, self._places, step) if len(self._runs) > 1 else _slices(self._runs[0], step)
        for table in merged:
            yield from table.to_batches()

    def _end_run(self, *, in_memory: bool) -> None:
        table = pa.Table.from_batches(self._batches).combine_chunks()
        key, group = (column.to_numpy() for column in table.columns[-2:])
        order = np.lexsort((key, group))
        run = table.take(pa.array(order))
        self._runs.append(run if in_memory else self._on_disk(run))
        self._places.append(np.stack([group[order], key[order]]))
        self._bytes += self._size
        self._batches, self._size = [], 0

    def _on_disk(self, run: pa.Table) -> pa.Table:
        if self._folder is None:
            folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
            self._folder = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="geolake-", dir=folder)))
        path = str(self._folder / f"{len(self._runs)}.arrow")
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, run.schema) as file:
            file.write_table(run)
        return pa.ipc.open_file(self._open.enter_context(pa.memory_map(path))).read_all()


def plain_shapes(column: pa.Array) -> pa.Array:
    """The WKB of Spark's GEOMETRY and GEOGRAPHY, which come as a struct; other columns are as they were.

    >>> shape = pa.array([{"srid": 0, "wkb": b"a"}, None], pa.struct([("srid", pa.int32()), ("wkb", pa.binary())]))
    >>> plain_shapes(shape).to_pylist(), plain_shapes(pa.array([1])).to_pylist()
    ([b'a', None], [1])
    """
    kind = column.type
    if pa.types.is_struct(kind) and [kind.field(index).name for index in range(kind.num_fields)] == ["srid", "wkb"]:
        return column.flatten()[1]
    return column


def partitions_of(columns: Sequence[pa.Array], rows: int) -> tuple[list[Partition], NDArray[np.int64]]:
    """The partitions in a batch, and which of them each row is in."""
    codes = np.zeros(rows, np.int64)
    texts: list[list[str | None]] = []
    counts: list[int] = []
    for column in columns:
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        texts.append([partition_text(value) for value in encoded.dictionary])
        counts.append(len(encoded.dictionary))
        codes = codes * len(encoded.dictionary) + np.asarray(encoded.indices)
    distinct, codes = np.unique(codes, return_inverse=True)
    partitions: list[Partition] = []
    for code in distinct.tolist():
        values: list[str | None] = []
        rest = code
        for known, count in zip(reversed(texts), reversed(counts), strict=True):
            rest, index = divmod(rest, count)
            values.append(known[index])
        partitions.append(tuple(reversed(values)))
    return partitions, codes.reshape(rows)


def _slices(run: pa.Table, step: int) -> Iterator[pa.Table]:
    for start in range(0, run.num_rows, step):
        yield run.slice(start, step)


def _merged(runs: Sequence[pa.Table], orders: Sequence[NDArray[np.int64]], step: int) -> Iterator[pa.Table]:
    """The rows of sorted runs in the order of all; each slice takes the next few rows of every run."""
    group, key = np.concatenate(orders, axis=1)
    order = np.lexsort((key, group))
    run_of = np.repeat(np.arange(len(runs)), [run.num_rows for run in runs])
    taken = np.zeros(len(runs), np.int64)
    for start in range(0, len(order), step):
        here = run_of[order[start : start + step]]
        counts = np.bincount(here, minlength=len(runs))
        some = [run.slice(first, count) for run, first, count in zip(runs, taken, counts, strict=True)]
        # A stable sort keeps the rows of a run in their order: the next ones of each stand one after the other.
        wanted = np.empty(len(here), np.int64)
        wanted[np.argsort(here, kind="stable")] = np.arange(len(here))
        yield pa.concat_tables(some).combine_chunks().take(pa.array(wanted))
        taken += counts


def _leaf(batch: pa.RecordBatch, path: str) -> pa.Array:
    parts = split_path(path)
    return inside_structs(batch.column(parts[0]), parts)


def _packed(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    message: bytes = sink.getvalue().to_pybytes()
    return message


def _number(partition: Partition) -> int:
    """The same number for a partition in every process; should two share one, their files get small, not wrong."""
    digest = hashlib.blake2b(repr(partition).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _task_number() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()
