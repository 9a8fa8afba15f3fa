"""Which geo columns of a table have bounds that can be mended, and why the others have none."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from geolake_nb.core.schema import join_path, type_name
from geolake_nb.core.types import GeographyType, GeometryType, ListType, MapType, RasterType
from geolake_nb.errors import SchemaError
from geolake_nb.formats.file_fields import geo_file_fields
from geolake_nb.formats.iceberg.single_values import MetricsMode
from geolake_nb.formats.parquet.value_scan import ScanColumn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from geolake_nb.core.types import Field
    from geolake_nb.formats.snapshot import Snapshot

__all__ = ["bounded_columns", "repair_columns"]

_SHAPES = (GeometryType, GeographyType)
_Chosen = tuple[tuple[ScanColumn, ...], tuple[str, ...]]


def repair_columns(snapshot: Snapshot, names: Sequence[str] | None) -> _Chosen:
    """The columns of these names, or all, of which a Delta table keeps statistics; a sentence about each other one."""
    columns: list[ScanColumn] = []
    says: list[str] = []
    files = geo_file_fields(snapshot)
    for column in _geo_columns(snapshot, names, _SHAPES):
        parts, path = column.parts, join_path(column.parts)
        if column.repeated:
            says.append(f"{path} is inside a list or a map, of which Delta keeps no statistics.")
        elif parts not in snapshot.details.indexed:
            says.append(
                f"{path} is not among the columns that the table keeps statistics of; name it in"
                " delta.dataSkippingStatsColumns, or raise delta.dataSkippingNumIndexedCols."
            )
        else:
            here = files[path]
            columns.append(ScanColumn(path, here.parts, here.id, column.box_type))
    return tuple(columns), tuple(says)


def bounded_columns(snapshot: Snapshot, names: Sequence[str] | None) -> _Chosen:
    """The columns of these names, or all, that have bounds in Iceberg's manifests; a sentence about each other one."""
    columns: list[ScanColumn] = []
    says: list[str] = []
    files = geo_file_fields(snapshot)
    for column in _geo_columns(snapshot, names, (*_SHAPES, RasterType)):
        parts, path = column.parts, join_path(column.parts)
        if column.repeated:
            says.append(f"{path} is inside a list or a map, of which Iceberg keeps no bounds.")
        elif not MetricsMode.of(snapshot.properties, ".".join(parts)).bounds:
            says.append(f"{path} has no bounds by the table's own property write.metadata.metrics.")
        else:
            is_raster = isinstance(column.type, RasterType)
            here = files[path]
            columns.append(ScanColumn(path, here.parts, here.id, column.box_type, is_raster))
    return tuple(columns), tuple(says)


class _GeoColumn(NamedTuple):
    parts: tuple[str, ...]
    type: GeometryType | GeographyType | RasterType
    repeated: bool
    """Whether it is inside a list or a map."""

    @property
    def box_type(self) -> GeometryType | GeographyType:
        """As what its boxes are taken: those of rasters lie on the Earth."""
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
        if wanted is None or any(field is one for one in wanted):
            yield _GeoColumn(parts, type_, parts in repeated)


def _named(snapshot: Snapshot, name: str, kinds: tuple[type, ...]) -> Field:
    field = snapshot.schema.find(name)
    if not isinstance(field.type, kinds):
        geo = sorted(path for path, one in snapshot.schema.geo_columns() if isinstance(one.type, kinds))
        raise SchemaError(
            f"the column {name!r} is of type {type_name(field.type)} and has no box",
            where=snapshot.location,
            remedy=f"use one of: {', '.join(geo)}" if geo else "the table has no geo column",
        )
    return field
