"""The shell command `geolake`: parses, dispatches and prints; each subcommand has a module of its own."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

from geolake_nb import __version__
from geolake_nb.cli import (
    advise,
    catalog,
    check,
    collations,
    convert,
    count,
    demo,
    diff,
    enable,
    engines,
    explain,
    export,
    files,
    head,
    help_topic,
    history,
    layout,
    maintain,
    map_file,
    open_table,
    rasters,
    repair,
    report,
    rewrite,
    row_groups,
    scan,
    schema,
    sql,
    undo,
)
from geolake_nb.errors import GeolakeError
from geolake_nb.text.messages import printable, without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["command_parser", "main", "parsers_of_commands"]

_DEBUG = "GEOLAKE_DEBUG"
_COMMANDS = {
    "open": open_table,
    "schema": schema,
    "files": files,
    "history": history,
    "diff": diff,
    "row-groups": row_groups,
    "rasters": rasters,
    "explain": explain,
    "scan": scan,
    "head": head,
    "count": count,
    "sql": sql,
    "engines": engines,
    "check": check,
    "catalog": catalog,
    "advise": advise,
    "layout": layout,
    "map": map_file,
    "export": export,
    "report": report,
    "repair": repair,
    "rewrite": rewrite,
    "maintain": maintain,
    "enable": enable,
    "convert": convert,
    "collations": collations,
    "undo": undo,
    "demo": demo,
    "help": help_topic,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit code; an error is one sentence on standard error.

    With `GEOLAKE_DEBUG` in the environment, the traceback comes before it. SIGTERM and SIGHUP end the command as Ctrl-C
    does: files that were fetched or written in part are removed.
    """
    try:
        options = command_parser().parse_args(arguments)
        with _cancelled_by_signals():
            code: int = options.run(options)
    except KeyboardInterrupt as cancel:
        _print_traceback()
        print("geolake: cancelled", file=sys.stderr)
        return 128 + (cancel.args[0] if cancel.args else signal.SIGINT)
    except GeolakeError as error:
        _print_traceback()
        print(f"geolake: {printable(str(error))}", file=sys.stderr)
        if error.remedy is None and sys.stderr.isatty():
            print(f"geolake: what to do: geolake help {type(error).__name__}", file=sys.stderr)
        return 3
    except BrokenPipeError:
        # The reader of our output, `head` for example, has seen enough.
        sys.stderr.close()
        return 0
    except Exception as problem:  # noqa: BLE001 - left to Python, it would exit with 1: findings of `check`
        _print_traceback()
        what = f"{type(problem).__name__}: {without_secrets(str(problem))}"
        remedy = f"this is a bug in geolake; please report it with the output of {_DEBUG}=1"
        print(f"geolake: {printable(what)}; {remedy}", file=sys.stderr)
        return 3
    return code


def command_parser() -> argparse.ArgumentParser:
    """The argument parser of all commands."""
    parser = _Parser(prog="geolake", description="Inspect and repair geospatial lakehouse tables.")
    parser.add_argument("--version", action="version", version=f"geolake {__version__}")
    _add_commands(parser)
    return parser


def parsers_of_commands() -> dict[str, argparse.ArgumentParser]:
    """The argument parser of each command, by its name.

    >>> parsers_of_commands()["diff"].prog
    'geolake diff'
    """
    return _add_commands(_Parser(prog="geolake"))


@contextlib.contextmanager
def _cancelled_by_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt, with the number of the signal, where a scheduler or a closed terminal ends the command.

    A signal that the caller chose to ignore, as `nohup` does with SIGHUP, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():  # only there can handlers be set
        yield
        return

    def cancel(number: int, _: Any) -> NoReturn:
        raise KeyboardInterrupt(number)

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {getattr(signal, name): signal.getsignal(getattr(signal, name)) for name in names}
    chosen = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in chosen:
        signal.signal(number, cancel)
    try:
        yield
    finally:
        for number in chosen:
            signal.signal(number, before[number])


def _print_traceback() -> None:
    if os.environ.get(_DEBUG):
        for line in without_secrets(traceback.format_exc()).splitlines():
            print(printable(line), file=sys.stderr)


class _Parser(argparse.ArgumentParser):
    """A parser that raises our errors, and does not echo a secret after a misspelled option.

    >>> parsers_of_commands()["explain"].parse_args(["roads", "--box", "-10,-5,11,6"]).box
    '-10,-5,11,6'
    >>> parsers_of_commands()["diff"].parse_args(["roads", "x"])
    Traceback (most recent call last):
    geolake_nb.errors.GeolakeError: argument old: invalid int value: 'x'; geolake help diff shows how it is used
    """

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        # What argparse treats as a value although it starts with a minus sign: no flag of ours starts with a digit.
        self._negative_number_matcher = re.compile(r"-[\d.]")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        known, others = super().parse_known_args(args, namespace)
        if others and _command(self):  # here, where the command is known: argparse would leave them to `geolake`
            self.error(f"unrecognized arguments: {' '.join(others)}")
        return known, others

    def error(self, message: str) -> NoReturn:
        # argparse would exit with 2, the exit code of `check` for a table with errors.
        command = _command(self)
        how = f"geolake help {command} shows how it is used" if command else "geolake help lists the commands"
        raise GeolakeError(without_secrets(message), remedy=how)


def _command(parser: argparse.ArgumentParser) -> str:
    return parser.prog.partition(" ")[2]


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
