"""A plan in a cell that can be applied: its card, the confirmations, Apply and Cancel."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.cards import render
from geolake_nb.jupyter.html import tag
from geolake_nb.jupyter.live_part import display_live
from geolake_nb.jupyter.progress import in_notebook

if TYPE_CHECKING:
    from collections.abc import Callable

    from geolake_nb.api.plan import Plan, Report

__all__ = ["PlanView", "display_plan"]


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
        self._lock("Running …")
        self.bar.layout.display = None
        # In its own thread, so that the kernel can handle a click on Cancel.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _cancel(self, _: object) -> None:
        self._cancelled.set()
        self.cancel_button.disabled = True
        if self._thread is None:
            self._lock("Cancelled; no changes were made.")
        else:
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
            self.status.value = render(self.report) or ""
            if self._on_done is not None:
                self._on_done(self.report)
        finally:
            self.bar.layout.display = "none"
            self.cancel_button.disabled = True

    def _show_progress(self, done: int, total: int) -> None:
        if self._cancelled.is_set():
            # The job runner handles it as an interrupt by the user.
            raise KeyboardInterrupt
        self.bar.max, self.bar.value = total, done
        self.bar.description = f"{done:,} of {total:,}"

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
