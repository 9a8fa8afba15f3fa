"""The cards of a table, its schema, protocol, history and collations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.checks.rules.untyped_wkb import typing_hint
from geolake_nb.checks.table_card import card_dict, layout_sentence
from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.card_parts import (
    bar,
    card,
    command,
    engines,
    facts,
    folded,
    grid,
    left_out,
    name,
    next_line,
    plural,
    setting,
    stale_line,
    time,
    title,
)
from geolake_nb.jupyter.cards.results import counts
from geolake_nb.jupyter.html import join, tag
from geolake_nb.model.crs import CrsForm
from geolake_nb.model.schema import children, join_path, type_name
from geolake_nb.model.types import GeographyType, GeometryType, RasterType, StringType
from geolake_nb.scan.coverage import coverage
from geolake_nb.scan.engines import engine_facts
from geolake_nb.scan.explanation import bytes_text
from geolake_nb.text.messages import with_plain_urls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from geolake_nb.api.table import Table
    from geolake_nb.checks.finding import Findings
    from geolake_nb.formats.delta.collations import ColumnCollation, TableCollations
    from geolake_nb.jupyter.html import Child, Markup
    from geolake_nb.model.crs import Crs
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Feature, History, Protocol, VersionInfo
    from geolake_nb.model.types import Field
    from geolake_nb.scan.coverage import Coverage

__all__ = [
    "collated_strings",
    "features",
    "geo_columns",
    "show_collations",
    "show_history",
    "show_protocol",
    "show_schema",
    "show_table",
    "tree",
    "versions",
]

_SHOWN_FIELDS = 200
_DEEPEST = 40
_UNFOLDED_FIELDS = 12


def show_schema(schema: Schema) -> Markup:
    """The card."""
    head = tag("p", tag("strong", "Schema "), plural(len(schema.fields), "column"))
    return card("Schema", head, geo_columns(schema), tree(schema))


def tree(schema: Schema) -> Markup:
    """All fields; what is inside a struct, a list or a map opens."""
    return tag("ul", _fields(schema.fields, 1), class_="tree")


def geo_columns(schema: Schema) -> Markup | None:
    """The geometries, geographies and rasters with the names of their CRSs; `None` where there are none."""
    columns = schema.geo_columns()
    if not columns:
        return None
    rows = [[name(path), *_geo(field)] for path, field in columns[:_SHOWN_FIELDS]]
    return grid(["geo column", "type", "CRS", "CRS name"], rows)


def collated_strings(schema: Schema) -> Markup | None:
    """The strings that compare by a collation; `None` where there are none."""
    strings = [(path, field.type.collation) for path, field in schema.walk() if isinstance(field.type, StringType)]
    rows = [[name(path), name(str(collation))] for path, collation in strings if collation is not None]
    return grid(["string", "collation"], rows[:_SHOWN_FIELDS]) if rows else None


def _geo(field: Field) -> list[str | Markup]:
    type_ = field.type
    if isinstance(type_, RasterType):
        return [f"raster {type_.encoding}", "", "each raster has its own"]
    if isinstance(type_, GeographyType):
        return [f"geography, {type_.algorithm.value} edges", _crs(type_.crs), type_.crs.name]
    if isinstance(type_, GeometryType):
        return ["geometry", _crs(type_.crs), type_.crs.name]
    raise AssertionError


def _crs(crs: Crs) -> str | Markup:
    # A whole definition is long, and its first words are not informative.
    whole = {CrsForm.PROJJSON: "defined by PROJJSON", CrsForm.WKT: "defined by WKT"}
    return whole.get(crs.form) or name(crs.text, 60)


def _fields(fields: Sequence[Field], depth: int) -> list[Markup | None]:
    items: list[Markup | None] = [tag("li", _field(field, depth)) for field in fields[:_SHOWN_FIELDS]]
    more = left_out(_SHOWN_FIELDS, len(fields), "use schema.walk()")
    return items if more is None else [*items, tag("li", more)]


def _field(field: Field, depth: int) -> Markup:
    words = [type_name(field.type)]
    if not field.nullable:
        words.append("required")
    if field.id is not None:
        words.append(f"#{field.id}")
    about = [name(join_path([field.name]), 120), " ", tag("span", ", ".join(words), class_="faint")]
    if field.doc:
        about += [" ", tag("em", with_plain_urls(field.doc)[:200])]
    inside = children(field.type)
    if not inside:
        return tag("span", about)
    if depth >= _DEEPEST:
        return tag("span", about, f" with {plural(len(inside), 'field')} inside")
    below = tag("ul", _fields(inside, depth + 1))
    return tag("details", tag("summary", about), below, open=depth == 1 and len(inside) <= _UNFOLDED_FIELDS)


_SHOWN_FEATURES = 100


def show_protocol(protocol: Protocol) -> Markup:
    """The card."""
    return card("Protocol", tag("p", tag("strong", "Protocol "), protocol.summary), features(protocol.features))


def features(listed: Sequence[Feature]) -> Markup | None:
    """The features with what they mean, `None` where there are none.

    >>> features(()) is None
    True
    """
    if not listed:
        return None
    rows = [
        [
            name(feature.name),
            feature.meaning if feature.known else tag("span", feature.meaning, class_="warning"),
            _needed(feature),
        ]
        for feature in listed[:_SHOWN_FEATURES]
    ]
    return grid(["feature", "meaning", "needed to"], rows)


def _needed(feature: Feature) -> str:
    words = [word for word, is_so in (("read", feature.needed_to_read), ("write", feature.needed_to_write)) if is_so]
    return " and ".join(words) or "nothing"


_SHOWN_ENTRIES = 100
_SHOWN_DETAILS = 30


def show_history(history: History) -> Markup:
    """The card."""
    head = tag("p", tag("strong", "History "), plural(len(history), "version"))
    return card(
        "History", head, versions(history[:_SHOWN_ENTRIES]), left_out(_SHOWN_ENTRIES, len(history), "t.history()")
    )


def versions(entries: Sequence[VersionInfo]) -> Markup:
    """The versions as a table."""
    rows = [
        [str(entry.version), time(entry.timestamp), (entry.operation or "unknown")[:200], _details(entry.details)]
        for entry in entries
    ]
    return grid(["version", "time", "operation", "details"], rows, numbers=[0])


def _details(details: Mapping[str, Any]) -> Markup | None:
    if not details:
        return None
    pairs = list(details.items())[:_SHOWN_DETAILS]
    items = (tag("li", f"{str(key)[:100]}: ", setting(str(key), value)) for key, value in pairs)
    return folded(plural(len(details), "entry").replace("entrys", "entries"), tag("ul", items))


_SHOWN_STRINGS = 200
_SHOWN_FILES = 20


def show_collations(collations: TableCollations) -> Markup:
    """The card."""
    head = title("Collations", collations.location)
    if not collations.columns:
        how = command("collations", collations.location, "COLUMN=icu.de_CI")
        return card(
            "Collations",
            stale_line(collations.origin),
            head,
            tag("p", "No string has a collation. ", how, " plans one."),
        )
    rows = [_row(column, collations.file_count) for column in collations.columns[:_SHOWN_STRINGS]]
    headers = ["string", "collation", "version wanted", "files with statistics", "outdated files"]
    return card(
        "Collations",
        stale_line(collations.origin),
        head,
        grid(headers, rows),
        left_out(_SHOWN_STRINGS, len(collations.columns), "t.collations.columns"),
        next_line(collations.next_step),
    )


def _row(column: ColumnCollation, count: int) -> list[Child]:
    known: list[Child] = [name(column.path), name(str(column.collation))]
    if not column.has_statistics:
        return [*known, "no statistics", "", ""]
    have = [tag("div", name(version), f" in {files:,} of {count:,}") for version, files in column.files.items()]
    wanted = "none yet" if column.wanted is None else name(column.wanted)
    return [*known, wanted, have or "none", _stale(column)]


def _stale(column: ColumnCollation) -> Child:
    if not column.stale:
        return "none"
    items = tag("ul", [tag("li", name(path)) for path in column.stale[:_SHOWN_FILES]])
    return folded(plural(len(column.stale), "file"), items, left_out(_SHOWN_FILES, len(column.stale), "t.collations"))


_UNFOLDED_COLUMNS = 30
_SHOWN_VERSIONS = 5
_SHOWN_PROPERTIES = 50


def show_table(table: Table, findings: Findings | None = None) -> Markup:
    """The card; `findings` are those of an earlier check."""
    snapshot = table.snapshot
    known = card_dict(snapshot)
    about = [
        ("format", snapshot.format.title),
        ("version", None if snapshot.version is None else str(snapshot.version)),
        ("as of", time(snapshot.timestamp)),
        ("protocol", snapshot.protocol.summary),
        ("files", known["files"]),
        ("rows", "not known" if known["rows"] is None else known["rows"]),
        ("size", bytes_text(known["bytes"])),
        ("partitioned by", [join(name(column), " ") for column in snapshot.partition_columns] or None),
    ]
    fields = len(table.schema.fields)
    return card(
        "Table",
        stale_line(table),
        title("Table", table.location),
        facts(about),
        [_bounds(column) for column in coverage(snapshot)],
        _layout(known["layout"]),
        [tag("p", typing_hint(snapshot, column), class_="warning") for column in table.untyped_wkb.columns],
        _findings(findings),
        geo_columns(table.schema),
        collated_strings(table.schema),
        folded(f"Schema: {plural(fields, 'column')}", tree(table.schema), unfolded=fields <= _UNFOLDED_COLUMNS),
        _features(table),
        engines(engine_facts(snapshot)),
        _properties(table),
        _history(table),
        None if findings is not None else next_line(table.next_step),
    )


def _bounds(coverage: Coverage) -> Markup:
    files = f"{coverage.covered.files:,} of {plural(coverage.total.files, 'file')}"
    share = "no files" if coverage.share is None else f"{files}, {coverage.share:.0%} of the bytes"
    return tag("div", bar(coverage.share, f"bounds of {coverage.column}: {share}"))


def _layout(layout: Mapping[str, Any] | None) -> Markup | None:
    return None if layout is None else tag("div", bar(layout["share"], layout_sentence(layout)))


def _findings(findings: Findings | None) -> Markup | None:
    return None if findings is None else tag("p", "Checked: ", counts(findings), ".")


def _features(table: Table) -> Markup | None:
    shown = features(table.protocol.features)
    return None if shown is None else folded(f"Features: {len(table.protocol.features)}", shown)


def _properties(table: Table) -> Markup | None:
    if not table.properties:
        return None
    shown = list(table.properties.items())[:_SHOWN_PROPERTIES]
    rows = facts((str(key)[:100], setting(str(key), value)) for key, value in shown)
    return folded(f"Properties: {len(table.properties)}", rows)


def _history(table: Table) -> Markup | None:
    try:
        newest = table.history(newest=_SHOWN_VERSIONS)
    except GeolakeError as problem:
        return tag("p", f"The history cannot be read: {problem}", class_="warning")
    if not newest:
        return None
    return folded("Newest versions", versions(newest), tag("p", "All versions: ", command("history", table.location)))
