"""The map in a notebook cell and in an HTML file: shared traits, and arrays packed into them."""

from __future__ import annotations

import base64
import html
import json
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anywidget
import ipywidgets
import numpy as np
import traitlets

from geolake_nb.jupyter.cell_widgets import DisplayedInCell
from geolake_nb.model.crs import CRS84

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy.typing as npt

__all__ = [
    "BUNDLE",
    "MapPair",
    "MapWidget",
    "MapWindow",
    "map_page",
    "map_script",
    "pack_columns",
    "pack_float64",
    "pack_parts",
    "pack_rings",
    "pack_uint32",
    "side_by_side",
]

BUNDLE: Final = Path(__file__).parent / "static" / "map.js"


def pack_float64(values: npt.ArrayLike) -> bytes:
    """Numbers as the browser reads them: Float64, little-endian.

    >>> len(pack_float64([[170.0, -20.0, -170.0, -10.0]]))
    32
    >>> pack_float64([])
    b''
    """
    return np.ascontiguousarray(values, dtype="<f8").tobytes()


def pack_uint32(values: npt.ArrayLike) -> bytes:
    """Ids and offsets as the browser reads them: Uint32, little-endian.

    >>> pack_uint32([1, 2])
    b'\\x01\\x00\\x00\\x00\\x02\\x00\\x00\\x00'
    """
    return np.ascontiguousarray(values, dtype="<u4").tobytes()


def pack_columns(columns: Sequence[npt.ArrayLike]) -> bytes:
    """One Float32 run per column; an unknown value is NaN.

    >>> len(pack_columns([[1, 2, 3], [0.5, float("nan"), 2]]))
    24
    """
    return b"".join(np.ascontiguousarray(column, dtype="<f4").tobytes() for column in columns)


def pack_rings(rings: Iterable[tuple[int, npt.ArrayLike]]) -> dict[str, bytes]:
    """The three traits of outlines, from pairs of an item and its points.

    >>> packed = pack_rings([(7, [[0, 0], [1, 0], [1, 1]])])
    >>> [len(packed[name]) for name in ("rings", "ring_offsets", "ring_items")]
    [48, 8, 4]
    >>> pack_rings([])["ring_items"]
    b''
    """
    pairs = [(item, np.asarray(points, dtype="<f8").reshape(-1, 2)) for item, points in rings]
    offsets = np.cumsum([0, *(len(points) for _, points in pairs)])
    return {
        "rings": b"".join(points.tobytes() for _, points in pairs),
        "ring_offsets": pack_uint32(offsets),
        "ring_items": pack_uint32([item for item, _ in pairs]),
    }


def pack_parts(parts: Iterable[npt.ArrayLike]) -> bytes:
    """The rings, lines or points of an overlay: x y pairs, with a NaN pair after each part.

    >>> len(pack_parts([[[0, 0], [1, 1]], [[2, 2]]]))
    80
    """
    end = np.full((1, 2), np.nan)
    return b"".join(pack_float64(np.vstack([np.asarray(part, dtype="f8").reshape(-1, 2), end])) for part in parts)


def _buffer() -> Any:
    # The browser's bytes arrive as a memoryview, which never equals the old value: no observer would fire.
    return traitlets.Bytes(b"").tag(sync=True, from_json=lambda value, _: bytes(value or b""))


class MapWindow(list[float]):
    """The window of a map, xmin, ymin, xmax, ymax, with its CRS: `t.explain(m.window)` is the query of the map.

    >>> MapWindow([5, 45, 11, 52], "OGC:CRS84").crs
    'OGC:CRS84'
    """

    def __init__(self, sides: Iterable[float], crs: str | None) -> None:
        super().__init__(sides)
        self.crs = crs


class _WindowTrait(traitlets.List[float]):
    """Four numbers, which get the CRS of the map when they are set."""

    def validate(self, obj: Any, value: Any) -> Any:
        sides = super().validate(obj, value)
        return sides if sides is None else MapWindow(sides, obj.window_crs)


class MapWidget(DisplayedInCell, anywidget.AnyWidget):
    """Boxes on a map that needs no network. Set traits that belong together inside `hold_sync()`.

    >>> widget = MapWidget(boxes=pack_float64([[170, -20, -170, -10]]), title="roads")
    >>> widget.item_count, widget.selected_ids.tolist(), widget.window is None
    (1, [], True)
    """

    # The text, not the path: anywidget would keep every map alive to notify it of file changes.
    _esm = BUNDLE.read_text(encoding="utf-8")

    boxes = _buffer()
    """Four Float64 per item, in degrees: xmin ymin xmax ymax; xmin > xmax wraps around 180, NaN means no bounds."""
    rings = _buffer()
    """Outlines that replace the rectangle of an item: x y pairs."""
    ring_offsets = _buffer()
    """Where each outline starts, in points, and where the last one ends."""
    ring_items = _buffer()
    """The item of each outline."""
    columns = traitlets.List(traitlets.Dict()).tag(sync=True)
    """What can be coloured: key, label, kind (category, linear, log, time), unit, labels, origin."""
    column_data = _buffer()
    """One Float32 run per column; times are seconds after the column's origin."""
    color_by = traitlets.Unicode("").tag(sync=True)
    """Key of a column, or `overlap`."""
    marks = _buffer()
    """One byte per item: 0 nothing, 1 read, 2 skipped because of the first reason, 3 of the second, and so on."""
    mark_reasons = traitlets.List(traitlets.Unicode()).tag(sync=True)
    window = _WindowTrait(traitlets.Float(), minlen=4, maxlen=4, default_value=None, allow_none=True).tag(sync=True)
    """The query window in degrees, set from either side; xmin > xmax crosses the antimeridian."""
    window_crs: str | None = CRS84.text
    """The CRS that the window carries; `None` where it is in that of the column."""
    verdict = traitlets.Dict().tag(sync=True)
    """What a query over the window reads: files, files_read, bytes, bytes_read, text, and its window."""
    selected_items = _buffer()
    """Ids of the selected items, ascending, set from either side."""
    overlays = traitlets.List(traitlets.Dict()).tag(sync=True)
    """More layers: name, kind (lines, points, rings), color, visible."""
    overlay_data = traitlets.List(traitlets.Bytes()).tag(sync=True)
    """The parts of each overlay, as `pack_parts` packs them; longitudes may run past 180."""
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    """Names of the items when they are few; otherwise the browser requests them through `on_describe`."""
    page = traitlets.Dict().tag(sync=True)
    """A page of the table: columns, rows, ids, page, pages, total."""
    page_request = traitlets.Dict().tag(sync=True)
    """The request of the table: page, size, sort, descending, selected_only."""
    row_status = traitlets.Dict().tag(sync=True)
    """The rows in the window: state (none, ready, loading, loaded, cancelled, failed), estimate, and what was read.

    It is empty where rows cannot be loaded.
    """
    row_shapes = traitlets.Dict().tag(sync=True)
    """The rows that are drawn: kinds, items, offsets and points of their parts, rows, in_view, view."""
    row_page = traitlets.Dict().tag(sync=True)
    """A page of the table of rows, as `page`."""
    row_page_request = traitlets.Dict().tag(sync=True)
    """The request of the table of rows: page, size, sort, descending."""
    step = traitlets.Dict().tag(sync=True)
    """What is suggested over the map: text, lines, actions as pairs of an id and a label, command; empty without."""
    versions = traitlets.List(traitlets.Int()).tag(sync=True)
    version = traitlets.Int(0).tag(sync=True)
    view = traitlets.Dict().tag(sync=True)
    """lat, lng and zoom; linking it makes two maps move together."""
    notes = traitlets.Dict().tag(sync=True)
    """Shown under the map: no_bounds, flagged, problems as pairs of text and count."""
    basemap = traitlets.Enum(["", "none", "land", "borders", "tiles"], default_value="").tag(sync=True)
    """What lies under the data; empty means the tiles where a server is given, else the land with borders."""
    tile_url = traitlets.Unicode("").tag(sync=True)
    """A tile server of the user's choice; empty means the land inside the bundle and no request."""
    attribution = traitlets.Unicode("").tag(sync=True)
    theme = traitlets.Enum(["auto", "dark", "light"], default_value="auto").tag(sync=True)
    title = traitlets.Unicode("").tag(sync=True)
    noun = traitlets.Unicode("files").tag(sync=True)
    """What the items are called, in the plural."""
    height = traitlets.Int(420).tag(sync=True)
    measure = traitlets.Bool(False).tag(sync=True)
    """Whether the browser reports each frame in `drawn`."""
    drawn = traitlets.Dict().tag(sync=True)
    """The last frame: boxes, ms, mode (density, means, outlines)."""

    @property
    def item_count(self) -> int:
        """How many items the map holds."""
        return len(self.boxes) // 32

    @property
    def selected_ids(self) -> npt.NDArray[np.uint32]:
        """The selected items, ascending."""
        return np.frombuffer(self.selected_items, dtype="<u4")

    def on_describe(self, describe: Callable[[int], Sequence[tuple[str, str]]]) -> None:
        """Answer the pointer that rests on an item without a name.

        Args:
            describe: a function from the number of an item to pairs of label and value.

        Example:
            >>> widget = MapWidget(boxes=pack_float64([[0, 0, 1, 1]]))
            >>> widget.on_describe(lambda item: [("file", f"part-{item}.parquet")])
        """

        def answer(_: object, message: object, __: object) -> None:
            if not isinstance(message, dict) or message.get("type") != "describe":
                return
            item = message.get("id")
            if isinstance(item, int) and 0 <= item < self.item_count:
                self.send({"type": "description", "id": item, "fields": [list(pair) for pair in describe(item)]})

        self.on_msg(answer)


class MapPair(DisplayedInCell, ipywidgets.HBox):  # type: ignore[misc]
    """Two maps in one row."""


def side_by_side(before: MapWidget, after: MapWidget) -> Any:
    """Two maps that move together.

    >>> pair = side_by_side(MapWidget(title="before"), MapWidget(title="after"))
    >>> [view.title for view in pair.children]
    ['before', 'after']
    """
    for view in (before, after):
        view.layout.flex, view.layout.min_width, view.layout.width = "1 1 0", "0", "auto"
    ipywidgets.jslink((before, "view"), (after, "view"))
    return MapPair([before, after], layout=ipywidgets.Layout(grid_gap="8px"))


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 16px; font-family: system-ui, sans-serif; }}
</style>
<div id="map"></div>
{script}
</html>
"""

# A module from a data: address needs no server, runs from a file, and no text in it can end the script element.
_SCRIPT = """<script type="application/json" id="{element}-data">{data}</script>
<script type="module">
import {{ renderStatic }} from "data:text/javascript;base64,{code}";
const data = JSON.parse(document.getElementById("{element}-data").textContent);
window.geolakeMap = await renderStatic(document.getElementById("{element}"), data);
</script>"""


def map_page(traits: Mapping[str, Any], *, title: str = "") -> str:
    """A page that shows the traits of a `MapWidget` without a kernel and without a request to any host.

    >>> page = map_page({"boxes": b"", "names": ["</script>"]}, title="a < b")
    >>> "<title>a &lt; b</title>" in page, page.count("</script>")
    (True, 2)
    """
    return _PAGE.format(title=html.escape(title or "Map"), script=map_script(traits, element="map"))


def map_script(traits: Mapping[str, Any], *, element: str) -> str:
    """The two script elements that draw a map into the element whose id is `element`."""
    # `<` is the one character that could end the element or open a comment.
    data = json.dumps({key: _in_json(value) for key, value in traits.items()}, allow_nan=False).replace("<", "\\u003c")
    code = base64.b64encode(BUNDLE.read_bytes()).decode()
    return _SCRIPT.format(element=element, data=data, code=code)


def _in_json(value: Any) -> Any:
    if isinstance(value, bytes | memoryview):
        return {"base64": base64.b64encode(zlib.compress(value, 6)).decode(), "deflate": True}
    if isinstance(value, list | tuple):
        return [_in_json(item) for item in value]
    return value
