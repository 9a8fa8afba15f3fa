"""The cards: one function for each kind of value that a user holds, found by the name of its class."""

from __future__ import annotations

from importlib import import_module

__all__ = ["render"]

_CARDS = {
    "geolake_nb.api.plan.Plan": "plan",
    "geolake_nb.api.plan.Report": "report",
    "geolake_nb.api.table.Table": "table",
    "geolake_nb.core.schema.Schema": "schema",
    "geolake_nb.formats.file_table.FileTable": "files",
    "geolake_nb.formats.snapshot.History": "history",
    "geolake_nb.formats.snapshot.Protocol": "protocol",
    "geolake_nb.jupyter.raster_entries.RasterDetails": "raster",
    "geolake_nb.jupyter.shown_rows.ShownRows": "rows",
    "geolake_nb.planning.diff.Diff": "diff",
    "geolake_nb.planning.scan.explanation.Explanation": "explanation",
    "geolake_nb.planning.health.finding.Findings": "findings",
    "geolake_nb.planning.writing.preview.Preview": "preview",
    "geolake_nb.planning.delta.table_collations.TableCollations": "collations",
}
"""The class of a value, and the module here whose `show` makes its card: it is loaded with the first one."""


def render(value: object) -> str | None:
    """The card of a value as HTML, `None` for one that has no card.

    >>> render(3) is None
    True
    """
    for kind in type(value).__mro__:
        module = _CARDS.get(f"{kind.__module__}.{kind.__qualname__}")
        if module is not None:
            # Plain text again: what goes out is not to be put into another card unescaped.
            return str.__str__(import_module(f"{__name__}.{module}").show(value))
    return None
