"""The editor for collations: a tree of strings, a search over what Spark offers, the diff of the schema, the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets

from geolake_nb.errors import GeolakeError, RefusedError
from geolake_nb.formats.delta.collate import string_path
from geolake_nb.formats.registry import DELTA
from geolake_nb.jupyter.drafts import draft_of, matching_names, schema_diff
from geolake_nb.jupyter.editor_parts import Editor, PlanArea, beside, button, control, heading, shown
from geolake_nb.jupyter.html import tag
from geolake_nb.model.collation import collation_names
from geolake_nb.text.messages import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from geolake_nb.api.plan import Plan
    from geolake_nb.api.table import Table

__all__ = ["CollationEditor"]

_ROWS = 8
_MAX_STRINGS = 500
_MAX_NAMES = 200
_MAX_LINES = 400


class CollationEditor(Editor):
    """Collations are set and dropped here, for many strings at once; nothing is written before a plan is applied.

    `draft` is what the editor holds; `changes` are edits to begin with, as `t.plan_collations` takes them.
    """

    usage = (
        "An editor for the collations of strings, for a live notebook. Choose strings and a collation, press\n"
        "Set or Drop, read the diff, press Plan. Without a front end: t.collations shows them, and\n"
        "t.plan_collations({'name': 'icu.de_CI'}) plans a change."
    )

    def __init__(self, table: Table, *, spark: Any = None, changes: Mapping[str, str | None] | None = None) -> None:
        super().__init__("collation-editor")
        if table.snapshot.format is not DELTA:
            what = f"only Delta tables have collations, and this table is {table.snapshot.format.name}"
            raise RefusedError(what, where=table.location)
        self._spark = spark
        self.table = table
        self.draft = draft_of(table.snapshot)
        self.names = tuple(collation_names())
        self.plan_area = PlanArea(spark=spark, on_done=self._reload)
        self._make_controls()
        for name, identifier in (changes or {}).items():
            path = string_path(table.schema, name, table.location)
            kept = self.draft
            self.draft = kept.dropping([path]) if identifier is None else kept.setting([path], identifier)
        self._look()
        self._choose(changes or {})

    def __repr__(self) -> str:
        strings = sum(row.is_string for row in self.draft.rows)
        return f"CollationEditor({self.table.location!r}, {strings:,} strings, {len(self.draft.edits):,} edits)"

    @property
    def plan(self) -> Plan | None:
        """The plan that is shown."""
        return self.plan_area.plan

    def _make_controls(self) -> None:
        self.filter = control(ipywidgets.Text, "field-filter", "Filter strings", placeholder="part of a name")
        self.fields = control(ipywidgets.SelectMultiple, "fields", "Strings", rows=_ROWS)
        self.note = shown("note")
        self.search = control(ipywidgets.Text, "collation-search", "Search collations", placeholder="such as: de ci")
        self.offers = control(ipywidgets.Select, "collations", "Collation", rows=_ROWS)
        self.source = shown("source")
        self.from_spark = button("spark-refresh", "Load collations from Spark", self._load_from_spark)
        self.set_button = button("set", "Set", self._set, tooltip="Set the selected collation on the selected strings")
        self.drop_button = button("drop", "Drop", self._drop, tooltip="Remove the collation from the selected strings")
        self.keep_button = button("keep", "Keep as is", self._keep, tooltip="Discard the edits of the selected strings")
        self.refresh = control(
            ipywidgets.Checkbox, "refresh", "Compute statistics for files that lack them", indent=False
        )
        self.upgrade = control(
            ipywidgets.Checkbox, "upgrade", "Move statistics to Spark's version of the collation", indent=False
        )
        self.diff = shown("diff")
        self.plan_button = button("make-plan", "Plan", self._plan, button_style="primary")
        for widget in (self.fields, self.offers):
            widget.add_class("geolake-list")
        self.filter.observe(self._filtered, names="value")
        self.search.observe(self._searched, names="value")
        for box in (self.refresh, self.upgrade):
            box.observe(lambda _: self.plan_area.clear(), names="value")
        self.add(
            heading("Collations", self.table.location),
            beside(
                [self.filter, self.fields, self.note],
                [self.search, self.offers, ipywidgets.HBox([self.from_spark, self.source])],
            ),
            ipywidgets.HBox([self.set_button, self.drop_button, self.keep_button]),
            self.refresh,
            self.upgrade,
            self.diff,
            ipywidgets.HBox([self.plan_button]),
            self.status,
            self.plan_area.box,
        )

    def _set(self) -> None:
        with self.trying():
            if self.offers.value is None:
                raise GeolakeError("no collation is selected", remedy="select one in the list of collations")
            self.draft = self.draft.setting(self.fields.value, self.offers.value)
            self._edited()

    def _drop(self) -> None:
        with self.trying():
            self.draft = self.draft.dropping(self.fields.value)
            self._edited()

    def _keep(self) -> None:
        with self.trying():
            self.draft = self.draft.keeping(self.fields.value)
            self._edited()

    def _plan(self) -> None:
        with self.trying():
            self._move(self.table.newest())
            if not (self.draft.edits or self.refresh.value or self.upgrade.value):
                raise GeolakeError("no change to plan", remedy="set or drop a collation first")
            made = self.table.plan_collations(
                self.draft.changes, refresh=self.refresh.value, upgrade=self.upgrade.value
            )
            self.plan_area.show(made)

    def _reload(self) -> None:
        """A plan is applied: show the table as it is now."""
        with self.trying():
            self._move(self.table.newest())

    def _move(self, table: Table) -> None:
        """Continue with another version of the table."""
        if table.version != self.table.version:
            self.draft = self.draft.moved_to(draft_of(table.snapshot))
            self.table = table
            self._look()

    def _load_from_spark(self) -> None:
        from geolake_nb.spark.collations import spark_collations
        from geolake_nb.spark.session import running_session

        with self.trying():
            session = running_session(self._spark)
            if session is None:
                raise GeolakeError(
                    "no Spark session is running", remedy="start one, or call t.edit_collations(spark=spark)"
                )
            known = spark_collations(session)
            self.names = tuple(str(collation) for collation in known if not collation.is_default)
            versions = ", ".join(sorted(set(known.values())))
            self.source.value = str(tag("span", f"from Spark, ICU {versions}", class_="geolake-faint"))
            self._searched(None)

    def _edited(self) -> None:
        self.plan_area.clear()
        self._look()

    def _look(self) -> None:
        """Show the draft."""
        self._filtered(None)
        self._searched(None)
        lines = schema_diff(self.table.snapshot, self.draft)
        signs = {"-": "gone", "+": "new"}
        text = [tag("span", str(line), tag("br"), class_=signs.get(line.sign)) for line in lines[:_MAX_LINES]]
        changed = plural(len(self.draft.edits), "string")
        about = f"The schema changes in {changed}:" if lines else "The schema does not change."
        more = [f"and {len(lines) - _MAX_LINES:,} lines more"] if len(lines) > _MAX_LINES else []
        self.diff.value = str(tag("div", tag("p", about), tag("pre", text, more) if lines else None))

    def _choose(self, changes: Mapping[str, str | None]) -> None:
        """Mark the strings that have edits to begin with, and the collation of the first."""
        self.fields.value = tuple(
            row.path for row in self.draft.matching(self.filter.value) if row.path in self.draft.edits
        )
        first = next(iter(changes.values()), None)
        if first in self.offers.options:
            self.offers.value = first

    def _filtered(self, _: object) -> None:
        rows = self.draft.matching(self.filter.value)
        here = rows[:_MAX_STRINGS]
        chosen = set(self.fields.value)
        self.fields.options = [(self.draft.label(row), row.path) for row in here]
        self.fields.value = tuple(row.path for row in here if row.path in chosen)
        left = f", {len(rows) - len(here):,} lines not shown: filter them" if len(rows) > len(here) else ""
        count = sum(row.is_string for row in rows)
        self.note.value = str(tag("span", f"{plural(count, 'string')}{left}", class_="geolake-faint"))

    def _searched(self, _: object) -> None:
        matches = matching_names(self.names, self.search.value)[:_MAX_NAMES]
        kept: Any = self.offers.value
        self.offers.options = matches
        self.offers.value = kept if kept in matches else matches[0] if matches else None
