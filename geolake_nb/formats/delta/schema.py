"""Delta's `schemaString` to the schema tree and back, and the types and names that columns can have."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from geolake_nb.changes.column_types import table_columns
from geolake_nb.errors import SchemaError
from geolake_nb.model.schema import Schema, children, join_path, type_name
from geolake_nb.model.types import (
    DataType,
    Field,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    PrimitiveType,
    StringType,
    StructType,
    from_delta_text,
    is_geo_text,
    to_delta_text,
)
from geolake_nb.text.json_text import expect, load_json

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["delta_columns", "from_delta_schema", "require_delta_names", "to_delta_schema"]

_ID = "delta.columnMapping.id"
_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_NESTED_IDS = "delta.columnMapping.nested.ids"
_COMMENT = "comment"

_NAMES = {
    "binary": "binary",
    "boolean": "boolean",
    "byte": "int8",
    "date": "date",
    "double": "float64",
    "float": "float32",
    "integer": "int32",
    "interval": "interval",
    "long": "int64",
    "short": "int16",
    "timestamp": "timestamptz",  # Delta, Primitive types: adjusted to UTC
    "timestamp_ntz": "timestamp",
    "variant": "variant",
    "void": "unknown",
}
_DELTA_NAMES = {ours: theirs for theirs, ours in _NAMES.items()}
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)")
_INTERVAL = re.compile(r"interval (year|month|day|hour|minute|second)( to (month|hour|minute|second))?")


def from_delta_schema(text: str | bytes, *, properties: Mapping[str, str] | None = None) -> Schema:
    """The schema of a `metaData` action; `properties` are its `configuration`, for `projjson:<property>`.

    >>> print(from_delta_schema('{"type":"struct","fields":[{"name":"geom","type":"geometry(OGC:CRS84)",'
    ...     '"nullable":true,"metadata":{}}]}'))
    geom: geometry(OGC:CRS84)
    >>> from_delta_schema('{"type":"struct","fields":[]}').fields
    ()
    """
    from geolake_nb.model.collation import attach_collations

    value = load_json(text, what="the Delta schema")
    root = _read_type(value, "schema", properties or {})
    if not isinstance(root, StructType):
        raise SchemaError(f"the Delta schema is a {type_name(root)}", remedy="it must be a struct")
    return Schema(attach_collations(root))


def to_delta_schema(schema: Schema) -> str:
    """The `schemaString` of a schema; metadata that was read is written back unchanged.

    >>> to_delta_schema(Schema(StructType((Field("id", PrimitiveType("int64")),))))
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
    """
    from geolake_nb.model.collation import detach_collations

    value = _write_type(detach_collations(schema.root), "schema")
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _read_type(value: Any, where: str, properties: Mapping[str, str]) -> DataType:
    if isinstance(value, str):
        return _read_name(value, where, properties)
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "struct":
        fields = expect(value, "fields", list, where)
        return StructType(tuple(_read_field(field, where, properties) for field in fields))
    if kind == "array":
        element = _read_type(expect(value, "elementType", object, where), f"{where}.element", properties)
        return ListType(Field("element", element, nullable=expect(value, "containsNull", bool, where)))
    if kind == "map":
        key = _read_type(expect(value, "keyType", object, where), f"{where}.key", properties)
        value_type = _read_type(expect(value, "valueType", object, where), f"{where}.value", properties)
        nullable = expect(value, "valueContainsNull", bool, where)
        return MapType(Field("key", key, nullable=False), Field("value", value_type, nullable=nullable))
    raise SchemaError("a type is neither a name nor an array, map or struct", where=where)


def _read_name(name: str, where: str, properties: Mapping[str, str]) -> DataType:
    if name == "string":
        return StringType()
    if name in _NAMES:
        return PrimitiveType(_NAMES[name])
    if match := _DECIMAL.fullmatch(name):
        return PrimitiveType(f"decimal({int(match.group(1))}, {int(match.group(2))})")
    if is_geo_text(name):
        return from_delta_text(name, properties=properties, where=where)
    if _INTERVAL.fullmatch(name):
        return PrimitiveType(name)
    known = ", ".join(sorted([*_NAMES, "decimal(p,s)", "geography(crs, algorithm)", "geometry(crs)", "string"]))
    raise SchemaError(f"unknown Delta type {name[:80]!r}", where=where, remedy=f"known are: {known}")


def _read_field(value: Any, where: str, properties: Mapping[str, str]) -> Field:
    name = expect(value, "name", str, where)
    here = name if where == "schema" else f"{where}.{name}"
    metadata = expect(value, "metadata", dict, here) if "metadata" in value else {}
    type_ = _read_type(expect(value, "type", object, here), here, properties)
    physical_name = metadata.get(_PHYSICAL_NAME)
    nested_ids = metadata.get(_NESTED_IDS)
    if isinstance(nested_ids, dict) and nested_ids:
        type_ = _with_nested_ids(type_, physical_name or name, nested_ids)
    comment = metadata.get(_COMMENT)
    return Field(
        name,
        type_,
        nullable=expect(value, "nullable", bool, here),
        id=expect(metadata, _ID, int, here) if _ID in metadata else None,
        physical_name=expect(metadata, _PHYSICAL_NAME, str, here) if _PHYSICAL_NAME in metadata else None,
        doc=comment if isinstance(comment, str) else None,
        metadata=metadata,
    )


def _with_nested_ids(type_: DataType, path: str, ids: Mapping[str, Any]) -> DataType:
    # Delta, IcebergCompatV2: ids of elements, keys and values lie at the nearest struct field, by the
    # physical name of that field and the way down from it; a struct below has its own.
    def with_id(inner: Field) -> Field:
        here = f"{path}.{inner.name}"
        number = ids.get(here)
        field_id = number if isinstance(number, int) else None
        return replace(inner, type=_with_nested_ids(inner.type, here, ids), id=field_id)

    if isinstance(type_, ListType):
        return ListType(with_id(type_.element))
    if isinstance(type_, MapType):
        return MapType(with_id(type_.key), with_id(type_.value))
    return type_


def _write_type(type_: DataType, where: str) -> Any:
    if isinstance(type_, StructType):
        return {"type": "struct", "fields": [_write_field(field, where) for field in type_.fields]}
    if isinstance(type_, ListType):
        element = _write_type(type_.element.type, f"{where}.element")
        return {"type": "array", "elementType": element, "containsNull": type_.element.nullable}
    if isinstance(type_, MapType):
        return {
            "type": "map",
            "keyType": _write_type(type_.key.type, f"{where}.key"),
            "valueType": _write_type(type_.value.type, f"{where}.value"),
            "valueContainsNull": type_.value.nullable,
        }
    if isinstance(type_, StringType):
        return "string"
    if isinstance(type_, (GeometryType, GeographyType)):
        return to_delta_text(type_)
    if isinstance(type_, PrimitiveType):
        if type_.name in _DELTA_NAMES:
            return _DELTA_NAMES[type_.name]
        if _DECIMAL.fullmatch(type_.name):
            return type_.name.replace(" ", "")
        if _INTERVAL.fullmatch(type_.name):
            return type_.name
    raise SchemaError(f"Delta has no type for {type_name(type_)}", where=where, remedy="cast the column")


def _write_field(field: Field, where: str) -> dict[str, Any]:
    here = field.name if where == "schema" else f"{where}.{field.name}"
    return {
        "name": field.name,
        "type": _write_type(field.type, here),
        "nullable": field.nullable,
        "metadata": _write_metadata(field),
    }


def _write_metadata(field: Field) -> dict[str, Any]:
    metadata = dict(field.metadata)
    # An id without a physical name is that of another format, and no column mapping.
    mapped = field.physical_name is not None or _ID in metadata
    known = {
        _COMMENT: field.doc,
        _ID: field.id if mapped else None,
        _PHYSICAL_NAME: field.physical_name,
    }
    for key, value in known.items():
        if value is not None:
            metadata[key] = value
        elif isinstance(metadata.get(key), (str, int)):
            del metadata[key]
    return metadata


_Path = tuple[str, ...]

# Types that Delta lacks, and its types that hold them without loss.
_WIDER: dict[str, DataType] = {
    "bson": PrimitiveType("binary"),
    "enum": StringType(),
    "float16": PrimitiveType("float32"),
    "json": StringType(),
    "timestamp_int96": PrimitiveType("timestamptz"),
    "timestamp_ms": PrimitiveType("timestamp"),
    "timestamp_ns": PrimitiveType("timestamp"),
    "timestamptz_ms": PrimitiveType("timestamptz"),
    "timestamptz_ns": PrimitiveType("timestamptz"),
    "uint16": PrimitiveType("int32"),
    "uint32": PrimitiveType("int64"),
    "uint8": PrimitiveType("int16"),
    "uuid": PrimitiveType("binary"),
}
_SAME = frozenset(
    ("binary", "boolean", "date", "float32", "float64", "int16", "int32", "int64", "int8", "timestamp", "timestamptz")
)
# Delta, Column mapping: without it the names of columns are those in Parquet, where Spark rejects these.
_FORBIDDEN = " ,;{}()\n\t="
_NOT_IN_NAMES = re.compile(f"[{_FORBIDDEN}]")


def delta_columns(schema: Schema, *, where: str | None = None) -> tuple[Schema, list[str]]:
    """The columns with types that Delta has, and a sentence for each that changes; unsupported types are refused.

    Every column is nullable, as in tables that Spark creates. Geo types are left alone.

    >>> from geolake_nb.model.types import StructType
    >>> schema = Schema(StructType((Field("n", PrimitiveType("uint8"), nullable=False, id=3),)))
    >>> delta_columns(schema)
    (Schema(root=StructType(fields=(Field(name='n', type=PrimitiveType(name='int16'), ...), ["'n' is uint8, ... int16"])
    >>> delta_columns(Schema(StructType((Field("n", PrimitiveType("uint64")),))), where="/t")
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: /t: the column 'n' is of type uint64, which Delta does not have; cast it or leave ...
    """
    return table_columns(schema, format_name="Delta", same=_SAME, wider=_WIDER, where=where)


def require_delta_names(schema: Schema, *, where: str | None = None) -> None:
    """Raise for a name that a table without column mapping cannot have, and for two that differ in case alone.

    >>> from geolake_nb.model.types import StructType
    >>> require_delta_names(Schema(StructType((Field("a b", StringType()),))))
    Traceback (most recent call last):
    geolake_nb.errors.SchemaError: the name of the column 'a b' has a character of ' ,;{}()\\n\\t='; rename it
    """
    level: list[tuple[_Path, tuple[Field, ...]]] = [((), schema.fields)]
    while level:
        above, fields = level.pop()
        seen: set[str] = set()
        for field in fields:
            path = (*above, field.name)
            if not field.name or _NOT_IN_NAMES.search(field.name):
                what = f"the name of the column {join_path(path)!r} has a character of {_FORBIDDEN!r}"
                raise SchemaError(what if field.name else "a column has no name", where=where, remedy="rename it")
            if field.name.casefold() in seen:
                raise SchemaError(f"two columns have the name {join_path(path)!r}", where=where, remedy="rename one")
            seen.add(field.name.casefold())
            level.append((path, children(field.type)))
