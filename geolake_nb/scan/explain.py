"""What a filter reads of a table, and why: files and row groups, kept or skipped, each with a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.expressions.binding import BoundSpatial, bind, leaves
from geolake_nb.expressions.filter_input import looks_like_degrees, query_crs, read_filter, spatial_parts
from geolake_nb.expressions.query_window import WhyNoWindow, query_window
from geolake_nb.model.schema import join_path
from geolake_nb.scan.collator import with_versions_of
from geolake_nb.scan.complete_bounds import if_bounds_were_complete
from geolake_nb.scan.engines import engine_facts
from geolake_nb.scan.explanation import Explanation, Level, amounts_by_reason, reason_column
from geolake_nb.scan.file_statistics import known_files
from geolake_nb.scan.prune import PruneResult, prune
from geolake_nb.scan.prune_row_groups import prune_row_groups
from geolake_nb.scan.reason import ScanReason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geolake_nb.expressions.filter_input import FilterInput
    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.model.crs import Crs, CrsLike
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.scan.collator import Collator

__all__ = ["explain"]


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
        notes=tuple(dict.fromkeys([*_degree_notes(query, snapshot), *_notes(predicate, snapshot, pruned)])),
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
