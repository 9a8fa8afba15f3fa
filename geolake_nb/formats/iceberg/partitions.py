"""Iceberg's partition transforms and the partition values of files."""

from __future__ import annotations

import base64
import dataclasses
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.changes.write_job import KeyColumn, RowPartitions, require_partition_columns
from geolake_nb.errors import CorruptTableError, RefusedError, SchemaError, UnsupportedTableError
from geolake_nb.formats.iceberg.bounds import arrow_type, decode_single_values, to_single_value
from geolake_nb.formats.iceberg.metadata import FIRST_PARTITION_ID, PartitionField
from geolake_nb.model.schema import children, join_path
from geolake_nb.model.types import DataType, PrimitiveType, StringType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from geolake_nb.formats.iceberg.avro import EntryColumns
    from geolake_nb.formats.iceberg.metadata import PartitionSpec
    from geolake_nb.formats.iceberg.snapshot import IcebergDetails
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Snapshot

__all__ = [
    "PREFIX",
    "PartitionColumns",
    "PartitionTuple",
    "can_transform",
    "partition_fields",
    "partition_groups",
    "partition_ids",
    "partition_keys",
    "partition_list",
    "partition_of_key",
    "result_type",
    "row_partitions",
    "transformed",
]

PREFIX = "partition."
_INTEGERS = ("bucket", "hour", "month", "year")


class PartitionColumns:
    """One column for each name that a partition field has in any spec of the table."""

    def __init__(self, specs: Mapping[int, PartitionSpec], schema: Schema) -> None:
        self._specs = specs
        by_id = {column.id: column.type for _, column in schema.walk() if column.id is not None}
        self._sources: dict[tuple[str, int], DataType | None] = {}
        types: dict[str, pa.DataType] = {}
        for spec in specs.values():
            for field in spec.fields:
                result = result_type(field, by_id.get(field.source_id))
                self._sources[field.name, spec.spec_id] = result
                kind = (arrow_type(result) if result is not None else None) or pa.string()
                # Two specs may use one name for values of two types: strings can represent both.
                types[field.name] = kind if types.get(field.name, kind) == kind else pa.string()
        self._types = types

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Arrow types by the names of the columns."""
        return {f"{PREFIX}{name}": kind for name, kind in self._types.items()}

    def read(self, entries: EntryColumns, spec_id: int) -> dict[str, pa.Array]:
        """The columns for the entries of a manifest; null for fields that its spec does not have."""
        if spec_id not in self._specs:
            known = ", ".join(map(str, sorted(self._specs)))
            what = f"the manifest has the partition spec {spec_id}, which the table lacks"
            raise CorruptTableError(what, where=entries.where, remedy=f"known specs: {known}")
        stored = {field.name: field for field in self._specs[spec_id].fields}
        columns = {}
        for name, kind in self._types.items():
            if name not in stored:
                columns[f"{PREFIX}{name}"] = pa.nulls(len(entries), kind)
                continue
            avro, values = entries.partition(stored[name].field_id, name)
            values = _typed(avro, values, self._sources[name, spec_id])
            columns[f"{PREFIX}{name}"] = values if values.type == kind else _as(values, kind)
        return columns


def result_type(field: PartitionField, source: DataType | None) -> DataType | None:
    """The type of a partition value; `None` for one that is shown as stored."""
    name = field.transform.partition("[")[0]
    if name in _INTEGERS:
        return PrimitiveType("int32")
    if name == "day":
        return PrimitiveType("date")
    if name in ("identity", "truncate", "void") and source is not None and not children(source):
        return source
    return None


def partition_list(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values as Python objects; dates and times as Iceberg's numbers, since Python's range is smaller.

    >>> partition_list(pa.array([-800_000, None], pa.int32()).cast(pa.date32())), partition_list(pa.array(["a"]))
    ([-800000, None], ['a'])
    """
    if pa.types.is_temporal(values.type):
        values = values.cast(pa.int32() if values.type.bit_width == 32 else pa.int64())
    items: list[Any] = values.to_pylist()
    return items


def _typed(avro: str, values: pa.Array, result: DataType | None) -> pa.Array:
    target = arrow_type(result) if result is not None else None
    if avro in ("int", "long", "enum", "boolean", "null"):
        return values if target is None else _as_number(values, target)
    if avro in ("float", "double"):
        kind = PrimitiveType("float32" if avro == "float" else "float64")
        numbers = decode_single_values(values, kind)
        return numbers if target is None or numbers is None else numbers.cast(target)
    if result is not None and target is not None:
        # Avro encodes decimals, UUIDs and strings like bounds.
        decoded = decode_single_values(values, result)
        if decoded is not None:
            return decoded
    return _as(values, pa.string())


def _as_number(values: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(target):
        return values.cast(pa.bool_())
    if pa.types.is_date(target) or pa.types.is_int32(target):
        numbers = np.clip(values.fill_null(0).to_numpy(zero_copy_only=False), -(2**31), 2**31 - 1).astype(np.int32)
        array = pa.array(numbers, mask=values.is_null().to_numpy(zero_copy_only=False))
        return array.view(target)
    if pa.types.is_temporal(target):
        return values.view(target)
    return _as(values, target)


def _as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The values cast; those that do not fit become strings or null."""
    try:
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if not pa.types.is_string(kind):
            return pa.nulls(len(values), kind)
        texts: list[Any] = [None if value is None else str(value) for value in values.to_pylist()]
        return pa.array(texts, pa.string())


_NAME = re.compile(r"(bucket|truncate)\[([1-9][0-9]{0,8})\]|(day|hour|month|year)")
_TIMES = ("timestamp", "timestamp_ns", "timestamptz", "timestamptz_ns")
_BUCKETS = ("binary", "date", "int32", "int64", "time", "uuid", *_TIMES)
_CUTS = ("binary", "int32", "int64")
_SECOND = {"": 1_000_000, "_ns": 1_000_000_000}
_HOUR, _DAY = 3600, 86_400
_MARK = "="
"""Prefix of the bytes of a value, to distinguish an empty string from null."""


def can_transform(transform: str, type_: DataType) -> bool:
    """Whether a transform is known and accepts this type.

    >>> can_transform("bucket[4]", PrimitiveType("int64")), can_transform("hour", PrimitiveType("date"))
    (True, False)
    """
    match = _NAME.fullmatch(transform)
    if match is None:
        return False
    if isinstance(type_, StringType):
        return match[1] is not None
    if not isinstance(type_, PrimitiveType):
        return False
    name = type_.name.partition("(")[0]
    if match[1] is not None:
        wide = name == "decimal" or (name == "fixed" and match[1] == "bucket")
        return wide or name in (_BUCKETS if match[1] == "bucket" else _CUTS)
    return name in _TIMES or (name == "date" and match[3] != "hour")


def partition_keys(transform: str, type_: DataType, values: pa.Array) -> pa.Array:
    """The partition value of each row as a string key; null for null.

    >>> keys = partition_keys("truncate[1]", StringType(), pa.array(["", "ab", None, "ac"]))
    >>> keys.to_pylist(), [partition_of_key(key) for key in keys.to_pylist()]
    (['=', '=YQ==', None, '=YQ=='], ['', 'YQ==', None, 'YQ=='])
    """
    result = result_type(PartitionField("", 0, transform, 0), type_)
    assert result is not None
    encoded = values.dictionary_encode()
    results = partition_list(transformed(transform, type_, encoded.dictionary))
    packed = [to_single_value(value, result) for value in results]
    texts = [None if data is None else _MARK + base64.b64encode(data).decode() for data in packed]
    return pa.array(texts, pa.string()).take(encoded.indices)


def partition_of_key(key: str | None) -> str | None:
    """The value of a key, in base64."""
    return None if key is None else key.removeprefix(_MARK)


def transformed(transform: str, type_: DataType, values: pa.Array) -> pa.Array:
    """The partition values of these values, which may be represented by integers.

    >>> import datetime as dt
    >>> transformed("month", PrimitiveType("date"), pa.array([dt.date(1970, 2, 1), dt.date(1969, 12, 31), None]))
    <pyarrow.lib.Int32Array object at ...>
    [
      1,
      -1,
      null
    ]
    """
    match = _NAME.fullmatch(transform)
    if match is None or not can_transform(transform, type_):
        raise SchemaError(f"the transform {transform} does not accept this type")
    if match[1] == "bucket":
        return _masked((_hashes(type_, values) & 0x7FFFFFFF) % int(match[2]), values)
    if match[1] == "truncate":
        return _cut(values, int(match[2]), type_)
    return _since_1970(match[3], type_, values)


def _masked(numbers: NDArray[np.int64], values: pa.Array) -> pa.Array:
    return pa.array(numbers.astype(np.int32), mask=values.is_null().to_numpy(zero_copy_only=False))


def _numbers(values: pa.Array) -> NDArray[np.int64]:
    """Integers, and the numbers of times and dates; 0 for null."""
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    numbers: NDArray[np.int64] = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return numbers


def _cut(values: pa.Array, width: int, type_: DataType) -> pa.Array:
    # Iceberg, Truncate Transform: v - (v mod W) with a remainder that is not negative; L characters or bytes.
    if isinstance(type_, StringType):
        return pc.utf8_slice_codeunits(values, 0, width)
    if pa.types.is_decimal(values.type):
        whole = [None if value is None else int(value.scaleb(values.type.scale)) for value in values.to_pylist()]
        kept = [None if number is None else number - number % width for number in whole]
        return pa.array(
            [None if number is None else _decimal(number, values.type.scale) for number in kept], values.type
        )
    if pa.types.is_integer(values.type):
        numbers = _numbers(values)
        kept = pa.array(numbers - numbers % width, mask=values.is_null().to_numpy(zero_copy_only=False))
        return kept.cast(values.type, safe=False)  # Iceberg for Java wraps around below the minimum
    return pa.array([None if value is None else value[:width] for value in values.to_pylist()], pa.binary())


def _decimal(unscaled: int, scale: int) -> object:
    from decimal import Context, Decimal

    return Decimal(unscaled).scaleb(-scale, Context(prec=60))


def _since_1970(unit: str, type_: DataType, values: pa.Array) -> pa.Array:
    """Years, months, days or hours, rounded down."""
    assert isinstance(type_, PrimitiveType)
    numbers = _numbers(values)
    if type_.name != "date":
        second = _SECOND["_ns" if type_.name.endswith("_ns") else ""]
        if unit == "hour":
            return _masked(numbers // (_HOUR * second), values)
        numbers = numbers // (_DAY * second)
    if unit == "day":
        return _masked(numbers, values).cast(pa.date32())
    months = numbers.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    return _masked(months if unit == "month" else months // 12, values)


def _hashes(type_: DataType, values: pa.Array) -> NDArray[np.int64]:
    # Iceberg, 32-bit Hash Requirements: numbers and times as 8 bytes, decimals as the fewest bytes, big end first.
    if pa.types.is_decimal(values.type):
        whole = [0 if value is None else int(value.scaleb(values.type.scale)) for value in values.to_pylist()]
        return _murmur3(
            [number.to_bytes((8 + (number + (number < 0)).bit_length()) // 8, "big", signed=True) for number in whole]
        )
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _murmur3([b"" if text is None else text.encode() for text in values.to_pylist()])
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _murmur3([b"" if data is None else data for data in values.to_pylist()])
    numbers = _numbers(values)
    if isinstance(type_, PrimitiveType) and type_.name.endswith("_ns"):
        numbers = numbers // 1000  # in microseconds, rounded down
    packed = numbers.astype("<i8").tobytes()
    return _murmur3([packed[start : start + 8] for start in range(0, len(packed), 8)])


def _murmur3(values: Iterable[bytes]) -> NDArray[np.int64]:
    """MurmurHash3, x86 and 32 bits, with the seed 0.

    >>> _murmur3([b"iceberg", b""]).tolist()
    [1210000089, 0]
    """
    import mmh3

    return np.fromiter(map(mmh3.hash, values), np.int64)


@dataclass(frozen=True, slots=True)
class PartitionTuple:
    """A partition: its spec, and by the ids of its fields the values, Iceberg's single values as base64."""

    spec_id: int
    values: Mapping[str, str | None] = dataclasses.field(default_factory=dict, hash=False)


def partition_groups(
    snapshot: Snapshot, indices: NDArray[np.int64]
) -> tuple[tuple[PartitionTuple, ...], NDArray[np.int64]]:
    """The partitions of the files at these indices, and which of them each file is in."""
    details: IcebergDetails = snapshot.details
    table = snapshot.files.table.take(pa.array(indices))
    names = [name for name in table.column_names if name.startswith(PREFIX)]
    columns = [partition_list(table[name]) for name in names]
    keys: dict[tuple[Any, ...], int] = {}
    codes: list[int] = []
    groups: list[PartitionTuple] = []
    for index, spec_id in enumerate(table["spec_id"].to_pylist()):
        partition = dict(zip(names, (column[index] for column in columns), strict=True))
        # NaN does not equal itself, and -0.0 and 0.0 are two partition values.
        key = (spec_id, *map(repr, partition.values()))
        if key not in keys:
            keys[key] = len(groups)
            groups.append(_tuple(snapshot, details.specs[spec_id], partition, table))
        codes.append(keys[key])
    return tuple(groups), np.array(codes, np.int64)


def _tuple(snapshot: Snapshot, spec: PartitionSpec, partition: Mapping[str, Any], table: pa.Table) -> PartitionTuple:
    types = {column.id: column.type for _, column in snapshot.schema.walk() if column.id is not None}
    values: dict[str, str | None] = {}
    for part in spec.fields:
        name, value = f"{PREFIX}{part.name}", partition[f"{PREFIX}{part.name}"]
        result = result_type(part, types.get(part.source_id))
        packed = None if result is None else to_single_value(value, result)
        known = result is not None and arrow_type(result) == table.schema.field(name).type
        if value is not None and (packed is None or not known):
            what = f"the values of the partition field {part.name!r} cannot be rewritten"
            raise UnsupportedTableError(what, where=snapshot.location)
        values[str(part.field_id)] = None if packed is None else base64.b64encode(packed).decode()
    return PartitionTuple(spec.spec_id, values)


def partition_ids(partition_by: Sequence[str]) -> dict[str, int]:
    """The ids of the partition fields of a new table, by column.

    >>> partition_ids(["year", "region"])
    {'year': 1000, 'region': 1001}
    """
    return {name: FIRST_PARTITION_ID + index for index, name in enumerate(partition_by)}


def partition_fields(schema: Schema, partition_by: Sequence[str], *, where: str) -> list[dict[str, Any]]:
    """The fields of the partition spec of a new table, with the identity transform."""
    columns = {field.name: field for field in schema.fields}
    require_partition_columns(schema, partition_by, where)
    for name in partition_by:
        if not isinstance(columns[name].type, (PrimitiveType, StringType)):
            what = f"a table cannot be partitioned by the column {join_path((name,))!r}: it is not a plain value"
            raise SchemaError(what, where=where)
    if len(set(partition_by)) < len(partition_by):
        raise SchemaError("a partition column is listed twice", where=where)
    return [
        {"name": name, "transform": "identity", "source-id": columns[name].id, "field-id": id_}
        for name, id_ in partition_ids(partition_by).items()
    ]


def row_partitions(snapshot: Snapshot) -> RowPartitions:
    """The partitioning of new rows by the default partition spec; raises where it is not supported."""
    details: IcebergDetails = snapshot.details
    fields: dict[str, int] = {}
    keys: dict[str, KeyColumn] = {}
    described: list[str] = []
    tops = {field.id: field for field in snapshot.schema.fields}
    taken = {field.name.casefold() for field in snapshot.schema.fields}
    for field in details.specs[details.metadata.default_spec_id].fields:
        if field.transform == "void":
            continue
        source = tops.get(field.source_id)
        if source is None or not (field.transform == "identity" or can_transform(field.transform, source.type)):
            what = f"the table is partitioned by {field.describe(field.name)}, which is not supported"
            raise RefusedError(
                what, where=snapshot.location, remedy="add the rows with an engine that supports the transform"
            )
        name = source.name
        if field.transform != "identity":
            name = f"__geolake_key_{len(keys)}"
            while name in taken:
                name += "_"
            keys[name] = KeyColumn(source.name, field.transform, source.type)
        fields[name] = field.field_id
        described.append(field.describe(source.name))
    return RowPartitions(fields, keys, tuple(described))
