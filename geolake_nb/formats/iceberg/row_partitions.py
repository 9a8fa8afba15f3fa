"""How new rows of an Iceberg or Havasu table are partitioned: by columns, or by transforms of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.changes.partition_keys import KeyColumn, RowPartitions
from geolake_nb.errors import RefusedError
from geolake_nb.formats.iceberg.transforms import can_transform

if TYPE_CHECKING:
    from geolake_nb.formats.iceberg.details import IcebergDetails
    from geolake_nb.model.snapshot import Snapshot

__all__ = ["row_partitions"]


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
