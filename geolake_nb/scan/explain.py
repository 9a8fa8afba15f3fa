"""What a filter reads of a table, and why: files and row groups, kept or skipped, each with a reason."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.expressions.binding import BoundSpatial, bind, leaves
from geolake_nb.expressions.filter_input import looks_like_degrees, query_crs, read_filter, spatial_parts
from geolake_nb.expressions.projection import CollatedColumn, Statistics, Verdict
from geolake_nb.expressions.query_window import WhyNoWindow, query_window
from geolake_nb.model.file_table import has_column
from geolake_nb.model.schema import join_path
from geolake_nb.model.statistics import BoxColumn, ScalarColumn
from geolake_nb.scan.cell_filters import cell_filters
from geolake_nb.scan.engines import engine_facts
from geolake_nb.scan.explanation import Amount, Explanation, IfComplete, Level, amounts_by_reason, reason_column
from geolake_nb.scan.file_statistics import known_files, whole, why_no_box, with_versions_of
from geolake_nb.scan.prune import PruneInput, PruneResult, ScanReason, prune

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from geolake_nb.expressions.filter_input import FilterInput
    from geolake_nb.expressions.predicate import ColumnPath, Predicate
    from geolake_nb.model.crs import Crs, CrsLike
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.scan.file_statistics import Collator

__all__ = ["explain", "if_bounds_were_complete", "prune_row_groups", "with_row_group_boxes"]


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


_MISSING = (
    ScanReason.NO_BOUNDS,
    ScanReason.UNUSABLE_BOUNDS,
    ScanReason.NOT_INDEXED,
    ScanReason.NO_STATISTICS,
)
_BY_BOUNDS = (
    ScanReason.OVERLAPS,
    ScanReason.WRAPPED,
    ScanReason.IN_RANGE,
    ScanReason.OUTSIDE_WINDOW,
    ScanReason.TOO_SMALL_TO_HOLD,
    ScanReason.SCALAR_STATISTICS,
)


def if_bounds_were_complete(
    predicate: Predicate,
    snapshot: Snapshot,
    known: PruneInput,
    amounts: Mapping[ScanReason, Amount],
    row_groups: pa.Table | None,
) -> IfComplete:
    """What the filter would read if every file had bounds like those that have some.

    `amounts` is what it reads now. Row groups give their files the bounds that those lack.
    """
    if row_groups is not None and any(reason in amounts for reason in _MISSING):
        pruned = prune(predicate, with_row_group_boxes(predicate, snapshot, known, row_groups))
        amounts = amounts_by_reason(snapshot.files.table, pruned)
    sure = Amount.sum(amount for reason, amount in amounts.items() if reason.kept and reason not in _MISSING)
    if not any(reason in amounts for reason in _MISSING):
        return IfComplete(sure, exact=True, basis="every relevant file has bounds")
    with_bounds = {reason: amount.bytes for reason, amount in amounts.items() if reason in _BY_BOUNDS}
    of_bytes = sum(with_bounds.values())
    if not of_bytes:
        return IfComplete(None, exact=False, basis="unknown: no file has bounds")
    share = sum(size for reason, size in with_bounds.items() if reason.kept) / of_bytes
    guessed = Amount.sum(amount for reason, amount in amounts.items() if reason in _MISSING).part(share)
    basis = f"assumes that files without bounds match like those with bounds: {share:.1%} of the bytes"
    return IfComplete(Amount.sum([sure, guessed]), exact=False, basis=basis)


def explain(
    snapshot: Snapshot,
    where: FilterInput,
    *,
    row_groups: pa.Table | None = None,
    column: str | None = None,
    box_crs: str | Crs | CrsLike | None = None,
    collator: Collator | None = None,
) -> Explanation:
    """Which files, and row groups where their table is given, a filter reads, each with its reason.

    `where` is the text of a WHERE clause, a predicate, or a box or geometry that rows have to intersect. Without a CRS
    of its own, a box or geometry is in `box_crs`, else in the CRS of the only geo column or of `column`. Nothing that
    may hold a matching row is ever skipped.

    `row_groups` has `path, row_group, rows, bytes`, and `c.xmin c.ymin c.xmax c.ymax` and, if there,
    `c.null_count` and `c.types` for geo columns `c`.

    `collator` compares strings that have a collation, by its own version of it where the filter names none. Without
    one their statistics skip nothing.

    >>> from geolake_nb.model.box import Box
    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.types import Field, GeometryType, StructType
    >>> from geolake_nb.model.file_table import BoundSource, FileTable, GeoStatsColumns, sides_of
    >>> from geolake_nb.formats.registry import DELTA
    >>> from geolake_nb.model.snapshot import Protocol, Snapshot
    >>> stats = GeoStatsColumns(sides_of([Box(0, 0, 2, 2), Box(5, 5, 6, 6), None]), source=BoundSource.LOG)
    >>> files = FileTable.of(path=pa.array(["a", "b", "c"]), bytes=pa.array([10, 20, 30]),
    ...     rows=pa.array([1, 2, 3]), geo={"geom": stats})
    >>> schema = Schema(StructType((Field("geom", GeometryType()),)))
    >>> table = Snapshot(DELTA, "/t", 0, None, schema, Protocol("reader 3, writer 7"), files)
    >>> explanation = explain(table, Box(1, 1, 3, 3))
    >>> explanation.files["reason"].to_pylist()
    ['overlaps', 'outside_window', 'no_bounds']
    >>> explanation.read.files, explanation.total.files, explanation.read.bytes
    (2, 3, 40)
    >>> explain(table, "NOT geom IS NULL").skipped.num_rows
    0
    """
    query = read_filter(where, snapshot.schema, column=column, box_crs=box_crs, location=snapshot.location)
    predicate = bind(query, snapshot.schema)
    if collator is not None:
        predicate = with_versions_of(predicate, collator)
    known = known_files(snapshot, predicate, collator=collator)
    pruned = prune(predicate, known)
    groups = None
    if row_groups is not None:
        groups = _group_table(row_groups, prune_row_groups(predicate, snapshot, known, pruned, row_groups))
    amounts = amounts_by_reason(snapshot.files.table, pruned)
    return Explanation(
        where=query,
        snapshot=snapshot,
        pruning=pruned,
        problems=_problem_columns(predicate, snapshot),
        amounts=amounts,
        levels=_levels(snapshot, pruned, groups),
        if_complete=if_bounds_were_complete(predicate, snapshot, known, amounts, row_groups),
        engines=engine_facts(snapshot),
        notes=tuple(
            dict.fromkeys(
                [
                    *_degree_notes(query, snapshot),
                    *map(str, cell_filters(query, snapshot, pruned.kept)),
                    *_notes(predicate, snapshot, pruned),
                ]
            )
        ),
        row_groups=groups,
    )


def _problem_columns(predicate: Predicate, snapshot: Snapshot) -> tuple[str, ...]:
    columns = dict.fromkeys(leaf.column for leaf in leaves(predicate) if isinstance(leaf, BoundSpatial))
    names = [join_path(column) for column in columns]
    return tuple(f"{name}.problem" for name in names if name in snapshot.files.geo_columns)


def _group_table(table: pa.Table, pruned: PruneResult) -> pa.Table:
    columns = {name: table[name] for name in ("path", "row_group", "rows", "bytes")}
    return pa.table({**columns, "kept": pruned.kept, "reason": reason_column(pruned.reasons)})


def _levels(snapshot: Snapshot, pruned: PruneResult, groups: pa.Table | None) -> tuple[Level, ...]:
    kept = pruned.kept
    levels = [Level("table", int(kept.any()), 1), *_manifest_level(snapshot, pruned)]
    levels.append(Level("file", int(kept.sum()), len(kept)))
    if groups is not None:
        levels.append(Level("row group", int(pc.sum(groups["kept"]).as_py() or 0), groups.num_rows))
    return tuple(levels)


def _manifest_level(snapshot: Snapshot, pruned: PruneResult) -> Iterator[Level]:
    """The manifests that hold a file to read; nothing for a format without manifests."""
    table = snapshot.files.table
    if "manifest" not in table.column_names:
        return
    manifests = table["manifest"]
    hit = len(pc.unique(manifests.filter(pa.array(pruned.kept)).drop_null()))
    total = snapshot.format.manifest_count(snapshot)
    yield Level("manifest", hit, len(pc.unique(manifests.drop_null())) if total is None else total)


def _degree_notes(query: Predicate, snapshot: Snapshot) -> Iterator[str]:
    for part in spatial_parts(query):
        if looks_like_degrees(part, snapshot.schema):
            crs = query_crs(part, snapshot.schema)
            name = join_path(part.column)
            yield (
                f"the filter looks like degrees, and {name} is in {crs.text[:60]} ({crs.name}): if it is degrees, give "
                "box_crs='OGC:CRS84', in a shell --box-crs OGC:CRS84, in SQL ST_SetCRS(..., 'OGC:CRS84')"
            )


def _notes(predicate: Predicate, snapshot: Snapshot, pruned: PruneResult) -> Iterator[str]:
    for leaf in leaves(predicate):
        window = query_window(leaf) if isinstance(leaf, BoundSpatial) else None
        if isinstance(window, WhyNoWindow):
            yield window.reason
    if not snapshot.format.wraps_longitude and pruned.among(ScanReason.WRAPPED).any():
        # Specs, Wrapped boxes in Delta: its readers compare boxes on a plane.
        yield "wrapped boxes make other readers of Delta skip the file and lose rows: x has to be [-180, 180]"
