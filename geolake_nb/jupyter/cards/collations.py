"""The card of the collations of a table: which strings, which versions, which files are outdated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.jupyter.card_parts import card, command, folded, grid, left_out, name, plural, title
from geolake_nb.jupyter.html import tag

if TYPE_CHECKING:
    from geolake_nb.formats.delta.collations import ColumnCollation, TableCollations
    from geolake_nb.jupyter.html import Child, Markup

__all__ = ["show"]

_SHOWN = 200
_SHOWN_FILES = 20


def show(collations: TableCollations) -> Markup:
    """The card."""
    head = title("Collations", collations.location)
    if not collations.columns:
        how = command("collations", collations.location, "COLUMN=icu.de_CI")
        return card("Collations", head, tag("p", "No string has a collation. ", how, " plans one."))
    rows = [_row(column, collations.file_count) for column in collations.columns[:_SHOWN]]
    headers = ["string", "collation", "version wanted", "files with statistics", "outdated files"]
    stale = tag("p", "Fix: ", command("collations", collations.location, "--refresh"))
    return card(
        "Collations",
        head,
        grid(headers, rows),
        left_out(_SHOWN, len(collations.columns), "t.collations.columns"),
        stale if collations.is_stale else None,
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
