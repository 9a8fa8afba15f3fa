"""Which rows satisfy a filter, by DuckDB and shapely over all rows: nothing of the package takes part.

A filter is a tree: `(column, op, values)` as in `tests.no_row_lost.extreme_values`, a `Geo`, or
`("AND" | "OR" | "NOT", parts)`. A leaf is true, false, or neither for a row, as in SQL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyproj
import shapely

from geolake_nb.expressions.predicate import And, Not, Or, Predicate, Spatial
from geolake_nb.expressions.predicate_sql import parse_predicate
from geolake_nb.model.box import Box
from geolake_nb.model.operators import SpatialOp
from tests.no_row_lost.extreme_values import duckdb_sql, spark_sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["RELATIONS", "FullRead", "Geo", "area", "to_predicate"]

RELATIONS = {op: getattr(shapely, op.name.lower()) for op in SpatialOp}
"""What decides each relation of a row to a query."""


@dataclass(frozen=True)
class Geo:
    """Rows whose geometry lies so to a shape or a box, which is in the CRS of the column if it has none."""

    column: str
    op: SpatialOp
    shape: Any
    crs: str | None = None

    def __str__(self) -> str:
        return str(to_predicate(self))


def to_predicate(node: Any) -> Predicate:
    """The filter as the package takes it; comparisons go through its SQL parser."""
    if isinstance(node, Geo):
        return Spatial.of(node.op, node.column, node.shape, crs=node.crs)
    if len(node) == 2:
        word, parts = node
        operands = tuple(to_predicate(part) for part in parts)
        return Not(operands[0]) if word == "NOT" else {"AND": And, "OR": Or}[word](operands)
    return parse_predicate(spark_sql(node))


def area(box: Box) -> Any:
    """A box as a shape: without an extent it is a point or a line, and with xmin > xmax it runs over 180 degrees."""
    if box.xmin == box.xmax or (box.ymin == box.ymax and box.xmin < box.xmax):
        ends = [(box.xmin, box.ymin), (box.xmax, box.ymax)]
        return shapely.Point(ends[0]) if ends[0] == ends[1] else shapely.LineString(ends)
    if box.xmin <= box.xmax:
        return shapely.box(box.xmin, box.ymin, box.xmax, box.ymax)
    parts = [(box.xmin, 180.0), (-180.0, box.xmax)]
    return shapely.MultiPolygon([shapely.box(west, box.ymin, east, box.ymax) for west, east in parts])


class FullRead:
    """All rows in memory; `id` tells them apart."""

    def __init__(self, rows: pa.Table, crs: Mapping[str, str | None]) -> None:
        self.rows = rows
        self.ids = rows["id"].to_numpy()
        self.crs = crs
        values = {name: np.array(rows[name].to_pylist(), object) for name in crs}
        self.shapes = {name: shapely.force_2d(shapely.from_wkb(column)) for name, column in values.items()}
        self._moved: dict[tuple[str, str], Any] = {}

    def answers(self, filters: Iterable[Any]) -> list[tuple[set[int], set[int]]]:
        """For each filter the ids of the rows that satisfy it, and of those that shapely cannot decide."""
        filters = list(filters)
        leaves = list(dict.fromkeys(duckdb_sql(leaf) for node in filters for leaf in _plain_leaves(node)))
        plain: dict[str, Any] = {}
        with duckdb.connect() as connection:
            connection.sql("SET TimeZone = 'UTC'")
            connection.register("held", self.rows)
            # A table of its own: over Arrow's data DuckDB would leave the comparisons to Arrow. Spark and we compare a
            # float with 0.1 as doubles, DuckDB would round 0.1 to a float.
            floats = [field.name for field in self.rows.schema if field.type == pa.float32()]
            wide = ", ".join(f'CAST("{name}" AS DOUBLE) AS "{name}"' for name in floats)
            connection.sql(f"CREATE TABLE r AS SELECT * {f'REPLACE ({wide})' if wide else ''} FROM held")
            for start in range(0, len(leaves), 100):
                some = leaves[start : start + 100]
                flags = ", ".join(f"({sql}) AS f{number}" for number, sql in enumerate(some))
                answer = connection.sql(f"SELECT id, {flags} FROM r").to_arrow_table().sort_by("id")
                plain |= {sql: answer[f"f{number}"].to_pylist() for number, sql in enumerate(some)}
        places = np.argsort(np.argsort(self.ids))
        plain = {sql: np.array(flags, object)[places] for sql, flags in plain.items()}
        answer = []
        for node in filters:
            true, _, open_ = self._truth(node, plain)
            answer.append((set(self.ids[true & ~open_].tolist()), set(self.ids[open_].tolist())))
        return answer

    def _truth(self, node: Any, plain: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """Where a filter is true, where it is false, and where that is not known."""
        if isinstance(node, Geo):
            return self._spatial(node)
        if len(node) == 3:
            flags = plain[duckdb_sql(node)]
            return flags == True, flags == False, np.zeros(len(flags), bool)  # noqa: E712 - None is neither
        word, parts = node
        (true, false, open_), *rest = [self._truth(part, plain) for part in parts]
        for other_true, other_false, other_open in rest:
            open_ = open_ | other_open
            if word == "AND":
                true, false = true & other_true, false | other_false
            else:
                true, false = true | other_true, false & other_false
        return (false, true, open_) if word == "NOT" else (true, false, open_)

    def _spatial(self, node: Geo) -> tuple[Any, Any, Any]:
        shapes = self.shapes[node.column]
        if node.crs is not None and node.crs != self.crs[node.column]:
            shapes = self._in_crs(node.column, node.crs)
        query = area(node.shape) if isinstance(node.shape, Box) else shapely.force_2d(node.shape)
        present = ~shapely.is_missing(shapes)
        # GEOS answers in one way or another, or not at all, for a vertex that is nowhere.
        broken = present & np.array([_has_nan(shape) for shape in shapes], bool)
        true = np.zeros(len(shapes), bool)
        true[~broken] = RELATIONS[node.op](shapes[~broken], query)
        # Of a shape that is not valid, GEOS may say this or that, as the query is prepared or not.
        prepared = shapely.from_wkb(shapely.to_wkb(query))
        shapely.prepare(prepared)
        doubtful = present & ~broken & ~shapely.is_valid(shapes)
        broken[doubtful] = true[doubtful] != RELATIONS[node.op.converse](prepared, shapes[doubtful])
        return true & present, ~true & present & ~broken, broken

    def _in_crs(self, column: str, crs: str) -> Any:
        if (column, crs) not in self._moved:
            move = pyproj.Transformer.from_crs(self.crs[column], crs, always_xy=True).transform
            shapes = self.shapes[column]
            self._moved[column, crs] = shapely.transform(shapes, lambda xy: np.column_stack(move(*xy.T)))
        return self._moved[column, crs]


def _has_nan(shape: Any) -> bool:
    """Whether a vertex of more than a point is not a number: such a point is an empty one."""
    if shape is None or shape.geom_type == "Point":
        return False
    return bool(np.isnan(shapely.get_coordinates(shape)).any())


def _plain_leaves(node: Any) -> Iterator[Any]:
    if isinstance(node, Geo):
        return
    if len(node) == 3:
        yield node
        return
    for part in node[1]:
        yield from _plain_leaves(part)
