"""Undo a change with a new commit: the newest one of this toolkit, or that of a version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.options import add_plan_options, open_table, run_plan

if TYPE_CHECKING:
    import argparse

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "geolake undo roads"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_plan_options(parser)
    parser.add_argument("--undo-version", type=int, metavar="N", help="the version to undo")
    parser.add_argument(
        "--forget",
        action="store_true",
        help="undo nothing, but delete the backups of Parquet files, up to that version or all",
    )


def run(options: argparse.Namespace) -> int:
    """Print the plan, or run it."""
    table = open_table(options)
    plan = table.plan_forget if options.forget else table.plan_undo
    return run_plan(plan(options.undo_version), options)
