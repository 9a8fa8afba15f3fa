"""Create a table with geo types from Parquet or GeoParquet files, which stay unchanged, or make one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.options import add_plan_options, geo_types, open_table, run_plan, storage_options
from geolake_nb.cli.rewrite import add_cell_option, add_layout_options, cells_of
from geolake_nb.errors import GeolakeError

if TYPE_CHECKING:
    import argparse

    from geolake_nb.api import Table
    from geolake_nb.api.plan import Plan

__all__ = ["EXAMPLE", "FORMAT_NAMES", "add_arguments", "convert_plan", "run"]

FORMAT_NAMES = ("delta", "havasu", "iceberg", "parquet")
"""Those of the registry, which takes two seconds to import: `geolake --help` does not wait for it."""

EXAMPLE = "geolake convert parcels new_parcels --cluster geom"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_plan_options(parser)
    parser.add_argument(
        "target", nargs="?", metavar="TARGET", help="the location of the new table, or catalog.ns.table for Iceberg"
    )
    parser.add_argument(
        "--format",
        choices=FORMAT_NAMES,
        default="delta",
        help="of the new table (default delta)",
    )
    parser.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="COLUMN=TYPE",
        help="a geo column that the files do not declare, such as geom=geometry(OGC:CRS84); may be repeated",
    )
    parser.add_argument(
        "--partition-by", action="append", default=[], metavar="COLUMN", help="a partition column; may be repeated"
    )
    add_cell_option(parser)
    parser.add_argument(
        "--in-place",
        action="store_true",
        help="make the folder itself a table: footers are repaired, no data is copied; for a Havasu table, write an "
        "Iceberg table at TARGET over its files",
    )
    parser.add_argument(
        "--leave-files", action="store_true", help="with --in-place, change no file; the plan says what they lack"
    )
    parser.add_argument(
        "--leave-out",
        action="append",
        default=[],
        metavar="COLUMN",
        help="a column of a Havasu table that the new one does not get, such as a raster; may be repeated",
    )
    add_layout_options(parser)


def convert_plan(table: Table, options: argparse.Namespace) -> Plan:
    """The plan for the options, in a shell or in a cell."""
    from geolake_nb.formats.registry import HAVASU

    if options.in_place and table.snapshot.format is not HAVASU:
        return _publish_plan(table, options)
    if options.target is None:
        raise _no_target()
    if options.leave_files and not options.in_place:
        raise GeolakeError("--leave-files needs --in-place", remedy="a conversion to another folder changes no file")
    return table.plan_convert(
        options.target,
        format=options.format,
        columns=geo_types(options.column),
        partition_by=[*options.partition_by, *cells_of(options)],
        cluster_by=options.cluster,
        target_file_size=options.file_size,
        row_group_rows=options.row_group_rows,
        storage_options=storage_options(options.storage_option),
        leave_out=options.leave_out,
        in_place=options.in_place,
    )


def _publish_plan(table: Table, options: argparse.Namespace) -> Plan:
    layout = (options.target, options.partition_by, options.partition_by_cell, options.cluster, options.row_group_rows)
    if any(layout):
        raise GeolakeError(
            "--in-place takes the files where they lie and as they are",
            remedy="leave out the target and what lays rows out, or leave out --in-place",
        )
    return table.plan_publish(format=options.format, columns=geo_types(options.column), leave_files=options.leave_files)


def run(options: argparse.Namespace) -> int:
    """Print the plan, or run it."""
    if options.target is None and not options.in_place:
        raise _no_target()
    return run_plan(convert_plan(open_table(options), options), options)


def _no_target() -> GeolakeError:
    return GeolakeError("the location of the new table is missing", remedy="write geolake convert TABLE TARGET")
