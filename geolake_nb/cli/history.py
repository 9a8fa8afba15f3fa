"""The versions of a table, newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.options import add_table_options, open_table, print_json
from geolake_nb.text.messages import value_without_secrets

if TYPE_CHECKING:
    import argparse

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "geolake history roads"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_table_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the history."""
    history = open_table(options).history()
    if options.json:
        versions = [
            {
                "version": entry.version,
                "timestamp": None if entry.timestamp is None else entry.timestamp.isoformat(),
                "operation": entry.operation,
                "parent": entry.parent,
                "details": value_without_secrets(entry.details),
            }
            for entry in history
        ]
        print_json({"versions": versions})
        return 0
    print(history)
    return 0
