"""The live files of a table with their bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.options import add_table_options, open_table, print_table

if TYPE_CHECKING:
    import argparse

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "geolake files roads --limit 5"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_table_options(parser)
    parser.add_argument("--limit", type=int, default=20, help="how many files to show as text (default 20)")


def run(options: argparse.Namespace) -> int:
    """Print the files."""
    print_table(open_table(options).files.table, options, "files")
    return 0
