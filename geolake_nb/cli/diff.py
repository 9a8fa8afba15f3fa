"""What changed between two versions of a table: files, schema, bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.options import add_table_options, open_table, print_json

if TYPE_CHECKING:
    import argparse

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "geolake diff roads 0 1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_table_options(parser)
    parser.add_argument("old", type=int, help="the earlier Delta version or Iceberg snapshot id")
    parser.add_argument("new", type=int, nargs="?", help="the later one (default: the version that is opened)")


def run(options: argparse.Namespace) -> int:
    """Print the difference."""
    difference = open_table(options).diff(options.old, options.new)
    if options.json:
        print_json(difference.to_dict())
    else:
        print(difference)
    return 0
