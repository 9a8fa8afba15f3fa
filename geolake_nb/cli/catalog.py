"""List the tables of a catalog or of a folder, with files, rows, bounds and findings of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.options import add_key_values, key_values, print_json, progress, storage_options
from geolake_nb.text.messages import aligned, printable

if TYPE_CHECKING:
    import argparse

    from geolake_nb.api.catalog import Catalog

__all__ = ["EXAMPLE", "add_arguments", "add_catalog_options", "connect", "run"]

EXAMPLE = "geolake catalog . --details"
_WHAT = "a catalog's name in .pyiceberg.yaml, its kind (rest, sql, unity, hive, glue) with --property, or a folder"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    parser.add_argument("catalog", metavar="CATALOG", help=_WHAT)
    parser.add_argument("pattern", metavar="PATTERN", nargs="?", default="*", help="tables whose names match it")
    add_catalog_options(parser)
    add_key_values(parser, "--storage-option", "an option of the object store, named as in deltalake; may be repeated")
    parser.add_argument("--details", action="store_true", help="open each table: files, rows, bytes, bounds, findings")
    parser.add_argument("--json", action="store_true", help="print JSON with stable keys instead of text")


def add_catalog_options(parser: argparse.ArgumentParser) -> None:
    """Declare `--property`."""
    help_ = "a property of the catalog, named as in PyIceberg: uri, warehouse, token; may be repeated"
    add_key_values(parser, "--property", help_)


def connect(name: str, options: argparse.Namespace) -> Catalog:
    """The catalog that the options name."""
    import geolake_nb as gl

    properties = key_values(options.property, "--property", "uri=http://localhost:8181")
    return gl.catalog(name, storage_options=storage_options(options.storage_option), **properties)


def run(options: argparse.Namespace) -> int:
    """Print the tables."""
    from fnmatch import fnmatchcase

    from geolake_nb.api.catalog_details import DETAIL_HEADS, detail_cells, details_table

    catalog = connect(options.catalog, options)
    if not options.details:
        names = catalog.tables(options.pattern)
        if options.json:
            print_json({"catalog": catalog.source.where, "tables": names})
        else:
            print(*names, sep="\n", end="\n" if names else "")
        return 0
    with progress("tables") as on_progress:
        read = list(catalog.iter_details(on_progress=on_progress))
    matching = [entry for entry in read if fnmatchcase(catalog.name_of(entry.path), options.pattern)]
    if options.json:
        rows = details_table(matching, separator=catalog.source.separator).to_pylist()
        print_json({"catalog": catalog.source.where, "tables": rows})
        return 0
    for entry in sorted(matching, key=lambda entry: entry.path):
        if entry.problem is not None:
            print(f"cannot open {printable(catalog.name_of(entry.path))}: {printable(entry.problem)}")
    known = sorted((entry for entry in matching if entry.problem is None), key=lambda entry: entry.path)
    lines = [[printable(catalog.name_of(entry.path)), *detail_cells(entry)] for entry in known]
    print(*aligned([["table", *DETAIL_HEADS], *lines], left=2), sep="\n")
    return 0
