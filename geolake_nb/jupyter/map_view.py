"""The live map of a table: a window is explained by Python, a selection is a table, a slider moves over versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from geolake_nb.errors import GeolakeError
from geolake_nb.expressions.filter_input import is_area, read_filter
from geolake_nb.jupyter.export import written_file
from geolake_nb.jupyter.html import visible
from geolake_nb.jupyter.map_files import IN_BROWSER, READ, FilePages, chosen_color, color_columns
from geolake_nb.jupyter.map_layers import place_boxes
from geolake_nb.jupyter.map_rows import MapRows, RowQuery
from geolake_nb.jupyter.map_step import MapStep
from geolake_nb.jupyter.map_traits import MAX_NAMES, map_traits, page_traits
from geolake_nb.jupyter.map_verdict import ReadSpeed, file_marks, reason_texts, rows_estimate, verdict_of
from geolake_nb.jupyter.map_widget import MapWidget, map_page, pack_columns, pack_float64, pack_uint32, side_by_side
from geolake_nb.model.crs import CRS84
from geolake_nb.model.snapshot import Snapshot
from geolake_nb.model.types import RasterType
from geolake_nb.scan.coverage import geo_type_of, mapped_column
from geolake_nb.text.messages import plural

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import geopandas as gpd
    import numpy.typing as npt
    import pyarrow as pa

    from geolake_nb.api.table import Table
    from geolake_nb.expressions.filter_input import FilterInput
    from geolake_nb.expressions.predicate import Predicate
    from geolake_nb.jupyter.map_layers import PlacedBoxes
    from geolake_nb.model.crs import Crs, CrsLike
    from geolake_nb.scan.explanation import Explanation

__all__ = ["GeolakeMap"]

_KEPT_VERSIONS = 8
_MAX_FOOTERS = 1000
_FEW_RASTERS = 100
"""Up to so many files the outlines of rasters are read when the map is made; else by `show_footprints`."""


class GeolakeMap(MapWidget):
    """The files of a table on a map. `window`, `verdict` and `selected` follow what is drawn in the browser.

    Example:
        >>> m = t.map()
        >>> m.window = [5, 45, 12, 52]  # as if drawn in the browser
        >>> m.verdict["files_read"], m.explanation.total.files
        (3, 3)
    """

    def __init__(
        self,
        table: Table | Snapshot,
        *,
        column: str | None = None,
        color: str = "rows",
        where: FilterInput | None = None,
        box_crs: str | Crs | CrsLike | None = None,
        versions: bool = False,
        height: int = 420,
        title: str | None = None,
    ) -> None:
        self._table: Table | None = None
        if isinstance(table, Snapshot):
            self.snapshot = table
        else:
            self._table, self.snapshot = table, table.snapshot
        self.column = mapped_column(self.snapshot, column)
        """The geo column that is drawn and queried by a window."""
        self._color, self._title = color, title
        self._where: Predicate | None = None
        self._known: dict[int, Table] = {}
        self._ids: dict[int, int] = {}
        self.explanation: Explanation | None = None
        """What the window and the filter read; `None` without either."""
        self.window_crs = _window_crs(self.snapshot, self.column)
        super().__init__(height=height, title=self._heading(), **self._load())
        if versions:
            self._offer_versions()
        self._rows: MapRows | None = None
        if self._table is not None and not isinstance(geo_type_of(self.snapshot, self.column), RasterType):
            is_local = "://" not in self.snapshot.location
            self._rows = MapRows(self, self._row_query, ReadSpeed(is_local=is_local))
            self._rows.reset(None)
            self.on_msg(lambda _, content, __: self._loaded_rows().receive(content))
            self.observe(lambda _: self._loaded_rows().turn_page(self.row_page_request), names="row_page_request")
            self.observe(self._stop_read, names="comm")
        self.observe(self._explain_window, names="window")
        self.observe(self._page_requested, names="page_request")
        self.observe(self._page_requested, names="selected_items")
        self.observe(self._move_to_version, names="version")
        self.on_describe(self._describe)
        self._draw_few_rasters()
        self._step: MapStep | None = None
        if self._table is not None and not versions:
            self._step = MapStep(self, self.column, lambda: self._open_table("files"), self.refresh)
            self._step.offer()
            self.on_msg(self._clicked)
        if where is not None:
            self.explain(where, box_crs=box_crs)

    def __repr__(self) -> str:
        return f"GeolakeMap({self.title!r}, {plural(self.item_count, 'file')})"

    @property
    def selected(self) -> pa.Table:
        """The selected files, as rows of the file table."""
        return self.snapshot.files.table.take(np.asarray(self.selected_ids, np.int64))

    def select(self, files: Sequence[int] | npt.NDArray[np.int64]) -> None:
        """Select files, as a click or a lasso does.

        Args:
            files: rows of the file table.

        Raises:
            GeolakeError: a row that the file table does not have.

        Example:
            >>> m = t.map()
            >>> m.select([0, 2])
            >>> m.selected["path"].to_pylist()
            ['part-0.parquet', 'part-2.parquet']
        """
        chosen = np.unique(np.asarray(files, np.int64))
        if len(chosen) and not 0 <= chosen[0] <= chosen[-1] < len(self.snapshot.files):
            raise GeolakeError(f"the map has the files 0 to {len(self.snapshot.files) - 1:,}")
        self.selected_items = pack_uint32(chosen)

    def explain(self, where: FilterInput | None, *, box_crs: str | Crs | CrsLike | None = None) -> Explanation | None:
        """Mark what a filter reads; a window narrows it further.

        Args:
            where: a filter or an area, as in `Table.explain`; `None` removes the filter.
            box_crs: the CRS of an area that has none of its own; by default the CRS of the column.

        Returns:
            What the filter and the window read; `None` without either.

        Raises:
            PredicateError: a filter that cannot be read; the marks stay as they were.

        Example:
            >>> m = t.map()
            >>> m.explain("id < 3").read.files
            3
            >>> m.explain(None) is None
            True
        """
        predicate: Predicate | None = None
        if where is not None:
            column = self.column if is_area(where) else None
            predicate = read_filter(where, self.snapshot.schema, column=column, box_crs=box_crs)
        # Checked first: an invalid filter must not break later windows.
        if predicate is not None:
            self._explain(predicate)
        self._where = predicate
        self._update_marks()
        self._draw_filter()
        return self.explanation

    def rows(self) -> gpd.GeoDataFrame:
        """The rows in the window, as the button of the map loads them; they are drawn on the map too.

        Every row is tested against the window and the filter, as `Table.scan` does. A read that has begun on the map is
        waited for; after it, the rows are kept until the window, the filter or the version is another one.

        Returns:
            A GeoDataFrame with the CRS of the column that the map draws.

        Raises:
            GeolakeError: no window is drawn, or the map is that of a preview or of rasters.
            JobError: the read was cancelled on the map.
            MissingDependencyError: geopandas is not installed.

        Example:
            >>> m = t.map()
            >>> m.window = [5, 45, 12, 52]
            >>> frame = m.rows()
            >>> len(frame), frame.crs.to_string()
            (3, 'OGC:CRS84')
        """
        self._open_table("rows")
        return self._loaded_rows().rows().to_geopandas()

    def refresh(self) -> None:
        """Show the newest version of the table, with the same window, filter and colour; the table moves to it.

        Raises:
            GeolakeError: the map is that of a preview, or the newest version does not have the column.

        Example:
            >>> m = t.map()
            >>> report = t.plan_repair().apply()
            >>> m.refresh()
            >>> m.snapshot.version, m.title
            (2, 'roads: geom, version 2')
        """
        self._show_table(self._open_table("newer version").refresh())
        if self._step is not None:
            self._step.offer()

    def show_row_groups(self) -> None:
        """Draw the boxes of the row groups in the selected files, or in all where none is selected: reads footers.

        Raises:
            GeolakeError: no file or too many files are selected, or the map is that of a preview.

        Example:
            >>> m = t.map()
            >>> m.show_row_groups()
            >>> [overlay["name"] for overlay in m.overlays]
            ['row groups (3 of 3 have bounds)']
        """
        from geolake_nb.jupyter.map_overlays import row_group_overlay

        chosen = self._chosen_files()
        self._put_overlay(*row_group_overlay(self._open_table("row groups"), self.column, chosen))

    def show_geometries(self, path: str, limit: int = 1000) -> None:
        """Draw geometries of one file, spread over its rows: reads its geo column.

        Args:
            path: a data file, as the file table names it.
            limit: how many geometries to draw at most.

        Raises:
            GeolakeError: the table does not have the file, or the map is that of a preview.

        Example:
            >>> m = t.map()
            >>> m.show_geometries("part-0.parquet")
            >>> [overlay["kind"] for overlay in m.overlays]
            ['points']
        """
        from geolake_nb.jupyter.map_overlays import geometry_overlays

        table = self._open_table("geometries")
        for overlay, data in geometry_overlays(table, self.column, path, limit):
            self._put_overlay(overlay, data)

    def show_footprints(self) -> None:
        """Draw the true outlines of rasters in place of the stored bounds: reads the metadata columns of the files.

        Raises:
            GeolakeError: the column has no rasters, or the map is that of a preview.

        Example:
            >>> m = gl.open("scenes").map()
            >>> m.show_footprints()
            >>> len(m.ring_items) // 4  # outlines
            3
        """
        from geolake_nb.jupyter.map_overlays import raster_layers

        if not isinstance(geo_type_of(self.snapshot, self.column), RasterType):
            raise GeolakeError(f"expected a raster column, got {self.column}", where=self.snapshot.location)
        rings, boxes, overlay, data = raster_layers(self._open_table("rasters"), self.column, self._placed)
        with self.hold_sync():
            self.set_trait("boxes", pack_float64(boxes))
            for name, value in rings.items():
                self.set_trait(name, value)
        self._put_overlay(overlay, data)

    def beside(self, other: GeolakeMap) -> Any:
        """Both maps in one row: they move together, and a window in one applies to the other too.

        Args:
            other: the map of another table, or of another version.

        Returns:
            A widget with both maps.

        Example:
            >>> pair = t.at(0).map().beside(t.map())
            >>> [view.title for view in pair.children]
            ['roads: geom, version 0', 'roads: geom, version 1']
        """
        import ipywidgets

        if other.window is None:
            other.window = self.window
        ipywidgets.link((other, "window"), (self, "window"))
        return side_by_side(self, other)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the map as one HTML file that needs neither a kernel nor a network.

        Args:
            path: the file to write.

        Returns:
            The path of the file.

        Example:
            >>> t.map().to_html("map.html").name
            'map.html'
        """
        with written_file(path, self.snapshot) as target:
            target.write_text(map_page(page_traits(self), title=self.title), encoding="utf-8")
        return target

    def _heading(self) -> str:
        if self._title is not None:
            return self._title
        name = self.snapshot.location.rstrip("/").rpartition("/")[2]
        # The id of an Iceberg snapshot is not informative.
        version = f", version {self.snapshot.version}" if self.snapshot.format.counts_versions else ""
        return f"{visible(name)}: {visible(self.column)}{version}"

    def _load(self) -> dict[str, Any]:
        """The traits that depend on the files of the snapshot."""
        files = self.snapshot.files
        self._placed: PlacedBoxes = place_boxes(files.boxes(self.column), geo_type_of(self.snapshot, self.column))
        added = None
        if self._color == "version" and self._table is not None:
            added = self._table.added_versions()
        columns = color_columns(files, self._placed, added=added)
        chosen_color(columns, self._color)
        self._pages = FilePages(files, self._placed, columns, f"{self.column}.problem")
        names = files.table["path"].to_pylist() if len(files) <= MAX_NAMES else []
        traits = map_traits(self._placed) | {
            "columns": [column.to_dict() for column in columns],
            "column_data": pack_columns([column.values for column in columns]),
            "color_by": self._color,
            "names": names,
        }
        self._reasons: pa.Array | None = None
        return traits | {"page": self._pages.page({}, np.empty(0, np.uint32))}

    def _explain_window(self, _: object) -> None:
        self._update_marks()
        if self._step is not None:
            self._step.look_again()

    def _update_marks(self) -> None:
        """Mark the files by the window and the filter."""
        try:
            predicate = self._current_filter()
            explanation = None if predicate is None else self._explain(predicate)
        except GeolakeError as problem:
            self.explanation, self._reasons = None, None
            with self.hold_sync():
                self.marks, self.mark_reasons, self.verdict = b"", [], self._of_window({"text": str(problem)})
                self._offer_rows(None)
            return
        self.explanation = explanation
        with self.hold_sync():
            if explanation is None:
                self.marks, self.mark_reasons, self.verdict, self._reasons = b"", [], {}, None
            else:
                self.marks, self.mark_reasons = file_marks(explanation)
                self.verdict, self._reasons = self._of_window(verdict_of(explanation)), reason_texts(explanation)
            self._page_requested(None)
            self._offer_rows(explanation)

    def _offer_rows(self, explanation: Explanation | None) -> None:
        """Tell what loading the rows in the window takes; rows of another window are forgotten."""
        if self._rows is None:
            return
        estimate = None
        if explanation is not None and self.window is not None:
            estimate = rows_estimate(explanation, self._placed.boxes, self.window, self._rows.speed)
            if self._where is not None:
                estimate["rows"] = None  # how many the filter keeps cannot be guessed
        self._rows.reset(estimate)

    def _loaded_rows(self) -> MapRows:
        if self._rows is None:
            raise GeolakeError("a map of rasters has no rows to draw", remedy="use t.scan(m.window) or t.rasters()")
        return self._rows

    def _stop_read(self, change: Mapping[str, Any]) -> None:
        """Nobody can see, or cancel, what a closed map reads."""
        if change["new"] is None:
            self._loaded_rows().stop()

    def _row_query(self) -> RowQuery:
        """What is read when the rows are loaded now."""
        table, where = self._open_table("rows"), self._current_filter()
        if self.window is None or where is None:
            raise GeolakeError(
                "no window is drawn", remedy="draw one on the map, or set m.window = [west, south, east, north]"
            )
        type_ = geo_type_of(self.snapshot, self.column)
        assert not isinstance(type_, RasterType)
        return RowQuery(table.scan(where, on_error="ignore"), self.column, type_)

    def _of_window(self, verdict: dict[str, Any]) -> dict[str, Any]:
        """The verdict with its window: an equal verdict of another window has to reach the browser too."""
        return verdict if self.window is None else {**verdict, "window": self.window}

    def _current_filter(self) -> Predicate | None:
        window = self.window
        if window is None:
            return self._where
        here = read_filter(window, self.snapshot.schema, column=self.column)
        return here if self._where is None else here & self._where

    def _explain(self, predicate: Predicate) -> Explanation:
        if self._table is not None:
            return self._table.explain(predicate)
        from geolake_nb.scan.explain import explain
        from geolake_nb.spark.collations import collator_of

        return explain(self.snapshot, predicate, collator=collator_of(None))

    def _page_requested(self, _: object) -> None:
        self.page = self._pages.page(self.page_request, self.selected_ids, self._reasons)

    def _describe(self, item: int) -> list[tuple[str, str]]:
        return self._pages.fields(item)

    def _offer_versions(self) -> None:
        """Fill the slider; the ids of Iceberg's snapshots are too large for a browser, so they are counted."""
        table = self._open_table("versions")
        history = [entry.version for entry in reversed(table.history())]
        counted = not self.snapshot.format.counts_versions
        self._ids = {number if counted else version: version for number, version in enumerate(history, start=1)}
        here = next((shown for shown, version in self._ids.items() if version == self.snapshot.version), None)
        if here is not None:
            self._known[here] = table
            with self.hold_sync():
                self.versions, self.version = list(self._ids), here

    def _move_to_version(self, change: Mapping[str, Any]) -> None:
        shown = change["new"]
        if shown not in self._ids or self._table is None:
            return
        try:
            table = self._known.get(shown) or self._table.at(self._ids[shown])
            self._show_table(table)
        except GeolakeError as problem:
            self.notes = {**self.notes, "problems": [[str(problem), 1]]}
            return
        self._known = dict([*self._known.items()][-_KEPT_VERSIONS + 1 :]) | {shown: table}

    def _show_table(self, table: Table) -> None:
        """Show another version; the map stays as it is where that fails."""
        before = self._table, self.snapshot
        color, paths = self.color_by, self.selected["path"]
        try:
            self._table, self.snapshot = table, table.snapshot
            mapped_column(self.snapshot, self.column)
            traits = self._load()
        except GeolakeError:
            self._table, self.snapshot = before
            raise
        here = pc.index_in(paths, value_set=self.snapshot.files.table["path"].combine_chunks()).drop_null()
        if color in {"", IN_BROWSER, READ, *(column["key"] for column in traits["columns"])}:
            traits["color_by"] = color
        with self.hold_sync():
            # Ids and marks are those of the old files; a file that both versions have stays selected.
            self.selected_items = pack_uint32(np.sort(here.to_numpy()))
            self.marks, self.mark_reasons = b"", []
            self.overlays, self.overlay_data = [], []
            self.title = self._heading()
            for name, value in traits.items():
                self.set_trait(name, value)
            self._update_marks()
        self._draw_few_rasters()
        self._draw_filter()

    def _clicked(self, _: object, content: Any, __: object) -> None:
        if self._step is not None:
            self._step.receive(content)

    def _draw_few_rasters(self) -> None:
        """Show the outlines of rasters at once where few files have to be read for them."""
        is_raster = isinstance(geo_type_of(self.snapshot, self.column), RasterType)
        if not is_raster or self._table is None or len(self.snapshot.files) > _FEW_RASTERS:
            return
        try:
            self.show_footprints()
        except GeolakeError as problem:
            # The stored bounds can be drawn without reading a data file.
            self.notes = {**self.notes, "problems": [*self.notes["problems"], [f"no outlines: {problem}", 1]]}

    def _chosen_files(self) -> list[int]:
        count = len(self.snapshot.files)
        chosen = self.selected_ids.tolist() or (list(range(count)) if count <= _MAX_FOOTERS else [])
        if not chosen:
            raise GeolakeError("no file is selected", remedy="click one, or call m.select([0, 1])")
        if len(chosen) > _MAX_FOOTERS:
            raise GeolakeError(f"{len(chosen):,} files are selected", remedy=f"select at most {_MAX_FOOTERS:,}")
        return chosen

    def _open_table(self, what: str) -> Table:
        if self._table is None:
            raise GeolakeError(f"a preview or an explanation has no {what} to read", remedy="use the map of t.map()")
        return self._table

    def _draw_filter(self) -> None:
        """Draw the shapes of the filter, instead of those of the last one."""
        from geolake_nb.jupyter.map_overlays import FILTER, filter_overlays

        predicate = self._where if self.explanation is not None else None
        drawn = [] if predicate is None else filter_overlays(self.snapshot, self.column, predicate)
        layers = zip(self.overlays, self.overlay_data, strict=True)
        both = [*(pair for pair in layers if not pair[0]["name"].startswith(FILTER)), *drawn]
        with self.hold_sync():
            self.overlays, self.overlay_data = [layer for layer, _ in both], [data for _, data in both]

    def _put_overlay(self, overlay: dict[str, Any], data: bytes) -> None:
        """Add a layer, replacing one of the same name."""
        kept = [index for index, layer in enumerate(self.overlays) if layer["name"] != overlay["name"]]
        layers = [self.overlays[index] for index in kept]
        kept_data = [self.overlay_data[index] for index in kept]
        with self.hold_sync():
            self.overlays, self.overlay_data = [*layers, overlay], [*kept_data, data]


def _window_crs(snapshot: Snapshot, column: str) -> str | None:
    """The CRS of a window, `None` where it is that of the column: an unknown one is shown by its coordinates."""
    type_ = geo_type_of(snapshot, column)
    as_shown = isinstance(type_, RasterType) or type_.crs.is_unknown or type_.crs.same_as(CRS84)
    return None if as_shown else CRS84.text
