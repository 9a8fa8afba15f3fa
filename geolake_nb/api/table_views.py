"""Maps, editors and exports of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from pathlib import Path

    import folium
    from pyspark.sql import SparkSession

    from geolake_nb.api.rasters import Roots
    from geolake_nb.api.table import Table
    from geolake_nb.expressions.filter_input import FilterInput
    from geolake_nb.jupyter.collation_editor import CollationEditor
    from geolake_nb.jupyter.map_view import GeolakeMap
    from geolake_nb.jupyter.raster_browser import RasterBrowser, Thumbnail
    from geolake_nb.jupyter.rewrite_dialog import RewriteDialog
    from geolake_nb.model.crs import Crs, CrsLike

    Progress = Callable[[int, int], None]

__all__ = ["TableViews"]


class TableViews:
    """The part of a table that opens maps and editors and writes files to share; loaded on first use."""

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
        """The files on a map that works offline: draw a window, and see what a query reads.

        `color` is one of `age, bytes, overlap, partition, rows, version`; `versions` adds a slider over them. `where`
        and `box_crs` are those of `explain`.
        `title` replaces the table's name above the map.
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

    def edit_collations(self, *, spark: SparkSession | None = None) -> CollationEditor:
        """An editor for the collations of strings, nested ones included: it plans changes and applies them.

        `spark` is the session that lists the collations and runs the plan.
        """
        from geolake_nb.jupyter.collation_editor import CollationEditor

        return CollationEditor(self._this, spark=spark)

    def edit_rewrite(self, *, spark: SparkSession | None = None) -> RewriteDialog:
        """A dialog for a rewrite: columns, curve and sizes, a preview on two maps, and the plan."""
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

        `thumbnail` makes a PNG of a raster, or returns `None`; by default that is
        `gl.rasters.thumbnails`, which opens the files that rasters point to only below `roots`.
        """
        from geolake_nb.api.rasters import thumbnails
        from geolake_nb.jupyter.raster_browser import RasterBrowser

        maker = thumbnails(self._this, roots=roots) if thumbnail is None else thumbnail
        return RasterBrowser(self._this, thumbnail=maker, on_progress=on_progress)

    def to_folium(self, *, column: str | None = None) -> folium.Map:
        """The bounds of the files as a folium map that works offline; for at most 10,000 files."""
        from geolake_nb.jupyter.to_folium import to_folium

        with self._this._with_wkb_hint():
            return to_folium(self._this.snapshot, column)

    def to_geojson(self, path: str | os.PathLike[str] | None = None, *, column: str | None = None) -> Any:
        """The bounds of the files as GeoJSON: an object, or a file where a path is given."""
        from geolake_nb.jupyter.export import to_geojson

        with self._this._with_wkb_hint():
            return to_geojson(self._this.snapshot, path, column)

    def to_geoparquet(self, path: str | os.PathLike[str], *, column: str | None = None) -> Path:
        """The bounds of the files as a GeoParquet 1.1 file."""
        from geolake_nb.jupyter.export import to_geoparquet

        with self._this._with_wkb_hint():
            return to_geoparquet(self._this.snapshot, path, column)

    def export(self, path: str | os.PathLike[str], *, column: str | None = None) -> Path:
        """Write a file to share, by its extension: .html (a map), .geojson, .json, .geoparquet or .parquet."""
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

        With `footers` the Parquet footers are checked too, as in `check`. `where` and `box_crs` are
        those of `explain`.
        """
        from geolake_nb.jupyter.report_page import write_report

        return write_report(
            self._this, path, where=where, box_crs=box_crs, column=column, footers=footers, on_progress=on_progress
        )
