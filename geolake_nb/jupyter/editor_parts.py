"""What editors are made of: controls with a label and a name, a status line, an area for a plan."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import ipywidgets

from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.cards import render
from geolake_nb.jupyter.cell_widgets import close_whole, shown_here
from geolake_nb.jupyter.html import tag
from geolake_nb.jupyter.views import PlanView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from geolake_nb.api.plan import Plan, Report

__all__ = ["Editor", "PlanArea", "beside", "button", "control", "heading", "hidden", "shown"]

# The notebook's own colours, so that light and dark themes both fit; mixed with that of the text to be readable.
_CSS = """
.geolake-editor {
  --geolake-gone: color-mix(in srgb, var(--jp-error-color1) 50%, var(--jp-content-font-color1));
  --geolake-new: color-mix(in srgb, var(--jp-success-color1) 50%, var(--jp-content-font-color1));
  border: 1px solid var(--jp-border-color2);
  border-radius: 6px;
  padding: 8px 12px;
  color: var(--jp-content-font-color1);
  background: var(--jp-layout-color1);
}
.geolake-editor .geolake-heading { font-weight: 600; overflow-wrap: anywhere; }
.geolake-editor .geolake-faint { color: color-mix(in srgb, currentColor 72%, transparent); }
.geolake-editor .geolake-status { min-height: 1.5em; overflow-wrap: anywhere; }
.geolake-editor .geolake-status .error { color: var(--geolake-gone); }
.geolake-editor .geolake-list select {
  font-family: var(--jp-code-font-family);
  white-space: pre;
  color: var(--jp-content-font-color1);
  background: var(--jp-layout-color1);
}
.geolake-editor .geolake-columns { flex-wrap: wrap; gap: 4px 20px; overflow: visible; }
.geolake-editor .geolake-column { flex: 1 1 300px; width: auto; overflow: visible; }
.geolake-editor .geolake-columns .widget-inline-hbox { flex-direction: column; align-items: stretch; height: auto; }
.geolake-editor .geolake-columns .widget-label { align-self: flex-start; font-weight: 600; }
.geolake-editor .geolake-columns select { width: auto; }
.geolake-editor .geolake-diff p { margin: 4px 0; }
.geolake-editor .geolake-diff pre {
  margin: 0;
  max-height: 20em;
  overflow: auto;
  padding: 6px 8px;
  font-family: var(--jp-code-font-family);
  line-height: 1.4;
  color: var(--jp-content-font-color1);
  background: var(--jp-layout-color2);
}
.geolake-editor .geolake-diff .gone { color: var(--geolake-gone); }
.geolake-editor .geolake-diff .new { color: var(--geolake-new); }
.geolake-editor :focus-visible { outline: 2px solid var(--jp-brand-color1); outline-offset: 1px; }
"""
_WIDE = "100%"


def control(kind: type, name: str, label: str, **options: Any) -> Any:
    """A control with a label for screen readers, and the class `geolake-NAME` for styles and for tests.

    >>> control(ipywidgets.Text, "search", "Search").description
    'Search'
    """
    style = {"description_width": "initial"}
    widget = kind(description=label, style=style, **({"layout": ipywidgets.Layout(width=_WIDE)} | options))
    widget.add_class(f"geolake-{name}")
    return widget


def button(name: str, label: str, act: Callable[[], None], **options: Any) -> Any:
    """A button; what it does has no arguments.

    >>> pressed = []
    >>> button("go", "Go", lambda: pressed.append(1)).click()
    >>> pressed
    [1]
    """
    widget = ipywidgets.Button(description=label, **({"layout": ipywidgets.Layout(width="auto")} | options))
    widget.add_class(f"geolake-{name}")
    widget.on_click(lambda _: act())
    return widget


def heading(text: str, location: str) -> Any:
    """The first line of an editor: what it is, and of which table."""
    return ipywidgets.HTML(str(tag("div", text, " ", tag("code", location), class_="geolake-heading")))


def beside(*columns: Sequence[Any]) -> Any:
    """Columns of controls, each label above its control; they wrap where there is no room.

    >>> len(beside([control(ipywidgets.Text, "search", "Search")], []).children)
    2
    """
    parts = [ipywidgets.VBox(list(column)) for column in columns]
    for part in parts:
        part.add_class("geolake-column")
    box = ipywidgets.HBox(parts)
    box.add_class("geolake-columns")
    return box


def shown(name: str) -> Any:
    """A widget for our own HTML, empty at first."""
    widget = ipywidgets.HTML()
    widget.add_class(f"geolake-{name}")
    return widget


def hidden(widget: Any, *, when: bool) -> None:
    """Hide or show a widget; the keyboard skips a hidden one."""
    widget.layout.display = "none" if when else None


class Editor:
    """A box of controls that a cell shows; a terminal gets a text about it.

    A subclass fills `box`, and describes in `usage` how to do the same without a front end.
    """

    usage = ""

    def __init__(self, name: str) -> None:
        self.status = shown("status")
        style = ipywidgets.HTML(str(tag("style", _CSS)), layout=ipywidgets.Layout(display="none"))
        self.box = ipywidgets.VBox([style])
        self.box.add_class("geolake-editor")
        self.box.add_class(f"geolake-{name}")

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        shown_here(self.box)
        # The text of the box would be its code, with all its traits.
        return {**self.box._repr_mimebundle_(), "text/plain": str(self)}

    def __str__(self) -> str:
        return f"{self!r}\n{self.usage}"

    def add(self, *widgets: Any) -> None:
        """Append widgets."""
        self.box.children = (*self.box.children, *widgets)

    def show_status(self, text: str, *, kind: str | None = None) -> None:
        """Show a text in the status line."""
        self.status.value = str(tag("p", text, class_=kind, role="status")) if text else ""

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Show errors in the status line: a click has no caller that could catch them."""
        self.show_status("")
        try:
            yield
        except GeolakeError as problem:
            self.show_status(str(problem), kind="error")
        except KeyboardInterrupt:
            self.show_status("Cancelled.")
        except Exception as problem:  # noqa: BLE001 - a click has no caller to catch it
            self.show_status(f"{type(problem).__name__}: {problem}", kind="error")


class PlanArea:
    """Where an editor shows its plan: the card, and the buttons that apply it."""

    def __init__(self, *, spark: Any = None, on_done: Callable[[], None] | None = None) -> None:
        self.plan: Plan | None = None
        self.view: PlanView | None = None
        self._spark = spark
        self._on_done = on_done
        self.box = ipywidgets.VBox([])
        self.box.add_class("geolake-plan")

    @property
    def is_running(self) -> bool:
        """Whether a plan is being applied."""
        return self.view is not None and self.view.is_running

    def show(self, plan: Plan) -> None:
        """Show a plan instead of the last one."""
        if self.is_running:
            raise GeolakeError("a plan is being applied", remedy="wait for it, or cancel it")
        self.clear()
        self.plan = plan
        self.view = None if plan.is_empty else PlanView(plan, spark=self._spark, on_done=self._done)
        card = ipywidgets.HTML(render(plan) or "")
        self.box.children = (card, *(() if self.view is None else (self.view.box,)))

    def clear(self) -> None:
        """Show none: the plan does not match the controls any more."""
        if not self.is_running and self.box.children:
            last, self.plan, self.view, self.box.children = self.box.children, None, None, ()
            close_whole(*last)

    def _done(self, _: Report) -> None:
        if self._on_done is not None:
            self._on_done()
