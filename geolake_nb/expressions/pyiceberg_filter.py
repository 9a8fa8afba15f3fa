"""Expressions of PyIceberg as filters; PyIceberg itself is not imported for it."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import PredicateError
from geolake_nb.expressions.predicate import And, Comparison, In, IsNotNull, IsNull, Not, Or, Predicate, Spatial
from geolake_nb.model.operators import ComparisonOp, Literal
from geolake_nb.model.schema import join_path

if TYPE_CHECKING:
    from geolake_nb.expressions.predicate import ColumnPath
    from geolake_nb.model.schema import Schema

__all__ = ["from_pyiceberg", "is_pyiceberg"]

_COMPARISONS = {
    "EqualTo": ComparisonOp.EQ,
    "GreaterThan": ComparisonOp.GT,
    "GreaterThanOrEqual": ComparisonOp.GE,
    "LessThan": ComparisonOp.LT,
    "LessThanOrEqual": ComparisonOp.LE,
    "NotEqualTo": ComparisonOp.NE,
}
_EPOCH = dt.datetime(1970, 1, 1)


def is_pyiceberg(where: Any) -> bool:
    """Whether this is an expression of PyIceberg.

    >>> from pyiceberg.expressions import EqualTo
    >>> is_pyiceberg(EqualTo("id", 1)), is_pyiceberg("id = 1")
    (True, False)
    """
    return _is_a(where, "BooleanExpression")


def from_pyiceberg(expression: Any, schema: Schema) -> Predicate:
    """The filter of an unbound expression.

    A null matches neither a comparison nor its negation, as in a scan of PyIceberg.

    >>> from pyiceberg.expressions import And, EqualTo, StartsWith
    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.types import Field, PrimitiveType, StringType, StructType
    >>> table = Schema(StructType((Field("id", PrimitiveType("int64")), Field("name", StringType()))))
    >>> print(from_pyiceberg(And(EqualTo("id", 1), StartsWith("name", "Zu")), table))
    id = 1 AND name >= 'Zu' AND name < 'Zv'
    """
    name = type(expression).__name__
    if name in ("AlwaysFalse", "AlwaysTrue"):
        first = (schema.fields[0].name,)
        return (And if name == "AlwaysFalse" else Or)((IsNull(first), IsNotNull(first)))
    if name in ("And", "Or"):
        operands = [from_pyiceberg(side, schema) for side in (expression.left, expression.right)]
        return (And if name == "And" else Or)(tuple(operands))
    if _is_a(expression, "Not"):
        return ~from_pyiceberg(expression.child, schema)
    if _is_a(expression, "Bound"):
        raise PredicateError(f"{name} is bound to a schema already", remedy="give the expression before bind()")
    column = _column(expression.term, schema)
    if _is_a(expression, "STPredicate"):
        return Spatial(expression.op, column, expression.geometry, expression.crs)
    if name in ("IsNull", "NotNull"):
        return IsNull(column) if name == "IsNull" else IsNotNull(column)
    if name in _COMPARISONS:
        return Comparison(_COMPARISONS[name], column, _value(expression.literal))
    if name in ("In", "NotIn"):
        values = sorted((_value(literal) for literal in expression.literals), key=repr)
        return In(column, tuple(values)) if name == "In" else Not(In(column, tuple(values)))
    if name in ("StartsWith", "NotStartsWith"):
        prefix = _prefix(column, str(expression.literal.value))
        return prefix if name == "StartsWith" else Not(prefix)
    raise PredicateError(f"{name} is not supported in a filter", where=join_path(column), remedy="test it on the rows")


def _column(term: Any, schema: Schema) -> ColumnPath:
    name = getattr(term, "name", None)
    if not isinstance(name, str):
        raise PredicateError(f"{term} is not the name of a column", remedy="filter by columns, not by transforms")
    if any(field.name == name for field in schema.fields):
        return (name,)
    return tuple(name.split("."))


def _value(literal: Any) -> Literal:
    """A literal of PyIceberg, which keeps times as numbers."""
    kind, value = type(literal).__name__, literal.value
    if kind == "DateLiteral":
        return dt.date.fromordinal(_EPOCH.toordinal() + value)
    if kind == "TimestampLiteral":
        return _EPOCH + dt.timedelta(microseconds=value)
    if kind == "TimeLiteral":
        return (_EPOCH + dt.timedelta(microseconds=value)).time()
    if kind == "UUIDLiteral":
        return str(uuid.UUID(bytes=value))
    plain: Literal = value
    return plain


def _prefix(column: ColumnPath, prefix: str) -> Predicate:
    """Texts that start so, as a range: texts have the order of their code points."""
    low: Predicate = Comparison(ComparisonOp.GE, column, prefix)
    for end in range(len(prefix), 0, -1):
        following = ord(prefix[end - 1]) + 1
        if following == 0xD800:  # surrogates are not characters
            following = 0xE000
        if following <= 0x10FFFF:
            return low & Comparison(ComparisonOp.LT, column, prefix[: end - 1] + chr(following))
    return low


def _is_a(value: Any, name: str) -> bool:
    """Whether a class of that name, of PyIceberg or for it, is among those of the value."""
    return any(base.__name__ == name and "pyiceberg" in base.__module__.split(".") for base in type(value).__mro__)
