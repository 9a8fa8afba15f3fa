"""Filters as JSON, in the form of Iceberg's expressions (REST catalogs, scan reports).

`and`, `or`, `not`, the comparisons and the null checks are Iceberg's. Spatial predicates have the form that
PyIceberg's model gives them: `{"type": "st-intersects", "term": "geom", "value": ...}`.

No release fixes how the geometry is spelled: PyIceberg keeps raw bytes in the model, which its own JSON
encoder cannot write, and Iceberg Java has no such predicate yet. We write WKB as Iceberg writes every binary
value in JSON, as upper-case hexadecimal digits (Iceberg spec, JSON single-value serialization). We read
digits of any case, base64, and WKT, which is how that section spells a geometry.

Two keys are ours: `crs` of a spatial predicate and `collation` of a comparison. A value that JSON has no type
for is an Iceberg literal object with one more key, `{"type": "literal", "value": "2024-01-31", "data-type":
"date"}`, so that it comes back as what it was.
"""

from __future__ import annotations

import base64
import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from geolake_nb.errors import GeolakeError, PredicateError
from geolake_nb.expressions.predicate import (
    And,
    ColumnPath,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Not,
    Or,
    Predicate,
    Spatial,
    column_path,
    st_disjoint,
)
from geolake_nb.expressions.query_shape import read_shape
from geolake_nb.expressions.sql_text import read_time, read_timestamp
from geolake_nb.model.collation import Collation
from geolake_nb.model.crs import Crs
from geolake_nb.model.operators import ComparisonOp, Literal, SpatialOp
from geolake_nb.model.schema import join_path
from geolake_nb.text.json_text import check_depth, load_json
from geolake_nb.text.messages import shortened

__all__ = ["predicate_from_json", "predicate_to_json"]

_COMPARISONS = {
    ComparisonOp.EQ: "eq",
    ComparisonOp.GE: "gt-eq",
    ComparisonOp.GT: "gt",
    ComparisonOp.LE: "lt-eq",
    ComparisonOp.LT: "lt",
    ComparisonOp.NE: "not-eq",
}
_COMPARISONS_BY_NAME = {name: op for op, name in _COMPARISONS.items()}
_TYPES = sorted([
    *_COMPARISONS_BY_NAME, "and", "in", "is-null", "not", "not-in", "not-null", "or", "st-disjoint",
    *(op.value for op in SpatialOp),
])  # fmt: skip
_HEX = re.compile(r"0[01](?:[0-9A-Fa-f]{2})+")


def predicate_to_json(predicate: Predicate) -> dict[str, Any]:
    """The filter as an object for `json.dumps`.

    >>> from geolake_nb.expressions.predicate import st_intersects
    >>> predicate_to_json(st_intersects("geom", "POINT (1 2)"))
    {'type': 'st-intersects', 'term': 'geom', 'value': '0101000000000000000000F03F0000000000000040'}
    >>> predicate_to_json(~IsNull("a.b") & Comparison.of("n", "<", 5))["left"]
    {'type': 'not-null', 'term': 'a.b'}
    """
    if isinstance(predicate, (And, Or)):
        return _connected("and" if isinstance(predicate, And) else "or", predicate.operands)
    if isinstance(predicate, Not):
        return {"type": "not", "child": predicate_to_json(predicate.operand)}
    if isinstance(predicate, (IsNull, IsNotNull)):
        name = "is-null" if isinstance(predicate, IsNull) else "not-null"
        return {"type": name, "term": join_path(predicate.column)}
    if isinstance(predicate, Comparison):
        node = {"type": _COMPARISONS[predicate.op], "term": join_path(predicate.column)}
        return _with_collation({**node, "value": _value_to_json(predicate.value)}, predicate.collation)
    if isinstance(predicate, In):
        values = [_value_to_json(value) for value in predicate.values]
        node = {"type": "in", "term": join_path(predicate.column)}
        return _with_collation({**node, "values": values}, predicate.collation)
    if isinstance(predicate, Spatial):
        value = predicate.geometry.hex().upper()
        node = {"type": predicate.op.value, "term": join_path(predicate.column), "value": value}
        return node if predicate.crs is None else {**node, "crs": predicate.crs}
    raise PredicateError(f"a {type(predicate).__name__} has no JSON form", remedy="give an unbound filter")


def predicate_from_json(value: str | bytes | Mapping[str, Any]) -> Predicate:
    """The filter of a JSON text or of an object that was read from one.

    >>> print(predicate_from_json('{"type": "gt-eq", "term": "a.b", "value": 1}'))
    a.b >= 1
    >>> predicate_from_json('{"type": "starts-with", "term": "a", "value": "b"}')
    Traceback (most recent call last):
    geolake_nb.errors.PredicateError: a filter of the type 'starts-with' is not supported; use one of: and, \
eq, gt, gt-eq, in, is-null, lt, lt-eq, not, not-eq, not-in, not-null, or, st-contains, st-covered-by, \
st-covers, st-crosses, st-disjoint, st-equals, st-intersects, st-overlaps, st-touches, st-within
    """
    if isinstance(value, (str, bytes)):
        value = load_json(value, what="the filter", error=PredicateError)
    else:
        check_depth(value, what="the filter", error=PredicateError)
    return _read(value)


def _connected(name: str, operands: Sequence[Predicate]) -> dict[str, Any]:
    # Halves keep a long chain shallow; reading joins it again.
    middle = len(operands) // 2
    left, right = (
        predicate_to_json(half[0]) if len(half) == 1 else _connected(name, half)
        for half in (operands[:middle], operands[middle:])
    )
    return {"type": name, "left": left, "right": right}


def _with_collation(node: dict[str, Any], collation: Collation | None) -> dict[str, Any]:
    return node if collation is None else {**node, "collation": str(collation)}


def _read(node: Any) -> Predicate:
    if not isinstance(node, Mapping):
        raise PredicateError(f"expected a filter, got {_clip(node)}", remedy="use an object with a type")
    name = _type(node)
    if name is None:
        what = f"unknown filter type {_clip(node.get('type'))}"
        raise PredicateError(what, remedy=f"use one of: {', '.join(_TYPES)}")
    if name in {"and", "or"}:
        # A chain that was nested operand by operand can be long, though not deep by our count.
        return (And if name == "and" else Or)(tuple(_read(child) for child in _chain(node, name)))
    if name == "not":
        return ~_read(_get(node, "child"))
    if name in {"is-null", "not-null"}:
        return (IsNull if name == "is-null" else IsNotNull)(_term(node))
    if name in {"in", "not-in"}:
        values = _get(node, "values")
        if not isinstance(values, list):
            raise PredicateError(f"expected a list of values, got {_clip(values)}", where=name)
        predicate = In(_term(node), tuple(_value_from_json(value) for value in values), _collation(node))
        return predicate if name == "in" else Not(predicate)
    if name in _COMPARISONS_BY_NAME:
        value = _value_from_json(_get(node, "value"))
        return Comparison(_COMPARISONS_BY_NAME[name], _term(node), value, _collation(node))
    if name == "st-disjoint":
        return st_disjoint(_term(node), _shape(node), crs=_crs(node))
    if name in {op.value for op in SpatialOp}:
        return Spatial.of(SpatialOp(name), _term(node), _shape(node), crs=_crs(node))
    what = f"a filter of the type {_clip(name)} is not supported"
    raise PredicateError(what, remedy=f"use one of: {', '.join(_TYPES)}")


def _type(node: Any) -> str | None:
    """The type of a filter in the spelling that we write, `None` for anything else."""
    name = node.get("type") if isinstance(node, Mapping) else None
    return name.lower().replace("_", "-") if isinstance(name, str) else None


def _chain(node: Mapping[str, Any], name: str) -> list[Any]:
    children: list[Any] = []
    stack: list[Any] = [node]
    while stack:
        top = stack.pop()
        if _type(top) == name:
            stack += [_get(top, "right"), _get(top, "left")]
        else:
            children.append(top)
    return children


def _get(node: Mapping[str, Any], key: str) -> Any:
    if key not in node:
        raise PredicateError(f"a filter of the type {node.get('type')!r} has no {key!r}", remedy="add it")
    return node[key]


def _text(node: Mapping[str, Any], key: str) -> str | None:
    value = node.get(key)
    if value is not None and not isinstance(value, str):
        raise PredicateError(f"expected a string, got {_clip(value)}", where=key)
    return value


def _crs(node: Mapping[str, Any]) -> str | None:
    text, (_, own) = _text(node, "crs"), read_shape(_shape(node))
    if text is not None and own is not None and not Crs(own).same_as(Crs(text)):
        raise PredicateError(
            f"the geometry of the filter has {own}, and its crs is {_clip(text)}", remedy="leave one of them out"
        )
    return text


def _term(node: Mapping[str, Any]) -> ColumnPath:
    term = _get(node, "term")
    if isinstance(term, Mapping) and term.get("type") == "reference":
        term = term.get("term")
    if not isinstance(term, str):
        raise PredicateError(f"the term {_clip(term)} is not supported", remedy="use the name of a column")
    return column_path(term)


def _collation(node: Mapping[str, Any]) -> Collation | None:
    text = _text(node, "collation")
    try:
        return None if text is None else Collation.parse(text)
    except GeolakeError as error:
        raise PredicateError(error.what, remedy=error.remedy) from None


def _shape(node: Mapping[str, Any]) -> str | bytes:
    value = _get(node, "value")
    if isinstance(value, Mapping) and value.get("type") == "literal":
        value = value.get("value")
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        if "(" in value or value.rstrip().upper().endswith("EMPTY"):
            return value
        # Every WKB starts with the byte 0 or 1, which distinguishes its digits from base64.
        if _HEX.fullmatch(value):
            return bytes.fromhex(value)
        try:
            return base64.b64decode(value, validate=True)
        except ValueError:  # of digits, and of letters beyond ASCII
            pass
    remedy = "use WKB as hexadecimal digits or base64, or WKT"
    raise PredicateError(f"expected a geometry, got {_clip(value)}", remedy=remedy)


_Typed = tuple[str, type, Callable[[Any], str], Callable[[str], Literal]]
# The texts are those of Iceberg's JSON single-value serialization. A datetime is a date too, and comes first.
_TYPED: tuple[_Typed, ...] = (
    ("binary", bytes, lambda value: value.hex().upper(), bytes.fromhex),
    ("decimal", Decimal, str, Decimal),
    ("timestamp", dt.datetime, dt.datetime.isoformat, read_timestamp),
    ("date", dt.date, dt.date.isoformat, dt.date.fromisoformat),
    ("time", dt.time, dt.time.isoformat, read_time),
)


def _value_to_json(value: Literal) -> Any:
    for name, kind, write, _ in _TYPED:
        if isinstance(value, kind):
            return {"type": "literal", "value": write(value), "data-type": name}
    return value


def _value_from_json(value: Any) -> Any:
    if not isinstance(value, Mapping):
        if isinstance(value, list):
            raise PredicateError(f"expected a value to compare with, got {_clip(value)}", remedy="use a single one")
        return value
    if value.get("type") != "literal" or "value" not in value:
        raise PredicateError(f"expected a literal, got {_clip(value)}", remedy='use {"type": "literal", "value": ...}')
    inner, wanted = value["value"], value.get("data-type")
    for name, _, _, read in _TYPED:
        if name == wanted and isinstance(inner, str):
            try:
                return read(inner)
            except PredicateError:
                raise
            except (ValueError, InvalidOperation):
                raise PredicateError(f"expected a {name}, got {_clip(inner)}") from None
    return _value_from_json(inner)


def _clip(value: Any) -> str:
    try:
        return shortened(repr(value), 60)
    except ValueError:  # Python prints no integer of more than some thousand digits
        return f"a {type(value).__name__} of too many digits"
