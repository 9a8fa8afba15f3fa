"""The traits of a map that depend on its boxes, and those that a page without a kernel needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from geolake_nb.jupyter.map_layers import float32_outward
from geolake_nb.jupyter.map_widget import MapWidget, pack_float64, pack_uint32

if TYPE_CHECKING:
    from geolake_nb.jupyter.map_layers import PlacedBoxes

__all__ = ["MAX_NAMES", "map_traits", "page_traits"]

MAX_NAMES = 20_000
"""Up to so many files their names travel with the map; for more, the browser requests them."""
_NOT_IN_A_PAGE = frozenset(
    {"drawn", "measure", "page", "page_request", "selected_items", "step", "version", "versions"}
    | {"row_page", "row_page_request", "row_shapes", "row_status"}
)


def map_traits(placed: PlacedBoxes) -> dict[str, Any]:
    """The traits of the boxes and outlines, and notes about those that are not drawn.

    >>> from geolake_nb.jupyter.map_layers import place_boxes
    >>> from geolake_nb.model.box import Box
    >>> from geolake_nb.model.crs import CRS84
    >>> from geolake_nb.model.statistics import BoxColumn
    >>> placed = place_boxes(BoxColumn.from_boxes([None, Box(0, 0, 200, 1)]), CRS84)
    >>> map_traits(placed)["notes"]
    {'no_bounds': 1, 'flagged': 1, 'problems': [['a side is beyond 180 or 90 degrees', 1]]}
    """
    problems = placed.problems()
    cautions = [[placed.caution, int(placed.drawn.sum())]] if placed.caution and placed.drawn.any() else []
    return {
        "boxes": pack_float64(placed.boxes),
        "rings": pack_float64(placed.outlines.points),
        "ring_offsets": pack_uint32(placed.outlines.offsets) if len(placed.outlines.items) else b"",
        "ring_items": pack_uint32(placed.outlines.items),
        "notes": {
            "no_bounds": int(placed.no_bounds.sum()),
            "flagged": sum(problems.values()),
            "problems": [*cautions, *([text, count] for text, count in problems.items())],
        },
    }


def page_traits(widget: MapWidget) -> dict[str, Any]:
    """What a page without a kernel needs of a map; many boxes are rounded outwards, which halves the file."""
    own = [name for name in MapWidget.class_trait_names(sync=True) if not name.startswith(("_", "layout", "comm"))]
    wanted = {name for name in own if name not in _NOT_IN_A_PAGE} - {"tabbable", "tooltip"}
    traits = {name: getattr(widget, name) for name in sorted(wanted)}
    if widget.item_count > MAX_NAMES:
        boxes = np.frombuffer(traits["boxes"], "<f8").reshape(-1, 4)
        traits["boxes"] = pack_float64(float32_outward(boxes))
        bent = len(traits["ring_items"]) // 4
        if bent:
            # Outlines would make the file twice as large, and so many are seen as a density anyway.
            traits |= dict.fromkeys(("rings", "ring_offsets", "ring_items"), b"")
            notes = traits["notes"]
            problems = [*notes.get("problems", []), ["outlines drawn as the boxes around them", bent]]
            traits["notes"] = {**notes, "problems": problems}
    return traits
