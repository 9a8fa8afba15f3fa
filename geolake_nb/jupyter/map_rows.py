"""The rows in the window of a map: what they cost, loading them with progress and cancel, and what is shown of them.

The browser sends `load_rows`, `cancel_rows`, `clear_rows`, `describe_row` and `row_view`; it gets the traits
`row_status`, `row_shapes` and `row_page`, and a `row_description`.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from geolake_nb.errors import GeolakeError, JobError
from geolake_nb.jupyter.map_shapes import RowShapes
from geolake_nb.model.file_table import plain_rows
from geolake_nb.model.schema import split_path
from geolake_nb.model.types import GeographyType, GeometryType
from geolake_nb.text.messages import plural, printable, shortened, without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import geopandas as gpd
    from numpy.typing import NDArray

    from geolake_nb.api.scan import Scan
    from geolake_nb.jupyter.map_verdict import ReadSpeed
    from geolake_nb.jupyter.map_widget import MapWidget

__all__ = ["LoadedRows", "MapRows", "RowPages", "RowQuery"]

_PAUSE = 0.1
"""Seconds between two messages about progress."""
_PAGE = 8
_MAX_PAGE = 200
_MAX_COLUMNS = 60
_MAX_TEXT, _MAX_FIELD = 200, 80
"""Letters of a value in the table and on a card."""
_EXACT_IN_BROWSER = 1 << 53


@dataclass(frozen=True, slots=True)
class RowQuery:
    """What is read when the rows are loaded."""

    scan: Scan
    column: str
    """The geo column that the map draws."""
    type: GeometryType | GeographyType


class LoadedRows:
    """The rows of a query, their geometries on the map and their pages."""

    def __init__(self, query: RowQuery, rows: pa.Table) -> None:
        import shapely

        self.query, self.table = query, rows
        top, *inner = split_path(query.column)
        column: pa.ChunkedArray = rows[top]
        for name in inner:
            column = pc.struct_field(column, name)
        values = np.array(column.to_pylist(), object)
        try:
            with np.errstate(invalid="ignore"):  # of a vertex that is not a number
                self.values = shapely.from_wkb(values, on_invalid="ignore")
        except NotImplementedError:
            raise GeolakeError(
                f"{query.column} holds curves, which the map cannot draw", remedy="use t.scan(m.window).to_arrow()"
            ) from None
        self.shapes = RowShapes(self.values, query.type)
        fields = query.scan.table.schema.fields
        geo = {field.name for field in fields if isinstance(field.type, GeometryType | GeographyType)}
        self.pages = RowPages(rows, geo)

    def page(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The page that the browser requests, with the box of each of its rows."""
        page = self.pages.page(request)
        return {**page, "boxes": [self.shapes.box(row) for row in page["ids"]]}

    def to_geopandas(self) -> gpd.GeoDataFrame:
        """The rows as a GeoDataFrame of its own, its geometry the column of the map."""
        import warnings

        from geolake_nb.api.scan import UnreadableValueWarning

        scan, column, crs = self.query.scan, self.query.column, self.query.type.crs
        for note in unreadable_notes(scan.metrics.unreadable):
            warnings.warn(f"{scan.table.location}: {note}", UnreadableValueWarning, stacklevel=3)
        if column in self.table.column_names:
            return scan._to_geopandas(self.table).set_geometry(column)
        import geopandas as gpd

        known = crs.to_pyproj() if crs.is_resolvable else None
        frame = scan._to_pandas(self.table)
        return gpd.GeoDataFrame(frame.assign(**{column: gpd.GeoSeries(self.values, crs=known)}), geometry=column)


class RowPages:
    """Rows as the pages of a table and as the fields of a card; every value is a number or a short text.

    >>> pages = RowPages(pa.table({"id": [3, 1], "name": ["a", None]}), set())
    >>> page = pages.page({"sort": "id", "size": 1})
    >>> page["rows"], page["ids"], page["pages"], pages.fields(0)
    ([[1, None]], [1], 2, [('id', '3'), ('name', 'a')])
    """

    def __init__(self, rows: pa.Table, geo: set[str]) -> None:
        self._rows, self._geo = rows, geo
        self._shown = rows.select(list(range(min(rows.num_columns, _MAX_COLUMNS))))
        self._order: tuple[object, NDArray[np.int64]] | None = None

    def page(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The page that the browser requests; page numbers outside the table are clamped."""
        ids = self._sorted(request.get("sort"), descending=request.get("descending") is True)
        size = min(max(1, _whole(request.get("size"), _PAGE)), _MAX_PAGE)
        pages = max(1, -(-len(ids) // size))
        page = min(max(0, _whole(request.get("page"), 0)), pages - 1)
        here = ids[page * size : (page + 1) * size]
        rows = [list(row.values()) for row in self._cells(here)]
        heads = [{"key": name, "label": printable(name, 60)} for name in self._shown.column_names]
        return {"columns": heads, "rows": rows, "ids": here.tolist(), "page": page, "pages": pages, "total": len(ids)}

    def fields(self, row: int) -> list[tuple[str, str]]:
        """The fields of the card for one row."""
        [cells] = self._cells(np.array([row]))
        return [
            (printable(name, 60), "null" if value is None else shortened(str(value), _MAX_FIELD))
            for name, value in cells.items()
        ]

    def _cells(self, ids: NDArray[np.int64]) -> list[dict[str, Any]]:
        rows = plain_rows(self._shown.take(pa.array(ids, pa.int64())))
        return [{name: cell(value, is_wkb=name in self._geo) for name, value in row.items()} for row in rows]

    def _sorted(self, key: object, *, descending: bool) -> NDArray[np.int64]:
        if self._order is None or self._order[0] != (key, descending):
            order = np.arange(self._rows.num_rows, dtype=np.int64)
            if isinstance(key, str) and key in self._shown.column_names and key not in self._geo:
                with suppress(pa.ArrowException):  # lists, maps and structs have no order
                    way = "descending" if descending else "ascending"
                    order = np.asarray(pc.sort_indices(self._rows.select([key]), [(key, way)]), np.int64)
            self._order = (key, descending), order
        return self._order[1]


class _Load:
    """One read of the rows, in a thread of its own so that the kernel can handle a click on Cancel."""

    def __init__(self, query: RowQuery) -> None:
        self.query = query
        self.cancelled, self.done = threading.Event(), threading.Event()
        self.rows: LoadedRows | None = None
        self.problem: Exception | None = None


@dataclass(slots=True)
class MapRows:
    """What the map has of the rows in its window; its methods are called by the map."""

    shown: MapWidget
    query: Callable[[], RowQuery]
    """The rows to load now; an error where there are none to load."""
    speed: ReadSpeed
    _estimate: dict[str, Any] = field(default_factory=dict)
    _load: _Load | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def reset(self, estimate: dict[str, Any] | None) -> None:
        """Forget the rows: the window, the filter or the version is another one; `None` without a window."""
        with self._lock:
            if self._load is not None:
                self._load.cancelled.set()
                self._load = None
                self.shown.set_trait("row_shapes", {})
                self.shown.set_trait("row_page", {})
            self._estimate = estimate or {}
            self._publish("none" if estimate is None else "ready")

    def start(self) -> _Load:
        """Load the rows, or go on with the load of them."""
        with self._lock:
            load = self._load
            if load is None or load.cancelled.is_set() or (load.done.is_set() and load.rows is None):
                load = self._load = _Load(self.query())
                self._publish("loading", done=0, total=0)
                threading.Thread(target=self._run, args=(load,), name="geolake-map-rows", daemon=True).start()
            return load

    def stop(self) -> None:
        """End a read that is under way."""
        if self._load is not None and not self._load.done.is_set():
            self._load.cancelled.set()

    def rows(self) -> LoadedRows:
        """The rows, once they are loaded."""
        load = self.start()
        try:
            load.done.wait()
        except BaseException:
            load.cancelled.set()
            raise
        if load.rows is None:
            raise load.problem or JobError("the load of the rows was cancelled", remedy="call m.rows() again")
        return load.rows

    def receive(self, message: object) -> None:
        """A message of the browser; one that is not known is left to others."""
        content = message if isinstance(message, dict) else {}
        kind = content.get("type")
        loaded = self._load.rows if self._load is not None else None
        if kind == "load_rows":
            try:
                self.start()
            except GeolakeError as problem:
                self._publish("failed", text=str(problem))
        elif kind == "cancel_rows":
            self.stop()
        elif kind == "clear_rows" and loaded is not None:
            self.reset(self._estimate)
        elif kind == "describe_row" and loaded is not None:
            row = content.get("id")
            if isinstance(row, int) and not isinstance(row, bool) and 0 <= row < len(loaded.shapes):
                fields = [list(pair) for pair in loaded.pages.fields(row)]
                self.shown.send({"type": "row_description", "id": row, "fields": fields})
        elif kind == "row_view" and loaded is not None:
            view = _window(content.get("view"))
            if view is not None:
                self.shown.set_trait("row_shapes", loaded.shapes.drawn(view))

    def turn_page(self, request: Mapping[str, Any]) -> None:
        """Show another page of the table of rows."""
        if self._load is not None and self._load.rows is not None:
            self.shown.set_trait("row_page", self._load.rows.page(request))

    def _run(self, load: _Load) -> None:
        start = time.monotonic()
        try:
            rows = load.query.scan.to_arrow(on_progress=self._progress(load), cancelled=load.cancelled)
            loaded = LoadedRows(load.query, rows)
            shapes, page = loaded.shapes.drawn(), loaded.page(self.shown.row_page_request)
        except GeolakeError as problem:
            load.problem = problem
        except Exception as problem:  # noqa: BLE001 - errors in this thread are not visible otherwise
            load.problem = GeolakeError(without_secrets(f"{type(problem).__name__}: {problem}"))
        with self._lock:
            if load is not self._load:
                load.problem = load.problem or JobError("the window of the map has changed")
            elif load.cancelled.is_set():
                load.problem = None
                self._publish("cancelled")
            elif load.problem is not None:
                self._publish("failed", text=str(load.problem))
            else:
                load.rows = loaded
                metrics, seconds = load.query.scan.metrics, time.monotonic() - start
                self.speed.learn(metrics.bytes, metrics.files, seconds)
                self.shown.set_trait("row_shapes", shapes)
                self.shown.set_trait("row_page", page)
                read = {"rows": rows.num_rows, "bytes": metrics.bytes, "seconds": seconds}
                self._publish("loaded", **read, text="; ".join(_notes(loaded, metrics.unreadable)))
        load.done.set()

    def _progress(self, load: _Load) -> Callable[[int, int], None]:
        last = time.monotonic()

        def report(done: int, total: int) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= _PAUSE:
                last = now
                with self._lock:
                    if load is self._load:
                        self._publish("loading", done=done, total=total)

        return report

    def _publish(self, state: str, **more: Any) -> None:
        self.shown.set_trait("row_status", {"state": state, "estimate": self._estimate, **more})


def unreadable_notes(unreadable: Mapping[str, int]) -> list[str]:
    """What was left out because its geometry cannot be read.

    >>> unreadable_notes({"geom": 2})
    ['2 values of geom cannot be read as geometries and were left out']
    """
    return [
        f"{plural(count, 'value')} of {printable(name, 60)} cannot be read as geometries and were left out"
        for name, count in unreadable.items()
    ]


def _notes(loaded: LoadedRows, unreadable: Mapping[str, int]) -> list[str]:
    notes = unreadable_notes(unreadable)
    lost = int(np.count_nonzero(np.isnan(loaded.shapes.bounds[:, 0])))
    return [*notes, f"{plural(lost, 'row')} cannot be placed on the map"] if lost else notes


def cell(value: Any, *, is_wkb: bool = False) -> str | int | float | None:
    r"""A value as a table shows it: a number, a short text, or `None`.

    >>> cell(2**60), cell(float("nan")), cell(True), cell(b"\x00\xff"), cell("a" * 300)[-5:]
    ('1152921504606846976', 'NaN', 'true', '2 bytes: 00ff', 'aa...')
    """
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and _is_plain(value)):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if isinstance(value, bytes):
        return (
            _wkt(value)
            if is_wkb
            else f"{plural(len(value), 'byte')}: {value[:16].hex()}{'...' if len(value) > 16 else ''}"
        )
    return printable(str(value), _MAX_TEXT)


def _is_plain(value: float) -> bool:
    return math.isfinite(value) and (isinstance(value, float) or abs(value) <= _EXACT_IN_BROWSER)


def _wkt(value: bytes) -> str:
    """The start of a geometry as text."""
    import shapely

    try:
        with np.errstate(invalid="ignore"):
            shape = shapely.from_wkb(value, on_invalid="ignore")
    except NotImplementedError:
        shape = None
    if shape is None:
        return f"{plural(len(value), 'byte')}: not readable"
    points = int(shapely.get_num_coordinates(shape))
    if points > 50:
        return f"{shape.geom_type}, {points:,} points"
    return printable(shapely.to_wkt(shape, rounding_precision=7), _MAX_TEXT)


def _window(value: object) -> tuple[float, ...] | None:
    """Four numbers of the browser."""
    if not isinstance(value, list) or len(value) != 4:
        return None
    numbers = [side for side in value if isinstance(side, int | float) and math.isfinite(side)]
    return tuple(numbers) if len(numbers) == 4 and numbers[1] <= numbers[3] else None


def _whole(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default
