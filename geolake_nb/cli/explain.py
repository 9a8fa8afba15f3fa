"""Which files a query reads, which it skips, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.options import add_table_options, open_table, print_json
from geolake_nb.errors import GeolakeError

if TYPE_CHECKING:
    import argparse

    from geolake_nb.model.box import Box
    from geolake_nb.scan.explanation import Explanation

__all__ = [
    "EXAMPLE",
    "add_arguments",
    "add_query_options",
    "print_files",
    "print_json_with_files",
    "query_of",
    "run",
    "window",
]

EXAMPLE = "geolake explain roads --box=5,45,11,52"
_MAX_LINE = 4000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_table_options(parser)
    add_query_options(parser, "a filter, such as \"ST_Intersects(geom, 'POINT(1 2)') AND id > 3\"", required=True)
    parser.add_argument("--column", help="the geo column for --box")
    parser.add_argument("--files", action="store_true", help="list each file, read or skipped, with the reason")
    parser.add_argument("--row-groups", action="store_true", help="read the footers and check row groups too")


def add_query_options(parser: argparse.ArgumentParser, where_help: str, *, required: bool = False) -> None:
    """Declare the query options: a filter or a window, and the CRS of the window."""
    query = parser.add_mutually_exclusive_group(required=required)
    query.add_argument("--where", metavar="SQL", help=where_help)
    query.add_argument("--box", metavar="XMIN,YMIN,XMAX,YMAX", help="a window; XMIN above XMAX crosses 180 degrees")
    parser.add_argument("--box-crs", metavar="CRS", help="the CRS of --box (default: that of the column)")


def query_of(options: argparse.Namespace) -> str | Box | None:
    """The filter or the window of the options, `None` without one.

    Raises:
        GeolakeError: for a window that is not four numbers, and for a CRS without one.
    """
    if options.box_crs is not None and options.box is None and options.where is None:
        raise GeolakeError("--box-crs is given without --box", remedy="write --box=-10,35,30,60 too, or leave it out")
    where: str | None = options.where
    return where if options.box is None else window(options.box)


def run(options: argparse.Namespace) -> int:
    """Print the explanation."""
    explanation = open_table(options).explain(
        query_of(options), column=options.column, box_crs=options.box_crs, row_groups=options.row_groups
    )
    if options.json and options.files:
        print_json_with_files(explanation)
    elif options.json:
        print_json(explanation.to_dict())
    else:
        print(explanation)
        if options.files:
            print_files(explanation)
    return 0


def print_json_with_files(explanation: Explanation) -> None:
    """Print the JSON with the key `files` at its end, file by file: a million of them are never in memory at once."""
    import orjson

    head = orjson.dumps(explanation.to_dict(), default=str, option=orjson.OPT_INDENT_2).decode()
    print(f'{head.removesuffix("}").rstrip()},\n  "files": [', end="")
    separator = "\n"
    for file in explanation.iter_files():
        print(f"{separator}    {orjson.dumps(file).decode()}", end="")
        separator = ",\n"
    print("\n  ]\n}")


def print_files(explanation: Explanation) -> None:
    """Print a line for each file: read or skipped, the reason, and the path."""
    from geolake_nb.text.messages import printable

    print("\nfiles:")
    for file in explanation.iter_files():
        reason = file["reason"] if file["detail"] is None else f"{file['reason']} ({file['detail']})"
        print(printable(f"  {'read' if file['kept'] else 'skipped':<8}{reason:<26}  {file['path']}", _MAX_LINE))


def window(text: str) -> Box:
    """The box of four numbers.

    >>> window("170,-20,-170,-10").wraps
    True
    """
    from geolake_nb.model.box import Box

    try:
        xmin, ymin, xmax, ymax = (float(number) for number in text.split(","))
    except ValueError:
        raise GeolakeError(f"--box {text!r} is not four numbers", remedy="write --box=-10,35,30,60") from None
    return Box(xmin, ymin, xmax, ymax)
