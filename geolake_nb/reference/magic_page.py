"""The page about the magics of a notebook."""

from __future__ import annotations

from geolake_nb.jupyter.magic_arguments import SUBCOMMANDS, parser_of
from geolake_nb.reference.command_page import shared_options
from geolake_nb.reference.markdown import block, index, page
from geolake_nb.reference.option_lines import option_table, usage

__all__ = ["magic_page"]

_HEAD = """\
`%load_ext geolake_nb` loads the magic `%geolake` in a notebook. A line returns the object that it shows,
so that `x = %geolake explain t` keeps it. TABLE is a variable that holds a table, a path, a URL or a name; a word in
quotes is never a variable."""
_CELLS = """\
`%%geolake` takes the filter of `--where` from the lines below it."""
_ALL = """\
Every subcommand has `--help`, and `--debug`, which shows the traceback of an error."""


def magic_page() -> str:
    """The page."""
    entries = [(f"%geolake {subcommand.name}", subcommand.summary) for subcommand in SUBCOMMANDS.values()]
    return page(
        "# Magics",
        _HEAD,
        _CELLS,
        block("%%geolake explain t\nid > 3 AND ST_Intersects(geom, 'POINT(1 2)')", "ipython"),
        _ALL,
        index("magic", entries),
        *map(_section, SUBCOMMANDS),
    )


def _section(name: str) -> str:
    parser = parser_of(name)
    shared, links = shared_options(parser, page="commands.md")
    return page(
        f"## %geolake {name}",
        SUBCOMMANDS[name].summary,
        block(usage(parser), "text"),
        option_table(parser, besides=shared | {"debug"}),
        links,
        "Example:",
        block(SUBCOMMANDS[name].example, "ipython"),
    ).rstrip()
