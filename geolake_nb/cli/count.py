"""How many rows a table or a query has; from metadata where that suffices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.options import add_table_options, open_table, print_json
from geolake_nb.cli.scan import add_scan_options, scan_of

if TYPE_CHECKING:
    import argparse

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "geolake count roads --box=5,45,11,52"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_table_options(parser)
    add_scan_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the number."""
    scan = scan_of(open_table(options), options)
    count = scan.count()
    if options.json:
        print_json({"count": count, "metrics": scan.metrics.to_dict()})
    else:
        print(f"{count:,} rows")
    return 0
