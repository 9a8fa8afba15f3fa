"""How much of a table a query reads, next to the best that clustering it anew would reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.options import add_table_options, open_table, print_json

if TYPE_CHECKING:
    import argparse

    from geolake_nb.api.table import Table
    from geolake_nb.scan.layout import Layout

__all__ = ["EXAMPLE", "add_arguments", "add_measure_options", "layout_answer", "run"]

EXAMPLE = "geolake layout roads --versions 10"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_table_options(parser)
    add_measure_options(parser)
    parser.add_argument(
        "--versions", type=int, default=0, metavar="N", help="also measure so many versions, this one and those before"
    )
    parser.add_argument("--sample", action="store_true", help="read some geometries to take their size into account")


def add_measure_options(parser: argparse.ArgumentParser) -> None:
    """Declare by which queries, column and file size a layout is measured."""
    parser.add_argument(
        "--queries", metavar="FILE", help="your own queries: a file with a filter or XMIN,YMIN,XMAX,YMAX on each line"
    )
    parser.add_argument("--column", metavar="COLUMN", help="the geo column to cluster by, the first by default")
    parser.add_argument("--file-size", default="128MB", metavar="SIZE", help="of a new file, such as 64MB (128MB)")


def layout_answer(table: Table, options: argparse.Namespace) -> Layout:
    """The score for the options, in a shell or in a cell."""
    return table.layout(
        options.queries,
        column=options.column,
        target_file_size=options.file_size,
        versions=options.versions,
        sample=options.sample,
    )


def run(options: argparse.Namespace) -> int:
    """Print the score."""
    layout = layout_answer(open_table(options), options)
    if options.json:
        print_json(layout.to_dict())
    else:
        print(layout)
    return 0
