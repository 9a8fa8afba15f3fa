"""An open table: its metadata, queries and checks."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from geolake_nb.api.opening import whole_number
from geolake_nb.api.table_plans import TablePlans
from geolake_nb.api.table_views import TableViews
from geolake_nb.errors import (
    GeolakeError,
    MissingDependencyError,
    MissingFileError,
    NoGeoColumnError,
    StorageError,
)
from geolake_nb.model.display import LiveDisplayable
from geolake_nb.model.snapshot import History
from geolake_nb.model.types import GeographyType, GeometryType, RasterType
from geolake_nb.text.messages import plural, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    import pandas as pd
    import pyarrow as pa
    from geopandas import GeoDataFrame
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from geolake_nb.api.scan import OnError, Scan
    from geolake_nb.checks.finding import Findings
    from geolake_nb.expressions.filter_input import FilterInput
    from geolake_nb.formats.base import TableSource
    from geolake_nb.formats.delta.collations import TableCollations
    from geolake_nb.model.crs import Crs, CrsLike
    from geolake_nb.model.file_table import FileTable
    from geolake_nb.model.schema import Schema
    from geolake_nb.model.snapshot import Protocol, Snapshot
    from geolake_nb.scan.diff import Diff
    from geolake_nb.scan.explanation import Explanation
    from geolake_nb.scan.next_step import NextStep
    from geolake_nb.scan.wkb_sample import WkbSample
    from geolake_nb.text.messages import Progress

__all__ = ["Table"]


class Table(TablePlans, TableViews, LiveDisplayable):
    """A table at one version, read from its metadata; methods that read data files say so.

    Example:
        >>> t = gl.open("roads")
        >>> t.version, len(t.files), t.files.geo_columns
        (1, 3, ('geom',))
    """

    def __init__(self, snapshot: Snapshot, source: TableSource) -> None:
        self.snapshot = snapshot
        self._source = source

    def __repr__(self) -> str:
        version = "" if self.version is None else f", version {self.version}"
        return f"Table({self.location!r}, {self.snapshot.format.name}{version})"

    def __str__(self) -> str:
        from geolake_nb.checks.table_card import table_card

        return table_card(self.snapshot, self.untyped_wkb.columns)

    @property
    def location(self) -> str:
        """The root of the table."""
        return self.snapshot.location

    @property
    def version(self) -> int | None:
        """The Delta version or the Iceberg snapshot id."""
        return self.snapshot.version

    @property
    def protocol(self) -> Protocol:
        """The required reader and writer features."""
        return self.snapshot.protocol

    @property
    def schema(self) -> Schema:
        """The columns, with geo types, CRS and collations."""
        return self.snapshot.schema

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's own properties."""
        return self.snapshot.properties

    @property
    def files(self) -> FileTable:
        """The live files with their bounds."""
        return self.snapshot.files

    def history(self, *, newest: int | None = None) -> History:
        """The versions of the table, newest first; of Parquet files, the changes that this package made.

        Args:
            newest: how many versions to read; all by default.

        Returns:
            A sequence of versions, each with its number, time and operation, that shows itself as a table.

        Example:
            >>> [(entry.version, entry.operation) for entry in t.history()]
            [(1, 'WRITE'), (0, 'WRITE')]
        """
        return History(self._format.history(self._source, self.snapshot, newest=newest))

    def at(self, version: int) -> Table:
        """The same table at another Delta version or Iceberg snapshot.

        Args:
            version: a Delta version or the id of an Iceberg snapshot, as `history` lists them.

        Returns:
            The table at that version; this one stays as it is.

        Raises:
            VersionError: the table does not have the version, or its log is gone.
            GeolakeError: Parquet files have no versions.

        Example:
            >>> len(t.at(0).files), len(t.files)
            (1, 3)
        """
        if not self._format.has_versions:
            raise GeolakeError(
                "Parquet files have no versions to open or to compare",
                where=self.location,
                remedy="geolake history lists their changes, and geolake undo reverts them",
            )
        number = whole_number("version", version)
        choice = None if number is None else self._format.at(number)
        return Table(self._source.snapshot(choice), self._source)

    def newest(self) -> Table:
        """The same table at its newest version.

        Returns:
            This table where no later version was committed, else the table opened again.

        Example:
            >>> report = t.plan_repair().apply()
            >>> t.version, t.newest().version
            (1, 2)
        """
        if not self._format.has_versions:
            return Table(self._source.snapshot(), self._source)
        entries = self.history(newest=1)
        return self if not entries or entries[0].version == self.version else self.at(entries[0].version)

    @property
    def newer_version(self) -> int | None:
        """The newest version where this table is at an earlier one, else `None`: looks at the log or the metadata."""
        if not self._format.has_versions:
            return None
        entries = self.history(newest=1)
        return None if not entries or entries[0].version == self.version else entries[0].version

    def refresh(self) -> Table:
        """Move this table to its newest version; `gl.open(..., follow=True)` does so before each call.

        Returns:
            This table.

        Example:
            >>> report = t.plan_repair().apply()
            >>> t.version, t.refresh().version, t.version
            (1, 2, 2)
        """
        self.snapshot = self.newest().snapshot
        self.__dict__.pop("untyped_wkb", None)
        return self

    @property
    def next_step(self) -> NextStep:
        """What to do next: a geo type, bounds or maintenance where they are missing, else a check."""
        from geolake_nb.checks.rules.untyped_wkb import typing_command
        from geolake_nb.scan.next_step import NextStep, table_step

        commands = (typing_command(self.snapshot, column) for column in self.untyped_wkb.columns)
        untyped = next((command for command in commands if command is not None), None)
        if untyped is not None:
            return NextStep.of_command(untyped)
        return table_step(self.snapshot) or NextStep.of("check", self.location)

    def diff(self, old: int, new: int | None = None) -> Diff:
        """What changed between two versions: files, schema, and how many files have bounds.

        Args:
            old: the version to start from.
            new: the version to compare with it; by default that of this table.

        Returns:
            The files that were added, removed and rewritten, and the changes of the schema and of the bounds.

        Raises:
            VersionError: the table does not have one of the versions.

        Example:
            >>> changes = t.diff(0, 1)
            >>> changes.added.num_rows, changes.removed.num_rows
            (2, 0)
        """
        from geolake_nb.scan.diff import diff

        later = self if new is None else self.at(new)
        return diff(self.at(old).snapshot, later.snapshot)

    def row_groups(self, *, files: Sequence[int] | None = None, on_progress: Progress | None = None) -> pa.Table:
        """The row groups of the data files with their bounds: reads the footers, in parallel.

        Args:
            files: the rows of the file table whose files are read; all by default.
            on_progress: called with the number of files that are done and that of all.

        Returns:
            An Arrow table with a row for each row group: path, rows, bytes, and the box of each geo column.

        Raises:
            GeolakeError: a row that the file table does not have.
            MissingFileError: a data file does not exist.

        Example:
            >>> groups = t.row_groups(files=[0])
            >>> groups.select(["path", "row_group", "rows", "geom.source"]).to_pylist()
            [{'path': 'part-0.parquet', 'row_group': 0, 'rows': 4, 'geom.source': '...'}]
        """
        from geolake_nb.scan.data_files import row_group_table

        remedy = f"files= takes rows of t.files, from 0 to {len(self.files) - 1}"
        for index in () if files is None else files:
            number = whole_number("file", index, remedy=remedy)
            if number is None or not 0 <= number < len(self.files):
                raise GeolakeError(f"no file {number}", where=self.location, remedy=remedy)
        return row_group_table(self._storage, self.snapshot, files=files, on_progress=on_progress)

    def geometries(self, path: str, *, column: str | None = None, limit: int = 1000) -> NDArray[np.object_]:
        """Geometries of one data file, spread over its rows: reads that column.

        Args:
            path: a data file, as the file table names it.
            column: the geo column; it may be left out where there is one.
            limit: how many geometries to return at most.

        Returns:
            An array of shapely geometries in the CRS of the column.

        Raises:
            GeolakeError: the table does not have the file.

        Example:
            >>> t.geometries("part-0.parquet", limit=1)
            array([<POINT (10 50)>], dtype=object)
        """
        from geolake_nb.scan.coverage import mapped_column
        from geolake_nb.scan.data_files import sample_shapes

        return sample_shapes(
            self._storage, self.snapshot, self._position(path), mapped_column(self.snapshot, column), limit
        )

    def added_versions(self) -> pa.Array | None:
        """The version that added each file: reads the commits of a Delta table.

        Returns:
            An Arrow array in the order of the file table, null where a version is not known; `None` for other formats.

        Example:
            >>> t.added_versions().to_pylist()
            [0, 1, 1]
        """
        return self._format.added_versions(self._storage, self.snapshot)

    def rasters(self, *, on_progress: Progress | None = None) -> pa.Table:
        """The rasters with their outlines: reads the metadata columns of the data files, never a pixel.

        Args:
            on_progress: called with the number of files that are done and that of all.

        Returns:
            An Arrow table with a row for each raster: file, column, size, bands, CRS, bounds and footprint in WGS 84.

        Raises:
            GeolakeError: the table has no raster column.

        Example:
            >>> rasters = gl.open("scenes").rasters()
            >>> rasters.num_rows, rasters["width"].to_pylist()
            (3, [4, 4, 4])
        """
        from geolake_nb.scan.data_files import raster_rows

        if not self._has(RasterType):
            raise GeolakeError(
                "the table has no raster column", where=self.location, remedy="only Havasu tables store rasters"
            )
        return raster_rows(self._storage, self.snapshot, on_progress=on_progress)

    def raster_bands(self, path: str, *, column: str | None = None) -> pa.Table:
        """The bands of the rasters in one data file: pixel types and where the pixels are stored; reads no pixels.

        Args:
            path: a data file, as the file table names it.
            column: the raster column; it may be left out where there is one.

        Returns:
            An Arrow table with a row for each band.

        Raises:
            GeolakeError: the table does not have the file, or the column has no rasters.

        Example:
            >>> scenes = gl.open("scenes")
            >>> first = scenes.files.table["path"][0].as_py()
            >>> scenes.raster_bands(first).select(["raster", "band", "in_db"]).to_pylist()
            [{'raster': 0, 'band': 0, 'in_db': True}]
        """
        from geolake_nb.scan.coverage import geo_type_of, mapped_column
        from geolake_nb.scan.rasters import raster_bands

        name = mapped_column(self.snapshot, column)
        if not isinstance(geo_type_of(self.snapshot, name), RasterType):
            raise GeolakeError(f"expected a raster column, got {printable(name, 100)}", where=self.location)
        return raster_bands(self._storage, self.snapshot, self._position(path), name)

    def explain(
        self,
        where: FilterInput,
        *,
        column: str | None = None,
        box_crs: str | Crs | CrsLike | None = None,
        row_groups: bool = False,
        spark: SparkSession | None = None,
    ) -> Explanation:
        """Which files a query reads and why.

        Args:
            where: a filter: SQL text, a predicate, or a predicate as JSON (text or dict). Or an area that the rows
                must intersect: a `Box`, a list, tuple or array of xmin, ymin, xmax, ymax (such as `total_bounds`), a
                shapely geometry, WKT, a GeoDataFrame (its total bounds), or the `window` of a map.
            column: the geo column of an area, if there are several.
            box_crs: the CRS of an area that has none of its own; by default the CRS of the column.
            row_groups: read the footers, and explain row groups too.
            spark: the session that compares strings with a collation; by default the running one. Without one
                their statistics skip nothing.

        Returns:
            How many files, rows and bytes are read, and the reason for each file.

        Raises:
            PredicateError: a filter that cannot be read, or that names a column which the table does not have.
            NoGeoColumnError: an area on a table without a geo column.

        Example:
            >>> t.explain((5, 45, 12, 52)).read.files  # no file has bounds: all are read
            3
            >>> repaired = gl.open(t.plan_repair().apply().location)
            >>> answer = repaired.explain("id < 3 AND ST_Intersects(geom, ST_MakeEnvelope(5, 45, 12, 52))")
            >>> answer.kept["path"].to_pylist(), answer.skipped["reason"].to_pylist()
            (['part-0.parquet'], ['outside_window', 'outside_window'])
        """
        from geolake_nb.scan.explain import explain
        from geolake_nb.spark.collations import collator_of

        groups = self.row_groups() if row_groups else None
        with self._with_wkb_hint():
            answer = explain(
                self.snapshot, where, column=column, box_crs=box_crs, row_groups=groups, collator=collator_of(spark)
            )
        return replace(answer, origin=self)

    def scan(
        self,
        where: FilterInput | None = None,
        *,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        version: int | None = None,
        column: str | None = None,
        box_crs: str | Crs | CrsLike | None = None,
        exact: bool = True,
        on_error: OnError = "warn",
        bands: bool = False,
        spark: SparkSession | None = None,
    ) -> Scan:
        """The rows of a query, reading only the files and row groups that can hold them.

        Args:
            where: what `explain` takes; `None` for all rows.
            columns: the top-level columns of the answer, all by default.
            limit: how many rows at the most.
            version: another version of the table.
            column: the geo column of an area, if there are several.
            box_crs: the CRS of an area that has none of its own; by default the CRS of the column.
            exact: test every row. Rows that cannot be decided here are an error; with `False` they are in the answer.
            on_error: what becomes of geometries in the filter that cannot be read: `warn` leaves their rows out with a
                warning, `ignore` without one, and `raise` is an error.
            bands: read the bands of rasters too, not only their metadata.
            spark: the session that compares strings with a collation; by default the running one.

        Returns:
            A `Scan`: `to_arrow`, `to_batches`, `to_pandas`, `to_geopandas` and `count` read the rows.

        Raises:
            PredicateError: a filter that cannot be read, or that names a column which the table does not have.
            SchemaError: `columns` that the table does not have.
            GeolakeError: a negative limit, or an unknown `on_error`.

        Example:
            >>> scan = t.scan((5, 45, 12, 52), columns=["id"])
            >>> scan.to_pandas()["id"].tolist()
            [0, 1, 2]
            >>> scan.metrics.rows
            3
        """
        from geolake_nb.api.scan import Scan

        return Scan(
            self if version is None else self.at(version),
            where,
            columns=columns,
            limit=limit,
            column=column,
            box_crs=box_crs,
            exact=exact,
            on_error=on_error,
            bands=bands,
            spark=spark,
        )

    def head(self, rows: int = 5) -> pd.DataFrame:
        """The first rows, a GeoDataFrame where there are geometries and geopandas is installed.

        Args:
            rows: how many rows at the most.

        Returns:
            A GeoDataFrame or a pandas DataFrame.

        Example:
            >>> t.head(2)
               id           geom
            0   0  POINT (10 50)
            1   1  POINT (11 51)
        """
        scan = self.scan(limit=rows)
        if not self._has(GeometryType, GeographyType):
            return scan.to_pandas()
        try:
            return scan.to_geopandas()
        except MissingDependencyError:
            return scan.to_pandas()

    def to_geopandas(self, where: FilterInput | None = None, *, columns: Sequence[str] | None = None) -> GeoDataFrame:
        """The rows of a query as a GeoDataFrame: `scan(where, columns=columns).to_geopandas()`.

        Args:
            where: what `explain` takes; `None` for all rows.
            columns: the top-level columns of the answer, all by default.

        Returns:
            A GeoDataFrame with the CRS of each geo column.

        Raises:
            MissingDependencyError: geopandas is not installed.
            SchemaError: none of the columns holds geometries.

        Example:
            >>> t.to_geopandas((5, 45, 12, 52)).total_bounds.tolist()
            [10.0, 50.0, 12.0, 52.0]
        """
        return self.scan(where, columns=columns).to_geopandas()

    def check(self, *, footers: bool = True, deep: bool | int = False, on_progress: Progress | None = None) -> Findings:
        """Problems of the table, each with the command that fixes it.

        Args:
            footers: read the Parquet footers and compare them with the metadata; without, only the metadata is read.
            deep: read every value of the geo columns, and of the floating-point columns that have minima and maxima in
                the footers; a number reads that many files, spread over the table.
            on_progress: called with the number of files that are done and that of all.

        Returns:
            The findings, the worst first, and the rules that could not be checked.

        Raises:
            GeolakeError: `deep` is a number below 1.

        Example:
            >>> for finding in t.check():
            ...     print(finding.severity.value, finding.rule, finding.scope)
            warning bounds.missing geom, 3 files
        """
        import pyarrow as pa

        from geolake_nb.checks.check import check
        from geolake_nb.formats.rules import RULES
        from geolake_nb.scan.data_files import missing_files, other_files

        if deep is not False and deep < 1:
            raise GeolakeError(
                f"a deep check of {plural(int(deep), 'file')} reads nothing",
                where=self.location,
                remedy="give how many files to read, from 1 on; --deep alone, in Python deep=True, reads all",
            )
        gone: list[int] = []
        others = other_files(self.snapshot)
        files = sorted({*range(len(self.files))} - {*others.positions}) if others.positions else None
        try:
            evidence = self._read_files(files, footers=footers, deep=deep, on_progress=on_progress)
            looked = bool(evidence) and files is None
            if footers and not looked:
                # Without geo columns, or for files that are not Parquet, no read so far would notice a missing file.
                with suppress(StorageError):  # missing files cannot be detected without read access
                    gone, looked = missing_files(self._storage, self.snapshot), True
        except MissingFileError:
            gone = missing_files(self._storage, self.snapshot)
            there = sorted({*(range(len(self.files)) if files is None else files)} - {*gone})
            evidence = self._read_files(there, footers=footers, deep=deep, on_progress=on_progress)
            looked = True
        if looked:
            evidence["missing"] = self.files.table.select(["path"]).take(pa.array(gone, pa.int64()))
        if footers:
            evidence["wkb"] = self.untyped_wkb
        return replace(check(self.snapshot, RULES, **evidence, others=others), origin=self)

    @cached_property
    def untyped_wkb(self) -> WkbSample:
        """The plain binary columns that hold WKB: reads a few values of one data file, on first access."""
        from geolake_nb.scan.wkb_sample import WkbSample, binary_columns, sample_wkb

        if not binary_columns(self.snapshot):
            return WkbSample()
        return sample_wkb(self._storage, self.snapshot)

    @contextmanager
    def _with_wkb_hint(self) -> Iterator[None]:
        """An error that a geo column is missing names the binary column that could be one."""
        from geolake_nb.checks.rules.untyped_wkb import typing_hint

        try:
            yield
        except NoGeoColumnError as problem:
            columns = self.untyped_wkb.columns
            # The error names a column if the query does; a map or a box names none.
            column = next((untyped for untyped in columns if untyped.path == problem.where), next(iter(columns), None))
            if column is None:
                raise
            hint = typing_hint(self.snapshot, column)
            raise NoGeoColumnError(problem.what, where=problem.where, remedy=hint) from None

    def _read_files(
        self, files: Sequence[int] | None, *, footers: bool, deep: bool | int, on_progress: Progress | None
    ) -> dict[str, Any]:
        """The inputs of a check for all files, or for some rows of the file table."""
        from geolake_nb.scan import data_files
        from geolake_nb.scan.value_scan import files_hiding_nan, narrow_row_groups

        inputs: dict[str, Any] = {}
        if footers and self._has(GeometryType, GeographyType):
            inputs["row_groups"], inputs["footers"] = data_files.footer_tables(
                self._storage, self.snapshot, files=files, on_progress=on_progress
            )
        if footers and self._has(RasterType):
            inputs["rasters"] = data_files.raster_groups(
                self._storage, self.snapshot, bands=bool(deep), files=files, on_progress=on_progress
            )
        if deep:
            rows = range(len(self.files)) if files is None else files
            wanted = len(rows) if deep is True else min(deep, len(rows))
            positions = [rows[number * len(rows) // wanted] for number in range(wanted)]
            inputs["deep"] = data_files.scan_values(self._storage, self.snapshot, positions, on_progress=on_progress)
            inputs["hidden_nan"] = files_hiding_nan(self._storage, self.snapshot, positions, on_progress=on_progress)
            if "row_groups" in inputs:
                inputs["narrow_groups"] = narrow_row_groups(
                    self._storage, self.snapshot, positions, inputs["row_groups"], on_progress=on_progress
                )
        return inputs

    @property
    def collations(self) -> TableCollations:
        """The collations of the strings, for which versions there are statistics, and which files lack them."""
        from geolake_nb.formats.delta.collations import table_collations

        return replace(table_collations(self.snapshot), origin=self)

    def _position(self, path: str) -> int:
        """The row of a data file in the file table."""
        import pyarrow.compute as pc

        position: int = pc.index(self.files.table["path"], path).as_py()
        if position < 0:
            raise GeolakeError(
                f"no file {printable(path, 200)!r}", where=self.location, remedy="t.files lists the paths"
            )
        return position

    def _has(self, *kinds: type) -> bool:
        return any(isinstance(field.type, kinds) for _, field in self.schema.geo_columns())
