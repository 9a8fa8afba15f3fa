"""Write one HTML file about a table that works offline: the verdict and the date, map, findings, details."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.explain import add_query_options, query_of
from geolake_nb.cli.options import add_table_options, open_table, print_written, progress

if TYPE_CHECKING:
    import argparse

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "geolake report roads -o roads.html"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_table_options(parser)
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the HTML file to write")
    add_query_options(parser, "a filter to explain, and whose files are marked on the map")
    parser.add_argument("--column", metavar="COLUMN", help="the geo column of the map, where there are several")
    parser.add_argument("--footers", action="store_true", help="look for faults in the Parquet footers too")


def run(options: argparse.Namespace) -> int:
    """Write the report, and print where it is."""
    table = open_table(options)
    with progress("files") as on_progress:
        path = table.report(
            options.output,
            where=query_of(options),
            box_crs=options.box_crs,
            column=options.column,
            footers=options.footers,
            on_progress=on_progress,
        )
    print_written(path, table, "report", options)
    return 0
