"""What is wrong with the geo columns of one Parquet footer, and the action that repairs it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from geolake_nb.changes.repair.evidence import holds
from geolake_nb.errors import BoundError
from geolake_nb.formats.parquet_folder.commit import action
from geolake_nb.formats.parquet_folder.file_changes import FooterChange
from geolake_nb.model.statistics import ColumnStats, merge
from geolake_nb.model.types import GeographyType, GeometryType
from geolake_nb.parquet.footer_boxes import locate
from geolake_nb.parquet.footer_edit import ChunkStats, LeafEdit
from geolake_nb.parquet.geo_property import ARROW_SCHEMA, GEO, arrow_schema_with_geo, geo_property, geo_template
from geolake_nb.parquet.schema import PATH_KEY

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from geolake_nb.formats.parquet_folder.file_changes import FileState
    from geolake_nb.model.types import Field, GeoType
    from geolake_nb.parquet.footer import FileView
    from geolake_nb.parquet.footer_boxes import FooterColumn
    from geolake_nb.parquet.geoparquet import GeoMetadata
    from geolake_nb.scan.value_scan import GroupStats, ScanColumn

__all__ = ["ColumnRepair", "FooterRepair", "footer_action"]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnRepair:
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
    sound: bool
    """Whether the footer is correct, so that a check finds nothing, though more could be added."""

    @classmethod
    def of(cls, view: FileView, column: ScanColumn, field: Field, *, verify: bool) -> ColumnRepair:
        """What the footer lacks for an existing column."""
        here = locate(view, field, column.type)
        path = str(field.metadata[PATH_KEY])
        assert here is not None
        assert here.leaf is not None
        groups = range(view.metadata.num_row_groups)
        type_wrong = not _same(view.parquet_fields[column.physical].type, column.type)
        boxes_wrong = type_wrong or not all(_is_bounded(here, group) for group in groups)
        size = sum(view.metadata.row_group(group).column(here.leaf).total_compressed_size for group in groups)
        property_wrong = len(column.physical) == 1 and _property_wrong(view, column, here, boxes_wrong=boxes_wrong)
        known = view.geo_of(field)
        if isinstance(view.parquet_fields[column.physical].type, GeometryType | GeographyType):
            sound = not (type_wrong or boxes_wrong) and (known is None or not property_wrong)
        else:
            # GeoParquet 1.1 requires no more than its own metadata.
            sound = known is not None and view.geo_problem is None and _is_bounded_whole(here)
        return cls(
            column=column,
            leaf=(path,) if path == field.name else tuple(path.split(".")),
            type_wrong=type_wrong,
            property_wrong=property_wrong,
            boxes_wrong=boxes_wrong,
            verify=verify,
            bytes=size,
            here=here,
            sound=sound,
        )

    @property
    def path(self) -> str:
        """Its path in the schema."""
        return self.column.path

    @property
    def type(self) -> GeoType:
        """Its type."""
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
class FooterRepair:
    """A file whose footer is repaired."""

    state: FileState
    index: int
    """In the file table."""
    view: FileView
    columns: tuple[ColumnRepair, ...]
    """All that were checked, correct ones included."""
    properties: Mapping[str, str]
    """The definitions of CRSs that the types refer to."""


def footer_action(
    file: FooterRepair, groups: Mapping[str, list[GroupStats]], *, plain: Collection[str] = ()
) -> str | None:
    """The action that repairs the footer, `None` if the values showed that all is correct.

    `groups` are the row groups of the columns that were read, by their paths. Columns in `plain` keep
    their type.
    """
    leaves: dict[tuple[str, ...], LeafEdit] = {}
    stats: dict[str, ColumnStats] = {}
    types: dict[str, GeoType] = {}
    sound = True
    rewritten = False
    for repair in file.columns:
        scanned = groups.get(repair.path)
        parts = None if scanned is None else [each.stats for each in scanned]
        wrong = parts is not None and (repair.boxes_wrong or not _holds_all(repair, parts))
        if (repair.type_wrong or wrong) and not (repair.type_wrong and repair.path in plain):
            edits = None if parts is None else [_chunk(part) for part in parts]
            leaves[repair.leaf] = LeafEdit(repair.type, edits)
            rewritten |= edits is not None
            sound &= parts is not None and all(_is_whole(part) for part in parts)
        if len(repair.column.physical) == 1:
            types[repair.path] = repair.type
            whole = merge(parts, type=repair.type) if parts is not None and wrong else _stated(repair)
            stats[repair.column.physical[0]] = whole
    properties = (
        _geo_text(file, types, stats) if leaves or any(repair.property_wrong for repair in file.columns) else {}
    )
    if not leaves and not properties:
        return None
    updated = {**file.properties, **properties} if leaves else properties
    own = file.view.own and not rewritten
    marked = own or (sound and rewritten and _covers_all(file, leaves))
    return action("footer", FooterChange(file.state, leaves, updated, marked).to_dict())


def _is_bounded(here: FooterColumn, group: int) -> bool:
    """Whether the footer has usable bounds for a row group, or shows that it has only null or empty geometries."""
    part = here.stored(group)
    if not _are_codes(part.types or ()):
        return False
    if part.box is not None or not part.rows or part.null_count == part.rows:
        return True
    return here.view.own and bool(part.types) and part.problem is None


def _is_bounded_whole(here: FooterColumn) -> bool:
    """Whether the footer has bounds for the file, or shows that there are no values."""
    whole = here.whole()
    return whole.box is not None or not whole.rows or whole.null_count == whole.rows


def _are_codes(types: Collection[int]) -> bool:
    """Whether these are ISO's type codes, each once.

    >>> _are_codes([1, 3006]), _are_codes([99]), _are_codes([1, 1])
    (True, False, False)
    """
    return len(set(types)) == len(types) and all(0 <= code < 4000 and 1 <= code % 1000 <= 7 for code in types)


def _holds_all(repair: ColumnRepair, parts: list[ColumnStats]) -> bool:
    """Whether the boxes and the type codes in the footer hold what was read."""
    for group, part in enumerate(parts):
        stored = repair.here.stored(group)
        if stored.types and not set(part.types or ()) <= set(stored.types):
            return False
        if part.box is not None and (stored.box is None or not holds(stored.box, part.box, may_wrap=True)):
            return False
        if part.box is None and stored.box is not None and not part.only_null_or_empty:
            return False
    return True


def _property_wrong(view: FileView, column: ScanColumn, here: FooterColumn, *, boxes_wrong: bool) -> bool:
    """Whether the `geo` property lacks the column, its box or its CRS, though GeoParquet can describe it."""
    name = column.physical[0]
    template = geo_template({name: column.type}, before=view.geo)
    if template is None or name not in template.columns:
        return view.geo is not None and name in view.geo.columns
    known = None if view.geo is None else view.geo.columns.get(name)
    if known is None or known is not template.columns[name]:
        return True
    if boxes_wrong:
        return True
    box = here.stated().box  # not widened: other writers round differently
    if box is None:
        return False
    try:
        stored = known.box
    except BoundError:
        return True
    return stored is None or not holds(stored, box, may_wrap=True)


def _stated(repair: ColumnRepair) -> ColumnStats:
    """The statistics in the footer of a column whose boxes are correct."""
    stated = repair.here.stated()
    box = repair.here.usable(stated).box
    return ColumnStats(box, stated.types, stated.rows, stated.null_count or 0, 0)


def _geo_text(
    file: FooterRepair, types: Mapping[str, GeoType], stats: Mapping[str, ColumnStats]
) -> dict[str, str | None]:
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
    arrow_text = (file.view.metadata.metadata or {}).get(ARROW_SCHEMA.encode())
    arrow = None if arrow_text is None else arrow_schema_with_geo(arrow_text, text)
    return {GEO: text} if arrow is None else {GEO: text, ARROW_SCHEMA: arrow}


def _with_extra(template: GeoMetadata, before: bytes) -> GeoMetadata:
    """The metadata with the extra members of an unusable one."""
    stored = _plain(before)
    if not isinstance(stored, dict):
        return template
    known = ("version", "primary_column", "columns", "schema_version")
    return replace(template, extra={key: value for key, value in stored.items() if key not in known})


def _plain(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _covers_all(file: FooterRepair, leaves: Mapping[tuple[str, ...], LeafEdit]) -> bool:
    """Whether every geo column of the file will have boxes of this package."""
    schema = file.view.metadata.schema
    geo = {
        schema.column(index).path
        for index in range(len(schema))
        if schema.column(index).logical_type.type in ("GEOMETRY", "GEOGRAPHY")
    }
    repaired = {".".join(leaf) for leaf, edit in leaves.items() if edit.groups is not None}
    return file.view.own or geo <= repaired


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
