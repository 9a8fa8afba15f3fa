"""The card of an explanation: how much a filter reads, and the reasons with their counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.jupyter.card_parts import bar, card, command, folded, grid, left_out, name, plural, title
from geolake_nb.jupyter.cards.engines import engines
from geolake_nb.jupyter.html import tag
from geolake_nb.scan.coverage import filtered_column
from geolake_nb.scan.explanation import amount_text, bytes_text, complete_text

if TYPE_CHECKING:
    from geolake_nb.jupyter.html import Markup
    from geolake_nb.scan.explanation import Explanation

__all__ = ["show"]

_SHOWN_DETAILS = 10
_SHOWN_FILES = 20
_MAX_FILTER = 400


def show(explanation: Explanation) -> Markup:
    """The card."""
    read, total = explanation.read, explanation.total
    share = read.bytes / total.bytes if total.bytes else (read.files / total.files if total.files else None)
    version = None if explanation.version is None else f", version {explanation.version}"
    complete = complete_text(explanation)
    return card(
        "Explanation",
        title("Explanation", explanation.location, f" {explanation.format.name}", version),
        tag("p", "where ", name(str(explanation.where), _MAX_FILTER)),
        bar(share, f"reads {amount_text(read, total)}"),
        [
            tag("p", f"{level.kept:,} of {plural(level.total, level.name)}")
            for level in explanation.levels
            if level.name not in ("file", "table")
        ],
        _reasons(explanation),
        _details(explanation),
        None if complete is None else tag("p", f"With complete bounds: {complete}"),
        [tag("p", f"Note: {note}") for note in explanation.notes],
        _files(explanation),
        _to_map(explanation),
        engines(explanation.engines),
    )


def _reasons(explanation: Explanation) -> Markup:
    rows = [
        [
            tag("b", "read") if reason.kept else "skipped",
            reason.text,
            amount.files,
            "not known" if amount.rows is None else amount.rows,
            bytes_text(amount.bytes),
        ]
        for reason, amount in explanation.by_reason().items()
    ]
    return grid(["status", "reason", "files", "rows", "size"], rows, numbers=[2, 3, 4])


def _details(explanation: Explanation) -> Markup | None:
    details = list(explanation.details().items())
    if not details:
        return None
    items = [tag("li", f"{plural(files, 'file')}: {text[:300]}") for text, files in details[:_SHOWN_DETAILS]]
    more = left_out(_SHOWN_DETAILS, len(details), "explanation.details()")
    return folded("Why bounds are not usable", tag("ul", items), more)


def _files(explanation: Explanation) -> Markup | None:
    kept = explanation.kept
    if not kept.num_rows:
        return None
    rows = [
        [name(file["path"]), file["reason"], bytes_text(file["bytes"] or 0)]
        for file in kept.slice(0, _SHOWN_FILES).to_pylist()
    ]
    more = left_out(_SHOWN_FILES, kept.num_rows, "explanation.kept, and explanation.skipped for the others")
    return folded("Files that are read", grid(["path", "reason", "size"], rows, numbers=[2]), more)


def _to_map(explanation: Explanation) -> Markup | None:
    snapshot, where = explanation.snapshot, str(explanation.where)
    if not snapshot.files.geo_columns or len(where) > _MAX_FILTER:
        return None
    words = ["map", snapshot.location]
    if snapshot.version is not None:
        words += [snapshot.format.version_option, str(snapshot.version)]
    if len(snapshot.files.geo_columns) > 1:
        words.append(f"--column={filtered_column(snapshot, explanation.where)}")
    words += ["--where", where]
    return tag("p", "On the map: ", command(*words)) if "".join(words).isprintable() else None
