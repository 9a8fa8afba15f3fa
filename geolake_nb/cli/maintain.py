"""Rewrite the fewest files that bring a table near its best layout; exits with 4 where other writers came first."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from geolake_nb.cli.layout import add_measure_options
from geolake_nb.cli.options import add_plan_options, open_table, print_json, progress
from geolake_nb.cli.rewrite import preview_or_run
from geolake_nb.errors import ConflictError
from geolake_nb.text.messages import printable

if TYPE_CHECKING:
    import argparse

    from geolake_nb.api.maintenance import MaintenanceReport
    from geolake_nb.api.plan import Plan
    from geolake_nb.api.table import Table
    from geolake_nb.text.messages import Progress

__all__ = ["EXAMPLE", "add_arguments", "maintain_plan", "maintained", "run"]

EXAMPLE = "geolake maintain roads --budget 2GB --apply --json"

_LOST_RACE = 4
"""The exit code where other writers committed first each time: try again later."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_plan_options(parser)
    parser.add_argument("--budget", default="2GB", metavar="SIZE", help="of the files to rewrite at most (2GB)")
    parser.add_argument(
        "--target", type=float, metavar="RATIO", help="how near to the best is near enough (1.25: a quarter more)"
    )
    add_measure_options(parser)
    parser.add_argument(
        "--attempts", type=int, default=3, metavar="N", help="how often to plan anew after a lost race (3)"
    )
    parser.add_argument(
        "--preview", action="store_true", help="bounds, overlap and share of files read before and after, from a sample"
    )


def maintain_plan(table: Table, options: argparse.Namespace, on_progress: Progress | None) -> Plan:
    """The plan for the options, in a shell or in a cell."""
    return table.plan_maintain(**_choices(options), on_progress=on_progress)


def maintained(table: Table, options: argparse.Namespace, on_progress: Progress | None) -> MaintenanceReport:
    """What the plans for the options did."""
    return table.maintain(
        **_choices(options), attempts=options.attempts, single_writer=options.single_writer, on_progress=on_progress
    )


def run(options: argparse.Namespace) -> int:
    """Print the plan or its preview, or maintain the table and print what was done and why in one line."""
    table = open_table(options)
    if not options.apply or options.expect is not None:
        with progress("footers") as on_progress:
            plan = maintain_plan(table, options, on_progress)
        return preview_or_run(plan, options)
    try:
        with progress("tasks") as on_progress:
            report = maintained(table, options, on_progress)
    except ConflictError as conflict:
        print(f"geolake: {printable(str(conflict))}", file=sys.stderr)
        return _LOST_RACE
    if options.json:
        print_json(report.to_dict())
    else:
        print(report)
    return 0


def _choices(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "budget": options.budget,
        "target": options.target,
        "target_file_size": options.file_size,
        "column": options.column,
        "queries": options.queries,
    }
