"""The columns of a table as a tree, with geo types, CRS and collations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.options import add_table_options, open_table, print_json

if TYPE_CHECKING:
    import argparse

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "geolake schema roads"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_table_options(parser)


def run(options: argparse.Namespace) -> int:
    """Print the schema."""
    from geolake_nb.model.schema import type_name
    from geolake_nb.text.messages import printable

    schema = open_table(options).schema
    if options.json:
        fields = [
            {"path": path, "type": type_name(field.type), "nullable": field.nullable, "id": field.id}
            for path, field in schema.walk()
        ]
        print_json({"fields": fields})
    else:
        print("\n".join(printable(line) for line in str(schema).splitlines()))
    return 0
