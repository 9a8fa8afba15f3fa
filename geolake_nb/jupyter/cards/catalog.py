"""The cards of a catalog and of a check of all its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.formats.catalog_sources import EntryKind
from geolake_nb.jupyter.card_parts import card, command, folded, grid, left_out, name, title
from geolake_nb.jupyter.html import tag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from geolake_nb.api.catalog import Catalog, CatalogReport
    from geolake_nb.api.catalog_details import TableDetails
    from geolake_nb.jupyter.html import Child, Markup

__all__ = ["show_catalog", "show_catalog_report"]

_SHOWN = 200


def show_catalog(catalog: Catalog) -> Markup:
    """What is at the top of the catalog."""
    entries = catalog.children()
    rows: list[list[Child]] = [[name(entry.path[-1]), _kind_of(entry.kind, entry.format)] for entry in entries[:_SHOWN]]
    return card(
        "Catalog",
        title("Catalog", catalog.source.where, f", {catalog.source.kind}"),
        grid(["name", "what"], rows) if rows else tag("p", "The catalog is empty."),
        left_out(len(rows), len(entries), "c.tables()"),
    )


def show_catalog_report(report: CatalogReport) -> Markup:
    """The verdict, then the tables with findings, the worst first."""
    verdict, *_ = str(report).splitlines()
    worst = [entry for entry in report.tables if entry.problem is not None or entry.errors or entry.warnings]
    return card(
        "Check of a catalog",
        title("Check", report.where),
        tag("p", tag("span", verdict, class_="good" if not worst else None)),
        [_table_part(report, entry) for entry in worst[:_SHOWN]],
        left_out(min(len(worst), _SHOWN), len(worst), "report.to_dict()"),
    )


def _table_part(report: CatalogReport, entry: TableDetails) -> Markup:
    shown = report.separator.join(entry.path)
    if entry.problem is not None:
        return tag("p", tag("span", "cannot be opened", class_="error"), " ", name(shown), ": ", entry.problem)
    grade = "error" if entry.errors else "warning"
    summary = [tag("span", grade, class_=grade), " ", name(shown)]
    return folded(summary, tag("ul", _findings(report, entry), class_="findings"))


def _findings(report: CatalogReport, entry: TableDetails) -> Iterator[Markup]:
    for finding in report.findings[entry.path]:
        level = tag("span", finding.severity.value, class_=finding.severity.value)
        yield tag("li", level, " ", tag("code", finding.rule), " ", str(finding.scope), class_="finding")
    if entry.location is not None:
        yield tag("li", "details: ", command("check", entry.location), class_="finding")


def _kind_of(kind: EntryKind, format_: str | None) -> str:
    return format_ or {EntryKind.FOLDER: "folder"}.get(kind, kind.value)
