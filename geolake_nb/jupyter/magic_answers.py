"""The subcommands of `%geolake`: each calls the table and returns the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geolake_nb.cli.collations import collation_changes
from geolake_nb.cli.convert import convert_plan
from geolake_nb.cli.explain import query_of
from geolake_nb.cli.plan_options import geo_types
from geolake_nb.cli.repair import repair_plan
from geolake_nb.cli.rewrite import rewrite_plan
from geolake_nb.cli.scan import scan_of
from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.progress import shown_progress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from geolake_nb.api.plan import Plan
    from geolake_nb.api.table import Table

    Options = argparse.Namespace

__all__ = ["answer"]


def answer(name: str, table: Table, options: Options) -> Any:
    """The result of the subcommand of that name."""
    return _ANSWERS[name](table, options)


def _row_groups(table: Table, options: Options) -> Any:
    from geolake_nb.jupyter.table_rows import TableRows

    with shown_progress("footers") as on_progress:
        return TableRows("row groups", table.row_groups(on_progress=on_progress))


def _rasters(table: Table, options: Options) -> Any:
    from geolake_nb.jupyter.table_rows import TableRows

    with shown_progress("files") as on_progress:
        if options.browse:
            return table.browse_rasters(on_progress=on_progress)
        return TableRows("rasters", table.rasters(on_progress=on_progress))


def _map(table: Table, options: Options) -> Any:
    given = _given(color=options.color, box_crs=options.box_crs)
    return table.map(column=options.column, where=query_of(options), **given)


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


def _enable(table: Table, options: Options) -> Any:
    if options.columns == ["collations"]:
        return _planned(table.plan_collations(), options)
    words = [] if options.columns == ["geospatial"] else options.columns
    return _planned(table.plan_enable(geo_types(words)), options)


def _rewrite_dialog(table: Table, options: Options) -> Any:
    from geolake_nb.jupyter.rewrite_dialog import RewriteDialog
    from geolake_nb.jupyter.rewrite_draft import RewriteDraft

    _refuse_apply(options)
    draft = RewriteDraft(
        tuple(options.cluster), options.curve, options.file_size, options.row_group_rows, options.where
    )
    # Without a word about the layout the dialog begins with what is most often meant.
    return table.edit_rewrite() if draft == RewriteDraft() else RewriteDialog(table, draft=draft)


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
    if options.target is None:
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


def _given(**options: Any) -> dict[str, Any]:
    """The options that were given: others keep the default of the function that takes them."""
    return {name: value for name, value in options.items() if value is not None}


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
    "check": _check,
    "history": lambda table, _: table.history(),
    "diff": lambda table, options: table.diff(options.old, options.new),
    "repair": _repair,
    "rewrite": _rewrite,
    "enable": _enable,
    "collations": _collations,
    "convert": _convert,
    "export": _export,
    "report": _report,
    "undo": _undo,
}
