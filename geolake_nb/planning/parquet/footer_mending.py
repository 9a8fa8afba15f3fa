"""What is wrong with the geo columns of one Parquet footer, and the action that mends it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from geolake_nb.core.schema_parquet import PATH_KEY
from geolake_nb.core.statistics import ColumnStats, merge
from geolake_nb.errors import BoundError
from geolake_nb.formats.parquet.footer_boxes import locate
from geolake_nb.formats.parquet.footer_change import FooterChange
from geolake_nb.formats.parquet.footer_edit import ChunkStats, LeafEdit
from geolake_nb.formats.parquet.geo_property import ARROW_SCHEMA, GEO, arrow_schema_with_geo, geo_property, geo_template
from geolake_nb.formats.parquet.replace import action
from geolake_nb.planning.mending.bound_faults import holds

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from geolake_nb.core.geoparquet import GeoMetadata
    from geolake_nb.core.types import Field, GeographyType, GeometryType
    from geolake_nb.formats.parquet.footer_boxes import FooterColumn
    from geolake_nb.formats.parquet.footer_change import FileState
    from geolake_nb.formats.parquet.footer_view import FileView
    from geolake_nb.formats.parquet.value_scan import GroupStats, ScanColumn

    GeoType = GeometryType | GeographyType

__all__ = ["ColumnMend", "FileMend", "footer_action"]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnMend:
    """A geo column of one file: what is wrong with it, and whether its values have to be read."""

    column: ScanColumn
    leaf: tuple[str, ...]
    """Its names in the file, from the top down."""
    type_wrong: bool
    property_wrong: bool
    boxes_wrong: bool
    verify: bool
    bytes: int
    """Compressed, of all its values."""
    here: FooterColumn

    @classmethod
    def of(cls, view: FileView, column: ScanColumn, found: Field, *, verify: bool) -> ColumnMend:
        """What the footer lacks of a column that is there."""
        here = locate(view, found, column.type)
        path = str(found.metadata[PATH_KEY])
        assert here is not None
        assert here.leaf is not None
        groups = range(view.metadata.num_row_groups)
        type_wrong = not _same(view.parquet_fields[column.physical].type, column.type)
        boxes_wrong = type_wrong or not all(_is_bounded(here, group) for group in groups)
        size = sum(view.metadata.row_group(group).column(here.leaf).total_compressed_size for group in groups)
        return cls(
            column=column,
            leaf=(path,) if path == found.name else tuple(path.split(".")),
            type_wrong=type_wrong,
            property_wrong=len(column.physical) == 1 and _property_wrong(view, column, here, boxes_wrong=boxes_wrong),
            boxes_wrong=boxes_wrong,
            verify=verify,
            bytes=size,
            here=here,
        )

    @property
    def path(self) -> str:
        """Its path in the schema."""
        return self.column.path

    @property
    def type(self) -> GeoType:
        """What it is."""
        return self.column.type

    @property
    def scan(self) -> bool:
        """Whether its values have to be read."""
        return self.boxes_wrong or self.verify

    @property
    def needed(self) -> bool:
        """Whether there is something to do."""
        return self.type_wrong or self.property_wrong or self.scan


@dataclass(frozen=True, slots=True, eq=False)
class FileMend:
    """A file whose footer is mended."""

    state: FileState
    place: int
    """In the file table."""
    view: FileView
    columns: tuple[ColumnMend, ...]
    """All that were looked at, those that are right included."""
    properties: Mapping[str, str]
    """The definitions of CRSs that the types refer to."""


def footer_action(file: FileMend, groups: Mapping[str, list[GroupStats]], *, plain: Collection[str] = ()) -> str | None:
    """The action that mends the footer, `None` if a look at the values showed that all is right.

    `groups` are the row groups of the columns that were read, by their paths. Columns in `plain` get no other type than
    they have.
    """
    leaves: dict[tuple[str, ...], LeafEdit] = {}
    stats: dict[str, ColumnStats] = {}
    types: dict[str, GeoType] = {}
    sound = True
    rewritten = False
    for one in file.columns:
        found = groups.get(one.path)
        parts = None if found is None else [each.stats for each in found]
        wrong = parts is not None and (one.boxes_wrong or not _holds_all(one, parts))
        if (one.type_wrong or wrong) and not (one.type_wrong and one.path in plain):
            edits = None if parts is None else [_chunk(part) for part in parts]
            leaves[one.leaf] = LeafEdit(one.type, edits)
            rewritten |= edits is not None
            sound &= parts is not None and all(_is_whole(part) for part in parts)
        if len(one.column.physical) == 1:
            types[one.path] = one.type
            whole = merge(parts, type=one.type) if parts is not None and wrong else _stated(one)
            stats[one.column.physical[0]] = whole
    properties = _geo_text(file, types, stats) if leaves or any(one.property_wrong for one in file.columns) else {}
    if not leaves and not properties:
        return None
    held = {**file.properties, **properties} if leaves else properties
    own = file.view.own and not rewritten
    marked = own or (sound and rewritten and _covers_all(file, leaves))
    return action("footer", FooterChange(file.state, leaves, held, marked).to_dict())


def _is_bounded(here: FooterColumn, group: int) -> bool:
    """Whether the footer says soundly where the values of a row group lie, or that they lie nowhere."""
    part = here.stored(group)
    if part.box is not None or not part.rows or part.null_count == part.rows:
        return True
    return here.view.own and bool(part.types) and part.problem is None


def _holds_all(one: ColumnMend, parts: list[ColumnStats]) -> bool:
    """Whether the boxes in the footer hold what was read."""
    for group, part in enumerate(parts):
        stored = one.here.stored(group)
        if part.box is not None and (stored.box is None or not holds(stored.box, part.box, may_wrap=True)):
            return False
        if part.box is None and stored.box is not None and not part.only_null_or_empty:
            return False
    return True


def _property_wrong(view: FileView, column: ScanColumn, here: FooterColumn, *, boxes_wrong: bool) -> bool:
    """Whether the `geo` property lacks the column, its box or its CRS, though GeoParquet can tell of it."""
    name = column.physical[0]
    template = geo_template({name: column.type}, before=view.geo)
    if template is None or name not in template.columns:
        return view.geo is not None and name in view.geo.columns
    known = None if view.geo is None else view.geo.columns.get(name)
    if known is None or known is not template.columns[name]:
        return True
    if boxes_wrong:
        return True
    box = here.stated().box  # not widened: nobody rounds as this package does
    if box is None:
        return False
    try:
        stored = known.box
    except BoundError:
        return True
    return stored is None or not holds(stored, box, may_wrap=True)


def _stated(one: ColumnMend) -> ColumnStats:
    """What the footer says of a column whose boxes are right."""
    stated = one.here.stated()
    box = one.here.usable(stated).box
    return ColumnStats(box, stated.types, stated.rows, stated.null_count or 0, 0)


def _geo_text(file: FileMend, types: Mapping[str, GeoType], stats: Mapping[str, ColumnStats]) -> dict[str, str | None]:
    """The `geo` property, if it changes."""
    before = (file.view.metadata.metadata or {}).get(GEO.encode())
    template = geo_template(types, before=file.view.geo)
    if template is None:
        return {} if before is None else {GEO: None}
    if file.view.geo is None and before is not None:
        template = _with_extra(template, before)
    text = geo_property(template, stats)
    if before is not None and _plain(before) == json.loads(text):
        return {}
    held = (file.view.metadata.metadata or {}).get(ARROW_SCHEMA.encode())
    arrow = None if held is None else arrow_schema_with_geo(held, text)
    return {GEO: text} if arrow is None else {GEO: text, ARROW_SCHEMA: arrow}


def _with_extra(template: GeoMetadata, before: bytes) -> GeoMetadata:
    """The metadata with what else an unusable one held."""
    held = _plain(before)
    if not isinstance(held, dict):
        return template
    known = ("version", "primary_column", "columns", "schema_version")
    return replace(template, extra={key: value for key, value in held.items() if key not in known})


def _plain(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _covers_all(file: FileMend, leaves: Mapping[tuple[str, ...], LeafEdit]) -> bool:
    """Whether every geo column of the file has boxes of this package afterwards."""
    schema = file.view.metadata.schema
    geo = {
        schema.column(index).path
        for index in range(len(schema))
        if schema.column(index).logical_type.type in ("GEOMETRY", "GEOGRAPHY")
    }
    mended = {".".join(leaf) for leaf, edit in leaves.items() if edit.groups is not None}
    return file.view.own or geo <= mended


def _chunk(stats: ColumnStats) -> ChunkStats:
    unread = stats.types is None and not stats.bad
    return ChunkStats(stats.box, stats.types, None if unread else stats.rows - stats.null_count)


def _is_whole(stats: ColumnStats) -> bool:
    return stats.box is not None or stats.only_null_or_empty


def _same(stored: Any, wanted: GeoType) -> bool:
    if type(stored) is not type(wanted):
        return False
    edges = getattr(stored, "algorithm", None) == getattr(wanted, "algorithm", None)
    return edges and bool(stored.crs.same_as(wanted.crs))
