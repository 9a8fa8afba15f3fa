"""Iceberg's schema JSON with Havasu's spatial columns to the schema tree and back; field ids of data files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.changes.column_types import table_columns
from geolake_nb.errors import CorruptTableError, SchemaError
from geolake_nb.model.crs import UNKNOWN_CRS
from geolake_nb.model.schema import Schema, children, type_name
from geolake_nb.model.types import (
    DataType,
    Field,
    GeographyType,
    GeometryEncoding,
    GeometryType,
    ListType,
    MapType,
    PrimitiveType,
    RasterType,
    StringType,
    StructType,
    from_iceberg_text,
    is_geo_text,
    to_iceberg_text,
)
from geolake_nb.text.json_text import check_depth, expect, load_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from geolake_nb.model.snapshot import Snapshot

__all__ = [
    "FIELD_ID",
    "NAME_MAPPING",
    "NameMapping",
    "from_iceberg_schema",
    "iceberg_columns",
    "name_mapping",
    "to_iceberg_schema",
    "with_field_ids",
    "with_fresh_ids",
    "with_ids",
]

_GEOMETRY_ENCODING = "havasu.geometry-encoding"
_RASTER_ENCODING = "havasu.raster-encoding"
_DEFAULTS = ("initial-default", "initial-value", "write-default")

# Havasu, JSON serialization: the physical types that an encoding goes with.
_PHYSICAL_TYPES = {
    GeometryEncoding.EWKB: "binary",
    GeometryEncoding.GEOJSON: "string",
    GeometryEncoding.WKB: "binary",
    GeometryEncoding.WKT: "string",
}

_NAMES = {
    "binary": "binary",
    "boolean": "boolean",
    "date": "date",
    "double": "float64",
    "float": "float32",
    "int": "int32",
    "long": "int64",
    "time": "time",
    "timestamp": "timestamp",
    "timestamp_ns": "timestamp_ns",
    "timestamptz": "timestamptz",
    "timestamptz_ns": "timestamptz_ns",
    "unknown": "unknown",
    "uuid": "uuid",
    "variant": "variant",
}
_ICEBERG_NAMES = {ours: theirs for theirs, ours in _NAMES.items()}
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)")
_FIXED = re.compile(r"fixed\s*[\[(]\s*([0-9]{1,9})\s*[\])]")
_FIELD_KEYS = ("id", "name", "required", "type", "doc")
_LIST_KEYS = ("type", "element-id", "element", "element-required")
_MAP_KEYS = ("type", "key-id", "key", "value-id", "value", "value-required")
_SCHEMA_KEYS = ("type", "schema-id", "fields", "identifier-field-ids")


def from_iceberg_schema(
    value: str | bytes | Mapping[str, Any], *, properties: Mapping[str, str] | None = None
) -> Schema:
    """The schema of table metadata; `properties` are the table's, for `projjson:<property>`.

    A Havasu geometry has the CRS of its values (each may have an SRID), so the column's own is unknown.

    >>> schema = from_iceberg_schema('{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"geom",'
    ...     '"required":false,"type":"BINARY","havasu.geometry-encoding":"ewkb"}]}')
    >>> print(schema)
    geom: geometry(SRID:0, ewkb), #1
    >>> from_iceberg_schema({"type": "struct", "fields": []}).fields
    ()
    """
    if isinstance(value, (str, bytes)):
        value = load_json(value, what="the Iceberg schema")
    else:
        check_depth(value, what="the Iceberg schema")
    if not isinstance(value, dict):
        raise SchemaError(f"expected the Iceberg schema to be a JSON object, got a {type(value).__name__}")
    root = _read_struct(value, "schema", properties or {})
    ids = value.get("identifier-field-ids", [])
    if not isinstance(ids, list) or not all(_is_int(id_) for id_ in ids):
        raise SchemaError("expected 'identifier-field-ids' to be a list of integers", where="schema")
    schema = Schema(
        root,
        schema_id=expect(value, "schema-id", int, "schema") if "schema-id" in value else None,
        identifier_field_ids=tuple(ids),
        metadata=_others(value, _SCHEMA_KEYS),
    )
    _refuse_shared_ids(schema)
    return schema


def to_iceberg_schema(schema: Schema, *, havasu: bool = False) -> dict[str, Any]:
    """The JSON object of a schema; with `havasu`, geometries and rasters are written as Havasu does.

    >>> column = Field("geom", GeometryType(), id=1)
    >>> to_iceberg_schema(Schema(StructType((column,))))["fields"][0]["type"]
    'geometry(OGC:CRS84)'
    >>> to_iceberg_schema(Schema(StructType((column,))), havasu=True)["fields"][0]["type"]
    'binary'
    """
    value: dict[str, Any] = {"type": "struct"}
    if schema.schema_id is not None:
        value["schema-id"] = schema.schema_id
    value["fields"] = [_write_field(field, "schema", havasu=havasu) for field in schema.fields]
    if schema.identifier_field_ids:
        value["identifier-field-ids"] = list(schema.identifier_field_ids)
    return {**value, **schema.metadata}


def _read_struct(value: Any, where: str, properties: Mapping[str, str]) -> StructType:
    if value.get("type") != "struct":
        raise SchemaError("the type of a schema is not 'struct'", where=where)
    fields = expect(value, "fields", list, where)
    return StructType(tuple(_read_field(field, where, properties) for field in fields))


def _read_type(value: Any, where: str, properties: Mapping[str, str]) -> DataType:
    if isinstance(value, str):
        return _read_name(value, where, properties)
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "struct":
        return _read_struct(value, where, properties)
    if kind == "list":
        element = _read_inner(value, "element", where, properties, _others(value, _LIST_KEYS))
        return ListType(element)
    if kind == "map":
        key = _read_inner(value, "key", where, properties, {})
        return MapType(key, _read_inner(value, "value", where, properties, _others(value, _MAP_KEYS)))
    raise SchemaError("a type is neither a name nor a list, map or struct", where=where)


def _read_inner(value: Any, name: str, where: str, properties: Mapping[str, str], metadata: dict[str, Any]) -> Field:
    here = f"{where}.{name}"
    return Field(
        name,
        _read_type(expect(value, name, object, here), here, properties),
        nullable=name != "key" and not expect(value, f"{name}-required", bool, here),
        id=expect(value, f"{name}-id", int, here),
        metadata=metadata,
    )


def _read_name(text: str, where: str, properties: Mapping[str, str]) -> DataType:
    # Havasu's own example writes BINARY.
    name = text.strip().lower()
    if name == "string":
        return StringType()
    if name in _NAMES:
        return PrimitiveType(_NAMES[name])
    if match := _DECIMAL.fullmatch(name):
        return PrimitiveType(f"decimal({int(match.group(1))}, {int(match.group(2))})")
    if match := _FIXED.fullmatch(name):
        return PrimitiveType(f"fixed({int(match.group(1))})")
    if is_geo_text(text):
        return from_iceberg_text(text, properties=properties, where=where)
    known = ", ".join(sorted([*_NAMES, "decimal(p, s)", "fixed[n]", "geography", "geometry", "string"]))
    raise SchemaError(f"unknown Iceberg type {text[:80]!r}", where=where, remedy=f"known are: {known}")


def _read_field(value: Any, where: str, properties: Mapping[str, str]) -> Field:
    name = expect(value, "name", str, where)
    here = name if where == "schema" else f"{where}.{name}"
    metadata = _others(value, _FIELD_KEYS)
    type_ = _read_type(expect(value, "type", object, here), here, properties)
    if _GEOMETRY_ENCODING in metadata or _RASTER_ENCODING in metadata:
        type_ = _read_havasu(type_, metadata, here)
    _refuse_default(type_, metadata, here)
    doc = expect(value, "doc", (str, type(None)), here) if "doc" in value else None
    return Field(
        name,
        type_,
        nullable=not expect(value, "required", bool, here),
        id=expect(value, "id", int, here),
        doc=doc,
        metadata=metadata,
    )


def _read_havasu(type_: DataType, metadata: Mapping[str, Any], where: str) -> DataType:
    if _GEOMETRY_ENCODING in metadata and _RASTER_ENCODING in metadata:
        raise SchemaError("a field is both a geometry and a raster", where=where)
    if _RASTER_ENCODING in metadata:
        encoding = expect(metadata, _RASTER_ENCODING, str, where)
        if encoding.lower() != "v1":
            raise SchemaError(f"unknown raster encoding {encoding[:80]!r}", where=where, remedy="use v1")
        # Havasu, JSON serialization, Raster: the type is an empty struct.
        if type_ != StructType():
            raise SchemaError(f"a raster has the type {type_name(type_)}, not an empty struct", where=where)
        return RasterType()
    text = expect(metadata, _GEOMETRY_ENCODING, str, where)
    allowed = {encoding.value: encoding for encoding in _PHYSICAL_TYPES}
    if text.lower() not in allowed:
        options = ", ".join(sorted(allowed))
        raise SchemaError(f"unknown geometry encoding {text[:80]!r}", where=where, remedy=f"use one of: {options}")
    encoding_ = allowed[text.lower()]
    physical = _PHYSICAL_TYPES[encoding_]
    if type_name(type_) != physical:
        raise SchemaError(
            f"the geometry encoding {encoding_.value} does not go with the type {type_name(type_)}",
            where=where,
            remedy=f"use {physical}",
        )
    return GeometryType(UNKNOWN_CRS, encoding_)


def _refuse_default(type_: DataType, metadata: Mapping[str, Any], where: str) -> None:
    # Havasu, Single spatial value serialization, and Iceberg v3, Default values: null is the only default.
    only_null = isinstance(type_, (GeometryType, GeographyType, RasterType)) or type_ in (
        PrimitiveType("unknown"),
        PrimitiveType("variant"),
    )
    for key in _DEFAULTS:
        if only_null and metadata.get(key) is not None:
            raise SchemaError(f"{type_name(type_)} has a {key!r} that is not null", where=where)


def _refuse_shared_ids(schema: Schema) -> None:
    seen: dict[int, str] = {}
    for path, field in schema.walk():
        if field.id is None:
            continue
        if field.id in seen:
            raise SchemaError(f"{seen[field.id]} and {path} share the id {field.id}", where="schema")
        seen[field.id] = path


def _others(value: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    return {key: member for key, member in value.items() if key not in known}


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _write_field(field: Field, where: str, *, havasu: bool) -> dict[str, Any]:
    here = field.name if where == "schema" else f"{where}.{field.name}"
    metadata = _others(field.metadata, (_GEOMETRY_ENCODING, _RASTER_ENCODING))
    _refuse_default(field.type, metadata, here)
    value = {"id": _id(field, here), "name": field.name, "required": not field.nullable}
    if havasu and isinstance(field.type, GeometryType) and field.type.encoding in _PHYSICAL_TYPES:
        value["type"] = _PHYSICAL_TYPES[field.type.encoding]
        metadata[_GEOMETRY_ENCODING] = field.type.encoding.value
    elif havasu and isinstance(field.type, RasterType):
        value["type"] = {"type": "struct", "fields": []}
        metadata[_RASTER_ENCODING] = field.type.encoding
    else:
        value["type"] = _write_type(field.type, here, havasu=havasu)
    if field.doc is not None:
        value["doc"] = field.doc
    return {**value, **metadata}


def _write_type(type_: DataType, where: str, *, havasu: bool) -> Any:
    if isinstance(type_, StructType):
        fields = [_write_field(field, where, havasu=havasu) for field in type_.fields]
        return {"type": "struct", "fields": fields}
    if isinstance(type_, ListType):
        return {"type": "list", **_write_inner(type_.element, where, havasu=havasu), **type_.element.metadata}
    if isinstance(type_, MapType):
        key = _write_inner(type_.key, where, havasu=havasu)
        del key["key-required"]
        return {
            "type": "map",
            **key,
            **_write_inner(type_.value, where, havasu=havasu),
            **type_.value.metadata,
        }
    if isinstance(type_, StringType):
        return "string"
    if isinstance(type_, (GeometryType, GeographyType)) and not havasu:
        return to_iceberg_text(type_)
    if isinstance(type_, PrimitiveType):
        if type_.name in _ICEBERG_NAMES:
            return _ICEBERG_NAMES[type_.name]
        if _DECIMAL.fullmatch(type_.name):
            return type_.name
        if match := _FIXED.fullmatch(type_.name):
            return f"fixed[{match.group(1)}]"
    format_name = "Havasu" if havasu else "Iceberg"
    raise SchemaError(f"{format_name} has no type for {type_name(type_)} here", where=where)


def _write_inner(field: Field, where: str, *, havasu: bool) -> dict[str, Any]:
    here = f"{where}.{field.name}"
    return {
        f"{field.name}-id": _id(field, here),
        field.name: _write_type(field.type, here, havasu=havasu),
        f"{field.name}-required": not field.nullable,
    }


def _id(field: Field, where: str) -> int:
    if field.id is None:
        raise SchemaError("a field has no id", where=where, remedy="give every field an id of its own")
    return field.id


_BINARY = PrimitiveType("binary")
_INT, _LONG = PrimitiveType("int32"), PrimitiveType("int64")
# Types of all Iceberg versions that Spark has too, and those that hold other types without loss.
_SAME = frozenset(("binary", "boolean", "date", "float32", "float64", "int32", "int64", "timestamp", "timestamptz"))
_WIDER: dict[str, DataType] = {
    "bson": _BINARY,
    "enum": StringType(),
    "float16": PrimitiveType("float32"),
    "int16": _INT,
    "int8": _INT,
    "json": StringType(),
    "timestamp_int96": PrimitiveType("timestamptz"),
    "timestamp_ms": PrimitiveType("timestamp"),
    "timestamp_ns": PrimitiveType("timestamp"),
    "timestamptz_ms": PrimitiveType("timestamptz"),
    "timestamptz_ns": PrimitiveType("timestamptz"),
    "uint16": _INT,
    "uint32": _LONG,
    "uint8": _INT,
    "uuid": _BINARY,
}


def iceberg_columns(
    schema: Schema, *, format_name: str = "Iceberg", where: str | None = None
) -> tuple[Schema, list[str]]:
    """The columns with types that Iceberg has, and a sentence for each that changes."""
    return table_columns(schema, format_name=format_name, same=_SAME, wider=_WIDER, where=where)


def with_fresh_ids(schema: Schema) -> Schema:
    """The schema with fresh ids as Iceberg assigns them: those of columns first, then those inside them."""
    return with_ids(schema, {})


def with_ids(schema: Schema, ids: Mapping[tuple[str, ...], int]) -> Schema:
    """The schema with these ids by path, and fresh ones above them for all other columns.

    >>> from geolake_nb.model.types import Field, PrimitiveType
    >>> plain = Schema(StructType(tuple(Field(name, PrimitiveType("int32")) for name in "ab")))
    >>> print(with_ids(plain, {("b",): 4}))
    a: int32, #5
    b: int32, #4
    """
    number = max(ids.values(), default=0)

    def chosen(path: tuple[str, ...]) -> int:
        nonlocal number
        if path in ids:
            return ids[path]
        number += 1
        return number

    def fields(some: tuple[Field, ...], above: tuple[str, ...]) -> tuple[Field, ...]:
        marked = [replace(field, id=chosen((*above, field.name))) for field in some]
        return tuple([replace(field, type=inside(field.type, (*above, field.name))) for field in marked])

    def inside(type_: DataType, path: tuple[str, ...]) -> DataType:
        if isinstance(type_, StructType):
            return StructType(fields(type_.fields, path))
        if isinstance(type_, ListType):
            return ListType(fields((type_.element,), path)[0])
        if isinstance(type_, MapType):
            key, value = fields((type_.key, type_.value), path)
            return MapType(key, value)
        return type_

    return replace(schema, root=StructType(fields(schema.fields, ())), schema_id=0)


FIELD_ID = b"PARQUET:field_id"
NAME_MAPPING = "schema.name-mapping.default"
"""The property with the ids of columns in files that have none."""
_DEEPEST = 100

NameMapping = Mapping[str, tuple[int | None, Any]]
"""The id of each field and the mapping of its children, by name."""


def name_mapping(snapshot: Snapshot) -> NameMapping | None:
    """How columns are identified in files without ids; `None` if their names may have been those of other columns."""
    text = snapshot.properties.get(NAME_MAPPING)
    if text is not None:
        where = f"{snapshot.location}, property {NAME_MAPPING}"
        try:
            return _read(load_json(text, what="the name mapping"), 0)
        except (SchemaError, ValueError, KeyError, TypeError, AttributeError):
            raise CorruptTableError("the name mapping cannot be read", where=where) from None
    if len(snapshot.details.metadata.schemas) > 1:
        return None
    return _of_fields(snapshot.schema.fields)


def with_field_ids(schema: pa.Schema, mapping: NameMapping) -> pa.Schema:
    """The schema of a file with the ids that the mapping has for its columns.

    >>> with_field_ids(pa.schema([("a", pa.int32()), ("b", pa.int32())]), {"a": (7, {})}).field("a").metadata
    {b'PARQUET:field_id': b'7'}
    """
    return pa.schema([_field(field, mapping) for field in schema])


def _read(listed: Any, depth: int) -> dict[str, tuple[int | None, Any]]:
    if depth > _DEEPEST:
        raise ValueError("too deep")
    mapping: dict[str, tuple[int | None, Any]] = {}
    for entry in listed:
        id_ = entry.get("field-id")
        inside = _read(entry.get("fields") or [], depth + 1)
        mapping |= {str(name): (None if id_ is None else int(id_), inside) for name in entry["names"]}
    return mapping


def _of_fields(fields: Iterable[Field]) -> dict[str, tuple[int | None, Any]]:
    return {field.name: (field.id, _of_fields(children(field.type))) for field in fields}


def _field(field: pa.Field, mapping: NameMapping, name: str | None = None) -> pa.Field:
    id_, inside = mapping.get(field.name if name is None else name, (None, {}))
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_field(kind.field(index), inside) for index in range(kind.num_fields)])
    elif pa.types.is_list(kind):
        kind = pa.list_(_field(kind.value_field, inside, "element"))
    elif pa.types.is_map(kind):
        kind = pa.map_(_field(kind.key_field, inside, "key"), _field(kind.item_field, inside, "value"))
    metadata = None if id_ is None else {FIELD_ID: str(id_).encode()}
    return pa.field(field.name, kind, field.nullable, metadata)
