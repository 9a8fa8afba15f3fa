"""The card of a table: format, schema, share of files with bounds, engines, and newest versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.checks.rules.untyped_wkb import typing_hint
from geolake_nb.checks.table_card import card_dict
from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.card_parts import bar, card, command, facts, folded, name, plural, setting, time, title
from geolake_nb.jupyter.cards.engines import engines
from geolake_nb.jupyter.cards.findings import counts
from geolake_nb.jupyter.cards.history import versions
from geolake_nb.jupyter.cards.protocol import features
from geolake_nb.jupyter.cards.schema import collated_strings, geo_columns, tree
from geolake_nb.jupyter.html import join, tag
from geolake_nb.scan.coverage import coverage
from geolake_nb.scan.engines import engine_facts
from geolake_nb.scan.explanation import bytes_text

if TYPE_CHECKING:
    from geolake_nb.api.table import Table
    from geolake_nb.checks.finding import Findings
    from geolake_nb.jupyter.html import Markup
    from geolake_nb.scan.coverage import Coverage

__all__ = ["show"]

_UNFOLDED = 30
_SHOWN_VERSIONS = 5
_SHOWN_PROPERTIES = 50


def show(table: Table, findings: Findings | None = None) -> Markup:
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
        title("Table", table.location),
        facts(about),
        [_bounds(column) for column in coverage(snapshot)],
        [tag("p", typing_hint(snapshot, column), class_="warning") for column in table.untyped_wkb.columns],
        _findings(table, findings),
        geo_columns(table.schema),
        collated_strings(table.schema),
        folded(f"Schema: {plural(fields, 'column')}", tree(table.schema), unfolded=fields <= _UNFOLDED),
        _features(table),
        engines(engine_facts(snapshot)),
        _properties(table),
        _history(table),
    )


def _bounds(coverage: Coverage) -> Markup:
    files = f"{coverage.covered.files:,} of {plural(coverage.total.files, 'file')}"
    share = "no files" if coverage.share is None else f"{files}, {coverage.share:.0%} of the bytes"
    return tag("div", bar(coverage.share, f"bounds of {coverage.column}: {share}"))


def _findings(table: Table, findings: Findings | None) -> Markup:
    if findings is not None:
        return tag("p", "Checked: ", counts(findings), ".")
    return tag("p", "Not checked. Run ", command("check", table.location))


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
