"""How a command is used, what a finding means, what to do about an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

__all__ = ["EXAMPLE", "add_arguments", "run"]

EXAMPLE = "geolake help bounds.missing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this subcommand."""
    parser.add_argument(
        "topic",
        nargs="?",
        metavar="TOPIC",
        help="a command, a finding such as bounds.missing, an error such as ConflictError, "
        "or a page such as findings, guarantees or benchmarks",
    )


def run(options: argparse.Namespace) -> int:
    """Print how it is used, or its section of the reference pages."""
    from geolake_nb.cli import command_parser, parsers_of_commands
    from geolake_nb.reference import PAGES, section

    if options.topic is None:
        print(command_parser().format_help())
        pages = ", ".join(sorted(page.removesuffix(".md") for page in PAGES))
        print(f"geolake help TOPIC prints more: a command, a finding, an error, or one of the pages {pages}")
        return 0
    commands = parsers_of_commands()
    known = commands.get(options.topic)
    print(section(options.topic, besides=commands) if known is None else known.format_help())
    return 0
