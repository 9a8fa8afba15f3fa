"""A file to share: a map, or bounds of files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.options import add_table_options, open_table, print_written

if TYPE_CHECKING:
    import argparse

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "geolake export roads bounds.geojson"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_table_options(parser)
    parser.add_argument(
        "path", metavar="PATH", help="a new file; its extension sets the format, such as .html or .geojson"
    )
    parser.add_argument("--column", metavar="COLUMN", help="the geo column, where there are several")


def run(options: argparse.Namespace) -> int:
    """Write the file, and print where it is."""
    table = open_table(options)
    print_written(table.export(options.path, column=options.column), table, "export", options)
    return 0
