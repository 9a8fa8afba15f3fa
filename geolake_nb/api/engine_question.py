"""What every engine is asked for in a comparison: the rows of a filter, in the parts that an engine understands."""

from __future__ import annotations

import datetime as dt
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import GeolakeError
from geolake_nb.expressions.binding import BoundComparison, BoundIn, BoundIsNull, BoundSpatial, leaves
from geolake_nb.expressions.predicate import And, Not, Or, Predicate
from geolake_nb.expressions.sql_text import sql_literal
from geolake_nb.model.operators import ComparisonOp
from geolake_nb.model.types import GeographyType, GeometryType, PrimitiveType, StringType
from geolake_nb.scan.row_comparison import with_types
from geolake_nb.scan.shapely_filter import ShapelyFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from geolake_nb.api.table import Table
    from geolake_nb.scan.file_statistics import Collator

__all__ = ["PlainLeaf", "Question", "SqlPart", "condition_of", "necessary_sql", "sql_identifier"]

PlainLeaf = BoundComparison | BoundIn

_OPERATORS: Mapping[ComparisonOp, Callable[[Any, Any], Any]] = {
    ComparisonOp.EQ: operator.eq,
    ComparisonOp.NE: operator.ne,
    ComparisonOp.LT: operator.lt,
    ComparisonOp.LE: operator.le,
    ComparisonOp.GT: operator.gt,
    ComparisonOp.GE: operator.ge,
}
_SAME_IN_ALL = ("bool", "int", "date")
"""How the names of the types begin whose values all engines compare alike."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """The rows of a table that satisfy a filter."""

    table: Table
    where: Predicate | None
    bound: Predicate | None
    """The same filter with the columns of the table."""
    schema: pa.Schema
    """The columns of the answer."""
    collator: Collator | None = None
    """What compares strings with a collation."""

    @property
    def format(self) -> str:
        """The format of the table as other engines call it."""
        return self.table.snapshot.format.engine_format

    @property
    def shapes(self) -> frozenset[str]:
        """The geo columns of the answer."""
        fields = self.table.schema.fields
        return frozenset(field.name for field in fields if isinstance(field.type, GeometryType | GeographyType))

    @property
    def spatial(self) -> tuple[BoundSpatial, ...]:
        """The spatial conditions that every row of the answer satisfies, so that each may skip."""
        return tuple(part for part in self._parts if isinstance(part, BoundSpatial) and _is_geometry(part))

    @property
    def is_spatial(self) -> bool:
        """Whether there is a spatial condition in the filter."""
        return self.bound is not None and any(isinstance(leaf, BoundSpatial) for leaf in leaves(self.bound))

    @property
    def is_collated(self) -> bool:
        """Whether the filter compares strings with a collation."""
        parts = () if self.bound is None else leaves(self.bound)
        return any(isinstance(leaf, BoundComparison | BoundIn) and leaf.collation is not None for leaf in parts)

    @property
    def plain(self) -> tuple[PlainLeaf, ...]:
        """The same for plain columns, where all engines agree on how values compare."""
        return tuple(
            part for part in self._parts if isinstance(part, BoundComparison | BoundIn) and _same_in_all_engines(part)
        )

    @property
    def _parts(self) -> tuple[Predicate, ...]:
        if self.bound is None:
            return ()
        return self.bound.operands if isinstance(self.bound, And) else (self.bound,)

    def local_files(self) -> list[str]:
        """The paths of the data files.

        Raises:
            GeolakeError: the table is in a store.
        """
        self.require_local()
        key = self.table.snapshot.format.file_key(self.table.snapshot)
        root = self.table._storage.location
        return [f"{root}/{key(path)}" for path in self.table.files.table["path"].to_pylist()]

    def require_local(self) -> None:
        """Raise where the table is in a store: its credentials are not handed to another engine."""
        if not self.table._storage.is_local:
            raise GeolakeError("only tables on the local disk are read by this engine here")

    def filter(self) -> ShapelyFilter | None:
        """A test of every row without any statistics; `None` where all rows are wanted."""
        return None if self.bound is None else ShapelyFilter(self.bound, collator=self.collator)

    def typed(self, answer: pa.Table) -> pa.Table:
        """An engine's answer with the columns and the types of the table.

        Raises:
            GeolakeError: the answer lacks a column of the filter, or has it in another encoding.
        """
        rows = with_types(answer, self.schema)
        exact = self.filter()
        for name in () if exact is None else exact.columns:
            if name not in answer.column_names:
                raise GeolakeError(f"its rows lack the column {name} of the filter")
            if name not in rows.column_names:
                got, wanted = answer.schema.field(name).type, self.schema.field(name).type
                raise GeolakeError(f"it returns the column {name} as {got}, expected {wanted}")
        return rows

    def matching(self, rows: pa.Table) -> int:
        """How many rows satisfy the whole filter: an engine may know only a part of it, and return too many."""
        exact = self.filter()
        if exact is None:
            return int(rows.num_rows)
        return sum(int(exact.keep(batch).sum()) for batch in rows.combine_chunks().to_batches())


def _same_in_all_engines(leaf: PlainLeaf) -> bool:
    """Whether all engines compare alike: not NaN, not collated strings, not decimals with doubles."""
    if len(leaf.column) > 1 or leaf.collation is not None:
        return False
    values = leaf.values if isinstance(leaf, BoundIn) else (leaf.value,)
    if isinstance(leaf.type, StringType):
        return all(isinstance(value, str) for value in values)
    if not isinstance(leaf.type, PrimitiveType):
        return False
    if leaf.type.name == "float64":
        return isinstance(leaf, BoundComparison) and leaf.op in (ComparisonOp.LT, ComparisonOp.LE)
    same = all(isinstance(value, int | dt.date) and not isinstance(value, dt.datetime) for value in values)
    return same and leaf.type.name.startswith(_SAME_IN_ALL)


def necessary_sql(predicate: Predicate | None, spatial: Callable[[BoundSpatial], SqlPart]) -> str | None:
    """What every row of the answer satisfies, in standard SQL; `None` where nothing of the filter can be said.

    Args:
        predicate: a bound filter.
        spatial: a spatial condition in the dialect of an engine.
    """
    part = None if predicate is None else _sql(predicate, spatial)
    return None if part is None else part.text


@dataclass(frozen=True, slots=True)
class SqlPart:
    """A condition in SQL; `exact` unless rows that do not match may satisfy it too."""

    text: str
    exact: bool = True


def _sql(predicate: Predicate, spatial: Callable[[BoundSpatial], SqlPart]) -> SqlPart | None:
    if isinstance(predicate, And | Or):
        parts = [_sql(operand, spatial) for operand in predicate.operands]
        known = [part for part in parts if part is not None]
        # A row need not satisfy the rest of an OR, and all rows may satisfy what cannot be said.
        if not known or (isinstance(predicate, Or) and len(known) < len(parts)):
            return None
        word = " AND " if isinstance(predicate, And) else " OR "
        exact = len(known) == len(parts) and all(part.exact for part in known)
        return SqlPart(word.join(f"({part.text})" for part in known), exact)
    if isinstance(predicate, Not):
        inner = _sql(predicate.operand, spatial)
        return SqlPart(f"NOT ({inner.text})") if inner is not None and inner.exact else None
    if isinstance(predicate, BoundSpatial):
        return spatial(predicate) if _is_geometry(predicate) else None
    if isinstance(predicate, BoundIsNull):
        return SqlPart(f"{sql_identifier(predicate.column[0])} IS NULL") if len(predicate.column) == 1 else None
    if isinstance(predicate, BoundComparison | BoundIn) and _same_in_all_engines(predicate):
        return SqlPart(_leaf_sql(predicate))
    return None


def _leaf_sql(leaf: PlainLeaf) -> str:
    name = sql_identifier(leaf.column[0])
    if isinstance(leaf, BoundIn):
        return f"{name} IN ({', '.join(map(sql_literal, leaf.values))})"
    return f"{name} {'<>' if leaf.op is ComparisonOp.NE else leaf.op.value} {sql_literal(leaf.value)}"


def _is_geometry(leaf: BoundSpatial) -> bool:
    return len(leaf.column) == 1 and isinstance(leaf.type, GeometryType | GeographyType)


def sql_identifier(name: str) -> str:
    """A name in standard SQL.

    >>> print(sql_identifier('a"b'))
    "a""b"
    """
    return '"' + name.replace('"', '""') + '"'


def condition_of(leaf: PlainLeaf, column: Any) -> Any:
    """The condition on a column object with Python's operators and `isin`, such as those of Spark and pyarrow."""
    if isinstance(leaf, BoundIn):
        return column.isin(list(leaf.values))
    return _OPERATORS[leaf.op](column, leaf.value)
