"""The Avro schemas and containers of manifests and manifest lists, with all fields kept."""

from __future__ import annotations

import copy
import io
import json
import os
import re
import zlib
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import CorruptTableError, UnsupportedTableError
from geolake_nb.formats.iceberg.avro import AVRO_ERRORS, read_blocks, read_header
from geolake_nb.formats.iceberg.avro_program import smallest_size
from geolake_nb.model.types import DataType, PrimitiveType, StringType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from geolake_nb.formats.iceberg.avro import AvroHeader
    from geolake_nb.formats.iceberg.metadata import PartitionField

__all__ = [
    "data_file_of",
    "entry_schema",
    "list_schema",
    "names_by_id",
    "partition_avro",
    "read_records",
    "with_entry_fields",
    "with_list_fields",
    "without_geo_bounds",
    "write_container",
]

_DATA_FILE = 2


def _optional(id_: int, name: str, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", type_], "default": None, "field-id": id_}


def _required(id_: int, name: str, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, "field-id": id_}


def _map(id_: int, name: str, key_id: int, value_id: int, value: str) -> dict[str, Any]:
    # Iceberg, Avro: a map whose keys are not strings is an array of pairs.
    pair = {
        "type": "record",
        "name": f"k{key_id}_v{value_id}",
        "fields": [_required(key_id, "key", "int"), _required(value_id, "value", value)],
    }
    return _optional(id_, name, {"type": "array", "items": pair, "logicalType": "map"})


_PLAIN_BOUNDS = (
    _map(125, "lower_bounds", 126, 127, "bytes"),
    _map(128, "upper_bounds", 129, 130, "bytes"),
)
# Havasu, Manifests: the fields that it adds to `data_file`.
_BOUNDS = (
    _map(1250, "geom_lower_bounds", 1260, 1270, "bytes"),
    _map(1280, "geom_upper_bounds", 1290, 1300, "bytes"),
)
_FIRST_ROW = _optional(142, "first_row_id", "long")
_NUMBERS = (
    _optional(1, "snapshot_id", "long"),
    _optional(3, "sequence_number", "long"),
    _optional(4, "file_sequence_number", "long"),
)
_CONTENT = {**_required(134, "content", "int"), "default": 0}


def entry_schema(version: int, partition: Sequence[tuple[PartitionField, Any]]) -> dict[str, Any]:
    """The schema of the entries of a new manifest; `partition` has the Avro type of each partition field.

    >>> [field["name"] for field in entry_schema(1, [])["fields"]], len(entry_schema(2, [])["fields"])
    (['status', 'snapshot_id', 'data_file'], 5)
    >>> 142 in names_by_id(data_file_of(entry_schema(3, [])))
    True
    """
    types = _named_once([type_ for _, type_ in partition])
    values = [
        _optional(field.field_id, avro_name(field.name), type_)
        for (field, _), type_ in zip(partition, types, strict=True)
    ]
    file = [
        _required(100, "file_path", "string"),
        _required(101, "file_format", "string"),
        _required(102, "partition", {"type": "record", "name": "r102", "fields": values}),
        _required(103, "record_count", "long"),
        _required(104, "file_size_in_bytes", "long"),
        _map(108, "column_sizes", 117, 118, "long"),
        _map(109, "value_counts", 119, 120, "long"),
        _map(110, "null_value_counts", 121, 122, "long"),
        _map(137, "nan_value_counts", 138, 139, "long"),
        *_PLAIN_BOUNDS,
        _optional(131, "key_metadata", "bytes"),
        _optional(132, "split_offsets", {"type": "array", "items": "long", "element-id": 133}),
        _optional(140, "sort_order_id", "int"),
        *((_FIRST_ROW,) if version > 2 else _BOUNDS),
    ]
    if version == 1:
        # Iceberg, Manifests: version 1 requires a block size, which nobody reads.
        file.insert(5, _required(105, "block_size_in_bytes", "long"))
        numbers: Sequence[dict[str, Any]] = [_required(1, "snapshot_id", "long")]
    else:
        file.insert(0, _CONTENT)
        numbers = _NUMBERS
    data_file = _required(_DATA_FILE, "data_file", {"type": "record", "name": "r2", "fields": file})
    return copy.deepcopy(
        {"type": "record", "name": "manifest_entry", "fields": [_required(0, "status", "int"), *numbers, data_file]}
    )


def _named_once(types: Sequence[Any]) -> list[Any]:
    """The types with each named type in full at its first use, and by name afterwards.

    >>> uuid = {"type": "fixed", "size": 16, "name": "uuid_fixed"}
    >>> _named_once([uuid, "long", uuid]) == [uuid, "long", "uuid_fixed"]
    True
    """
    # Avro, Names: a schema may not define a name twice.
    known: set[str] = set()
    branches: list[Any] = []
    for type_ in types:
        name = type_.get("name") if isinstance(type_, dict) else None
        branches.append(name if name in known else type_)
        if name is not None:
            known.add(name)
    return branches


def with_entry_fields(schema: Any, version: int, *, where: str) -> dict[str, Any]:
    """The schema of a manifest with the fields that a rewrite sets; existing fields stay unchanged.

    Havasu stores its bounds in additional fields, and does not use version 3.

    >>> bare = entry_schema(1, [])
    >>> [field["name"] for field in with_entry_fields(bare, 2, where="m")["fields"]][-2:]
    ['sequence_number', 'file_sequence_number']
    """
    whole = copy.deepcopy(schema)
    file = data_file_of(whole)
    if file is None:
        raise CorruptTableError("its entries have no data_file", where=where)
    if version > 1:
        _append(whole, _NUMBERS)
        _append(file, [_CONTENT])
    _append(file, (*_PLAIN_BOUNDS, _FIRST_ROW) if version > 2 else _BOUNDS)
    return dict(whole)


def without_geo_bounds(schema: Any) -> Any:
    """The schema of a manifest without the fields that Havasu adds; any other schema as it is.

    >>> without_geo_bounds(list_schema(2)) == list_schema(2)
    True
    >>> names = names_by_id(without_geo_bounds(entry_schema(2, []))["fields"][-1]["type"])
    >>> 128 in names, 1250 in names, 1280 in names
    (True, False, False)
    """
    plain = copy.deepcopy(schema)
    file = data_file_of(plain)
    if file is not None:
        names = names_by_id(file)
        added = [names.get(field["field-id"]) for field in _BOUNDS]
        file["fields"] = [field for field in file["fields"] if field["name"] not in added]
    return plain


def data_file_of(schema: Any) -> Any:
    """The schema of `data_file` in that of a manifest's entries, `None` where they have none.

    >>> data_file_of(entry_schema(2, []))["name"], data_file_of(list_schema(2))
    ('r2', None)
    """
    name = names_by_id(schema).get(_DATA_FILE)
    return next((field["type"] for field in schema["fields"] if field["name"] == name), None)


_SUMMARY = {
    "type": "record",
    "name": "r508",
    "fields": [
        _required(509, "contains_null", "boolean"),
        _optional(518, "contains_nan", "boolean"),
        _optional(510, "lower_bound", "bytes"),
        _optional(511, "upper_bound", "bytes"),
    ],
}
_COUNTS = (
    (504, "added_files_count", "int"),
    (505, "existing_files_count", "int"),
    (506, "deleted_files_count", "int"),
    (512, "added_rows_count", "long"),
    (513, "existing_rows_count", "long"),
    (514, "deleted_rows_count", "long"),
)
_SINCE_2 = (
    {**_required(517, "content", "int"), "default": 0},
    {**_required(515, "sequence_number", "long"), "default": 0},
    {**_required(516, "min_sequence_number", "long"), "default": 0},
)


def list_schema(version: int) -> dict[str, Any]:
    """The schema of a new manifest list.

    >>> [field["field-id"] for field in list_schema(1)["fields"]][:4], len(list_schema(2)["fields"])
    ([500, 501, 502, 503], 15)
    """
    fields = [
        _required(500, "manifest_path", "string"),
        _required(501, "manifest_length", "long"),
        _required(502, "partition_spec_id", "int"),
        *(_SINCE_2 if version > 1 else ()),
        _required(503, "added_snapshot_id", "long"),
        *((_optional if version == 1 else _required)(*count) for count in _COUNTS),
        _optional(507, "partitions", {"type": "array", "items": _SUMMARY, "element-id": 508}),
        _optional(519, "key_metadata", "bytes"),
        *((_optional(520, "first_row_id", "long"),) if version > 2 else ()),
    ]
    return copy.deepcopy({"type": "record", "name": "manifest_file", "fields": fields})


def with_list_fields(schema: Any, version: int) -> dict[str, Any]:
    """The schema of a manifest list with the fields that the table's version requires.

    >>> with_list_fields(list_schema(2), 2) == list_schema(2), len(with_list_fields(list_schema(1), 2)["fields"])
    (True, 15)
    """
    whole = copy.deepcopy(schema)
    _append(whole, [_optional(*count) for count in _COUNTS])
    if version > 1:
        _append(whole, _SINCE_2)
    return dict(whole)


# For writers that omit the ids; the counts also have the names of early version 1.
_IDS = {
    "added_data_files_count": 504,
    "existing_data_files_count": 505,
    "deleted_data_files_count": 506,
    **{field["name"]: field["field-id"] for version in (1, 2) for field in list_schema(version)["fields"]},
    **{field["name"]: field["field-id"] for version in (1, 2) for field in entry_schema(version, [])["fields"]},
    **{
        field["name"]: field["field-id"]
        for version in (1, 2)
        for field in entry_schema(version, [])["fields"][-1]["type"]["fields"]
    },
}
_SHARED = {"content": (517, 134), "sequence_number": (515, 3)}


def names_by_id(record: Mapping[str, Any]) -> dict[int, str]:
    """The names of a record's fields by their ids, or by their Iceberg names where they have none.

    >>> names_by_id(list_schema(1))[500]
    'manifest_path'
    """
    names: dict[int, str] = {}
    is_list = any(field.get("name") == "manifest_path" for field in record["fields"])
    for field in record["fields"]:
        name = str(field.get("name"))
        default_id = _SHARED[name][0 if is_list else 1] if name in _SHARED else _IDS.get(name, -1)
        id_ = field.get("field-id", default_id)
        if id_ >= 0:
            names[id_] = name
    return names


def _append(record: Any, fields: Sequence[Mapping[str, Any]]) -> None:
    """Add the fields whose ids the record lacks; a field of another id may already have the name."""
    known = names_by_id(record)
    taken = {other["name"] for other in record["fields"]}
    for field in copy.deepcopy(list(fields)):
        if field["field-id"] in known:
            continue
        name = field["name"]
        while name in taken:
            name += "_"
        record["fields"].append({**field, "name": name})


_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]")


def avro_name(name: str) -> str:
    """A valid Avro name: other characters are replaced by their code, as in Iceberg.

    >>> avro_name("a b"), avro_name("9"), avro_name("day")
    ('a_x20b', '_9', 'day')
    """
    sane = _NOT_IN_NAMES.sub(lambda match: f"_x{ord(match[0]):X}", name)
    return f"_{sane}" if sane[:1].isdigit() else sane


_AVRO: dict[str, Any] = {
    "binary": "bytes",
    "boolean": "boolean",
    "date": {"type": "int", "logicalType": "date"},
    "float32": "float",
    "float64": "double",
    "int32": "int",
    "int64": "long",
    "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    "uuid": {"type": "fixed", "size": 16, "logicalType": "uuid", "name": "uuid_fixed"},
}
_DECIMAL = re.compile(r"decimal\((\d+), (\d+)\)")


def partition_avro(type_: DataType, *, where: str) -> Any:
    """The Avro type of partition values.

    >>> from geolake_nb.model.types import StringType
    >>> partition_avro(StringType(), where="t"), partition_avro(PrimitiveType("decimal(9, 2)"), where="t")["size"]
    ('string', 4)
    """
    if isinstance(type_, StringType):
        return "string"
    if isinstance(type_, PrimitiveType):
        if type_.name in _AVRO:
            return _AVRO[type_.name]
        if match := _DECIMAL.fullmatch(type_.name):
            precision, scale = int(match[1]), int(match[2])
            size = decimal_size(precision)
            name = f"decimal_{precision}_{scale}"
            return {
                "type": "fixed", "size": size, "logicalType": "decimal", "precision": precision, "scale": scale,
                "name": name,
            }  # fmt: skip
    raise UnsupportedTableError("partitioning by this type is not supported", where=where)


def decimal_size(precision: int) -> int:
    """How many bytes a decimal of this precision needs.

    >>> decimal_size(9), decimal_size(38)
    (4, 16)
    """
    most: int = 10**precision
    return most.bit_length() // 8 + 1


_BLOCK = 64_000
_OWN_KEYS = ("avro.schema", "avro.codec")


def read_records(data: bytes, *, where: str) -> tuple[AvroHeader, list[dict[str, Any]]]:
    """The header and all records of a container; values are as stored, without conversion of logical types.

    >>> schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int", "field-id": 7}]}
    >>> header, records = read_records(write_container(schema, {"k": b"v"}, [{"a": 1}]), where="m0.avro")
    >>> header.schema["fields"][0]["field-id"], header.metadata["k"], records
    (7, b'v', [{'a': 1}])
    """
    import fastavro

    header = read_header(data, where=where)
    smallest = smallest_size(header.schema, where=where)
    records: list[Any] = []
    try:
        schema = fastavro.parse_schema(_stored(header.schema))
        for block in read_blocks(data, header, where=where):
            if block.records > len(block.data) // max(smallest, 1):
                raise ValueError(f"a block of {len(block.data)} bytes claims {block.records} records")
            stream = io.BytesIO(block.data)
            records += [fastavro.schemaless_reader(stream, schema, None) for _ in range(block.records)]
    except AVRO_ERRORS as problem:
        raise CorruptTableError(f"the Avro file cannot be read: {problem}", where=where) from None
    return header, records


def write_container(schema: Any, metadata: Mapping[str, bytes], records: Iterable[Mapping[str, Any]]) -> bytes:
    """A container with deflated blocks; the schema is stored as given, including what Avro itself ignores."""
    import fastavro

    stored = {key: value for key, value in metadata.items() if key not in _OWN_KEYS}
    stored |= {"avro.schema": json.dumps(schema, separators=(",", ":")).encode(), "avro.codec": b"deflate"}
    sync = os.urandom(16)
    out = io.BytesIO()
    out.write(b"Obj\x01" + _long(len(stored)))
    for key, value in stored.items():
        out.write(_long(len(key.encode())) + key.encode() + _long(len(value)) + value)
    out.write(_long(0) + sync)
    parsed = fastavro.parse_schema(_stored(schema))
    block, count = io.BytesIO(), 0

    def flush() -> None:
        engine = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        packed = engine.compress(block.getvalue()) + engine.flush()
        out.write(_long(count) + _long(len(packed)) + packed + sync)

    for record in records:
        fastavro.schemaless_writer(block, parsed, record)
        count += 1
        if block.tell() >= _BLOCK:
            flush()
            block, count = io.BytesIO(), 0
    if count:
        flush()
    return out.getvalue()


def _stored(schema: Any) -> Any:
    """The schema without logical types, so that values are read and written as stored."""
    if isinstance(schema, dict):
        return {key: _stored(value) for key, value in schema.items() if key != "logicalType"}
    return [_stored(branch) for branch in schema] if isinstance(schema, list) else schema


def _long(value: int) -> bytes:
    """A number as Avro stores it: zigzag, seven bits per byte."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    return bytes([*out, rest])
