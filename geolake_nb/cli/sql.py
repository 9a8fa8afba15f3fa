"""The answer to a query in SQL over tables, by SedonaDB or Spark; spatial conditions skip files and row groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geolake_nb.cli.options import print_json, storage_options
from geolake_nb.errors import GeolakeError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from geolake_nb.api.sql import SqlResult

__all__ = ["EXAMPLE", "add_arguments", "answer_of", "run"]

EXAMPLE = "geolake sql \"SELECT count(*) AS n FROM 'roads' WHERE id > 2\""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    parser.add_argument(
        "query", metavar="QUERY", help="a SELECT; FROM takes a location in quotes: FROM 's3://lake/roads'"
    )
    parser.add_argument(
        "--table", action="append", default=[], metavar="NAME=LOCATION", help="a name for a table; may be repeated"
    )
    parser.add_argument("--engine", choices=("sedonadb", "spark"), default="sedonadb", help="default: sedonadb")
    parser.add_argument(
        "--storage-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the object store of each --table; may be repeated",
    )
    parser.add_argument(
        "--json", action="store_true", help="print all rows as JSON, and what was read, instead of text"
    )


def run(options: argparse.Namespace) -> int:
    """Print the answer."""
    answer = answer_of(options, {})
    if options.json:
        reads = {read.table: read.metrics.to_dict() for read in answer.reads}
        print_json({"rows": answer.to_arrow().to_pylist(), "reads": reads})
    else:
        from geolake_nb.text.messages import printable

        for line in str(answer).splitlines():
            print(printable(line, 1000))
    return 0


def answer_of(options: argparse.Namespace, variables: Mapping[str, Any]) -> SqlResult:
    """The answer over the tables that the options name, and those among some variables that the query names."""
    import geolake_nb as gl

    tables: dict[str, Any] = {}
    for word in options.table:
        name, _, location = word.partition("=")
        if not name.isidentifier() or not location:
            raise GeolakeError(f"expected NAME=LOCATION, got {word!r}", remedy="write --table roads=s3://lake/roads")
        tables[name] = gl.open(location, storage_options=storage_options(options.storage_option))
    result = gl.sql(options.query, engine=options.engine, **{**variables, **tables})
    result.to_arrow()  # errors belong here, and not where the answer is shown
    return result
