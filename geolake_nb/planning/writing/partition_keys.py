"""How new rows of an Iceberg or Havasu table are cut into partitions: by columns as they are, or by transforms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from geolake_nb.core.types import Field, StringType, StructType
from geolake_nb.errors import RefusedError
from geolake_nb.formats.iceberg.transforms import can_transform

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.core.schema import Schema
    from geolake_nb.core.types import DataType
    from geolake_nb.formats.iceberg.details import IcebergDetails
    from geolake_nb.formats.snapshot import Snapshot

__all__ = ["KeyColumn", "RowPartitions", "row_partitions"]


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column that is computed to cut files by, and is in none of them: see `transforms.partition_keys`."""

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
    """As one calls them in SQL."""

    def with_keys(self, schema: Schema) -> Schema:
        """The columns of the rows while they are on their way."""
        return replace(schema, root=StructType((*schema.fields, *(Field(name, StringType()) for name in self.keys))))


def row_partitions(snapshot: Snapshot) -> RowPartitions:
    """What the default partition spec asks of new rows; raises where that cannot be done here."""
    details: IcebergDetails = snapshot.details
    fields: dict[str, int] = {}
    keys: dict[str, KeyColumn] = {}
    described: list[str] = []
    tops = {one.id: one for one in snapshot.schema.fields}
    taken = {one.name.casefold() for one in snapshot.schema.fields}
    for field in details.specs[details.metadata.default_spec_id].fields:
        if field.transform == "void":
            continue
        source = tops.get(field.source_id)
        if source is None or not (field.transform == "identity" or can_transform(field.transform, source.type)):
            what = f"the table is partitioned by {field.describe(field.name)}, which is not computed here"
            raise RefusedError(what, where=snapshot.location, remedy="add them with an engine that has the transform")
        name = source.name
        if field.transform != "identity":
            name = f"__geolake_key_{len(keys)}"
            while name in taken:
                name += "_"
            keys[name] = KeyColumn(source.name, field.transform, source.type)
        fields[name] = field.field_id
        described.append(field.describe(source.name))
    return RowPartitions(fields, keys, tuple(described))
