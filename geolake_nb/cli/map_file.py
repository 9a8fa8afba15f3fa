"""Write the map of a table as one HTML file that works offline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geolake_nb.cli.explain import add_query_options, query_of
from geolake_nb.cli.options import add_table_options, open_table, print_written

if TYPE_CHECKING:
    import argparse

    from geolake_nb.api.table import Table

__all__ = ["EXAMPLE", "add_arguments", "add_map_options", "map_of", "run"]

EXAMPLE = "geolake map roads --box=5,45,11,52 -o map.html"


def add_map_options(parser: argparse.ArgumentParser) -> None:
    """Declare what a map shows, in a shell and in a cell."""
    add_table_options(parser)
    parser.add_argument("--column", metavar="COLUMN", help="the geo column to draw, where there are several")
    parser.add_argument("--color", metavar="NAME", help="colour by: overlap, rows, bytes, age and others")
    parser.add_argument("--height", type=int, metavar="PIXELS", help="the height of the map (420)")
    add_query_options(parser, "a filter whose window and files are marked")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_map_options(parser)
    parser.add_argument("-o", "--output", metavar="PATH", required=True, help="the HTML file to write")


def map_of(table: Table, options: argparse.Namespace, **more: Any) -> Any:
    """The map for the options."""
    given = {name: getattr(options, name) for name in ("color", "box_crs", "height")}
    known = {name: value for name, value in given.items() if value is not None}
    return table.map(column=options.column, where=query_of(options), **known, **more)


def run(options: argparse.Namespace) -> int:
    """Write the file, and print where it is."""
    table = open_table(options)
    print_written(map_of(table, options).to_html(options.output), table, "map", options)
    return 0
