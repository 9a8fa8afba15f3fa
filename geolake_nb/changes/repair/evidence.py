"""Which bounds of a table's files are missing or wrong, in which columns, and what is known without a scan."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow.compute as pc

from geolake_nb.changes.repair.bound_sources import NewStats, read_footer_bounds
from geolake_nb.checks.check import flags
from geolake_nb.errors import SchemaError
from geolake_nb.geo.box_comparison import BoxSides, excess, misses
from geolake_nb.model.box import Box
from geolake_nb.model.change import Reads
from geolake_nb.model.file_table import AXES
from geolake_nb.model.schema import join_path, type_name
from geolake_nb.model.snapshot import geo_file_fields
from geolake_nb.model.types import GeographyType, GeometryType, ListType, MapType, RasterType
from geolake_nb.parquet.footer import FIRST_READ
from geolake_nb.scan.value_scan import ScanColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from geolake_nb.changes.repair.bound_sources import FooterBounds
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.statistics import ColumnStats
    from geolake_nb.model.types import Field
    from geolake_nb.storage.storage import Storage
    from geolake_nb.text.messages import Progress

    WhyNot = Callable[[tuple[str, ...], bool], str | None]

__all__ = [
    "FileRepair",
    "RepairEvidence",
    "StoredBound",
    "StoredBounds",
    "after_scan",
    "box_at",
    "holds",
    "repair_columns",
]

_SHAPES = (GeometryType, GeographyType)


def repair_columns(
    snapshot: Snapshot, names: Sequence[str] | None, why_not: WhyNot, *, rasters: bool = False
) -> tuple[tuple[ScanColumn, ...], tuple[str, ...]]:
    """The geo columns of these names, or all, whose bounds can be repaired; a sentence about each other one.

    `why_not` takes the path of a column and whether it is inside a list or a map, and gives that sentence.
    """
    columns: list[ScanColumn] = []
    notes: list[str] = []
    files = geo_file_fields(snapshot)
    for column in _geo_columns(snapshot, names, (*_SHAPES, RasterType) if rasters else _SHAPES):
        path = join_path(column.parts)
        reason = why_not(column.parts, column.repeated)
        if reason is not None:
            notes.append(reason)
        else:
            here = files[path]
            is_raster = isinstance(column.type, RasterType)
            columns.append(ScanColumn(path, here.parts, here.id, column.box_type, is_raster))
    return tuple(columns), tuple(notes)


class _GeoColumn(NamedTuple):
    parts: tuple[str, ...]
    type: GeometryType | GeographyType | RasterType
    repeated: bool
    """Whether it is inside a list or a map."""

    @property
    def box_type(self) -> GeometryType | GeographyType:
        """The type that its boxes have: those of rasters are geographic."""
        return GeographyType() if isinstance(self.type, RasterType) else self.type


def _geo_columns(snapshot: Snapshot, names: Sequence[str] | None, kinds: tuple[type, ...]) -> Iterator[_GeoColumn]:
    """The columns of these types and names."""
    wanted = None if names is None else [_named(snapshot, name, kinds) for name in names]
    repeated: set[tuple[str, ...]] = set()
    for parts, field in snapshot.schema.walk_parts():
        if parts[:-1] in repeated or isinstance(field.type, ListType | MapType):
            repeated.add(parts)
        type_ = field.type
        if not isinstance(type_, GeometryType | GeographyType | RasterType) or not isinstance(type_, kinds):
            continue
        if wanted is None or any(field is geo_field for geo_field in wanted):
            yield _GeoColumn(parts, type_, parts in repeated)


def _named(snapshot: Snapshot, name: str, kinds: tuple[type, ...]) -> Field:
    field = snapshot.schema.find(name)
    if not isinstance(field.type, kinds):
        geo = sorted(path for path, field in snapshot.schema.geo_columns() if isinstance(field.type, kinds))
        raise SchemaError(
            f"the column {name!r} is of type {type_name(field.type)} and has no box",
            where=snapshot.location,
            remedy=f"use one of: {', '.join(geo)}" if geo else "the table has no geo column",
        )
    return field


@dataclass(frozen=True, slots=True, eq=False)
class StoredBounds:
    """The stored bounds of one geo column, one entry per file."""

    boxes: BoxSides
    broken: NDArray[np.bool_]
    """Bounds that cannot be read, or wrap where the readers of the format compare boxes on a plane and lose rows."""
    only_null: NDArray[np.bool_]
    """Where no row has a value, so that no bound is missing."""
    null_count: NDArray[np.int64]
    """-1 where it is not known."""

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        column: str,
        positions: NDArray[np.intp],
        *,
        records: pa.Array | pa.ChunkedArray,
        may_wrap: bool,
    ) -> StoredBounds:
        """The bounds of a column in the files at these positions; `records` are the rows of all files."""
        table = snapshot.files.table
        boxes = BoxSides.of(table, column)
        broken = flags(pc.is_valid(table[f"{column}.problem"]))
        if not may_wrap:
            broken |= boxes.wraps & boxes.known
        nulls = table[f"{column}.null_count"]
        only_null = flags(pc.equal(nulls, records))
        counts = np.asarray(pc.fill_null(nulls, -1).to_numpy(), np.int64)
        return cls(boxes.take(positions), broken[positions], only_null[positions], counts[positions])

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Files without a bound that may have values to bound."""
        return ~self.boxes.known & ~self.broken & ~self.only_null

    def refuted(self, footers: FooterBounds, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Files whose footer contradicts the bound: a larger box, or values where the log has only nulls."""
        missed = misses(self.boxes, footers.stated)
        counted = (footers.null_count >= 0) & (footers.null_count < rows)
        has_values = self.only_null & (counted | footers.stated.known)
        sticks_out = (missed.smaller | missed.rounded) & ~self.only_null
        refuted: NDArray[np.bool_] = (sticks_out | has_values) & ~self.broken
        return refuted

    def loose(self, footers: FooterBounds) -> NDArray[np.bool_]:
        """Files whose box is larger than the footer's by more than 1 %, so that queries read them needlessly."""
        loose: NDArray[np.bool_] = excess(self.boxes, footers.usable) & ~self.broken & ~self.only_null
        return loose

    def settled(self, footers: FooterBounds) -> NDArray[np.bool_]:
        """Files without a bound that, by the footer, have only null or empty geometries, with up-to-date counts."""
        counted = (footers.null_count < 0) | (footers.null_count == self.null_count)
        settled: NDArray[np.bool_] = self.missing & footers.nowhere & counted
        return settled


def box_at(boxes: BoxSides, index: int) -> Box | None:
    """One of many boxes, `None` where there is none.

    >>> box_at(BoxSides({axis: np.array([np.nan]) for axis in AXES}), 0) is None
    True
    """
    sides = [None if math.isnan(side) else side for side in (boxes[axis].item(index) for axis in AXES)]
    return None if None in sides[:4] else Box(*sides)  # type: ignore[arg-type]


def holds(outer: Box, inner: Box, *, may_wrap: bool = False) -> bool:
    """Whether a stored bound holds a box, on every axis that both have; a wrapping box holds nothing unless `may_wrap`.

    >>> holds(Box(-180, 0, 180, 1), Box(170, 0, -170, 1)), holds(Box(0, 0, 1, 1, 0, 1), Box(0, 0, 1, 1, 0, 2))
    (True, False)
    """
    if (outer.wraps and not may_wrap) or not outer.contains(inner):
        return False
    for low, high in (("zmin", "zmax"), ("mmin", "mmax")):
        bottom, top, least, most = getattr(outer, low), getattr(outer, high), getattr(inner, low), getattr(inner, high)
        if bottom is not None and least is not None and not (bottom <= least and most <= top):
            return False
    return True


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
