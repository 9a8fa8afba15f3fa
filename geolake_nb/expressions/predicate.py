"""Filters as values: spatial predicates, comparisons, and their combinations."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn

from geolake_nb.errors import CrsError, PredicateError, SchemaError
from geolake_nb.expressions.query_shape import Shape, read_shape, shape_to_sql
from geolake_nb.expressions.sql_text import sql_collation, sql_literal, sql_name
from geolake_nb.model.crs import Crs, CrsForm
from geolake_nb.model.operators import ComparisonOp, Literal, SpatialOp
from geolake_nb.model.schema import join_path, split_path
from geolake_nb.text.messages import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from geolake_nb.model.collation import Collation

__all__ = [
    "MAX_DEPTH",
    "And",
    "ColumnPath",
    "Comparison",
    "ComparisonOp",
    "In",
    "IsNotNull",
    "IsNull",
    "Literal",
    "Not",
    "Or",
    "Predicate",
    "Spatial",
    "SpatialOp",
    "column_path",
    "predicate_parts",
    "st_contains",
    "st_covered_by",
    "st_covers",
    "st_crosses",
    "st_disjoint",
    "st_equals",
    "st_intersects",
    "st_overlaps",
    "st_touches",
    "st_within",
]

MAX_DEPTH = 32
"""How deep AND, OR and NOT may be nested; chains of one operator count once, however long."""

_MAX_BITS = 3_320
"""Of an integer; Python prints no more than some thousand digits."""

ColumnPath = tuple[str, ...]
"""The names from the top of the schema down to a column; a name may contain dots."""


class Predicate:
    """The base of every filter; combine filters with `&`, `|` and `~`."""

    __slots__ = ()

    @property
    def depth(self) -> int:
        """How many levels of AND, OR and NOT the filter has, one for a single comparison."""
        return 1

    def __and__(self, other: Predicate) -> And:
        return And((self, other)) if isinstance(other, Predicate) else NotImplemented

    def __or__(self, other: Predicate) -> Or:
        return Or((self, other)) if isinstance(other, Predicate) else NotImplemented

    def __invert__(self) -> Predicate:
        return Not(self)

    def __bool__(self) -> NoReturn:
        raise TypeError("a filter is neither true nor false; combine filters with &, | and ~")

    def to_dict(self) -> dict[str, Any]:
        """The filter as plain values, in the form of Iceberg's expressions; `t.explain` takes it.

        >>> st_intersects("geom", "POINT (1 2)").to_dict()
        {'type': 'st-intersects', 'term': 'geom', 'value': '0101000000000000000000F03F0000000000000040'}
        """
        from geolake_nb.expressions.predicate_json import predicate_to_json

        return predicate_to_json(self)

    def to_json(self) -> str:
        """The filter as JSON text, in the form of Iceberg's expressions; `t.explain` takes it.

        >>> Comparison.of("id", ">", 5).to_json()
        '{"type": "gt", "term": "id", "value": 5}'
        """
        return json.dumps(self.to_dict(), ensure_ascii=False)

    def evaluate(self, row: Any) -> NoReturn:
        """Refuse: an engine filters rows; this package decides only which files it has to read."""
        raise NotImplementedError(
            f"{shortened(str(self), 200)} is not evaluated on rows here: give this text to an engine, such as Spark "
            f"with df.where(str(predicate)){self._row_hint()}"
        )

    def __call__(self, row: Any) -> NoReturn:
        """The same as `evaluate`."""
        self.evaluate(row)

    def _row_hint(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class And(Predicate):
    """True where every operand is true; nested ANDs are one.

    >>> both = st_intersects("geom", "POINT (1 2)") & IsNotNull(("name",)) & Comparison.of("age", ">", 5)
    >>> len(both.operands)
    3
    >>> print(both)
    ST_Intersects(geom, ST_GeomFromText('POINT (1 2)')) AND name IS NOT NULL AND age > 5
    """

    operands: tuple[Predicate, ...]
    _depth: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _connect(self, "AND")

    @property
    def depth(self) -> int:
        """How many levels of AND, OR and NOT the filter has."""
        return self._depth

    def __str__(self) -> str:
        return " AND ".join(_within(operand, (Or,)) for operand in self.operands)


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """True where some operand is true; nested ORs are one.

    >>> print((IsNull("a") | IsNull("b")) & IsNull("c"))
    (a IS NULL OR b IS NULL) AND c IS NULL
    """

    operands: tuple[Predicate, ...]
    _depth: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _connect(self, "OR")

    @property
    def depth(self) -> int:
        """How many levels of AND, OR and NOT the filter has."""
        return self._depth

    def __str__(self) -> str:
        return " OR ".join(_within(operand, (And,)) for operand in self.operands)


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """True where the operand is false; a null stays a null, and so matches neither way.

    >>> print(~(IsNull("a") & IsNull("b")))
    NOT (a IS NULL AND b IS NULL)
    >>> ~~IsNull("a") == IsNull("a")
    True
    """

    operand: Predicate
    _depth: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_depth", _checked_depth((self.operand,)))

    @property
    def depth(self) -> int:
        """How many levels of AND, OR and NOT the filter has."""
        return self._depth

    def __invert__(self) -> Predicate:
        return self.operand

    def __str__(self) -> str:
        return f"NOT ({self.operand})"


@dataclass(frozen=True, slots=True)
class Comparison(Predicate):
    """A column against a value; without a collation a string compares by the column's own.

    >>> print(Comparison.of("a.b", "<=", 1.5))
    a.b <= 1.5
    >>> print(Comparison.of(("odd.name",), "=", "it's"))
    `odd.name` = 'it''s'
    """

    op: ComparisonOp
    column: ColumnPath
    value: Literal
    collation: Collation | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", column_path(self.column))
        _check_literal(self.value, self.column)
        _check_collation(self.collation, (self.value,), self.column)

    @classmethod
    def of(cls, column: str | ColumnPath, op: str, value: Literal) -> Comparison:
        """The comparison of a column, `a.b` for a nested one, by the operator's sign."""
        return cls(ComparisonOp.parse(op), column_path(column), value)

    def __str__(self) -> str:
        return f"{sql_name(self.column)} {self.op.value} {sql_literal(self.value)}{_collate(self.collation)}"


@dataclass(frozen=True, slots=True)
class In(Predicate):
    """A column against a list of values, which holds no null.

    >>> print(In("kind", ("road", "rail")))
    kind IN ('road', 'rail')
    >>> In("kind", ())
    Traceback (most recent call last):
    geolake_nb.errors.PredicateError: kind: IN has no values; give at least one
    """

    column: ColumnPath
    values: tuple[Literal, ...]
    collation: Collation | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", column_path(self.column))
        object.__setattr__(self, "values", tuple(self.values))
        if not self.values:
            raise PredicateError("IN has no values", where=join_path(self.column), remedy="give at least one")
        for value in self.values:
            _check_literal(value, self.column)
        _check_collation(self.collation, self.values, self.column)

    def __str__(self) -> str:
        # A collation belongs to the column here, because a list cannot have one.
        column = f"{sql_name(self.column)}{_collate(self.collation)}"
        return f"{column} IN ({', '.join(sql_literal(value) for value in self.values)})"


@dataclass(frozen=True, slots=True)
class IsNull(Predicate):
    """True where the column has no value.

    >>> print(IsNull("a.b"), "/", ~IsNull("a"))
    a.b IS NULL / a IS NOT NULL
    """

    column: ColumnPath

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", column_path(self.column))

    def __invert__(self) -> Predicate:
        return IsNotNull(self.column)

    def __str__(self) -> str:
        return f"{sql_name(self.column)} IS NULL"


@dataclass(frozen=True, slots=True)
class IsNotNull(Predicate):
    """True where the column has a value."""

    column: ColumnPath

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", column_path(self.column))

    def __invert__(self) -> Predicate:
        return IsNull(self.column)

    def __str__(self) -> str:
        return f"{sql_name(self.column)} IS NOT NULL"


@dataclass(frozen=True, slots=True)
class Spatial(Predicate):
    """A geometry, geography or raster column against a geometry, which is stored as little-endian ISO WKB.

    Without a CRS the geometry is in that of the column (of a raster column: in OGC:CRS84).

    >>> from geolake_nb.model.box import Box
    >>> print(Spatial.of(SpatialOp.WITHIN, "geom", Box(0, 0, 1, 1), crs="EPSG:4326"))
    ST_Within(geom, ST_MakeEnvelope(0, 0, 1, 1, 4326))
    >>> Spatial.of(SpatialOp.WITHIN, "geom", "POINT EMPTY").evaluate({})
    Traceback (most recent call last):
    NotImplementedError: ST_Within(geom, ST_GeomFromText('POINT EMPTY')) is not evaluated on rows here: give \
this text to an engine, such as Spark with df.where(str(predicate)), or call shapely.within(row, query)
    """

    op: SpatialOp
    column: ColumnPath
    geometry: bytes
    crs: str | None = None

    def __post_init__(self) -> None:
        geometry, crs = read_shape(self.geometry, self.crs)
        if crs is not None:
            try:
                crs = _known_form(Crs.parse(crs)).text
            except CrsError as error:
                raise PredicateError(error.what, where=error.where, remedy=error.remedy) from None
        object.__setattr__(self, "column", column_path(self.column))
        object.__setattr__(self, "geometry", geometry)
        object.__setattr__(self, "crs", crs)

    @classmethod
    def of(cls, op: SpatialOp, column: str | ColumnPath, shape: Shape, *, crs: str | None = None) -> Spatial:
        """The predicate of a shapely geometry, WKB, WKT or a box, which may cross 180 degrees."""
        geometry, crs = read_shape(shape, crs)
        return cls(op, column_path(column), geometry, crs)

    def _row_hint(self) -> str:
        return f", or call shapely.{self.op.name.lower()}(row, query)"

    def __str__(self) -> str:
        return f"{self.op.sql}({sql_name(self.column)}, {shape_to_sql(self.geometry, self.crs)})"


def _known_form(crs: Crs) -> Crs:
    """The CRS, or an error for an invalid name: tables may contain any text, queries are typed."""
    if crs.form is CrsForm.OTHER:
        crs.to_pyproj()
    return crs


def _constructor(op: SpatialOp) -> Callable[..., Spatial]:
    def construct(column: str | ColumnPath, shape: Shape, *, crs: str | None = None) -> Spatial:
        return Spatial.of(op, column, shape, crs=crs)

    construct.__name__ = construct.__qualname__ = op.value.replace("-", "_")
    construct.__doc__ = f"""`{op.sql}`: the shape of a row {_RELATIONS[op]}.

    Args:
        column: the geo column; `a.b` is a nested one.
        shape: a shapely geometry, WKB, WKT or a `Box`.
        crs: the CRS of the shape; by default that of the column.

    Returns:
        A filter for `t.explain`, which `&`, `|` and `~` combine with others.

    Raises:
        PredicateError: a shape or a CRS that cannot be read.

    Example:
        >>> print(gl.{construct.__name__}("geom", "POINT (1 2)"))
        {op.sql}(geom, ST_GeomFromText('POINT (1 2)'))
    """
    return construct


_RELATIONS = {
    SpatialOp.CONTAINS: "contains the given one",
    SpatialOp.COVERED_BY: "has no point outside of the given one",
    SpatialOp.COVERS: "leaves no point of the given one outside",
    SpatialOp.CROSSES: "crosses the given one",
    SpatialOp.EQUALS: "has the same points as the given one",
    SpatialOp.INTERSECTS: "shares a point with the given one",
    SpatialOp.OVERLAPS: "overlaps the given one, and neither covers the other",
    SpatialOp.TOUCHES: "meets the given one at its boundary alone",
    SpatialOp.WITHIN: "lies within the given one",
}


st_contains = _constructor(SpatialOp.CONTAINS)
st_covered_by = _constructor(SpatialOp.COVERED_BY)
st_covers = _constructor(SpatialOp.COVERS)
st_crosses = _constructor(SpatialOp.CROSSES)
st_equals = _constructor(SpatialOp.EQUALS)
st_intersects = _constructor(SpatialOp.INTERSECTS)
st_overlaps = _constructor(SpatialOp.OVERLAPS)
st_touches = _constructor(SpatialOp.TOUCHES)
st_within = _constructor(SpatialOp.WITHIN)


def st_disjoint(column: str | ColumnPath, shape: Shape, *, crs: str | None = None) -> Not:
    """`NOT ST_Intersects`: the shape of a row and the given one share no point.

    Args:
        column: the geo column; `a.b` is a nested one.
        shape: a shapely geometry, WKB, WKT or a `Box`.
        crs: the CRS of the shape; by default that of the column.

    Returns:
        A filter for `t.explain`, which `&`, `|` and `~` combine with others.

    Raises:
        PredicateError: a shape or a CRS that cannot be read.

    Example:
        >>> print(gl.st_disjoint("geom", "POINT (1 2)"))
        NOT (ST_Intersects(geom, ST_GeomFromText('POINT (1 2)')))
    """
    return Not(st_intersects(column, shape, crs=crs))


def column_path(column: str | Iterable[str]) -> ColumnPath:
    """The names of a column's path, from a text such as a.`b.c` or from the names themselves.

    >>> column_path("a.`b.c`"), column_path(["a", "b.c"])
    (('a', 'b.c'), ('a', 'b.c'))
    """
    try:
        path = split_path(column) if isinstance(column, str) else tuple(column)
    except SchemaError as error:
        raise PredicateError(error.what, remedy=error.remedy) from None
    if not path or not all(isinstance(name, str) and name for name in path):
        raise PredicateError(
            f"expected the path of a column, got {column!r}", remedy="write one such as a.b or a.`b.c`"
        )
    return path


def _connect(node: And | Or, name: str) -> None:
    operands: list[Predicate] = []
    for operand in node.operands:
        operands += operand.operands if isinstance(operand, type(node)) else [operand]
    if len(operands) < 2:
        raise PredicateError(f"{name} has fewer than two operands", remedy="use the operand itself")
    object.__setattr__(node, "operands", tuple(operands))
    object.__setattr__(node, "_depth", _checked_depth(operands))


def _checked_depth(operands: Iterable[Predicate]) -> int:
    # Every walk over a filter recurses, so that one which is built can be walked.
    depth = 1 + max(operand.depth for operand in operands)
    if depth > MAX_DEPTH:
        raise PredicateError(f"a filter nests AND, OR and NOT deeper than {MAX_DEPTH}", remedy="write it flatter")
    return depth


def _check_literal(value: Any, column: ColumnPath) -> None:
    where = join_path(column)
    if value is None:
        raise PredicateError("a comparison with NULL is never true", where=where, remedy="use IS NULL")
    if not isinstance(value, Literal):
        kinds = "bool, bytes, date, datetime, Decimal, float, int, str, time"
        raise PredicateError(f"cannot compare with a {type(value).__name__}", where=where, remedy=f"use: {kinds}")
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        raise PredicateError("a string contains a lone surrogate", where=where, remedy="use valid Unicode")
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise PredicateError("an integer has too many digits", where=where, remedy="use one of less than a thousand")
    # A signalling NaN cannot be converted to a float.
    is_nan = isinstance(value, Decimal) and value.is_nan()
    if isinstance(value, (float, Decimal)) and (is_nan or not math.isfinite(value)):
        raise PredicateError(f"cannot compare with {value}", where=where, remedy="use a finite number")


def _check_collation(collation: Collation | None, values: tuple[Literal, ...], column: ColumnPath) -> None:
    if collation is not None and not all(isinstance(value, str) for value in values):
        raise PredicateError("only strings have a collation", where=join_path(column), remedy="leave it out")


def _within(operand: Predicate, weaker: tuple[type[Predicate], ...]) -> str:
    return f"({operand})" if isinstance(operand, weaker) else str(operand)


def _collate(collation: Collation | None) -> str:
    return "" if collation is None else f" COLLATE {sql_collation(collation)}"


def predicate_parts(predicate: Predicate) -> Iterator[Predicate]:
    """What AND, OR and NOT combine in a filter, in order.

    >>> from geolake_nb.expressions.predicate_sql import parse_predicate
    >>> [str(part) for part in predicate_parts(parse_predicate("NOT (a = 1 OR b = 2) AND c > 3"))]
    ['a = 1', 'b = 2', 'c > 3']
    """
    if isinstance(predicate, Not):
        yield from predicate_parts(predicate.operand)
    elif isinstance(predicate, And | Or):
        for operand in predicate.operands:
            yield from predicate_parts(operand)
    else:
        yield predicate
