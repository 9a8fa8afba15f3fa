"""A table at a glance: format, protocol, columns, bounds, engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.options import add_table_options, open_table, print_json

if TYPE_CHECKING:
    import argparse

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "geolake open roads"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_table_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the card."""
    from geolake_nb.checks.table_card import card_dict

    table = open_table(options)
    if options.json:
        print_json(card_dict(table.snapshot, table.untyped_wkb.columns))
    else:
        print(table)
    return 0
