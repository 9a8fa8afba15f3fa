"""The options that every command on a table has: which table, which version, where its storage is, text or JSON."""

from __future__ import annotations

import sys
import textwrap
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import GeolakeError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from geolake_nb.api import Table

__all__ = ["add_table_options", "open_table", "print_json", "print_table", "progress", "storage_options"]


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """Declare TABLE, the choice of its version, `--storage-option` and `--json`."""
    parser.add_argument("table", metavar="TABLE", help="a path, URL, glob, metadata.json or catalog.ns.table")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--version", type=int, help="the Delta version to open")
    choice.add_argument("--timestamp", help="the time to open it at, such as 2026-11-01T12:00:00Z")
    choice.add_argument("--snapshot-id", type=int, help="the Iceberg snapshot to open")
    choice.add_argument("--branch", help="the Iceberg branch to open")
    choice.add_argument("--tag", help="the Iceberg tag to open")
    parser.add_argument(
        "--storage-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the object store, named as in deltalake; may be repeated",
    )
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


def storage_options(pairs: list[str]) -> dict[str, str]:
    """The options of `KEY=VALUE` words; the message about a bad one leaves the value out, which may be secret.

    >>> storage_options(["aws_region=eu-west-1"])
    {'aws_region': 'eu-west-1'}
    """
    options = {}
    for number, pair in enumerate(pairs, start=1):
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise GeolakeError(
                f"--storage-option number {number} is not KEY=VALUE", remedy="write aws_region=eu-west-1"
            )
        options[key] = value
    return options


def print_json(value: Any) -> None:
    """Print a value that `to_dict` made; a number that JSON lacks, such as an infinite side, is null."""
    import orjson

    print(orjson.dumps(value, default=str, option=orjson.OPT_INDENT_2).decode())


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
