"""The shell command `geolake`: parses, dispatches and prints; each subcommand has a module of its own."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, NoReturn

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
    help_topic,
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
from geolake_nb.core.message_text import without_secrets
from geolake_nb.errors import GeolakeError
from geolake_nb.planning.health.finding import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["command_parser", "main", "parsers_of_commands"]

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
    "help": help_topic,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit code; an error is one sentence on standard error."""
    options = command_parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except GeolakeError as error:
        print(f"geolake: {printable(str(error))}", file=sys.stderr)
        if error.remedy is None and sys.stderr.isatty():
            print(f"geolake: what to do: geolake help {type(error).__name__}", file=sys.stderr)
        return 3
    except BrokenPipeError:
        # The reader of our output, `head` for example, has seen enough.
        sys.stderr.close()
        return 0
    return code


def command_parser() -> argparse.ArgumentParser:
    """What reads the words of a command."""
    parser = _Parser(prog="geolake", description="Look into geospatial lakehouse tables and mend them.")
    parser.add_argument("--version", action="version", version=f"geolake {__version__}")
    _add_commands(parser)
    return parser


def parsers_of_commands() -> dict[str, argparse.ArgumentParser]:
    """What reads the words after each command, by its name.

    >>> parsers_of_commands()["diff"].prog
    'geolake diff'
    """
    return _add_commands(_Parser(prog="geolake"))


class _Parser(argparse.ArgumentParser):
    """A parser that does not say back a secret that stands behind a misspelled option."""

    def error(self, message: str) -> NoReturn:
        super().error(without_secrets(message))


def _add_commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    made = {}
    for name, module in _COMMANDS.items():
        summary = (module.__doc__ or "").splitlines()[0]
        made[name] = commands.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=f"example:\n  {module.EXAMPLE}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(made[name])
        made[name].set_defaults(run=module.run)
    return made
