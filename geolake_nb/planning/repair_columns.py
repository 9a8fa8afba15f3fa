"""Which geo columns a Delta table keeps statistics of, and why it keeps none of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.core.schema import join_path, type_name
from geolake_nb.core.types import GeographyType, GeometryType, ListType, MapType
from geolake_nb.errors import SchemaError
from geolake_nb.formats.value_scan import ScanColumn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from geolake_nb.core.types import Field
    from geolake_nb.formats.snapshot import Snapshot

__all__ = ["repair_columns"]


def repair_columns(snapshot: Snapshot, names: Sequence[str] | None) -> tuple[tuple[ScanColumn, ...], tuple[str, ...]]:
    """The columns of these names, or all, whose bounds can be mended; and a sentence about each other geo column."""
    wanted = None if names is None else [_named(snapshot, name) for name in names]
    columns: list[ScanColumn] = []
    says: list[str] = []
    repeated: set[tuple[str, ...]] = set()
    for parts, field in snapshot.schema.walk_parts():
        if parts[:-1] in repeated or isinstance(field.type, ListType | MapType):
            repeated.add(parts)
        if not isinstance(field.type, GeometryType | GeographyType):
            continue
        if wanted is not None and not any(field is one for one in wanted):
            continue
        path = join_path(parts)
        if parts in repeated:
            says.append(f"{path} is inside a list or a map, of which Delta keeps no statistics.")
        elif parts not in snapshot.details.indexed:
            says.append(
                f"{path} is not among the columns that the table keeps statistics of; name it in"
                " delta.dataSkippingStatsColumns, or raise delta.dataSkippingNumIndexedCols."
            )
        else:
            physical = snapshot.details.column_mapping.physical(snapshot.schema, parts)
            columns.append(ScanColumn(path, physical, field.id, field.type))
    return tuple(columns), tuple(says)


def _named(snapshot: Snapshot, name: str) -> Field:
    field = snapshot.schema.find(name)
    if not isinstance(field.type, GeometryType | GeographyType):
        geo = [
            path for path, one in snapshot.schema.geo_columns() if isinstance(one.type, GeometryType | GeographyType)
        ]
        raise SchemaError(
            f"the column {name!r} is of type {type_name(field.type)} and has no box",
            where=snapshot.location,
            remedy=f"use one of: {', '.join(sorted(geo))}" if geo else "the table has no geo column",
        )
    return field
