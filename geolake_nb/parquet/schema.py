"""The schema of a Parquet file to the schema tree, and the geo types that all files of a table declare."""

from __future__ import annotations

import io
import json
import re
import weakref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from geolake_nb.errors import GeolakeError, SchemaError
from geolake_nb.model.crs import CRS84, Crs, CrsForm
from geolake_nb.model.schema import Schema, split_path, type_name
from geolake_nb.model.table_format import FileField
from geolake_nb.model.types import (
    DataType,
    EdgeAlgorithm,
    Field,
    GeographyType,
    GeometryEncoding,
    GeometryType,
    ListType,
    MapType,
    PrimitiveType,
    StringType,
    StructType,
)
from geolake_nb.parquet.thrift_compact import ListValue, Struct, read_struct
from geolake_nb.text.json_text import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow.parquet as pq

    from geolake_nb.parquet.footer import FileView
    from geolake_nb.parquet.geoparquet import GeoMetadata

__all__ = [
    "FOOTER_FACTS",
    "PATH_KEY",
    "footer_facts",
    "from_parquet_schema",
    "repeated_types",
    "to_arrow_type",
    "with_geo_metadata",
]

PATH_KEY = "parquet.path"
"""The key in a leaf's metadata that holds its path in the file, such as `tags.list.element`."""

_FIELD_ID = b"PARQUET:field_id"
_PHYSICAL_NAMES = {
    "BOOLEAN": "boolean",
    "BYTE_ARRAY": "binary",
    "DOUBLE": "float64",
    "FLOAT": "float32",
    "INT32": "int32",
    "INT64": "int64",
    "INT96": "timestamp_int96",
}
_LOGICAL_NAMES = {
    "BSON": "bson",
    "Date": "date",
    "Enum": "enum",
    "Float16": "float16",
    "Interval": "interval",
    "JSON": "json",
    "Null": "unknown",
    "UUID": "uuid",
}
_UNITS = {"microseconds": "", "milliseconds": "_ms", "nanoseconds": "_ns"}


def from_parquet_schema(
    source: pq.FileMetaData | pq.ParquetSchema, *, properties: Mapping[str, str] | None = None
) -> Schema:
    """The schema of a footer; `projjson:<property>` is looked up in the file first, then in `properties`.

    Types are those of Parquet, not what an Arrow schema in the file makes of them. Each leaf has its path
    in the file under `PATH_KEY` of its metadata.

    >>> import io, pyarrow.parquet
    >>> file = io.BytesIO()
    >>> pyarrow.parquet.write_table(pa.table({"tags": pa.array([], pa.list_(pa.int8()))}), file)
    >>> schema = from_parquet_schema(pyarrow.parquet.read_metadata(file))
    >>> print(schema)
    tags: list
      element: int8
    >>> schema.find("tags.element").metadata
    {'parquet.path': 'tags.list.element'}
    """
    parquet = source.schema if hasattr(source, "schema") else source
    known = {**(properties or {}), **_file_properties(source)}
    leaves = iter([parquet.column(index) for index in range(len(parquet))])
    reader = _Reader(leaves, known)
    try:
        fields = tuple([reader.field(arrow_field, arrow_field.name) for arrow_field in _arrow_schema(source)])
    except (pa.ArrowException, UnicodeDecodeError) as problem:
        raise SchemaError(f"the Parquet schema cannot be read: {problem}") from problem
    except StopIteration:
        raise SchemaError("the Arrow schema in the file has more columns than the Parquet schema") from None
    if next(leaves, None) is not None:
        raise SchemaError("the Arrow schema in the file has fewer columns than the Parquet schema")
    return Schema(StructType(fields))


def _arrow_schema(source: pq.FileMetaData | pq.ParquetSchema) -> pa.Schema:
    """Arrow's view of the columns, which has their nesting."""
    import pyarrow.parquet as pq

    try:
        schema = (source.schema if hasattr(source, "schema") else source).to_arrow_schema()
        list(schema)  # extension types are built when a field is looked at
        return schema
    except (pa.ArrowException, UnicodeDecodeError):
        raise
    except Exception:
        # Packages that register extension types read their parts of Arrow's schema in the file, and geoarrow raises
        # on a CRS such as 4326 there. Parquet's own schema has all that is needed.
        if not hasattr(source, "write_metadata_file"):
            raise
        file = io.BytesIO()
        source.write_metadata_file(file)
        unread = file.getvalue().replace(b"ARROW:schema", b"ARROW-schema")
        return pq.read_metadata(pa.BufferReader(unread), arrow_extensions_enabled=False).schema.to_arrow_schema()


def with_geo_metadata(schema: Schema, geo: GeoMetadata) -> Schema:
    """The schema with the geometry columns that GeoParquet metadata names; Parquet's own geo types stay.

    >>> from geolake_nb.parquet.geoparquet import GeoColumn, GeoMetadata
    >>> plain = Schema(StructType((Field("g", PrimitiveType("binary")),)))
    >>> print(with_geo_metadata(plain, GeoMetadata("g", {"g": GeoColumn()})))
    g: geometry(OGC:CRS84)
    """
    missing = sorted(set(geo.columns) - {field.name for field in schema.fields})
    if missing:
        raise SchemaError(f"GeoParquet names columns that are not there: {', '.join(missing)}", where="geo")
    fields = tuple(
        _with_geo_column(field, geo.columns[field.name].type) if field.name in geo.columns else field
        for field in schema.fields
    )
    return replace(schema, root=StructType(fields))


def _with_geo_column(column: Field, geo: GeometryType | GeographyType) -> Field:
    if isinstance(column.type, (GeometryType, GeographyType)):
        return column
    fits = {
        GeometryEncoding.WKB: column.type == PrimitiveType("binary"),
        GeometryEncoding.WKT: isinstance(column.type, StringType),
        GeometryEncoding.GEOARROW: isinstance(column.type, (ListType, StructType)),
    }
    if not fits.get(geo.encoding, False):
        raise SchemaError(
            f"the encoding {geo.encoding.value} does not go with the type {type_name(column.type)}",
            where=f"geo, column {column.name}",
        )
    return replace(column, type=geo)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Walks Arrow's tree, which has the nesting, along with Parquet's leaves, which have the types."""

    leaves: Iterator[pq.ColumnSchema]
    properties: Mapping[str, str]

    def field(self, arrow: pa.Field, where: str, name: str | None = None, depth: int = 0) -> Field:
        if depth == MAX_DEPTH:
            raise SchemaError("the Parquet schema is nested too deeply", where=where[:80])

        def inner(child: pa.Field, child_name: str) -> Field:
            return self.field(child, f"{where}.{child_name}", child_name, depth + 1)

        stored = arrow.type
        while isinstance(stored, pa.BaseExtensionType):
            stored = stored.storage_type
        type_: DataType
        metadata: dict[str, Any] = {}
        if pa.types.is_struct(stored):
            type_ = StructType(tuple([inner(child, child.name) for child in stored]))
            if getattr(arrow.type, "extension_name", "").endswith("parquet.variant"):
                type_ = PrimitiveType("variant")
        elif pa.types.is_map(stored):
            type_ = MapType(inner(stored.key_field, "key"), inner(stored.item_field, "value"))
        elif hasattr(stored, "value_field"):
            type_ = ListType(inner(stored.value_field, "element"))
        else:
            leaf = next(self.leaves)
            type_ = _read_leaf(leaf, where, self.properties)
            metadata[PATH_KEY] = leaf.path
        field_name = arrow.name if name is None else name
        return Field(field_name, type_, nullable=arrow.nullable, id=_field_id(arrow), metadata=metadata)


def _field_id(arrow: pa.Field) -> int | None:
    text = (arrow.metadata or {}).get(_FIELD_ID, b"")
    # Arrow shows a field without an id as -1.
    return int(text) if text.isdigit() else None


def _read_leaf(leaf: pq.ColumnSchema, where: str, properties: Mapping[str, str]) -> DataType:
    logical = json.loads(leaf.logical_type.to_json())
    kind = logical["Type"]
    if kind == "String":
        return StringType()
    if kind in ("Geometry", "Geography"):
        return _read_geo(logical, where, properties)
    if kind in _LOGICAL_NAMES:
        return PrimitiveType(_LOGICAL_NAMES[kind])
    if kind == "Int":
        return PrimitiveType(f"{'int' if logical['isSigned'] else 'uint'}{logical['bitWidth']}")
    if kind == "Decimal":
        return PrimitiveType(f"decimal({logical['precision']}, {logical['scale']})")
    if kind in ("Time", "Timestamp") and logical["timeUnit"] in _UNITS:
        zone = "tz" if logical["isAdjustedToUTC"] else ""
        return PrimitiveType(f"{kind.lower()}{zone}{_UNITS[logical['timeUnit']]}")
    if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY":
        return PrimitiveType(f"fixed({leaf.length})")
    return PrimitiveType(_PHYSICAL_NAMES[leaf.physical_type])


def _read_geo(logical: Mapping[str, Any], where: str, properties: Mapping[str, str]) -> GeometryType | GeographyType:
    try:
        # Parquet, Coordinate Reference System: OGC:CRS84 unless the type names another.
        text = logical.get("crs") or ""
        crs = Crs.parse(text, properties=properties) if text else CRS84
        if logical["Type"] == "Geometry":
            return GeometryType(crs)
        return GeographyType(crs, EdgeAlgorithm.parse(logical.get("algorithm") or "spherical"))
    except GeolakeError as problem:
        raise SchemaError(problem.what, where=where, remedy=problem.remedy) from problem


def _file_properties(source: pq.FileMetaData | pq.ParquetSchema) -> dict[str, str]:
    stored = getattr(source, "metadata", None) or {}
    return {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in stored.items()
        if key != b"ARROW:schema"
    }


def to_arrow_type(type: GeometryType | GeographyType) -> pa.DataType:
    """The Arrow type whose columns pyarrow writes as Parquet's GEOMETRY or GEOGRAPHY.

    >>> to_arrow_type(GeometryType(Crs("EPSG:3857"))).extension_name
    'geoarrow.wkb'
    """
    import geoarrow.types as ga

    if type.encoding is not GeometryEncoding.WKB:
        raise SchemaError(
            f"Parquet's geo types store WKB, not {type.encoding.value}", remedy="convert the values to ISO WKB first"
        )
    edges = ga.EdgeType.PLANAR
    if isinstance(type, GeographyType):
        # pyarrow's writer refuses every other edge type.
        if type.algorithm is not EdgeAlgorithm.SPHERICAL:
            raise SchemaError(
                f"pyarrow cannot write GEOGRAPHY with {type.algorithm.value} edges",
                remedy="use spherical edges, or keep the column as binary",
            )
        edges = ga.EdgeType.SPHERICAL
    # geoarrow parses a text that is JSON: a name such as 4326 must not become a number.
    text = type.crs.text if type.crs.form is not CrsForm.OTHER else json.dumps(type.crs.text)
    return ga.wkb(crs=ga.crs.StringCrs(text), edge_type=edges).to_pyarrow()


# parquet.thrift: the numbers of the fields.
_ROW_GROUPS, _COLUMNS, _CHUNK_META, _PATH, _GEO_STATISTICS, _GEO_TYPES = 4, 1, 3, 3, 17, 2
# A list of at least two i32 in the compact protocol, one or two fields after the last one, which ends its struct. No
# code is 0, as which the encoding PLAIN is written, so that most lists of encodings end the match at once.
_LIST = re.compile(
    rb"[\x19\x29][\x25\x35\x45\x55\x65\x75\x85\x95\xa5\xb5\xc5\xd5\xe5\xf5]"
    rb"(?=(?:[\x80-\xff]?[\x01-\x7f]){2,}\x00)"
)

_repeated: dict[int, dict[str, list[int]]] = {}
"""By the identity of the footer, as long as it exists: hardly any footer has repeated types."""


def note_repeated_types(metadata: pq.FileMetaData, footer: bytes) -> None:
    """Store the result of `repeated_types` for a footer, from its bytes, which Arrow does not keep."""
    # A walk in Python takes milliseconds, and is for the few footers with a list that repeats a number.
    if not any(_repeats(footer, match.start() + 1) for match in _LIST.finditer(footer)):
        return
    repeated: dict[str, set[int]] = {}
    for path, codes in _type_lists(read_struct(footer)):
        twice = {code for code in codes if codes.count(code) > 1}
        if twice:
            repeated.setdefault(path, set()).update(twice)
    if repeated:
        _repeated[id(metadata)] = {path: sorted(codes) for path, codes in repeated.items()}
        weakref.finalize(metadata, _repeated.pop, id(metadata), None)


def repeated_types(metadata: pq.FileMetaData) -> dict[str, list[int]]:
    """The codes that a row group lists more than once, by the path of the column in the file.

    >>> import io, pyarrow as pa, pyarrow.parquet as pq
    >>> file = io.BytesIO()
    >>> pq.write_table(pa.table({"id": [1]}), file)
    >>> repeated_types(pq.read_metadata(file))
    {}
    """
    return _repeated.get(id(metadata), {})


def _repeats(footer: bytes, position: int) -> bool:
    """Whether the list of integers with its header at this position has duplicates; a long list counts as if it had."""
    count = footer[position] >> 4
    if count == 15:
        return True
    seen: set[bytes] = set()
    start = position + 1
    for _ in range(count):
        end = start
        while end < len(footer) and footer[end] & 0x80:
            end += 1
        seen.add(footer[start : end + 1])
        start = end + 1
    return len(seen) < count


def _type_lists(tree: Struct) -> Iterator[tuple[str, list[int]]]:
    for group in _structs(tree.get(_ROW_GROUPS)):
        for chunk in _structs(group.get(_COLUMNS)):
            meta = chunk.get(_CHUNK_META)
            statistics = meta.get(_GEO_STATISTICS) if isinstance(meta, Struct) else None
            codes = statistics.get(_GEO_TYPES) if isinstance(statistics, Struct) else None
            path = meta.get(_PATH) if isinstance(meta, Struct) else None
            if isinstance(codes, ListValue) and isinstance(path, ListValue):
                names = [name.decode(errors="replace") for name in path.items if isinstance(name, bytes)]
                yield ".".join(names), [code for code in codes.items if isinstance(code, int)]


def _structs(value: object) -> Iterator[Struct]:
    if isinstance(value, ListValue):
        yield from (item for item in value.items if isinstance(item, Struct))


FOOTER_FACTS = pa.schema(
    [
        (name, pa.string())
        for name in (
            "path",
            "column",
            "logical_type",
            "crs",
            "algorithm",
            "geoparquet_crs",
            "created_by",
            "repeated_types",
        )
    ]
)
"""A row for each file and geo column of the table.

`logical_type` is `GEOMETRY`, `GEOGRAPHY` or null; `crs` and `algorithm` are those of that type. `geoparquet_crs` is
null without GeoParquet metadata, and `SRID:0` where it declares that the CRS is unknown. `repeated_types` has the type
codes that the statistics of a row group list more than once, null where there are none.
"""


def footer_facts(
    files: Iterable[tuple[str, FileView]], schema: Schema, fields: Mapping[str, FileField] | None = None
) -> pa.Table:
    """The types of the geo columns of a table in the footers of these files; a file without the column has no row.

    The path of each file is as stored in the table, so that it can be found in the file table; `fields` specify how the
    files name the columns, by path; without it, by their names.

    >>> from geolake_nb.model.schema import Schema
    >>> footer_facts([], Schema()).num_rows
    0
    """
    wanted = [
        (path, FileField(split_path(path)) if fields is None else fields[path])
        for path, field in schema.geo_columns()
        if isinstance(field.type, (GeometryType, GeographyType))
    ]
    leaves: dict[int, dict[str, DataType]] = {}
    rows: list[tuple[str | None, ...]] = []
    for file, view in files:
        stored = view.parquet_schema
        if id(stored) not in leaves:
            leaves[id(stored)] = {
                field.metadata[PATH_KEY]: field.type for _, field in stored.walk_parts() if PATH_KEY in field.metadata
            }
        repeated = repeated_types(view.metadata)
        for path, here in wanted:
            file_column = view.find(here.parts, field_id=here.id)
            if file_column is None:
                continue
            native = leaves[id(stored)].get(file_column.metadata.get(PATH_KEY, ""))
            geo = view.geo_of(file_column)
            crs = None if geo is None else _text(geo.crs)
            twice = repeated.get(file_column.metadata.get(PATH_KEY, ""), ())
            codes = ", ".join(map(str, twice)) or None
            rows.append((file, path, *_native(native), crs, view.metadata.created_by, codes))
    columns = list(zip(*rows, strict=True)) or [()] * len(FOOTER_FACTS)
    return pa.Table.from_arrays([pa.array(column, pa.string()) for column in columns], schema=FOOTER_FACTS)


def _native(type_: DataType | None) -> tuple[str | None, str | None, str | None]:
    if isinstance(type_, GeometryType):
        return "GEOMETRY", _text(type_.crs), None
    if isinstance(type_, GeographyType):
        return "GEOGRAPHY", _text(type_.crs), type_.algorithm.value
    return None, None, None


def _text(crs: Crs) -> str:
    # A reference to a property of the file is meaningless outside of it.
    return crs.text if crs.resolved is None else crs.resolved
