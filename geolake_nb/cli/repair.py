"""Repair missing or wrong bounds from Parquet footers or, where these lack them, with a Spark scan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.options import add_plan_options, geo_types, open_table, progress, run_plan

if TYPE_CHECKING:
    import argparse

    from geolake_nb.api.plan import Plan
    from geolake_nb.api.table import Table
    from geolake_nb.text.messages import Progress

__all__ = ["EXAMPLE", "add_arguments", "repair_plan", "run"]

EXAMPLE = "geolake repair roads --apply"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_plan_options(parser)
    parser.add_argument(
        "--column",
        action="append",
        metavar="COLUMN",
        help="geo column to repair, all by default; may be repeated; COLUMN=TYPE gives a type to WKB in Parquet files",
    )
    parser.add_argument("--verify", action="store_true", help="read every value and compare it with its bound")


def run(options: argparse.Namespace) -> int:
    """Print the plan, or run it."""
    table = open_table(options)
    with progress("footers") as on_progress:
        plan = repair_plan(table, options, on_progress)
    return run_plan(plan, options)


def repair_plan(table: Table, options: argparse.Namespace, on_progress: Progress | None) -> Plan:
    """The plan for the options."""
    columns = options.column
    if columns and any("=" in word for word in columns):
        columns = geo_types(columns)
    return table.plan_repair(columns=columns, verify=options.verify, on_progress=on_progress)
