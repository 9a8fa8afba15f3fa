"""The dialog for a rewrite: columns and sizes, a preview on two maps, and the plan with its progress."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ipywidgets

from geolake_nb.changes.write_job import ROW_GROUP_ROWS
from geolake_nb.errors import GeolakeError
from geolake_nb.formats.registry import DELTA
from geolake_nb.geo.curves import Curve
from geolake_nb.jupyter.cards import render
from geolake_nb.jupyter.cell_widgets import close_whole
from geolake_nb.jupyter.drafts import RewriteDraft, cluster_columns, draft_for
from geolake_nb.jupyter.editor_parts import Editor, PlanArea, button, control, heading, hidden
from geolake_nb.jupyter.html import visible
from geolake_nb.jupyter.map_view import GeolakeMap
from geolake_nb.jupyter.views import display_live, in_notebook
from geolake_nb.model.snapshot import Protocol, Snapshot

if TYPE_CHECKING:
    from geolake_nb.api.plan import Plan
    from geolake_nb.api.table import Table
    from geolake_nb.changes.rewrite import Preview, PreviewSide

__all__ = ["RewriteDialog", "display_preview", "preview_maps"]


def display_preview(preview: Preview) -> None:
    """Show the preview: its card, and the maps where there is a front end for them."""
    from IPython.display import display

    display({"text/html": render(preview), "text/plain": str(preview)}, raw=True)  # type: ignore[no-untyped-call]
    maps = preview_maps(preview) if in_notebook() else None
    if maps is not None:
        display_live(maps, "Maps before and after: in a live notebook")


def preview_maps(preview: Preview) -> Any:
    """The two maps, which move together and share the window; `None` without a geo column."""
    if preview.column is None or preview.schema is None:
        return None
    return _map(preview, preview.before, "before").beside(_map(preview, preview.after, "after"))


def _map(preview: Preview, side: PreviewSide, name: str) -> GeolakeMap:
    assert preview.schema is not None
    files = Snapshot(DELTA, name, None, None, preview.schema, Protocol(""), side.files)
    return GeolakeMap(files, column=preview.column, color="bytes", title=name, height=360)


_SIZES = ("16MB", "32MB", "64MB", "128MB", "256MB", "512MB", "1GB")


class RewriteDialog(Editor):
    """Configure, preview and plan a rewrite; nothing is written before the plan is applied.

    `draft` holds the settings; pass one to start from it.
    """

    usage = (
        "A dialog for a rewrite, for a live notebook. Choose the columns to cluster by, the curve and the\n"
        "sizes, press Preview to see the files before and after, press Plan. Without a front end:\n"
        "t.plan_rewrite(cluster_by='geom') plans one, and its preview() estimates the result."
    )

    def __init__(self, table: Table, *, spark: Any = None, draft: RewriteDraft | None = None) -> None:
        super().__init__("rewrite-dialog")
        self.table = table
        self._known = cluster_columns(table.schema, table.snapshot.partition_columns)
        self.draft = draft_for(self._known) if draft is None else draft
        self.preview: Preview | None = None
        """The last one, if it matches the controls."""
        self.plan_area = PlanArea(spark=spark, on_done=self._reload)
        self._make_controls()
        self._look()

    def __repr__(self) -> str:
        by = ", ".join(self.draft.cluster_by) or "no column"
        return f"RewriteDialog({self.table.location!r}, by {by} along {self.draft.curve})"

    @property
    def plan(self) -> Plan | None:
        """The plan that is shown."""
        return self.plan_area.plan

    def _make_controls(self) -> None:
        draft = self.draft
        self.columns = control(
            ipywidgets.Select,
            "columns",
            "Columns",
            options=[(visible(f"{column.path}  {column.kind}"), column.path) for column in self._known],
            rows=5,
        )
        self.chosen = control(ipywidgets.Select, "cluster", "Cluster by, in this order", rows=3)
        self.add_button = button("add", "Add", self._add, tooltip="Add the selected column")
        self.remove_button = button("remove", "Remove", self._remove, tooltip="Remove the selected column")
        self.up_button = button("up", "Up", lambda: self._move(-1), tooltip="Move the column up")
        self.down_button = button("down", "Down", lambda: self._move(1), tooltip="Move the column down")
        self.curve = control(
            ipywidgets.Dropdown, "curve", "Curve", options=[curve.value for curve in Curve], value=draft.curve
        )
        self.file_size = control(
            ipywidgets.Combobox, "file-size", "Target file size", options=_SIZES, value=draft.target_file_size
        )
        self.group_rows = control(
            ipywidgets.IntText, "row-group-rows", "Rows per row group", value=draft.row_group_rows or ROW_GROUP_ROWS
        )
        filter_text = "Files that may match (SQL or WKT), all by default"
        self.where = control(ipywidgets.Text, "where", filter_text, value=draft.where or "", continuous_update=False)
        self.preview_button = button("preview", "Preview", self._preview)
        self.plan_button = button("make-plan", "Plan", self._plan, button_style="primary")
        self.bar = ipywidgets.IntProgress(min=0, max=1)
        self.preview_box = ipywidgets.VBox([])
        self.preview_box.add_class("geolake-preview-maps")
        for widget in (self.columns, self.chosen):
            widget.add_class("geolake-list")
        for widget in (self.curve, self.file_size, self.group_rows, self.where):
            widget.observe(self._typed, names="value")
        hidden(self.bar, when=True)
        self.add(
            heading("Rewrite", self.table.location),
            self.columns,
            ipywidgets.HBox([self.add_button]),
            self.chosen,
            ipywidgets.HBox([self.up_button, self.down_button, self.remove_button]),
            self.curve,
            self.file_size,
            self.group_rows,
            self.where,
            ipywidgets.HBox([self.preview_button, self.plan_button, self.bar]),
            self.status,
            self.preview_box,
            self.plan_area.box,
        )

    def _add(self) -> None:
        with self.trying():
            if self.columns.value is None:
                raise GeolakeError("no column is selected", remedy="select one in the list of columns")
            self._become(self.draft.adding(self.columns.value), chosen=self.columns.value)

    def _remove(self) -> None:
        if self.chosen.value is not None:
            self._become(self.draft.without(self.chosen.value))

    def _move(self, by: int) -> None:
        if self.chosen.value is not None:
            self._become(self.draft.moved(self.chosen.value, by), chosen=self.chosen.value)

    def _typed(self, _: object) -> None:
        rows = self.group_rows.value
        self._become(
            replace(
                self.draft,
                curve=self.curve.value,
                target_file_size=self.file_size.value,
                row_group_rows=None if rows == ROW_GROUP_ROWS else rows,
                where=self.where.value.strip() or None,
            ),
            chosen=self.chosen.value,
        )

    def _become(self, draft: RewriteDraft, *, chosen: str | None = None) -> None:
        if draft != self.draft:
            self.draft = draft
            # The preview and the plan do not match the controls any more.
            self.plan_area.clear()
            self._show_preview(None)
        self._look(chosen)

    def _look(self, chosen: str | None = None) -> None:
        """Show the columns in their order."""
        by = self.draft.cluster_by
        self.chosen.options = [(visible(f"{number}. {column}"), column) for number, column in enumerate(by, start=1)]
        self.chosen.value = chosen if chosen in by else by[0] if by else None

    def _made(self) -> Plan:
        """The plan for the controls, on the newest version."""
        self.table = self.table.newest()
        return self.table.plan_rewrite(**self.draft.options)

    def _preview(self) -> None:
        hidden(self.bar, when=False)
        with self.trying():
            preview = self._made().preview(on_progress=self._show_progress)
            maps = preview_maps(preview)
            card = ipywidgets.HTML(render(preview) or "")
            self._show_preview(preview, *((card,) if maps is None else (card, maps)))
        hidden(self.bar, when=True)

    def _show_preview(self, preview: Preview | None, *widgets: Any) -> None:
        """Show a preview, or none, instead of the last one."""
        last, self.preview, self.preview_box.children = self.preview_box.children, preview, widgets
        close_whole(*last)

    def _plan(self) -> None:
        with self.trying():
            self.plan_area.show(self._made())

    def _reload(self) -> None:
        """Continue with the new version after a plan is applied."""
        with self.trying():
            self.table = self.table.newest()

    def _show_progress(self, done: int, total: int) -> None:
        self.bar.max, self.bar.value = total, done
        self.bar.description = f"{done:,} of {total:,}"
