"""Which row groups a filter can match, by their own boxes and by what is known of their files."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.expressions.binding import BoundSpatial, leaves
from geolake_nb.expressions.projection import CollatedColumn, Statistics, Verdict
from geolake_nb.model.box_column import BoxColumn
from geolake_nb.model.file_table import has_column
from geolake_nb.model.scalar_column import ScalarColumn
from geolake_nb.model.schema import join_path
from geolake_nb.scan.file_statistics import whole, why_no_box
from geolake_nb.scan.prune import PruneInput, PruneResult, prune
from geolake_nb.scan.reason import ScanReason

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geolake_nb.expressions.predicate import ColumnPath, Predicate
    from geolake_nb.model.snapshot import Snapshot

__all__ = ["prune_row_groups", "with_row_group_boxes"]


def prune_row_groups(
    predicate: Predicate,
    snapshot: Snapshot,
    known: PruneInput,
    pruned: PruneResult,
    table: pa.Table,
    *,
    files: NDArray[np.int64] | None = None,
) -> PruneResult:
    """The row groups: what holds for a file holds for each of its row groups, and their boxes add to it.

    `files` has the row of each row group's file in the file table, if the caller knows it.
    """
    indices = _file_of(snapshot, table) if files is None else files
    matched = indices >= 0
    index = pa.array(np.where(matched, indices, 0), mask=~matched)
    of_files = known.statistics
    no_bounds = np.int8(ScanReason.NO_BOUNDS.code)
    why: dict[ColumnPath, Any] = {
        path: reasons if isinstance(reasons, ScanReason) else _pick(reasons, indices, no_bounds)
        for path, reasons in known.why_missing.items()
    }
    boxes: dict[ColumnPath, BoxColumn] = {}
    for leaf in leaves(predicate):
        path, name = leaf.column, join_path(leaf.column)
        if isinstance(leaf, BoundSpatial) and path not in boxes:
            own = _group_boxes(table, name)
            boxes[path] = _better(own, of_files.boxes.get(path), indices)
            if own is not None:
                why[path] = why_no_box(table, name, boxes[path], why.get(path, ScanReason.NO_BOUNDS))
    scalars = {path: _taken(column, index) for path, column in of_files.scalars.items()}
    collated = {
        key: _pick(reasons, indices, np.int8(ScanReason.NO_COLLATED_STATISTICS.code))
        for key, reasons in known.why_not_collated.items()
    }
    of_collated = {
        key: CollatedColumn(_taken(of_file.column, index), of_file.sort_key)
        for key, of_file in of_files.collated.items()
    }
    statistics = Statistics(table.num_rows, boxes, scalars, of_collated)
    groups = prune(predicate, PruneInput(statistics, why, collated, known.partitions))
    skipped = ~_pick(pruned.kept, indices, np.bool_(True))
    return PruneResult(
        np.where(skipped, np.int8(Verdict.CANNOT_MATCH), groups.verdicts),
        np.where(skipped, np.int8(ScanReason.FILE_SKIPPED.code), groups.reasons),
    )


def _pick(values: NDArray[Any], indices: NDArray[np.int64], otherwise: Any) -> NDArray[Any]:
    """The value at each index, and `otherwise` for the index -1."""
    picked = np.full(len(indices), otherwise, values.dtype)
    matched = indices >= 0
    picked[matched] = values[indices[matched]]
    return picked


def _file_of(snapshot: Snapshot, row_groups: pa.Table) -> NDArray[np.int64]:
    """The index of each row group's file, -1 for one that the table does not list."""
    paths = whole(snapshot.files.table["path"])
    matched = pc.index_in(whole(row_groups["path"]).cast(pa.string()), value_set=paths)
    indices: NDArray[np.int64] = pc.fill_null(matched, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return indices


def _group_boxes(table: pa.Table, name: str) -> BoxColumn | None:
    sides = [f"{name}.{axis}" for axis in ("xmin", "ymin", "xmax", "ymax")]
    if not all(has_column(table, side) for side in sides):
        return None
    blank = np.zeros(table.num_rows, np.bool_)
    if has_column(table, f"{name}.null_count"):
        blank = pc.fill_null(pc.equal(table[f"{name}.null_count"], table["rows"]), False).to_numpy()
    return BoxColumn.from_sides(*(table[side].to_numpy() for side in sides), only_null_or_empty=blank)


def _better(own: BoxColumn | None, others: BoxColumn | None, indices: NDArray[np.int64]) -> BoxColumn:
    """Its own box where there is one, else that at its index among the others."""
    nothing = np.full(len(indices), np.nan)
    own = own or BoxColumn.from_sides(nothing, nothing, nothing, nothing)
    if others is None:
        return own
    take = ~own.known & (indices >= 0)
    pairs = zip(_sides(own), _sides(others), strict=True)
    sides = [np.where(take, _pick(other, indices, np.nan), side) for side, other in pairs]
    known = np.where(take, _pick(others.known, indices, np.bool_(False)), own.known)
    blank = own.only_null_or_empty | _pick(others.only_null_or_empty, indices, np.bool_(False))
    return _boxes(sides, known, blank)


def _boxes(sides: list[NDArray[np.float64]], known: NDArray[np.bool_], blank: NDArray[np.bool_]) -> BoxColumn:
    xmin, ymin, xmax, ymax = sides
    return BoxColumn(xmin, ymin, xmax, ymax, known, blank)


def _sides(boxes: BoxColumn) -> tuple[NDArray[np.float64], ...]:
    return boxes.xmin, boxes.ymin, boxes.xmax, boxes.ymax


def _taken(column: ScalarColumn, index: pa.Array) -> ScalarColumn:
    """The bounds of each row group's file. Counts are only used as none or all, which holds for parts too."""
    arrays = (column.minimum, column.maximum, column.null_count, column.row_count, column.nan_count)
    low, high, nulls, rows, nans = (None if array is None else array.take(index) for array in arrays)
    return ScalarColumn(low, high, nulls, rows, nans, truncated=column.truncated)


def with_row_group_boxes(
    predicate: Predicate, snapshot: Snapshot, known: PruneInput, row_groups: pa.Table
) -> PruneInput:
    """The files with the boxes that their row groups add up to, where they have none themselves."""
    indices = _file_of(snapshot, row_groups)
    boxes = dict(known.statistics.boxes)
    for leaf in leaves(predicate):
        if not isinstance(leaf, BoundSpatial):
            continue
        groups = _group_boxes(row_groups, join_path(leaf.column))
        if groups is not None:
            summed = _summed(groups, indices, len(snapshot.files))
            boxes[leaf.column] = _better(boxes.get(leaf.column), summed, np.arange(len(snapshot.files)))
    return replace(known, statistics=replace(known.statistics, boxes=boxes))


def _summed(groups: BoxColumn, indices: NDArray[np.int64], count: int) -> BoxColumn:
    placed = (indices >= 0) & ~groups.only_null_or_empty
    use = placed & groups.known
    wraps = groups.xmin > groups.xmax
    sides = [np.full(count, start) for start in (np.inf, np.inf, -np.inf, -np.inf)]
    west, east = np.where(wraps, -180.0, groups.xmin), np.where(wraps, 180.0, groups.xmax)
    for side, values, join in zip(
        sides,
        (west, groups.ymin, east, groups.ymax),
        (np.minimum, np.minimum, np.maximum, np.maximum),
        strict=True,
    ):
        join.at(side, indices[use], values[use])
    known = np.zeros(count, np.bool_)
    known[indices[use]] = True
    known[indices[placed & ~groups.known]] = False
    listed = np.zeros(count, np.bool_)
    listed[indices[indices >= 0]] = True
    occupied = np.zeros(count, np.bool_)
    occupied[indices[placed]] = True
    return _boxes(sides, known, listed & ~occupied)
