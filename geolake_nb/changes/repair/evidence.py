"""Which bounds of a table's files have to be repaired, and what is known of them without a scan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from geolake_nb.changes.repair.bound_faults import box_at, holds
from geolake_nb.changes.repair.footer_bounds import read_footer_bounds
from geolake_nb.changes.repair.scan_job import NewStats
from geolake_nb.model.change import Reads
from geolake_nb.model.types import GeographyType
from geolake_nb.parquet.footer import FIRST_READ

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from geolake_nb.changes.repair.bound_faults import StoredBounds
    from geolake_nb.changes.repair.footer_bounds import FooterBounds
    from geolake_nb.model.box import Box
    from geolake_nb.model.statistics import ColumnStats
    from geolake_nb.scan.value_scan import ScanColumn
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

__all__ = ["FileRepair", "RepairEvidence", "StoredBound", "after_scan"]


@dataclass(frozen=True, slots=True)
class StoredBound:
    """The stored bound of a column that will be scanned."""

    column: int
    """Its index among the columns of the job."""
    box: Box | None
    wrong: bool
    """Whether it has to be replaced in any case."""
    broken: bool = False
    """Whether a bound is stored that cannot or must not be read."""


@dataclass(frozen=True, slots=True)
class FileRepair:
    """A file with wrong bounds: by the index of columns, statistics from the footer and columns to scan."""

    index: int
    known: Mapping[int, NewStats]
    scanned: tuple[StoredBound, ...]


class RepairEvidence:
    """The files of a table with rows in them, and what is known of their geo columns."""

    def __init__(
        self,
        columns: Sequence[ScanColumn],
        *,
        paths: Sequence[str],
        keys: Sequence[str],
        sizes: NDArray[np.int64],
        stored: Mapping[str, StoredBounds],
    ) -> None:
        """`paths` are those in the metadata, `keys` those of the storage; `stored` is by column."""
        self.paths = paths
        self.keys = keys
        self.sizes = sizes
        self.rows: NDArray[np.int64] | None = None
        """By the footers, once they are read."""
        self._columns = columns
        self._stored = stored
        # The box of a geography includes its edges; a footer may have only the vertices.
        self._geographies = {column.path for column in columns if isinstance(column.type, GeographyType)}
        self._footers: dict[str, FooterBounds] = {}
        self._loose: dict[str, NDArray[np.bool_]] = {}
        self._counts: dict[str, dict[str, int]] = {}

    def read_footers(self, storage: Storage, on_progress: Progress | None) -> None:
        """Read the footers of all files."""
        self.rows, self._footers = read_footer_bounds(storage, self.keys, self._columns, on_progress=on_progress)

    def repairs(self, *, verify: bool) -> Iterator[FileRepair]:
        """The files to repair, in order; with `verify` every file is scanned."""
        count = len(self.paths)
        need = {column.path: self._need(column.path, verify=verify) for column in self._columns}
        scan = {column.path: need[column.path] & ~self._known_from_footers(column.path) for column in self._columns}
        for index in np.flatnonzero(np.any([*need.values()], axis=0) if need else np.zeros(count, np.bool_)).tolist():
            known = {
                number: self._from_footer(column.path, index)
                for number, column in enumerate(self._columns)
                if need[column.path][index] and not scan[column.path][index]
            }
            scanned = tuple(
                self._before_scan(number, column.path, index)
                for number, column in enumerate(self._columns)
                if scan[column.path][index]
            )
            yield FileRepair(index, known, scanned)

    def _need(self, path: str, *, verify: bool) -> NDArray[np.bool_]:
        stored = self._stored[path]
        small, loose = (np.zeros(len(self.paths), np.bool_) for _ in range(2))
        if self.rows is not None:
            small = stored.refuted(self._footers[path], self.rows)
            if path not in self._geographies:
                # A loose box is correct: only the values can show that a smaller one is enough.
                loose = stored.loose(self._footers[path]) & ~small
        self._loose[path] = loose
        need = stored.missing | stored.broken | small | loose
        if self.rows is not None:
            need &= ~(stored.missing & (self.rows == 0)) & ~stored.settled(self._footers[path])
        self._counts[path] = {
            "missing": int((stored.missing & need).sum()),
            "broken": int(stored.broken.sum()),
            "small": int(small.sum()),
            "loose": int(loose.sum()),
            "from_footers": int((need & self._known_from_footers(path)).sum()),
        }
        return np.ones(len(self.paths), np.bool_) if verify else need

    def _known_from_footers(self, path: str) -> NDArray[np.bool_]:
        """Where the footer has all the needed statistics."""
        footers = self._footers.get(path)
        if footers is None:
            return np.zeros(len(self.paths), np.bool_)
        # A count of nulls that is wrong has to be replaced, too.
        counted = ~self._stored[path].only_null | (footers.null_count >= 0)
        return (footers.usable.known | footers.nowhere) & counted & ~self._loose[path]

    def _from_footer(self, path: str, index: int) -> NewStats:
        footers = self._footers[path]
        nulls = int(footers.null_count[index])
        return NewStats(box_at(footers.usable, index), None if nulls < 0 else nulls)

    def _before_scan(self, number: int, path: str, index: int) -> StoredBound:
        stored = self._stored[path]
        wrong = bool(stored.broken[index] or stored.only_null[index] or self._loose[path][index])
        return StoredBound(number, box_at(stored.boxes, index), wrong, bool(stored.broken[index]))

    def has_bound(self, number: int, index: int) -> bool:
        """Whether the metadata have a bound of a column in a file, valid or not."""
        stored = self._stored[self._columns[number].path]
        return bool(stored.boxes.known[index] or stored.broken[index])

    def reads(self, scanned: Sequence[FileRepair]) -> Reads:
        """What a scan reads of these files, and what was read of all."""
        if self.rows is None:
            return Reads(len(scanned), sum(int(self.sizes[file.index]) for file in scanned))
        footers = int(np.minimum(self.sizes, FIRST_READ).sum())
        values = sum(
            int(self._footers[self._columns[stored.column].path].bytes[file.index])
            for file in scanned
            for stored in file.scanned
        )
        return Reads(len(self.paths), footers + values)

    def notes(self, *, verify: bool) -> tuple[str, ...]:
        """What is wrong and how it is repaired, one sentence each, after `repairs`."""
        if verify:
            names = ", ".join(column.path for column in self._columns)
            return (f"Every value of {names} in {_files(len(self.paths))} is read and compared with its bound.",)
        notes = []
        for path, counts in self._counts.items():
            wrong = [
                f"{_files(counts[kind])} {what}"
                for kind, what in (
                    ("missing", "without a bound"),
                    ("broken", "with a bound that cannot be read or wraps"),
                    ("small", "with a bound that contradicts the footer"),
                    ("loose", "with a bound larger than the footer's"),
                )
                if counts[kind]
            ]
            if not wrong:
                notes.append(f"{path}: no bound is missing or known to be wrong.")
                continue
            left = counts["missing"] + counts["broken"] + counts["small"] + counts["loose"] - counts["from_footers"]
            sources = [f"{counts['from_footers']:,} repaired from Parquet footers"] if counts["from_footers"] else []
            sources += [f"{left:,} after a scan of the values"] if left else []
            notes.append(f"{path}: {', '.join(wrong)}; {', '.join(sources)}.")
        return tuple(notes)


def after_scan(stored: StoredBound, stats: ColumnStats, *, may_wrap: bool = False) -> NewStats | None:
    """The new statistics after a scan, `None` if the stored ones are good enough.

    `may_wrap` means that readers of the table support boxes that cross the antimeridian.
    """
    good = stored.box is not None and not stored.wrong
    # Nothing is known about an unreadable column, not even its nulls.
    nulls = None if stats.types is None and not stats.bad else stats.null_count
    if stats.box is not None:
        sufficient = good and stored.box is not None and holds(stored.box, stats.box, may_wrap=may_wrap)
        return None if sufficient else NewStats(stats.box, nulls)
    if stats.only_null_or_empty:
        return None if good else NewStats(None, nulls)
    # A value without a usable bound leaves its file without one; where there is none, nothing changes.
    return NewStats(None, nulls) if stored.box is not None or stored.wrong else None


def _files(count: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'}"
