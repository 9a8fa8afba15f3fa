"""Which files of an Iceberg or Havasu table are in one partition: of one spec, with the same values."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from geolake_nb.errors import UnsupportedTableError
from geolake_nb.formats.iceberg.bounds import arrow_type
from geolake_nb.formats.iceberg.partition_values import PREFIX, partition_list, result_type
from geolake_nb.formats.iceberg.single_values import to_single_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from geolake_nb.formats.iceberg.details import IcebergDetails
    from geolake_nb.formats.iceberg.metadata import PartitionSpec
    from geolake_nb.model.snapshot import Snapshot

__all__ = ["PartitionTuple", "partition_groups"]


@dataclass(frozen=True, slots=True)
class PartitionTuple:
    """A partition: its spec, and by the ids of its fields the values, Iceberg's single values as base64."""

    spec_id: int
    values: Mapping[str, str | None] = field(default_factory=dict, hash=False)


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
