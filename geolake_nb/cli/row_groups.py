"""The row groups of a table's data files with their bounds, from the Parquet footers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.options import add_table_options, open_table, print_table, progress

if TYPE_CHECKING:
    import argparse

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "geolake row-groups roads --limit 5"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_table_options(parser)
    parser.add_argument("--limit", type=int, default=20, help="how many row groups to show as text (default 20)")


def run(options: argparse.Namespace) -> int:
    """Print the row groups."""
    with progress("footers") as report:
        groups = open_table(options).row_groups(on_progress=report)
    print_table(groups, options, "row groups")
    return 0
