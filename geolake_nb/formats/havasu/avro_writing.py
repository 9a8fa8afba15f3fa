"""Avro containers read and written record by record, with all fields of their schema."""

from __future__ import annotations

import io
import json
import os
import zlib
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import CorruptTableError
from geolake_nb.formats.iceberg.avro_container import AVRO_ERRORS, read_blocks, read_header
from geolake_nb.formats.iceberg.avro_program import smallest_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from geolake_nb.formats.iceberg.avro_container import AvroHeader

__all__ = ["read_records", "write_container"]

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
