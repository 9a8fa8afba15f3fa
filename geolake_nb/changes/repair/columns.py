"""Which geo columns of a table have bounds that can be repaired, and why the others have none."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from geolake_nb.errors import SchemaError
from geolake_nb.model.schema import join_path, type_name
from geolake_nb.model.snapshot import geo_file_fields
from geolake_nb.model.types import GeographyType, GeometryType, ListType, MapType, RasterType
from geolake_nb.scan.value_scan import ScanColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from geolake_nb.model.snapshot import Snapshot
    from geolake_nb.model.types import Field

    WhyNot = Callable[[tuple[str, ...], bool], str | None]

__all__ = ["repair_columns"]

_SHAPES = (GeometryType, GeographyType)


def repair_columns(
    snapshot: Snapshot, names: Sequence[str] | None, why_not: WhyNot, *, rasters: bool = False
) -> tuple[tuple[ScanColumn, ...], tuple[str, ...]]:
    """The geo columns of these names, or all, whose bounds can be repaired; a sentence about each other one.

    `why_not` takes the path of a column and whether it is inside a list or a map, and gives that sentence.
    """
    columns: list[ScanColumn] = []
    notes: list[str] = []
    files = geo_file_fields(snapshot)
    for column in _geo_columns(snapshot, names, (*_SHAPES, RasterType) if rasters else _SHAPES):
        path = join_path(column.parts)
        reason = why_not(column.parts, column.repeated)
        if reason is not None:
            notes.append(reason)
        else:
            here = files[path]
            is_raster = isinstance(column.type, RasterType)
            columns.append(ScanColumn(path, here.parts, here.id, column.box_type, is_raster))
    return tuple(columns), tuple(notes)


class _GeoColumn(NamedTuple):
    parts: tuple[str, ...]
    type: GeometryType | GeographyType | RasterType
    repeated: bool
    """Whether it is inside a list or a map."""

    @property
    def box_type(self) -> GeometryType | GeographyType:
        """The type that its boxes have: those of rasters are geographic."""
        return GeographyType() if isinstance(self.type, RasterType) else self.type


def _geo_columns(snapshot: Snapshot, names: Sequence[str] | None, kinds: tuple[type, ...]) -> Iterator[_GeoColumn]:
    """The columns of these types and names."""
    wanted = None if names is None else [_named(snapshot, name, kinds) for name in names]
    repeated: set[tuple[str, ...]] = set()
    for parts, field in snapshot.schema.walk_parts():
        if parts[:-1] in repeated or isinstance(field.type, ListType | MapType):
            repeated.add(parts)
        type_ = field.type
        if not isinstance(type_, GeometryType | GeographyType | RasterType) or not isinstance(type_, kinds):
            continue
        if wanted is None or any(field is geo_field for geo_field in wanted):
            yield _GeoColumn(parts, type_, parts in repeated)


def _named(snapshot: Snapshot, name: str, kinds: tuple[type, ...]) -> Field:
    field = snapshot.schema.find(name)
    if not isinstance(field.type, kinds):
        geo = sorted(path for path, field in snapshot.schema.geo_columns() if isinstance(field.type, kinds))
        raise SchemaError(
            f"the column {name!r} is of type {type_name(field.type)} and has no box",
            where=snapshot.location,
            remedy=f"use one of: {', '.join(geo)}" if geo else "the table has no geo column",
        )
    return field
