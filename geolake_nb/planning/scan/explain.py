"""What a filter reads of a table, and why: files and row groups, kept or skipped, each with a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.core.box import Box
from geolake_nb.core.predicate import ColumnPath, Predicate, Spatial, SpatialOp, column_path
from geolake_nb.core.predicate_binding import BoundSpatial, bind
from geolake_nb.core.predicate_sql import parse_predicate
from geolake_nb.core.query_window import WhyNoWindow, query_window
from geolake_nb.core.schema import join_path
from geolake_nb.core.types import StructType
from geolake_nb.errors import PredicateError
from geolake_nb.formats.iceberg.details import IcebergDetails
from geolake_nb.formats.snapshot import TableFormat
from geolake_nb.planning.engines import engine_facts
from geolake_nb.planning.scan.collator import with_versions_of
from geolake_nb.planning.scan.complete_bounds import if_bounds_were_complete
from geolake_nb.planning.scan.explanation import Explanation, Level, amounts_by_reason, reason_column
from geolake_nb.planning.scan.file_pruning import Judgement, judge, leaves
from geolake_nb.planning.scan.file_statistics import known_files
from geolake_nb.planning.scan.reason import ScanReason
from geolake_nb.planning.scan.row_group_pruning import judge_row_groups

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geolake_nb.formats.snapshot import Snapshot
    from geolake_nb.planning.scan.collator import Collator

__all__ = ["explain"]


def explain(
    snapshot: Snapshot,
    where: str | Predicate | Box,
    *,
    row_groups: pa.Table | None = None,
    column: str | None = None,
    collator: Collator | None = None,
) -> Explanation:
    """Which files, and row groups where their table is given, a filter reads, each with its reason.

    `where` is the text of a WHERE clause, a predicate, or a box: then rows are asked for that meet the box, in
    the CRS of the only geo column or of `column`. Nothing that may hold a matching row is ever skipped.

    `row_groups` has `path, row_group, rows, bytes`, and `c.xmin c.ymin c.xmax c.ymax` and, if there,
    `c.null_count` and `c.types` for geo columns `c`.

    `collator` compares strings that have a collation, by its own version of it where the filter names none. Without
    one their statistics skip nothing.

    >>> from geolake_nb.core.schema import Schema
    >>> from geolake_nb.core.types import Field, GeometryType
    >>> from geolake_nb.formats.file_table import BoundSource, FileTable, GeoStatsColumns, sides_of
    >>> from geolake_nb.formats.snapshot import Protocol, Snapshot
    >>> stats = GeoStatsColumns(sides_of([Box(0, 0, 2, 2), Box(5, 5, 6, 6), None]), source=BoundSource.LOG)
    >>> files = FileTable.of(path=pa.array(["a", "b", "c"]), bytes=pa.array([10, 20, 30]),
    ...     rows=pa.array([1, 2, 3]), geo={"geom": stats})
    >>> schema = Schema(StructType((Field("geom", GeometryType()),)))
    >>> table = Snapshot(TableFormat.DELTA, "/t", 0, None, schema, Protocol("reader 3, writer 7"), files)
    >>> found = explain(table, Box(1, 1, 3, 3))
    >>> found.files["reason"].to_pylist()
    ['overlaps', 'outside_window', 'no_bounds']
    >>> found.read.files, found.total.files, found.read.bytes
    (2, 3, 40)
    >>> explain(table, "NOT geom IS NULL").skipped.num_rows
    0
    """
    asked = _predicate(where, snapshot, column)
    predicate = bind(asked, snapshot.schema)
    if collator is not None:
        predicate = with_versions_of(predicate, collator)
    known = known_files(snapshot, predicate, collator=collator)
    judged = judge(predicate, known)
    groups = None
    if row_groups is not None:
        groups = _group_table(row_groups, judge_row_groups(predicate, snapshot, known, judged, row_groups))
    amounts = amounts_by_reason(snapshot.files.table, judged)
    return Explanation(
        where=asked,
        snapshot=snapshot,
        judgement=judged,
        problems=_problem_columns(predicate, snapshot),
        amounts=amounts,
        levels=_levels(snapshot, judged, groups),
        if_complete=if_bounds_were_complete(predicate, snapshot, known, amounts, row_groups),
        engines=engine_facts(snapshot),
        notes=tuple(dict.fromkeys(_notes(predicate, snapshot, judged))),
        row_groups=groups,
    )


def _predicate(where: str | Predicate | Box, snapshot: Snapshot, column: str | None) -> Predicate:
    if not isinstance(where, Box):
        if column is not None:
            raise PredicateError("a column is named beside a whole filter", remedy="name it in the filter")
        if isinstance(where, str):
            return parse_predicate(where)
        if isinstance(where, Predicate):
            return where
        raise PredicateError(f"a {type(where).__name__} is no filter", remedy="give one of: Box, predicate, SQL text")
    if column is not None:
        return Spatial.of(SpatialOp.INTERSECTS, column_path(column), where)
    candidates = _geo_columns(snapshot)
    if not candidates:
        raise PredicateError("the table has no geo column that a box could filter", where=snapshot.location)
    if len(candidates) > 1:
        names = ", ".join(sorted(join_path(one) for one in candidates))
        what = "a box does not say which geo column it is for"
        raise PredicateError(what, where=snapshot.location, remedy=f"give column=, one of: {names}")
    return Spatial.of(SpatialOp.INTERSECTS, candidates[0], where)


def _geo_columns(snapshot: Snapshot) -> list[ColumnPath]:
    """The geo columns that have one value a row, so not those inside lists and maps."""
    paths = [column_path(path) for path, _ in snapshot.schema.geo_columns()]
    return [path for path in paths if all(_is_struct(snapshot, path[:end]) for end in range(1, len(path)))]


def _is_struct(snapshot: Snapshot, path: ColumnPath) -> bool:
    return isinstance(snapshot.schema.find(join_path(path)).type, StructType)


def _problem_columns(predicate: Predicate, snapshot: Snapshot) -> tuple[str, ...]:
    columns = dict.fromkeys(leaf.column for leaf in leaves(predicate) if isinstance(leaf, BoundSpatial))
    names = [join_path(column) for column in columns]
    return tuple(f"{name}.problem" for name in names if name in snapshot.files.geo_columns)


def _group_table(table: pa.Table, judged: Judgement) -> pa.Table:
    columns = {name: table[name] for name in ("path", "row_group", "rows", "bytes")}
    return pa.table({**columns, "kept": judged.kept, "reason": reason_column(judged.reasons)})


def _levels(snapshot: Snapshot, judged: Judgement, groups: pa.Table | None) -> tuple[Level, ...]:
    kept = judged.kept
    levels = [Level("table", int(kept.any()), 1), *_manifest_level(snapshot, judged)]
    levels.append(Level("file", int(kept.sum()), len(kept)))
    if groups is not None:
        levels.append(Level("row group", int(pc.sum(groups["kept"]).as_py() or 0), groups.num_rows))
    return tuple(levels)


def _manifest_level(snapshot: Snapshot, judged: Judgement) -> Iterator[Level]:
    """The manifests that hold a file to read; nothing for a format whose files name none."""
    table = snapshot.files.table
    if "manifest" not in table.column_names:
        return
    manifests = table["manifest"]
    hit = len(pc.unique(manifests.filter(pa.array(judged.kept)).drop_null()))
    if isinstance(snapshot.details, IcebergDetails):
        total = pc.sum(pc.invert(snapshot.details.manifests["is_deletes"])).as_py() or 0
    else:
        total = len(pc.unique(manifests.drop_null()))
    yield Level("manifest", hit, total)


def _notes(predicate: Predicate, snapshot: Snapshot, judged: Judgement) -> Iterator[str]:
    for leaf in leaves(predicate):
        window = query_window(leaf) if isinstance(leaf, BoundSpatial) else None
        if isinstance(window, WhyNoWindow):
            yield window.reason
    if snapshot.format is TableFormat.DELTA and judged.among(ScanReason.WRAPPED).any():
        # Specs, Wrapped boxes in Delta: its readers compare boxes as planes.
        yield "wrapped boxes make other readers of Delta skip the file and lose rows: x has to be [-180, 180]"
