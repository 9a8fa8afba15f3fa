"""How new rows of an Iceberg or Havasu table are partitioned: by columns or by transforms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from geolake_nb.errors import SchemaError
from geolake_nb.model.types import Field, StringType, StructType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from geolake_nb.model.schema import Schema
    from geolake_nb.model.types import DataType

__all__ = ["KeyColumn", "RowPartitions", "require_partition_columns"]


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column that is computed to partition files and is not stored in them: see `transforms.partition_keys`."""

    source: str
    transform: str
    type: DataType
    """Of the source."""


@dataclass(frozen=True, slots=True, eq=False)
class RowPartitions:
    """The columns that partition new rows, in the order of the partition spec."""

    fields: Mapping[str, int]
    """With the ids of their partition fields."""
    keys: Mapping[str, KeyColumn]
    """Those that are computed."""
    described: tuple[str, ...]
    """As in SQL."""

    def with_keys(self, schema: Schema) -> Schema:
        """The columns of the rows and the computed keys."""
        return replace(schema, root=StructType((*schema.fields, *(Field(name, StringType()) for name in self.keys))))


def require_partition_columns(schema: Schema, partition_by: Iterable[str], where: str) -> None:
    """Raise where a table would be partitioned by a column that it does not have."""
    known = {field.name for field in schema.fields}
    for name in partition_by:
        if name not in known:
            remedy = f"use one of: {', '.join(sorted(known))}"
            raise SchemaError(f"no column {name!r} to partition by", where=where, remedy=remedy)
