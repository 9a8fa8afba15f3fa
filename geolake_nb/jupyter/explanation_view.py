"""An explanation in a cell: its card, and a button that opens the map with what is read and what is skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.cards import render
from geolake_nb.jupyter.cell_widgets import close_whole, open_whole
from geolake_nb.jupyter.html import tag
from geolake_nb.jupyter.live_part import display_live
from geolake_nb.jupyter.progress import in_notebook
from geolake_nb.scan.coverage import filtered_column

if TYPE_CHECKING:
    from geolake_nb.jupyter.map_view import GeolakeMap
    from geolake_nb.scan.explanation import Explanation

__all__ = ["ExplanationView", "display_explanation"]

_SHOW, _HIDE = "Show on map", "Hide the map"


def display_explanation(explanation: Explanation) -> None:
    """Show the explanation: its card, and the button where there is a front end for it."""
    from IPython.display import display

    # The card is an output of its own: it stays where widgets do not, in a saved or printed notebook.
    display({"text/html": render(explanation), "text/plain": str(explanation)}, raw=True)  # type: ignore[no-untyped-call]
    if in_notebook() and explanation.snapshot.files.geo_columns:
        display_live(ExplanationView(explanation).box, f"{_SHOW}: a button in a live notebook")


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
