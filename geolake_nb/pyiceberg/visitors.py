"""Spatial predicates in PyIceberg's visitors: read from JSON, bound, dispatched, and compared with bounds.

A visitor gets `visit_st_intersects(predicate)` and its siblings, which call `visit_spatial(predicate)` unless it has
one of its own, and `visit_not_spatial(predicate)` for a negation.
"""

from __future__ import annotations

import functools
from types import FunctionType
from typing import TYPE_CHECKING, Any

from pyiceberg import expressions as pe
from pyiceberg.expressions import visitors as pv
from pyiceberg.io import pyarrow as pia

from geolake_nb.errors import BoundError
from geolake_nb.expressions.binding import BoundSpatial
from geolake_nb.expressions.projection import Verdict, verdict
from geolake_nb.geo.bound_codec import from_iceberg_bytes
from geolake_nb.model.crs import Crs
from geolake_nb.model.types import GeographyType
from geolake_nb.pyiceberg import bridge, manifests
from geolake_nb.pyiceberg.bridge import Patch
from geolake_nb.pyiceberg.predicates import PREDICATES, BoundNotST, BoundSTPredicate, NotST
from geolake_nb.pyiceberg.type_text import core_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.manifest import DataFile

__all__ = ["patches"]

_READER = "_geolake_expression"


def _read_st(cls: Any, v: Any, handler: Any) -> Any:
    return _geolake_expression(cls, v, handler)  # type: ignore[name-defined] # noqa: F821 - a global of PyIceberg's module


def _read_predicates() -> Callable[[], None]:
    """Make expressions of JSON objects such as `{"type": "st-intersects", …}`.

    The validator is compiled into every model that holds an expression, so that its code is replaced in place.
    """
    validator = pe.BooleanExpression.handle_primitive_type.__func__
    before = validator.__code__
    original = FunctionType(before, pe.__dict__)

    def read(cls: Any, value: Any, handler: Any) -> Any:
        if isinstance(value, dict) and not isinstance(value, pe.BooleanExpression):
            predicate = PREDICATES.get(str(value.get("type")))
            if predicate is not None:
                return predicate(**value)
        return original(cls, value, handler)

    pe.__dict__[_READER] = read
    validator.__code__ = _read_st.__code__

    def undo() -> None:
        validator.__code__ = before
        del pe.__dict__[_READER]

    return undo


def _dispatch() -> Callable[[], None]:
    """Send spatial predicates to their methods. Without the bridge PyIceberg refuses them, as any unknown class."""
    pv.visit.register(NotST, _visit_not)
    pv.visit_bound_predicate.register(BoundSTPredicate, _visit_bound)
    pv.visit_bound_predicate.register(BoundNotST, _visit_bound_not)
    return lambda: None


def _require_enabled(expression: Any) -> None:
    if not bridge.is_enabled():
        raise TypeError(f"Unknown predicate: {expression}; call geolake_nb.pyiceberg.enable()")


def _visit_not(expression: NotST, visitor: Any) -> Any:
    _require_enabled(expression)
    return visitor.visit_unbound_predicate(expression)


def _visit_bound(expression: BoundSTPredicate, visitor: Any) -> Any:
    _require_enabled(expression)
    return getattr(visitor, _method(expression.op.value))(expression)


def _visit_bound_not(expression: BoundNotST, visitor: Any) -> Any:
    _require_enabled(expression)
    return visitor.visit_not_spatial(~expression)


def _method(name: str) -> str:
    return f"visit_{name.replace('-', '_')}"


def _spatial(self: Any, predicate: BoundSTPredicate) -> Any:
    return self.visit_spatial(predicate)


def _refuse(self: Any, predicate: BoundSTPredicate) -> Any:
    raise NotImplementedError(
        f"{predicate.op.sql} is not evaluated on rows by {type(self).__name__}; "
        "read the rows with geolake_nb.pyiceberg.scan(table, row_filter)"
    )


def _might_match(self: Any, predicate: BoundSTPredicate) -> bool:
    del self, predicate
    return pv.ROWS_MIGHT_MATCH


def _might_not_match(self: Any, predicate: BoundSTPredicate) -> bool:
    del self, predicate
    return pv.ROWS_MIGHT_NOT_MATCH


def _no_plain_format(self: Any, predicate: BoundSTPredicate) -> list[Any]:
    del self, predicate
    return []


def _collect(self: Any, predicate: BoundSTPredicate) -> None:
    self._handle_null_unmentioned(predicate.term)
    self._handle_nan_unmentioned(predicate.term)


_init_metrics = pv._MetricsEvaluationVisitor.__init__
_translate = pv._ColumnNameTranslator.visit_bound_predicate


def _init(self: Any, file: DataFile) -> None:
    _init_metrics(self, file)
    self._geolake_edges = manifests.covers_edges(file)


def _inclusive(self: Any, predicate: BoundSTPredicate) -> bool:
    """Whether a file may hold a match, by its bounds where these are sound."""
    field = predicate.term.ref().field
    id_ = field.field_id
    if self._contains_nulls_only(id_):
        return pv.ROWS_CANNOT_MATCH
    bound = _bound(predicate.op, field.field_type, predicate.geometry, predicate.crs)
    lower, upper = self.lower_bounds.get(id_), self.upper_bounds.get(id_)
    if bound is None or lower is None or upper is None:
        return pv.ROWS_MIGHT_MATCH
    # Many writers bound a geography by its vertices alone, which its edges may leave.
    if isinstance(bound.type, GeographyType) and id_ not in self._geolake_edges:
        return pv.ROWS_MIGHT_MATCH
    try:
        box = from_iceberg_bytes(lower, upper)
    except BoundError:
        return pv.ROWS_MIGHT_MATCH
    return verdict(bound, box) != Verdict.CANNOT_MATCH


def _inclusive_not(self: Any, predicate: BoundSTPredicate) -> bool:
    # A null is neither inside nor outside; otherwise a box says nothing of what lies outside.
    only_nulls = self._contains_nulls_only(predicate.term.ref().field.field_id)
    return pv.ROWS_CANNOT_MATCH if only_nulls else pv.ROWS_MIGHT_MATCH


@functools.lru_cache(maxsize=64)
def _bound(op: Any, type_: Any, geometry: bytes, crs: str | None) -> BoundSpatial | None:
    """The predicate of the core; `None` for a type that the core does not know."""
    core = core_type(type_)
    if core is None:
        return None
    return BoundSpatial(op, ("geom",), core, geometry, core.crs if crs is None else Crs.parse(crs))


def _translated(self: Any, predicate: Any) -> Any:
    if not isinstance(predicate, BoundSTPredicate | BoundNotST):
        return _translate(self, predicate)
    name = self.file_schema.find_column_name(predicate.term.ref().field.field_id)
    # Iceberg, Default values: that of a geometry or geography is null, which no spatial predicate matches.
    return pe.AlwaysFalse() if name is None else predicate.unbound(name)


_BEHAVIOUR: dict[type, tuple[Any, Any]] = {
    pv.BoundBooleanExpressionVisitor: (_refuse, _refuse),
    pv._ManifestEvalVisitor: (_might_match, _might_match),
    pv._InclusiveMetricsEvaluationVisitor: (_inclusive, _inclusive_not),
    pv._StrictMetricsEvaluationVisitor: (_might_not_match, _might_not_match),
    pv.ExpressionToPlainFormat: (_no_plain_format, _no_plain_format),
    pia._NullNaNUnmentionedTermsCollector: (_collect, _collect),
}
"""By the class of a visitor what it does with a predicate, and with a negated one."""


def patches() -> Iterator[Patch | Callable[[], Callable[[], None]]]:
    """JSON, dispatch, and what each visitor does."""
    yield _read_predicates
    yield _dispatch
    for name in PREDICATES:
        yield Patch(pv.BoundBooleanExpressionVisitor, _method(name), _spatial)
    for visitor, (plain, negated) in _BEHAVIOUR.items():
        yield Patch(visitor, "visit_spatial", plain)
        yield Patch(visitor, "visit_not_spatial", negated)
    yield Patch(pv._MetricsEvaluationVisitor, "__init__", _init)
    yield Patch(pv._ColumnNameTranslator, "visit_bound_predicate", _translated)
