"""One HTML file about a table: its card, its map, its findings, and what a filter reads."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from geolake_nb import __version__
from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.cards import render
from geolake_nb.jupyter.cards import table as table_card
from geolake_nb.jupyter.export import written_file
from geolake_nb.jupyter.html import tag, visible
from geolake_nb.jupyter.map_traits import page_traits
from geolake_nb.jupyter.map_view import GeolakeMap
from geolake_nb.jupyter.map_widget import map_script

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from pathlib import Path

    from geolake_nb.api.table import Table
    from geolake_nb.expressions.filter_input import FilterInput
    from geolake_nb.model.crs import Crs, CrsLike
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

    def sections() -> Iterator[tuple[str, str]]:
        yield "Table", table_card.show_table(table, findings)
        yield "Map", _NO_MAP if shown is None else '<div id="map"></div>'
        if where is not None:
            explanation = table.explain(where, box_crs=box_crs) if shown is None else shown.explanation
            yield "What the filter reads", render(explanation) or ""
        looked = "metadata and Parquet footers" if footers else "metadata alone"
        yield "Findings", f"{tag('p', f'From {looked}.')}{render(findings)}"

    body = "\n".join(f"<h2>{name}</h2>\n{part}" for name, part in sections())
    script = "" if shown is None else map_script(page_traits(shown), element="map")
    return _PAGE.format(title=title, body=body, version=html.escape(__version__), script=script)


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
