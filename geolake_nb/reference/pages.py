"""The reference pages as the code has them now: commands, magics, findings and errors."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from geolake_nb import errors
from geolake_nb.checks.finding import Severity
from geolake_nb.cli import parsers_of_commands
from geolake_nb.cli.options import add_plan_options, add_table_options
from geolake_nb.errors import GeolakeError
from geolake_nb.formats.rules import RULES
from geolake_nb.geo.wkb import MalformedWkbError, UnsupportedWkbError, WkbError
from geolake_nb.jupyter.magic_commands import SUBCOMMANDS, parser_of
from geolake_nb.reference.markdown import anchor, block, index, page, table
from geolake_nb.spark.functions import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from geolake_nb.checks.rule import Rule

__all__ = [
    "PLAN_OPTIONS",
    "TABLE_OPTIONS",
    "command_page",
    "error_page",
    "finding_page",
    "magic_page",
    "option_table",
    "options_of",
    "pages",
    "shared_options",
    "sql_page",
    "usage",
]


def usage(parser: argparse.ArgumentParser) -> str:
    """The command with its words in their order; what may be left out stands in brackets.

    >>> from geolake_nb.cli import parsers_of_commands
    >>> usage(parsers_of_commands()["diff"])
    'geolake diff TABLE OLD [NEW] [options]'
    >>> usage(parsers_of_commands()["explain"])
    'geolake explain TABLE (--where SQL | --box XMIN,YMIN,XMAX,YMAX) [options]'
    """
    words = [_word(action) for action in parser._actions if not action.option_strings]
    words += [_called(action) for action in parser._actions if action.option_strings and action.required]
    for group in parser._mutually_exclusive_groups:
        if group.required:
            words.append(f"({' | '.join(map(_called, group._group_actions))})")
    more = any(action.option_strings and action.dest not in ("help", "debug") for action in parser._actions)
    return " ".join([parser.prog, *words, *(["[options]"] if more else [])])


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """The names of all its options and words."""
    return {action.dest for action in parser._actions}


def option_table(parser: argparse.ArgumentParser, *, besides: Container[str] = ()) -> str:
    """What each of its words and options means; the names in `besides` are left out."""
    rows = [
        (f"`{_called(action) if action.option_strings else _name(action)}`", _escaped(action.help or ""))
        for action in parser._actions
        if action.dest not in besides
    ]
    return table(["option", "what it does"], rows)


def _called(action: argparse.Action) -> str:
    """The longest name of an option, with its value."""
    flag = max(action.option_strings, key=len)
    if action.nargs == 0:
        return flag
    return f"{flag} [{_name(action)}]" if action.nargs == "?" else f"{flag} {_name(action)}"


def _word(action: argparse.Action) -> str:
    name = _name(action)
    return {"?": f"[{name}]", "*": f"[{name} ...]"}.get(str(action.nargs), name)


def _name(action: argparse.Action) -> str:
    if action.choices is not None:
        return ",".join(map(str, action.choices))
    return str(action.metavar or action.dest.replace("_", "-").upper())


def _escaped(text: str) -> str:
    # Only what a table of Markdown would take for its own; argparse writes %% for a per cent.
    return text.replace("%%", "%").replace("|", "\\|")


TABLE_OPTIONS = "Options of every table"
PLAN_OPTIONS = "Options of every change"

_COMMAND_HEAD = """\
Commands on a table print text, or JSON with `--json`. `geolake help COMMAND` shows all options of one.
In the examples `roads` is a Delta table, `places` one with shapes in bytes, `parcels` a folder of Parquet files
and `scenes` a Havasu table of rasters."""
_CODES = """\
The exit code is 0 on success, 1 when `check` has findings, 2 when these are errors, 3 when the command
failed with [an error](errors.md), 4 when `maintain` made no change because other writers committed first each time, and
130 when it was cancelled."""
_CHANGES = """\
A command that changes a table prints a plan and changes nothing. With `--apply` it runs the plan.
`geolake undo` reverts it; a step that cannot be undone is named in the plan and needs `--consent`."""


def command_page() -> str:
    """The page."""
    parsers = parsers_of_commands()
    entries = [(f"geolake {name}", parser.description or "") for name, parser in parsers.items()]
    return page(
        "# Commands",
        _COMMAND_HEAD,
        _CODES,
        index("command", entries),
        *(_command_section(parser) for parser in parsers.values()),
        f"## {TABLE_OPTIONS}",
        option_table(_parser(add_table_options), besides=("help",)),
        f"## {PLAN_OPTIONS}",
        _CHANGES,
        option_table(_parser(add_plan_options), besides=_names(add_table_options)),
    )


def _command_section(parser: argparse.ArgumentParser) -> str:
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


_MAGIC_HEAD = """\
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
        _MAGIC_HEAD,
        _CELLS,
        block("%%geolake explain t\nid > 3 AND ST_Intersects(geom, 'POINT(1 2)')", "ipython"),
        _ALL,
        index("magic", entries),
        *map(_magic_section, SUBCOMMANDS),
    )


def _magic_section(name: str) -> str:
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


_FINDING_HEAD = """\
`geolake check TABLE` reports problems of a table. Each finding has the name of a rule, a scope, the section
of a specification, and the command that fixes it. `geolake help RULE` prints the section of a rule."""
_WORDS = """\
A file's *bounds* are the smallest box around its shapes: xmin, ymin, xmax, ymax. A spatial query skips
the files whose bounds do not overlap it. A *CRS*, coordinate reference system, defines what the numbers mean:
degrees or metres, and their origin. A *geometry* lies on a plane, a *geography* on the Earth.
A *collation* defines how strings compare."""
_SPEC = """\
Where several documents have the rule, a finding names the section of the table's own format."""
_SEVERITIES = {
    Severity.ERROR: "queries can miss rows, or engines refuse the table",
    Severity.WARNING: "results are correct, but too much is read, or something will break later",
    Severity.INFO: "for information; no action is needed",
}
_FINDING_PYTHON = """import geolake_nb as gl

for finding in gl.open("roads").check():
    print(finding.rule, finding.severity.value, finding.fix)"""


def finding_page() -> str:
    """The page."""
    return page(
        "# Findings",
        _FINDING_HEAD,
        block(_FINDING_PYTHON, "python runs"),
        _WORDS,
        _SPEC,
        table(["severity", "what it means"], [(severity.value, text) for severity, text in _SEVERITIES.items()]),
        table(
            ["rule", "severity", "what is wrong"],
            [(f"[{rule.id}](#{anchor(rule.id)})", rule.severity.value, rule.summary) for rule in RULES],
        ),
        *map(_finding_section, RULES),
    )


def _finding_section(rule: Rule) -> str:
    what, why, seen = rule.about
    return page(
        f"## {rule.id}",
        f"**{rule.severity.value.capitalize()}**: {what}",
        f"Why it matters: {why}",
        *_fix_lines(rule),
        f"{seen} Reference: {rule.spec}.",
    ).rstrip()


def _fix_lines(rule: Rule) -> tuple[str, ...]:
    if rule.fix is None:
        return (f"No command fixes it: {rule.no_command}.",)
    name = rule.fix.split()[1]
    link = f"[geolake {name}](commands.md#{anchor(f'geolake {name}')})"
    command = block(rule.fix.replace("{table}", "TABLE").replace("{column}", "COLUMN"))
    otherwise = () if rule.no_command is None else (f"Where no command fixes it: {rule.no_command}.",)
    return f"Fix it with {link}:", command, *otherwise


_ERROR_HEAD = """\
Every message says what is wrong, where, and how to fix it, with a semicolon before the fix. In a shell it is one
line on standard error and the exit code 3. In a notebook it is one line too; `--debug` shows the traceback."""
_ERROR_PYTHON = """import geolake_nb as gl

try:
    gl.open("no/such/table")
except gl.GeolakeError as error:
    print(error.what, error.where, error.remedy)"""


def error_page() -> str:
    """The page."""
    exported = [getattr(errors, name) for name in errors.__all__]
    kinds = sorted([*exported, WkbError, MalformedWkbError, UnsupportedWkbError], key=lambda kind: kind.__name__)
    return page(
        "# Errors",
        _ERROR_HEAD,
        block(_ERROR_PYTHON, "python runs"),
        index("error", [(kind.__name__, _summary(kind)) for kind in kinds]),
        *map(_error_section, kinds),
    )


def _error_section(kind: type[GeolakeError]) -> str:
    return page(
        f"## {kind.__name__}",
        _summary(kind),
        f"What to do: {kind.advice}",
        _parents(kind),
    ).rstrip()


def _summary(kind: type[GeolakeError]) -> str:
    return (kind.__doc__ or "").splitlines()[0]


def _parents(kind: type[GeolakeError]) -> str:
    """Which other `except` catches it."""
    ours = [base.__name__ for base in kind.__mro__[1:] if issubclass(base, GeolakeError)]
    theirs = [base.__name__ for base in kind.__bases__ if not issubclass(base, GeolakeError) and base is not Exception]
    words = [f"[{name}](#{anchor(name)})" for name in ours] + [f"`{name}`" for name in theirs]
    return f"Caught as {', '.join(words)} too." if words else ""


_SQL_HEAD = """`gl.sql(query, roads=t)`, `geolake sql` and `%%geolake sql` answer a SELECT over tables of all
formats. Each table is a name in FROM, or a location in quotes. The engine does joins, aggregates and order; it gets
only the files and row groups that the conditions leave, and `reads` of the answer says how many."""
_SQL_SEDONA = """SedonaDB runs in this process, and has all of its own functions. Spatial conditions skip files and row
groups by their box, and conditions on plain columns do where the query has one table."""
_SQL_SPARK = """`engine="spark"` runs the query on Spark 4.1 or later, on a cluster or over Spark Connect. Conditions of
the outer WHERE that relate a geo column to a literal geometry skip files and row groups: the relations below and
ST_DWithin. Only the columns that the query names are read. Spark has functions that convert geometries (ST_AsBinary,
ST_GeomFromWKB, ST_GeogFromWKB, ST_SetSRID, ST_SRID); those below are Arrow UDFs over shapely, and over S2 for
geographies, which `gl.spark_functions.register(spark)` adds to a session. A name that the session has already keeps
its function.

Both geometries of a function need one SRID, or one of them the SRID 0. A value that cannot be read gives null. Spark
refuses Python functions in the ON clause of an outer join; write an inner join, or compute the pairs before."""


def sql_page() -> str:
    """The page."""
    rows = [
        (f"`{name}({function.arguments})`", function.returns, function.summary) for name, function in FUNCTIONS.items()
    ]
    return page(
        "# Spatial SQL",
        _SQL_HEAD,
        block(_SQL_PYTHON, "python"),
        "## SedonaDB",
        _SQL_SEDONA,
        "## Spark",
        _SQL_SPARK,
        table(("function", "gives", "what"), rows),
    )


_SQL_PYTHON = """window = "ST_SetSRID(ST_MakeEnvelope(5, 45, 11, 48), 4326)"
gl.sql(f"SELECT id FROM roads WHERE ST_Intersects(geom, {window})", roads=t)
gl.sql("SELECT count(*) AS n FROM 's3://lake/roads'", engine="spark")"""


def pages() -> dict[str, str]:
    """The Markdown of each page by the name of its file.

    >>> sorted(pages())
    ['api.md', 'commands.md', 'errors.md', 'findings.md', 'magics.md', 'spatial-sql.md']
    """
    from geolake_nb.reference.api_page import api_page

    return {
        "commands.md": command_page(),
        "magics.md": magic_page(),
        "findings.md": finding_page(),
        "errors.md": error_page(),
        "api.md": api_page(),
        "spatial-sql.md": sql_page(),
    }
