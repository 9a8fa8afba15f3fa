"""A catalog in a notebook: a tree that loads as it is opened, details in the background, a card and a map."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anywidget
import traitlets

from geolake_nb.api.catalog_details import DETAIL_HEADS, detail_cells
from geolake_nb.errors import GeolakeError
from geolake_nb.formats.catalog_sources import CatalogEntry, EntryKind
from geolake_nb.jupyter.cards import render
from geolake_nb.jupyter.cell_widgets import DisplayedInCell
from geolake_nb.jupyter.html import tag
from geolake_nb.jupyter.views import display_live, in_notebook
from geolake_nb.text.messages import plural, printable

if TYPE_CHECKING:
    from geolake_nb.api.catalog import Catalog
    from geolake_nb.api.catalog_details import TableDetails
    from geolake_nb.api.table import Table

__all__ = ["CATALOG_BUNDLE", "CatalogTree", "CatalogView", "display_catalog"]

CATALOG_BUNDLE: Final = Path(__file__).parent / "static" / "catalog.js"
_PAUSE = 0.5
"""Seconds between two messages about details."""


def display_catalog(catalog: Catalog) -> None:
    """Show the tree of the catalog where there is a front end for it, its card elsewhere."""
    from IPython.display import display

    if in_notebook():
        display_live(CatalogView(catalog).box, str(catalog))
    else:
        display({"text/html": render(catalog), "text/plain": str(catalog)}, raw=True)  # type: ignore[no-untyped-call]


class CatalogTree(DisplayedInCell, anywidget.AnyWidget):
    """The tree; it holds what is shown, and sends what is clicked."""

    _esm = CATALOG_BUNDLE.read_text(encoding="utf-8")

    title = traitlets.Unicode("").tag(sync=True)
    nodes = traitlets.List(traitlets.Dict()).tag(sync=True)
    """Each with id, parent (-1 at the top), label, name, and kind: namespace, table or folder."""
    columns = traitlets.List(traitlets.Unicode(), default_value=list(DETAIL_HEADS)).tag(sync=True)
    details = traitlets.Dict().tag(sync=True)
    """By the id of a node as text: cells, or problem."""
    selected = traitlets.Int(-1).tag(sync=True)
    progress = traitlets.Dict().tag(sync=True)
    """text, and whether something is running."""


class CatalogView:
    """The widgets of a catalog: `box` is what is shown, `table` the one that was opened last.

    >>> import geolake_nb as gl
    >>> view = CatalogView(gl.catalog("."))
    >>> [node["label"] for node in view.tree.nodes]
    ['parcels', 'places', 'roads', 'scenes']
    """

    def __init__(self, catalog: Catalog) -> None:
        import ipywidgets

        self.catalog = catalog
        self.table: Table | None = None
        self.map: Any = None
        self._entries: list[CatalogEntry] = []
        self._ids: dict[tuple[str, ...], int] = {}
        self._known: dict[str, dict[str, Any]] = {}
        self._cancelled = threading.Event()
        self._thread: threading.Thread | None = None
        self.tree = CatalogTree(title=f"{catalog.source.kind} catalog {printable(catalog.source.where)}")
        self.card = ipywidgets.HTML()
        self.card.add_class("geolake-catalog-card")
        self.box = ipywidgets.VBox([self.tree, self.card])
        self.tree.on_msg(self._receive)
        # A read ends when its output is gone.
        self.tree.observe(self._closed, names="comm")
        self._add((), catalog.children())
        self._say(self._counted())

    def expand(self, path: tuple[str, ...]) -> None:
        """Show what is below a namespace, or open a folder that turns out to be a table."""
        parent = self._ids[path]
        if any(node["parent"] == parent for node in self.tree.nodes):
            return
        resolved = self.catalog.source.resolved(self._entries[parent])
        if resolved.kind is EntryKind.TABLE:
            self._becomes(parent, EntryKind.TABLE)
            self.open(path)
            return
        self._becomes(parent, EntryKind.NAMESPACE)
        self._add(path, self.catalog.children(path))
        self._say(self._counted())

    def open(self, path: tuple[str, ...]) -> None:
        """Open a table and show its card."""
        self.tree.selected = self._ids[path]
        self._say("Opening …", running=True)
        self.table = self.catalog.open(path)
        self.card.value = render(self.table) or ""
        self._say(self._counted())

    def load_details(self) -> None:
        """Read the details of all tables in the background."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(self._cancelled,), daemon=True)
        self._say("Reading details …", running=True)
        self._thread.start()

    def cancel(self) -> None:
        """End the reading of details; what is known stays."""
        self._cancelled.set()

    def join(self, timeout: float | None = None) -> None:
        """Wait until all details are read."""
        if self._thread is not None:
            self._thread.join(timeout)

    def show_map(self) -> None:
        """Show the map of all tables below the tree; it needs the details."""
        self.map = self.catalog.map()
        self.map.observe(self._open_selected, names="selected_items")
        self.box.children = [self.tree, self.map, self.card]

    def _closed(self, change: dict[str, Any]) -> None:
        if change["new"] is None:
            self.cancel()

    def _receive(self, _: object, message: Any, __: object) -> None:
        if not isinstance(message, dict):
            return
        try:
            kind, node = message.get("type"), message.get("id")
            if kind == "details":
                self.load_details()
            elif kind == "cancel":
                self.cancel()
            elif kind == "map":
                self._say("Reading details …", running=True)
                self.show_map()
                self._say(self._counted())
            elif isinstance(node, int) and 0 <= node < len(self._entries):
                (self.expand if kind == "expand" else self._open_or_expand)(self._entries[node].path)
        except GeolakeError as problem:
            self.card.value = str(tag("p", str(problem), role="alert"))
            self._say(self._counted())

    def _open_or_expand(self, path: tuple[str, ...]) -> None:
        is_table = self._entries[self._ids[path]].kind is EntryKind.TABLE
        (self.open if is_table else self.expand)(path)

    def _open_selected(self, _: object) -> None:
        if len(self.map.selected) != 1:
            return
        try:
            path = self.catalog.path_of(self.map.selected[0])
            self._place(path)
            self.open(path)
        except GeolakeError as problem:
            self.card.value = str(tag("p", str(problem), role="alert"))

    def _read(self, cancelled: threading.Event) -> None:
        counts = [0, 0]

        def count(done: int, total: int) -> None:
            counts[:] = done, total

        sent = time.monotonic()
        try:
            for details in self.catalog.iter_details(on_progress=count, cancelled=cancelled):
                self._place(details.path, EntryKind.TABLE)
                self._known[str(self._ids[details.path])] = _shown(details)
                if time.monotonic() - sent > _PAUSE:
                    self._send(f"{counts[0]:,} of {counts[1]:,} tables read", running=True)
                    sent = time.monotonic()
            end = f"Cancelled; {len(self._known):,} tables read" if cancelled.is_set() else self._counted()
        except GeolakeError as problem:
            end = printable(str(problem))
        self._send(end, running=False)

    def _send(self, text: str, *, running: bool) -> None:
        with self.tree.hold_sync():
            self.tree.nodes = self._nodes()
            self.tree.details = dict(self._known)
            self._say(text, running=running)

    def _place(self, path: tuple[str, ...], kind: EntryKind = EntryKind.TABLE) -> None:
        """Note the entry of a table, and the namespaces that it is in."""
        for depth in range(1, len(path) + 1):
            above = path[:depth]
            own = kind if depth == len(path) else EntryKind.NAMESPACE
            if above not in self._ids:
                self._ids[above] = len(self._entries)
                self._entries.append(CatalogEntry(above, own))
            elif self._entries[self._ids[above]].kind is EntryKind.FOLDER:
                self._entries[self._ids[above]] = CatalogEntry(above, own)

    def _add(self, path: tuple[str, ...], entries: list[CatalogEntry]) -> None:
        for entry in entries:
            self._ids[entry.path] = len(self._entries)
            self._entries.append(entry)
        self.tree.nodes = self._nodes()

    def _becomes(self, node: int, kind: EntryKind) -> None:
        self._entries[node] = CatalogEntry(self._entries[node].path, kind)
        self.tree.nodes = self._nodes()

    def _nodes(self) -> list[dict[str, Any]]:
        return [
            {
                "id": number,
                "parent": self._ids.get(entry.path[:-1], -1),
                "label": printable(entry.path[-1], 200),
                "name": printable(self.catalog.name_of(entry.path), 400),
                "kind": entry.kind.value,
            }
            for number, entry in enumerate(list(self._entries))
        ]

    def _counted(self) -> str:
        kinds = [entry.kind for entry in self._entries]
        tables, folders = kinds.count(EntryKind.TABLE), kinds.count(EntryKind.FOLDER)
        counts = [plural(tables, "table")] if tables or not folders else []
        return ", ".join([*counts, *([plural(folders, "folder")] if folders else [])]) + " listed"

    def _say(self, text: str, *, running: bool = False) -> None:
        self.tree.progress = {"text": text, "running": running}


def _shown(details: TableDetails) -> dict[str, Any]:
    if details.problem is not None:
        return {"problem": printable(details.problem, 300)}
    return {"cells": detail_cells(details)}
