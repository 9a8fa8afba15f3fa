"""Which bounds of a table's files have to be mended, and what is known of them without a scan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from geolake_nb.formats.parquet.footer import FIRST_READ
from geolake_nb.planning.change import Reads
from geolake_nb.planning.mending.bound_faults import box_at, holds
from geolake_nb.planning.mending.footer_bounds import read_footer_bounds
from geolake_nb.planning.mending.scan_job import NewStats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from geolake_nb.core.box import Box
    from geolake_nb.core.statistics import ColumnStats
    from geolake_nb.formats.parquet.value_scan import ScanColumn
    from geolake_nb.formats.storage import Storage
    from geolake_nb.planning.mending.bound_faults import StoredBounds
    from geolake_nb.planning.mending.footer_bounds import FooterBounds

    Progress = Callable[[int, int], None]

__all__ = ["Mending", "RepairEvidence", "StoredBound", "after_scan"]


@dataclass(frozen=True, slots=True)
class StoredBound:
    """What the metadata say of a column that is going to be scanned."""

    column: int
    """Its place among the columns of the job."""
    box: Box | None
    wrong: bool
    """Whether it has to go in any case."""
    broken: bool = False
    """Whether something is there that cannot be read, or must not be."""


@dataclass(frozen=True, slots=True)
class Mending:
    """A file whose bounds are not right: by the places of columns, what the footer tells and what a scan has to."""

    place: int
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
        """`paths` are as the metadata have them, `keys` as the storage takes them; `stored` goes by columns."""
        self.paths = paths
        self.keys = keys
        self.sizes = sizes
        self.rows: NDArray[np.int64] | None = None
        """By the footers, once they are read."""
        self._columns = columns
        self._stored = stored
        self._footers: dict[str, FooterBounds] = {}
        self._counts: dict[str, dict[str, int]] = {}

    def read_footers(self, storage: Storage, on_progress: Progress | None) -> None:
        """Read the footers of all files."""
        self.rows, self._footers = read_footer_bounds(storage, self.keys, self._columns, on_progress=on_progress)

    def mendings(self, *, verify: bool) -> Iterator[Mending]:
        """The files to mend, in order; with `verify` every file is scanned."""
        count = len(self.paths)
        need = {column.path: self._need(column.path, verify=verify) for column in self._columns}
        scan = {column.path: need[column.path] & ~self._told(column.path) for column in self._columns}
        for place in np.flatnonzero(np.any([*need.values()], axis=0) if need else np.zeros(count, np.bool_)).tolist():
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
            yield Mending(place, known, scanned)

    def _need(self, path: str, *, verify: bool) -> NDArray[np.bool_]:
        stored = self._stored[path]
        small = np.zeros(len(self.paths), np.bool_)
        if self.rows is not None:
            small = stored.refuted(self._footers[path], self.rows)
        need = stored.missing | stored.broken | small
        if self.rows is not None:
            need &= ~(stored.missing & (self.rows == 0)) & ~stored.settled(self._footers[path])
        self._counts[path] = {
            "missing": int((stored.missing & need).sum()),
            "broken": int(stored.broken.sum()),
            "small": int(small.sum()),
            "told": int((need & self._told(path)).sum()),
        }
        return np.ones(len(self.paths), np.bool_) if verify else need

    def _told(self, path: str) -> NDArray[np.bool_]:
        """Where the footer says all that has to be known."""
        footers = self._footers.get(path)
        if footers is None:
            return np.zeros(len(self.paths), np.bool_)
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
        return StoredBound(number, box_at(stored.boxes, place), wrong, bool(stored.broken[place]))

    def has_bound(self, number: int, place: int) -> bool:
        """Whether the metadata have a bound of a column in a file, good or bad."""
        stored = self._stored[self._columns[number].path]
        return bool(stored.boxes.known[place] or stored.broken[place])

    def reads(self, scanned: Sequence[Mending]) -> Reads:
        """What of these files a scan reads, and what has been read of all."""
        if self.rows is None:
            return Reads(len(scanned), sum(int(self.sizes[one.place]) for one in scanned))
        footers = int(np.minimum(self.sizes, FIRST_READ).sum())
        values = sum(
            int(self._footers[self._columns[stored.column].path].bytes[one.place])
            for one in scanned
            for stored in one.scanned
        )
        return Reads(len(self.paths), footers + values)

    def says(self, *, verify: bool) -> tuple[str, ...]:
        """What is wrong and how it is mended, one sentence each, after `mendings`."""
        if verify:
            names = ", ".join(column.path for column in self._columns)
            return (f"Every value of {names} in {_files(len(self.paths))} is read and compared with its bound.",)
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


def after_scan(stored: StoredBound, stats: ColumnStats, *, may_wrap: bool = False) -> NewStats | None:
    """What the statistics shall say after a scan, `None` if they are as good as they can be.

    `may_wrap` says that the readers of the table know boxes that cross the antimeridian.
    """
    good = stored.box is not None and not stored.wrong
    # Of a column that could not be read nothing is known, its nulls included.
    nulls = None if stats.types is None and not stats.bad else stats.null_count
    if stats.box is not None:
        held = good and stored.box is not None and holds(stored.box, stats.box, may_wrap=may_wrap)
        return None if held else NewStats(stats.box, nulls)
    if stats.only_null_or_empty:
        return None if good else NewStats(None, nulls)
    # A value without a sound bound leaves its file without one; where there is none, nothing is to be done.
    return NewStats(None, nulls) if stored.box is not None or stored.wrong else None


def _files(count: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'}"
