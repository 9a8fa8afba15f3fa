"""The card of a difference between two versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.jupyter.card_parts import card, folded, grid, left_out, name, plural, title
from geolake_nb.jupyter.html import tag
from geolake_nb.scan.diff import coverage_text
from geolake_nb.scan.explanation import bytes_text

if TYPE_CHECKING:
    import pyarrow as pa

    from geolake_nb.jupyter.html import Child, Markup
    from geolake_nb.scan.diff import Diff

__all__ = ["show"]

_SHOWN = 20


def show(diff: Diff) -> Markup:
    """The card."""
    versions = f" from version {_version(diff.old_version)} to {_version(diff.new_version)}"
    summary = diff.to_dict()
    rows: list[list[Child]] = [
        [
            kind,
            summary[kind]["files"],
            "not known" if summary[kind]["rows"] is None else summary[kind]["rows"],
            bytes_text(summary[kind]["bytes"]),
        ]
        for kind in ("added", "removed", "rewritten")
    ]
    rows.append(["unchanged", diff.unchanged, "", ""])
    return card(
        "Difference",
        title("Difference", diff.location, versions),
        tag("p", "Nothing changed.") if diff.is_empty else None,
        grid(["files", "number", "rows", "size"], rows, numbers=[1, 2, 3]),
        _schema(diff),
        [
            tag("p", f"Bounds of {coverage.column}: {coverage_text(coverage.old, coverage.new)}")
            for coverage in diff.coverage[:_SHOWN]
        ],
        _files("Files added", diff.added, "diff.added"),
        _files("Files removed", diff.removed, "diff.removed"),
        _files("Files with other statistics", diff.rewritten, "diff.rewritten"),
    )


def _schema(diff: Diff) -> Markup | None:
    changes = diff.schema_changes
    if not changes:
        return None
    items = tag("ul", [tag("li", str(change)) for change in changes[:_SHOWN]])
    more = left_out(_SHOWN, len(changes), "diff.schema_changes")
    return folded(f"Schema: {plural(len(changes), 'change')}", items, more, unfolded=True)


def _files(heading: str, table: pa.Table, how: str) -> Markup | None:
    if not table.num_rows:
        return None
    changed = "changed" in table.column_names
    shown = table.select(["path", "bytes", *(["changed"] if changed else [])]).slice(0, _SHOWN).to_pylist()
    rows = [[name(file["path"]), bytes_text(file["bytes"] or 0), file.get("changed")] for file in shown]
    listed = grid(["path", "size", "what changed" if changed else ""], rows, numbers=[1])
    return folded(f"{heading}: {table.num_rows:,}", listed, left_out(_SHOWN, table.num_rows, how))


def _version(number: int | None) -> str:
    return "?" if number is None else str(number)
