"""One HTML file about a table: the verdict and the date, then its map, findings and details."""

from __future__ import annotations

import html
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from geolake_nb import __version__
from geolake_nb.checks.finding import Severity
from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.card_parts import plural, shared_page, time
from geolake_nb.jupyter.cards import render
from geolake_nb.jupyter.cards import table as table_card
from geolake_nb.jupyter.export import written_file
from geolake_nb.jupyter.html import join, tag, visible
from geolake_nb.jupyter.map_traits import page_traits
from geolake_nb.jupyter.map_view import GeolakeMap
from geolake_nb.jupyter.map_widget import map_script
from geolake_nb.scan.explanation import share_text
from geolake_nb.scan.layout import read_share

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from pathlib import Path

    from geolake_nb.api.table import Table
    from geolake_nb.checks.finding import Findings
    from geolake_nb.expressions.filter_input import FilterInput
    from geolake_nb.model.crs import Crs, CrsLike
    from geolake_nb.scan.explanation import Explanation
    from geolake_nb.text.messages import Progress

__all__ = ["report_page", "write_report"]

# The policy makes the browser refuse every request: whatever a name in the table contains, nothing leaves the page.
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline' data:; \
style-src 'unsafe-inline'; img-src data: blob:">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 16px auto; padding: 0 16px; max-width: 1200px; font-family: system-ui, sans-serif; }}
h1 {{ font-size: 1.4em; overflow-wrap: anywhere; }}
h2 {{ font-size: 1.1em; margin: 24px 0 8px; }}
footer {{ margin: 24px 0; font-size: 0.85em; }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
<footer>Made by geolake_nb {version}. Works offline.</footer>
{script}
</body>
</html>
"""


_NO_MAP = tag("p", "No map: no column has a geo type. Columns of WKB or WKT can be converted to one.")


def write_report(
    table: Table,
    path: str | os.PathLike[str],
    *,
    where: FilterInput | None = None,
    box_crs: str | Crs | CrsLike | None = None,
    column: str | None = None,
    footers: bool = False,
    on_progress: Progress | None = None,
) -> Path:
    """Write the report and return its path."""
    page = report_page(table, where=where, box_crs=box_crs, column=column, footers=footers, on_progress=on_progress)
    with written_file(path, table.snapshot) as target:
        target.write_text(page, encoding="utf-8")
    return target


def report_page(
    table: Table,
    *,
    where: FilterInput | None = None,
    box_crs: str | Crs | CrsLike | None = None,
    column: str | None = None,
    footers: bool = False,
    on_progress: Progress | None = None,
) -> str:
    """The report as HTML; a table without geo columns has the reason instead of the map."""
    shown = _map_of(table, where, box_crs, column)
    findings = table.check(footers=footers, on_progress=on_progress)
    name = table.location.rstrip("/").rpartition("/")[2]
    title = html.escape(visible(f"{name}: report"))

    explanation = None
    if where is not None:
        explanation = table.explain(where, box_crs=box_crs) if shown is None else shown.explanation

    def sections() -> Iterator[tuple[str, str]]:
        yield "Map", _NO_MAP if shown is None else '<div id="map"></div>'
        looked = "metadata and Parquet footers" if footers else "metadata alone"
        yield "Findings", f"{tag('p', f'From {looked}.')}{render(findings)}"
        if explanation is not None:
            yield "What the filter reads", render(explanation) or ""
        yield "Table", table_card.show_table(table, findings)

    with shared_page(table.location):
        parts = [f"<h2>{name}</h2>\n{part}" for name, part in sections()]
    body = "\n".join([_verdict(table, findings, explanation), *parts])
    script = "" if shown is None else map_script(page_traits(shown), element="map")
    return _PAGE.format(title=title, body=body, version=html.escape(__version__), script=script)


def _verdict(table: Table, findings: Findings, explanation: Explanation | None) -> str:
    """What the page says in a glance: what is wrong, what a query reads, and when that was so."""
    reads = [] if explanation is None else [f"The filter {explanation.verdict}."]
    share = read_share(table.snapshot)
    if not reads and share is not None:
        reads = [f"A query reads {share_text(share)} of the bytes."]
    counted = ", ".join(
        plural(count, severity.value) if severity is not Severity.INFO else f"{count:,} info"
        for severity, count in findings.counts.items()
        if count
    )
    version = "" if table.version is None else f", version {table.version}"
    made = join("Made ", time(datetime.now(UTC)), f" of {table.snapshot.format.title}{version}")
    when = table.snapshot.timestamp
    since = None if when is None else join(", committed ", time(when))
    verdict = tag("p", tag("strong", " ".join([f"{counted or 'No findings'}.", *reads])), role="status")
    return f"{verdict}\n{tag('p', made, since, '.')}"


def _map_of(
    table: Table, where: FilterInput | None, box_crs: str | Crs | CrsLike | None, column: str | None
) -> GeolakeMap | None:
    if column is None and not table.files.geo_columns:
        return None
    chosen = column or sorted(table.files.geo_columns)[0]
    shown = GeolakeMap(table, column=chosen, where=where, box_crs=box_crs, height=480)
    if where is not None and shown.explanation is None:
        raise GeolakeError(str(shown.verdict.get("text")), where=table.location)
    return shown
