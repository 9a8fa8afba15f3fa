"""The part of a view that acts: a widget where there is a front end, and a line of text where there is none."""

from __future__ import annotations

from typing import Any

from geolake_nb.jupyter.cell_widgets import shown_here
from geolake_nb.jupyter.progress import in_notebook

__all__ = ["display_live"]


def display_live(widget: Any, text: str) -> None:
    """Show a widget under a card; a notebook that is printed or looked at without a kernel has the text instead."""
    if not in_notebook():
        return
    from IPython.display import display

    shown_here(widget)
    # The text of the widget itself would be its code, with all its traits.
    bundle = {**widget._repr_mimebundle_(), "text/plain": text}
    display(bundle, raw=True)  # type: ignore[no-untyped-call]
