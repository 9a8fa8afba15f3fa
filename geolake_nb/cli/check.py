"""Check a table or a catalog, with the command that fixes each finding; exits with 1 for findings, 2 for errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.catalog import add_catalog_options, connect
from geolake_nb.cli.options import add_table_options, open_table, print_json, progress

if TYPE_CHECKING:
    import argparse

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "geolake check roads --deep"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_table_options(parser)
    parser.add_argument("--catalog", action="store_true", help="TABLE is a catalog, or a folder of tables: check all")
    add_catalog_options(parser)
    parser.add_argument("--metadata-only", action="store_true", help="do not read the Parquet footers")
    parser.add_argument(
        "--deep",
        nargs="?",
        const=True,
        default=False,
        type=int,
        metavar="FILES",
        help="read the data of all files, or of so many spread over the table",
    )


def run(options: argparse.Namespace) -> int:
    """Print the findings."""
    if options.catalog:
        with progress("tables") as on_progress:
            report = connect(options.table, options).check(on_progress=on_progress)
        if options.json:
            print_json(report.to_dict())
        else:
            print(report)
        return report.exit_code()
    table = open_table(options)
    with progress("files") as on_progress:
        findings = table.check(footers=not options.metadata_only, deep=options.deep, on_progress=on_progress)
    if options.json:
        print_json(findings.to_dict())
    else:
        print(findings)
    return findings.exit_code()
