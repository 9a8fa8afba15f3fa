"""Rewrite the rows into new files: clustered by geo and plain columns, or just compacted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.explain import add_query_options, query_of
from geolake_nb.cli.options import add_plan_options, geo_types, open_table, print_json, progress, run_plan
from geolake_nb.errors import GeolakeError

if TYPE_CHECKING:
    import argparse

    from geolake_nb.api import Table
    from geolake_nb.api.plan import Plan
    from geolake_nb.model.cells import Cell

__all__ = ["EXAMPLE", "add_arguments", "add_cell_option", "cells_of", "preview_or_run", "rewrite_plan", "run"]

EXAMPLE = "geolake rewrite roads --cluster geom --preview"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_plan_options(parser)
    add_layout_options(parser)
    parser.add_argument("--curve", choices=["hilbert", "zorder"], default="hilbert", help="the order (default hilbert)")
    add_query_options(parser, "a filter: files that may have rows that match are rewritten, others stay")
    parser.add_argument(
        "--covering", action="store_true", help="a column with the box of each row, in Parquet files (GeoParquet 1.1)"
    )
    parser.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="COLUMN=TYPE",
        help="the type of a column of WKB, EWKB or WKT in Parquet files, such as geom=geometry(OGC:CRS84)",
    )
    parser.add_argument(
        "--preview", action="store_true", help="bounds, overlap and share of files read before and after, from a sample"
    )


def add_layout_options(parser: argparse.ArgumentParser) -> None:
    """Declare how new files are laid out."""
    parser.add_argument(
        "--cluster",
        action="append",
        default=[],
        metavar="COLUMN",
        help="a column to cluster by; may be repeated",
    )
    parser.add_argument("--file-size", default="128MB", metavar="SIZE", help="of a new file, such as 64MB (128MB)")
    parser.add_argument("--row-group-rows", type=int, metavar="N", help="rows of a row group")


def add_cell_option(parser: argparse.ArgumentParser) -> None:
    """Declare the cells by which a table is partitioned."""
    parser.add_argument(
        "--partition-by-cell",
        action="append",
        default=[],
        metavar="COLUMN=CELLS",
        help="a new partition column with the cell of each geometry, such as geom=h3:5, quadkey:8 or geohash:4",
    )


def cells_of(options: argparse.Namespace) -> list[Cell]:
    """The cells of the options."""
    from geolake_nb.model.cells import cell

    cells = []
    for word in options.partition_by_cell:
        column, equals, system = word.rpartition("=")
        if not equals or not column:
            raise GeolakeError(f"{word!r} is not COLUMN=CELLS", remedy="write geom=h3:5")
        cells.append(cell(column, system))
    return cells


def rewrite_plan(table: Table, options: argparse.Namespace) -> Plan:
    """The plan for the options, in a shell or in a cell."""
    return table.plan_rewrite(
        cluster_by=options.cluster,
        curve=options.curve,
        target_file_size=options.file_size,
        row_group_rows=options.row_group_rows,
        where=query_of(options),
        box_crs=options.box_crs,
        covering=options.covering,
        columns=geo_types(options.column),
    )


def run(options: argparse.Namespace) -> int:
    """Print the plan or its preview, or run it."""
    return preview_or_run(rewrite_plan(open_table(options), options), options)


def preview_or_run(plan: Plan, options: argparse.Namespace) -> int:
    """Print the preview of a plan if that is asked for; print or run the plan otherwise."""
    if not options.preview:
        return run_plan(plan, options)
    with progress("files") as on_progress:
        preview = plan.preview(on_progress=on_progress)
    if options.json:
        print_json(preview.to_dict())
    else:
        print(preview)
    return 0
