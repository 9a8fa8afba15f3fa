"""The card of a table: what it is, what it holds, how much of it has bounds, who can use it, what happened to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.card_parts import bar, card, command, facts, folded, name, plural, setting, time, title
from geolake_nb.jupyter.cards.engines import engines
from geolake_nb.jupyter.cards.findings import counts
from geolake_nb.jupyter.cards.history import versions
from geolake_nb.jupyter.cards.protocol import features
from geolake_nb.jupyter.cards.schema import collated_strings, geo_columns, tree
from geolake_nb.jupyter.html import join, tag
from geolake_nb.planning.coverage import coverage
from geolake_nb.planning.engines import engine_facts
from geolake_nb.planning.scan.explanation_text import bytes_text
from geolake_nb.planning.table_card import card_dict

if TYPE_CHECKING:
    from geolake_nb.api.table import Table
    from geolake_nb.jupyter.html import Markup
    from geolake_nb.planning.coverage import Coverage
    from geolake_nb.planning.health.finding import Findings

__all__ = ["show"]

_UNFOLDED = 30
_SHOWN_VERSIONS = 5
_SHOWN_PROPERTIES = 50


def show(table: Table, findings: Findings | None = None) -> Markup:
    """The card; `findings` are those of a check that was made already."""
    snapshot = table.snapshot
    known = card_dict(snapshot)
    about = [
        ("format", snapshot.format.value.capitalize()),
        ("version", None if snapshot.version is None else str(snapshot.version)),
        ("as of", time(snapshot.timestamp)),
        ("protocol", snapshot.protocol.summary),
        ("files", known["files"]),
        ("rows", "not known" if known["rows"] is None else known["rows"]),
        ("size", bytes_text(known["bytes"])),
        ("partitioned by", [join(name(one), " ") for one in snapshot.partition_columns] or None),
    ]
    fields = len(table.schema.fields)
    return card(
        "Table",
        title("Table", table.location),
        facts(about),
        [_bounds(one) for one in coverage(snapshot)],
        _health(table, findings),
        geo_columns(table.schema),
        collated_strings(table.schema),
        folded(f"Schema: {plural(fields, 'column')}", tree(table.schema), unfolded=fields <= _UNFOLDED),
        _features(table),
        engines(engine_facts(snapshot)),
        _properties(table),
        _history(table),
    )


def _bounds(found: Coverage) -> Markup:
    files = f"{found.covered.files:,} of {plural(found.total.files, 'file')}"
    share = "no files" if found.share is None else f"{files}, {found.share:.0%} of the bytes"
    return tag("div", bar(found.share, f"bounds of {found.column}: {share}"))


def _health(table: Table, findings: Findings | None) -> Markup:
    if findings is not None:
        return tag("p", "Health: ", counts(findings), ".")
    return tag("p", "Health: not checked yet. ", command("check", table.location), " looks for what is wrong.")


def _features(table: Table) -> Markup | None:
    found = features(table.protocol.features)
    return None if found is None else folded(f"Features: {len(table.protocol.features)}", found)


def _properties(table: Table) -> Markup | None:
    if not table.properties:
        return None
    shown = list(table.properties.items())[:_SHOWN_PROPERTIES]
    rows = facts((str(key)[:100], setting(str(key), value)) for key, value in shown)
    return folded(f"Properties: {len(table.properties)}", rows)


def _history(table: Table) -> Markup | None:
    try:
        found = table.history(newest=_SHOWN_VERSIONS)
    except GeolakeError as problem:
        return tag("p", f"The history cannot be read: {problem}", class_="warning")
    if not found:
        return None
    return folded("Newest versions", versions(found), tag("p", command("history", table.location), " has all."))
