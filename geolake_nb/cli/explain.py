"""Which files a query reads, which it skips, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.table_options import add_table_options, open_table, print_json
from geolake_nb.errors import GeolakeError

if TYPE_CHECKING:
    import argparse

    from geolake_nb.core.box import Box

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "geolake explain roads --box=5,45,11,52"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_table_options(parser)
    query = parser.add_mutually_exclusive_group(required=True)
    query.add_argument(
        "--where", metavar="SQL", help="a filter, such as \"ST_Intersects(geom, 'POINT(1 2)') AND id > 3\""
    )
    query.add_argument("--box", metavar="XMIN,YMIN,XMAX,YMAX", help="a window; XMIN above XMAX crosses 180 degrees")
    parser.add_argument("--column", help="the geo column that --box is about")
    parser.add_argument("--row-groups", action="store_true", help="read the footers and judge row groups too")


def run(options: argparse.Namespace) -> int:
    """Print the explanation."""
    where = options.where if options.box is None else window(options.box)
    explanation = open_table(options).explain(where, column=options.column, row_groups=options.row_groups)
    if options.json:
        print_json(explanation.to_dict())
    else:
        print(explanation)
    return 0


def window(text: str) -> Box:
    """The box of four numbers.

    >>> window("170,-20,-170,-10").wraps
    True
    """
    from geolake_nb.core.box import Box

    try:
        xmin, ymin, xmax, ymax = (float(number) for number in text.split(","))
    except ValueError:
        raise GeolakeError(f"--box {text!r} is not four numbers", remedy="write --box=-10,35,30,60") from None
    return Box(xmin, ymin, xmax, ymax)
