"""What queries would read of a table in another layout, by a sample of its rows: nothing is written.

The sampled rows are partitioned, ordered and cut into files and row groups as a job would do it with all rows. The
boxes and minima of these are those of the sampled rows; boxes grow by what so few rows leave out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.changes.cell_columns import cell_columns
from geolake_nb.changes.clustering import keying
from geolake_nb.errors import SchemaError
from geolake_nb.expressions.binding import BoundSpatial, leaves
from geolake_nb.expressions.projection import Statistics
from geolake_nb.geo.bounds import row_boxes
from geolake_nb.model.cells import Cell, with_crs_of
from geolake_nb.model.schema import join_path
from geolake_nb.model.statistics import BoxColumn, ScalarColumn
from geolake_nb.model.types import GeographyType
from geolake_nb.scan.prune import PruneInput, prune

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from geolake_nb.changes.sampling import Sample
    from geolake_nb.changes.write_job import Packing
    from geolake_nb.expressions.predicate import ColumnPath, Predicate
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Snapshot

__all__ = ["LayoutOption", "LayoutTrials", "TrialResult", "query_columns"]


@dataclass(frozen=True, slots=True)
class LayoutOption:
    """How the rows of a table could be laid out."""

    packing: Packing
    partition_by: tuple[str | Cell, ...] | None = None
    """`None` keeps the partitions of the table."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the rows that it needs."""
        partitions = self.partition_by or ()
        named = [entry.column if isinstance(entry, Cell) else entry for entry in partitions]
        return tuple(dict.fromkeys([*self.packing.cluster_by, *named]))


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What the queries would read."""

    files: int
    share: float
    """The mean share of the bytes that is in files that a query reads."""
    median: float
    group_share: float
    """The same of row groups, for engines that skip these by their bounds and minima."""


def query_columns(predicates: Sequence[Predicate]) -> tuple[dict[ColumnPath, None], dict[ColumnPath, None]]:
    """The geo columns and the plain columns of bound filters."""
    geo: dict[ColumnPath, None] = {}
    plain: dict[ColumnPath, None] = {}
    for predicate in predicates:
        for leaf in leaves(predicate):
            (geo if isinstance(leaf, BoundSpatial) else plain)[leaf.column] = None
    return geo, {path: None for path in plain if path not in geo}


class LayoutTrials:
    """A sample of the rows of a table, and the queries that layouts of them are compared by."""

    def __init__(self, snapshot: Snapshot, sample: Sample, predicates: Sequence[Predicate], *, rows: int) -> None:
        """The sample has the columns of the queries and of all options; the table has so many `rows`."""
        self._schema: Schema = snapshot.schema
        self._location = snapshot.location
        self._sample = sample
        self._predicates = predicates
        self._bytes = float(snapshot.files.table["bytes"].to_numpy().sum())
        self._rows = max(rows, len(sample))
        geo, self._plain = query_columns(predicates)
        self._boxes = {path: self._sides(join_path(path)) for path in geo}

    def measure(self, option: LayoutOption) -> TrialResult:
        """What the queries read of this layout."""
        packing, count = option.packing, len(self._sample)
        ordering = packing.ordering(self._schema)
        partition = self._partitions(option)
        if ordering is None:
            keys: NDArray[Any] = np.arange(count)
        else:
            columns = [self._sample.columns[path] for path in ordering.columns]
            keys = keying(ordering, ordering.types(self._schema), columns).keys(columns)
        order = np.lexsort((keys, partition))
        partition = partition[order]
        size = np.bincount(partition)
        first = np.cumsum(size) - size
        place = np.arange(count) - first[partition]
        files = np.maximum(1, np.ceil(size * self._bytes / count / packing.target_bytes)).astype(np.int64)
        file = place * files[partition] // size[partition] + (np.cumsum(files) - files)[partition]
        starts = np.flatnonzero(np.diff(file, prepend=-1))
        in_file = np.diff(starts, append=count)
        number = np.cumsum(np.diff(file, prepend=-1) != 0) - 1
        groups = np.maximum(1, np.ceil(in_file * self._rows / count / packing.row_group_rows)).astype(np.int64)
        groups = np.minimum(groups, in_file)
        group = (np.arange(count) - starts[number]) * groups[number] // in_file[number]
        group_starts = np.flatnonzero((np.diff(group, prepend=-1) != 0) | (np.diff(number, prepend=-1) != 0))
        shares = self._shares(order, starts)
        return TrialResult(
            files=len(starts),
            share=float(shares.mean()),
            median=float(np.median(shares)),
            group_share=float(self._shares(order, group_starts).mean()),
        )

    def _shares(self, order: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
        """The share of the rows that each query reads of these runs of rows."""
        known = PruneInput(
            Statistics(len(starts), dict(self._box_columns(order, starts)), self._scalars(order, starts))
        )
        rows = np.diff(starts, append=len(order)) / max(1, len(order))
        return np.array([float(rows[prune(query, known).kept].sum()) for query in self._predicates])

    def _partitions(self, option: LayoutOption) -> NDArray[np.int64]:
        """The partition of each row."""
        if option.partition_by is None:
            return self._sample.codes
        codes = np.zeros(len(self._sample), np.int64)
        for entry in option.partition_by:
            values = self._partition_values(entry).dictionary_encode(null_encoding="encode")
            codes = codes * (len(values.dictionary) + 1) + values.indices.to_numpy(zero_copy_only=False)
            codes = np.unique(codes, return_inverse=True)[1].reshape(-1).astype(np.int64)
        return codes

    def _partition_values(self, entry: str | Cell) -> pa.Array:
        if isinstance(entry, str):
            if entry not in {field.name for field in self._schema.fields}:
                remedy = f"use one of: {', '.join(sorted(field.name for field in self._schema.fields))}"
                raise SchemaError(f"no column {entry!r} to partition by", where=self._location, remedy=remedy)
            return self._sample.columns[entry]
        cells = with_crs_of([entry], self._schema, {})
        (column,) = cell_columns(cells, self._schema, where=self._location).values()
        return column.values(self._sample.columns[entry.column])

    def _sides(self, column: str) -> list[NDArray[np.float64]]:
        """The sides of the box of each row, NaN without one; a box across 180 degrees has every longitude."""
        type_: Any = self._schema.find(column).type
        boxes = row_boxes(self._sample.columns[column], type=type_).storage
        sides = [pc.fill_null(side, np.nan).to_numpy(zero_copy_only=False).copy() for side in boxes.flatten()]
        wraps = sides[0] > sides[2]
        sides[0][wraps], sides[2][wraps] = -180.0, 180.0
        return sides

    def _box_columns(
        self, order: NDArray[np.int64], starts: NDArray[np.int64]
    ) -> Iterator[tuple[ColumnPath, BoxColumn]]:
        count = np.diff(starts, append=len(order))
        ends = (np.fmin, np.fmin, np.fmax, np.fmax)
        doublings = np.log2(self._rows / len(self._sample))
        for path, sides in self._boxes.items():
            values = [side[order] for side in sides]
            west, south, east, north = (end.reduceat(side, starts) for side, end in zip(values, ends, strict=True))
            nothing = np.isnan(west)
            for axis, (low, high) in enumerate(((west, east), (south, north))):
                width = high - low
                # So many points of a uniform spread leave out about this much at each end.
                missed = (1.0 - 2.0**-doublings) * width / np.maximum(count - 1, 1)
                for side, sign in ((axis, -1), (axis + 2, 1)):
                    full = low if sign < 0 else high
                    tail = _tail(values[side], full, width, starts, end=ends[side], doublings=doublings)
                    full += sign * np.maximum(missed, tail)
            if isinstance(self._schema.find(join_path(path)).type, GeographyType):
                west, east = (np.clip(side, -180.0, 180.0) for side in (west, east))
                south, north = (np.clip(side, -90.0, 90.0) for side in (south, north))
            yield path, BoxColumn.from_sides(west, south, east, north, only_null_or_empty=nothing)

    def _scalars(self, order: NDArray[np.int64], starts: NDArray[np.int64]) -> Mapping[ColumnPath, ScalarColumn]:
        """The minimum, maximum and nulls of the plain columns in each run of rows."""
        scalars = {}
        for path in self._plain:
            encoded = self._sample.columns[join_path(path)].dictionary_encode()
            sorted_ = pc.sort_indices(encoded.dictionary)
            rank = np.empty(len(sorted_) + 1, np.int64)
            rank[np.asarray(sorted_)] = np.arange(len(sorted_))
            rank[-1] = -1
            null = np.asarray(encoded.is_null())[order]
            ranks = rank[pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)][order]
            most = np.maximum.reduceat(ranks, starts)
            least = np.minimum.reduceat(np.where(null, len(sorted_), ranks), starts)
            values = encoded.dictionary.take(sorted_)
            empty = most < 0
            scalars[path] = ScalarColumn(
                values.take(pa.array(np.where(empty, 0, least), mask=empty)),
                values.take(pa.array(np.maximum(most, 0), mask=empty)),
                pa.array(np.add.reduceat(null.astype(np.int64), starts)),
                pa.array(np.diff(starts, append=len(order))),
            )
        return scalars


def _tail(
    side: NDArray[np.float64],
    full: NDArray[np.float64],
    width: NDArray[np.float64],
    starts: NDArray[np.int64],
    *,
    end: np.ufunc,
    doublings: float,
) -> NDArray[np.float64]:
    """How much farther a side of each box is with all rows, by what it gained when the sample doubled twice."""
    place = np.arange(len(side))
    half, quarter = (end.reduceat(np.where(place % step == 0, side, np.nan), starts) for step in (2, 4))
    last, before = np.abs(full - half), np.abs(half - quarter)
    known = np.isfinite(last) & np.isfinite(before) & (width > 0)
    if not known.any():
        return np.zeros(len(full))
    gained, earlier = float(last[known].sum()), float(before[known].sum())
    # Each doubling of points in a bounded place gains half of what the one before did, of a long tail about as much.
    ratio = min(1.0, max(0.5, gained / earlier)) if earlier > 0 else 0.5
    times = float(
        sum(ratio**number * min(1.0, doublings - number + 1) for number in range(1, math.ceil(doublings) + 1))
    )
    return np.nan_to_num(width * gained / float(width[known].sum()) * times)
