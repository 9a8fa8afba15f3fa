"""Which bounds of a Delta table are mended, from what: the Parquet footers, or a scan that is left to Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.core.bound_codec import to_delta_wkt
from geolake_nb.formats.delta.data_paths import decoded_path
from geolake_nb.formats.delta.writability import Doing, require_writable
from geolake_nb.formats.parquet_footer import FIRST_READ
from geolake_nb.planning.bound_faults import StoredBounds, box_at, holds
from geolake_nb.planning.change import Change, Reads, Verb
from geolake_nb.planning.engines import engine_facts
from geolake_nb.planning.footer_bounds import FooterBounds, read_footer_bounds
from geolake_nb.planning.pre_images import pre_images
from geolake_nb.planning.repair_columns import repair_columns
from geolake_nb.planning.restating import NewStats, restated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from geolake_nb.core.box import Box
    from geolake_nb.core.statistics import ColumnStats
    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.formats.storage import Storage
    from geolake_nb.formats.value_scan import ScanColumn

    Progress = Callable[[int, int], None]

__all__ = ["ScanFile", "ScanJob", "StoredBound", "finish_repair", "plan_repair"]


@dataclass(frozen=True, slots=True)
class StoredBound:
    """What the log says of a column that is going to be scanned."""

    column: int
    """Its place among the columns of the job."""
    box: Box | None
    wrong: bool
    """Whether it has to go in any case."""


@dataclass(frozen=True, slots=True)
class ScanFile:
    """A file whose values Spark reads, and what becomes of it meanwhile known."""

    path: str
    """As the log stores it."""
    key: str
    """As the storage takes it."""
    bytes: int
    add: str
    """Its `add` before the change."""
    has_vector: bool
    scanned: tuple[StoredBound, ...]
    known: tuple[tuple[int, NewStats], ...] = ()
    """What the footer told of other columns."""


@dataclass(frozen=True, slots=True, eq=False)
class ScanJob:
    """The files and geo columns that have to be read to know their bounds."""

    columns: tuple[ScanColumn, ...]
    files: tuple[ScanFile, ...]

    def to_dict(self) -> dict[str, Any]:
        """`scan`: for each file its path and the columns that are read; `known`: what the footers told of others."""
        names = [column.path for column in self.columns]
        known = {
            file.path: {names[place]: _told(new) for place, new in file.known} for file in self.files if file.known
        }
        scan = [{"path": file.path, "columns": [names[one.column] for one in file.scanned]} for file in self.files]
        return {"scan": scan, "known": known}


def plan_repair(
    storage: Storage,
    snapshot: Snapshot,
    *,
    columns: Sequence[str] | None = None,
    verify: bool = False,
    on_progress: Progress | None = None,
    footers: bool = True,
) -> Change:
    """Bounds that are missing or wrong, each from the cheapest source that is sound.

    With `verify` every file is scanned; without `footers` those are scanned whose bounds the log shows to be missing.
    """
    details = snapshot.details
    require_writable(snapshot.protocol, details.metadata, doing=Doing.RESTATE, where=snapshot.location)
    chosen, says = repair_columns(snapshot, columns)
    nothing = Change(
        verb=Verb.REPAIR,
        format=snapshot.format,
        location=snapshot.location,
        base_version=snapshot.version,
        engines=engine_facts(snapshot),
        parameters={
            "columns": json.dumps([column.path for column in chosen]),
            "verify": json.dumps(verify),
        },
    )
    records = _numbers(details.stats.records)
    positions = np.flatnonzero(records != 0)
    if not chosen or not len(positions):
        return replace(nothing, says=says)
    plan = _Plan(storage, snapshot, chosen, positions)
    if not verify and footers:
        plan.read_footers(on_progress)
    actions, files = plan.decide(verify=verify)
    return replace(
        nothing,
        actions=actions,
        job=ScanJob(chosen, files) if files else None,
        says=(*plan.says(verify=verify), *says),
        reads=plan.reads(files),
        metrics={"files_restated": len(actions), "files_from_footers": len(actions)},
    )


def finish_repair(change: Change, job: ScanJob, found: Mapping[int, Sequence[ColumnStats]]) -> Change:
    """The change with what the scan found: for each file, by its place, the statistics in the order of `scanned`."""
    actions = list(change.actions)
    unbounded = values = 0
    for place, file in enumerate(job.files):
        new = dict(file.known)
        rows = None
        lost = False
        for stored, stats in zip(file.scanned, found[place], strict=True):
            rows = stats.rows
            lost |= bool(stats.bad or stats.unbounded)
            values += stats.bad + stats.unbounded
            wanted = _after_scan(stored, stats)
            if wanted is not None:
                new[stored.column] = wanted
        unbounded += lost
        by_name = {job.columns[column].physical: stats for column, stats in new.items()}
        action = restated(file.add, by_name, rows=rows, has_vector=file.has_vector) if by_name else None
        if action is not None:
            actions.append(action)
    metrics = {
        **change.metrics,
        "files_restated": len(actions),
        "files_scanned": len(job.files),
        "files_without_bound": unbounded,
        "values_without_bound": values,
    }
    return replace(change, job=None, actions=actions, metrics=metrics)


def _after_scan(stored: StoredBound, stats: ColumnStats) -> NewStats | None:
    """What the statistics shall say, `None` if they are as good as they can be."""
    good = stored.box is not None and not stored.wrong
    # Of a column that could not be read nothing is known, its nulls included.
    nulls = None if stats.types is None and not stats.bad else stats.null_count
    if stats.box is not None:
        held = good and stored.box is not None and holds(stored.box, stats.box)
        return None if held else NewStats(stats.box, nulls)
    if stats.only_null_or_empty:
        return None if good else NewStats(None, nulls)
    # A value without a sound bound leaves its file without one; where there is none, nothing is to be done.
    return NewStats(None, nulls) if stored.box is not None or stored.wrong else None


class _Plan:
    """The files of a table with rows in them, and what is known of their geo columns."""

    def __init__(
        self,
        storage: Storage,
        snapshot: Snapshot,
        columns: tuple[ScanColumn, ...],
        positions: NDArray[np.intp],
    ) -> None:
        table = snapshot.files.table
        here = pa.array(positions)
        self._storage = storage
        self._snapshot = snapshot
        self._columns = columns
        self._paths: list[str] = table["path"].take(here).to_pylist()
        self._sizes = _numbers(table["bytes"].take(here))
        self._vectors = np.asarray(pc.is_valid(snapshot.details.deletion_vectors).to_numpy(), np.bool_)[positions]
        self._records = _numbers(snapshot.details.stats.records)[positions]
        self._stored = {column.path: StoredBounds.of(snapshot, column.path, positions) for column in columns}
        self._rows: NDArray[np.int64] | None = None
        self._footers: dict[str, FooterBounds] = {}
        self._counts: dict[str, dict[str, int]] = {}

    def read_footers(self, on_progress: Progress | None) -> None:
        keys = [decoded_path(path) for path in self._paths]
        self._rows, self._footers = read_footer_bounds(self._storage, keys, self._columns, on_progress=on_progress)

    def decide(self, *, verify: bool) -> tuple[list[str], tuple[ScanFile, ...]]:
        """The actions that are known already, and the files that have to be scanned first."""
        count = len(self._paths)
        need = {column.path: self._need(column.path, verify=verify) for column in self._columns}
        scan = {column.path: need[column.path] & ~self._told(column.path) for column in self._columns}
        places = np.flatnonzero(np.any([*need.values()], axis=0) if need else np.zeros(count, np.bool_))
        adds = pre_images(self._storage, self._snapshot.details.segment, [self._paths[place] for place in places])
        actions: list[str] = []
        files: list[ScanFile] = []
        for place in places.tolist():
            known = {
                number: self._from_footer(column.path, place)
                for number, column in enumerate(self._columns)
                if need[column.path][place] and not scan[column.path][place]
            }
            scanned = tuple(
                self._before_scan(number, column.path, place)
                for number, column in enumerate(self._columns)
                if scan[column.path][place]
            )
            path, add, has_vector = self._paths[place], adds[self._paths[place]], bool(self._vectors[place])
            if scanned:
                size = int(self._sizes[place])
                files.append(ScanFile(path, decoded_path(path), size, add, has_vector, scanned, tuple(known.items())))
                continue
            rows = None if self._rows is None else int(self._rows[place])
            counted = bool(self._records[place] >= 0)
            by_name = {self._columns[number].physical: new for number, new in known.items()}
            action = restated(add, by_name, rows=rows, has_vector=has_vector, counted=counted)
            if action is not None:
                actions.append(action)
        return actions, tuple(files)

    def _need(self, path: str, *, verify: bool) -> NDArray[np.bool_]:
        stored = self._stored[path]
        small = np.zeros(len(self._paths), np.bool_)
        if self._rows is not None:
            small = stored.refuted(self._footers[path], self._rows)
        need = stored.missing | stored.broken | small
        if self._rows is not None:
            need &= ~(stored.missing & (self._rows == 0)) & ~stored.settled(self._footers[path])
        self._counts[path] = {
            "missing": int((stored.missing & need).sum()),
            "broken": int(stored.broken.sum()),
            "small": int(small.sum()),
            "told": int((need & self._told(path)).sum()),
        }
        return np.ones(len(self._paths), np.bool_) if verify else need

    def _told(self, path: str) -> NDArray[np.bool_]:
        """Where the footer says all that has to be known."""
        footers = self._footers.get(path)
        if footers is None:
            return np.zeros(len(self._paths), np.bool_)
        # A count of nulls that is wrong has to be replaced, too.
        counted = ~self._stored[path].only_null | (footers.null_count >= 0)
        return (footers.usable.known | footers.nowhere) & counted

    def _from_footer(self, path: str, place: int) -> NewStats:
        footers = self._footers[path]
        nulls = int(footers.null_count[place])
        return NewStats(box_at(footers.usable, place), None if nulls < 0 else nulls)

    def _before_scan(self, number: int, path: str, place: int) -> StoredBound:
        stored = self._stored[path]
        wrong = bool(stored.broken[place] or stored.only_null[place])
        return StoredBound(number, box_at(stored.boxes, place), wrong)

    def reads(self, files: Sequence[ScanFile]) -> Reads:
        if self._rows is None:
            return Reads(len(files), sum(file.bytes for file in files))
        footers = int(np.minimum(self._sizes, FIRST_READ).sum())
        places = {path: place for place, path in enumerate(self._paths)} if files else {}
        values = sum(
            int(self._footers[self._columns[one.column].path].bytes[places[file.path]])
            for file in files
            for one in file.scanned
        )
        return Reads(len(self._paths), footers + values)

    def says(self, *, verify: bool) -> tuple[str, ...]:
        if verify:
            names = ", ".join(column.path for column in self._columns)
            return (f"Every value of {names} in {_files(len(self._paths))} is read and compared with its bound.",)
        said = []
        for path, counts in self._counts.items():
            wrong = [
                f"{_files(counts[kind])} {what}"
                for kind, what in (
                    ("missing", "without a bound"),
                    ("broken", "with a bound that cannot be read or wraps"),
                    ("small", "with a bound that the footer shows to be wrong"),
                )
                if counts[kind]
            ]
            if not wrong:
                said.append(f"{path}: no bound is missing or known to be wrong.")
                continue
            left = counts["missing"] + counts["broken"] + counts["small"] - counts["told"]
            sources = [f"{counts['told']:,} mended from Parquet footers"] if counts["told"] else []
            sources += [f"{left:,} after a scan of the values"] if left else []
            said.append(f"{path}: {', '.join(wrong)}; {', '.join(sources)}.")
        return tuple(said)


def _files(count: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'}"


def _told(new: NewStats) -> list[Any]:
    return [None if new.box is None else list(to_delta_wkt(new.box)), new.null_count]


def _numbers(values: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """The numbers, -1 where one is not known."""
    return np.asarray(pc.fill_null(values, -1).to_numpy(), np.int64)
