"""The dialog for a rewrite: columns and sizes, what it would change on two maps, and the plan with its progress."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import ipywidgets

from geolake_nb.core.curves import Curve
from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.cards import render
from geolake_nb.jupyter.cell_widgets import close_whole
from geolake_nb.jupyter.editor_parts import Editor, PlanPlace, button, control, heading, hidden
from geolake_nb.jupyter.html import visible
from geolake_nb.jupyter.preview_view import preview_maps
from geolake_nb.jupyter.rewrite_draft import RewriteDraft, cluster_columns, draft_for
from geolake_nb.planning.writing.packing import ROW_GROUP_ROWS

if TYPE_CHECKING:
    from geolake_nb.api.plan import Plan
    from geolake_nb.api.table import Table
    from geolake_nb.planning.writing.preview import Preview

__all__ = ["RewriteDialog"]

_SIZES = ("16MB", "32MB", "64MB", "128MB", "256MB", "512MB", "1GB")


class RewriteDialog(Editor):
    """A rewrite is put together here, looked at before it is made, and planned; nothing is written before that.

    `draft` is what the dialog holds, and what it begins with where one is given.
    """

    usage = (
        "A dialog for a rewrite, shown where a notebook runs. Choose the columns to cluster by, the curve and the\n"
        "sizes, press Preview to see the files before and after, press Plan. Without a front end:\n"
        "t.plan_rewrite(cluster_by='geom') plans one, and its preview() foretells it."
    )

    def __init__(self, table: Table, *, spark: Any = None, draft: RewriteDraft | None = None) -> None:
        super().__init__("rewrite-dialog")
        self.table = table
        self._known = cluster_columns(table.schema, table.snapshot.partition_columns)
        self.draft = draft_for(self._known) if draft is None else draft
        self.preview: Preview | None = None
        """The last one that was asked for, of what the controls say now."""
        self.plan_place = PlanPlace(spark=spark, on_done=self._reload)
        self._make_controls()
        self._look()

    def __repr__(self) -> str:
        by = ", ".join(self.draft.cluster_by) or "no column"
        return f"RewriteDialog({self.table.location!r}, by {by} along {self.draft.curve})"

    @property
    def plan(self) -> Plan | None:
        """The plan that is shown."""
        return self.plan_place.plan

    def _make_controls(self) -> None:
        draft = self.draft
        self.columns = control(
            ipywidgets.Select,
            "columns",
            "Columns to choose from",
            options=[(visible(f"{one.path}  {one.kind}"), one.path) for one in self._known],
            rows=5,
        )
        self.chosen = control(ipywidgets.Select, "cluster", "Cluster by, in this order", rows=3)
        self.add_button = button("add", "Add", self._add, tooltip="Cluster by the chosen column too")
        self.remove_button = button("remove", "Remove", self._remove, tooltip="Take it from the list")
        self.up_button = button("up", "Up", lambda: self._move(-1), tooltip="Move it to the front")
        self.down_button = button("down", "Down", lambda: self._move(1), tooltip="Move it to the back")
        self.curve = control(
            ipywidgets.Dropdown, "curve", "Curve", options=[one.value for one in Curve], value=draft.curve
        )
        self.file_size = control(
            ipywidgets.Combobox, "file-size", "Target file size", options=_SIZES, value=draft.target_file_size
        )
        self.group_rows = control(
            ipywidgets.IntText, "row-group-rows", "Rows of a row group", value=draft.row_group_rows or ROW_GROUP_ROWS
        )
        partitions = "Partitions (SQL), all by default"
        self.where = control(ipywidgets.Text, "where", partitions, value=draft.where or "", continuous_update=False)
        hidden(self.where, when=not self.table.snapshot.partition_columns)
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
            self.plan_place.box,
        )

    def _add(self) -> None:
        with self.trying():
            if self.columns.value is None:
                raise GeolakeError("no column is chosen", remedy="choose one in the list of columns")
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
            # What was foretold and planned is not what is asked for any more.
            self.plan_place.clear()
            self._show_preview(None)
        self._look(chosen)

    def _look(self, chosen: str | None = None) -> None:
        """Show the columns in their order."""
        by = self.draft.cluster_by
        self.chosen.options = [(visible(f"{place}. {one}"), one) for place, one in enumerate(by, start=1)]
        self.chosen.value = chosen if chosen in by else by[0] if by else None

    def _made(self) -> Plan:
        """The plan of what the controls say, on the table as it is now."""
        self.table = self.table.newest()
        return self.table.plan_rewrite(**self.draft.options)

    def _preview(self) -> None:
        hidden(self.bar, when=False)
        with self.trying():
            preview = self._made().preview(on_progress=self._tell)
            maps = preview_maps(preview)
            card = ipywidgets.HTML(render(preview) or "")
            self._show_preview(preview, *((card,) if maps is None else (card, maps)))
        hidden(self.bar, when=True)

    def _show_preview(self, preview: Preview | None, *widgets: Any) -> None:
        """Show a preview, or none, in the place of the last one."""
        last, self.preview, self.preview_box.children = self.preview_box.children, preview, widgets
        close_whole(*last)

    def _plan(self) -> None:
        with self.trying():
            self.plan_place.show(self._made())

    def _reload(self) -> None:
        """A plan is applied: what was foretold has come."""
        with self.trying():
            self.table = self.table.newest()

    def _tell(self, done: int, total: int) -> None:
        self.bar.max, self.bar.value = total, done
        self.bar.description = f"{done:,} of {total:,}"
