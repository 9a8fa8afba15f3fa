"""The rows of a query, as text, JSON or a file; only the files and row groups that can hold them are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.explain import add_query_options, query_of
from geolake_nb.cli.options import add_table_options, open_table, print_json, progress

if TYPE_CHECKING:
    import argparse

    from geolake_nb.api.scan import Scan
    from geolake_nb.api.table import Table

__all__ = ["EXAMPLE", "add_arguments", "add_scan_options", "print_rows", "run", "scan_of"]

EXAMPLE = "geolake scan roads --box=5,45,11,52 -o alps.parquet"
_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_table_options(parser)
    add_scan_options(parser)
    parser.add_argument("--columns", metavar="A,B", help="the columns to read (default: all)")
    parser.add_argument("--limit", type=int, help="how many rows at the most (default: all; 20 as text)")
    parser.add_argument("-o", "--output", metavar="PATH", help="a file for the rows; its extension sets the format")
    parser.add_argument("--format", choices=("arrow", "csv", "geojson", "parquet"), help="the format of the file")


def add_scan_options(parser: argparse.ArgumentParser) -> None:
    """Declare what rows are wanted."""
    add_query_options(parser, "a filter, such as \"ST_Intersects(geom, 'POINT(1 2)') AND id > 3\"")
    parser.add_argument("--column", help="the geo column for --box")


def run(options: argparse.Namespace) -> int:
    """Print or write the rows."""
    table = open_table(options)
    if options.output is None and not options.json:
        options.limit = _SHOWN if options.limit is None else options.limit
    scan = scan_of(table, options)
    if options.output is None:
        print_rows(scan, as_json=options.json)
        return 0
    with progress("row groups") as report:
        path = scan.to_file(options.output, format=options.format, on_progress=report)
    if options.json:
        print_json({"path": str(path), **scan.metrics.to_dict()})
    else:
        print(f"{path}: {scan.metrics}")
    return 0


def scan_of(table: Table, options: argparse.Namespace) -> Scan:
    """The scan that the options describe."""
    columns = getattr(options, "columns", None)
    return table.scan(
        query_of(options),
        columns=None if columns is None else [name.strip() for name in columns.split(",")],
        limit=getattr(options, "limit", None),
        column=options.column,
        box_crs=options.box_crs,
    )


def print_rows(scan: Scan, *, as_json: bool) -> None:
    """Print the rows as JSON with `rows` and `metrics`, or as text."""
    from geolake_nb.text.messages import printable

    rows = list(scan.iter_rows())
    if as_json:
        print_json({"rows": rows, "metrics": scan.metrics.to_dict()})
        return
    for number, row in enumerate(rows):
        values = "  ".join(f"{name}={value}" for name, value in row.items() if value is not None)
        print(printable(f"{number:>6}  {values}", 1000))
    print(scan.metrics)
