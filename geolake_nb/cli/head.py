"""The first rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.options import add_table_options, open_table
from geolake_nb.cli.scan import print_rows

if TYPE_CHECKING:
    import argparse

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "geolake head roads --rows 3"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_table_options(parser)
    parser.add_argument("--rows", type=int, default=5, help="how many rows (default 5)")


def run(options: argparse.Namespace) -> int:
    """Print the rows."""
    print_rows(open_table(options).scan(limit=options.rows), as_json=options.json)
    return 0
