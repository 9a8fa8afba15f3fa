"""The rasters of a Havasu table with their WGS84 bounds, from their metadata columns alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.options import add_table_options, open_table, print_table, progress

if TYPE_CHECKING:
    import argparse

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "geolake rasters scenes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_table_options(parser)
    parser.add_argument("--limit", type=int, default=20, help="how many rasters to show as text (default 20)")


def run(options: argparse.Namespace) -> int:
    """Print the rasters."""
    with progress("files") as report:
        rasters = open_table(options).rasters(on_progress=report)
    print_table(rasters.drop_columns(["footprint"]), options, "rasters")
    return 0
