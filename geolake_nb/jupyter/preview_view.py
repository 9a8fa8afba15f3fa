"""A preview of a rewrite on two maps: the current files, and the estimated ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geolake_nb.formats.registry import DELTA
from geolake_nb.jupyter.cards import render
from geolake_nb.jupyter.live_part import display_live
from geolake_nb.jupyter.map_view import GeolakeMap
from geolake_nb.jupyter.progress import in_notebook
from geolake_nb.model.snapshot import Protocol, Snapshot

if TYPE_CHECKING:
    from geolake_nb.changes.rewrite import Preview, PreviewSide

__all__ = ["display_preview", "preview_maps"]


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
