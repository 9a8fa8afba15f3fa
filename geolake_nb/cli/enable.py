"""Convert columns of WKB, EWKB or WKT to geometries or geographies; or only enable a table feature."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.options import add_plan_options, geo_types, open_table, run_plan

if TYPE_CHECKING:
    import argparse

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "geolake enable places 'shape=geometry(OGC:CRS84)'"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_plan_options(parser)
    parser.add_argument(
        "columns",
        nargs="*",
        metavar="COLUMN=TYPE",
        help="such as geom=geometry(OGC:CRS84); or geospatial or collations for the feature alone",
    )


def run(options: argparse.Namespace) -> int:
    """Print the plan, or run it."""
    table = open_table(options)
    if options.columns == ["collations"]:
        return run_plan(table.plan_collations(), options)
    words = [] if options.columns == ["geospatial"] else options.columns
    return run_plan(table.plan_enable(geo_types(words)), options)
