"""The page about the shell commands."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from geolake_nb.cli import parsers_of_commands
from geolake_nb.cli.plan_options import add_plan_options
from geolake_nb.cli.table_options import add_table_options
from geolake_nb.reference.markdown import block, index, page
from geolake_nb.reference.option_lines import option_table, options_of, usage

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PLAN_OPTIONS", "TABLE_OPTIONS", "command_page", "shared_options"]

TABLE_OPTIONS = "Options of every table"
PLAN_OPTIONS = "Options of every change"

_HEAD = """\
Commands on a table print text, or JSON with `--json`. `geolake help COMMAND` shows all options of one.
In the examples `roads` is a Delta table, `places` one with shapes in bytes, `parcels` a folder of Parquet files
and `scenes` a Havasu table of rasters."""
_CODES = """\
The exit code is 0 on success, 1 when `check` has findings, 2 when these are errors, 3 when the command
failed with [an error](errors.md), and 130 when it was cancelled."""
_CHANGES = """\
A command that changes a table prints a plan and changes nothing. With `--apply` it runs the plan.
`geolake undo` reverts it; a step that cannot be undone is named in the plan and needs `--consent`."""


def command_page() -> str:
    """The page."""
    parsers = parsers_of_commands()
    entries = [(f"geolake {name}", parser.description or "") for name, parser in parsers.items()]
    return page(
        "# Commands",
        _HEAD,
        _CODES,
        index("command", entries),
        *(_section(parser) for parser in parsers.values()),
        f"## {TABLE_OPTIONS}",
        option_table(_parser(add_table_options), besides=("help",)),
        f"## {PLAN_OPTIONS}",
        _CHANGES,
        option_table(_parser(add_plan_options), besides=_names(add_table_options)),
    )


def _section(parser: argparse.ArgumentParser) -> str:
    shared, links = shared_options(parser, page="")
    return page(
        f"## {parser.prog}",
        parser.description or "",
        block(usage(parser), "text"),
        option_table(parser, besides=shared),
        links,
        "Example:",
        block((parser.epilog or "").removeprefix("example:").strip()),
    ).rstrip()


def shared_options(parser: argparse.ArgumentParser, *, page: str) -> tuple[set[str], str]:
    """The names of the options that many commands have, and a sentence that leads to them."""
    own = options_of(parser)
    for title, add in ((PLAN_OPTIONS, add_plan_options), (TABLE_OPTIONS, add_table_options)):
        names = _names(add) - {"json"}
        if names <= own | {"help"}:
            links = [f"[{TABLE_OPTIONS.lower()}]({page}#options-of-every-table)"]
            links += [f"[{PLAN_OPTIONS.lower()}]({page}#options-of-every-change)"] if title == PLAN_OPTIONS else []
            return names | {"help", "json"}, f"It takes the {' and the '.join(links)}."
    return {"help"}, ""


def _parser(add: Callable[[argparse.ArgumentParser], None]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    add(parser)
    return parser


def _names(add: Callable[[argparse.ArgumentParser], None]) -> set[str]:
    return options_of(_parser(add))
