"""What a map suggests over its files: a repair where none has bounds, the newest version of an older one."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.html import visible
from geolake_nb.scan.explanation import bytes_text
from geolake_nb.scan.next_step import NextStep
from geolake_nb.text.messages import plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from geolake_nb.api.plan import Plan, Report
    from geolake_nb.api.table import Table
    from geolake_nb.jupyter.map_widget import MapWidget

__all__ = ["MapStep"]

_LOOK_AGAIN = 10.0
"""So many seconds after a look for a newer version, a new window looks again."""


class MapStep:
    """The suggestion of a map, and the plan that a click makes and applies; nothing is changed before Apply.

    `table` is the table that the map shows now, and `refresh` has the map show its newest version.
    """

    def __init__(self, shown: MapWidget, column: str, table: Callable[[], Table], refresh: Callable[[], None]) -> None:
        self._shown, self._column = shown, column
        self._table, self._refresh = table, refresh
        self._plan: Plan | None = None
        self._report: Report | None = None
        self._thread: threading.Thread | None = None
        self._looked = 0.0

    def offer(self) -> None:
        """Suggest what the files call for: the newest version, or bounds; the front end hides it without either."""
        self._plan, self._looked = None, time.monotonic()
        table = self._table()
        newer = None
        with suppress(GeolakeError):  # the map is of what was read
            newer = table.newer_version
        if newer is not None:
            counts = table.snapshot.format.counts_versions
            text = f"Version {newer} is newer" if counts else "A newer snapshot exists"
            self._publish(text, actions=[("refresh", "Refresh")], command="m.refresh()")
            return
        files = len(table.files)
        boxes = table.files.boxes(self._column)
        if not files or (boxes.known | boxes.only_null_or_empty).any():
            self._publish("")
            return
        all_files = "the only file" if files == 1 else f"all {files:,} files"
        step = NextStep.of("repair", table.location)
        text = f"No file has bounds, so every query reads {all_files}"
        self._publish(text, actions=[("plan", "Plan repair")], command=f"%{step.command}", is_central=True)

    def look_again(self) -> None:
        """Look for a newer version from time to time."""
        if time.monotonic() - self._looked > _LOOK_AGAIN and not self._is_busy and self._plan is None:
            self.offer()

    def receive(self, message: Any) -> None:
        """A click in the browser."""
        if not isinstance(message, dict) or message.get("type") != "step" or self._is_busy:
            return
        work = {
            "refresh": self._refresh,
            "plan": lambda: self._show_plan(self._table().newest().plan_repair()),
            "undo": self._plan_undo,
            "apply": self._apply,
            "close": self.offer,
        }.get(str(message.get("action")))
        if work is not None:
            self._shown.set_trait("step", {**self._shown.step, "is_busy": True})
            # In its own thread, so that the map still answers.
            self._thread = threading.Thread(target=self._run, args=(work,), name="geolake-map-step", daemon=True)
            self._thread.start()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until the last click is answered."""
        if self._thread is not None:
            self._thread.join(seconds)

    @property
    def _is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as problem:  # noqa: BLE001 - errors in this thread are not visible otherwise
            self._plan = None
            self._publish(str(problem) or type(problem).__name__, actions=[("close", "Close")], is_problem=True)

    def _show_plan(self, plan: Plan) -> None:
        change = plan.change
        self._plan = plan
        reads = f"Reads {plural(change.reads.files, 'file')}, {bytes_text(change.reads.bytes)}."
        lines = [*change.notes, *([reads] if change.reads.files else [])]
        steps = [f"Cannot be undone: {step.why}" for step in change.irreversible_steps]
        if plan.is_empty or steps:
            # A step that cannot be undone is confirmed by its name, which the card of the plan asks for.
            lines += steps or (["There is nothing to do."] if not lines else [])
            self._publish("Plan", lines=lines, actions=[("close", "Close")], command=f"%geolake {change.verb.value} t")
            return
        self._publish("Plan", lines=lines, actions=[("apply", "Apply"), ("close", "Cancel")])

    def _plan_undo(self) -> None:
        assert self._report is not None
        self._show_plan(self._report.table().plan_undo(self._report.version))

    def _apply(self) -> None:
        plan, self._plan = self._plan, None
        if plan is None:
            return
        report = plan.apply(expect=plan.hash, on_progress=self._show_progress)
        self._report = report
        self._refresh()
        reads = report.reads
        lines = [] if reads is None else [f"A query reads {reads[1]:.1%} of the bytes, {reads[0]:.1%} before."]
        undo = [] if report.verb == "undo" or report.version is None else [("undo", "Undo")]
        text = "Nothing had to be done" if report.version is None else f"Done: version {report.version}"
        self._publish(text, lines=lines, actions=[*undo, ("close", "Close")])

    def _show_progress(self, done: int, _: int) -> None:
        self._shown.set_trait("step", {**self._shown.step, "text": f"Running: {plural(done, 'task')} done"})

    def _publish(
        self,
        text: str,
        *,
        lines: list[str] | tuple[str, ...] = (),
        actions: list[tuple[str, str]] | tuple[()] = (),
        command: str = "",
        is_central: bool = False,
        is_problem: bool = False,
    ) -> None:
        step = {
            "text": visible(text),
            "lines": [visible(line) for line in lines],
            "actions": [list(action) for action in actions],
            "command": visible(command),
            "is_central": is_central,
            "is_problem": is_problem,
        }
        self._shown.set_trait("step", step if text else {})
