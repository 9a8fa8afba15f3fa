"""Maps, editors, exports and comparisons of a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from pathlib import Path

    import folium
    from pyspark.sql import SparkSession

    from geolake_nb.api.engine_comparison import EngineComparison
    from geolake_nb.api.maintenance import Queries
    from geolake_nb.api.rasters import Roots
    from geolake_nb.api.table import Table
    from geolake_nb.expressions.filter_input import FilterInput
    from geolake_nb.jupyter.collation_editor import CollationEditor
    from geolake_nb.jupyter.map_view import GeolakeMap
    from geolake_nb.jupyter.raster_browser import RasterBrowser, Thumbnail
    from geolake_nb.jupyter.rewrite_dialog import RewriteDialog
    from geolake_nb.model.crs import Crs, CrsLike
    from geolake_nb.scan.layout import Layout
    from geolake_nb.text.messages import Progress

__all__ = ["TableViews"]


class TableViews:
    """The part of a table that opens maps and editors, writes files to share and asks other engines."""

    @property
    def _this(self) -> Table:
        return cast("Table", self)

    def map(
        self,
        *,
        column: str | None = None,
        color: str = "rows",
        where: FilterInput | None = None,
        box_crs: str | Crs | CrsLike | None = None,
        versions: bool = False,
        height: int = 420,
        title: str | None = None,
    ) -> GeolakeMap:
        """The files on a map that works offline: draw a window, see what a query reads, and load its rows.

        Args:
            column: the geo column; it may be left out where there is one.
            color: what colours the files: `age`, `bytes`, `overlap`, `partition`, `read` (or skipped), `rows`
                or `version`.
            where: a filter to explain at once, as in `explain`.
            box_crs: the CRS of an area that has none of its own, as in `explain`.
            versions: add a slider over the versions of the table.
            height: the height of the map in pixels.
            title: the text above the map; by default the name of the table.

        Returns:
            A map: a widget in a notebook, whose `window` and `selected` follow what is drawn.

        Raises:
            NoGeoColumnError: the table has no geo column, or the column is not one.
            PredicateError: a filter that cannot be read.

        Example:
            >>> m = t.map(color="bytes", where=(5, 45, 12, 52))
            >>> m
            GeolakeMap('roads: geom, version 1', 3 files)
            >>> m.explanation.read.files
            3
        """
        from geolake_nb.jupyter.map_view import GeolakeMap

        with self._this._with_wkb_hint():
            return GeolakeMap(
                self._this,
                column=column,
                color=color,
                where=where,
                box_crs=box_crs,
                versions=versions,
                height=height,
                title=title,
            )

    def compare_engines(
        self,
        where: FilterInput | None = None,
        *,
        column: str | None = None,
        box_crs: str | Crs | CrsLike | None = None,
        engines: Sequence[str] | None = None,
        spark: SparkSession | None = None,
        on_progress: Progress | None = None,
    ) -> EngineComparison:
        """The same query in every engine that is installed and can open the table, and whether the answers agree.

        All rows are read and tested by shapely first, without any statistics. Then each engine is asked with its
        skipping and, where that can be switched off, without; what an engine cannot express is tested on the rows that
        it returns. An engine that loses rows is named. The time is that until the engine has
        returned its rows, of short runs the faster of two.

        Args:
            where: what `scan` takes; `None` for all rows.
            column: the geo column of an area, if there are several.
            box_crs: the CRS of an area that has none of its own; by default the CRS of the column.
            engines: some of `geolake`, `sedonadb`, `duckdb`, `deltalake`, `pyiceberg`, `geopandas` and `spark`; by
                default all that know the format.
            spark: the session for Spark's own reader; by default the running one. None is started.
            on_progress: called with the number of engines that are done and that of all.

        Returns:
            An `EngineComparison`: it prints as a table, and has `runs`, `verdicts`, `agree` and `to_pandas()`.

        Raises:
            PredicateError: a filter that cannot be read, or that names a column which the table does not have.
            GeolakeError: an unknown engine.

        Example:
            >>> answer = t.compare_engines((5, 45, 12, 52), engines=["geolake", "duckdb"])
            >>> answer.rows, answer.agree
            (3, True)
            >>> print(answer.verdicts[0])
            geolake ... returns the 3 rows of the full read.
        """
        from geolake_nb.api.engine_runs import compare_engines

        return compare_engines(
            self._this,
            where,
            column=column,
            box_crs=box_crs,
            engines=engines,
            spark=spark,
            on_progress=on_progress,
        )

    def layout(
        self,
        queries: Queries | None = None,
        *,
        column: str | None = None,
        target_file_size: int | str = "128MB",
        versions: int = 0,
        sample: bool = False,
    ) -> Layout:
        """How much of the table a query reads, next to the best that clustering it anew would reach.

        Queries are windows of several sizes where the rows are, by the boxes of the files; only metadata is read.

        Args:
            queries: your own queries instead: a list of what `explain` takes, or the path of a file with one per line.
            column: the geo column to cluster by; by default the first with one value per row.
            target_file_size: the size of the files of the best layout, as bytes or as text such as `128MB`.
            versions: also measure so many versions, this one and those before it.
            sample: read some geometries, so that windows are drawn where rows are in their files, and the best layout
                takes into account how large they are.

        Returns:
            The score; in a notebook with a plot over the versions.

        Raises:
            NoGeoColumnError: the table has no geo column with one value per row, or `column` is not one.
            PredicateError: a query that cannot be read.

        Example:
            >>> repaired = gl.open(t.plan_repair().apply().location)
            >>> layout = repaired.layout([(5, 45, 12, 52)])
            >>> round(layout.share, 2)
            0.33
        """
        from geolake_nb.api.maintenance import table_layout

        layout = table_layout(
            self._this,
            queries,
            column=column,
            target_file_size=target_file_size,
            versions=versions,
            sample=sample,
        )
        return replace(layout, origin=self)

    def edit_collations(self, *, spark: SparkSession | None = None) -> CollationEditor:
        """An editor for the collations of strings, nested ones included: it plans changes and applies them.

        Args:
            spark: the session that lists the collations and runs the plan; by default the running one.

        Returns:
            A widget.

        Raises:
            RefusedError: the table is not a Delta table.

        Example:
            >>> gl.open("places").edit_collations()
            CollationEditor('/.../places', 1 strings, 0 edits)
        """
        from geolake_nb.jupyter.collation_editor import CollationEditor

        return CollationEditor(self._this, spark=spark)

    def edit_rewrite(self, *, spark: SparkSession | None = None) -> RewriteDialog:
        """A dialog for a rewrite: columns, curve and sizes, a preview on two maps, and the plan.

        Args:
            spark: the session that runs the preview and the plan; by default the running one.

        Returns:
            A widget.

        Example:
            >>> t.edit_rewrite()
            RewriteDialog('/.../roads', by geom along hilbert)
        """
        from geolake_nb.jupyter.rewrite_dialog import RewriteDialog

        return RewriteDialog(self._this, spark=spark)

    def browse_rasters(
        self,
        *,
        thumbnail: Thumbnail | None = None,
        roots: Roots = (),
        on_progress: Progress | None = None,
    ) -> RasterBrowser:
        """The rasters as a list with their bands and thumbnails, next to a map of their outlines.

        Args:
            thumbnail: a function that makes a PNG of a raster, or returns `None`; by default `gl.rasters.thumbnails`.
            roots: the only locations where files that rasters point to are opened; none by default.
            on_progress: called with the number of files that are done and that of all.

        Returns:
            A widget.

        Raises:
            GeolakeError: the table has no raster column.

        Example:
            >>> gl.open("scenes").browse_rasters()
            RasterBrowser('/.../scenes', 3 rasters)
        """
        from geolake_nb.api.rasters import thumbnails
        from geolake_nb.jupyter.raster_browser import RasterBrowser

        maker = thumbnails(self._this, roots=roots) if thumbnail is None else thumbnail
        return RasterBrowser(self._this, thumbnail=maker, on_progress=on_progress)

    def to_folium(self, *, column: str | None = None) -> folium.Map:
        """The bounds of the files as a folium map that works offline; for at most 10,000 files.

        Args:
            column: the geo column; it may be left out where there is one.

        Returns:
            A `folium.Map`.

        Raises:
            NoGeoColumnError: the table has no geo column, or the column is not one.

        Example:
            >>> t.to_folium()
            <folium.folium.Map object at 0x...>
        """
        from geolake_nb.jupyter.export import to_folium

        with self._this._with_wkb_hint():
            return to_folium(self._this.snapshot, column)

    def to_geojson(self, path: str | os.PathLike[str] | None = None, *, column: str | None = None) -> Any:
        """The bounds of the files as GeoJSON.

        Args:
            path: the file to write; without one the object is returned.
            column: the geo column; it may be left out where there is one.

        Returns:
            A FeatureCollection with a feature for each file, or the path of the file that was written.

        Raises:
            NoGeoColumnError: the table has no geo column, or the column is not one.

        Example:
            >>> features = gl.open("parcels").to_geojson()["features"]
            >>> len(features), features[0]["properties"]["rows"]
            (3, 4)
        """
        from geolake_nb.jupyter.export import to_geojson

        with self._this._with_wkb_hint():
            return to_geojson(self._this.snapshot, path, column)

    def to_geoparquet(self, path: str | os.PathLike[str], *, column: str | None = None) -> Path:
        """The bounds of the files as a GeoParquet 1.1 file.

        Args:
            path: the file to write.
            column: the geo column; it may be left out where there is one.

        Returns:
            The path of the file.

        Raises:
            NoGeoColumnError: the table has no geo column, or the column is not one.

        Example:
            >>> t.to_geoparquet("bounds.parquet").name
            'bounds.parquet'
        """
        from geolake_nb.jupyter.export import to_geoparquet

        with self._this._with_wkb_hint():
            return to_geoparquet(self._this.snapshot, path, column)

    def export(self, path: str | os.PathLike[str], *, column: str | None = None) -> Path:
        """Write a file to share, by its extension: .html (a map), .geojson, .json, .geoparquet or .parquet.

        Args:
            path: the file to write.
            column: the geo column; it may be left out where there is one.

        Returns:
            The path of the file.

        Raises:
            GeolakeError: an extension that is not one of these.
            NoGeoColumnError: the table has no geo column, or the column is not one.

        Example:
            >>> t.export("roads.html").name
            'roads.html'
        """
        from geolake_nb.jupyter.export import export

        with self._this._with_wkb_hint():
            return export(self._this, path, column)

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        where: FilterInput | None = None,
        box_crs: str | Crs | CrsLike | None = None,
        column: str | None = None,
        footers: bool = False,
        on_progress: Progress | None = None,
    ) -> Path:
        """Write one HTML file that works offline: the card, the map, the findings, and what a filter reads.

        Args:
            path: the file to write.
            where: a filter to explain, as in `explain`.
            box_crs: the CRS of an area that has none of its own, as in `explain`.
            column: the geo column of the map; it may be left out where there is one.
            footers: check the Parquet footers too, as in `check`.
            on_progress: called with the number of files that are done and that of all.

        Returns:
            The path of the file.

        Raises:
            PredicateError: a filter that cannot be read.

        Example:
            >>> t.report("roads.html", where=(5, 45, 12, 52)).name
            'roads.html'
        """
        from geolake_nb.jupyter.report_page import write_report

        return write_report(
            self._this, path, where=where, box_crs=box_crs, column=column, footers=footers, on_progress=on_progress
        )
