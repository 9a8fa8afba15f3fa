"""Tests each row against a bound filter, so that the answer of a scan equals that of a full scan.

SQL has three truth values: a comparison with null is neither true nor false. A row is kept where the filter is true.
Values compare as in Spark and DuckDB: NaN is greater than any number, and 0.0 equals -0.0.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import PredicateError
from geolake_nb.expressions.binding import BoundComparison, BoundIn, BoundIsNull, BoundSpatial, leaves
from geolake_nb.expressions.predicate import And, Not, Or, Predicate
from geolake_nb.model.operators import ComparisonOp
from geolake_nb.model.schema import join_path
from geolake_nb.scan.spatial_filter import SpatialFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from geolake_nb.expressions.predicate import ColumnPath
    from geolake_nb.model.collation import Collation
    from geolake_nb.model.operators import Literal
    from geolake_nb.scan.file_statistics import Collator

__all__ = ["RowFilter", "RowTest"]

_MICROSECONDS = dt.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, eq=False)
class RowTest:
    """Which rows may be true and which may be false; neither for null, both for what cannot be decided here."""

    true: NDArray[np.bool_]
    false: NDArray[np.bool_]


class RowFilter:
    """A bound filter that is tested on batches of rows.

    >>> from geolake_nb.model.types import PrimitiveType
    >>> over = BoundComparison(ComparisonOp.GT, ("d",), PrimitiveType("float64"), 5)
    >>> RowFilter(over).keep(pa.record_batch({"d": [1.0, 6.0, math.nan, None]})).tolist()
    [False, True, True, False]
    """

    def __init__(self, predicate: Predicate, *, exact: bool = True, collator: Collator | None = None) -> None:
        """Without `exact`, rows that cannot be decided are kept; with it they are an error."""
        self._predicate = predicate
        self._exact = exact
        self._collator = collator
        self._spatial: dict[BoundSpatial, SpatialFilter] = {}
        for leaf in leaves(predicate):
            if isinstance(leaf, BoundSpatial):
                self._spatial.setdefault(leaf, SpatialFilter(leaf, exact=exact))
            elif isinstance(leaf, BoundComparison | BoundIn) and leaf.collation is not None:
                self._require_collation(leaf.collation, leaf.column)

    @property
    def columns(self) -> list[str]:
        """The top-level columns that it reads."""
        return list(dict.fromkeys(leaf.column[0] for leaf in leaves(self._predicate)))

    @property
    def unreadable(self) -> dict[str, int]:
        """How many values of each geo column could not be read, and so did not match."""
        counts: dict[str, int] = {}
        for leaf, spatial in self._spatial.items():
            name = join_path(leaf.column)
            counts[name] = max(counts.get(name, 0), spatial.unreadable)
        return {name: count for name, count in counts.items() if count}

    def keep(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """The rows for which the filter is true."""
        return self._test(self._predicate, batch).true

    def _test(self, predicate: Predicate, batch: pa.RecordBatch) -> RowTest:
        if isinstance(predicate, Not):
            inner = self._test(predicate.operand, batch)
            return RowTest(inner.false, inner.true)
        if isinstance(predicate, And | Or):
            return self._connected(predicate, batch)
        if isinstance(predicate, BoundSpatial):
            return RowTest(*self._spatial[predicate].test(_column(batch, predicate.column)))
        if isinstance(predicate, BoundIsNull):
            null = _flags(pc.is_null(_column(batch, predicate.column)))
            return RowTest(null, ~null)
        if isinstance(predicate, BoundComparison | BoundIn):
            return self._compared(predicate, _column(batch, predicate.column))
        raise PredicateError("the filter is not bound", where=str(predicate), remedy="bind it to the schema first")

    def _connected(self, predicate: And | Or, batch: pa.RecordBatch) -> RowTest:
        """AND and OR: an operand is tested on the rows that those before it leave open, geometries last."""
        is_and = isinstance(predicate, And)
        true, false = np.full(len(batch), is_and), np.full(len(batch), not is_and)
        for operand in sorted(predicate.operands, key=_is_spatial):
            # An AND with a false operand is false, whatever the others are; an OR with a true one is true.
            left = np.flatnonzero(~(false & ~true) if is_and else ~(true & ~false))
            whole = len(left) == len(batch)
            test = self._test(operand, batch if whole else batch.take(pa.array(left)))
            if is_and:
                true[left], false[left] = true[left] & test.true, false[left] | test.false
            else:
                true[left], false[left] = true[left] | test.true, false[left] & test.false
        return RowTest(true, false)

    def _compared(self, predicate: BoundComparison | BoundIn, values: pa.Array) -> RowTest:
        valid = _flags(pc.is_valid(values))
        if predicate.collation is not None:
            ordered = self._collated(predicate, values)
            if ordered is None:
                return RowTest(valid, valid)
            values, literals = ordered
        else:
            literals = predicate.values if isinstance(predicate, BoundIn) else (predicate.value,)
        if isinstance(predicate, BoundComparison):
            true = compare(values, predicate.op, literals[0])
        else:
            true = _is_in(values, literals)
        return RowTest(true & valid, ~true & valid)

    def _collated(
        self, predicate: BoundComparison | BoundIn, values: pa.Array
    ) -> tuple[pa.Array, Sequence[Literal]] | None:
        """Ranks that compare as the strings and the literals do; `None` where nothing here can compare them."""
        collation = predicate.collation
        assert collation is not None
        if self._collator is None or self._collator.version_of(collation) is None:
            return None
        literals = predicate.values if isinstance(predicate, BoundIn) else (predicate.value,)
        texts = pa.concat_arrays([values, pa.array(literals, values.type)]).dictionary_encode()
        ranks = self._collator.ranks({collation: texts.dictionary})[collation]
        ranked = ranks.take(texts.indices)
        return ranked.slice(0, len(values)), ranked.slice(len(values)).to_pylist()

    def _require_collation(self, collation: Collation, column: ColumnPath) -> None:
        usable = self._collator is not None and self._collator.version_of(collation.unversioned()) is not None
        if self._exact and not usable:
            raise PredicateError(
                f"strings of the collation {collation} are compared by Spark, and no session is given or running",
                where=join_path(column),
                remedy="pass spark=gl.session(), or exact=False for the rows that may match",
            )


def _is_spatial(predicate: Predicate) -> bool:
    return any(isinstance(leaf, BoundSpatial) for leaf in leaves(predicate))


def _column(batch: pa.RecordBatch, path: ColumnPath) -> pa.Array:
    """The values at a path, null where a struct around them is null."""
    array = batch.column(batch.schema.get_field_index(path[0]))
    for name in path[1:]:
        array = array.flatten()[array.type.get_field_index(name)]
    return array


def compare(values: pa.Array, op: ComparisonOp, literal: Literal) -> NDArray[np.bool_]:
    """Which values compare so with a literal; false for null.

    >>> compare(pa.array([1, 2, 3], pa.int8()), ComparisonOp.GE, Decimal("1.5")).tolist()
    [False, True, True]
    """
    kind = values.type
    if pa.types.is_floating(kind):
        values = values.cast(pa.float64())
        is_nan = _flags(pc.is_nan(values))
        result = _ordered(values, op, _double(literal))
        above = op in (ComparisonOp.NE, ComparisonOp.GT, ComparisonOp.GE)
        return np.asarray(np.where(is_nan, above, result), np.bool_)
    if pa.types.is_integer(kind):
        return _whole(values, op, literal)
    if pa.types.is_decimal(kind):
        return _decimals(values, op, literal)
    if pa.types.is_date(kind):
        days = values.cast(pa.int32()) if pa.types.is_date32(kind) else values.cast(pa.date32()).cast(pa.int32())
        return _whole(days, op, _days(literal))
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        numbers = values.cast(pa.int64() if kind.bit_width == 64 else pa.int32())
        return _whole(numbers, op, _in_unit(literal, kind))
    if pa.types.is_boolean(kind):
        return _whole(values.cast(pa.int8()), op, int(bool(literal)))
    if pa.types.is_fixed_size_binary(kind):
        if isinstance(literal, str):  # a UUID
            literal = bytes.fromhex(literal.replace("-", ""))
        values = values.cast(pa.binary())
    return _ordered(values, op, literal)


def _is_in(values: pa.Array, literals: Sequence[Literal]) -> NDArray[np.bool_]:
    texts = pa.types.is_string(values.type) or pa.types.is_binary(values.type) or pa.types.is_integer(values.type)
    if texts and all(isinstance(literal, str | bytes | int) for literal in literals):
        kept = [literal for literal in literals if not isinstance(literal, int) or _fits(literal, values.type)]
        return _flags(pc.is_in(values, value_set=pa.array(kept, values.type))) & _flags(pc.is_valid(values))
    equal = [compare(values, ComparisonOp.EQ, literal) for literal in literals]
    return np.asarray(np.logical_or.reduce(equal), np.bool_)


_FUNCTIONS: Mapping[ComparisonOp, Callable[[Any, Any], Any]] = {
    ComparisonOp.EQ: pc.equal,
    ComparisonOp.NE: pc.not_equal,
    ComparisonOp.LT: pc.less,
    ComparisonOp.LE: pc.less_equal,
    ComparisonOp.GT: pc.greater,
    ComparisonOp.GE: pc.greater_equal,
}


def _ordered(values: pa.Array, op: ComparisonOp, literal: Any) -> NDArray[np.bool_]:
    return _flags(_FUNCTIONS[op](values, pa.scalar(literal, values.type)))


def _fits(number: int, kind: pa.DataType) -> bool:
    signed = pa.types.is_signed_integer(kind)
    low = -(2 ** (kind.bit_width - 1)) if signed else 0
    return bool(low <= number <= 2 ** (kind.bit_width - signed) - 1)


def _whole(values: pa.Array, op: ComparisonOp, literal: Literal) -> NDArray[np.bool_]:
    """Integers against any number, exactly; against a double beyond 2**53 as doubles, as engines do."""
    if isinstance(literal, float) and abs(literal) >= 2.0**53:
        return _ordered(values.cast(pa.float64(), safe=False), op, literal)
    assert isinstance(literal, int | float | Decimal)
    low = math.floor(literal)
    if low != literal:
        # No integer equals it, and those above it are those above the integer below it.
        if op in (ComparisonOp.EQ, ComparisonOp.NE):
            return _constant(values, op is ComparisonOp.NE)
        op = ComparisonOp.GT if op in (ComparisonOp.GT, ComparisonOp.GE) else ComparisonOp.LE
    if not _fits(low, values.type):
        above = low > 0
        holds = {ComparisonOp.EQ: False, ComparisonOp.NE: True}.get(op)
        if holds is None:
            holds = above == (op in (ComparisonOp.LT, ComparisonOp.LE))
        return _constant(values, holds)
    return _ordered(values, op, low)


def _decimals(values: pa.Array, op: ComparisonOp, literal: Literal) -> NDArray[np.bool_]:
    """Decimals against any number: against a double as doubles, as Spark and DuckDB do, else exactly."""
    if isinstance(literal, float):
        return _ordered(values.cast(pa.float64()), op, literal)
    assert isinstance(literal, int | Decimal)
    kind = values.type
    # In units of the last digit of the column a literal lies on an integer or between two.
    scaled = Decimal(literal).scaleb(kind.scale) if _short(Decimal(literal)) else None
    if scaled is None or not _short(scaled):
        answer = [None if value is None else _python(value, op, literal) for value in values.to_pylist()]
        return _flags(pa.array(answer, pa.bool_()))
    low = math.floor(scaled)
    if low != scaled:
        if op in (ComparisonOp.EQ, ComparisonOp.NE):
            return _constant(values, op is ComparisonOp.NE)
        op = ComparisonOp.GT if op in (ComparisonOp.GT, ComparisonOp.GE) else ComparisonOp.LE
    if abs(low) >= 10**kind.precision:
        holds = {ComparisonOp.EQ: False, ComparisonOp.NE: True}.get(op)
        if holds is None:
            holds = (low > 0) == (op in (ComparisonOp.LT, ComparisonOp.LE))
        return _constant(values, holds)
    return _ordered(values, op, Decimal(low).scaleb(-kind.scale))


def _short(number: Decimal) -> bool:
    """Whether Python's decimals of 28 digits keep it."""
    return len(number.as_tuple().digits) <= 27 and abs(number.adjusted()) <= 60


def _python(value: Any, op: ComparisonOp, literal: Any) -> bool:
    exact = {
        ComparisonOp.EQ: value == literal,
        ComparisonOp.NE: value != literal,
        ComparisonOp.LT: value < literal,
        ComparisonOp.LE: value <= literal,
        ComparisonOp.GT: value > literal,
        ComparisonOp.GE: value >= literal,
    }
    return bool(exact[op])


def _double(literal: Literal) -> float:
    assert isinstance(literal, int | float | Decimal)
    try:
        return float(literal)
    except OverflowError:
        return math.inf if literal > 0 else -math.inf


def _days(literal: Literal) -> int | Decimal:
    if isinstance(literal, dt.datetime):
        # A date is compared with an instant as its midnight, in UTC.
        moment = literal if literal.tzinfo is None else literal.astimezone(dt.UTC).replace(tzinfo=None)
        micros = (moment - dt.datetime(1970, 1, 1)) // _MICROSECONDS
        return Decimal(micros) / 86_400_000_000
    assert isinstance(literal, dt.date)
    return (literal - dt.date(1970, 1, 1)).days


def _in_unit(literal: Literal, kind: pa.DataType) -> int | Decimal:
    """A time in the unit of a column; a naive time is meant in UTC."""
    if isinstance(literal, dt.datetime):
        moment = literal if literal.tzinfo is None else literal.astimezone(dt.UTC).replace(tzinfo=None)
        micros = (moment - dt.datetime(1970, 1, 1)) // _MICROSECONDS
    else:
        assert isinstance(literal, dt.time)
        micros = ((literal.hour * 60 + literal.minute) * 60 + literal.second) * 10**6 + literal.microsecond
    if kind.unit == "ns":
        return micros * 1000
    return Decimal(micros) / {"us": 1, "ms": 1000, "s": 10**6}[kind.unit]


def _constant(values: pa.Array, holds: bool) -> NDArray[np.bool_]:
    return np.full(len(values), holds, np.bool_) & _flags(pc.is_valid(values))


def _flags(array: Any) -> NDArray[np.bool_]:
    """The array with false for null."""
    filled = pc.fill_null(array, False) if array.null_count else array
    flags: NDArray[np.bool_] = np.asarray(filled.to_numpy(zero_copy_only=False), np.bool_)
    return flags
