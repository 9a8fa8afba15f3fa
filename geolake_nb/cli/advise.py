"""Compare layouts of a table by what queries would read of them; nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geolake_nb.cli.layout import add_measure_options
from geolake_nb.cli.options import add_table_options, open_table, print_json, progress
from geolake_nb.cli.rewrite import add_cell_option, cells_of

if TYPE_CHECKING:
    import argparse

    from geolake_nb.api.advice import Advice
    from geolake_nb.api.table import Table
    from geolake_nb.text.messages import Progress

__all__ = ["EXAMPLE", "add_arguments", "advice_of", "run"]

EXAMPLE = "geolake advise roads --queries queries.txt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_table_options(parser)
    add_measure_options(parser)
    parser.add_argument(
        "--cluster",
        action="append",
        default=[],
        metavar="COLUMN,COLUMN",
        help="compare a layout clustered by these columns; may be repeated, by default those that may suit the queries",
    )
    add_cell_option(parser)


def advice_of(table: Table, options: argparse.Namespace, on_progress: Progress | None = None) -> Advice:
    """The advice for the options, in a shell or in a cell."""
    orders = [[name.strip() for name in word.split(",")] for word in options.cluster]
    layouts: list[dict[str, Any]] = [{"cluster_by": order} for order in orders]
    layouts += [{"cluster_by": made.column, "partition_by": made} for made in cells_of(options)]
    return table.advise(
        options.queries,
        column=options.column,
        layouts=layouts or None,
        target_file_size=options.file_size,
        on_progress=on_progress,
    )


def run(options: argparse.Namespace) -> int:
    """Print the advice."""
    table = open_table(options)
    with progress("files") as on_progress:
        advice = advice_of(table, options, on_progress)
    if options.json:
        print_json(advice.to_dict())
    else:
        print(advice)
    return 0
