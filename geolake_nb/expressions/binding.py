"""Filters bound to a table: names resolved, types checked, values read as the type of their column."""

from __future__ import annotations

import datetime as dt
import difflib
import re
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from geolake_nb.errors import NoGeoColumnError, PredicateError, SchemaError
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
    predicate_parts,
)
from geolake_nb.expressions.query_shape import shape_to_sql
from geolake_nb.expressions.sql_text import (
    read_time,
    read_timestamp,
    require_micros,
    sql_collation,
    sql_literal,
    sql_name,
)
from geolake_nb.model.crs import CRS84, Crs
from geolake_nb.model.schema import Schema, join_path, type_name
from geolake_nb.model.types import (
    DataType,
    Field,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    PrimitiveType,
    RasterType,
    StringType,
)
from geolake_nb.text.messages import near_names, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from geolake_nb.model.collation import Collation
    from geolake_nb.model.operators import ComparisonOp, Literal, SpatialOp

__all__ = ["BoundComparison", "BoundIn", "BoundIsNull", "BoundSpatial", "GeoType", "Leaf", "bind", "leaves"]

GeoType = GeometryType | GeographyType | RasterType
"""The column types of a spatial predicate."""

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class BoundSpatial(Predicate):
    """A spatial predicate on a geometry, geography or raster column; `crs` is that of the query."""

    op: SpatialOp
    column: ColumnPath
    type: GeoType
    geometry: bytes
    crs: Crs

    def __str__(self) -> str:
        # Not by way of `Spatial`: the CRS of a column may be any text, that of a query may not.
        return f"{self.op.sql}({sql_name(self.column)}, {shape_to_sql(self.geometry, self.crs.text)})"


@dataclass(frozen=True, slots=True)
class BoundComparison(Predicate):
    """A comparison whose value has the column's type; `collation` is the one in force, `None` for bytes."""

    op: ComparisonOp
    column: ColumnPath
    type: DataType
    value: Literal
    collation: Collation | None = None

    def __str__(self) -> str:
        suffix = "" if self.collation is None else f" COLLATE {sql_collation(self.collation)}"
        return f"{sql_name(self.column)} {self.op.value} {sql_literal(self.value)}{suffix}"


@dataclass(frozen=True, slots=True)
class BoundIn(Predicate):
    """A list of values that have the column's type; `collation` is the one in force, `None` for bytes."""

    column: ColumnPath
    type: DataType
    values: tuple[Literal, ...]
    collation: Collation | None = None

    def __str__(self) -> str:
        return str(In(self.column, self.values, self.collation))


@dataclass(frozen=True, slots=True)
class BoundIsNull(Predicate):
    """A null check of an existing column."""

    column: ColumnPath
    type: DataType

    def __str__(self) -> str:
        return f"{sql_name(self.column)} IS NULL"


def bind(predicate: Predicate, schema: Schema) -> Predicate:
    """The same filter with each leaf bound to its column; names match in any case where that is unambiguous.

    >>> from geolake_nb.expressions.predicate import st_within
    >>> from geolake_nb.model.types import StructType
    >>> table = Schema(StructType((Field("geom", GeometryType()), Field("day", PrimitiveType("date")))))
    >>> print(bind(Comparison.of("DAY", ">", "2024-01-31"), table))
    day > DATE '2024-01-31'
    >>> bind(st_within("goem", "POINT EMPTY"), table)
    Traceback (most recent call last):
    geolake_nb.errors.PredicateError: no column 'goem'; use one of: geom
    >>> bind(st_within("day", "POINT EMPTY"), table)
    Traceback (most recent call last):
    geolake_nb.errors.NoGeoColumnError: day: ST_Within needs a geometry, geography or raster, and this is a \
date; use one of: geom
    """
    if isinstance(predicate, (And, Or)):
        return type(predicate)(tuple(bind(operand, schema) for operand in predicate.operands))
    if isinstance(predicate, Not):
        return ~bind(predicate.operand, schema)
    if isinstance(predicate, Spatial):
        return _bind_spatial(predicate, schema)
    if isinstance(predicate, (IsNull, IsNotNull)):
        path, field = _resolve(predicate.column, schema, _anything)
        bound = BoundIsNull(path, field.type)
        return bound if isinstance(predicate, IsNull) else Not(bound)
    if isinstance(predicate, Comparison):
        path, field = _resolve(predicate.column, schema, _comparable)
        value = _as_type(predicate.value, field.type, path)
        return BoundComparison(predicate.op, path, field.type, value, _in_force(predicate.collation, field.type))
    if isinstance(predicate, In):
        path, field = _resolve(predicate.column, schema, _comparable)
        values = tuple(_as_type(value, field.type, path) for value in predicate.values)
        return BoundIn(path, field.type, values, _in_force(predicate.collation, field.type))
    return predicate


def _bind_spatial(predicate: Spatial, schema: Schema) -> BoundSpatial:
    path, field = _resolve(predicate.column, schema, _geo)
    where = join_path(path)
    if not isinstance(field.type, GeoType):
        what = f"{predicate.op.sql} needs a geometry, geography or raster, and this is a {type_name(field.type)}"
        raise NoGeoColumnError(what, where=where, remedy=_choices(where, schema, _geo))
    # Havasu, Raster bounds: those of a raster are in WGS 84, whatever the CRS of its cells.
    crs = CRS84 if isinstance(field.type, RasterType) else field.type.crs
    if predicate.crs is not None:
        crs = Crs.parse(predicate.crs)
    return BoundSpatial(predicate.op, path, field.type, predicate.geometry, crs)


def _in_force(collation: Collation | None, type_: DataType) -> Collation | None:
    if collation is None and isinstance(type_, StringType):
        collation = type_.collation
    return None if collation is None or collation.is_default else collation


def _resolve(column: ColumnPath, schema: Schema, wanted: Callable[[DataType], bool]) -> tuple[ColumnPath, Field]:
    try:
        chain = [schema.find(join_path(column[: depth + 1])) for depth in range(len(column))]
    except SchemaError:
        # A filter may name a column with dots in its name without quotes.
        for top in schema.fields:
            if len(column) > 1 and top.name == ".".join(column):
                return (top.name,), top
        name = join_path(column)
        raise PredicateError(f"no column {name!r}", remedy=_choices(name, schema, wanted)) from None
    for parent in chain[:-1]:
        if isinstance(parent.type, (ListType, MapType)):
            kind = "list" if isinstance(parent.type, ListType) else "map"
            what = f"this is inside the {kind} {parent.name!r}, which has many values in a row"
            raise PredicateError(what, where=join_path(column), remedy=_choices(column[-1], schema, wanted))
    return tuple(field.name for field in chain), chain[-1]


def _choices(name: str, schema: Schema, wanted: Callable[[DataType], bool]) -> str:
    types = {path: field.type for path, field in _outside_lists(schema)}
    paths = [path for path, type_ in types.items() if wanted(type_)]
    nearest = next(iter(near_names(name, types, 1)), None)
    if nearest is not None and nearest != name and nearest not in paths:
        return f"did you mean {nearest}? This condition cannot test its type, {type_name(types[nearest])}"
    if not paths:
        return "this table has no column of such a type"
    folded = {path.casefold(): path for path in reversed(paths[:1000])}
    near = [folded[match] for match in difflib.get_close_matches(name.casefold(), folded, n=_SHOWN, cutoff=0.5)]
    shown = [*near, *sorted(set(paths) - set(near))]
    return f"use one of: {', '.join(shown[:_SHOWN])}{', ...' if len(shown) > _SHOWN else ''}"


def _outside_lists(schema: Schema) -> Iterable[tuple[str, Field]]:
    inside: set[ColumnPath] = set()
    for parts, field in schema.walk_parts():
        if parts[:-1] in inside or isinstance(field.type, (ListType, MapType)):
            inside.add(parts)
        if parts[:-1] not in inside:
            yield join_path(parts), field


def _anything(_type: DataType) -> bool:
    return True


def _geo(type_: DataType) -> bool:
    return isinstance(type_, GeoType)


def _comparable(type_: DataType) -> bool:
    return _reader(type_) is not None


def _as_type(value: Literal, type_: DataType, path: ColumnPath) -> Literal:
    where = join_path(path)
    if isinstance(type_, GeoType):
        what = f"a {type_name(type_)} has no order"
        raise PredicateError(what, where=where, remedy="use ST_Equals or IS NULL")
    reader = _reader(type_)
    if reader is None:
        raise PredicateError(f"a {type_name(type_)} cannot be compared", where=where, remedy="use IS NULL")
    read, wants = reader
    try:
        result = read(value)
    except PredicateError:
        raise
    except ValueError:
        result = None
    if result is None:
        what = f"a {type_name(type_)} cannot be compared with {shortened(sql_literal(value), 60)}"
        raise PredicateError(what, where=where, remedy=f"use {wants}")
    return result


_Reader = tuple["Callable[[Literal], Literal | None]", str]


def _reader(type_: DataType) -> _Reader | None:
    """How a literal becomes a value of the type, and what to use where it cannot; `None` for no order."""
    if isinstance(type_, StringType):
        return _read_text, "a string"
    if not isinstance(type_, PrimitiveType):
        return None
    name = re.sub(r"\(.*|_(ms|ns|int96)$", "", type_.name)
    return _READERS.get(re.sub(r"^u?(int|float)\d+$", r"\1", name))


def _read_text(value: Literal) -> Literal | None:
    return value if isinstance(value, str) else None


def _read_bytes(value: Literal) -> Literal | None:
    return value if isinstance(value, bytes) else None


def _read_boolean(value: Literal) -> Literal | None:
    return value if isinstance(value, bool) else None


def _read_number(value: Literal) -> Literal | None:
    return value if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) else None


def _read_integer(value: Literal) -> Literal | None:
    number = _read_number(value)
    if isinstance(number, float) and abs(number) >= 2.0**53:
        return number  # engines compare as doubles, which represent more than one integer here
    return int(number) if isinstance(number, (float, Decimal)) and number == int(number) else number


def _read_date(value: Literal) -> Literal | None:
    if isinstance(value, str):
        return dt.date.fromisoformat(value.strip())
    return value if isinstance(value, dt.date) else None


def _read_timestamp(value: Literal) -> Literal | None:
    if isinstance(value, str):
        return read_timestamp(value)
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return dt.datetime.combine(value, dt.time())
    return require_micros(value) if isinstance(value, dt.datetime) else None


def _read_time(value: Literal) -> Literal | None:
    if isinstance(value, str):
        return read_time(value)
    return value if isinstance(value, dt.time) else None


def _read_uuid(value: Literal) -> Literal | None:
    return str(uuid.UUID(value)) if isinstance(value, str) else None


_READERS: dict[str, _Reader] = {
    "binary": (_read_bytes, "bytes such as X'00'"),
    "boolean": (_read_boolean, "TRUE or FALSE"),
    "date": (_read_date, "a date such as DATE '2024-01-31'"),
    "decimal": (_read_number, "a number"),
    "enum": (_read_text, "a string"),
    "fixed": (_read_bytes, "bytes such as X'00'"),
    "float": (_read_number, "a number"),
    "int": (_read_integer, "a number"),
    "json": (_read_text, "a string"),
    "time": (_read_time, "a time such as TIME '12:30:00'"),
    "timestamp": (_read_timestamp, "a time such as TIMESTAMP '2024-01-31 12:30:00'"),
    "timestamptz": (_read_timestamp, "a time such as TIMESTAMP '2024-01-31 12:30:00+00:00'"),
    "timetz": (_read_time, "a time such as TIME '12:30:00'"),
    "uuid": (_read_uuid, "a string such as 'f79c3e09-677c-4bbd-a479-3f349cb785e7'"),
}


Leaf = BoundSpatial | BoundComparison | BoundIn | BoundIsNull


def leaves(predicate: Predicate) -> Iterator[Leaf]:
    """The comparisons and spatial predicates that a bound filter is made of."""
    return (part for part in predicate_parts(predicate) if isinstance(part, Leaf))
