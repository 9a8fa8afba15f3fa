"""The subcommands of `%geolake`: their options, which are those of the shell, and what they return."""

from __future__ import annotations

import argparse
import difflib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from geolake_nb.changes.rewrite import rewrite_filter
from geolake_nb.cli import (
    advise,
    catalog,
    check,
    collations,
    convert,
    count,
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
from geolake_nb.cli.advise import advice_of
from geolake_nb.cli.collations import collation_changes
from geolake_nb.cli.convert import convert_plan
from geolake_nb.cli.engines import comparison_of
from geolake_nb.cli.explain import query_of
from geolake_nb.cli.layout import layout_answer
from geolake_nb.cli.maintain import maintain_plan, maintained
from geolake_nb.cli.map_file import add_map_options, map_of
from geolake_nb.cli.options import add_table_options, geo_types
from geolake_nb.cli.repair import repair_plan
from geolake_nb.cli.rewrite import rewrite_plan
from geolake_nb.cli.scan import scan_of
from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.views import shown_progress
from geolake_nb.text.messages import without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable

    from geolake_nb.api.plan import Plan
    from geolake_nb.api.table import Table

    Options = argparse.Namespace

__all__ = ["SUBCOMMANDS", "Subcommand", "answer", "overview", "parser_of", "subcommand"]

# A cell shows the value itself: it neither prints JSON nor cuts a text.
_SHELL_ONLY = frozenset({"--json", "--limit"})


@dataclass(frozen=True, slots=True)
class Subcommand:
    """One subcommand of the magic."""

    name: str
    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    example: str


def _of_shell(name: str, module: Any, example: str, *, opens: tuple[str, str] | None = None) -> Subcommand:
    """The subcommand of a shell command; `opens` is a flag that only a cell has, and what it opens."""
    # What it does with the exit code of a shell is nothing to a cell.
    summary = (module.__doc__ or "").splitlines()[0].partition("; exits")[0].rstrip(".") + "."

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        module.add_arguments(parser)
        if opens is not None:
            parser.add_argument(opens[0], action="store_true", help=opens[1])

    return Subcommand(name, summary, add_arguments, example)


def _add_map(parser: argparse.ArgumentParser) -> None:
    add_map_options(parser)
    parser.add_argument("--versions", action="store_true", help="add a slider over the versions of the table")
    parser.add_argument("-o", "--output", metavar="PATH", help="write the map as one HTML file that works offline")


SUBCOMMANDS = {
    subcommand.name: subcommand
    for subcommand in (
        _of_shell("open", open_table, "t = %geolake open /data/roads --version 12"),
        Subcommand(
            "protocol", "Required reader and writer features of a table.", add_table_options,
            "%geolake protocol t",
        ),
        _of_shell("schema", schema, "%geolake schema t"),
        _of_shell("files", files, "files = %geolake files t"),
        _of_shell("row-groups", row_groups, "%geolake row-groups t"),
        _of_shell(
            "rasters", rasters, "%geolake rasters t --browse",
            opens=("--browse", "open a browser: bands, pixel types, no-data, a map of the outlines"),
        ),
        Subcommand("map", "A map of the bounds of every file; works offline.", _add_map, "%geolake map t --color rows"),
        _of_shell("explain", explain, "x = %geolake explain t --where \"ST_Intersects(geom, 'POINT(1 2)')\""),
        _of_shell("scan", scan, "frame = (%geolake scan t --box=5,45,11,52).to_geopandas()"),
        _of_shell("head", head, "%geolake head t --rows 3"),
        _of_shell("count", count, "%geolake count t --where \"id > 3\""),
        _of_shell("sql", sql, "%geolake sql \"SELECT count(*) AS n FROM t WHERE ST_Intersects(geom, ST_Point(1, 2))\""),
        _of_shell("engines", engines, "%geolake engines t --box=5,45,11,52"),
        _of_shell("check", check, "%geolake check t --deep 10"),
        _of_shell("catalog", catalog, "c = %geolake catalog rest --property uri=http://localhost:8181"),
        _of_shell("layout", layout, "%geolake layout t --versions 10"),
        _of_shell("advise", advise, "%geolake advise t --queries queries.txt"),
        _of_shell("history", history, "%geolake history t"),
        _of_shell("diff", diff, "%geolake diff t 3 5"),
        _of_shell("repair", repair, "%geolake repair t --apply"),
        _of_shell(
            "rewrite", rewrite, "%geolake rewrite t --cluster geom --preview",
            opens=("--edit", "open a dialog: columns, sizes, maps before and after, the plan"),
        ),
        _of_shell("maintain", maintain, "%geolake maintain t --budget 2GB"),
        _of_shell("enable", enable, '%geolake enable t "geom=geometry(OGC:CRS84)"'),
        _of_shell(
            "collations", collations, "%geolake collations t name=icu.de_CI",
            opens=("--edit", "open an editor: strings, search, diff of the schema, the plan"),
        ),
        _of_shell("convert", convert, "%geolake convert /data/parquet /data/delta --cluster geom"),
        _of_shell("export", export, "%geolake export t map.html"),
        _of_shell("report", report, "%geolake report t -o report.html"),
        _of_shell("undo", undo, "%geolake undo t --apply"),
        _of_shell("help", help_topic, "%geolake help bounds.missing"),
    )
}  # fmt: skip
"""All of them, in the order in which a newcomer needs them."""


def subcommand(name: str) -> Subcommand:
    """The subcommand of that name.

    >>> subcommand("chek")
    Traceback (most recent call last):
    geolake_nb.errors.GeolakeError: no subcommand 'chek'; did you mean check or schema? %geolake help lists all
    """
    if name in SUBCOMMANDS:
        return SUBCOMMANDS[name]
    near = sorted(difflib.get_close_matches(name, SUBCOMMANDS, n=3))
    hint = f"did you mean {' or '.join(near)}?" if near else f"use one of: {', '.join(sorted(SUBCOMMANDS))};"
    raise GeolakeError(f"no subcommand {name[:60]!r}", remedy=f"{hint} %geolake help lists all")


@cache
def parser_of(name: str) -> argparse.ArgumentParser:
    """What reads the words after a subcommand; it raises instead of leaving the process.

    >>> parser_of("diff").parse_args(["t", "3"]).old
    3
    >>> parser_of("check").parse_args(["t", "--depp"])
    Traceback (most recent call last):
    geolake_nb.errors.GeolakeError: unrecognized arguments: --depp; did you mean --deep? %geolake help check shows ...
    """
    known = subcommand(name)
    parser = _Parser(
        prog=f"%geolake {name}",
        description=known.summary,
        epilog=f"example:\n  {known.example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    known.add_arguments(parser)
    for action in parser._actions:
        if action.dest == "table":
            action.help = f"a variable that holds a table, or {action.help}"
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.add_argument("-h", "--help", action="store_true", help="show this")
    return parser


def overview() -> str:
    """One line for each subcommand, and how it all starts.

    >>> "explain" in overview()
    True
    """
    lines = [f"  {subcommand.name:<12}{subcommand.summary}" for subcommand in SUBCOMMANDS.values()]
    head = (
        "usage: %geolake SUBCOMMAND TABLE [options]\n\nTABLE is a variable that holds a table, a path, a URL or a name."
    )
    tail = [
        "t = %geolake open /data/roads",
        "%geolake check t",
        "%geolake help explain",
        "%geolake help bounds.missing",
    ]
    return "\n".join([head, "", *lines, "", "examples:", *(f"  {line}" for line in tail)])


class _Parser(argparse.ArgumentParser):
    """A parser for a cell: it has none of the options that are about printing, and raises our errors."""

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        if _SHELL_ONLY & set(names):
            # argparse wants an action back; this one is thrown away.
            return argparse.Action(list(names), "nothing")
        return super().add_argument(*names, **options)

    def error(self, message: str) -> NoReturn:
        name = self.prog.rpartition(" ")[2]
        flags = [flag for action in self._actions for flag in action.option_strings if flag.startswith("--")]
        near = difflib.get_close_matches(message.rpartition(": ")[2].split(" ")[0], flags, n=1)
        hint = f"did you mean {near[0]}? " if near and "unrecognized" in message else ""
        if _SHELL_ONLY & set(message.split()):
            hint = "leave out shell options, the cell returns the value itself; "
        raise GeolakeError(without_secrets(message), remedy=f"{hint}%geolake help {name} shows how it is used")


def answer(name: str, table: Table, options: Options) -> Any:
    """The result of the subcommand of that name."""
    return _ANSWERS[name](table, options)


def _row_groups(table: Table, options: Options) -> Any:
    from geolake_nb.jupyter.cards.results import TableRows

    with shown_progress("footers") as on_progress:
        return TableRows("row groups", table.row_groups(on_progress=on_progress))


def _rasters(table: Table, options: Options) -> Any:
    from geolake_nb.jupyter.cards.results import TableRows

    with shown_progress("files") as on_progress:
        if options.browse:
            return table.browse_rasters(on_progress=on_progress)
        return TableRows("rasters", table.rasters(on_progress=on_progress))


def _map(table: Table, options: Options) -> Any:
    shown = map_of(table, options, versions=options.versions)
    return shown if options.output is None else shown.to_html(options.output)


def _export(table: Table, options: Options) -> Any:
    return table.export(options.path, column=options.column)


def _report(table: Table, options: Options) -> Any:
    with shown_progress("files") as on_progress:
        return table.report(
            options.output,
            where=query_of(options),
            box_crs=options.box_crs,
            column=options.column,
            footers=options.footers,
            on_progress=on_progress,
        )


def _explain(table: Table, options: Options) -> Any:
    where = query_of(options)
    explanation = table.explain(where, column=options.column, box_crs=options.box_crs, row_groups=options.row_groups)
    return explanation.files if options.files else explanation


def _scan(table: Table, options: Options) -> Any:
    scan = scan_of(table, options)
    if options.output is None:
        return scan
    with shown_progress("row groups") as on_progress:
        return scan.to_file(options.output, format=options.format, on_progress=on_progress)


def _head(table: Table, options: Options) -> Any:
    return table.head(options.rows)


def _count(table: Table, options: Options) -> Any:
    return scan_of(table, options).count()


def _engines(table: Table, options: Options) -> Any:
    with shown_progress("engines") as on_progress:
        return comparison_of(table, options, on_progress)


def _check(table: Table, options: Options) -> Any:
    with shown_progress("files") as on_progress:
        return table.check(footers=not options.metadata_only, deep=options.deep, on_progress=on_progress)


def _repair(table: Table, options: Options) -> Any:
    with shown_progress("footers") as on_progress:
        plan = repair_plan(table, options, on_progress)
    return _planned(plan, options)


def _rewrite(table: Table, options: Options) -> Any:
    if options.edit:
        return _rewrite_dialog(table, options)
    plan = rewrite_plan(table, options)
    if not options.preview:
        return _planned(plan, options)
    with shown_progress("files") as on_progress:
        return plan.preview(on_progress=on_progress)


def _maintain(table: Table, options: Options) -> Any:
    if options.apply and options.expect is None:
        with shown_progress("tasks") as on_progress:
            return maintained(table, options, on_progress)
    with shown_progress("footers") as on_progress:
        plan = maintain_plan(table, options, on_progress)
    if not options.preview:
        return _planned(plan, options)
    with shown_progress("files") as on_progress:
        return plan.preview(on_progress=on_progress)


def _advise(table: Table, options: Options) -> Any:
    with shown_progress("files") as on_progress:
        return advice_of(table, options, on_progress)


def _enable(table: Table, options: Options) -> Any:
    if options.columns == ["collations"]:
        return _planned(table.plan_collations(), options)
    words = [] if options.columns == ["geospatial"] else options.columns
    return _planned(table.plan_enable(geo_types(words)), options)


def _rewrite_dialog(table: Table, options: Options) -> Any:
    from geolake_nb.jupyter.drafts import RewriteDraft
    from geolake_nb.jupyter.rewrite_dialog import RewriteDialog

    _refuse_apply(options)
    draft = RewriteDraft(
        tuple(options.cluster), options.curve, options.file_size, options.row_group_rows, _where_text(table, options)
    )
    # Without a word about the layout the dialog begins with what is most often meant.
    return table.edit_rewrite() if draft == RewriteDraft() else RewriteDialog(table, draft=draft)


def _where_text(table: Table, options: Options) -> str | None:
    """The filter of the options as SQL, as the dialog shows it."""
    where = query_of(options)
    if where is None or (isinstance(where, str) and options.box_crs is None):
        return where
    return str(rewrite_filter(table.snapshot, where, cluster_by=options.cluster, box_crs=options.box_crs))


def _collation_editor(table: Table, options: Options) -> Any:
    from geolake_nb.jupyter.collation_editor import CollationEditor

    _refuse_apply(options)
    editor = CollationEditor(table, changes=collation_changes(options.changes))
    editor.refresh.value, editor.upgrade.value = options.refresh, options.upgrade
    return editor


def _refuse_apply(options: Options) -> None:
    if options.apply:
        raise GeolakeError("--edit opens an editor, and --apply commits at once", remedy="leave one of them out")


def _collations(table: Table, options: Options) -> Any:
    if options.edit:
        return _collation_editor(table, options)
    if options.changes or options.refresh or options.upgrade:
        changes = collation_changes(options.changes)
        return _planned(table.plan_collations(changes, refresh=options.refresh, upgrade=options.upgrade), options)
    if options.apply:
        raise GeolakeError("no change to apply", remedy="write COLUMN=ID, --refresh or --upgrade")
    return table.collations


def _convert(table: Table, options: Options) -> Any:
    if options.target is None and not options.in_place:
        raise GeolakeError("the location of the new table is missing", remedy="write %geolake convert TABLE TARGET")
    return _planned(convert_plan(table, options), options)


def _undo(table: Table, options: Options) -> Any:
    return _planned(table.plan_undo(options.undo_version), options)


def _planned(plan: Plan, options: Options) -> Any:
    """The plan, or the report of what it did."""
    if not options.apply:
        return plan
    with shown_progress("tasks") as on_progress:
        return plan.apply(
            consent=options.consent, expect=options.expect, single_writer=options.single_writer, on_progress=on_progress
        )


_ANSWERS: dict[str, Callable[[Table, Options], Any]] = {
    "open": lambda table, _: table,
    "protocol": lambda table, _: table.protocol,
    "schema": lambda table, _: table.schema,
    "files": lambda table, _: table.files,
    "row-groups": _row_groups,
    "rasters": _rasters,
    "scan": _scan,
    "head": _head,
    "count": _count,
    "map": _map,
    "explain": _explain,
    "engines": _engines,
    "check": _check,
    "layout": layout_answer,
    "advise": _advise,
    "history": lambda table, _: table.history(),
    "diff": lambda table, options: table.diff(options.old, options.new),
    "repair": _repair,
    "rewrite": _rewrite,
    "maintain": _maintain,
    "enable": _enable,
    "collations": _collations,
    "convert": _convert,
    "export": _export,
    "report": _report,
    "undo": _undo,
}
