"""How a table is looked at and edited in a notebook, and shared outside of one."""

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
    from geolake_nb.core.predicate import Predicate
    from geolake_nb.jupyter.collation_editor import CollationEditor
    from geolake_nb.jupyter.map_view import GeolakeMap
    from geolake_nb.jupyter.raster_browser import RasterBrowser, Thumbnail
    from geolake_nb.jupyter.rewrite_dialog import RewriteDialog

    Progress = Callable[[int, int], None]

__all__ = ["TableViews"]


class TableViews:
    """The part of a table that opens maps and editors and writes files to share; all of it is loaded when asked for."""

    @property
    def _this(self) -> Table:
        return cast("Table", self)

    def map(
        self,
        *,
        column: str | None = None,
        color: str = "rows",
        where: str | Predicate | None = None,
        versions: bool = False,
        height: int = 420,
        title: str | None = None,
    ) -> GeolakeMap:
        """The files on a map that needs no network: draw a window, and see what a query reads.

        `color` is one of `age, bytes, overlap, partition, rows, version`; `versions` adds a slider over them.
        `title` stands over the map in the place of the table's name.
        """
        from geolake_nb.jupyter.map_view import GeolakeMap

        return GeolakeMap(
            self._this, column=column, color=color, where=where, versions=versions, height=height, title=title
        )

    def edit_collations(self, *, spark: SparkSession | None = None) -> CollationEditor:
        """An editor for the collations of strings, nested ones included: it plans, and applies with your consent.

        `spark` says which collations there are, and is what a plan runs in.
        """
        from geolake_nb.jupyter.collation_editor import CollationEditor

        return CollationEditor(self._this, spark=spark)

    def edit_rewrite(self, *, spark: SparkSession | None = None) -> RewriteDialog:
        """A dialog for a rewrite: columns, curve and sizes, what it would change on two maps, and the plan."""
        from geolake_nb.jupyter.rewrite_dialog import RewriteDialog

        return RewriteDialog(self._this, spark=spark)

    def browse_rasters(
        self,
        *,
        thumbnail: Thumbnail | None = None,
        roots: Roots = (),
        on_progress: Progress | None = None,
    ) -> RasterBrowser:
        """The rasters as a list with their bands and pictures, beside a map of their outlines.

        `thumbnail` makes a PNG of a raster, or gives `None` for one that has no picture; by default that is
        `gl.rasters.thumbnails`, which opens the files that rasters point to only below `roots`.
        """
        from geolake_nb.api.rasters import thumbnails
        from geolake_nb.jupyter.raster_browser import RasterBrowser

        maker = thumbnails(self._this, roots=roots) if thumbnail is None else thumbnail
        return RasterBrowser(self._this, thumbnail=maker, on_progress=on_progress)

    def to_folium(self, *, column: str | None = None) -> folium.Map:
        """The boxes as a folium map that works offline; for at most 10,000 files."""
        from geolake_nb.jupyter.to_folium import to_folium

        return to_folium(self._this.snapshot, column)

    def to_geojson(self, path: str | os.PathLike[str] | None = None, *, column: str | None = None) -> Any:
        """The boxes as GeoJSON: an object, or a file where a path is given."""
        from geolake_nb.jupyter.export import to_geojson

        return to_geojson(self._this.snapshot, path, column)

    def to_geoparquet(self, path: str | os.PathLike[str], *, column: str | None = None) -> Path:
        """The boxes as a GeoParquet 1.1 file."""
        from geolake_nb.jupyter.export import to_geoparquet

        return to_geoparquet(self._this.snapshot, path, column)

    def export(self, path: str | os.PathLike[str], *, column: str | None = None) -> Path:
        """A file to share, whose ending tells what it is: .html (a map), .geojson, .json, .geoparquet or .parquet."""
        from geolake_nb.jupyter.export import export

        return export(self._this, path, column)

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        where: str | Predicate | None = None,
        column: str | None = None,
        footers: bool = False,
        on_progress: Progress | None = None,
    ) -> Path:
        """One HTML file that needs no network: the card, the map, what is wrong, and what a filter reads.

        With `footers` the findings stand on the Parquet footers too, as those of `check` do.
        """
        from geolake_nb.jupyter.report_page import write_report

        return write_report(self._this, path, where=where, column=column, footers=footers, on_progress=on_progress)
