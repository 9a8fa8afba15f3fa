"""Which row groups a filter can match, by their own boxes and by what is known of their files."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.core.box_column import BoxColumn
from geolake_nb.core.predicate_binding import BoundSpatial
from geolake_nb.core.projection import CollatedColumn, Statistics, Verdict
from geolake_nb.core.scalar_column import ScalarColumn
from geolake_nb.core.schema import join_path
from geolake_nb.formats.file_table import has_column
from geolake_nb.planning.scan.file_pruning import Judgement, KnownParts, judge, leaves
from geolake_nb.planning.scan.file_statistics import whole, why_no_box
from geolake_nb.planning.scan.reason import ScanReason

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from geolake_nb.core.predicate import ColumnPath, Predicate
    from geolake_nb.formats.snapshot import Snapshot

__all__ = ["judge_row_groups", "with_row_group_boxes"]


def judge_row_groups(
    predicate: Predicate, snapshot: Snapshot, known: KnownParts, judged: Judgement, table: pa.Table
) -> Judgement:
    """The row groups: what holds for a file holds for each of its row groups, and their boxes say more."""
    places = _file_of(snapshot, table)
    found = places >= 0
    index = pa.array(np.where(found, places, 0), mask=~found)
    of_files = known.statistics
    no_bounds = np.int8(ScanReason.NO_BOUNDS.code)
    why: dict[ColumnPath, Any] = {
        path: reasons if isinstance(reasons, ScanReason) else _pick(reasons, places, no_bounds)
        for path, reasons in known.why_missing.items()
    }
    boxes: dict[ColumnPath, BoxColumn] = {}
    for leaf in leaves(predicate):
        path, name = leaf.column, join_path(leaf.column)
        if isinstance(leaf, BoundSpatial) and path not in boxes:
            own = _group_boxes(table, name)
            boxes[path] = _better(own, of_files.boxes.get(path), places)
            if own is not None:
                why[path] = why_no_box(table, name, boxes[path], why.get(path, ScanReason.NO_BOUNDS))
    scalars = {path: _taken(column, index) for path, column in of_files.scalars.items()}
    collated = {
        key: _pick(reasons, places, np.int8(ScanReason.NO_COLLATED_STATISTICS.code))
        for key, reasons in known.why_not_collated.items()
    }
    of_collated = {
        key: CollatedColumn(_taken(one.column, index), one.sort_key) for key, one in of_files.collated.items()
    }
    statistics = Statistics(table.num_rows, boxes, scalars, of_collated)
    groups = judge(predicate, KnownParts(statistics, why, collated, known.partitions))
    skipped = ~_pick(judged.kept, places, np.bool_(True))
    return Judgement(
        np.where(skipped, np.int8(Verdict.CANNOT_MATCH), groups.verdicts),
        np.where(skipped, np.int8(ScanReason.FILE_SKIPPED.code), groups.reasons),
    )


def _pick(values: NDArray[Any], places: NDArray[np.int64], otherwise: Any) -> NDArray[Any]:
    """The value at each place, and another for the place -1."""
    picked = np.full(len(places), otherwise, values.dtype)
    found = places >= 0
    picked[found] = values[places[found]]
    return picked


def _file_of(snapshot: Snapshot, row_groups: pa.Table) -> NDArray[np.int64]:
    """The place of each row group's file, -1 for one that the table does not list."""
    paths = whole(snapshot.files.table["path"])
    found = pc.index_in(whole(row_groups["path"]).cast(pa.string()), value_set=paths)
    places: NDArray[np.int64] = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return places


def _group_boxes(table: pa.Table, name: str) -> BoxColumn | None:
    sides = [f"{name}.{axis}" for axis in ("xmin", "ymin", "xmax", "ymax")]
    if not all(has_column(table, side) for side in sides):
        return None
    blank = np.zeros(table.num_rows, np.bool_)
    if has_column(table, f"{name}.null_count"):
        blank = pc.fill_null(pc.equal(table[f"{name}.null_count"], table["rows"]), False).to_numpy()
    return BoxColumn.from_sides(*(table[side].to_numpy() for side in sides), only_null_or_empty=blank)


def _better(own: BoxColumn | None, others: BoxColumn | None, places: NDArray[np.int64]) -> BoxColumn:
    """Its own box where there is one, else that at its place among the others."""
    nothing = np.full(len(places), np.nan)
    own = own or BoxColumn.from_sides(nothing, nothing, nothing, nothing)
    if others is None:
        return own
    take = ~own.known & (places >= 0)
    pairs = zip(_sides(own), _sides(others), strict=True)
    sides = [np.where(take, _pick(other, places, np.nan), side) for side, other in pairs]
    known = np.where(take, _pick(others.known, places, np.bool_(False)), own.known)
    blank = own.only_null_or_empty | _pick(others.only_null_or_empty, places, np.bool_(False))
    return _boxes(sides, known, blank)


def _boxes(sides: list[NDArray[np.float64]], known: NDArray[np.bool_], blank: NDArray[np.bool_]) -> BoxColumn:
    xmin, ymin, xmax, ymax = sides
    return BoxColumn(xmin, ymin, xmax, ymax, known, blank)


def _sides(boxes: BoxColumn) -> tuple[NDArray[np.float64], ...]:
    return boxes.xmin, boxes.ymin, boxes.xmax, boxes.ymax


def _taken(column: ScalarColumn, index: pa.Array) -> ScalarColumn:
    """The bounds of each row group's file. Counts serve only to say none or all, which holds for parts too."""
    arrays = (column.minimum, column.maximum, column.null_count, column.row_count, column.nan_count)
    low, high, nulls, rows, nans = (None if one is None else one.take(index) for one in arrays)
    return ScalarColumn(low, high, nulls, rows, nans, truncated=column.truncated)


def with_row_group_boxes(
    predicate: Predicate, snapshot: Snapshot, known: KnownParts, row_groups: pa.Table
) -> KnownParts:
    """The files with the boxes that their row groups add up to, where they have none themselves."""
    places = _file_of(snapshot, row_groups)
    boxes = dict(known.statistics.boxes)
    for leaf in leaves(predicate):
        if not isinstance(leaf, BoundSpatial):
            continue
        groups = _group_boxes(row_groups, join_path(leaf.column))
        if groups is not None:
            summed = _summed(groups, places, len(snapshot.files))
            boxes[leaf.column] = _better(boxes.get(leaf.column), summed, np.arange(len(snapshot.files)))
    return replace(known, statistics=replace(known.statistics, boxes=boxes))


def _summed(groups: BoxColumn, places: NDArray[np.int64], count: int) -> BoxColumn:
    placed = (places >= 0) & ~groups.only_null_or_empty
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
        join.at(side, places[use], values[use])
    known = np.zeros(count, np.bool_)
    known[places[use]] = True
    known[places[placed & ~groups.known]] = False
    listed = np.zeros(count, np.bool_)
    listed[places[places >= 0]] = True
    occupied = np.zeros(count, np.bool_)
    occupied[places[placed]] = True
    return _boxes(sides, known, listed & ~occupied)
