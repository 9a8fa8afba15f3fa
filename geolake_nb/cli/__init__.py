"""The shell command `geolake`: parses, dispatches and prints; each subcommand has a module of its own."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from geolake_nb import __version__
from geolake_nb.cli import (
    check,
    collations,
    convert,
    demo,
    diff,
    enable,
    explain,
    files,
    history,
    open_table,
    rasters,
    repair,
    report,
    rewrite,
    row_groups,
    schema,
    undo,
)
from geolake_nb.errors import GeolakeError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["command_parser", "main"]

_COMMANDS = {
    "open": open_table,
    "schema": schema,
    "files": files,
    "history": history,
    "diff": diff,
    "row-groups": row_groups,
    "rasters": rasters,
    "explain": explain,
    "check": check,
    "report": report,
    "repair": repair,
    "rewrite": rewrite,
    "enable": enable,
    "convert": convert,
    "collations": collations,
    "undo": undo,
    "demo": demo,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit code; an error is one sentence on standard error."""
    options = command_parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except GeolakeError as error:
        print(f"geolake: {error}", file=sys.stderr)
        return 3
    except BrokenPipeError:
        # The reader of our output, `head` for example, has seen enough.
        sys.stderr.close()
        return 0
    return code


def command_parser() -> argparse.ArgumentParser:
    """What reads the words of a command."""
    parser = argparse.ArgumentParser(prog="geolake", description="Look into geospatial lakehouse tables and mend them.")
    parser.add_argument("--version", action="version", version=f"geolake {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, module in _COMMANDS.items():
        summary = (module.__doc__ or "").splitlines()[0]
        command = commands.add_parser(name, help=summary, description=summary)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser
