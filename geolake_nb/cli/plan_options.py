"""Options of every command that changes a table: the plan is printed, and run only with --apply."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from geolake_nb.cli.table_options import add_table_options, print_json, progress
from geolake_nb.errors import GeolakeError, JobError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from geolake_nb.api.plan import Plan
    from geolake_nb.model.types import GeographyType, GeometryType

__all__ = ["add_plan_options", "geo_types", "run_plan"]

_CANCELLED = 130
"""The exit code of an interrupted command."""
_SHOWN_ORPHANS = 10
_COLUMN_TYPE = re.compile(r"(.+)=(\s*(?:geometry|geography)\b.*)", re.IGNORECASE | re.DOTALL)


def add_plan_options(parser: argparse.ArgumentParser) -> None:
    """Declare TABLE and its options, `--apply`, and what goes with it."""
    add_table_options(parser)
    parser.add_argument("--apply", action="store_true", help="run the plan; without it nothing is changed")
    parser.add_argument(
        "--consent",
        action="append",
        default=[],
        metavar="NAME",
        help="confirm a step that cannot be undone, by its name in the plan; may be repeated",
    )
    parser.add_argument("--expect", metavar="HASH", help="run the plan only if it is the one with this hash")
    parser.add_argument(
        "--single-writer",
        action="store_true",
        help="assert that nobody else writes to the table, for a store without atomic writes",
    )


def run_plan(plan: Plan, options: argparse.Namespace) -> int:
    """Print the plan, or run it and print the report."""
    if not options.apply:
        if options.json:
            print_json(plan.to_dict())
        else:
            print(plan)
            if not plan.is_empty:
                print(f"nothing is changed yet: run it with --apply, or with --apply --expect {plan.hash}")
        return 0
    try:
        with progress("tasks") as on_progress:
            report = plan.apply(
                consent=options.consent,
                expect=options.expect,
                single_writer=options.single_writer,
                on_progress=on_progress,
            )
    except JobError as problem:
        _print_orphans(problem.orphans)
        raise
    except KeyboardInterrupt:
        print("geolake: cancelled; no changes were made", file=sys.stderr)
        return _CANCELLED
    if options.json:
        print_json(report.to_dict())
    else:
        print(report)
    return 0


def geo_types(words: Iterable[str]) -> dict[str, GeometryType | GeographyType]:
    """The columns of `COLUMN=TYPE` words, with types as Delta writes them, and an encoding of Havasu after the CRS.

    >>> geo_types(["geom=geometry(EPSG:3857)"])["geom"].crs.text
    'EPSG:3857'
    >>> geo_types(["geom"])
    Traceback (most recent call last):
    geolake_nb.errors.GeolakeError: 'geom' is not COLUMN=TYPE; write geom=geometry(OGC:CRS84)
    """
    from geolake_nb.model.types import geo_type

    types = {}
    for word in words:
        # A name may have an equals sign in it: the type begins after the last one that a type follows.
        match = _COLUMN_TYPE.fullmatch(word)
        column, equals, text = (match[1], "=", match[2]) if match else word.partition("=")
        if not equals or not column:
            raise GeolakeError(f"{word!r} is not COLUMN=TYPE", remedy="write geom=geometry(OGC:CRS84)")
        types[column] = geo_type(text, where=column)
    return types


def _print_orphans(orphans: tuple[str, ...]) -> None:
    for path in orphans[:_SHOWN_ORPHANS]:
        print(f"geolake: leftover file: {path}", file=sys.stderr)
    if len(orphans) > _SHOWN_ORPHANS:
        print(f"geolake: and {len(orphans) - _SHOWN_ORPHANS:,} more leftover files", file=sys.stderr)
