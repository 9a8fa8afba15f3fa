"""A sample of the rows of a table: some columns of some row groups, read without Spark, the same each time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from geolake_nb.model.schema import split_path
from geolake_nb.model.snapshot import file_field
from geolake_nb.model.types import GeographyType, GeometryType
from geolake_nb.parquet.column_ranges import arrow_type_of
from geolake_nb.scan.data_files import inside_structs
from geolake_nb.storage.hive_paths import partition_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow.parquet as pq
    from numpy.typing import NDArray

    from geolake_nb.changes.write_job import DeltaRows
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import DataType
    from geolake_nb.parquet.footer import FooterReader
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

__all__ = [
    "SAMPLE_ROWS",
    "Partition",
    "Sample",
    "ThinnedRows",
    "chosen_parts",
    "partition_codes",
    "sample_delta",
    "sample_of",
    "some_rows",
]

SAMPLE_ROWS = 100_000
"""About how many rows are sampled before a job."""
_SAMPLE_BYTES = 1 << 27
"""Their limit in memory; long values are sampled less."""
_PARTS = 200
_SEED = 20_240_607
_PIECE = 16_384
_BUFFER = 1 << 20

Partition = tuple[str | None, ...]
"""The partition values of a file, as the log has them, in the order of the partition columns."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Rows that represent all: each for about as many others."""

    columns: Mapping[str, pa.Array]
    """By path; geo columns as WKB."""
    partitions: tuple[Partition, ...]
    codes: NDArray[np.int64]
    """The index of each row's partition in `partitions`."""

    def __len__(self) -> int:
        return len(self.codes)


def sample_delta(
    storage: Storage,
    rows: DeltaRows,
    columns: Sequence[str],
    *,
    count: int = SAMPLE_ROWS,
    on_progress: Progress | None = None,
) -> Sample:
    """About so many rows of a Delta table, deleted ones included, from row groups spread over it.

    Only the pages of these columns are read, of at most 200 row groups.
    """

    from geolake_nb.parquet.footer import FooterReader
    from geolake_nb.parquet.opening import most_row_bytes, open_parquet_file
    from geolake_nb.scan.data_files import data_keys

    snapshot = rows.snapshot
    indices = np.arange(len(snapshot.files)) if rows.files is None else np.array(rows.files, np.int64)
    partitions, file_codes = partition_codes(snapshot.files.table, snapshot.partition_columns, indices)
    keys = data_keys(snapshot)
    weights = snapshot.files.table["bytes"].to_numpy()[indices]
    chosen = chosen_parts(weights, _PARTS)
    # Files that were drawn by size have equal weight; if all files are used, they are weighted by size.
    drawn = np.array([index for index, _ in chosen], np.int64)
    shares = np.ones(len(drawn)) if len(drawn) < np.count_nonzero(weights) else weights[drawn]
    quotas = count * shares / max(1.0, shares.sum())
    sampled: dict[str, list[pa.Array]] = {column: [] for column in columns}
    codes: list[NDArray[np.int64]] = []
    reader, draw = FooterReader(), np.random.default_rng(_SEED)
    for done, ((index, groups), wanted) in enumerate(zip(chosen, quotas.tolist(), strict=True), 1):
        key = keys[indices[index]]
        stream = _BUFFER if storage.is_local else 0
        with open_parquet_file(storage, key, buffer_size=stream) as file:
            # A file without rows has no row group to choose.
            some = draw.permutation(file.num_row_groups)[:groups]
            for group in np.sort(some).tolist():
                paths = [path for path in (_path(file, snapshot, column, reader) for column in columns) if path]
                share = wanted / len(some)
                # Fewer long values are drawn: their share of the memory is that of the others.
                room = _SAMPLE_BYTES * share / count / most_row_bytes(file, paths, group)
                picked = some_rows(file.metadata.row_group(group).num_rows, max(1.0, min(share, room)), draw)
                for column in columns:
                    sampled[column] += _values(file, group, snapshot, column, picked=picked, reader=reader)
                codes.append(np.full(len(picked), file_codes[index]))
        if on_progress is not None:
            on_progress(done, len(chosen))
    return Sample(
        {column: _joined(parts, snapshot.schema.find(column).type) for column, parts in sampled.items()},
        partitions,
        np.concatenate(codes) if codes else np.zeros(0, np.int64),
    )


def chosen_parts(weights: NDArray[np.int64], parts: int) -> list[tuple[int, int]]:
    """Which files to sample, and how many row groups of each: about so many in all, large files before small.

    >>> chosen_parts(np.array([5, 0, 5]), 4), len(chosen_parts(np.full(1000, 7), 4)), chosen_parts(np.array([]), 4)
    ([(0, 2), (2, 2)], 4, [])
    """
    there = np.flatnonzero(np.asarray(weights) > 0)
    if not len(there):
        return []
    if len(there) > parts:
        shares = weights[there] / weights[there].sum()
        there = np.sort(np.random.default_rng(_SEED).choice(there, parts, replace=False, p=shares))
    each = max(1, parts // len(there))
    return [(index, each) for index in there.tolist()]


def some_rows(rows: int, wanted: float, draw: np.random.Generator) -> NDArray[np.int64]:
    """The indices of about so many of the rows, in order."""
    if rows <= wanted:
        return np.arange(rows)
    return np.sort(draw.choice(rows, max(1, round(wanted)), replace=False, shuffle=False)).astype(np.int64)


class ThinnedRows:
    """Rows that come in batches: whenever they take too much memory, every other one is dropped.

    >>> kept = ThinnedRows(most_bytes=40)
    >>> for start in (0, 4):
    ...     kept.add(pa.record_batch({"a": pa.array(range(start, start + 4), pa.int64())}))
    >>> [value for batch in kept.batches for value in batch["a"].to_pylist()]
    [0, 2, 4, 6]
    """

    def __init__(self, most_bytes: int = _SAMPLE_BYTES) -> None:
        self.batches: list[pa.RecordBatch] = []
        self._most_bytes = most_bytes
        self._step = 1
        self._seen = self._bytes = self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch, or the sampled part of it."""
        first, self._seen = -self._seen % self._step, self._seen + len(batch)
        if first >= len(batch):
            return
        # A slice would keep the whole batch in memory.
        some = batch.take(pa.array(np.arange(first, len(batch), self._step)))
        self.batches.append(some)
        self._bytes, self._rows = self._bytes + some.nbytes, self._rows + len(some)
        while self._bytes > self._most_bytes and self._rows > 1:
            self._step *= 2
            before, kept = 0, []
            for part in self.batches:
                kept.append(part.take(pa.array(np.arange(before % 2, len(part), 2))))
                before += len(part)
            self.batches = [part for part in kept if len(part)]
            self._bytes, self._rows = sum(part.nbytes for part in self.batches), sum(map(len, self.batches))


def partition_codes(
    files: pa.Table, columns: Sequence[str], indices: NDArray[np.int64]
) -> tuple[tuple[Partition, ...], NDArray[np.int64]]:
    """The partitions that files are in, sorted, and which of them each file is in.

    >>> files = pa.table({"path": ["a", "b", "c"], "partition.p": [2, None, 2]})
    >>> partition_codes(files, ["p"], np.arange(3))
    (((None,), ('2',)), array([1, 0, 1]))
    >>> partition_codes(files, [], np.arange(3))
    (((),), array([0, 0, 0]))
    """
    texts = []
    for name in columns:
        encoded = files[f"partition.{name}"].combine_chunks().take(pa.array(indices)).dictionary_encode()
        known = [partition_text(value) for value in encoded.dictionary]
        texts.append([None if index is None else known[index] for index in encoded.indices.to_pylist()])
    rows = list(zip(*texts, strict=True)) if texts else [()] * len(indices)
    partitions = sorted(set(rows), key=lambda row: [(text is not None, text or "") for text in row])
    codes = {row: code for code, row in enumerate(partitions)}
    return tuple(partitions), np.array([codes[row] for row in rows], np.int64)


def sample_of(table: pa.Table, columns: Sequence[str], partition_by: Sequence[str]) -> Sample:
    """The rows of a table as a sample.

    >>> sample = sample_of(pa.table({"a": [1, 2], "p": ["x", None]}), ["a"], ["p"])
    >>> sample.columns["a"].to_pylist(), sample.partitions, sample.codes.tolist()
    ([1, 2], ((None,), ('x',)), [1, 0])
    """
    texts = [[partition_text(value) for value in table[name]] for name in partition_by]
    rows = list(zip(*texts, strict=True)) if texts else [()] * table.num_rows
    partitions = sorted(set(rows), key=lambda row: [(text is not None, text or "") for text in row])
    code_of = {row: index for index, row in enumerate(partitions)}
    codes = np.array([code_of[row] for row in rows], np.int64)
    return Sample({column: _leaf(table, split_path(column)) for column in columns}, tuple(partitions) or ((),), codes)


def _leaf(table: pa.Table, path: tuple[str, ...]) -> pa.Array:
    column = table[path[0]]
    return inside_structs(pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type), path)


def _values(
    file: pq.ParquetFile,
    group: int,
    snapshot: Snapshot,
    column: str,
    *,
    picked: NDArray[np.int64],
    reader: FooterReader,
) -> Iterator[pa.Array]:
    """Some values of a column in a row group, null where the file does not have it.

    They are read in pieces: a row group may have any number of rows.
    """
    from geolake_nb.parquet.opening import value_batches

    kind = _kind(snapshot.schema.find(column).type)
    path = _path(file, snapshot, column, reader)
    if path is None:
        yield pa.nulls(len(picked), kind)
        return
    start = 0
    for batch in value_batches(file, [path], rows=_PIECE, groups=[group]):
        values = batch.column(0)
        for _ in range(len(split_path(column)) - 1):
            values = values.flatten()[0]
        first, end = np.searchsorted(picked, [start, start + len(batch)])
        start += len(batch)
        some = values.take(pa.array(picked[first:end] - (start - len(batch))))
        yield some if some.type == kind else some.cast(kind)


def _path(file: pq.ParquetFile, snapshot: Snapshot, column: str, reader: FooterReader) -> str | None:
    """What to read for a column."""
    from geolake_nb.parquet.schema import PATH_KEY

    here = file_field(snapshot, column)
    field = reader.view(file.metadata, where=column).find(here.parts, field_id=here.id)
    return None if field is None else str(field.metadata.get(PATH_KEY, field.name))


def _kind(type_: DataType) -> pa.DataType:
    if isinstance(type_, GeometryType | GeographyType):
        return pa.large_binary()
    return arrow_type_of(type_) or pa.string()


def _joined(parts: list[pa.Array], type_: DataType) -> pa.Array:
    return pa.concat_arrays(parts) if parts else pa.array([], _kind(type_))
