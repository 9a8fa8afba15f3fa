"""The collations of strings and the files with outdated statistics; or set, change, drop and refresh them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.cli.options import add_plan_options, open_table, print_json, run_plan
from geolake_nb.errors import GeolakeError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

__all__ = ["EXAMPLE", "add_arguments", "collation_changes", "run"]

EXAMPLE = "geolake collations places name=icu.de_CI"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    add_plan_options(parser)
    parser.add_argument(
        "changes", nargs="*", metavar="COLUMN=ID", help="such as name=icu.de_CI; none as the id drops a collation"
    )
    parser.add_argument("--refresh", action="store_true", help="compute statistics for files that lack them")
    parser.add_argument(
        "--upgrade", action="store_true", help="compute them for Spark's version, and drop those of older ones"
    )


def run(options: argparse.Namespace) -> int:
    """Print the collations, or the plan of their change, or run it."""
    table = open_table(options)
    if options.changes or options.refresh or options.upgrade:
        changes = collation_changes(options.changes)
        return run_plan(table.plan_collations(changes, refresh=options.refresh, upgrade=options.upgrade), options)
    if options.apply:
        raise GeolakeError("no change to apply", remedy="write COLUMN=ID, --refresh or --upgrade")
    if options.json:
        print_json(table.collations.to_dict())
    else:
        print(table.collations)
    return 0


def collation_changes(words: Iterable[str]) -> dict[str, str | None]:
    """The columns of `COLUMN=ID` words with their new collations, `None` for one that is dropped.

    >>> collation_changes(["name=icu.de_CI", "town=none"])
    {'name': 'icu.de_CI', 'town': None}
    >>> collation_changes(["name"])
    Traceback (most recent call last):
    geolake_nb.errors.GeolakeError: 'name' is not COLUMN=ID; write name=icu.de_CI, or name=none
    """
    changes: dict[str, str | None] = {}
    for word in words:
        column, equals, name = word.partition("=")
        if not equals or not column or not name:
            raise GeolakeError(f"{word!r} is not COLUMN=ID", remedy="write name=icu.de_CI, or name=none")
        changes[column] = None if name.lower() == "none" else name
    return changes
