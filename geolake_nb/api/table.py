"""An open table: what a user holds and asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from geolake_nb.api.opening import whole_number
from geolake_nb.api.table_plans import TablePlans
from geolake_nb.api.table_views import TableViews
from geolake_nb.core.message_text import printable
from geolake_nb.core.showing import Shown
from geolake_nb.core.types import GeographyType, GeometryType, RasterType
from geolake_nb.errors import GeolakeError, MissingFileError
from geolake_nb.formats.snapshot import History, TableFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from geolake_nb.api.opening import Source
    from geolake_nb.core.box import Box
    from geolake_nb.core.predicate import Predicate
    from geolake_nb.core.schema import Schema
    from geolake_nb.formats.file_table import FileTable
    from geolake_nb.formats.snapshot import Protocol, Snapshot
    from geolake_nb.planning.delta.table_collations import TableCollations
    from geolake_nb.planning.diff import Diff
    from geolake_nb.planning.health.finding import Findings
    from geolake_nb.planning.scan.explanation import Explanation

    Progress = Callable[[int, int], None]

__all__ = ["Table"]


class Table(TablePlans, TableViews, Shown):
    """A table at one version, read from its metadata; what reads data files says so."""

    def __init__(self, snapshot: Snapshot, source: Source) -> None:
        self.snapshot = snapshot
        self._source = source

    def __repr__(self) -> str:
        version = "" if self.version is None else f", version {self.version}"
        return f"Table({self.location!r}, {self.snapshot.format.value}{version})"

    def __str__(self) -> str:
        from geolake_nb.planning.table_card import table_card

        return table_card(self.snapshot)

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
        """What an engine must speak to read and to write the table."""
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
        """The versions of the table, or so many of them, newest first; of Parquet files what this toolkit changed."""
        if self.snapshot.format is TableFormat.PARQUET:
            from geolake_nb.formats.parquet.history import parquet_history

            return History(parquet_history(self.snapshot, newest=newest))
        return History(self._source.history(newest=newest))

    def at(self, version: int) -> Table:
        """The same table at another Delta version or Iceberg snapshot."""
        if self.snapshot.format is TableFormat.DELTA:
            return Table(self._source.snapshot(version=version), self._source)
        if self.snapshot.format is TableFormat.PARQUET:
            raise GeolakeError(
                "Parquet files have no versions to open or to compare",
                where=self.location,
                remedy="geolake history lists what was changed in them, and geolake undo takes it back",
            )
        return Table(self._source.snapshot(snapshot_id=version), self._source)

    def newest(self) -> Table:
        """The same table as it is now."""
        if self.snapshot.format is TableFormat.PARQUET:
            return Table(self._source.snapshot(), self._source)
        found = self.history(newest=1)
        return self if not found or found[0].version == self.version else self.at(found[0].version)

    def diff(self, old: int, new: int | None = None) -> Diff:
        """What changed between two versions; `new` is this one where it is not given."""
        from geolake_nb.planning.diff import diff

        later = self if new is None else self.at(new)
        return diff(self.at(old).snapshot, later.snapshot)

    def row_groups(self, *, files: Sequence[int] | None = None, on_progress: Progress | None = None) -> pa.Table:
        """The row groups of the data files with their boxes: reads the footers, in parallel.

        `files` are rows of the file table; all of them by default.
        """
        from geolake_nb.formats.data_files import row_group_table

        remedy = f"files= takes rows of t.files, from 0 to {len(self.files) - 1}"
        for place in () if files is None else files:
            number = whole_number("file", place, remedy=remedy)
            if number is None or not 0 <= number < len(self.files):
                raise GeolakeError(f"there is no file {number}", where=self.location, remedy=remedy)
        return row_group_table(self._storage, self.snapshot, files=files, on_progress=on_progress)

    def geometries(self, path: str, *, column: str | None = None, limit: int = 1000) -> NDArray[np.object_]:
        """At most so many geometries of one data file, as shapely's, in the CRS of the column: reads that column."""
        from geolake_nb.formats.data_files import sample_shapes
        from geolake_nb.planning.mapped_column import mapped_column

        return sample_shapes(
            self._storage, self.snapshot, self._position(path), mapped_column(self.snapshot, column), limit
        )

    def added_versions(self) -> pa.Array | None:
        """The version that added each file: reads the commits of a Delta table; `None` for other formats."""
        from geolake_nb.formats.delta.added_versions import added_versions

        if self.snapshot.format is not TableFormat.DELTA:
            return None
        return added_versions(self._storage, self.snapshot)

    def rasters(self, *, on_progress: Progress | None = None) -> pa.Table:
        """The rasters with their outlines: reads the metadata columns of the data files, never a pixel."""
        from geolake_nb.formats.data_files import raster_rows

        if not self._has(RasterType):
            raise GeolakeError("the table has no raster column", where=self.location, remedy="rasters are Havasu's")
        return raster_rows(self._storage, self.snapshot, on_progress=on_progress)

    def raster_bands(self, path: str, *, column: str | None = None) -> pa.Table:
        """The bands of the rasters in one data file: what a cell holds, and where the cells are; none is read."""
        from geolake_nb.formats.rasters.bands import raster_bands
        from geolake_nb.planning.mapped_column import geo_type_of, mapped_column

        name = mapped_column(self.snapshot, column)
        if not isinstance(geo_type_of(self.snapshot, name), RasterType):
            raise GeolakeError(f"{printable(name, 100)} is no raster column", where=self.location)
        return raster_bands(self._storage, self.snapshot, self._position(path), name)

    def explain(
        self,
        where: str | Predicate | Box,
        *,
        column: str | None = None,
        row_groups: bool = False,
        spark: SparkSession | None = None,
    ) -> Explanation:
        """Which files a query reads and why; with `row_groups` the footers are read and judged too.

        `where` is SQL text, a predicate, or a box that the rows have to meet; `column` says which geo column the
        box is about where there are several. Strings with a collation are compared by Spark: by the session that is
        given or by the one that runs; without one their statistics skip nothing.
        """
        from geolake_nb.planning.scan.explain import explain
        from geolake_nb.spark.collator import collator_of

        groups = self.row_groups() if row_groups else None
        return explain(self.snapshot, where, column=column, row_groups=groups, collator=collator_of(spark))

    def check(self, *, footers: bool = True, deep: bool | int = False, on_progress: Progress | None = None) -> Findings:
        """What is wrong with the table, and the command that mends it.

        By default the Parquet footers are read and compared with the metadata; `footers=False` looks at the metadata
        alone. `deep=True` reads every value of the geo columns, and of the floating-point columns that have minima and
        maxima in the footers; a number reads that many files, spread over the table.
        """
        import pyarrow as pa

        from geolake_nb.formats.data_files import missing_files
        from geolake_nb.planning.health.check import check

        if deep is not False and deep < 1:
            raise GeolakeError(
                f"a deep check of {deep} files reads nothing",
                where=self.location,
                remedy="give how many files to read, from 1 on; --deep alone, in Python deep=True, reads all",
            )
        gone: list[int] = []
        try:
            evidence = self._read_files(None, footers=footers, deep=deep, on_progress=on_progress)
        except MissingFileError:
            gone = missing_files(self._storage, self.snapshot)
            there = sorted({*range(len(self.files))} - {*gone})
            evidence = self._read_files(there, footers=footers, deep=deep, on_progress=on_progress)
        if evidence:
            evidence["missing"] = self.files.table.select(["path"]).take(pa.array(gone, pa.int64()))
        return check(self.snapshot, **evidence)

    def _read_files(
        self, files: Sequence[int] | None, *, footers: bool, deep: bool | int, on_progress: Progress | None
    ) -> dict[str, Any]:
        """What a check wants to know of the files, or of some of them: rows of the file table."""
        from geolake_nb.formats import data_files
        from geolake_nb.formats.nan_statistics import files_hiding_nan

        found: dict[str, Any] = {}
        if footers and self._has(GeometryType, GeographyType):
            found["row_groups"], found["footers"] = data_files.footer_tables(
                self._storage, self.snapshot, files=files, on_progress=on_progress
            )
        if footers and self._has(RasterType):
            found["rasters"] = data_files.raster_groups(
                self._storage, self.snapshot, bands=bool(deep), files=files, on_progress=on_progress
            )
        if deep:
            rows = range(len(self.files)) if files is None else files
            wanted = len(rows) if deep is True else min(deep, len(rows))
            positions = [rows[number * len(rows) // wanted] for number in range(wanted)]
            found["deep"] = data_files.scan_values(self._storage, self.snapshot, positions, on_progress=on_progress)
            found["hidden_nan"] = files_hiding_nan(self._storage, self.snapshot, positions, on_progress=on_progress)
        return found

    @property
    def collations(self) -> TableCollations:
        """The collations of the strings, for which versions there are statistics, and which files lack them."""
        from geolake_nb.planning.delta.table_collations import table_collations

        return table_collations(self.snapshot)

    def _position(self, path: str) -> int:
        """The row of a data file in the file table."""
        import pyarrow.compute as pc

        position: int = pc.index(self.files.table["path"], path).as_py()
        if position < 0:
            raise GeolakeError(
                f"no file {printable(path, 200)!r}", where=self.location, remedy="t.files has their paths"
            )
        return position

    def _has(self, *kinds: type) -> bool:
        return any(isinstance(field.type, kinds) for _, field in self.schema.geo_columns())
