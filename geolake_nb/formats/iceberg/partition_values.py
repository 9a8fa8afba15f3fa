"""The partition values of files, with the result types of their transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from geolake_nb.errors import CorruptTableError
from geolake_nb.formats.iceberg.bounds import arrow_type, decode_single_values
from geolake_nb.model.schema import children
from geolake_nb.model.types import DataType, PrimitiveType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.formats.iceberg.entry_columns import EntryColumns
    from geolake_nb.formats.iceberg.metadata import PartitionField, PartitionSpec
    from geolake_nb.model.schema import Schema

__all__ = ["PREFIX", "PartitionColumns", "partition_list", "result_type"]

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
