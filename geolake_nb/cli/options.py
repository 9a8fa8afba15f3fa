"""The options that commands on a table share: which table and storage, what to print, and plan or apply."""

from __future__ import annotations

import re
import sys
import textwrap
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import GeolakeError, JobError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from geolake_nb.api import Table
    from geolake_nb.api.plan import Plan
    from geolake_nb.model.types import GeographyType, GeometryType

__all__ = [
    "add_key_values",
    "add_plan_options",
    "add_table_options",
    "geo_types",
    "key_values",
    "open_table",
    "print_json",
    "print_table",
    "print_written",
    "progress",
    "run_plan",
    "storage_options",
]


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """Declare TABLE, the choice of its version, `--storage-option` and `--json`."""
    parser.add_argument("table", metavar="TABLE", help="a path, URL, glob, metadata.json or catalog.ns.table")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--version", type=int, help="the Delta version to open")
    choice.add_argument("--timestamp", help="the time to open it at, such as 2026-11-01T12:00:00Z")
    choice.add_argument("--snapshot-id", type=int, help="the Iceberg snapshot to open")
    choice.add_argument("--branch", help="the Iceberg branch to open")
    choice.add_argument("--tag", help="the Iceberg tag to open")
    add_key_values(parser, "--storage-option", "an option of the object store, named as in deltalake; may be repeated")
    parser.add_argument(
        "--allow-root",
        action="append",
        default=[],
        metavar="ROOT",
        help="another location of files of the table, such as the source of a shallow clone; may be repeated",
    )
    parser.add_argument(
        "--allow-unknown-features", action="store_true", help="open a Delta table with reader features not known here"
    )
    parser.add_argument("--json", action="store_true", help="print JSON with stable keys instead of text")


def open_table(options: argparse.Namespace) -> Table:
    """Open the table that the options name."""
    import geolake_nb as gl

    return gl.open(
        options.table,
        version=options.version,
        timestamp=options.timestamp,
        snapshot_id=options.snapshot_id,
        branch=options.branch,
        tag=options.tag,
        storage_options=storage_options(options.storage_option),
        allowed_roots=options.allow_root,
        allow_unknown_features=options.allow_unknown_features,
    )


def add_key_values(parser: argparse.ArgumentParser, flag: str, help_: str) -> None:
    """Declare an option that takes KEY=VALUE any number of times."""
    parser.add_argument(flag, action="append", default=[], metavar="KEY=VALUE", help=help_)


def key_values(pairs: list[str], flag: str, example: str) -> dict[str, str]:
    """The values of `KEY=VALUE` words; the message about a bad one leaves the value out, which may be secret.

    >>> key_values(["uri=http://host?a=b"], "--property", "uri=http://localhost:8181")
    {'uri': 'http://host?a=b'}
    """
    values = {}
    for number, pair in enumerate(pairs, start=1):
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise GeolakeError(f"{flag} number {number} is not KEY=VALUE", remedy=f"write {example}")
        values[key] = value
    return values


def storage_options(pairs: list[str]) -> dict[str, str]:
    """The options of an object store, from `KEY=VALUE` words.

    >>> storage_options(["aws_region=eu-west-1"])
    {'aws_region': 'eu-west-1'}
    """
    return key_values(pairs, "--storage-option", "aws_region=eu-west-1")


def print_json(value: Any) -> None:
    """Print a value that `to_dict` made; a number that JSON lacks, such as an infinite side, is null."""
    import orjson

    print(orjson.dumps(value, default=str, option=orjson.OPT_INDENT_2).decode())


def print_written(path: Path, table: Table, what: str, options: argparse.Namespace) -> None:
    """Print the file that a command has written and its size; `what` is its key in JSON."""
    size = path.stat().st_size
    if options.json:
        print_json({"table": table.location, what: str(path), "bytes": size})
    else:
        print(f"{path}: {size:,} bytes")


def print_table(table: pa.Table, options: argparse.Namespace, what: str) -> None:
    """Print an Arrow table: all of it as JSON, or its first rows as text, one value a line where rows are wide."""
    from geolake_nb.model.file_table import plain_rows

    if options.json:
        print_json({what.replace(" ", "_"): plain_rows(table)})
        return
    from geolake_nb.text.messages import printable

    for number, row in enumerate(plain_rows(table.slice(0, options.limit))):
        known = [f"{name}={_shown(value)}" for name, value in row.items() if name != "path" and value is not None]
        print(printable(f"{number:>6}  {row['path']}"))
        print(textwrap.fill(printable("  ".join(known)), 100, initial_indent=" " * 8, subsequent_indent=" " * 8))
    left = table.num_rows - options.limit
    print(f"{table.num_rows:,} {what}" + (f", {left:,} not shown: raise --limit or use --json" if left > 0 else ""))


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """A progress line on a terminal; nothing where standard error is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    yield lambda done, total: print(f"\r{done:,} of {total:,} {what} ", end="", file=sys.stderr, flush=True)
    print("\r\033[K", end="", file=sys.stderr, flush=True)


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
