"""The cards of the classes that a user holds."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["render"]


def render(value: object) -> str | None:
    """The card of a value as HTML, `None` for one that has no card.

    >>> render(3) is None
    True
    """
    for kind in type(value).__mro__:
        show = _cards().get(kind)
        if show is not None:
            # Plain text again: what goes out is not to be put into another card unescaped.
            return str.__str__(show(value))
    return None


@cache
def _cards() -> dict[type, Callable[[Any], str]]:
    """The function that makes the card of each class; loaded with the first card."""
    from geolake_nb.api.advice import Advice
    from geolake_nb.api.catalog import Catalog, CatalogReport
    from geolake_nb.api.engine_comparison import EngineComparison
    from geolake_nb.api.maintenance import MaintenanceReport
    from geolake_nb.api.plan import Plan, Report
    from geolake_nb.api.scan import Scan
    from geolake_nb.api.table import Table
    from geolake_nb.changes.rewrite import Preview
    from geolake_nb.checks.finding import Findings
    from geolake_nb.formats.delta.collations import TableCollations
    from geolake_nb.jupyter.cards import catalog, engines, layout, plan, results, table
    from geolake_nb.jupyter.cards.results import TableRows
    from geolake_nb.jupyter.raster_entries import RasterDetails
    from geolake_nb.model.file_table import FileTable
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import History, Protocol
    from geolake_nb.scan.diff import Diff
    from geolake_nb.scan.explanation import Explanation
    from geolake_nb.scan.layout import Layout

    return {
        Catalog: catalog.show_catalog,
        CatalogReport: catalog.show_catalog_report,
        Advice: layout.show_advice,
        Diff: plan.show_diff,
        EngineComparison: engines.show_engines,
        Explanation: results.show_explanation,
        FileTable: results.show_files,
        Findings: results.show_findings,
        History: table.show_history,
        Layout: layout.show_layout,
        MaintenanceReport: layout.show_maintenance,
        Plan: plan.show_plan,
        Preview: plan.show_preview,
        Protocol: table.show_protocol,
        RasterDetails: results.show_raster,
        Report: plan.show_report,
        Scan: results.show_scan,
        Schema: table.show_schema,
        Table: table.show_table,
        TableCollations: table.show_collations,
        TableRows: results.show_rows,
    }
