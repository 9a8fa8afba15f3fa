"""The table next to the map: a page of it at a time, sorted, and the fields of one file for the pointer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from geolake_nb.jupyter.map_columns import ColorColumn
    from geolake_nb.jupyter.map_layers import PlacedBoxes
    from geolake_nb.model.file_table import FileTable

__all__ = ["FilePages"]

_MAX_ROWS = 500


class FilePages:
    """The files of a map as rows of a table."""

    def __init__(self, files: FileTable, placed: PlacedBoxes, columns: Sequence[ColorColumn], problems: str) -> None:
        self._paths = files.table["path"]
        self._problems = files.table[problems]
        self._placed = placed
        self._columns = list(columns)
        self._order: tuple[object, NDArray[np.int64]] | None = None

    def page(
        self, request: Mapping[str, Any], selected: NDArray[np.uint32], reasons: pa.Array | None = None
    ) -> dict[str, Any]:
        """The page that the browser requests; page numbers outside the table are clamped."""
        ids = self._sorted(request.get("sort"), descending=bool(request.get("descending")))
        if request.get("selected_only"):
            ids = ids[np.isin(ids, selected)]
        size = min(max(1, _whole(request.get("size"), 10)), _MAX_ROWS)
        pages = max(1, -(-len(ids) // size))
        page = min(max(0, _whole(request.get("page"), 0)), pages - 1)
        here = ids[page * size : (page + 1) * size]
        heads: list[dict[str, Any]] = [{"key": "name", "label": "Path"}]
        cells: list[list[Any]] = [self._paths.take(pa.array(here)).to_pylist()]
        for column in self._columns:
            heads.append({"key": column.key, "label": column.label, **({"unit": column.unit} if column.unit else {})})
            cells.append(column.cells(here))
        heads.append({"key": "bounds", "label": "Bounds"})
        cells.append([self._bounds(item) for item in here.tolist()])
        if reasons is not None:
            heads.append({"key": "reason", "label": "Query"})
            cells.append(reasons.take(pa.array(here)).to_pylist())
        rows = [list(row) for row in zip(*cells, strict=True)]
        return {"columns": heads, "rows": rows, "ids": here.tolist(), "page": page, "pages": pages, "total": len(ids)}

    def fields(self, item: int) -> list[tuple[str, str]]:
        """The fields of the card under the pointer for one file."""
        here = np.array([item])
        pairs = [("Path", str(self._paths[item].as_py()))]
        for column in self._columns:
            value = column.cells(here)[0]
            text = "unknown" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
            pairs.append((column.label, text))
        return [*pairs, ("Bounds", self._bounds(item))]

    def _bounds(self, item: int) -> str:
        sides = self._placed.boxes[item]
        # Of this file alone: `no_bounds` computes all of them, and a page needs only its rows.
        if np.isnan(sides).all():
            problem = self._problems[item].as_py()
            return "none" if problem is None else f"none: {problem}"
        flag = self._placed.flag_of(item)
        if flag is not None and not self._placed.drawn[item]:
            return flag
        west, south, east, north = (f"{side:.7g}" for side in sides.tolist())
        return f"{west}, {south}, {east}, {north}" + ("" if flag is None else f" ({flag})")

    def _sorted(self, key: object, *, descending: bool) -> NDArray[np.int64]:
        if self._order is None or self._order[0] != (key, descending):
            self._order = (key, descending), self._sort(key, descending=descending)
        return self._order[1]

    def _sort(self, key: object, *, descending: bool) -> NDArray[np.int64]:
        everything = np.arange(len(self._placed), dtype=np.int64)
        if key == "name":
            way = "descending" if descending else "ascending"
            return np.asarray(pc.array_sort_indices(self._paths.combine_chunks(), order=way).to_numpy(), np.int64)
        keys = next((column.sort_values() for column in self._columns if column.key == key), None)
        if key == "bounds":
            keys = np.where(self._placed.drawn, self._placed.boxes[:, 0], np.nan)
        if keys is None:
            return everything
        # What is not known comes last in either direction: so NumPy sorts NaN.
        return np.argsort(-keys if descending else keys, kind="stable").astype(np.int64)


def _whole(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default
