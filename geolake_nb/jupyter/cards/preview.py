"""The card of a preview: what query windows read before and after a rewrite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.jupyter.card_parts import bar, card, grid, name, plural
from geolake_nb.jupyter.html import join, tag
from geolake_nb.scan.explanation import bytes_text

if TYPE_CHECKING:
    from geolake_nb.changes.rewrite import Preview, PreviewSide
    from geolake_nb.jupyter.html import Markup

__all__ = ["show"]


def show(preview: Preview) -> Markup:
    """The card."""
    sample = f"from a sample of {plural(preview.sampled_rows, 'row')}"
    about = (
        "The table has no geo column to query."
        if preview.column is None
        else join(plural(len(preview.windows), "window"), " on ", name(preview.column), ", ", sample)
    )
    sides = (("before", preview.before), ("after", preview.after))
    rows = [[label, *_row(side)] for label, side in sides]
    headers = ["", "files", "size", "average overlap", "files read", "bytes read"]
    return card(
        "Preview",
        tag("p", tag("strong", "Preview of a rewrite")),
        tag("p", about),
        grid(headers, rows, numbers=range(1, 6)),
        [
            bar(side.bytes_read, f"{label}: a window reads {side.bytes_read:.1%} of the bytes")
            for label, side in sides
            if side.bytes_read is not None
        ],
    )


def _row(side: PreviewSide) -> list[str | int]:
    summary = side.to_dict()
    depth = "not known" if summary["overlap_depth"] is None else f"{summary['overlap_depth']:.1f}"
    read = ["not known" if summary[key] is None else f"{summary[key]:.1%}" for key in ("files_read", "bytes_read")]
    return [summary["files"], bytes_text(summary["bytes"]), depth, *read]
