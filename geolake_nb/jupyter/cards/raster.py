"""The card of one raster: its grid, its CRS and its bands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.jupyter.card_parts import card, facts, grid, left_out, name, title
from geolake_nb.jupyter.html import join, tag

if TYPE_CHECKING:
    from geolake_nb.jupyter.html import Child, Markup
    from geolake_nb.jupyter.raster_entries import BandFacts, RasterDetails

__all__ = ["show"]

_SHOWN = 100


def show(details: RasterDetails) -> Markup:
    """The card."""
    entry = details.entry
    about = [
        ("raster", f"{entry.index_in_file} of the file, in {entry.column}"),
        ("size", f"{entry.width:,} \N{MULTIPLICATION SIGN} {entry.height:,} pixels"),
        ("CRS", name(entry.crs_name)),
        ("no outline", entry.reason),
    ]
    rows = [[number, *_row(band)] for number, band in enumerate(details.bands[:_SHOWN])]
    return card(
        "Raster",
        title("Raster", entry.path),
        facts(about),
        grid(["band", "pixel type", "no-data", "pixels"], rows) if rows else None,
        left_out(_SHOWN, len(details.bands), "t.raster_bands(path)"),
        None if details.problem is None else tag("p", details.problem, class_="warning"),
    )


def _row(band: BandFacts) -> list[Child]:
    stored = band.stored if band.url is None else join(f"{band.stored} of ", name(band.url))
    return [band.pixel_type, band.no_data, stored]
