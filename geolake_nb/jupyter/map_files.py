"""The files on a map: what they can be coloured by, and the table next to it, a page at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import GeolakeError
from geolake_nb.text.messages import near_names, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from geolake_nb.jupyter.map_layers import PlacedBoxes
    from geolake_nb.model.file_table import FileTable

    _Floats = NDArray[np.float64]

__all__ = ["IN_BROWSER", "ColorColumn", "FilePages", "chosen_color", "color_columns", "overlap_depths"]

IN_BROWSER = "overlap"
READ = "read"
"""Whether the query reads a file: the browser colours by the marks."""
"""The colour that the browser computes if it is not sent."""

_DEEP_FILES = 4096
"""Up to so many files their depth is counted here; beyond, the browser counts it on its pixels."""
_LABELS = 500
_LABEL_LENGTH = 120
_BLOCK = 1 << 22
_VERSIONS = ("default_row_commit_version", "sequence_number")


@dataclass(frozen=True, slots=True, eq=False)
class ColorColumn:
    """One value a file: `values` are numbers, NaN where unknown; of a category they are indices into `labels`."""

    key: str
    label: str
    kind: str
    """`category`, `linear`, `log` or `time` (seconds after `origin`)."""
    values: _Floats
    unit: str | None = None
    labels: tuple[str, ...] = ()
    origin: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The metadata that the browser gets with the values."""
        column: dict[str, Any] = {"key": self.key, "label": self.label, "kind": self.kind}
        column |= {"unit": self.unit} if self.unit else {}
        column |= {"labels": list(self.labels)} if self.labels else {}
        return column | ({} if self.origin is None else {"origin": self.origin})

    def sort_values(self) -> _Floats:
        """Numbers in the order in which a table sorts the files."""
        if self.kind != "category" or not self.labels:
            return self.values
        rank = np.empty(len(self.labels))
        rank[np.argsort(np.array(self.labels, dtype=object), kind="stable")] = np.arange(len(self.labels))
        known = ~np.isnan(self.values)
        ranks = np.full(len(self.values), np.nan)
        ranks[known] = rank[self.values[known].astype(np.intp)]
        return ranks

    def cells(self, items: NDArray[np.int64]) -> list[Any]:
        """The values of some files as a table shows them."""
        values = self.values[items]
        if self.kind == "category":
            return [None if np.isnan(value) else self.labels[int(value)] for value in values.tolist()]
        if self.kind == "time":
            stamps = np.array(
                [np.nan if np.isnan(value) else value + (self.origin or 0.0) for value in values.tolist()]
            )
            return [
                None if np.isnan(stamp) else str(np.datetime64(int(stamp), "s")).replace("T", " ") for stamp in stamps
            ]
        return [
            None if np.isnan(value) else int(value) if float(value).is_integer() else value for value in values.tolist()
        ]


def color_columns(files: FileTable, placed: PlacedBoxes, *, added: pa.Array | None = None) -> list[ColorColumn]:
    """The columns that the table has values for; `added` is the version that added each file, where it was looked up.

    >>> from geolake_nb.model.statistics import BoxColumn
    >>> from geolake_nb.model.crs import CRS84
    >>> from geolake_nb.model.file_table import FileTable
    >>> from geolake_nb.jupyter.map_layers import place_boxes
    >>> files = FileTable.of(path=pa.array(["a"]), bytes=pa.array([9]), rows=pa.array([None], pa.int64()))
    >>> [column.key for column in color_columns(files, place_boxes(BoxColumn.from_boxes([None]), CRS84))]
    ['rows', 'bytes']
    """
    table = files.table
    columns = [
        ColorColumn("rows", "Rows", "log", _numbers(table["rows"]), "rows"),
        ColorColumn("bytes", "Size", "log", _numbers(table["bytes"]), "bytes"),
    ]
    if "modified" in table.column_names and table["modified"].null_count < len(files):
        columns.append(_age(table["modified"]))
    partitions = [name for name in table.column_names if name.startswith("partition.")]
    if partitions and len(files):
        columns.append(_category("partition", "Partition", _partition_texts(table, partitions)))
    version_column = next((name for name in _VERSIONS if name in table.column_names), None)
    versions = added if added is not None else None if version_column is None else table[version_column]
    if versions is not None and versions.null_count < len(versions):
        label = "Sequence number" if added is None and version_column == _VERSIONS[1] else "Added by version"
        columns.append(ColorColumn("version", label, "linear", _numbers(versions)))
    if 1 < len(files) <= _DEEP_FILES and placed.drawn.any():
        columns.append(ColorColumn(IN_BROWSER, "Overlap depth", "linear", overlap_depths(placed)))
    return columns


def chosen_color(columns: Sequence[ColorColumn], color: str) -> str:
    """The key of the requested colour.

    >>> chosen_color([], "height")
    Traceback (most recent call last):
    geolake_nb.errors.GeolakeError: unknown colour 'height'; use one of: overlap, read
    """
    known = {column.key for column in columns} | {IN_BROWSER, READ}
    if color not in known:
        what = f"unknown colour {printable(color, 60)!r}"
        near = near_names(color, known, 1)
        meant = f"did you mean {near[0]}? Use" if near else "use"
        raise GeolakeError(what, remedy=f"{meant} one of: {', '.join(sorted(known))}")
    return color


def overlap_depths(placed: PlacedBoxes) -> _Floats:
    """How many boxes cover the centre of each box, itself included; NaN for a file without bounds.

    >>> from geolake_nb.model.statistics import BoxColumn
    >>> from geolake_nb.model.crs import CRS84
    >>> from geolake_nb.jupyter.map_layers import place_boxes
    >>> boxes = BoxColumn.from_sides([0, 0, 170], [0, 0, 0], [2, 2, -170], [2, 2, 1])
    >>> overlap_depths(place_boxes(boxes, CRS84)).tolist()
    [2.0, 2.0, 1.0]
    """
    drawn = placed.drawn
    west, south, east, north = placed.boxes[drawn].T
    wraps = west > east
    x = (west + np.where(wraps, east + 360.0, east)) / 2.0
    x, y = np.where(x > 180.0, np.where(wraps, x - 360.0, x), x), (south + north) / 2.0
    depths = np.empty(len(x))
    step = max(1, _BLOCK // max(1, len(x)))
    for start in range(0, len(x), step):
        px, py = x[start : start + step, None], y[start : start + step, None]
        after, before = west <= px, px <= east
        in_x = np.where(wraps, after | before, after & before)
        depths[start : start + step] = np.count_nonzero(in_x & (south <= py) & (py <= north), axis=1)
    per_file = np.full(len(placed), np.nan)
    per_file[drawn] = depths
    return per_file


def _numbers(column: pa.ChunkedArray | pa.Array) -> _Floats:
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.asarray(flat.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def _age(modified: pa.ChunkedArray) -> ColorColumn:
    seconds = _numbers(pc.cast(modified, pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())) / 1000.0
    # 32-bit floats hold seconds for half a year only: those after the first file are exact enough for years.
    origin = float(np.nanmin(seconds))
    return ColorColumn("age", "Modified", "time", seconds - origin, origin=origin)


def _partition_texts(table: pa.Table, names: Sequence[str]) -> pa.Array:
    parts = []
    for name in names:
        values = table[name].combine_chunks()
        try:
            texts = values.cast(pa.string(), safe=False)
        except pa.ArrowException:
            # Bytes that are not UTF-8, and types that Arrow cannot cast to strings.
            texts = pa.array([None if value is None else str(value) for value in values.to_pylist()], pa.string())
        label = pa.scalar(f"{name.removeprefix('partition.')}=")
        parts.append(pc.binary_join_element_wise(label, pc.fill_null(texts, "null"), ""))
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "/")


def _category(key: str, label: str, texts: pa.Array) -> ColorColumn:
    """The most frequent texts as categories, the others combined."""
    counted = pc.value_counts(texts)
    order = np.argsort(-counted.field("counts").to_numpy(), kind="stable")
    kept = counted.field("values").take(pa.array(order[:_LABELS]))
    codes = pc.index_in(texts, value_set=kept)
    labels = [printable(text, _LABEL_LENGTH) for text in kept.to_pylist()]
    if len(order) > _LABELS:
        codes = pc.fill_null(codes, len(labels))
        labels.append(f"{len(order) - _LABELS:,} others")
    return ColorColumn(key, label, "category", _numbers(codes), labels=tuple(labels))


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
