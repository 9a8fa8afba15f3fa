"""The browser of rasters: a list, the bands of the chosen one, and a map of the outlines; no path in them is opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import ipywidgets

from geolake_nb.errors import GeolakeError
from geolake_nb.jupyter.cards import render
from geolake_nb.jupyter.editor_parts import Editor, button, control, heading, hidden, shown
from geolake_nb.jupyter.html import tag
from geolake_nb.jupyter.map_traits import MAX_NAMES, map_traits
from geolake_nb.jupyter.map_widget import MapWidget, pack_rings, pack_uint32
from geolake_nb.jupyter.raster_entries import BandFacts, RasterDetails, RasterEntries, RasterEntry

if TYPE_CHECKING:
    import pyarrow as pa

    from geolake_nb.api.table import Table

__all__ = ["RasterBrowser", "Thumbnail"]

Thumbnail = Callable[[RasterEntry], bytes | None]
"""Makes a PNG of a raster; `None` for one that has no picture."""

_PAGE = 50
_PNG = b"\x89PNG\r\n\x1a\n"
_LARGEST_PICTURE = 4_000_000


class RasterBrowser(Editor):
    """The rasters of a table, one of which is chosen in the list or on the map; `details` describes it."""

    usage = (
        "A browser of the rasters, for a live notebook: choose one in the list or on the map. Without a front\n"
        "end: t.rasters() lists them, and t.raster_bands(path) has the bands of those in one file."
    )

    def __init__(
        self,
        table: Table,
        *,
        thumbnail: Thumbnail | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        super().__init__("raster-browser")
        self.table = table
        self.entries = RasterEntries(table.rasters(on_progress=on_progress))
        self.page = 0
        self.details: RasterDetails | None = None
        """Of the raster that is chosen; `None` in a table without rasters."""
        self._thumbnail = thumbnail
        self._bands: tuple[tuple[str, str], pa.Table] | None = None
        self._shown: dict[int, RasterEntry] = {}
        self._make_controls()
        self.show_page(0)

    def __repr__(self) -> str:
        return f"RasterBrowser({self.table.location!r}, {len(self.entries):,} rasters)"

    def choose(self, number: int) -> None:
        """Choose a raster by its row in `t.rasters()`."""
        if not 0 <= number < len(self.entries):
            raise GeolakeError(f"no raster {number}", remedy=f"there are {len(self.entries):,}, counted from 0")
        if number // _PAGE != self.page:
            self.show_page(number // _PAGE)
        self.list.value = number

    def show_page(self, number: int) -> None:
        """Show another page of the list; its first raster is chosen."""
        last = self.entries.pages(_PAGE) - 1
        self.page = min(max(0, number), last)
        here = self.entries.page(self.page, _PAGE)
        self._shown = {entry.number: entry for entry in here}
        self.list.options = [(str(entry), entry.number) for entry in here]
        self.list.value = here[0].number if here else None
        self.previous.disabled, self.next.disabled = self.page == 0, self.page == last
        text = f"page {self.page + 1:,} of {last + 1:,}, {len(self.entries):,} rasters"
        self.note.value = str(tag("span", text, class_="geolake-faint"))

    def _make_controls(self) -> None:
        self.list = control(ipywidgets.Select, "rasters", "Rasters", rows=10)
        self.list.add_class("geolake-list")
        self.previous = button("previous", "Previous page", lambda: self.show_page(self.page - 1))
        self.next = button("next", "Next page", lambda: self.show_page(self.page + 1))
        self.note = shown("note")
        self.card = shown("raster-details")
        # Else the row would stretch it to its own height.
        own_size = ipywidgets.Layout(align_self="flex-start", flex="0 0 auto", max_width="256px", max_height="256px")
        self.picture = ipywidgets.Image(format="png", layout=own_size)
        self.picture.add_class("geolake-thumbnail")
        hidden(self.picture, when=True)
        self.map = self._made_map()
        self.map.add_class("geolake-raster-map")
        self.list.observe(self._chosen, names="value")
        self.map.observe(self._picked, names="selected_items")
        self.add(
            heading("Rasters", self.table.location),
            self.list,
            ipywidgets.HBox([self.previous, self.next, self.note]),
            self.status,
            ipywidgets.HBox([self.picture, self.card]),
            self.map,
        )

    def _made_map(self) -> MapWidget:
        rings = self.entries.outlines()
        made = MapWidget(
            **(map_traits(self.entries.placed()) | (pack_rings(rings) if rings else {})),
            noun="rasters",
            names=self._names(),
            title=self.table.location.rstrip("/").rpartition("/")[2],
        )
        made.on_describe(lambda item: [("Raster", str(self.entries.page(item, 1)[0]))])
        return made

    def _names(self) -> list[str]:
        """Names for the pointer; for many rasters the browser requests them."""
        many = len(self.entries) > MAX_NAMES
        return [] if many else [str(entry) for entry in self.entries.page(0, max(1, len(self.entries)))]

    def _picked(self, _: object) -> None:
        """A raster is chosen on the map: the first one, where there are several."""
        picked = self.map.selected_ids.tolist()
        if picked and self.list.value not in picked:
            self.choose(picked[0])

    def _chosen(self, _: object) -> None:
        entry = self._shown.get(self.list.value)
        self.details = None if entry is None else self._read_details(entry)
        self.card.value = "" if self.details is None else render(self.details) or ""
        self._draw(entry)
        if entry is not None and entry.number not in self.map.selected_ids.tolist():
            self.map.selected_items = pack_uint32([entry.number])

    def _read_details(self, entry: RasterEntry) -> RasterDetails:
        """The raster with its bands; a file that cannot be read leaves its metadata."""
        key = (entry.path, entry.column)
        try:
            if self._bands is None or self._bands[0] != key:
                self._bands = key, self.table.raster_bands(entry.path, column=entry.column)
            rows = [row for row in self._bands[1].to_pylist() if row["raster"] == entry.index_in_file]
        except (GeolakeError, OSError) as problem:
            return RasterDetails(entry, (), f"The bands cannot be read: {problem}")
        return RasterDetails(entry, tuple(map(BandFacts.of, rows)))

    def _draw(self, entry: RasterEntry | None) -> None:
        """Show the picture of a raster, where there is one."""
        picture: bytes | None = None
        with self.trying():
            if entry is not None and self._thumbnail is not None:
                picture = self._thumbnail(entry)
                if picture is not None and not (picture.startswith(_PNG) and len(picture) <= _LARGEST_PICTURE):
                    picture = None
                    raise GeolakeError(f"expected the thumbnail to be a PNG of at most {_LARGEST_PICTURE:,} bytes")
        self.picture.value = picture or b""
        hidden(self.picture, when=picture is None)
