"""The same query in every engine that is installed: whose rows are right, and how long each takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.explain import add_query_options, query_of
from geolake_nb.cli.options import add_table_options, open_table, print_json, progress

if TYPE_CHECKING:
    import argparse

    from geolake_nb.api.engine_comparison import EngineComparison
    from geolake_nb.api.table import Table
    from geolake_nb.text.messages import Progress

__all__ = ["EXAMPLE", "add_arguments", "comparison_of", "run"]

EXAMPLE = "geolake engines roads --box=5,45,11,52"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_table_options(parser)
    add_query_options(parser, "a filter, such as \"ST_Intersects(geom, 'POINT(1 2)') AND id > 3\" (default: all rows)")
    parser.add_argument("--column", help="the geo column for --box")
    parser.add_argument("--engines", metavar="A,B", help="the engines to ask (default: all that know the format)")
    parser.add_argument("--spark", action="store_true", help="start Spark where none is running, and ask it too")


def run(options: argparse.Namespace) -> int:
    """Print the comparison."""
    with progress("engines") as report:
        comparison = comparison_of(open_table(options), options, report)
    if options.json:
        print_json(comparison.to_dict())
    else:
        print(comparison)
    return 0


def comparison_of(table: Table, options: argparse.Namespace, on_progress: Progress | None) -> EngineComparison:
    """The comparison that the options describe."""
    spark = None
    if options.spark:
        from geolake_nb.spark.session import session

        spark = session()
    return table.compare_engines(
        query_of(options),
        column=options.column,
        box_crs=options.box_crs,
        engines=None if options.engines is None else [name.strip() for name in options.engines.split(",")],
        spark=spark,
        on_progress=on_progress,
    )
