"""Reads the rows of a query: skips files and row groups, reads the columns of the filter first, tests every row.

Row groups are read in parallel and returned in the order of the table. At most some row groups are in memory.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from geolake_nb.errors import CorruptTableError, MissingFileError
from geolake_nb.expressions.binding import leaves
from geolake_nb.expressions.predicate import And
from geolake_nb.model.schema import split_path
from geolake_nb.model.snapshot import geo_file_fields
from geolake_nb.parquet.footer import read_sized_metadata, row_groups
from geolake_nb.parquet.opening import open_parquet_file
from geolake_nb.scan.data_files import require_parquet
from geolake_nb.scan.explain import prune_row_groups
from geolake_nb.scan.file_reader import FileReader
from geolake_nb.scan.file_statistics import known_files
from geolake_nb.scan.prune import prune
from geolake_nb.scan.result_schema import ResultTypes
from geolake_nb.scan.row_filter import RowFilter
from geolake_nb.text.messages import part_of, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    import pyarrow.parquet as pq
    from numpy.typing import NDArray

    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import Field
    from geolake_nb.scan.data_file import DataFile, RowSource
    from geolake_nb.scan.file_statistics import Collator
    from geolake_nb.scan.prune import PruneInput, PruneResult
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

    Note = Callable[[int, int], None]

__all__ = ["GroupReader", "RowScan", "ScanMetrics", "ScanTask"]

_FILES_AT_ONCE = 64
"""Files whose footers are read before their rows."""
_FEW_FILES = 4
"""The same at the start of a scan with a limit, which may not need more."""
_BATCH_ROWS = 131_072
_AHEAD_BYTES = 1 << 29
"""About how many bytes of row groups, unpacked, are read ahead of the consumer."""
_STORE_WORKERS = 16


@dataclass
class ScanMetrics:
    """What a scan has read so far, beside what it planned."""

    files_planned: int = 0
    files_total: int = 0
    files: int = 0
    """Files with at least one row group that was read."""
    row_groups_planned: int = 0
    row_groups_total: int = 0
    """Row groups of the files whose footers were read."""
    row_groups: int = 0
    bytes: int = 0
    """Compressed bytes of the column chunks that were read."""
    rows_scanned: int = 0
    """Live and deleted rows of the row groups that were read."""
    rows: int = 0
    """Rows of the answer."""
    unreadable: dict[str, int] = field(default_factory=dict)
    """Values of geo columns in the filter that could not be read; their rows are not in the answer."""
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The numbers with plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{plural(self.rows, 'row')} from {part_of(self.files, self.files_total, 'file')},"
            f" {plural(self.row_groups, 'row group')}, "
            f"{self.bytes:,} bytes, {self.rows_scanned:,} rows read in {self.seconds:.3f} s"
        )


@dataclass(frozen=True, slots=True, eq=False)
class ScanTask:
    """One row group to read."""

    index: int
    """The row of its file in the file table."""
    file: DataFile
    footer: pq.FileMetaData
    size: int
    group: int

    @property
    def unpacked(self) -> int:
        """About how many bytes it takes in memory."""
        return max(1, int(self.footer.row_group(self.group).total_byte_size))


@dataclass(eq=False)
class GroupReader:
    """Reads the rows of the answer in one row group after another; it may be sent to other processes."""

    storage: Storage
    source: RowSource
    fields: Sequence[Field]
    """The columns of the answer."""
    columns: Sequence[Field]
    """The columns of the table."""
    predicate: Predicate | None = None
    exact: bool = True
    bands: bool = False
    collator: Collator | None = None

    def __post_init__(self) -> None:
        self._types = ResultTypes(self.bands)
        self.schema = self._types.schema(self.fields)
        self._filter: RowFilter | None = None
        self._filter_fields: list[Field] = []
        if self.predicate is not None:
            self._filter = RowFilter(self.predicate, exact=self.exact, collator=self.collator)
            tops = self._filter.columns
            self._filter_fields = [field for field in self.columns if field.name in tops]
        kept = {field.name for field in self._filter_fields}
        self._late = [field for field in self.fields if field.name not in kept]

    def __reduce__(self) -> tuple[Any, ...]:
        return GroupReader, (
            self.storage,
            self.source,
            self.fields,
            self.columns,
            self.predicate,
            self.exact,
            self.bands,
            self.collator,
        )

    @property
    def unreadable(self) -> dict[str, int]:
        """How many values of geo columns in the filter could not be read."""
        return {} if self._filter is None else self._filter.unreadable

    def read(
        self,
        file: DataFile,
        groups: Sequence[int],
        *,
        footer: pq.FileMetaData | None = None,
        size: int | None = None,
        rows: int = _BATCH_ROWS,
        note: Note | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of some row groups of a file.

        Args:
            file: the file.
            groups: the numbers of the row groups.
            footer: the footer of the file, if it was read already; `size` is the size of the file then.
            size: the size of the file.
            rows: the largest batch.
            note: called with the bytes and the rows of each part that is read; the rows are 0 for further columns.
        """
        where = f"{self.storage.location}/{file.key}"
        with open_parquet_file(self.storage, file.key, footer=footer, size=size, pre_buffer=False) as opened:
            reader = FileReader(opened, self.source, file, where, self._types)
            for group in groups:
                live = self._live(reader, file, group)
                if self._filter is None:
                    _note(note, reader, self.fields, group)
                    yield from self._plain(reader, group, live, rows)
                else:
                    yield from self._filtered(reader, group, live, rows, note)

    def _plain(
        self, reader: FileReader, group: int, live: NDArray[np.bool_] | None, rows: int
    ) -> Iterator[pa.RecordBatch]:
        row = 0
        for batch in reader.batches(self.fields, group, rows=rows):
            yield batch if live is None else _chosen(batch, live[row : row + len(batch)])
            row += len(batch)

    def _filtered(
        self, reader: FileReader, group: int, live: NDArray[np.bool_] | None, rows: int, note: Note | None
    ) -> Iterator[pa.RecordBatch]:
        assert self._filter is not None
        _note(note, reader, self._filter_fields, group)
        names = {field.name for field in self.fields}
        early = [index for index, field in enumerate(self._filter_fields) if field.name in names]
        kept: list[NDArray[np.bool_]] = []
        pieces: list[pa.RecordBatch] = []
        row = 0
        for batch in reader.batches(self._filter_fields, group, rows=rows):
            if live is None:
                keep = self._filter.keep(batch)
            else:  # a deleted row takes no part, also where its values cannot be read
                keep = live[row : row + len(batch)].copy()
                keep[keep] = self._filter.keep(_chosen(batch, keep))
            row += len(batch)
            kept.append(keep)
            pieces.append(_chosen(batch.select(early), keep) if early else batch.select([]))
        whole = np.concatenate(kept) if kept else np.zeros(0, np.bool_)
        if not whole.any():
            return
        if not self._late:
            for keep, piece in zip(kept, pieces, strict=True):
                if keep.any():
                    yield self._ordered(piece, None, int(keep.sum()))
            return
        _note(note, reader, self._late, group, again=True)
        tested = pa.Table.from_batches(pieces) if early else None
        row = taken = 0
        for batch in reader.batches(self._late, group, rows=rows):
            keep = whole[row : row + len(batch)]
            row += len(batch)
            count = int(np.count_nonzero(keep))
            if count:
                first = None if tested is None else tested.slice(taken, count).combine_chunks()
                taken += count
                piece = None if first is None else (first.to_batches() or [None])[0]
                yield self._ordered(piece, _chosen(batch, keep), count)

    def _ordered(self, tested: pa.RecordBatch | None, late: pa.RecordBatch | None, rows: int) -> pa.RecordBatch:
        """The columns of the answer, in its order."""
        sources: dict[str, pa.Array] = {}
        for batch in (tested, late):
            if batch is not None:
                sources |= dict(zip(batch.schema.names, batch.columns, strict=True))
        if not self.fields:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
        return pa.RecordBatch.from_arrays([sources[field.name] for field in self.fields], schema=self.schema)

    def _live(self, reader: FileReader, file: DataFile, group: int) -> NDArray[np.bool_] | None:
        """Which rows of a row group are not deleted, `None` for all."""
        footer = reader.opened.metadata
        start = sum(footer.row_group(before).num_rows for before in range(group))
        count = reader.rows(group)
        live: NDArray[np.bool_] | None = None
        for deleted in self.source.deleted(file, footer):
            rows = deleted.between(start, start + count)
            if len(rows):
                live = np.ones(count, np.bool_) if live is None else live
                live[rows - start] = False
        deletes = self.source.equality_deletes(file)
        if not deletes:
            return live
        live = np.ones(count, np.bool_) if live is None else live
        row = 0
        wanted = [column for delete in deletes for column in delete.fields]
        for columns in reader.leaves(wanted, group):
            size = len(columns[0])
            offset = 0
            for delete in deletes:
                own = columns[offset : offset + len(delete.fields)]
                offset += len(delete.fields)
                live[row : row + size] &= ~delete.matches(own)
            row += size
        if row != count:
            where = f"{self.storage.location}/{file.key}"
            raise CorruptTableError("a row group has fewer rows than its footer states", where=where)
        return live


def _note(note: Note | None, reader: FileReader, fields: Sequence[Field], group: int, *, again: bool = False) -> None:
    if note is not None:
        note(reader.bytes(fields, group), 0 if again else reader.rows(group))


@dataclass(eq=False)
class RowScan:
    """The rows of a table that satisfy a bound filter, `None` for all rows."""

    storage: Storage
    snapshot: Snapshot
    source: RowSource
    fields: Sequence[Field]
    """The columns of the answer."""
    predicate: Predicate | None = None
    limit: int | None = None
    exact: bool = True
    bands: bool = False
    collator: Collator | None = None
    hint: Predicate | None = None
    """A bound filter that the caller tests itself: it skips files and row groups, and no rows."""
    workers: int | None = None

    def __post_init__(self) -> None:
        self.metrics = ScanMetrics(files_total=len(self.snapshot.files))
        self.reader = GroupReader(
            self.storage,
            self.source,
            self.fields,
            self.snapshot.schema.fields,
            self.predicate,
            exact=self.exact,
            bands=self.bands,
            collator=self.collator,
        )
        self.schema = self.reader.schema
        filters = [part for part in (self.predicate, self.hint) if part is not None]
        self._pruning = And(tuple(filters)) if len(filters) > 1 else (filters[0] if filters else None)
        self._known: PruneInput | None = None
        self._pruned: PruneResult | None = None
        self._count = threading.Lock()
        self._seen: set[int] = set()

    def batches(
        self, *, on_progress: Progress | None = None, cancelled: threading.Event | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of the answer, in the order of the table."""
        start = time.perf_counter()
        left = self.limit
        try:
            for batch in self._all(on_progress, cancelled or threading.Event()):
                if cancelled is not None and cancelled.is_set():
                    return
                if left is not None and len(batch) > left:
                    batch = batch.slice(0, left)  # noqa: PLW2901
                self.metrics.rows += len(batch)
                self.metrics.seconds = time.perf_counter() - start
                if len(batch):
                    yield batch
                if left is not None:
                    left -= len(batch)
                    if left <= 0:
                        return
        finally:
            self.metrics.seconds = time.perf_counter() - start
            self.metrics.unreadable = self.reader.unreadable

    def kept_files(self) -> NDArray[np.int64]:
        """The rows of the file table whose files have to be read."""
        if self._pruning is None:
            return np.arange(len(self.snapshot.files))
        if self._pruned is None:
            self._known = known_files(self.snapshot, self._pruning, collator=self.collator)
            self._pruned = prune(self._pruning, self._known)
        return np.flatnonzero(self._pruned.kept)

    def tasks(self, positions: Sequence[int] | None = None) -> Iterator[ScanTask]:
        """The row groups that have to be read, of all kept files or of these; footers are read on the way."""
        kept = self.kept_files() if positions is None else np.asarray(positions, np.int64)
        self.metrics.files_planned = len(kept)
        if len(kept):
            require_parquet(self.snapshot, kept.tolist())
        step = _FILES_AT_ONCE if self.limit is None else _FEW_FILES
        start = 0
        while start < len(kept):
            chosen = kept[start : start + step].tolist()
            start += len(chosen)
            step = min(_FILES_AT_ONCE, 4 * step)
            yield from self._chunk(chosen)

    def _chunk(self, chosen: list[int]) -> Iterator[ScanTask]:
        files = self.source.files(chosen)
        footers = self._footers(chosen, files)
        counts = [footer.num_row_groups for footer, _ in footers]
        self.metrics.row_groups_total += sum(counts)
        kept = self._kept_groups(chosen, files, footers)
        position = 0
        for index, file, (footer, size), count in zip(chosen, files, footers, counts, strict=True):
            groups = np.flatnonzero(kept[position : position + count]).tolist()
            position += count
            self.metrics.row_groups_planned += len(groups)
            yield from (ScanTask(index, file, footer, size, group) for group in groups)

    def _footers(self, chosen: Sequence[int], files: Sequence[DataFile]) -> list[tuple[pq.FileMetaData, int]]:
        views = self.snapshot.format.footer_views(self.snapshot)
        if views is not None:
            sizes = self.snapshot.files.table["bytes"]
            return [(views[index].metadata, sizes[index].as_py()) for index in chosen]
        workers = 8 if self.storage.is_local else 64
        keys = [file.key for file in files]
        try:
            return list(self.storage.in_parallel(lambda key: read_sized_metadata(self.storage, key), keys, workers))
        except MissingFileError as problem:
            raise MissingFileError(
                "a data file that the table lists does not exist",
                where=problem.where,
                remedy="restore it, or open an older version; `geolake check TABLE` lists all missing files",
            ) from None

    def _kept_groups(
        self, chosen: Sequence[int], files: Sequence[DataFile], footers: Sequence[tuple[pq.FileMetaData, int]]
    ) -> NDArray[np.bool_]:
        counts = [footer.num_row_groups for footer, _ in footers]
        if self._pruning is None or self._known is None or self._pruned is None:
            return np.ones(sum(counts), np.bool_)
        wanted = {leaf.column for leaf in leaves(self._pruning)}
        geo = [path for path in geo_file_fields(self.snapshot) if split_path(path) in wanted]
        table = row_groups(
            self.storage,
            [file.key for file in files],
            self.snapshot.schema,
            columns=geo,
            fields=geo_file_fields(self.snapshot),
            footers=[footer for footer, _ in footers],
        )
        of_file = np.repeat(np.asarray(chosen, np.int64), counts)
        return prune_row_groups(self._pruning, self.snapshot, self._known, self._pruned, table, files=of_file).kept

    def _all(self, on_progress: Progress | None, cancelled: threading.Event) -> Iterator[pa.RecordBatch]:
        tasks = self.tasks()
        if self.limit is not None and self.predicate is None:
            for task in tasks:  # the first row groups have all that is wanted
                yield from self._read(task, rows=min(_BATCH_ROWS, max(1, self.limit)))
            return
        workers = self.workers or ((os.cpu_count() or 1) if self.storage.is_local else _STORE_WORKERS)
        pool = ThreadPoolExecutor(workers, thread_name_prefix="geolake-scan")
        stopped = threading.Event()
        ahead: deque[tuple[ScanTask, Future[list[pa.RecordBatch]]]] = deque()
        done = 0

        def work(task: ScanTask) -> list[pa.RecordBatch]:
            batches: list[pa.RecordBatch] = []
            for batch in self._read(task):
                if stopped.is_set():
                    break
                batches.append(batch)
            return batches

        def fill() -> None:
            while len(ahead) < 2 * workers and sum(task.unpacked for task, _ in ahead) < _AHEAD_BYTES:
                some = list(islice(tasks, 1))
                if not some:
                    return
                ahead.append((some[0], pool.submit(work, some[0])))

        try:
            fill()
            # Of a filter without a match no batch comes out, at which the caller could stop.
            while ahead and not cancelled.is_set():
                _, future = ahead.popleft()
                batches = future.result()
                fill()
                done += 1
                if on_progress is not None:
                    on_progress(done, max(done, self.metrics.row_groups_planned))
                yield from batches
        finally:
            stopped.set()
            pool.shutdown(wait=True, cancel_futures=True)

    def _read(self, task: ScanTask, *, rows: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The rows of the answer in one row group."""

        def note(size: int, rows: int) -> None:
            with self._count:
                metrics = self.metrics
                metrics.bytes += size
                if rows:
                    metrics.row_groups += 1
                    metrics.rows_scanned += rows
                    metrics.files += task.index not in self._seen
                    self._seen.add(task.index)

        return self.reader.read(task.file, [task.group], footer=task.footer, size=task.size, rows=rows, note=note)


def _chosen(batch: pa.RecordBatch, keep: NDArray[np.bool_]) -> pa.RecordBatch:
    return batch if keep.all() else batch.filter(pa.array(keep))
