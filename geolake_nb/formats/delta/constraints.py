"""What the metadata of a Delta table requires of its rows and files: constraints, generated columns, nulls."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import CorruptTableError, RefusedError, SchemaError
from geolake_nb.formats.delta.protocol import CHAR_VARCHAR, VARCHAR, constraints
from geolake_nb.model.schema import children, join_path
from geolake_nb.model.types import ListType, MapType, StructType
from geolake_nb.parquet.file_columns import descend
from geolake_nb.text.json_text import edited, load_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import Field
    from geolake_nb.text.json_text import JsonPath

__all__ = [
    "bound_columns",
    "names_in",
    "require_rules",
    "require_unused",
    "stricter_rule",
    "with_marks_of",
    "without_marks",
]

_LONGEST = 100_000
_IN_FIELDS = {"delta.generationExpression": "generated column", "delta.invariants": "invariant of the column"}


def require_unused(snapshot: Snapshot, name: str, *, where: str) -> None:
    """Raise if a constraint, a generated column or an invariant of the table uses a column or field of that name."""
    for what, sql in _expressions(snapshot):
        named = names_in(sql)
        if named is None or name.casefold() in named:
            raise RefusedError(f"{what} uses it: {sql[:80]}", where=where, remedy="drop it first")


def _expressions(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    for name, sql in sorted(constraints(snapshot.properties).items()):
        yield f"the constraint {name!r}", sql
    for path, field in snapshot.schema.walk():
        for key, what in _IN_FIELDS.items():
            if key in field.metadata:
                yield f"the {what} {path!r}", str(field.metadata[key])


def names_in(sql: str) -> frozenset[str] | None:
    """The names of columns and fields in an expression, case folded; `None` where it cannot be read.

    >>> sorted(names_in("length(`Geom`) > 0 AND a.b IS NOT NULL"))
    ['a', 'b', 'geom']
    >>> names_in("((") is None
    True
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    if len(sql) > _LONGEST:
        return None
    try:
        tree = sqlglot.parse_one(sql, dialect="spark")
    except (RecursionError, SqlglotError):
        return None
    return frozenset(str(identifier.this).casefold() for identifier in tree.find_all(exp.Identifier))


_MODE = "delta.columnMapping.mode"
_MAX_ID = "delta.columnMapping.maxColumnId"
_PHYSICAL = "delta.columnMapping.physicalName"
_MARK = "delta.identity.highWaterMark"
_TYPE_CHANGES = "delta.typeChanges"
_GENERATION = "delta.generationExpression"
_INVARIANTS = "delta.invariants"
_IDENTITY = ("delta.identity.start", "delta.identity.step", "delta.identity.allowExplicitInsert")
_FIELD_RULES = (_GENERATION, _INVARIANTS, *_IDENTITY)
# Files that were written before such a property was set may not satisfy it.
_SWITCHES = re.compile(r"delta\.(enableRowTracking|enableIceberg\w+)")
_NAMES = re.compile(r"delta\.(rowTracking\.materialized\w+|columnMapping\.mode)")


def stricter_rule(before: Mapping[str, Any], after: Mapping[str, Any], *, where: str | None = None) -> str | None:
    """What the second metadata requires that rows written under the first may not satisfy; `None` if nothing.

    Both are the objects inside `metaData` actions.

    >>> free, bound = (
    ...     {"schemaString": '{"fields":[{"name":"a","type":"long","nullable":%s,"metadata":{}}]}' % text}
    ...     for text in ("true", "false")
    ... )
    >>> stricter_rule(free, bound), stricter_rule(bound, free)
    ("the column 'a' allows no nulls", None)
    """
    return next(_stricter(before, after, where), None)


def with_marks_of(raw: str, old: Mapping[str, Any], now: Mapping[str, Any], *, where: str | None = None) -> str:
    """The JSON `raw` of the `old` metadata with the high-water marks of `now`, which only ever grow.

    Delta, Identity columns: a value is assigned once. Delta, Column mapping: an id is assigned once.
    """
    changes: dict[JsonPath, str | None] = {}
    marks = {_key(field): _metadata(field).get(_MARK) for field in _identities(_schema(now, where))}
    schema = _schema(old, where)
    for field in _identities(schema):
        mark = marks.get(_key(field))
        if mark is not None and _metadata(field).get(_MARK) != mark:
            _metadata(field)[_MARK] = mark
            changes[("schemaString",)] = json.dumps(json.dumps(schema, separators=(",", ":"), ensure_ascii=False))
    restored, used = (_configuration(metadata).get(_MAX_ID) for metadata in (old, now))
    if (
        restored is not None
        and used is not None
        and restored.isdecimal()
        and used.isdecimal()
        and int(restored) < int(used)
    ):
        changes["configuration", _MAX_ID] = json.dumps(used)
    return edited(raw, changes) if changes else raw


def without_marks(metadata: Mapping[str, Any], *, where: str | None = None) -> dict[str, Any]:
    """The metadata without what a writer of rows sets in it: the high-water marks of identity columns."""
    schema = _schema(metadata, where)
    fields = _identities(schema)
    for field in fields:
        _metadata(field).pop(_MARK, None)
    return {**metadata, "schemaString": json.dumps(schema)} if fields else dict(metadata)


def _stricter(before: Mapping[str, Any], after: Mapping[str, Any], where: str | None) -> Iterator[str]:
    yield from _stricter_fields(_schema(before, where), _schema(after, where), ())
    constraints_before = constraints(_configuration(before))
    for name, sql in constraints(_configuration(after)).items():
        if constraints_before.get(name) != sql:
            yield f"the constraint {name!r} requires {sql[:80]}"
    if list(before.get("partitionColumns") or ()) != list(after.get("partitionColumns") or ()):
        yield "the table is partitioned by other columns"
    old, new = _configuration(before), _configuration(after)
    for key, value in sorted(new.items()):
        switched = _SWITCHES.fullmatch(key) and value.lower() == "true" and old.get(key, "").lower() != "true"
        renamed = _NAMES.fullmatch(key) and old.get(key, "none") != value and (key, value) != (_MODE, "name")
        if switched or renamed:
            yield f"the property {key} is {value[:40]}"
    if old.get(_MODE, "none") != "none" and new.get(_MODE, "none") == "none":
        yield f"the property {_MODE} is none"


def _stricter_fields(before: Any, after: Any, path: tuple[str, ...]) -> Iterator[str]:
    old = {_key(field): field for field in _fields(before)}
    for field in _fields(after):
        here = (*path, str(field.get("name")))
        named = f"the column {join_path(here)!r}"
        known = old.get(_key(field))
        rules = _metadata(field)
        if (known is None or known.get("nullable") is not False) and field.get("nullable") is False:
            yield f"{named} allows no nulls"
        for key in _FIELD_RULES:
            if key in rules and rules[key] != _metadata(known or {}).get(key):
                yield f"{named} has the rule {key}"
        if known is None:
            continue
        if CHAR_VARCHAR in rules and not _fits(_metadata(known).get(CHAR_VARCHAR), rules[CHAR_VARCHAR]):
            yield f"{named} is of type {str(rules[CHAR_VARCHAR])[:60]}"
        widened = [change.get("fromType") for change in rules.get(_TYPE_CHANGES) or () if isinstance(change, dict)]
        if known.get("type") not in widened:
            yield from _stricter_type(known.get("type"), field.get("type"), here)


def _stricter_type(before: Any, after: Any, path: tuple[str, ...]) -> Iterator[str]:
    named = f"the column {join_path(path)!r}"
    if not isinstance(before, dict) or not isinstance(after, dict) or before.get("type") != after.get("type"):
        if before != after:
            yield f"{named} is of type {str(after if isinstance(after, str) else (after or {}).get('type'))[:60]}"
        return
    for flag, what in (("containsNull", "elements"), ("valueContainsNull", "values")):
        if before.get(flag) is not False and after.get(flag) is False:
            yield f"{named} allows no null {what}"
    if after.get("type") == "struct":
        yield from _stricter_fields(before, after, path)
    for key, name in (("elementType", "element"), ("keyType", "key"), ("valueType", "value")):
        if key in after:
            yield from _stricter_type(before.get(key), after[key], (*path, name))


def _fits(before: Any, after: Any) -> bool:
    """Whether every text of the first type fits the second."""
    old, new = (VARCHAR.fullmatch(str(type_)) for type_ in (before, after))
    return before == after or (old is not None and new is not None and int(old[1]) <= int(new[1]))


def _identities(schema: Any) -> list[dict[str, Any]]:
    """The identity columns, which are top-level ones only."""
    return [field for field in _fields(schema) if _IDENTITY[0] in _metadata(field)]


def _schema(metadata: Mapping[str, Any], where: str | None) -> Any:
    return load_json(str(metadata.get("schemaString")), what="the schema", where=where, error=CorruptTableError)


def _fields(node: Any) -> list[dict[str, Any]]:
    fields = node.get("fields") if isinstance(node, dict) else None
    return [field for field in fields if isinstance(field, dict)] if isinstance(fields, list) else []


def _metadata(field: Mapping[str, Any]) -> dict[str, Any]:
    metadata = field.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _key(field: Mapping[str, Any]) -> str:
    """The name of the column in data files."""
    return str(_metadata(field).get(_PHYSICAL) or field.get("name"))


def _configuration(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    configuration = metadata.get("configuration")
    return {key: str(value) for key, value in configuration.items()} if isinstance(configuration, dict) else {}


def bound_columns(schema: Schema) -> tuple[Field, ...]:
    """The top-level columns that do not allow every value of their type.

    >>> from geolake_nb.model.schema import Schema
    >>> from geolake_nb.model.types import Field, PrimitiveType
    >>> free, bound = (Field(name, PrimitiveType("int64"), nullable=name == "a") for name in "ab")
    >>> [field.name for field in bound_columns(Schema(StructType((free, bound))))]
    ['b']
    """
    return tuple(field for field in schema.fields if _is_bound(field))


def require_rules(array: pa.Array, field: Field, parts: tuple[str, ...] = (), *, null_structs: bool = True) -> None:
    """Raise SchemaError for a null where the schema allows none, and for a string longer than its VARCHAR.

    `null_structs` is whether a struct with non-nullable fields may be null: Spark refuses it in Delta tables.

    >>> from geolake_nb.model.types import Field, PrimitiveType
    >>> tags = Field("tags", ListType(Field("element", PrimitiveType("int64"), nullable=False)))
    >>> require_rules(pa.array([[1], None, []]), tags)
    >>> require_rules(pa.array([[1, None]]), tags)
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: tags.element: the column is not nullable and has 1 nulls
    """
    here = (*parts, field.name)
    if not field.nullable and array.null_count:
        raise SchemaError(f"the column is not nullable and has {array.null_count} nulls", where=join_path(here))
    limit = VARCHAR.fullmatch(str(field.metadata.get(CHAR_VARCHAR, "")))
    if limit is not None and not pa.types.is_null(array.type):
        longest = pc.max(pc.utf8_length(array)).as_py()
        if longest is not None and longest > int(limit[1]):
            raise SchemaError(
                f"a string of {longest} characters is too long for {limit[0]}",
                where=join_path(here),
                remedy="shorten it",
            )
    type_ = field.type
    if pa.types.is_null(array.type):
        return
    if isinstance(type_, StructType):
        structs = array.filter(array.is_valid()) if null_structs and array.null_count else array
        columns = structs.flatten()
        names = [array.type.field(index).name for index in range(array.type.num_fields)]
        for child in type_.fields:
            if _is_bound(child) and child.name in names:
                require_rules(columns[names.index(child.name)], child, here, null_structs=null_structs)
    elif isinstance(type_, (ListType, MapType)):
        for child in children(type_):
            if _is_bound(child):
                require_rules(descend(array, type_, (child.name,)), child, here)


def _is_bound(field: Field) -> bool:
    declared = CHAR_VARCHAR in field.metadata
    return declared or not field.nullable or any(_is_bound(child) for child in children(field.type))
