"""Filters from SQL text: the condition after WHERE."""

from __future__ import annotations

import datetime as dt
import functools
import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import GeolakeError, PredicateError
from geolake_nb.expressions.predicate import (
    And,
    ColumnPath,
    Comparison,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    Spatial,
)
from geolake_nb.expressions.query_shape import read_shape, srid_to_crs
from geolake_nb.expressions.sql_text import collation_of_name, read_time, read_timestamp
from geolake_nb.model.box import Box
from geolake_nb.model.operators import ComparisonOp, Literal, SpatialOp
from geolake_nb.text.messages import shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from geolake_nb.model.collation import Collation

__all__ = ["MAX_LENGTH", "parse_predicate"]

Node = Any
"""A node of sqlglot's tree, whose base class has another name in each major version."""

MAX_LENGTH = 16 * 1024 * 1024
"""Characters; the outline of a country in full detail has some five million."""

_SUPPORTED = "use AND, BETWEEN, COLLATE, IN, IS NULL, NOT, OR, the comparisons != < <= = > >=, literals, " + ", ".join(
    sorted([*(op.sql for op in SpatialOp), "ST_Disjoint"])
)
_SHAPES = "use a WKT literal, ST_GeomFromText, ST_GeomFromWKB, ST_MakeEnvelope, ST_Point, ST_SetCRS or ST_SetSRID"

# The functions of the engines by their names without underscores.
_FROM_TEXT = frozenset(
    f"ST{kind}FROM{text}" for kind in ("GEOM", "GEOMETRY", "GEOG", "GEOGRAPHY") for text in ("TEXT", "WKT", "EWKT")
)
_FROM_BYTES = frozenset(
    f"ST{kind}FROM{binary}" for kind in ("GEOM", "GEOMETRY", "GEOG", "GEOGRAPHY") for binary in ("WKB", "EWKB")
)
_ENVELOPE = frozenset({"STMAKEENVELOPE", "STPOLYGONFROMENVELOPE"})
_QUERY = re.compile(r"\s*(SELECT|WITH|WHERE)\s", re.IGNORECASE)
_AFTER_WHERE = re.compile(r"\bWHERE\s+(?!.*\bWHERE\s)(.+)", re.IGNORECASE | re.DOTALL)
_POINT = frozenset({"STPOINT", "STMAKEPOINT"})


def parse_predicate(text: str) -> Predicate:
    """The filter of the text of a WHERE clause.

    >>> print(parse_predicate("ST_Within('POINT (1 2)', geom) and not (a.b between 1 and 2)"))
    ST_Contains(geom, ST_GeomFromText('POINT (1 2)')) AND NOT (a.b >= 1 AND a.b <= 2)
    >>> parse_predicate("name LIKE 'a%'")
    Traceback (most recent call last):
    geolake_nb.errors.PredicateError: name LIKE 'a%': this is not supported in a filter; use AND, BETWEEN, \
COLLATE, IN, IS NULL, NOT, OR, the comparisons != < <= = > >=, literals, ST_Contains, ST_CoveredBy, \
ST_Covers, ST_Crosses, ST_Disjoint, ST_Equals, ST_Intersects, ST_Overlaps, ST_Touches, ST_Within
    >>> parse_predicate(" ")
    Traceback (most recent call last):
    geolake_nb.errors.PredicateError: the filter is empty; write one such as age > 5
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    if not text.strip():
        raise PredicateError("the filter is empty", remedy="write one such as age > 5")
    if len(text) > MAX_LENGTH:
        raise PredicateError(f"the filter is longer than {MAX_LENGTH} characters")
    if query := _QUERY.match(text):
        condition = _AFTER_WHERE.search(text)
        remedy = "give what follows WHERE" if condition is None else f"give what follows WHERE: {_clip(condition[1])}"
        what = f"expected a condition, got {query[1].upper()}"
        raise PredicateError(what, where=_clip(text), remedy=f"{remedy}; gl.sql and %geolake sql take whole queries")
    try:
        return _predicate(sqlglot.parse_one(text, into=exp.Condition, dialect=_dialect()))
    except RecursionError:
        raise PredicateError("the filter is nested too deeply", remedy="write it flatter") from None
    except SqlglotError as problem:
        raise PredicateError(f"the filter is not SQL{_position(problem)}", where=_clip(text)) from None


@functools.cache
def _dialect() -> Any:
    """Standard SQL that also takes names in backticks and bytes as X'00', as Spark does."""
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.tokens import Tokenizer as StandardTokenizer

    class GeolakeFilter(Dialect):
        class Tokenizer(StandardTokenizer):
            IDENTIFIERS = ['"', "`"]  # noqa: RUF012
            HEX_STRINGS = [("x'", "'"), ("X'", "'")]  # noqa: RUF012

    return GeolakeFilter


def _refuse_null_in_list(node: Node) -> None:
    """Refuse a null in a list below NOT: such a condition is true for no row."""
    from sqlglot import exp

    for listed in node.find_all(exp.In):
        if any(isinstance(value.unnest(), exp.Null) for value in listed.expressions):
            raise PredicateError("NOT IN with a NULL in its list is never true", remedy="leave the NULL out")


def _predicate(node: Node) -> Predicate:
    from sqlglot import exp

    node = node.unnest()
    if isinstance(node, exp.And):
        return And(tuple(_predicate(operand) for operand in _chain(node, exp.And)))
    if isinstance(node, exp.Or):
        return Or(tuple(_predicate(operand) for operand in _chain(node, exp.Or)))
    if isinstance(node, exp.Not):
        _refuse_null_in_list(node)
        return ~_predicate(node.this)
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return IsNull(_column(node.this))
    if isinstance(node, exp.In) and node.expressions:
        column, collation = _collated(node.this)
        # A null equals nothing: IN is true for what it is true for without it.
        known = [value for value in node.expressions if not isinstance(value.unnest(), exp.Null)]
        return In(_column(column), tuple(_literal(value) for value in known or node.expressions), collation)
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        return And(
            (
                _comparison(ComparisonOp.GE, node.this, node.args["low"]),
                _comparison(ComparisonOp.LE, node.this, node.args["high"]),
            )
        )
    for kind, sign in _SIGNS.items():
        if type(node) is getattr(exp, kind):
            return _comparison(ComparisonOp(sign), node.this, node.expression)
    if isinstance(node, exp.Func):
        return _spatial(node)
    if _is_column(node):
        return Comparison(ComparisonOp.EQ, _column(node), True)
    raise _unsupported(node, _SUPPORTED)


_SIGNS = {"EQ": "=", "NEQ": "!=", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}


def _chain(node: Node, kind: type[Any]) -> list[Node]:
    """The operands of a chain, which the parser nests to the left as deep as it is long."""
    operands: list[Node] = []
    stack = [node]
    while stack:
        top = stack.pop().unnest()
        if isinstance(top, kind):
            stack += [top.args["expression"], top.this]
        else:
            operands.append(top)
    return operands


def _comparison(op: ComparisonOp, left: Node, right: Node) -> Comparison:
    left, collation = _collated(left)
    right, other = _collated(right)
    if not _is_column(left) and (_is_column(right) or not _is_constant(right)):
        left, right, op = right, left, op.converse
    if _is_column(right):
        raise _unsupported(right, "compare a column with a literal, not with another column")
    if collation is not None and other is not None and collation != other:
        raise PredicateError(f"a comparison has the collations {collation} and {other}", remedy="use one of them")
    return Comparison(op, _column(left), _literal(right), collation or other)


def _collated(node: Node) -> tuple[Node, Collation | None]:
    from sqlglot import exp

    node = node.unnest()
    if not isinstance(node, exp.Collate):
        return node, None
    name = node.expression
    parts = name.parts if isinstance(name, (exp.Column, exp.Dot)) else [name]
    try:
        return node.this.unnest(), collation_of_name(".".join(part.name for part in parts))
    except GeolakeError as error:
        raise PredicateError(error.what, where=_sql(node), remedy=error.remedy) from None


def _names(node: Node) -> list[str] | None:
    """The names of a column's path, `None` for anything else."""
    from sqlglot import exp

    node = node.unnest()
    names: list[Node] = []
    while isinstance(node, exp.Dot):
        names.append(node.expression)
        node = node.this
    parts = [*(node.parts if isinstance(node, exp.Column) else [node]), *reversed(names)]
    return [part.name for part in parts] if all(isinstance(part, exp.Identifier) for part in parts) else None


def _is_column(node: Node) -> bool:
    return _names(node) is not None


def _is_constant(node: Node) -> bool:
    from sqlglot import exp

    return isinstance(node.unnest(), (exp.Boolean, exp.Cast, exp.HexString, exp.Literal, exp.Neg, exp.Null))


def _column(node: Node) -> ColumnPath:
    names = _names(node)
    if names is None:
        raise _unsupported(node.unnest(), "name a column here")
    return tuple(names)


def _literal(node: Node) -> Literal:
    from sqlglot import exp

    node = node.unnest()
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else _number(node, str(node.this))
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _number(node, f"-{node.this.this}")
    if isinstance(node, exp.HexString):
        return _bytes(node)
    if isinstance(node, exp.Null):
        raise PredicateError("a comparison with NULL is never true", remedy="use IS NULL")
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
        read = _TYPED.get(node.to.this.name)
        if read is not None:
            try:
                value = read(str(node.this.this).strip())
                return _require_no_rounding(node, value)
            except PredicateError:
                raise
            except (ValueError, InvalidOperation):
                raise PredicateError("this is not a valid value of its type", where=_sql(node)) from None
    raise _unsupported(node, "use a number, a string, TRUE, FALSE, X'00', DATE '...' or TIMESTAMP '...'")


def _require_no_rounding(node: Node, value: Literal) -> Literal:
    """The value, unless a cast changes it, which engines do each in its own way."""
    sizes = [int(size.name) for size in node.to.expressions]
    if isinstance(value, Decimal) and value.is_finite():
        # A cast to DECIMAL without a scale has 0 digits after the point in Spark and 3 in DuckDB; `DECIMAL '1.5'` has
        # the digits that it shows.
        shown = not sizes and "safe" not in node.args
        scale = sizes[1] if len(sizes) > 1 else 0
        if shown or round(value, scale) == value:
            return value
        remedy = "compare with the rounded number itself"
        raise PredicateError(
            "the cast rounds the number, and engines round each in its own way", where=_sql(node), remedy=remedy
        )
    if sizes:
        raise PredicateError("the cast has a precision", where=_sql(node), remedy="leave the precision out")
    return value


def _number(node: Node, text: str) -> int | float | Decimal:
    try:
        if text.lstrip("-").isdigit():
            return int(text)
        number = float(text)
        # Digits that a double cannot hold are kept: a decimal column can.
        exact = Decimal(text)
    except (ValueError, InvalidOperation):
        raise PredicateError("expected a number", where=_sql(node)) from None
    return number if Decimal(repr(number)) == exact else exact


_TYPED: dict[str, Callable[[str], Literal]] = {
    "DATE": dt.date.fromisoformat,
    "DECIMAL": Decimal,
    "DOUBLE": float,
    "TIME": read_time,
    "TIMESTAMP": read_timestamp,
    "TIMESTAMPLTZ": read_timestamp,
    "TIMESTAMPNTZ": read_timestamp,
    "TIMESTAMPTZ": read_timestamp,
}


def _bytes(node: Node) -> bytes:
    try:
        return bytes.fromhex(str(node.this))
    except ValueError:
        raise PredicateError("expected hexadecimal digits", where=_sql(node)) from None


def _call(node: Node) -> tuple[str, list[Node]]:
    """The name of a function in capitals without underscores, and its arguments."""
    from sqlglot import exp

    if isinstance(node, exp.Anonymous):
        return str(node.this).upper().replace("_", ""), list(node.expressions)
    if not isinstance(node, exp.Func):
        return "", []
    arguments: list[Node] = []
    for key in node.arg_types:
        value = node.args.get(key)
        values = value if isinstance(value, list) else [value]
        arguments += [argument for argument in values if isinstance(argument, exp.Condition)]
    return node.sql_name().upper().replace("_", ""), arguments


def _spatial(node: Node) -> Predicate:
    name, arguments = _call(node)
    disjoint = name == "STDISJOINT"
    try:
        op = SpatialOp.INTERSECTS if disjoint else SpatialOp.parse(name)
    except PredicateError:
        raise _unsupported(node, _SUPPORTED) from None
    if len(arguments) != 2:
        raise PredicateError(f"this has {len(arguments)} arguments", where=_sql(node), remedy="give two")
    columns = [_is_column(argument) for argument in arguments]
    if columns.count(True) != 1:
        what = "this relates two columns" if all(columns) else "this has no column"
        raise PredicateError(what, where=_sql(node), remedy="give one column and one geometry")
    column, shape = arguments
    if columns[1]:
        column, shape, op = shape, column, op.converse
    geometry, crs = _shape(shape)
    predicate = Spatial(op, _column(column), geometry, crs)
    return Not(predicate) if disjoint else predicate


def _shape(node: Node) -> tuple[bytes, str | None]:
    from sqlglot import exp

    node = node.unnest()
    if isinstance(node, exp.Literal) and node.is_string:
        return read_shape(str(node.this))
    if isinstance(node, exp.HexString):
        return read_shape(_bytes(node))
    name, arguments = _call(node)
    values = iter(arguments)
    try:
        if name in {"STSETSRID", "STSETCRS"}:
            geometry, _ = _shape(next(values))
            return _finish(node, values, geometry, None, required=True)
        if name in _FROM_TEXT | _FROM_BYTES:
            value = _literal(next(values))
            if name in _FROM_BYTES and isinstance(value, str):
                value = bytes.fromhex(value)
            if isinstance(value, str if name in _FROM_TEXT else bytes):
                return _finish(node, values, *read_shape(value))
        if name in _POINT:
            x, y = _float(next(values)), _float(next(values))
            return _finish(node, values, *read_shape(f"POINT ({x!r} {y!r})"))
        if name in _ENVELOPE:
            sides = [_float(next(values)) for _ in range(4)]
            return _finish(node, values, *read_shape(_envelope(node, sides)))
    except (StopIteration, ValueError) as problem:
        if isinstance(problem, GeolakeError):
            raise
        raise PredicateError("this has the wrong arguments", where=_sql(node), remedy=_SHAPES) from None
    raise _unsupported(node, _SHAPES)


def _finish(
    node: Node,
    rest: Iterator[Node],
    geometry: bytes,
    crs: str | None,
    *,
    required: bool = False,
) -> tuple[bytes, str | None]:
    """The geometry in the CRS that the last argument gives: a number of EPSG, or a text."""
    given = next(rest) if required else next(rest, None)
    if next(rest, None) is not None:
        raise PredicateError("this has too many arguments", where=_sql(node), remedy=_SHAPES)
    if given is None:
        return geometry, crs
    value = _literal(given)
    if isinstance(value, str) and value:
        return geometry, value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return geometry, srid_to_crs(value)
    raise PredicateError("this has no CRS", where=_sql(node), remedy="use one such as 4326 or 'OGC:CRS84'")


def _float(node: Node) -> float:
    value = _literal(node)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise PredicateError("expected a coordinate", where=_sql(node), remedy="use a number")
    try:
        return float(value)
    except OverflowError:
        raise PredicateError(
            "expected a coordinate", where=_sql(node), remedy="use a number in the range of a double"
        ) from None


def _envelope(node: Node, sides: list[float]) -> Box:
    xmin, ymin, xmax, ymax = sides
    if xmin > xmax or ymin > ymax:
        # Engines read this as the polygon between the corners, not as one over the antimeridian.
        remedy = "write the smaller first; over the antimeridian use a MULTIPOLYGON of two parts"
        raise PredicateError("a minimum is larger than its maximum", where=_sql(node), remedy=remedy)
    return Box(xmin, ymin, xmax, ymax)


def _unsupported(node: Node, remedy: str) -> PredicateError:
    return PredicateError("this is not supported in a filter", where=_sql(node), remedy=remedy)


def _sql(node: Node) -> str:
    return _clip(node.sql(dialect=_dialect()))


def _clip(text: str) -> str:
    return shortened(" ".join(text.split()), 80)


def _position(problem: Exception) -> str:
    for error in getattr(problem, "errors", ()):
        if error.get("highlight"):
            return f": did not expect {error['highlight']!r} in line {error['line']}"
    return ""
