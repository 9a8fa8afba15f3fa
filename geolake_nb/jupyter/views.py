"""Live parts of a cell: progress, an explanation that opens a map, and a plan that can be applied."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from geolake_nb.cli.options import progress
from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.cards import render
from geolake_nb.jupyter.cell_widgets import close_whole, open_whole, shown_here
from geolake_nb.jupyter.html import tag
from geolake_nb.scan.coverage import filtered_column
from geolake_nb.text.messages import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from geolake_nb.api.plan import Plan, Report
    from geolake_nb.jupyter.map_view import GeolakeMap
    from geolake_nb.scan.explanation import Explanation

__all__ = [
    "ExplanationView",
    "PlanView",
    "display_explanation",
    "display_live",
    "display_plan",
    "in_notebook",
    "shown_progress",
]

_PATIENCE = 0.5
"""Work that is done sooner needs no bar."""
_PAUSE = 0.1
"""The front end takes only so many messages a second."""


def in_notebook() -> bool:
    """Whether a front end shows widgets.

    >>> in_notebook()
    False
    """
    from IPython.core.getipython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None


@contextmanager
def shown_progress(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """The progress callback of a running cell; its display is removed at the end.

    >>> with shown_progress("files") as on_progress:
    ...     print(on_progress)
    None
    """
    if not in_notebook():
        with progress(what) as on_progress:
            yield on_progress
        return
    bar = _Bar(what)
    try:
        yield bar
    finally:
        bar.close()


class _Bar:
    """A bar that appears when the work takes a while."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._next = time.monotonic() + _PATIENCE
        self._widget: Any = None
        self._shown: Any = None

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _PAUSE
        if self._widget is None:
            from IPython.display import display
            from ipywidgets import IntProgress

            self._widget = IntProgress(min=0)
            self._shown = display(self._widget, display_id=True)  # type: ignore[no-untyped-call]
        self._widget.max, self._widget.value = total, done
        self._widget.description = f"{done:,} of {total:,} {self._what}"
        self._widget.style.description_width = "initial"

    def close(self) -> None:
        if self._widget is not None:
            # From the output too: a saved notebook would show a stale bar.
            self._shown.update({"text/plain": ""}, raw=True)
            close_whole(self._widget)


def display_live(widget: Any, text: str) -> None:
    """Show a widget under a card; a notebook that is printed or looked at without a kernel has the text instead."""
    if not in_notebook():
        return
    from IPython.display import display

    shown_here(widget)
    # The text of the widget itself would be its code, with all its traits.
    bundle = {**widget._repr_mimebundle_(), "text/plain": text}
    display(bundle, raw=True)  # type: ignore[no-untyped-call]


_SHOW, _HIDE = "Show on map", "Hide the map"


def display_explanation(explanation: Explanation) -> None:
    """Show the explanation: its card, and the button where there is a front end for it."""
    from IPython.display import display

    # The card is an output of its own: it stays where widgets do not, in a saved or printed notebook.
    display({"text/html": render(explanation), "text/plain": str(explanation)}, raw=True)  # type: ignore[no-untyped-call]
    if not in_notebook():
        return
    import ipywidgets

    from geolake_nb.jupyter.step_view import step_buttons

    step = step_buttons(explanation)
    parts = [] if step is None else [step.box]
    if explanation.snapshot.files.geo_columns:
        parts.append(ExplanationView(explanation).box)
    if parts:
        display_live(ipywidgets.VBox(parts), f"{_SHOW}: a button in a live notebook")


class ExplanationView:
    """The part of an explanation's view that acts; `box` is the widget, `map` is set once it was shown."""

    def __init__(self, explanation: Explanation) -> None:
        import ipywidgets

        self.explanation = explanation
        self.map: GeolakeMap | None = None
        self.button = ipywidgets.Button(description=_SHOW)
        self.button.add_class("geolake-show-map")
        self.box = ipywidgets.VBox([self.button])
        self.button.on_click(self._press)

    def _press(self, _: object) -> None:
        import ipywidgets

        if self.button.description == _HIDE:
            self.box.children, self.button.description = [self.button], _SHOW
            close_whole(self.map)
            return
        try:
            shown = self.map = self.map or self._made()
            open_whole(shown)
        except GeolakeError as problem:
            status = ipywidgets.HTML(str(tag("p", str(problem), role="status")))
            self.box.children = [self.button, status]
        else:
            self.box.children, self.button.description = [self.button, shown], _HIDE

    def _made(self) -> GeolakeMap:
        from geolake_nb.jupyter.map_view import GeolakeMap

        snapshot, where = self.explanation.snapshot, self.explanation.where
        return GeolakeMap(snapshot, column=filtered_column(snapshot, where), where=where)


def display_plan(plan: Plan) -> None:
    """Show the plan: its card, and the buttons where there is a front end for them."""
    from IPython.display import display

    # The card is an output of its own: it stays where widgets do not, in a saved or printed notebook.
    display({"text/html": render(plan), "text/plain": str(plan)}, raw=True)  # type: ignore[no-untyped-call]
    if in_notebook() and not plan.is_empty:
        display_live(PlanView(plan).box, "Apply and Cancel: buttons in a live notebook")


class PlanView:
    """The part of a plan's view that acts; `box` is the widget, `report` is set when it is done.

    `spark` is the session that the work runs in: the running one by default, or a new one. `on_done` gets the
    report, in the thread that did the work.
    """

    def __init__(self, plan: Plan, *, spark: Any = None, on_done: Callable[[Report], None] | None = None) -> None:
        import ipywidgets

        self.plan = plan
        self.report: Report | None = None
        self._spark = spark
        self._on_done = on_done
        self._cancelled = threading.Event()
        self._thread: threading.Thread | None = None
        self.consents = {step.name: _consent(ipywidgets, step.name) for step in plan.change.irreversible_steps}
        self.apply_button = ipywidgets.Button(description="Apply", button_style="primary", disabled=bool(self.consents))
        self.cancel_button = ipywidgets.Button(description="Cancel")
        self.bar = ipywidgets.IntProgress(min=0, max=1, layout=ipywidgets.Layout(display="none"))
        self.status = ipywidgets.HTML()
        buttons = ipywidgets.HBox([self.apply_button, self.cancel_button, self.bar])
        self.box = ipywidgets.VBox([*self.consents.values(), buttons, self.status])
        for name, widget in (
            ("apply", self.apply_button),
            ("cancel", self.cancel_button),
            ("plan-status", self.status),
        ):
            widget.add_class(f"geolake-{name}")
        for text in self.consents.values():
            text.add_class("geolake-consent")
            text.observe(self._update_apply_button, names="value")
        self.apply_button.on_click(self._apply)
        self.cancel_button.on_click(self._cancel)

    @property
    def agreed(self) -> bool:
        """Whether the name of every irreversible step is typed."""
        return all(text.value.strip() == name for name, text in self.consents.items())

    @property
    def is_running(self) -> bool:
        """Whether the plan is being applied."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until the plan is applied or has failed."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _update_apply_button(self, _: object) -> None:
        self.apply_button.disabled = not self.agreed

    def _apply(self, _: object) -> None:
        if not self.agreed or self._thread is not None:
            return
        self._cancelled.clear()
        self.cancel_button.disabled = False
        self._lock("Running …")
        # Until the first task is done, which a session that starts takes a while for, the bar says so.
        self.bar.value, self.bar.max, self.bar.description = 0, 1, "starting"
        self.bar.layout.display = None
        # In its own thread, so that the kernel can handle a click on Cancel.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _cancel(self, _: object) -> None:
        if self._thread is None:
            self._show_status("Nothing is running; no changes were made.")
            return
        self._cancelled.set()
        self.cancel_button.disabled = True
        self._show_status("Cancelling …")

    def _run(self) -> None:
        try:
            self.report = self.plan.apply(
                spark=self._spark, consent=list(self.consents), expect=self.plan.hash, on_progress=self._show_progress
            )
        except GeolakeError as problem:
            self._show_status(str(problem), kind="error")
        except KeyboardInterrupt:
            self._show_status("Cancelled; nothing was committed.")
        except Exception as problem:  # noqa: BLE001 - errors in this thread are not visible otherwise
            self._show_status(f"{type(problem).__name__}: {problem}", kind="error")
        else:
            self._show_report(self.report)
            if self._on_done is not None:
                self._on_done(self.report)
        finally:
            self.bar.layout.display = "none"
            self.cancel_button.disabled = self.report is not None
            if self.report is None:
                # Nothing was committed: the plan can be applied again.
                self._thread = None
                self._unlock()

    def _show_report(self, report: Report) -> None:
        from geolake_nb.jupyter.step_view import report_buttons

        self.status.value = render(report) or ""
        buttons = report_buttons(report)
        if buttons is not None:
            self.box.children = [*self.box.children, buttons.box]

    def _show_progress(self, done: int, total: int) -> None:
        if self._cancelled.is_set():
            # The job runner handles it as an interrupt by the user.
            raise KeyboardInterrupt
        # The total grows with each stage that Spark plans, so that it is not shown, and the bar never goes back.
        share = done / total if total else 0.0
        self.bar.max, self.bar.value = 1000, max(self.bar.value if self.bar.max == 1000 else 0, round(1000 * share))
        self.bar.description = plural(done, "task") + " done"

    def _unlock(self) -> None:
        self.apply_button.disabled = not self.agreed
        for consent in self.consents.values():
            consent.disabled = False

    def _lock(self, text: str) -> None:
        self.apply_button.disabled = True
        for consent in self.consents.values():
            consent.disabled = True
        self._show_status(text)

    def _show_status(self, text: str, *, kind: str | None = None) -> None:
        self.status.value = str(tag("p", text, class_=kind, role="status"))


def _consent(ipywidgets: Any, name: str) -> Any:
    return ipywidgets.Text(
        placeholder=name,
        description=f"Type {name} to confirm",
        style={"description_width": "initial"},
        layout=ipywidgets.Layout(width="32em"),
    )
