"""`%geolake` and `%%geolake`: what `%load_ext geolake_nb` registers; they parse, dispatch and show errors."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from geolake_nb.errors import GeolakeError, MissingFileError
from geolake_nb.jupyter.completion import add_completion, remove_completion
from geolake_nb.jupyter.magic_commands import SUBCOMMANDS, answer, overview, parser_of, subcommand
from geolake_nb.jupyter.magic_words import Quoted, split_words
from geolake_nb.jupyter.views import shown_progress
from geolake_nb.text.messages import near_names, printable, without_secrets

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from IPython.core.interactiveshell import InteractiveShell

    from geolake_nb.api.table import Table

__all__ = ["GeolakeMagics", "load", "unload"]

_DEBUG = "--debug"


@magics_class
class GeolakeMagics(Magics):
    """The magics of this package."""

    @no_var_expand
    @line_cell_magic
    def geolake(self, line: str, cell: str | None = None) -> Any:
        """Inspect and repair geospatial lakehouse tables."""
        words = split_or_none(line)
        try:
            if words is None:
                split_words(line)
            return self._run(words or [], cell)
        except GeolakeError as problem:
            if words is None or _DEBUG not in words:
                _in_one_sentence(problem)
            else:
                problem.show_traceback()
            raise
        except KeyboardInterrupt as problem:
            _as_lines(problem, ["geolake: cancelled; uncommitted changes are not in the table"])
            raise
        except Exception as problem:
            if words is not None and _DEBUG in words:
                raise
            kind = type(problem).__name__
            unexpected = GeolakeError(
                f"{kind}: {without_secrets(str(problem))}", remedy="this is a bug in geolake; please report it"
            )
            _in_one_sentence(unexpected)
            raise unexpected from problem

    @property
    def _names(self) -> Mapping[str, Any]:
        """The variables of the notebook."""
        return {} if self.shell is None else self.shell.user_ns

    def _run(self, words: list[str], cell: str | None) -> Any:
        if words[:1] == [_DEBUG]:
            words = [*words[1:], _DEBUG]
        if not words or words == [_DEBUG] or words[0] in ("-h", "--help"):
            return _print(overview())
        name, rest = words[0], words[1:]
        parser = parser_of(subcommand(name).name)
        if "--help" in rest or "-h" in rest:
            return _print(parser.format_help())
        if name == "help":
            return _print(_help(parser.parse_args(rest).topic))
        if name == "sql":
            return _sql(parser.parse_args(rest if cell is None else [*rest, "--", cell.strip()]), self._names)
        if name == "catalog":
            return _catalog(parser.parse_args(rest))
        if cell is not None:
            rest.append(_body(name, parser, rest, cell))
        options = parser.parse_args(rest)
        if name == "check" and (options.catalog or _is_catalog(self._names.get(options.table))):
            return _catalog_check(options, self._names.get(options.table))
        return answer(name, _table(options, self._names), options)


# What `%geolake?` shows.
GeolakeMagics.geolake.__doc__ = f"{GeolakeMagics.geolake.__doc__}\n\n{overview()}"


def split_or_none(line: str) -> list[str] | None:
    """The words of a line, `None` for one that cannot be split.

    >>> split_or_none("open 'a") is None
    True
    """
    try:
        return split_words(line)
    except GeolakeError:
        return None


def _help(topic: str | None) -> str:
    from geolake_nb.reference import section

    if topic is None:
        return overview()
    return parser_of(topic).format_help() if topic in SUBCOMMANDS else section(topic, besides=SUBCOMMANDS)


def _body(name: str, parser: argparse.ArgumentParser, line: list[str], cell: str) -> str:
    """The lines under `%%geolake` as an option."""
    if "--where" not in parser.format_usage():
        raise GeolakeError(f"{name} takes no text below its line", remedy=f"write %geolake {name} with one %")
    if not cell.strip():
        raise GeolakeError("the filter below the line is missing", remedy="write one, such as id > 3")
    if any(word.partition("=")[0] == "--where" for word in line):
        # argparse would silently take the last one.
        raise GeolakeError(
            "the filter is given twice, with --where and below the line", remedy="join them with AND in one place"
        )
    return f"--where={cell.strip()}"


def _sql(options: argparse.Namespace, names: Mapping[str, Any]) -> Any:
    """The answer to a query over the tables in variables that it names."""
    from geolake_nb.api.sql import tables_of
    from geolake_nb.api.table import Table
    from geolake_nb.cli.sql import answer_of

    named = {name: names[name] for name in tables_of(options.query) if isinstance(names.get(name), Table)}
    return answer_of(options, named)


def _catalog(options: argparse.Namespace) -> Any:
    """The catalog, or the details of its tables."""
    from geolake_nb.cli.catalog import connect

    connected = connect(options.catalog, options)
    if not options.details:
        return connected
    with shown_progress("tables") as on_progress:
        return connected.details(on_progress=on_progress).to_pandas()


def _is_catalog(value: Any) -> bool:
    return type(value).__module__ == "geolake_nb.api.catalog" and hasattr(value, "tables_in")


def _catalog_check(options: argparse.Namespace, value: Any) -> Any:
    """The check of all tables of a catalog, in a variable or by its name."""
    from geolake_nb.cli.catalog import connect

    connected = value if _is_catalog(value) else connect(options.table, options)
    with shown_progress("tables") as on_progress:
        return connected.check(on_progress=on_progress)


def _table(options: argparse.Namespace, names: Mapping[str, Any]) -> Table:
    """The table of a variable, or the one that a path or a name leads to."""
    from geolake_nb.api.table import Table
    from geolake_nb.cli.options import open_table

    word = options.table
    if isinstance(word, Quoted) or not word.isidentifier() or word not in names:
        try:
            return open_table(options)
        except MissingFileError as problem:
            near = near_names(word, [name for name, value in names.items() if isinstance(value, Table)], 1)
            if isinstance(word, Quoted) or not near:
                raise
            what = f"neither a variable nor a path is named {printable(word, 60)}"
            raise MissingFileError(what, remedy=f"did you mean {near[0]}?") from problem
    value = names[word]
    if isinstance(value, Table):
        return _at(value, word, options)
    if isinstance(value, str | os.PathLike) or type(value).__module__.startswith(("deltalake", "pyiceberg")):
        options.table = value
        return open_table(options)
    raise GeolakeError(
        f"expected a table in the variable {word}, got a {type(value).__name__}",
        remedy=f"write ./{word} or '{word}' for a path, or open it: {word} = %geolake open PATH",
    )


def _at(table: Table, name: str, options: argparse.Namespace) -> Table:
    """The table of a variable, at the given version."""
    for flag in ("timestamp", "branch", "tag", "storage_option"):
        if getattr(options, flag):
            words = f"--{flag.replace('_', '-')}"
            raise GeolakeError(
                f"{name} is already open, and {words} applies only when opening", remedy="give the path instead"
            )
    version = options.version if options.version is not None else options.snapshot_id
    if version is None and hasattr(options, "apply") and not _only_lists(options):
        # A change is made to the newest version, whichever version the variable has.
        return table.newest()
    return table if version is None or version == table.version else table.at(version)


def _only_lists(options: argparse.Namespace) -> bool:
    """Whether the command changes nothing: the collations of a table are listed at its version."""
    wanted = ("changes", "refresh", "upgrade", "edit")
    return all(hasattr(options, name) for name in wanted) and not any(getattr(options, name) for name in wanted)


def _print(text: str) -> None:
    print(text)


def _in_one_sentence(problem: GeolakeError) -> None:
    _as_lines(problem, [*problem.message_lines("geolake"), "(--debug shows the traceback)"])


def _as_lines(problem: BaseException, lines: list[str]) -> None:
    """Have IPython show these lines instead of a traceback; the error itself is unchanged."""
    vars(problem)["_render_traceback_"] = lambda: lines


def load(shell: InteractiveShell) -> None:
    """Register `%geolake` in the shell."""
    shell.register_magics(GeolakeMagics)
    add_completion(shell)


def unload(shell: InteractiveShell) -> None:
    """Unregister it."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("geolake", None)
    remove_completion(shell)
