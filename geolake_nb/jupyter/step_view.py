"""The buttons under a card: the next step, the newest version, and the undo of what was done."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from geolake_nb.api.plan import Plan, Report
from geolake_nb.api.table import Table
from geolake_nb.cli.collations import collation_changes
from geolake_nb.cli.maintain import maintain_plan
from geolake_nb.cli.options import geo_types
from geolake_nb.cli.repair import repair_plan
from geolake_nb.cli.rewrite import rewrite_plan
from geolake_nb.jupyter.cards import render
from geolake_nb.jupyter.html import tag
from geolake_nb.jupyter.views import PlanView, display_live, in_notebook
from geolake_nb.scan.explanation import Explanation
from geolake_nb.scan.layout import Layout

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from geolake_nb.scan.next_step import NextStep
    from geolake_nb.text.messages import Progress

__all__ = ["StepButtons", "display_card", "report_buttons", "run_step", "step_buttons"]

OPEN_NEW, REFRESH, UNDO = "Open new version", "Refresh", "Undo"


def display_card(value: Any) -> None:
    """Show a value: its card, and the buttons of what comes next where there is a front end for them."""
    from IPython.display import display

    # The card is an output of its own: it stays where widgets do not, in a saved or printed notebook.
    display({"text/html": render(value), "text/plain": str(value)}, raw=True)  # type: ignore[no-untyped-call]
    buttons = value_buttons(value) if in_notebook() else None
    if buttons is not None:
        labels = " and ".join(button.description for button in buttons.buttons)
        display_live(
            buttons.box, f"{labels}: {'a button' if len(buttons.buttons) == 1 else 'buttons'} in a live notebook"
        )


def value_buttons(value: Any) -> StepButtons | None:
    """The buttons under the card of a value; `None` where there is nothing to do."""
    return report_buttons(value) if isinstance(value, Report) else step_buttons(value)


def step_buttons(value: Any) -> StepButtons | None:
    """Refresh where a newer version exists, else the next step of a value; `None` without either."""
    table = value if isinstance(value, Table) else value.origin
    if not isinstance(table, Table):
        return None
    if table.newer_version is not None:
        return StepButtons({REFRESH: lambda _: refreshed(value, table)})
    step = value.next_step
    if step is None or step.label is None:
        return None
    return StepButtons({step.label: lambda on_progress: run_step(step, table, on_progress)})


def report_buttons(report: Report) -> StepButtons | None:
    """Undo and Open new version under what a plan did."""
    if report.version is None or report._source is None:
        return None

    def open_new(_: Progress) -> Table:
        # The table that was planned on moves along, so that a variable with it is not left behind.
        return report.table() if report.origin is None else report.origin.refresh()

    actions: dict[str, Callable[[Progress], Any]] = {OPEN_NEW: open_new}
    if report.verb != "undo" and report.origin is not None:
        actions = {UNDO: lambda _: report.table().plan_undo(report.version), **actions}
    return StepButtons(actions)


def refreshed(value: Any, table: Table) -> Any:
    """The same of the newest version; the table moves to it."""
    table.refresh()
    if isinstance(value, Explanation):
        return table.explain(value.where)
    if isinstance(value, Layout):
        return table.layout(column=value.column)
    return table if isinstance(value, Table) else type_of_answer(value, table)


def type_of_answer(value: Any, table: Table) -> Any:
    """Findings or collations again."""
    from geolake_nb.checks.finding import Findings

    return table.check() if isinstance(value, Findings) else table.collations


def run_step(step: NextStep, table: Table, on_progress: Progress | None = None) -> Any:
    """The plan, or the findings, of a step on an open table: its newest version is changed."""
    from geolake_nb.jupyter.magic_commands import parser_of

    verb, *words = step.words
    options = parser_of(verb).parse_args(words)
    return _RUN[verb](table.newest(), options, on_progress)


def _enable(table: Table, options: argparse.Namespace, _: Progress | None) -> Plan:
    if options.columns == ["collations"]:
        return table.plan_collations()
    return table.plan_enable(geo_types([] if options.columns == ["geospatial"] else options.columns))


def _collations(table: Table, options: argparse.Namespace, _: Progress | None) -> Plan:
    changes = collation_changes(options.changes)
    return table.plan_collations(changes, refresh=options.refresh, upgrade=options.upgrade)


_RUN: dict[str, Callable[[Table, argparse.Namespace, Progress | None], Any]] = {
    "check": lambda table, _, on_progress: table.check(on_progress=on_progress),
    "collations": _collations,
    "enable": _enable,
    "maintain": maintain_plan,
    "repair": repair_plan,
    "rewrite": lambda table, options, _: rewrite_plan(table, options),
    "undo": lambda table, options, _: table.plan_undo(options.undo_version),
}


class StepButtons:
    """Buttons in a row, each with what it does; the answer is shown under them, a plan with its own buttons."""

    def __init__(self, actions: dict[str, Callable[[Progress], Any]]) -> None:
        import ipywidgets

        self.answer: Any = None
        """What the last action returned."""
        self._thread: threading.Thread | None = None
        self.buttons = [ipywidgets.Button(description=label) for label in actions]
        self.status = ipywidgets.HTML()
        self.status.add_class("geolake-step-status")
        self._bar = ipywidgets.IntProgress(min=0, max=1, layout=ipywidgets.Layout(display="none"))
        self._row = ipywidgets.HBox([*self.buttons, self._bar], layout=ipywidgets.Layout(flex_flow="row wrap"))
        # Hidden, not left out: a widget outside of the box would stay open when the cell runs again.
        self.status.layout.display = "none"
        self.box = ipywidgets.VBox([self._row, self.status])
        for button, act in zip(self.buttons, actions.values(), strict=True):
            button.add_class("geolake-step")
            button.layout.width = "auto"
            button.on_click(lambda _, act=act: self._press(act))

    def wait(self, seconds: float | None = None) -> None:
        """Wait until the last action is done."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _press(self, act: Callable[[Progress], Any]) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        self._show("Running …")
        # In its own thread, so that the cells of the notebook are not kept waiting.
        self._thread = threading.Thread(target=self._run, args=(act,), daemon=True)
        self._thread.start()

    def _run(self, act: Callable[[Progress], Any]) -> None:
        for button in self.buttons:
            button.disabled = True
        try:
            self.answer = act(self._show_progress)
            self._show_answer()
        except Exception as problem:  # noqa: BLE001 - errors in this thread are not visible otherwise
            self._show(str(problem) or type(problem).__name__, kind="error")
        finally:
            self._bar.layout.display = "none"
            for button in self.buttons:
                button.disabled = False

    def _show_progress(self, done: int, total: int) -> None:
        self._bar.layout.display = None
        self._bar.max, self._bar.value = total, done
        self._bar.description = f"{done:,} of {total:,}"

    def _show(self, text: str, *, kind: str | None = None) -> None:
        self.status.value = str(tag("p", text, class_=kind, role="status"))
        self.status.layout.display = None
        self.box.children = [self._row, self.status]

    def _show_answer(self) -> None:
        answer = self.answer
        self.status.value = render(answer) or ""
        self.status.layout.display = None
        below: list[Any] = []
        if isinstance(answer, Plan):
            below = [] if answer.is_empty else [PlanView(answer).box]
        elif (buttons := value_buttons(answer)) is not None:
            below = [buttons.box]
        self.box.children = [self._row, self.status, *below]
